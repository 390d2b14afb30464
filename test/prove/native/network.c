/*
 * Preloaded into a program, it moves the program into the network namespace of NETWORK_FILE before it
 * starts; its child processes are in there, too.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("NETWORK_FILE");
  int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || setns(fd, CLONE_NEWNET) != 0) {
    perror("there is no such network");
    _exit(1);
  }
  close(fd);
  unsetenv("LD_PRELOAD");
}
