/*
 * Strays: descendants that left the group of their run by setsid, setpgid or a double fork.
 *
 * On Linux the spawner is a child subreaper: an orphan becomes the spawner's child instead of init's. So
 * each descendant is reachable: it is a child of the spawner, or of a child that can be killed, after
 * which it is the spawner's. /proc/self/task/<tid>/children lists the children; one that doesn't lead a
 * run is a stray. Its run is found by its session, or else by DUCTILE_ATTEMPT in /proc/<pid>/environ,
 * which the service makes unique for each process and children inherit. A stray may live as long as its
 * run. A stray without a known run (it cleared its environment, or is set-uid) belongs to a run of the
 * time when it appeared. It is killed when all of those have ended. The pid of an unreaped child can't
 * be reused, so no other process is ever hit.
 *
 * Elsewhere, or without that file, there is no subreaper: what leaves the group is out of reach.
 */
#ifndef DUCTILE_STRAYS_H
#define DUCTILE_STRAYS_H

#include "base.h"
#include "run.h"

typedef struct {
  pid_t pid;
  uint64_t serial; /* of its run; when that is not known, of the newest run when it came */
  bool known, killed;
} Stray;

static Stray *strays;
static size_t stray_count, stray_room;

static void stray_add(pid_t pid, uint64_t serial, bool known, bool killed) {
  if (stray_count == stray_room) {
    stray_room = stray_room == 0 ? 16 : stray_room * 2;
    strays = must_alloc(strays, stray_room * sizeof *strays);
  }
  strays[stray_count++] =
      (Stray){.pid = pid, .serial = serial, .known = known, .killed = killed};
}

static void strays_reap(void) {
  for (size_t i = stray_count; i-- > 0;) {
    if (waitpid(strays[i].pid, NULL, WNOHANG) == 0) continue;
    strays[i] = strays[--stray_count];
  }
}

#if defined(__linux__)
#include <dirent.h>

/* Reads the marker from a process's environment, or NULL. */
static const char *read_marker(pid_t pid) {
  static char text[256 * 1024];
  char path[64];
  snprintf(path, sizeof path, "/proc/%ld/environ", (long)pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return NULL;
  size_t length = 0;
  ssize_t got;
  while ((got = read(fd, text + length, sizeof text - 1 - length)) > 0) length += (size_t)got;
  close(fd);
  text[length] = '\0';
  for (char *at = text; at < text + length; at += strlen(at) + 1) {
    if (strncmp(at, MARKER_KEY, sizeof MARKER_KEY - 1) == 0) return at + sizeof MARKER_KEY - 1;
  }
  return NULL;
}

#endif

#if HAS_SUBREAPER
#include <sys/prctl.h>

static int children_fd = -1;

static void strays_open(void) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%ld/children", (long)getpid());
  children_fd = open(path, O_RDONLY | O_CLOEXEC);
  if (children_fd >= 0 && prctl(PR_SET_CHILD_SUBREAPER, 1) == 0) return;
  fprintf(stderr, "spawner: no list of children here: processes that leave their group escape\n");
  if (children_fd >= 0) close(children_fd);
  children_fd = -1;
}

/* "12 34 56 ": the number of pids, and the text in `text`. */
static size_t list_children(Bytes *text) {
  text->length = 0;
  for (;;) {
    bytes_need(text, 4096);
    ssize_t got = pread(children_fd, text->data + text->length, text->room - text->length - 1,
                        (off_t)text->length);
    if (got <= 0) break;
    text->length += (size_t)got;
  }
  text->data[text->length] = '\0';
  size_t count = 0;
  for (size_t i = 0; i < text->length; i++) count += text->data[i] == ' ';
  return count;
}

static bool is_known_child(pid_t pid) {
  EACH_RUN(run) if (run->pid == pid) return true;
  for (size_t i = 0; i < stray_count; i++) {
    if (strays[i].pid == pid) return true;
  }
  return false;
}

static void adopt(pid_t pid) {
  pid_t session = getsid(pid);
  EACH_RUN(run) if (run->pid == session) {
    stray_add(pid, run->serial, true, false);
    return;
  }
  const char *marker = read_marker(pid);
  if (marker == NULL) {
    stray_add(pid, last_serial, false, false);
    return;
  }
  uint64_t serial = 0; /* marked, but not for a run that lives */
  EACH_RUN(run) if (strcmp(run->marker, marker) == 0) serial = run->serial;
  stray_add(pid, serial, true, false);
}

/* All leaders and known strays are in the list, so an equal count means no new process. */
static bool adopt_new(void) {
  static Bytes text;
  if (list_children(&text) == run_count + stray_count) return false;
  bool reaped = false;
  char *end = NULL;
  for (char *at = (char *)text.data; *at != '\0'; at = end) {
    pid_t pid = (pid_t)strtol(at, &end, 10);
    if (end == at) break;
    if (is_known_child(pid)) continue;
    if (waitpid(pid, NULL, WNOHANG) == 0) adopt(pid);
    else reaped = true;
  }
  return reaped;
}

static bool may_live(const Stray *stray) {
  EACH_RUN(run) {
    if (stray->known ? run->serial == stray->serial : run->serial <= stray->serial) return true;
  }
  return false;
}

/* Kills its group, too, in case the stray forks; never the spawner's own group or that of a live run. */
static void kill_stray(Stray *stray) {
  pid_t group = getpgid(stray->pid);
  bool shared = group <= 1 || group == getpgrp();
  EACH_RUN(run) shared = shared || run->pid == group;
  if (!shared) kill(-group, SIGKILL);
  kill(stray->pid, SIGKILL);
  stray->killed = true;
}

/* Called after an exit or the end of a run. Reaping an orphan can yield new children, so it repeats. */
static void strays_check(void) {
  if (children_fd < 0) return;
  while (adopt_new()) continue;
  for (size_t i = 0; i < stray_count; i++) {
    if (!strays[i].killed && !may_live(&strays[i])) kill_stray(&strays[i]);
  }
}

/* Kills all current children; their children are in the next list. */
static void kill_children(void) {
  static Bytes text;
  if (children_fd < 0) return;
  list_children(&text);
  char *end = NULL;
  for (char *at = (char *)text.data; *at != '\0'; at = end) {
    pid_t pid = (pid_t)strtol(at, &end, 10);
    if (end == at) break;
    kill(pid, SIGKILL);
  }
}

#else

static void strays_open(void) {}
static void strays_check(void) {}
static void kill_children(void) {}

#endif

/* Kills all descendants when the spawner ends, for at most `patience_us`. */
static void kill_descendants(uint64_t patience_us) {
  uint64_t until = now_us() + patience_us;
  struct timespec pause = {.tv_nsec = 2 * 1000 * 1000};
  kill_groups();
  for (;;) {
    kill_children();
    pid_t reaped;
    while ((reaped = waitpid(-1, NULL, WNOHANG)) > 0) continue;
    if (reaped < 0 || now_us() > until) return;
    nanosleep(&pause, NULL);
  }
}

#endif
