/*
 * The spawner: a small process that starts plugins for the service, so that the service's large address
 * space is never forked and its event loop never waits. It handles each process from START to END:
 * request, output with limits, timeout, grace, kill and reaping. It never blocks.
 *
 *   spawner [LOCKFILE [MARKER_PREFIX]]      frames on stdin and stdout (wire.h)
 *   spawner --confine …                     becomes a plugin that sees less (confine.h)
 *
 * It runs until the service closes its stdin, and then kills every process below it.
 * Build: cc -O2 -o spawner native/spawner.c
 */
#include "base.h"
#include "cgroup.h"
#include "confine.h"
#include "events.h"
#include "life.h"
#include "lock.h"
#include "oom.h"
#include "run.h"
#include "start.h"
#include "strays.h"
#include "sweep.h"
#include "usage.h"
#include "wire.h"

/* Starts per turn of the loop, so that a large batch doesn't delay ended processes. */
enum { STARTS_PER_TURN = 8 };
enum { IDLE_CHECK_MS = 1000 };

static uint64_t fence_us; /* 0 until the first RENEW */
static bool leaving;
static int signal_pipe[2];

/* ---- requests ---- */

static void refuse(Run *run, int error, Reason reason) {
  run->kind = UNSTARTED;
  run->code = error;
  run->stopped = reason;
  if (is_host_full(error)) run->flags |= HOST_FULL;
  if (run->held) send_spoiled(run->id);
  send_end(run);
  run_free(run);
}

static bool is_fenced(void) { return fence_us != 0 && fence_now_us() >= fence_us; }

static void bad_frame(void) {
  errno = EPROTO;
  die("frame");
}

/* The strings stay in the frame; a start doesn't need them after it returns. */
static char **split_strings(unsigned char *at, size_t length, uint32_t count) {
  static char **list;
  static size_t room;
  if (length == 0 || at[length - 1] != '\0' || count > length) bad_frame();
  if (count + 1u > room) list = must_alloc(list, (room = count + 64u) * sizeof *list);
  unsigned char *end = at + length;
  for (uint32_t i = 0; i < count; i++) {
    if (at >= end) bad_frame();
    list[i] = (char *)at;
    at += strlen((char *)at) + 1;
  }
  list[count] = NULL;
  return list;
}

static void remember_marker(Run *run, char **env) {
  for (; *env != NULL; env++) {
    if (strncmp(*env, MARKER_KEY, sizeof MARKER_KEY - 1) != 0) continue;
    snprintf(run->marker, sizeof run->marker, "%s", *env + sizeof MARKER_KEY - 1);
    return;
  }
}

static void on_start(unsigned char *body, size_t length) {
  if (length < START_FIXED) bad_frame();
  uint64_t received = now_us();
  uint32_t env_count = get_u32(body + 25), strings_length = get_u32(body + 29);
  if (strings_length > length - START_FIXED || env_count > strings_length) bad_frame();
  uint32_t wrapper_count = body[4] >> START_WRAPPER_SHIFT;
  char **strings = split_strings(body + START_FIXED, strings_length, wrapper_count + 2 + env_count);
  char **words = strings + wrapper_count;
  Run *run = run_take();
  run->id = get_u32(body);
  run->held = (body[4] & START_HOLD) != 0;
  run->timeout_ms = get_u32(body + 5);
  run->grace_ms = get_u32(body + 9);
  run->drain_ms = get_u32(body + 13);
  run->kept_max[OUT] = get_u32(body + 17);
  run->kept_max[ERR] = get_u32(body + 21);
  run->limits = (Limits){.memory = get_u64(body + 33), .file_size = get_u64(body + 41),
                         .processes = get_u32(body + 49), .cpu_ms = get_u32(body + 53)};
  if (leaving || is_fenced()) {
    refuse(run, ECANCELED, leaving ? BY_SHUTDOWN : BY_FENCE);
    return;
  }
  remember_marker(run, words + 2);
  const unsigned char *request = body + START_FIXED + strings_length;
  Program program = {.words = strings, .wrappers = wrapper_count, .cwd = words[1], .env = words + 2,
                     .request = run->held ? NULL : request,
                     .request_length = length - START_FIXED - strings_length};
  int error = start_process(run, &program);
  run->since_us = now_us();
  run->spawn_us = run->since_us - received;
  if (error != 0) {
    refuse(run, error, NOT_STOPPED);
    return;
  }
  send_started(run->id, run->pid);
  run->phase = run->held ? HELD : RUNNING;
  usage_watch(run);
  if (!run->held) run->due_us = in_ms(run->timeout_ms);
}

