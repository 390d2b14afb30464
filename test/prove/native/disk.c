/*
 * Preloaded into a server, it records the server's operations on the files below DISK_ROOT in
 * DISK_JOURNAL: every write, truncation, name and sync, in order. A sync is recorded at its begin and
 * its end, and takes DISK_SYNC_US longer than the file system needs. Operations that can't be followed
 * are recorded as well, so that a journal with a gap is detected.
 *
 * Calls go directly to the kernel, so the order of preloaded libraries doesn't matter.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define DESCRIPTORS_MAX 65536

enum kind {
  OPENED = 'O',
  WRITTEN = 'W',
  TRUNCATED = 'T',
  DIRECTORY_MADE = 'D',
  RENAMED = 'R',
  UNLINKED = 'U',
  SYNC_BEGAN = 'B',
  SYNC_ENDED = 'E',
  NOT_FOLLOWED = 'X',
};

/* The header of an entry; the name and the data follow. */
struct entry {
  uint32_t kind;
  uint32_t name_length;
  uint32_t data_length;
  uint32_t is_directory;
  uint64_t at_ns;
  uint64_t file;
  uint64_t offset;
};

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static char root[PATH_MAX];
static size_t root_length;
static int journal = -1;
static pid_t owner;
static long sync_us;
static uint64_t syncs;
static dev_t device;
/* The file that each descriptor was opened for. */
static volatile uint64_t followed[DESCRIPTORS_MAX];

__attribute__((constructor)) static void begin(void) {
  const char *wanted = getenv("DISK_ROOT"), *path = getenv("DISK_JOURNAL");
  const char *us = getenv("DISK_SYNC_US");
  struct stat status;
  if (wanted == NULL || path == NULL || realpath(wanted, root) == NULL) return;
  if (stat(root, &status) == 0) device = status.st_dev;
  root_length = strlen(root);
  sync_us = us == NULL ? 0 : atol(us);
  owner = getpid();
  journal = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  /* Programs that it starts are not recorded. */
  unsetenv("LD_PRELOAD");
}

/* Between fork and exec, the lock may be held by a thread that the child doesn't have. */
static int is_ours(void) { return journal >= 0 && getpid() == owner; }

static int is_file(const struct stat *status) {
  return status->st_dev == device && (S_ISREG(status->st_mode) || S_ISDIR(status->st_mode));
}

/* Some descriptors are closed without this library, and their number is reused. */
static int is_followed(int fd) {
  struct stat status;
  if (fd < 0 || fd >= DESCRIPTORS_MAX || followed[fd] == 0 || !is_ours()) return 0;
  return fstat(fd, &status) == 0 && is_file(&status) && (uint64_t)status.st_ino == followed[fd];
}

static int is_below_root(const char *path) {
  return strncmp(path, root, root_length) == 0 &&
         (path[root_length] == '/' || path[root_length] == '\0');
}

static void enter(void) { pthread_mutex_lock(&lock); }

static void leave(void) {
  int saved = errno;
  pthread_mutex_unlock(&lock);
  errno = saved;
}

static void note(struct entry entry, const char *name, const void *data) {
  struct timespec now;
  int saved = errno;
  clock_gettime(CLOCK_MONOTONIC, &now);
  entry.at_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
  entry.name_length = (uint32_t)strlen(name);
  struct iovec parts[] = {
      {&entry, sizeof entry}, {(void *)name, entry.name_length}, {(void *)data, entry.data_length}};
  ssize_t wanted = (ssize_t)(sizeof entry + entry.name_length + entry.data_length);
  /* A journal with a gap would report faults that the server doesn't have. */
  if (syscall(SYS_writev, journal, parts, 3) != wanted) abort();
  errno = saved;
}

static void note_gap(const char *what) {
  note((struct entry){.kind = NOT_FOLLOWED}, what, NULL);
}

/* The path without links and dots; the file needn't exist. */
static int canonical(const char *path, char *into) {
  char directory[PATH_MAX], found[PATH_MAX];
  if (strlen(path) >= PATH_MAX) return 0;
  strcpy(directory, path);
  char *slash = strrchr(directory, '/');
  const char *name = slash == NULL ? path : path + (slash - directory) + 1;
  if (slash == NULL) strcpy(directory, ".");
  else if (slash == directory) slash[1] = '\0';
  else *slash = '\0';
  if (realpath(directory, found) == NULL) return 0;
  return snprintf(into, PATH_MAX, "%s/%s", found, name) < PATH_MAX && is_below_root(into);
}

static int is_there(const char *path) {
  struct stat status;
  return lstat(path, &status) == 0;
}

/* Memory that readers and the writer share: the next start creates it again, whatever its content. */
static int is_shared_memory(const char *path) {
  size_t length = strlen(path);
  return length > 4 && strcmp(path + length - 4, "-shm") == 0;
}

