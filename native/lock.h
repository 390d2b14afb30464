/*
 * The lock that shows that a spawner lives: byte for byte the range that SQLite locks for writing
 * (its pending, reserved and shared bytes), so that the spawner written for Node, which has no
 * other way to a kernel lock than `BEGIN EXCLUSIVE`, and this one exclude each other.
 */
#ifndef DUCTILE_LOCK_H
#define DUCTILE_LOCK_H

#include "base.h"
#include "wire.h"

enum { LOCK_START = 0x40000000, LOCK_LENGTH = 512, LOCK_RETRY_MS = 10 };

/* Waits for an earlier spawner to be gone; ends when the engine does. The kernel frees the lock. */
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
