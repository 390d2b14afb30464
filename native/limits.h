/*
 * Resource limits of one run. The kernel enforces the size of files and the CPU time of each process; the
 * spawner watches the usage of the whole run (usage.h). 0 means no limit.
 */
#ifndef DUCTILE_LIMITS_H
#define DUCTILE_LIMITS_H

#include "base.h"

typedef struct {
  uint64_t memory, file_size; /* bytes */
  uint32_t processes, cpu_ms;
  int join; /* what a process writes to in order to be in its control group, 0 for none */
} Limits;

/* The kernel counts whole seconds and each process alone, so it is only a backstop. */
enum { CPU_BACKSTOP_S = 1, CPU_KILL_AFTER_S = 5 };

static rlim_t cpu_seconds(const Limits *limits) {
  return (rlim_t)(limits->cpu_ms / 1000u + CPU_BACKSTOP_S);
}

#if HAS_VFORK

/* Sets a limit, unless the operator's is lower. */
static void lower_limit(int resource, rlim_t soft, rlim_t hard) {
  struct rlimit now;
  if (getrlimit(resource, &now) < 0) return;
  if (now.rlim_max != RLIM_INFINITY && now.rlim_max < hard) hard = now.rlim_max;
  if (hard < soft) soft = hard;
  setrlimit(resource, &(struct rlimit){soft, hard});
}

/* Runs in the child before it becomes the plugin. Uses only system calls, because memory may be shared. */
static void limits_apply(const Limits *limits) {
  /* A process that can't join is watched as without a group. */
  ssize_t joined = limits->join > 0 ? write(limits->join, "0", 1) : 0;
  (void)joined;
  rlim_t cpu = cpu_seconds(limits);
  if (limits->cpu_ms != 0) lower_limit(RLIMIT_CPU, cpu, cpu + CPU_KILL_AFTER_S);
  if (limits->file_size != 0) lower_limit(RLIMIT_FSIZE, limits->file_size, limits->file_size);
}

#else

/*
 * For a start without code in the child: the child inherits the spawner's soft limits, which are reset
 * afterwards. The spawner may have used more CPU time already, so SIGXCPU is ignored (spawn.h).
 */
typedef struct {
  struct rlimit cpu, file_size;
} OwnLimits;

static void limit_ourselves(int resource, rlim_t soft, struct rlimit *before) {
  if (getrlimit(resource, before) < 0) *before = (struct rlimit){RLIM_INFINITY, RLIM_INFINITY};
  if (before->rlim_max == RLIM_INFINITY || soft < before->rlim_max) {
    setrlimit(resource, &(struct rlimit){soft, before->rlim_max});
  }
}

static void limits_lend(const Limits *limits, OwnLimits *own) {
  if (limits->cpu_ms != 0) limit_ourselves(RLIMIT_CPU, cpu_seconds(limits), &own->cpu);
  if (limits->file_size != 0) {
    limit_ourselves(RLIMIT_FSIZE, (rlim_t)limits->file_size, &own->file_size);
  }
}

static void limits_return(const Limits *limits, const OwnLimits *own) {
  if (limits->cpu_ms != 0) setrlimit(RLIMIT_CPU, &own->cpu);
  if (limits->file_size != 0) setrlimit(RLIMIT_FSIZE, &own->file_size);
}

#endif

#endif
