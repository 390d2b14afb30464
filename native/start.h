/* Starts a process with three pipes, its own session and a complete environment. */
#ifndef DUCTILE_START_H
#define DUCTILE_START_H

#include "base.h"
#include "cgroup.h"
#include "life.h"
#include "run.h"
#include "spawn.h"

/* On Linux a limit of 0 does not keep a core from a program that collects them; a limit of 1 does. */
static void no_core_dumps(void) {
  struct rlimit zero = {0, 0};
#if defined(__linux__)
  struct rlimit one = {1, 1};
  if (setrlimit(RLIMIT_CORE, &one) == 0) return;
#endif
  setrlimit(RLIMIT_CORE, &zero);
}

static void start_open(void) {
  spawn_open();
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

/* Only the spawner's ends are non-blocking; the plugin gets ordinary pipes. */
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

/* Program to start: the words of the wrapper, then the program itself. */
typedef struct {
  char **words;
  size_t wrappers;
  const char *cwd;
  char **env;
  /* NULL for a prewarmed process. */
  const unsigned char *request;
  size_t request_length;
} Program;

/*
 * Returns 0 or an errno. The request is in the pipe before the process exists, so neither side waits for
 * the other.
 */
static int start_process(Run *run, const Program *program) {
  char *argv[START_WRAPPER_MAX + 2];
  memcpy(argv, program->words, (program->wrappers + 1) * sizeof *argv);
  argv[program->wrappers + 1] = NULL;
  int theirs[3] = {-1, -1, -1};
  int error = make_pipes(run->fd, theirs);
  if (error == 0) {
    if (program->request != NULL) send_request(run, program->request, program->request_length);
    cgroup_add(run);
    error = spawn(&run->pid, argv, program->cwd, program->env, theirs, &run->limits);
  }
  close_three(theirs);
  cgroup_joined(run);
  if (error != 0) {
    cgroup_end(run);
    close_stream(run, IN); /* it may be watched: the request was too large for the pipe */
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
