/* A run: a plugin process from START to END, and the table of all runs. */
#ifndef DUCTILE_RUN_H
#define DUCTILE_RUN_H

#include "base.h"
#include "limits.h"
#include "spawn.h"
#include "wire.h"

enum { MARKER_MAX = 128 };

/* The service gives each process a unique value, which identifies its descendants (strays.h). */
static const char MARKER_KEY[] = "DUCTILE_ATTEMPT=";

/* HELD waits for its request; KILLED was sent SIGKILL; DRAINING has exited, but its output is still open. */
typedef enum { HELD, RUNNING, GRACE, KILLED, DRAINING } Phase;

typedef struct {
  bool used;
  uint32_t id, slot;
  uint64_t serial; /* grows with every start: who was here first, and which events are stale */
  Phase phase;
  bool held, fed, spoiled;
  pid_t pid;
  int fd[3]; /* our ends of the pipes, -1 when closed */
  Bytes request, kept[3];
  size_t request_at;
  size_t kept_max[3];
  uint32_t timeout_ms, grace_ms, drain_ms;
  Reason stopped;
  unsigned kind, flags;
  int code;
  uint64_t due_us; /* when the phase ends by itself, 0 for never */
  uint64_t spawn_us, since_us, run_us;
  Limits limits;
  uint64_t look_us;             /* when its use is looked at next, 0 for never */
  uint64_t cpu_us, memory_peak; /* of what has been seen of it so far */
  int cgroup;                   /* -1 without a control group of its own */
  char cgroup_name[32];
  char marker[MARKER_MAX];
} Run;

static Run **runs;
static uint32_t run_slots, run_count;
static uint64_t last_serial;

#define EACH_RUN(run)                                    \
  for (uint32_t slot_ = 0; slot_ < run_slots; slot_++)   \
    for (Run *run = runs[slot_]; run != NULL && run->used; run = NULL)

static Run *run_take(void) {
  uint32_t slot = 0;
  while (slot < run_slots && runs[slot]->used) slot++;
  if (slot == run_slots) {
    runs = must_alloc(runs, (run_slots + 1) * sizeof *runs);
    runs[slot] = must_alloc(NULL, sizeof(Run));
    *runs[slot] = (Run){0};
    run_slots++;
  }
  Run *run = runs[slot];
  /* The output buffers are reused by later runs. */
  *run = (Run){.used = true, .slot = slot, .serial = ++last_serial, .fd = {-1, -1, -1}, .cgroup = -1,
               .kept = {{0}, run->kept[OUT], run->kept[ERR]}};
  run_count++;
  return run;
}

static void run_free(Run *run) {
  free(run->request.data);
  run->request = (Bytes){0};
  run->used = false;
  run_count--;
}

static Run *run_by_id(uint32_t id) {
  EACH_RUN(run) if (run->id == id) return run;
  return NULL;
}

/* Events contain slot, stream and serial, so that an event for an ended run matches none. */
static uint64_t run_key(const Run *run, int stream) {
  return run->serial << 32 | (uint64_t)(run->slot + 1) << 4 | (uint64_t)stream;
}

static Run *run_by_key(uint64_t key) {
  uint32_t slot = (uint32_t)(key & 0xffffffff) >> 4;
  if (slot == 0 || slot > run_slots) return NULL;
  Run *run = runs[slot - 1];
  return run->used && (uint32_t)run->serial == (uint32_t)(key >> 32) ? run : NULL;
}

static void count_usage(Run *run, const struct rusage *usage) {
  uint64_t cpu_us = (uint64_t)usage->ru_utime.tv_sec * 1000000u + (uint64_t)usage->ru_utime.tv_usec +
                    (uint64_t)usage->ru_stime.tv_sec * 1000000u + (uint64_t)usage->ru_stime.tv_usec;
#if defined(__APPLE__)
  uint64_t peak = (uint64_t)usage->ru_maxrss;
#else
  uint64_t peak = (uint64_t)usage->ru_maxrss * 1024u;
#endif
  if (cpu_us > run->cpu_us) run->cpu_us = cpu_us;
  if (peak > run->memory_peak) run->memory_peak = peak;
}

static void close_stream(Run *run, int stream) {
  if (run->fd[stream] < 0) return;
  close_watched(run->fd[stream]);
  run->fd[stream] = -1;
}

/* The leader isn't reaped until its run ends, so its group id can't belong to another process. */
static void signal_group(const Run *run, int signal_number) {
  if (run->pid > 1) kill(-run->pid, signal_number);
}

static void kill_groups(void) {
  EACH_RUN(run) signal_group(run, SIGKILL);
}

static void send_end(Run *run) {
  put_head(END, END_FIXED + run->kept[OUT].length + run->kept[ERR].length);
  put_u32(run->id);
  put_u8(run->kind);
  put_u32((uint32_t)run->code);
  put_u8(run->stopped);
  put_u8(run->flags);
  put_u32((uint32_t)run->pid);
  put_u32((uint32_t)run->spawn_us);
  put_u64(run->run_us);
  put_u32((uint32_t)run->kept[OUT].length);
  put_u64(run->kind == UNSTARTED ? UINT64_MAX : run->cpu_us);
  put_u64(run->memory_peak == 0 ? UINT64_MAX : run->memory_peak);
  put_bytes(&run->kept[OUT]);
  put_bytes(&run->kept[ERR]);
}

#endif
