/*
 * The limit: how many processes a second this machine starts, feeds, reads and reaps when nothing
 * else is done. One thread, posix_spawn and epoll; every process has three pipes and a group of
 * its own, gets the request on stdin, and must print something and exit with 0.
 *
 *   limit SLOTS SECONDS PROGRAM < request
 *
 * Prints {"jobs": …, "rate": …}.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

/* A request must fit into a pipe's buffer, so that writing it never waits for the reader. */
enum { SLOTS_MAX = 256, REQUEST_MAX = 4096 };

struct slot {
  pid_t pid;
  int out, err;
  int open;
  size_t printed;
};

static struct slot slots[SLOTS_MAX];
static char request[REQUEST_MAX];
static size_t request_size;
static char **command;
static int poller;

static void watch(int fd, int index, int is_err) {
  struct epoll_event event = {.events = EPOLLIN, .data.u64 = index * 2 + is_err};
  if (epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event)) fail("epoll_ctl");
}

static pid_t spawn_child(int in, int out, int err) {
  extern char **environ;
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in, 0);
  posix_spawn_file_actions_adddup2(&actions, out, 1);
  posix_spawn_file_actions_adddup2(&actions, err, 2);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  pid_t pid;
  errno = posix_spawn(&pid, command[0], &actions, &attributes, command, environ);
  if (errno) fail("posix_spawn");
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return pid;
}

static void start(int index) {
  int in[2], out[2], err[2];
  if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC)) fail("pipe2");
  pid_t pid = spawn_child(in[0], out[1], err[1]);
  close(in[0]);
  close(out[1]);
  close(err[1]);
  if (write(in[1], request, request_size) != (ssize_t)request_size && errno != EPIPE) fail("write");
  close(in[1]);
  slots[index] = (struct slot){.pid = pid, .out = out[0], .err = err[0], .open = 2};
  watch(out[0], index, 0);
  watch(err[0], index, 1);
}

/* True when that was the end of the slot's process. */
static int serve(int index, int is_err) {
  struct slot *slot = &slots[index];
  char buffer[4096];
  int fd = is_err ? slot->err : slot->out;
  ssize_t got = read(fd, buffer, sizeof buffer);
  if (got < 0) fail("read");
  if (got > 0) {
    if (!is_err) slot->printed += got;
    return 0;
  }
  /* Not left to close(): a child that is just being started may hold the same pipe for a moment. */
  if (epoll_ctl(poller, EPOLL_CTL_DEL, fd, NULL)) fail("epoll_ctl");
  close(fd);
  if (--slot->open > 0) return 0;
  int status;
  if (waitpid(slot->pid, &status, 0) < 0) fail("waitpid");
  if (status != 0 || slot->printed == 0) {
    fprintf(stderr, "%s: wait status %d, %zu bytes printed\n", command[0], status, slot->printed);
    exit(1);
  }
  return 1;
}

int main(int argc, char **argv) {
  if (argc < 4) {
    fputs("usage: limit SLOTS SECONDS PROGRAM [ARGUMENT...] < request\n", stderr);
    return 2;
  }
  int slot_count = atoi(argv[1]);
  double seconds = atof(argv[2]);
  command = argv + 3;
  if (slot_count < 1 || slot_count > SLOTS_MAX) return 2;
  request_size = fread(request, 1, sizeof request, stdin);
  signal(SIGPIPE, SIG_IGN);
  poller = epoll_create1(EPOLL_CLOEXEC);

  double began = now(), end = began + seconds;
  long jobs = 0;
  int running = slot_count;
  for (int i = 0; i < slot_count; i++) start(i);
  while (running > 0) {
    struct epoll_event events[64];
    int count = epoll_wait(poller, events, 64, -1);
    for (int k = 0; k < count; k++) {
      int index = events[k].data.u64 / 2;
      if (!serve(index, events[k].data.u64 % 2)) continue;
      jobs++;
      if (now() < end) start(index);
      else running--;
    }
  }
  printf("{\"jobs\":%ld,\"rate\":%.1f}\n", jobs, jobs / (now() - began));
  return 0;
}
