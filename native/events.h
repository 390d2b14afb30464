/* Waits for descriptors: epoll on Linux, poll elsewhere; level-triggered in both. */
#ifndef DUCTILE_EVENTS_H
#define DUCTILE_EVENTS_H

#include "base.h"

enum { WANT_READ = 1, WANT_WRITE = 2 };
enum { EVENTS_MAX = 64 };

typedef struct {
  uint64_t key;
  bool hung_up;
} Event;

#if HAS_EPOLL
#include <sys/epoll.h>

static int epoll_fd = -1;

static void events_open(void) {
  epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_fd < 0) die("epoll_create1");
}

static void watch(int fd, uint64_t key, int want) {
  struct epoll_event event = {.events = 0};
  if (want & WANT_READ) event.events |= EPOLLIN;
  if (want & WANT_WRITE) event.events |= EPOLLOUT;
  event.data.u64 = key;
  if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) die("epoll_ctl");
}

static void unwatch(int fd) { epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, NULL); }

/* Closing the last descriptor of a pipe's end removes its registration. */
static void close_watched(int fd) { close(fd); }

static int wait_events(Event *events, int timeout_ms) {
  struct epoll_event found[EVENTS_MAX];
  int count = epoll_wait(epoll_fd, found, EVENTS_MAX, timeout_ms);
  if (count < 0 && errno != EINTR) die("epoll_wait");
  for (int i = 0; i < count; i++) {
    events[i].key = found[i].data.u64;
    events[i].hung_up = (found[i].events & (EPOLLHUP | EPOLLERR)) != 0;
  }
  return count < 0 ? 0 : count;
}

#else

static struct pollfd *watched;
static uint64_t *watched_keys;
static size_t watched_count, watched_room;

static void events_open(void) {}

static void watch(int fd, uint64_t key, int want) {
  if (watched_count == watched_room) {
    watched_room = watched_room == 0 ? 64 : watched_room * 2;
    watched = must_alloc(watched, watched_room * sizeof *watched);
    watched_keys = must_alloc(watched_keys, watched_room * sizeof *watched_keys);
  }
  short wanted = (short)((want & WANT_READ ? POLLIN : 0) | (want & WANT_WRITE ? POLLOUT : 0));
  watched[watched_count] = (struct pollfd){.fd = fd, .events = wanted};
  watched_keys[watched_count++] = key;
}

static void unwatch(int fd) {
  for (size_t i = 0; i < watched_count; i++) {
    if (watched[i].fd != fd) continue;
    watched_count--;
    watched[i] = watched[watched_count];
    watched_keys[i] = watched_keys[watched_count];
    return;
  }
}

static void close_watched(int fd) {
  unwatch(fd);
  close(fd);
}

static int wait_events(Event *events, int timeout_ms) {
  /* The search for ready descriptors starts at another one each time, so that none is always last. */
  static size_t first;
  int ready = poll(watched, (nfds_t)watched_count, timeout_ms);
  if (ready < 0 && errno != EINTR) die("poll");
  int count = 0;
  for (size_t i = 0; i < watched_count && ready > 0 && count < EVENTS_MAX; i++) {
    size_t at = (first + i) % watched_count;
    if (watched[at].revents == 0) continue;
    events[count].key = watched_keys[at];
    events[count++].hung_up = (watched[at].revents & (POLLHUP | POLLERR)) != 0;
    ready--;
  }
  first++;
  return count;
}

#endif
#endif
