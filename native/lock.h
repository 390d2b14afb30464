/*
 * The lock of a running spawner: exactly the bytes that SQLite locks for writing (pending, reserved and
 * shared). The spawner for Node can only lock with `BEGIN EXCLUSIVE`, so both exclude each other.
 */
#ifndef DUCTILE_LOCK_H
#define DUCTILE_LOCK_H

#include "base.h"
#include "wire.h"

enum { LOCK_START = 0x40000000, LOCK_LENGTH = 512, LOCK_RETRY_MS = 10 };

/* Waits until an earlier spawner has ended, or until the service ends. The kernel frees the lock. */
static void take_lock(const char *path) {
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) die(path);
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  lock.l_start = LOCK_START;
  lock.l_len = LOCK_LENGTH;
  while (fcntl(fd, F_SETLK, &lock) < 0) {
    if (errno != EAGAIN && errno != EACCES && errno != EINTR) die(path);
    struct pollfd engine = {.fd = 0, .events = POLLIN};
    if (poll(&engine, 1, LOCK_RETRY_MS) > 0 && !input_fill()) _exit(0);
  }
}

#endif
