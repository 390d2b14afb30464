/*
 * A box: namespaces of processes, mounts, IPC and, if wanted, the network. Three processes make it.
 *
 *   keeper   the child of the spawner, outside: it ends as the plugin does
 *   init     process 1 of the box: it collects orphans, and passes signals of the spawner on
 *   plugin   process 2, in a session of its own
 *
 * The keeper and init are in the group that the spawner kills. The kernel kills everything in the box
 * when init dies, and init dies with the keeper, so nothing that a plugin starts can outlive it.
 */
#ifndef DUCTILE_BOX_H
#define DUCTILE_BOX_H

#include "profile.h"
#include "root.h"

#if defined(__linux__)
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

/* Report of the plugin's end, from init to the keeper. */
typedef struct {
  int status;
  bool is_last; /* nothing else is left in the box */
} BoxEnd;

static void write_file(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  ssize_t length = (ssize_t)strlen(text);
  if (fd < 0 || write(fd, text, (size_t)length) != length) cannot(path);
  close(fd);
}

/* Maps one user and one group to the same ids as outside. */
static void map_user(uid_t user, gid_t group) {
  char text[64];
  write_file("/proc/self/setgroups", "deny");
  snprintf(text, sizeof text, "%u %u 1", (unsigned)user, (unsigned)user);
  write_file("/proc/self/uid_map", text);
  snprintf(text, sizeof text, "%u %u 1", (unsigned)group, (unsigned)group);
  write_file("/proc/self/gid_map", text);
}

/* A new network namespace has only a loopback, which is down at first. */
static void raise_loopback(void) {
  struct ifreq request = {.ifr_flags = IFF_UP};
  memcpy(request.ifr_name, "lo", sizeof "lo");
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) < 0) cannot("loopback");
  close(fd);
}

static void close_streams(void) {
  for (int fd = 0; fd <= 2; fd++) close(fd);
}

/* Ends with the plugin's exit code or signal, so that the spawner sees it. */
static void end_alike(int status) {
  if (WIFEXITED(status)) _exit(WEXITSTATUS(status));
  int number = WTERMSIG(status);
  sigset_t none;
  sigemptyset(&none);
  signal(number, SIG_DFL);
  sigprocmask(SIG_SETMASK, &none, NULL);
  kill(getpid(), number);
  _exit(128 + number);
}

static void keep_box(pid_t init, int report) {
  BoxEnd end;
  int status = 0;
  close_streams();
  ssize_t got = read(report, &end, sizeof end);
  if (got == (ssize_t)sizeof end && !end.is_last) end_alike(end.status);
  while (waitpid(init, &status, 0) < 0 && errno == EINTR) continue;
  end_alike(got == (ssize_t)sizeof end ? end.status : status);
}

/* Reports the plugin's end at once. Its leftovers may keep writing until the spawner kills them. */
static void report_end(int report, BoxEnd end) {
  if (!end.is_last) prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
  ssize_t sent = write(report, &end, sizeof end);
  if (sent < 0 || end.is_last) _exit(0);
  close(report);
}

static void collect(pid_t plugin, int report) {
  static bool reported;
  int status, of_plugin = 0;
  bool ended = false;
  pid_t found;
  while ((found = waitpid(-1, &status, WNOHANG)) > 0) {
    if (found != plugin) continue;
    ended = true;
    of_plugin = status;
  }
  bool is_empty = found < 0;
  if (ended) report_end(report, (BoxEnd){of_plugin, is_empty});
  if (ended) reported = true;
  if (is_empty && reported) _exit(0);
}

static void run_init(pid_t plugin, int report, const sigset_t *all) {
  close_streams();
  for (;;) {
    int number = 0;
    if (sigwait(all, &number) != 0) continue;
    if (number == SIGCHLD) collect(plugin, report);
    else if (number == SIGTERM || number == SIGCONT) kill(-plugin, number);
  }
}

/* Returns only in the plugin's process, inside the box, before it has dropped its rights. */
static void enter_box(void) {
  uid_t user = geteuid();
  gid_t group = getegid();
  sigset_t all, before;
  int report[2];
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (pipe2(report, O_CLOEXEC) < 0) cannot("pipe");
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  unsigned long spaces = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS;
  if (profile.user == 0) spaces |= CLONE_NEWUSER;
  if (profile.no_network) spaces |= CLONE_NEWNET;
  long init = syscall(SYS_clone, spaces | SIGCHLD, 0, 0, 0, 0);
  if (init < 0) cannot("namespaces");
  if (init > 0) {
    close(report[1]);
    keep_box((pid_t)init, report[0]);
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  close(report[0]);
  if (profile.user == 0) map_user(user, group);
  build_root();
  if (profile.no_network) raise_loopback();
  pid_t plugin = fork();
  if (plugin < 0) cannot("fork");
  if (plugin > 0) run_init(plugin, report[1], &all);
  close(report[1]);
  setsid();
  sigprocmask(SIG_SETMASK, &before, NULL);
}

#endif
#endif
