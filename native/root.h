/*
 * The file system of a confined plugin: an empty one in memory, into which the entries of its profile
 * are mounted. Everything is read-only except the entries to write, /tmp and /dev/shm.
 */
#ifndef DUCTILE_ROOT_H
#define DUCTILE_ROOT_H

#include "profile.h"

#if defined(__linux__)
#include <limits.h>
#include <sys/mount.h>
#include <sys/syscall.h>

/* Defined here, because a build's headers may be older than the kernel (5.12 has all of them). */
enum { NR_OPEN_TREE = 428, NR_MOVE_MOUNT = 429, NR_OPENAT2 = 437, NR_MOUNT_SETATTR = 442 };
enum { TREE_CLONE = 1, MOVE_FROM_FD = 4, WHOLE_TREE = 0x8000, FD_ITSELF = 0x1000 };
enum { MOUNT_READ_ONLY = 1, MOUNT_NO_SETUID = 2, MOUNT_NO_DEVICES = 4, MOUNT_NO_PROGRAMS = 8 };
enum { WITHOUT_LINKS = 4, BENEATH = 8 };

#define OLD_ROOT "/.host"

typedef struct {
  uint64_t set, clear, propagation, userns;
} MountFlags;

typedef struct {
  uint64_t flags, mode, resolve;
} OpenHow;

static int host_root = -1;

/* Opens a path without following links, which a plugin could have created in a writable directory. */
static int open_on_host(const char *path) {
  OpenHow how = {O_PATH | O_CLOEXEC, 0, WITHOUT_LINKS | BENEATH};
  const char *below = path[1] == '\0' ? "." : path + 1;
  return (int)syscall(NR_OPENAT2, host_root, below, &how, sizeof how);
}

static void make_parents(const char *path) {
  char parent[PATH_MAX];
  if (snprintf(parent, sizeof parent, "%s", path) >= (int)sizeof parent) cannot_read(path);
  for (char *at = strchr(parent + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
    *at = '\0';
    if (mkdir(parent, 0755) < 0 && errno != EEXIST) cannot(parent);
    *at = '/';
  }
}

static void make_target(const char *path, bool is_directory) {
  make_parents(path);
  int made = is_directory ? mkdir(path, 0755) : mknod(path, S_IFREG | 0644, 0);
  if (made < 0 && errno != EEXIST) cannot(path);
}

static void set_mount(int fd, const char *path, unsigned flags, uint64_t set) {
  MountFlags wanted = {.set = set};
  if (syscall(NR_MOUNT_SETATTR, fd, path, flags, &wanted, sizeof wanted) < 0) cannot(path);
}

/* Mounts a copy of the descriptor's tree, with all mounts below it. */
static void mount_copy(int source, const char *path, uint64_t flags) {
  int tree = (int)syscall(NR_OPEN_TREE, source, "", TREE_CLONE | O_CLOEXEC | WHOLE_TREE | FD_ITSELF);
  if (tree < 0) cannot(path);
  set_mount(tree, "", WHOLE_TREE | FD_ITSELF, flags);
  if (syscall(NR_MOVE_MOUNT, tree, "", AT_FDCWD, path, MOVE_FROM_FD) < 0) cannot(path);
  close(tree);
}

static void mount_memory(const char *path, const char *options) {
  if (mkdir(path, 0755) < 0 && errno != EEXIST) cannot(path);
  if (mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, options) < 0) cannot(path);
}

/* Copies a system link: /bin and /lib are links into /usr on most systems. */
static void copy_link(const char *path) {
  char target[PATH_MAX];
  ssize_t length = readlinkat(host_root, path + 1, target, sizeof target - 1);
  if (length < 0) return;
  target[length] = '\0';
  make_parents(path);
  if (symlink(target, path) < 0 && errno != EEXIST) cannot(path);
}

