/*
 * Measures durable commits of the disk: writes of 4 KiB, each followed by fdatasync, inside a
 * file that exists (in-place) or at its end (append).
 *
 *   fsync FILE SECONDS in-place|append
 *
 * Prints {"rate": …, "p50Ms": …, "p99Ms": …}. The file is removed.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common.h"

enum { BLOCK = 4096, BLOCKS = 1024, SAMPLES_MAX = 1000000 };

static char block[BLOCK];
static double samples[SAMPLES_MAX];

static void write_block(int fd, long at) {
  if (pwrite(fd, block, BLOCK, (off_t)at * BLOCK) != BLOCK) fail("pwrite");
}

static int by_size(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

int main(int argc, char **argv) {
  if (argc != 4) {
    fputs("usage: fsync FILE SECONDS in-place|append\n", stderr);
    return 2;
  }
  double seconds = atof(argv[2]);
  int in_place = strcmp(argv[3], "in-place") == 0;
  int fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) fail(argv[1]);
  memset(block, 7, sizeof block);
  for (long i = 0; in_place && i < BLOCKS; i++) write_block(fd, i);
  if (fsync(fd)) fail("fsync");

  long count = 0;
  double began = now();
  while (count < SAMPLES_MAX && now() - began < seconds) {
    double at = now();
    write_block(fd, in_place ? count % BLOCKS : count);
    if (fdatasync(fd)) fail("fdatasync");
    samples[count++] = now() - at;
  }
  double took = now() - began;
  unlink(argv[1]);
  qsort(samples, count, sizeof *samples, by_size);
  printf("{\"rate\":%.1f,\"p50Ms\":%.3f,\"p99Ms\":%.3f}\n", count / took,
         samples[count / 2] * 1e3, samples[count * 99 / 100] * 1e3);
  return 0;
}
