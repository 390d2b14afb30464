/*
 * A control group (version 2) for each run with limits, where the spawner has a subtree of its own:
 * DUCTILE_CGROUP=delegated says so, as deploy/ductile.service does together with Delegate=. It knows
 * all processes of a run whatever they do, their CPU time, and kills them at once; with the memory and
 * pids controllers the kernel enforces those limits itself.
 *
 * Groups with processes can't have children with controllers, so everything that is in ours, the
 * engine too, moves into a group below it first. Where any of this fails there is no group, and runs
 * are watched by /proc alone.
 */
#ifndef DUCTILE_CGROUP_H
#define DUCTILE_CGROUP_H

#include "base.h"
#include "oom.h"
#include "run.h"

#if HAS_SUBREAPER
#include <dirent.h>
#include <limits.h>

/* The kernel counts threads, we count processes: this many of each are never too many. */
enum { THREADS_PER_PROCESS = 32, MOVE_ROUNDS = 8 };

static const char SERVICE_GROUP[] = "service";
static const char RUN_GROUP[] = "attempt-";
static int cgroup_root = -1;
static bool cgroups_linger; /* some could not be removed yet */

static bool is_watched(const Run *run) {
  return run->limits.memory != 0 || run->limits.processes != 0 || run->limits.cpu_ms != 0;
}

