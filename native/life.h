/* The life of a run after its start: request, output, stop, and end. */
#ifndef DUCTILE_LIFE_H
#define DUCTILE_LIFE_H

#include "base.h"
#include "cgroup.h"
#include "oom.h"
#include "run.h"
#include "strays.h"
#include "wire.h"

/* Time after which a process with SIGKILL is considered dead. */
enum { KILL_PATIENCE_MS = 5000 };

static bool ends_changed; /* somebody exited or ended since strays were looked for */

static uint64_t in_ms(uint32_t ms) { return now_us() + (uint64_t)ms * 1000u; }

/* ---- the end of a run ---- */

static void finish(Run *run) {
  if (run->held && !run->fed && !run->spoiled) send_spoiled(run->id);
  signal_group(run, SIGKILL);
  struct rusage usage;
  pid_t reaped = wait4(run->pid, NULL, WNOHANG, &usage);
  if (reaped == 0) stray_add(run->pid, 0, true, true);
  if (reaped == run->pid) count_usage(run, &usage);
  cgroup_end(run);
  for (int stream = IN; stream <= ERR; stream++) close_stream(run, stream);
  send_end(run);
  run_free(run);
  ends_changed = true;
}

static void finish_if_done(Run *run) {
  if (run->phase == DRAINING && run->fd[OUT] < 0 && run->fd[ERR] < 0) finish(run);
}

/* Notes a limit that the kernel enforced: the process ended by its signal, or for lack of memory. */
static void notice_limit(Run *run) {
  if (run->kind == EXITED && run->code == 0) return;
  bool oom = has_oom_killed() || cgroup_has_oomed(run);
  if (run->kind != SIGNALLED || run->stopped != NOT_STOPPED) return;
  if (run->code == SIGXFSZ && run->limits.file_size != 0) run->stopped = BY_FILE_SIZE;
  if (run->code == SIGXCPU && run->limits.cpu_ms != 0) run->stopped = BY_CPU;
  if (run->code == SIGKILL && oom) run->stopped = BY_MEMORY;
}

/* Checks without reaping: a zombie leader keeps its group id from being reused. */
static void notice_exit(Run *run) {
  siginfo_t info = {.si_pid = 0};
  if (run->phase == DRAINING) return;
  if (waitid(P_PID, (id_t)run->pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0) return;
  if (info.si_pid != run->pid) return;
  run->kind = info.si_code == CLD_EXITED ? EXITED : SIGNALLED;
  run->code = info.si_status;
  run->run_us = now_us() - run->since_us;
  notice_limit(run);
  run->phase = DRAINING;
  run->look_us = 0;
  run->due_us = in_ms(run->drain_ms);
  close_stream(run, IN);
}

/* ---- stopping ---- */

/* A process that has ended by itself, even if unnoticed so far, wasn't stopped by the spawner. */
static void kill_now(Run *run, Reason reason) {
  notice_exit(run);
  if (run->stopped == NOT_STOPPED && run->phase != DRAINING) run->stopped = reason;
  signal_group(run, SIGKILL);
  if (run->phase == DRAINING) {
    run->due_us = now_us();
    return;
  }
  run->phase = KILLED;
  run->due_us = in_ms(KILL_PATIENCE_MS);
}

/* Sends SIGTERM, and SIGCONT so that a stopped process can act on it. */
static void stop(Run *run, Reason reason) {
  notice_exit(run);
  if (run->phase == DRAINING || run->phase == KILLED || run->phase == GRACE) return;
  if (run->grace_ms == 0) {
    kill_now(run, reason);
    return;
  }
  run->stopped = reason;
  signal_group(run, SIGTERM);
  signal_group(run, SIGCONT);
  run->phase = GRACE;
  run->due_us = in_ms(run->grace_ms);
}

/* Ends a prewarmed process that did something before its request. */
static void spoil(Run *run) {
  run->spoiled = true;
  send_spoiled(run->id);
  for (int stream = IN; stream <= ERR; stream++) close_stream(run, stream);
  kill_now(run, NOT_STOPPED);
}

/* ---- input and output of a run ---- */

static bool waits_for_request(const Run *run) { return run->held && !run->fed && !run->spoiled; }

/* A program needn't read its request, so a closed pipe isn't an error. */
static void write_request(Run *run) {
  while (run->fd[IN] >= 0 && run->request_at < run->request.length) {
    ssize_t sent = write(run->fd[IN], run->request.data + run->request_at,
                         run->request.length - run->request_at);
    if (sent < 0 && would_block()) return;
    if (sent < 0) break;
    run->request_at += (size_t)sent;
  }
  close_stream(run, IN);
  free(run->request.data);
  run->request = (Bytes){0};
}

/* Most requests fit into the pipe at once; only the rest of a large one is buffered. */
static bool send_request(Run *run, const unsigned char *data, size_t length) {
  size_t at = 0;
  while (at < length) {
    ssize_t sent = write(run->fd[IN], data + at, length - at);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && would_block()) {
      bytes_add(&run->request, data + at, length - at);
      watch(run->fd[IN], run_key(run, IN), WANT_WRITE);
      return true;
    }
    if (sent < 0) break;
    at += (size_t)sent;
  }
  close_stream(run, IN);
  return at > 0 || length == 0;
}

static void keep_output(Run *run, int stream, size_t got) {
  size_t free_room = run->kept_max[stream] - run->kept[stream].length;
  bytes_add(&run->kept[stream], scratch, got < free_room ? got : free_room);
  if (got <= free_room) return;
  if (stream == ERR) {
    run->flags |= STDERR_TRUNCATED; /* the rest is read and dropped, so that it is not blocked */
    return;
  }
  run->flags |= STDOUT_OVERFLOWED;
  stop(run, BY_OUTPUT); /* before the pipe is closed, or SIGPIPE may end it first */
  close_stream(run, OUT);
}

/* True while there may be more to read. */
static bool read_output(Run *run, int stream) {
  if (run->fd[stream] < 0) return false;
  ssize_t got = read(run->fd[stream], scratch, sizeof scratch);
  if (got < 0 && would_block()) return false;
  if (waits_for_request(run) && (got > 0 || stream == OUT)) {
    spoil(run);
    return false;
  }
  if (got > 0) keep_output(run, stream, (size_t)got);
  else close_stream(run, stream);
  return got > 0;
}

/* Reads output that is already in the pipe, and ignores later output. */
static void read_the_rest(Run *run) {
  for (int stream = OUT; stream <= ERR; stream++) {
    for (int i = 0; i < 16 && read_output(run, stream); i++) continue;
    close_stream(run, stream);
  }
}

#endif
