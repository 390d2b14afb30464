/*
 * Measures the usage of a run: all of its processes together. They are found from its leader and its
 * strays downwards by the lists of children in /proc. So the cost depends on the size of the run, not of
 * the machine. Only runs with limits are measured, at least once per second, with at most about 2 %
 * of one CPU.
 *
 * Memory is anonymous and shared memory, including its swapped part. Pages that processes share after a
 * fork are counted in each of them. So before a run is stopped for its memory, the proportional size is
 * read, which is exact and slow.
 */
#ifndef DUCTILE_USAGE_H
#define DUCTILE_USAGE_H

#include "base.h"
#include "cgroup.h"
#include "life.h"
#include "oom.h"
#include "run.h"
#include "strays.h"

enum { LOOK_MIN_US = 20 * 1000, LOOK_MAX_US = 100 * 1000, LOOK_HELD_US = 1000 * 1000 };
enum { LOOK_SHARE = 50, LOOK_RARELY_US = 1000 * 1000, MEMBERS_MAX = 4096 };

#if HAS_SUBREAPER

static pid_t members[MEMBERS_MAX];
static size_t member_count;

static void member_add(pid_t pid) {
  if (member_count < MEMBERS_MAX) members[member_count++] = pid;
}

static ssize_t read_proc(pid_t pid, const char *name, char *text, size_t room) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%ld/%s", (long)pid, name);
  return read_file(path, text, room);
}

static void add_children_of(pid_t pid, pid_t thread) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", (long)pid, (long)thread);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  char *text = (char *)scratch;
  ssize_t got = read(fd, text, sizeof scratch - 1);
  close(fd);
  if (got <= 0) return;
  text[got] = '\0';
  char *end = NULL;
  for (char *at = text; *at != '\0'; at = end) {
    pid_t child = (pid_t)strtol(at, &end, 10);
    if (end == at) return;
    member_add(child);
  }
}

/* Adds children, which are listed by the thread that started them. */
static void add_children(pid_t pid, uint64_t threads) {
  if (threads <= 1) {
    add_children_of(pid, pid);
    return;
  }
  char path[64];
  snprintf(path, sizeof path, "/proc/%ld/task", (long)pid);
  DIR *tasks = opendir(path);
  if (tasks == NULL) return;
  struct dirent *entry;
  while ((entry = readdir(tasks)) != NULL) {
    pid_t thread = (pid_t)atol(entry->d_name);
    if (thread > 0) add_children_of(pid, thread);
  }
  closedir(tasks);
}

/* A stray with unknown origin belongs to the only run that can have started it. */
static bool is_stray_of(const Stray *stray, const Run *run) {
  if (stray->killed) return false;
  if (stray->known) return stray->serial == run->serial;
  if (run->serial > stray->serial) return false;
  EACH_RUN(other) if (other != run && other->serial <= stray->serial) return false;
  return true;
}

static uint64_t read_cpu_us(pid_t pid) {
  char text[1024];
  if (read_proc(pid, "stat", text, sizeof text) <= 0) return 0;
  const char *at = strrchr(text, ')');
  unsigned long long user = 0, system = 0, children_user = 0, children_system = 0;
  if (at == NULL || sscanf(at, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu",
                           &user, &system, &children_user, &children_system) != 4) {
    return 0;
  }
  static long ticks;
  if (ticks == 0) ticks = sysconf(_SC_CLK_TCK);
  return (user + system + children_user + children_system) * 1000000u / (uint64_t)ticks;
}

typedef struct {
  uint64_t memory, cpu_us;
  uint32_t processes;
} Usage;

/* Adds the processes of the run's control group, which are complete. */
static bool add_group(const Run *run) {
  char *text = (char *)scratch;
  if (run->cgroup < 0 || read_at(run->cgroup, "cgroup.procs", text, sizeof scratch) <= 0) return false;
  char *end = NULL;
  for (char *at = text; *at != '\0'; at = end) {
    pid_t pid = (pid_t)strtol(at, &end, 10);
    if (end == at) break;
    member_add(pid);
  }
  return true;
}