static bool write_at(int directory, const char *name, const char *text) {
  int fd = openat(directory, name, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  ssize_t sent = write(fd, text, strlen(text));
  close(fd);
  return sent == (ssize_t)strlen(text);
}

static bool write_number_at(int directory, const char *name, uint64_t number) {
  char text[32];
  snprintf(text, sizeof text, "%llu", (unsigned long long)number);
  return write_at(directory, name, text);
}

static ssize_t read_at(int directory, const char *name, char *text, size_t room) {
  int fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t got = read(fd, text, room - 1);
  close(fd);
  if (got >= 0) text[got] = '\0';
  return got;
}

/* Processes may fork meanwhile, so this is repeated until none is left. */
static bool move_all(int from, int into) {
  char *text = (char *)scratch;
  for (int round = 0; round < MOVE_ROUNDS; round++) {
    if (read_at(from, "cgroup.procs", text, sizeof scratch) <= 0) return true;
    char *end = NULL;
    for (char *at = text; *at != '\0'; at = end) {
      long pid = strtol(at, &end, 10);
      if (end == at) break;
      write_number_at(into, "cgroup.procs", (uint64_t)pid);
    }
  }
  return false;
}

static int open_directory(int at, const char *name) {
  return openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

/* Opens the spawner's own control group; -1 if there is none. */
static int open_own_cgroup(char *path, size_t room) {
  char groups[8192];
  if (read_file("/proc/self/cgroup", groups, sizeof groups) <= 0) return -1;
  char *at = strncmp(groups, "0::", 3) == 0 ? groups : strstr(groups, "\n0::");
  if (at == NULL) return -1;
  at = strchr(at, '/');
  if (at == NULL) return -1;
  at[strcspn(at, "\n")] = '\0';
  bool alone = access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0;
  snprintf(path, room, "/sys/fs/cgroup%s%s", alone ? "" : "/unified", at);
  return strcmp(at, "/") == 0 ? -1 : open_directory(AT_FDCWD, path);
}

/* Removes the groups of an earlier spawner and kills their processes. */
static void remove_run_groups(void) {
  int copy = open_directory(cgroup_root, ".");
  DIR *list = copy < 0 ? NULL : fdopendir(copy);
  if (list == NULL) return;
  cgroups_linger = false;
  struct dirent *entry;
  while ((entry = readdir(list)) != NULL) {
    if (strncmp(entry->d_name, RUN_GROUP, sizeof RUN_GROUP - 1) != 0) continue;
    bool used = false;
    EACH_RUN(run) used = used || (run->cgroup >= 0 && strcmp(run->cgroup_name, entry->d_name) == 0);
    if (used || unlinkat(cgroup_root, entry->d_name, AT_REMOVEDIR) == 0) continue;
    int group = open_directory(cgroup_root, entry->d_name);
    if (group >= 0) write_at(group, "cgroup.kill", "1");
    if (group >= 0) close(group);
    cgroups_linger = true;
  }
  closedir(list);
}

static void cgroup_open(void) {
  const char *said = getenv("DUCTILE_CGROUP");
  char path[PATH_MAX];
  if (said == NULL || strcmp(said, "delegated") != 0) return;
  int own = open_own_cgroup(path, sizeof path);
  if (own < 0) return;
  const char *name = strrchr(path, '/') + 1;
  if (strcmp(name, SERVICE_GROUP) == 0) {
    cgroup_root = openat(own, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    close(own);
  } else {
    mkdirat(own, SERVICE_GROUP, 0755);
    int service = open_directory(own, SERVICE_GROUP);
    if (service >= 0 && move_all(own, service)) cgroup_root = own;
    if (service >= 0) close(service);
    if (cgroup_root < 0) close(own);
  }
  if (cgroup_root < 0) {
    fprintf(stderr, "spawner: no control groups: %s\n", strerror(errno));
    return;
  }
  write_at(cgroup_root, "cgroup.subtree_control", "+memory");
  write_at(cgroup_root, "cgroup.subtree_control", "+pids");
  remove_run_groups();
}

/* Creates the group before its process, which joins it by itself (limits.h). */
static void cgroup_add(Run *run) {
  if (cgroup_root < 0 || !is_watched(run)) return;
  snprintf(run->cgroup_name, sizeof run->cgroup_name, "%s%llu", RUN_GROUP,
           (unsigned long long)run->serial);
  if (mkdirat(cgroup_root, run->cgroup_name, 0755) < 0) return;
  run->cgroup = open_directory(cgroup_root, run->cgroup_name);
  if (run->cgroup < 0) return;
  const Limits *limits = &run->limits;
  if (limits->memory != 0 && write_number_at(run->cgroup, "memory.max", limits->memory)) {
    write_at(run->cgroup, "memory.swap.max", "0");
    write_at(run->cgroup, "memory.oom.group", "1");
  }
  if (limits->processes != 0) {
    write_number_at(run->cgroup, "pids.max", (uint64_t)limits->processes * THREADS_PER_PROCESS);
  }
  run->limits.join = openat(run->cgroup, "cgroup.procs", O_WRONLY | O_CLOEXEC);
}

static void cgroup_joined(Run *run) {
  if (run->limits.join > 0) close(run->limits.join);
  run->limits.join = 0;
}

static bool cgroup_has_oomed(const Run *run) {
  char text[1024];
  if (run->cgroup < 0 || read_at(run->cgroup, "memory.events", text, sizeof text) <= 0) return false;
  return find_number(text, "oom_kill ") > 0;
}

static uint64_t cgroup_cpu_us(const Run *run) {
  char text[1024];
  if (run->cgroup < 0 || read_at(run->cgroup, "cpu.stat", text, sizeof text) <= 0) return 0;
  return find_number(text, "usage_usec ");
}

/* Kills every process of the run, wherever it went. */
static void cgroup_end(Run *run) {
  if (run->cgroup < 0) return;
  uint64_t cpu_us = cgroup_cpu_us(run);
  if (cpu_us > run->cpu_us) run->cpu_us = cpu_us;
  if (unlinkat(cgroup_root, run->cgroup_name, AT_REMOVEDIR) < 0) {
    write_at(run->cgroup, "cgroup.kill", "1");
    cgroups_linger = true;
  }
  close(run->cgroup);
  run->cgroup = -1;
}

static void cgroups_sweep(void) {
  if (cgroups_linger) remove_run_groups();
}

#else

static void cgroup_open(void) {}
static void cgroup_add(Run *run) { (void)run; }
static void cgroup_joined(Run *run) { (void)run; }
static bool cgroup_has_oomed(const Run *run) { (void)run; return false; }
static void cgroup_end(Run *run) { (void)run; }
static void cgroups_sweep(void) {}

#endif
#endif