static void note_open(int fd, int flags, int was_there) {
  char link[64], path[PATH_MAX];
  struct stat status;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length <= 0) return;
  path[length] = '\0';
  if (!is_below_root(path) || is_shared_memory(path)) return;
  if (fstat(fd, &status) != 0 || !is_file(&status)) return;
  followed[fd] = (uint64_t)status.st_ino;
  if (S_ISDIR(status.st_mode) || (flags & O_ACCMODE) == O_RDONLY) return;
  note((struct entry){.kind = OPENED, .file = status.st_ino, .offset = !was_there}, path, NULL);
  if ((flags & O_TRUNC) != 0 && was_there)
    note((struct entry){.kind = TRUNCATED, .file = status.st_ino}, "", NULL);
}

static int open_at(int directory, const char *path, int flags, mode_t mode) {
  if (!is_ours()) return (int)syscall(SYS_openat, directory, path, flags, mode);
  enter();
  struct stat status;
  int was_there = fstatat(directory, path, &status, 0) == 0;
  int fd = (int)syscall(SYS_openat, directory, path, flags, mode);
  if (fd >= 0 && fd < DESCRIPTORS_MAX) {
    followed[fd] = 0;
    note_open(fd, flags, was_there);
  }
  leave();
  return fd;
}

#define MODE_OF(flags)                                   \
  mode_t mode = 0;                                       \
  if (((flags) & (O_CREAT | O_TMPFILE)) != 0) {          \
    va_list rest;                                        \
    va_start(rest, flags);                               \
    mode = (mode_t)va_arg(rest, int);                    \
    va_end(rest);                                        \
  }

int open(const char *path, int flags, ...) {
  MODE_OF(flags)
  return open_at(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...) {
  MODE_OF(flags)
  return open_at(AT_FDCWD, path, flags, mode);
}

int openat(int directory, const char *path, int flags, ...) {
  MODE_OF(flags)
  return open_at(directory, path, flags, mode);
}

int openat64(int directory, const char *path, int flags, ...) {
  MODE_OF(flags)
  return open_at(directory, path, flags, mode);
}

int close(int fd) {
  if (is_followed(fd)) followed[fd] = 0;
  return (int)syscall(SYS_close, fd);
}

static ssize_t write_at(int fd, const struct iovec *parts, int count, off_t offset) {
  ssize_t total = 0;
  for (int part = 0; part < count; part += 1) {
    const struct iovec *one = &parts[part];
    struct entry entry = {.kind = WRITTEN,
                          .data_length = (uint32_t)one->iov_len,
                          .file = followed[fd],
                          .offset = (uint64_t)(offset + total)};
    /* Recorded before the operation: a kill in between leaves only an additional entry. */
    note(entry, "", one->iov_base);
    ssize_t written = syscall(SYS_pwrite64, fd, one->iov_base, one->iov_len, offset + total);
    if (written != (ssize_t)one->iov_len) {
      note_gap("a write that failed");
      return written < 0 ? written : total + written;
    }
    total += written;
  }
  return total;
}

/* The current offset of the file; a write there moves it. */
static ssize_t write_here(int fd, const struct iovec *parts, int count) {
  struct stat status;
  int appends = (fcntl(fd, F_GETFL) & O_APPEND) != 0;
  off_t offset = appends && fstat(fd, &status) == 0 ? status.st_size : lseek(fd, 0, SEEK_CUR);
  ssize_t written = write_at(fd, parts, count, offset);
  if (written > 0) lseek(fd, offset + written, SEEK_SET);
  return written;
}

ssize_t write(int fd, const void *data, size_t length) {
  if (!is_followed(fd)) return syscall(SYS_write, fd, data, length);
  struct iovec part = {(void *)data, length};
  enter();
  ssize_t written = write_here(fd, &part, 1);
  leave();
  return written;
}

ssize_t pwrite64(int fd, const void *data, size_t length, off64_t offset) {
  if (!is_followed(fd)) return syscall(SYS_pwrite64, fd, data, length, offset);
  struct iovec part = {(void *)data, length};
  enter();
  ssize_t written = write_at(fd, &part, 1, offset);
  leave();
  return written;
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) {
  return pwrite64(fd, data, length, offset);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
  if (!is_followed(fd)) return syscall(SYS_writev, fd, parts, count);
  enter();
  ssize_t written = write_here(fd, parts, count);
  leave();
  return written;
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) {
  if (!is_followed(fd)) return syscall(SYS_pwritev, fd, parts, count, offset, 0);
  enter();
  ssize_t written = write_at(fd, parts, count, offset);
  leave();
  return written;
}

int ftruncate64(int fd, off64_t length) {
  if (!is_followed(fd)) return (int)syscall(SYS_ftruncate, fd, length);
  enter();
  struct entry entry = {.kind = TRUNCATED, .file = followed[fd], .offset = (uint64_t)length};
  note(entry, "", NULL);
  int result = (int)syscall(SYS_ftruncate, fd, length);
  if (result != 0) note_gap("a truncation that failed");
  leave();
  return result;
}

int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }

/* Doesn't open the file: closing any descriptor releases all locks of the process on it. */
int truncate(const char *path, off_t length) {
  struct stat status;
  char name[PATH_MAX];
  if (!is_ours()) return (int)syscall(SYS_truncate, path, length);
  enter();
  if (canonical(path, name) && stat(path, &status) == 0)
    note((struct entry){.kind = TRUNCATED, .file = status.st_ino, .offset = (uint64_t)length}, "",
         NULL);
  int result = (int)syscall(SYS_truncate, path, length);
  leave();
  return result;
}

static int sync_file(int fd, long call) {
  if (!is_followed(fd)) return (int)syscall(call, fd);
  struct stat status;
  char link[64], path[PATH_MAX] = "";
  struct timespec pause = {sync_us / 1000000, sync_us % 1000000 * 1000};
  enter();
  int is_directory = fstat(fd, &status) == 0 && S_ISDIR(status.st_mode);
  if (is_directory) {
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = '\0';
  }
  struct entry entry = {.kind = SYNC_BEGAN,
                        .is_directory = (uint32_t)is_directory,
                        .file = status.st_ino,
                        .offset = (syncs += 1)};
  note(entry, path, NULL);
  leave();
  /* Other threads may write meanwhile; their writes are not part of the sync. */
  int result = (int)syscall(call, fd);
  if (sync_us > 0) syscall(SYS_nanosleep, &pause, NULL);
  enter();
  entry.kind = SYNC_ENDED;
  if (result == 0) note(entry, path, NULL);
  leave();
  return result;
}

int fsync(int fd) { return sync_file(fd, SYS_fsync); }
int fdatasync(int fd) { return sync_file(fd, SYS_fdatasync); }

static int unlink_at(int directory, const char *path, int flags) {
  char name[PATH_MAX];
  if (!is_ours()) return (int)syscall(SYS_unlinkat, directory, path, flags);
  enter();
  if (directory == AT_FDCWD && canonical(path, name) && is_there(name))
    note((struct entry){.kind = UNLINKED}, name, NULL);
  int result = (int)syscall(SYS_unlinkat, directory, path, flags);
  leave();
  return result;
}

int unlink(const char *path) { return unlink_at(AT_FDCWD, path, 0); }
int unlinkat(int directory, const char *path, int flags) { return unlink_at(directory, path, flags); }
int rmdir(const char *path) { return unlink_at(AT_FDCWD, path, AT_REMOVEDIR); }

int mkdir(const char *path, mode_t mode) {
  char name[PATH_MAX];
  if (!is_ours()) return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
  enter();
  if (canonical(path, name) && !is_there(name))
    note((struct entry){.kind = DIRECTORY_MADE}, name, NULL);
  int result = (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
  leave();
  return result;
}

int rename(const char *from, const char *to) {
  char name[PATH_MAX], target[PATH_MAX];
  if (!is_ours()) return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
  enter();
  int comes = canonical(from, name), goes = canonical(to, target);
  if (comes && goes && is_there(name)) {
    struct entry entry = {.kind = RENAMED, .data_length = (uint32_t)strlen(target)};
    note(entry, name, target);
  } else if (comes != goes) {
    note_gap("a rename over the border");
  }
  int result = (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
  leave();
  return result;
}

int link(const char *from, const char *to) {
  char name[PATH_MAX];
  if (is_ours() && canonical(to, name)) note_gap("a second name");
  return (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}

void *mmap64(void *address, size_t length, int protection, int flags, int fd, off64_t offset) {
  if (is_followed(fd) && (flags & MAP_SHARED) != 0 && (protection & PROT_WRITE) != 0)
    note_gap("a file in memory");
  return (void *)syscall(SYS_mmap, address, length, protection, flags, fd, offset);
}

ssize_t copy_file_range(int from, off64_t *at, int to, off64_t *into, size_t length, unsigned flags) {
  if (is_followed(to)) note_gap("a copy by the kernel");
  return syscall(SYS_copy_file_range, from, at, to, into, length, flags);
}

ssize_t sendfile64(int to, int from, off64_t *offset, size_t length) {
  if (is_followed(to)) note_gap("a copy by the kernel");
  return syscall(SYS_sendfile, to, from, offset, length);
}

ssize_t sendfile(int to, int from, off_t *offset, size_t length) {
  return sendfile64(to, from, offset, length);
}

int fallocate64(int fd, int mode, off64_t offset, off64_t length) {
  if (is_followed(fd)) note_gap("room that was set aside");
  return (int)syscall(SYS_fallocate, fd, mode, offset, length);
}

int dup(int fd) {
  if (is_followed(fd)) note_gap("a second descriptor");
  return (int)syscall(SYS_dup, fd);
}