/* Finds the processes of the run, stores them in `members`, and sums up their usage. */
static Usage read_usage(const Run *run) {
  Usage usage = {0};
  char text[4096];
  member_count = 0;
  bool grouped = add_group(run);
  if (!grouped) member_add(run->pid);
  for (size_t i = 0; !grouped && i < stray_count; i++) {
    if (is_stray_of(&strays[i], run)) member_add(strays[i].pid);
  }
  for (size_t i = 0; i < member_count; i++) {
    if (read_proc(members[i], "status", text, sizeof text) <= 0) continue;
    const char *state = strstr(text, "\nState:\t");
    usage.cpu_us += read_cpu_us(members[i]);
    if (state != NULL && (state[8] == 'Z' || state[8] == 'X')) continue;
    usage.processes++;
    usage.memory += 1024u * (find_number(text, "RssAnon:") + find_number(text, "RssShmem:") +
                             find_number(text, "VmSwap:"));
    if (!grouped) add_children(members[i], find_number(text, "Threads:"));
  }
  if (grouped) usage.cpu_us = cgroup_cpu_us(run);
  return usage;
}

/* Sums up proportional sizes. A process that can't be read counts as before. */
static uint64_t read_exact_memory(void) {
  uint64_t sum = 0;
  char text[4096];
  for (size_t i = 0; i < member_count; i++) {
    if (read_proc(members[i], "smaps_rollup", text, sizeof text) > 0) {
      uint64_t file = find_number(text, "Pss_File:");
      uint64_t all = find_number(text, "Pss:");
      sum += 1024u * (all - (file < all ? file : all) + find_number(text, "SwapPss:"));
    } else if (read_proc(members[i], "status", text, sizeof text) > 0) {
      sum += 1024u * (find_number(text, "RssAnon:") + find_number(text, "VmSwap:"));
    }
  }
  return sum;
}

static bool is_over_half(const Run *run, const Usage *usage) {
  const Limits *limits = &run->limits;
  return (limits->memory != 0 && usage->memory > limits->memory / 2) ||
         (limits->processes != 0 && usage->processes > limits->processes / 2);
}

static uint64_t look_interval_us(const Run *run, const Usage *usage, uint64_t cost_us) {
  uint64_t age = now_us() - run->since_us;
  uint64_t interval = age / 4 < LOOK_MIN_US ? LOOK_MIN_US : age / 4;
  if (interval > LOOK_MAX_US) interval = LOOK_MAX_US;
  if (is_over_half(run, usage)) interval = LOOK_MIN_US;
  if (run->phase == HELD) interval = LOOK_HELD_US;
  uint64_t watched = 0;
  EACH_RUN(other) watched += is_watched(other);
  uint64_t least = cost_us * watched * LOOK_SHARE;
  if (least > LOOK_RARELY_US) least = LOOK_RARELY_US;
  return interval < least ? least : interval;
}

static void look_at(Run *run) {
  /* Measures the spawner's own CPU time, because on a busy machine it mostly waits. */
  uint64_t begun = read_clock_us(CLOCK_PROCESS_CPUTIME_ID);
  Usage usage = read_usage(run);
  const Limits *limits = &run->limits;
  if (limits->memory != 0 && usage.memory > limits->memory) usage.memory = read_exact_memory();
  if (usage.memory > run->memory_peak) run->memory_peak = usage.memory;
  if (usage.cpu_us > run->cpu_us) run->cpu_us = usage.cpu_us;
  run->look_us = now_us() + look_interval_us(run, &usage, read_clock_us(CLOCK_PROCESS_CPUTIME_ID) - begun);
  if (run->phase == KILLED || run->phase == DRAINING) return;
  if (limits->memory != 0 && usage.memory > limits->memory) kill_now(run, BY_MEMORY);
  else if (limits->processes != 0 && usage.processes > limits->processes) {
    kill_now(run, BY_PROCESSES);
  } else if (limits->cpu_ms != 0 && usage.cpu_us / 1000u >= limits->cpu_ms) stop(run, BY_CPU);
}

static void usage_watch(Run *run) {
  if (is_watched(run)) run->look_us = now_us() + (run->held ? LOOK_HELD_US : LOOK_MIN_US);
}

/* Checks all runs with limits. Searches for new orphans first. */
static void usage_look(void) {
  bool adopted = false;
  uint64_t now = now_us();
  EACH_RUN(run) {
    if (run->look_us == 0 || run->look_us > now) continue;
    if (!adopted && children_fd >= 0) while (adopt_new()) continue;
    adopted = true;
    look_at(run);
  }
}

#else

static void usage_watch(Run *run) { (void)run; }
static void usage_look(void) {}

#endif
#endif