/* Checks once more for output or an exit before the first byte of the request. */
static void on_feed(const unsigned char *body, size_t length) {
  if (length < 8) bad_frame();
  Run *run = run_by_id(get_u32(body));
  if (run == NULL || run->phase != HELD) return;
  read_output(run, OUT);
  read_output(run, ERR);
  if (run->phase != HELD) return;
  notice_exit(run);
  if (run->phase != HELD) {
    ends_changed = true;
    return;
  }
  run->since_us = now_us();
  run->phase = RUNNING;
  if (run->look_us != 0) run->look_us = run->since_us + LOOK_MIN_US;
  run->due_us = in_ms(get_u32(body + 4));
  if (send_request(run, body + 8, length - 8)) run->fed = true;
  else spoil(run);
}

static void on_stop(const unsigned char *body, size_t length) {
  if (length != 5) bad_frame();
  Run *run = run_by_id(get_u32(body));
  if (run == NULL) return;
  if (run->phase == DRAINING) run->due_us = now_us();
  else stop(run, body[4] == BY_SHUTDOWN ? BY_SHUTDOWN : BY_CANCEL);
}

static void kill_all(Reason reason) {
  EACH_RUN(run) kill_now(run, reason);
}

/* Handles a frame; returns true for a start, which is expensive. */
static bool handle_frame(void) {
  unsigned char *frame = input.data + input_at;
  size_t length = get_u32(frame);
  input_at += 4 + length;
  unsigned char *body = frame + 5;
  switch (frame[4]) {
    case START: on_start(body, length - 1); return true;
    case FEED: on_feed(body, length - 1); return false;
    case STOP: on_stop(body, length - 1); return false;
    case RENEW:
      if (length != 5) bad_frame();
      fence_us = fence_now_us() + (uint64_t)get_u32(body) * 1000u;
      return false;
    case BYE:
      leaving = true;
      kill_all(BY_SHUTDOWN);
      return false;
    default: bad_frame(); return false;
  }
}

/* ---- time ---- */

static void expire(Run *run) {
  if (run->phase == RUNNING) {
    stop(run, BY_TIMEOUT);
  } else if (run->phase == GRACE) {
    kill_now(run, run->stopped);
  } else if (run->phase == KILLED) {
    run->kind = SIGNALLED;
    run->code = SIGKILL;
    run->run_us = now_us() - run->since_us;
    finish(run);
  } else if (run->phase == DRAINING) {
    read_the_rest(run);
    finish(run);
  }
}

static void expire_all(void) {
  static uint64_t fenced_at;
  if (is_fenced() && fenced_at != fence_us) {
    fenced_at = fence_us;
    kill_all(BY_FENCE);
  }
  uint64_t now = now_us();
  EACH_RUN(run) if (run->due_us != 0 && run->due_us <= now) expire(run);
  usage_look();
}

static uint64_t time_until(uint64_t due, uint64_t now) { return due > now ? due - now : 0; }

/* Returns the milliseconds until something is due. The kernel's timers stop while the machine sleeps and
 * the fence doesn't, so it is checked at least once per second while anything runs. */
static int time_left_ms(void) {
  if (input_has_frame()) return 0;
  if (run_count == 0) return -1;
  uint64_t now = now_us();
  uint64_t left = (uint64_t)IDLE_CHECK_MS * 1000u;
  if (output_due_us != 0 && !output_watched) left = time_until(output_due_us, now);
  if (fence_us != 0 && !is_fenced()) {
    uint64_t fence_left = fence_us - fence_now_us();
    if (fence_left < left) left = fence_left;
  }
  EACH_RUN(run) {
    uint64_t due = run->due_us;
    if (run->look_us != 0 && (due == 0 || run->look_us < due)) due = run->look_us;
    if (due != 0 && time_until(due, now) < left) left = time_until(due, now);
  }
  return (int)((left + 999) / 1000);
}

