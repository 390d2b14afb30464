/*
 * Starts a process. Linux uses vfork and avoids the overhead of posix_spawn: a mapped stack, calls for
 * each of 64 signals, and a limit lookup for each descriptor. Other systems use posix_spawn.
 *
 * The child starts with default signals and an empty mask, as the leader of a session and group.
 */
#ifndef DUCTILE_SPAWN_H
#define DUCTILE_SPAWN_H

#include "base.h"
#include "limits.h"

/* The streams of a process, and the numbers of their descriptors in it. */
enum { IN = 0, OUT = 1, ERR = 2 };

/* Signals to the service's group or its terminal are handled by the service. */
static const int ignored_signals[] = {SIGPIPE, SIGINT,  SIGTERM, SIGHUP,
                                      SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU};
enum { IGNORED_SIGNALS = sizeof ignored_signals / sizeof *ignored_signals };

#if HAS_VFORK
#include <sched.h>
#include <sys/syscall.h>

enum { SIGNALS = 64 };
static bool is_batch;

static void set_scheduling(int policy) { sched_setscheduler(0, policy, &(struct sched_param){0}); }

/*
 * An ending process wakes the spawner several times: it writes, closes and exits. As a batch process the
 * spawner doesn't preempt it each time. A scheduling policy that the operator set is kept.
 */
static void let_others_finish(void) {
  if (sched_getscheduler(0) != SCHED_OTHER) return;
  set_scheduling(SCHED_BATCH);
  is_batch = sched_getscheduler(0) == SCHED_BATCH;
}

/* Uses the system call, because the library refuses two signals that may be inherited as ignored. */
static void set_default(int signal_number) {
  static const unsigned long nothing[8];
  syscall(SYS_rt_sigaction, signal_number, nothing, NULL, SIGNALS / 8);
}

/* Resets signals that the parent ignored, because plugins would inherit that. */
static void spawn_open(void) {
  for (int i = 1; i <= SIGNALS; i++) set_default(i);
  let_others_finish();
}

/* Runs in the child, which shares the memory and the stack of its parent until exec. */
static int become(char *const *argv, const char *cwd, char **env, const int theirs[3],
                  const Limits *limits) {
  for (int i = 0; i < IGNORED_SIGNALS; i++) set_default(ignored_signals[i]);
  set_default(SIGCHLD);
  if (is_batch) set_scheduling(SCHED_OTHER);
  setsid();
  for (int stream = IN; stream <= ERR; stream++) {
    if (dup2(theirs[stream], stream) < 0) return errno;
  }
  if (chdir(cwd) < 0) return errno;
  limits_apply(limits);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  execve(argv[0], argv, env);
  return errno;
}

/* Blocks all signals meanwhile: a handler in the child would write into the parent's memory. */
static int spawn(pid_t *pid, char *const *argv, const char *cwd, char **env, const int theirs[3],
                 const Limits *limits) {
  volatile int error = 0;
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  pid_t child = vfork();
  if (child == 0) {
    error = become(argv, cwd, env, theirs, limits);
    _exit(127);
  }
  if (child < 0) error = errno;
  else if (error != 0) waitpid(child, NULL, 0);
  sigprocmask(SIG_SETMASK, &before, NULL);
  if (error == 0) *pid = child;
  return error;
}

#else

#if defined(__GLIBC__)
#define HAS_ADDCHDIR __GLIBC_PREREQ(2, 29)
#elif defined(__linux__) || defined(__APPLE__)
#define HAS_ADDCHDIR 1
#elif defined(__FreeBSD__)
#define HAS_ADDCHDIR (__FreeBSD_version >= 1301000)
#else
#define HAS_ADDCHDIR 0
#endif
#if defined(DUCTILE_PORTABLE)
#undef HAS_ADDCHDIR
#define HAS_ADDCHDIR 0
#endif

static posix_spawnattr_t spawn_attributes;

static void spawn_open(void) {
  signal(SIGXCPU, SIG_IGN); /* our own limit of CPU time is a child's for a moment (limits.h) */
  sigset_t all, none;
#if defined(__GLIBC__)
  memset(&all, 0xff, sizeof all); /* its sigfillset omits two, which would then stay ignored */
#else
  sigfillset(&all);
  sigdelset(&all, SIGKILL);
  sigdelset(&all, SIGSTOP);
#endif
  sigemptyset(&none);
  int flags = POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK;
#if defined(POSIX_SPAWN_SETSID)
  flags |= POSIX_SPAWN_SETSID;
#else
  flags |= POSIX_SPAWN_SETPGROUP; /* no session of its own here, only a group */
#endif
#if defined(POSIX_SPAWN_CLOEXEC_DEFAULT)
  flags |= POSIX_SPAWN_CLOEXEC_DEFAULT;
#endif
  posix_spawnattr_init(&spawn_attributes);
  posix_spawnattr_setsigdefault(&spawn_attributes, &all);
  posix_spawnattr_setsigmask(&spawn_attributes, &none);
  posix_spawnattr_setpgroup(&spawn_attributes, 0);
  posix_spawnattr_setflags(&spawn_attributes, (short)flags);
}

static int spawn(pid_t *pid, char *const *argv, const char *cwd, char **env, const int theirs[3],
                 const Limits *limits) {
  OwnLimits own;
  posix_spawn_file_actions_t actions;
  int error = posix_spawn_file_actions_init(&actions);
  if (error != 0) return error;
  for (int stream = IN; stream <= ERR && error == 0; stream++) {
    error = posix_spawn_file_actions_adddup2(&actions, theirs[stream], stream);
  }
  limits_lend(limits, &own);
#if HAS_ADDCHDIR
  if (error == 0) error = posix_spawn_file_actions_addchdir_np(&actions, cwd);
  if (error == 0) error = posix_spawn(pid, argv[0], &actions, &spawn_attributes, argv, env);
#else
  /* The spawner changes its own directory; it has one thread and uses no relative paths. */
  if (error == 0 && chdir(cwd) < 0) error = errno;
  if (error == 0) error = posix_spawn(pid, argv[0], &actions, &spawn_attributes, argv, env);
  if (chdir("/") < 0) die("chdir");
#endif
  limits_return(limits, &own);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

#endif
#endif
