/* Shared by all parts of the spawner: the platform, the clock, memory and growing buffers. */
#ifndef DUCTILE_BASE_H
#define DUCTILE_BASE_H

#if defined(__linux__)
#define _GNU_SOURCE
#elif defined(__APPLE__)
#define _DARWIN_C_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* -DDUCTILE_PORTABLE builds on Linux what other systems get, so that it can be tested there. */
#if defined(__linux__) && !defined(DUCTILE_PORTABLE)
#define HAS_EPOLL 1
#define HAS_SUBREAPER 1
#define HAS_VFORK 1
#else
#define HAS_EPOLL 0
#define HAS_SUBREAPER 0
#define HAS_VFORK 0
#endif

typedef struct {
  unsigned char *data;
  size_t length, room;
} Bytes;

/* Shared buffer for every read; data to keep is copied out at once. */
static unsigned char scratch[64 * 1024];

static void kill_groups(void);

/* Ends the spawner after an error. No started process may outlive it. */
static void die(const char *what) {
  kill_groups();
  fprintf(stderr, "spawner: %s: %s\n", what, strerror(errno));
  _exit(70);
}

static uint64_t read_clock_us(clockid_t clock) {
  struct timespec at;
  clock_gettime(clock, &at);
  return (uint64_t)at.tv_sec * 1000000u + (uint64_t)at.tv_nsec / 1000u;
}

static uint64_t now_us(void) { return read_clock_us(CLOCK_MONOTONIC); }

/* The service's deadline continues while the machine sleeps, because others may have reaped its claims. */
static uint64_t fence_now_us(void) {
#if defined(CLOCK_BOOTTIME)
  return read_clock_us(CLOCK_BOOTTIME);
#else
  return now_us();
#endif
}

static void *must_alloc(void *old, size_t size) {
  void *memory = realloc(old, size);
  if (memory == NULL) die("memory");
  return memory;
}

static void bytes_need(Bytes *bytes, size_t more) {
  if (bytes->length + more <= bytes->room) return;
  size_t room = bytes->room == 0 ? 1024 : bytes->room;
  while (room < bytes->length + more) room *= 2;
  bytes->data = must_alloc(bytes->data, room);
  bytes->room = room;
}

static void bytes_add(Bytes *bytes, const void *data, size_t length) {
  if (length == 0) return;
  bytes_need(bytes, length);
  memcpy(bytes->data + bytes->length, data, length);
  bytes->length += length;
}

/* Empties the buffer. A large one is freed, a small one is reused. */
static void bytes_clear(Bytes *bytes) {
  bytes->length = 0;
  if (bytes->room <= sizeof scratch) return;
  free(bytes->data);
  *bytes = (Bytes){0};
}

static void set_flag(int fd, int get, int set, int flag) {
  int flags = fcntl(fd, get);
  if (flags < 0 || fcntl(fd, set, flags | flag) < 0) die("fcntl");
}

static void set_nonblocking(int fd) { set_flag(fd, F_GETFL, F_SETFL, O_NONBLOCK); }

static bool would_block(void) { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

#endif
