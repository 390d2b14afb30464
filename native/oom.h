/*
 * Detects kills for lack of memory. The kernel counts them in the spawner's control group, in version 2
 * also for the groups below it. Read only after a SIGKILL that the spawner didn't send.
 */
#ifndef DUCTILE_OOM_H
#define DUCTILE_OOM_H

#include "base.h"

#if defined(__linux__)
#include <limits.h>

static char oom_path[PATH_MAX];
static uint64_t oom_kills;

static ssize_t read_file(const char *path, char *text, size_t room) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t got = read(fd, text, room - 1);
  close(fd);
  if (got >= 0) text[got] = '\0';
  return got;
}

/* Returns the number after a word at the start of a line, or 0. */
static uint64_t find_number(const char *text, const char *word) {
  size_t length = strlen(word);
  for (const char *at = text; at != NULL && *at != '\0'; at = strchr(at, '\n')) {
    if (*at == '\n') at++;
    if (strncmp(at, word, length) == 0) return strtoull(at + length, NULL, 10);
  }
  return 0;
}

static uint64_t read_oom_kills(void) {
  char text[1024];
  if (oom_path[0] == '\0' || read_file(oom_path, text, sizeof text) < 0) return 0;
  return find_number(text, "oom_kill ");
}

/* Opens the first existing one: the unified hierarchy, the hybrid one, or the memory hierarchy. */
static void oom_open(void) {
  static const char *const forms[][2] = {
      {"0::", "/sys/fs/cgroup%s/memory.events"},
      {"0::", "/sys/fs/cgroup/unified%s/memory.events"},
      {":memory:", "/sys/fs/cgroup/memory%s/memory.oom_control"},
      {":memory:", "/sys/fs/cgroup/memory/memory.oom_control"}, /* in a container */
  };
  char groups[8192];
  if (read_file("/proc/self/cgroup", groups, sizeof groups) < 0) return;
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    const char *found = strstr(groups, forms[i][0]);
    if (found == NULL) continue;
    char path[PATH_MAX];
    size_t length = strcspn(found += strlen(forms[i][0]), "\n");
    snprintf(path, sizeof path, "%.*s", (int)length, found);
    snprintf(oom_path, sizeof oom_path, forms[i][1], strcmp(path, "/") == 0 ? "" : path);
    if (access(oom_path, R_OK) == 0) break;
    oom_path[0] = '\0';
  }
  oom_kills = read_oom_kills();
}

static bool has_oom_killed(void) {
  uint64_t kills = read_oom_kills();
  bool more = kills > oom_kills;
  oom_kills = kills;
  return more;
}

#else
static void oom_open(void) {}
static bool has_oom_killed(void) { return false; }
#endif
#endif