/* ---- the loop ---- */

static void on_child_signal(int signal_number) {
  (void)signal_number;
  int saved = errno;
  ssize_t sent = write(signal_pipe[1], "", 1);
  (void)sent;
  errno = saved;
}

static void notice_exits(void) {
  /* Remaining bytes wake the loop again. */
  ssize_t heard = read(signal_pipe[0], scratch, sizeof scratch);
  (void)heard;
  ends_changed = true;
  strays_reap();
  EACH_RUN(run) {
    notice_exit(run);
    finish_if_done(run);
  }
}

static void on_stream_event(const Event *event) {
  Run *run = run_by_key(event->key);
  if (run == NULL) return;
  int stream = (int)(event->key & 15);
  if (stream == IN) {
    write_request(run);
    return;
  }
  /* After a hang-up, the rest of the output is available. */
  for (int i = 0; read_output(run, stream) && event->hung_up && i < 4; i++) continue;
  finish_if_done(run);
}

static void signals_open(void) {
  for (int i = 0; i < IGNORED_SIGNALS; i++) signal(ignored_signals[i], SIG_IGN);
  if (make_pipe(signal_pipe) != 0) die("pipe");
  set_nonblocking(signal_pipe[0]);
  set_nonblocking(signal_pipe[1]);
  struct sigaction action = {.sa_handler = on_child_signal, .sa_flags = SA_NOCLDSTOP | SA_RESTART};
  sigemptyset(&action.sa_mask);
  sigaction(SIGCHLD, &action, NULL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Closes descriptors that the service inherited, so that plugins don't get them. */
static void close_inherited(void) {
  long limit = sysconf(_SC_OPEN_MAX);
#if defined(__linux__) && defined(CLOSE_RANGE_CLOEXEC)
  if (close_range(3, ~0u, 0) == 0) return;
#endif
  if (limit < 0 || limit > 65536) limit = 65536;
  for (int fd = 3; fd < limit; fd++) close(fd);
}

static void turn(void) {
  Event events[EVENTS_MAX];
  int count = wait_events(events, time_left_ms());
  bool children = false, engine = true;
  for (int i = 0; i < count; i++) {
    if (events[i].key == KEY_INPUT) engine = input_fill();
    else if (events[i].key == KEY_CHILDREN) children = true;
    else if (events[i].key != KEY_OUTPUT) on_stream_event(&events[i]);
  }
  /* After the output, so that a process that wrote and exited is handled in the same turn. */
  if (children) notice_exits();
  for (int starts = 0; engine && starts < STARTS_PER_TURN && input_has_frame();) {
    starts += handle_frame();
  }
  expire_all();
  if (ends_changed) strays_check();
  cgroups_sweep();
  ends_changed = false;
  if (engine && output_due_us != 0 && output_due_us <= now_us()) engine = output_flush();
  bool done = leaving && run_count == 0 && output_first == NULL;
  if (engine && !done) return;
  kill_descendants((uint64_t)KILL_PATIENCE_MS * 1000u);
  _exit(0);
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "--confine") == 0) return confine(argc, argv);
  close_inherited();
  start_open();
  signals_open();
  events_open();
  strays_open();
  oom_open();
  cgroup_open();
  set_nonblocking(0);
  set_nonblocking(1);
  send_hello();
  if (!output_flush()) return 0;
  if (argc > 1 && argv[1][0] != '\0') take_lock(argv[1]);
  if (argc > 2 && argv[2][0] != '\0') sweep(argv[2]);
  if (chdir("/") < 0) die("chdir");
  put_head(READY, 0);
  watch(0, KEY_INPUT, WANT_READ);
  watch(signal_pipe[0], KEY_CHILDREN, WANT_READ);
  if (!output_flush()) return 0;
  for (;;) turn();
}
