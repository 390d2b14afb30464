/* Starting a process: its three pipes, its own session, its whole environment, nothing else. */
#ifndef DUCTILE_START_H
#define DUCTILE_START_H

#include "base.h"
#include "run.h"

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

/* On Linux a limit of 0 does not keep a core from a program that collects them; a limit of 1 does. */
static void no_core_dumps(void) {
  struct rlimit zero = {0, 0};
#if defined(__linux__)
  struct rlimit one = {1, 1};
  if (setrlimit(RLIMIT_CORE, &one) == 0) return;
#endif
  setrlimit(RLIMIT_CORE, &zero);
}

/* The child begins with default signals and an empty mask, as the leader of a session and group. */
static void start_open(void) {
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
  no_core_dumps();
}

static int make_pipe(int ends[2]) {
#if defined(__APPLE__)
  if (pipe(ends) < 0) return errno;
  set_flag(ends[0], F_GETFD, F_SETFD, FD_CLOEXEC);
  set_flag(ends[1], F_GETFD, F_SETFD, FD_CLOEXEC);
  return 0;
#else
  return pipe2(ends, O_CLOEXEC) < 0 ? errno : 0;
#endif
}

static void close_three(int fd[3]) {
  for (int stream = IN; stream <= ERR; stream++) {
    if (fd[stream] >= 0) close(fd[stream]);
    fd[stream] = -1;
  }
}

/* Only our ends are non-blocking: the plugin may expect ordinary ones. */
static int make_pipes(int ours[3], int theirs[3]) {
  for (int stream = IN; stream <= ERR; stream++) {
    int ends[2];
    int error = make_pipe(ends);
    if (error != 0) return error;
    theirs[stream] = ends[stream == IN ? 0 : 1];
    ours[stream] = ends[stream == IN ? 1 : 0];
    if (fcntl(ours[stream], F_SETFL, O_NONBLOCK) < 0) return errno;
  }
  return 0;
}

static int spawn_with(pid_t *pid, char *const *argv, const char *cwd, char **env, int theirs[3]) {
  posix_spawn_file_actions_t actions;
  int error = posix_spawn_file_actions_init(&actions);
  if (error != 0) return error;
  for (int stream = IN; stream <= ERR && error == 0; stream++) {
    error = posix_spawn_file_actions_adddup2(&actions, theirs[stream], stream);
  }
#if HAS_ADDCHDIR
  if (error == 0) error = posix_spawn_file_actions_addchdir_np(&actions, cwd);
  if (error == 0) error = posix_spawn(pid, argv[0], &actions, &spawn_attributes, argv, env);
#else
  /* The spawner goes there itself: it has one thread and no relative path, so nobody notices. */
  if (error == 0 && chdir(cwd) < 0) error = errno;
  if (error == 0) error = posix_spawn(pid, argv[0], &actions, &spawn_attributes, argv, env);
  if (chdir("/") < 0) die("chdir");
#endif
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

/* 0, or the errno for which nothing runs. The words are those of the wrapper and the entrypoint. */
static int start_process(Run *run, char **words, size_t wrappers, const char *cwd, char **env) {
  char *argv[START_WRAPPER_MAX + 2];
  memcpy(argv, words, (wrappers + 1) * sizeof *argv);
  argv[wrappers + 1] = NULL;
  int theirs[3] = {-1, -1, -1};
  int error = make_pipes(run->fd, theirs);
  if (error == 0) error = spawn_with(&run->pid, argv, cwd, env, theirs);
  close_three(theirs);
  if (error != 0) {
    close_three(run->fd);
    return error;
  }
  watch(run->fd[OUT], run_key(run, OUT), WANT_READ);
  watch(run->fd[ERR], run_key(run, ERR), WANT_READ);
  return 0;
}

static bool is_host_full(int error) {
  return error == EAGAIN || error == EMFILE || error == ENFILE || error == ENOMEM;
}

#endif
