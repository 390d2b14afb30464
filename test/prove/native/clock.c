/*
 * Preloaded into a program, it changes the time of day by the current content of the file CLOCK_FILE.
 * The monotonic clock stays unchanged, as on a machine whose time is set.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000ll

/* The format of the file. */
struct error {
  int64_t ahead_ns;
  /* The clock gains this much per thousand, from this true time on. */
  int64_t since_ns;
  int64_t per_mille;
};

static const volatile struct error *error;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("CLOCK_FILE");
  int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  void *found = mmap(NULL, sizeof *error, PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  if (found != MAP_FAILED) error = found;
}

static int64_t wrong(int64_t ns) {
  if (error == NULL) return ns;
  return ns + error->ahead_ns + (ns - error->since_ns) / 1000 * error->per_mille;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int result = (int)syscall(SYS_clock_gettime, clock, now);
  if (result != 0 || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return result;
  int64_t ns = wrong(now->tv_sec * NS_PER_S + now->tv_nsec);
  now->tv_sec = ns / NS_PER_S;
  now->tv_nsec = ns % NS_PER_S;
  return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec precise;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &precise);
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *now) {
  struct timespec precise;
  clock_gettime(CLOCK_REALTIME, &precise);
  if (now != NULL) *now = precise.tv_sec;
  return precise.tv_sec;
}