static void mount_visible(const Entry *entry) {
  const Entry *around = entry_around(entry);
  if (around != NULL && around->access == MAY_READ && entry->access == MAY_READ) return;
  int source = open_on_host(entry->path);
  if (source < 0 && errno == ELOOP) copy_link(entry->path);
  else if (source < 0 && errno != ENOENT && errno != EACCES) cannot(entry->path);
  if (source < 0) return;
  struct stat stat;
  if (fstat(source, &stat) < 0) cannot(entry->path);
  make_target(entry->path, S_ISDIR(stat.st_mode));
  uint64_t flags = MOUNT_NO_SETUID | MOUNT_NO_DEVICES;
  mount_copy(source, entry->path, entry->access == MAY_READ ? flags | MOUNT_READ_ONLY : flags);
  close(source);
}

/* Covers a hidden path; returns true if that was necessary. */
static bool mount_hidden(const Entry *entry) {
  const Entry *around = entry_around(entry);
  if (around == NULL || around->access == HIDDEN) return false;
  struct stat stat;
  if (lstat(entry->path, &stat) < 0) return false;
  if (S_ISDIR(stat.st_mode)) {
    mount_memory(entry->path, "mode=755,size=64k");
    return true;
  }
  int nothing = open("/dev/null", O_PATH | O_CLOEXEC);
  if (nothing < 0) cannot(entry->path);
  mount_copy(nothing, entry->path, MOUNT_READ_ONLY | MOUNT_NO_PROGRAMS);
  close(nothing);
  return false;
}

static void mount_entries(void) {
  bool covered[ENTRIES_MAX] = {false};
  for (size_t i = 0; i < profile.count; i++) {
    const Entry *entry = &profile.entries[i];
    if (entry->access == HIDDEN) covered[i] = mount_hidden(entry);
    else mount_visible(entry);
  }
  /* After the hidden ones, because a visible directory may be inside a hidden one. */
  for (size_t i = 0; i < profile.count; i++) {
    if (covered[i]) set_mount(AT_FDCWD, profile.entries[i].path, 0, MOUNT_READ_ONLY);
  }
}

static void mount_devices(void) {
  static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random",
                                        "/dev/urandom"};
  for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
    int source = open_on_host(devices[i]);
    if (source < 0) cannot(devices[i]);
    make_target(devices[i], false);
    mount_copy(source, devices[i], MOUNT_NO_SETUID | MOUNT_NO_PROGRAMS | MOUNT_READ_ONLY);
    close(source);
  }
  if (symlink("/proc/self/fd", "/dev/fd") < 0 || symlink("/proc/self/fd/0", "/dev/stdin") < 0 ||
      symlink("/proc/self/fd/1", "/dev/stdout") < 0 || symlink("/proc/self/fd/2", "/dev/stderr") < 0)
    cannot("/dev");
}

/* Builds the root in a new mount namespace, without any mount that is shared with the host. */
static void build_root(void) {
  char options[96];
  if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) cannot("private mounts");
  host_root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (host_root < 0) cannot("/");
  if (mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m") < 0) cannot("/tmp");
  if (mkdir("/tmp" OLD_ROOT, 0700) < 0) cannot(OLD_ROOT);
  if (syscall(SYS_pivot_root, "/tmp", "/tmp" OLD_ROOT) < 0 || chdir("/") < 0) cannot("new root");
  snprintf(options, sizeof options, "mode=1777,nr_inodes=65536,size=%llu", profile.tmp_bytes);
  mount_memory("/tmp", options);
  mount_devices();
  mount_memory("/dev/shm", options);
  make_target("/proc", true);
  if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
    cannot("a fresh /proc (a masked one on the host prevents it)");
  make_target("/var", true);
  if (symlink("/tmp", "/var/tmp") < 0) cannot("/var/tmp");
  make_target("/run", true);
  mount_entries();
  close(host_root);
  if (umount2(OLD_ROOT, MNT_DETACH) < 0 || rmdir(OLD_ROOT) < 0) cannot("old root");
  set_mount(AT_FDCWD, "/", 0, MOUNT_READ_ONLY);
}

#endif
#endif
