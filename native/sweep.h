/*
 * Before READY: ends what an earlier spawner of the same engine left behind, because it was killed
 * itself. A new attempt must not start while a process of the old one lives, so it waits until the
 * kernel has really ended them. A process loses its environment long before its files and locks,
 * so each one is remembered by pid and start time. After SWEEP_PATIENCE_MS the spawner gives up and
 * says which process remains: one in an uninterruptible wait can hold files for as long as it likes.
 */
#ifndef DUCTILE_SWEEP_H
#define DUCTILE_SWEEP_H

#include "base.h"
#include "strays.h"
#include "wire.h"

enum { SWEEP_PATIENCE_MS = 30000, SWEEP_PAUSE_MS = 5, SWEEP_FAILED = 70 };

#if defined(__linux__)

typedef struct {
  pid_t pid;
  unsigned long long born;
} Condemned;

static Condemned *condemned;
static size_t condemned_count, condemned_room;

typedef struct {
  char state;
  long threads;
  unsigned long long born;
} Stat;

static bool read_stat(pid_t pid, Stat *stat) {
  char path[64], text[1024];
  snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  ssize_t got = read(fd, text, sizeof text - 1);
  close(fd);
  if (got <= 0) return false;
  text[got] = '\0';
  /* The program's name may contain any character, so fields are counted from its end. */
  char *at = strrchr(text, ')');
  return at != NULL && sscanf(at,
                              ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
                              "%ld %*d %llu",
                              &stat->state, &stat->threads, &stat->born) == 3;
}

/* A zombie leader with threads that are still ending isn't gone yet. */
static bool is_gone(const Condemned *one) {
  Stat stat;
  if (!read_stat(one->pid, &stat) || stat.born != one->born) return true;
  return (stat.state == 'Z' || stat.state == 'X') && stat.threads <= 1;
}

static void condemn(pid_t pid) {
  Stat stat;
  if (!read_stat(pid, &stat) || kill(pid, SIGKILL) < 0) return;
  for (size_t i = 0; i < condemned_count; i++) {
    if (condemned[i].pid == pid && condemned[i].born == stat.born) return;
  }
  if (condemned_count == condemned_room) {
    condemned_room = condemned_room == 0 ? 16 : condemned_room * 2;
    condemned = must_alloc(condemned, condemned_room * sizeof *condemned);
  }
  condemned[condemned_count++] = (Condemned){.pid = pid, .born = stat.born};
}

/* Kills processes with this service's marker; returns true if any was found or isn't gone yet. */
static bool sweep_once(const char *prefix) {
  DIR *proc = opendir("/proc");
  if (proc == NULL) return false;
  struct dirent *entry;
  while ((entry = readdir(proc)) != NULL) {
    pid_t pid = (pid_t)atol(entry->d_name);
    if (pid <= 1 || pid == getpid()) continue;
    const char *marker = read_marker(pid);
    if (marker != NULL && strncmp(marker, prefix, strlen(prefix)) == 0) condemn(pid);
  }
  closedir(proc);
  for (size_t i = condemned_count; i-- > 0;) {
    if (is_gone(&condemned[i])) condemned[i] = condemned[--condemned_count];
  }
  return condemned_count > 0;
}

static void sweep(const char *prefix) {
  uint64_t until = now_us() + (uint64_t)SWEEP_PATIENCE_MS * 1000u;
  while (sweep_once(prefix)) {
    if (now_us() > until) {
      fprintf(stderr, "spawner: process %ld of an earlier attempt was killed and does not end\n",
              (long)condemned[0].pid);
      _exit(SWEEP_FAILED);
    }
    struct pollfd engine = {.fd = 0, .events = POLLIN};
    if (poll(&engine, 1, SWEEP_PAUSE_MS) > 0) {
      if (!input_fill()) _exit(0);
      struct timespec pause = {.tv_nsec = SWEEP_PAUSE_MS * 1000 * 1000};
      nanosleep(&pause, NULL);
    }
  }
}

#else
static void sweep(const char *prefix) { (void)prefix; }
#endif

#endif
