/* Shared by the programs in this folder. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return at.tv_sec + at.tv_nsec / 1e9;
}
