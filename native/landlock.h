/*
 * Landlock: rules that a process sets for itself and everything it starts. It allows reading and
 * writing by path, and keeps the process from tracing, and from signalling or connecting to abstract
 * sockets of, anything outside. It doesn't govern chmod, chown, utime, stat and sockets with a path.
 */
#ifndef DUCTILE_LANDLOCK_H
#define DUCTILE_LANDLOCK_H

#include "profile.h"

#if defined(__linux__)
#include <dirent.h>
#include <limits.h>
#include <sys/syscall.h>

/* Equal on every architecture. Defined here, because a build's headers may be older than the kernel. */
enum { SYS_CREATE_RULESET = 444, SYS_ADD_RULE = 445, SYS_RESTRICT_SELF = 446 };
enum { RULESET_VERSION = 1, RULE_PATH_BENEATH = 1 };

/* Signals and abstract sockets are scoped from here on (Linux 6.12). */
enum { LANDLOCK_SCOPES = 6 };

/* Only a test build sets this, to see what an older kernel would get. */
#if !defined(DUCTILE_LANDLOCK_MAX)
#define DUCTILE_LANDLOCK_MAX 1000
#endif

#define FS_EXECUTE (1ull << 0)
#define FS_WRITE_FILE (1ull << 1)
#define FS_READ_FILE (1ull << 2)
#define FS_READ_DIR (1ull << 3)
#define FS_FIRST 0x1fffull
#define FS_REFER (1ull << 13)
#define FS_TRUNCATE (1ull << 14)
#define FS_IOCTL_DEV (1ull << 15)
#define FS_OF_FILES (FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV)
#define FS_TO_READ (FS_EXECUTE | FS_READ_FILE | FS_READ_DIR)
#define FS_TO_USE (FS_READ_FILE | FS_READ_DIR | FS_WRITE_FILE | FS_TRUNCATE | FS_IOCTL_DEV)
#define SCOPE_ABSTRACT_SOCKET (1ull << 0)
#define SCOPE_SIGNAL (1ull << 1)

typedef struct {
  uint64_t fs, net, scoped;
} Ruleset;

typedef struct {
  uint64_t allowed;
  int32_t parent;
} __attribute__((packed)) PathRule;

static uint64_t landlock_rights;

static const char *const usable_devices[] = {"/dev/null", "/dev/zero",    "/dev/full",
                                             "/dev/random", "/dev/urandom", "/dev/tty"};
enum { USABLE_DEVICES = sizeof usable_devices / sizeof *usable_devices };

static long landlock_abi(void) {
  long abi = syscall(SYS_CREATE_RULESET, NULL, 0, RULESET_VERSION);
  return abi > DUCTILE_LANDLOCK_MAX ? DUCTILE_LANDLOCK_MAX : abi;
}

static int landlock_open(long abi) {
  landlock_rights = FS_FIRST;
  if (abi >= 2) landlock_rights |= FS_REFER;
  if (abi >= 3) landlock_rights |= FS_TRUNCATE;
  if (abi >= 5) landlock_rights |= FS_IOCTL_DEV;
  bool scopes = abi >= LANDLOCK_SCOPES;
  Ruleset set = {landlock_rights, 0, scopes ? SCOPE_ABSTRACT_SOCKET | SCOPE_SIGNAL : 0};
  size_t size = scopes ? sizeof set : abi >= 4 ? 16 : 8;
  int rules = (int)syscall(SYS_CREATE_RULESET, &set, size, 0);
  if (rules < 0) cannot("landlock ruleset");
  return rules;
}

/* A missing path or a link needs no rule: the target of a link has its own. */
static void landlock_allow(int rules, const char *path, uint64_t rights) {
  int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  struct stat stat;
  if (fstat(fd, &stat) == 0 && !S_ISLNK(stat.st_mode)) {
    uint64_t fitting = S_ISDIR(stat.st_mode) ? rights : rights & FS_OF_FILES;
    PathRule rule = {fitting & landlock_rights, fd};
    if (syscall(SYS_ADD_RULE, rules, RULE_PATH_BENEATH, &rule, 0) < 0) cannot("landlock rule");
  }
  close(fd);
}

/* True if a hidden path is this one or inside it. */
static bool leads_to_hidden(const char *path, bool itself) {
  for (size_t i = 0; i < profile.count; i++) {
    const Entry *entry = &profile.entries[i];
    if (entry->access != HIDDEN || !contains(path, entry->path)) continue;
    if (!itself || strcmp(path, entry->path) == 0) return true;
  }
  return false;
}

/*
 * Rules add up, so a directory that contains a hidden path gets none itself. Instead, all its other
 * entries do, except for those that are created later.
 */
static void landlock_allow_around(int rules, const char *path) {
  if (leads_to_hidden(path, true)) return;
  if (!leads_to_hidden(path, false)) {
    landlock_allow(rules, path, FS_TO_READ);
    return;
  }
  DIR *opened = opendir(path);
  if (opened == NULL) return;
  for (struct dirent *found; (found = readdir(opened)) != NULL;) {
    char below[PATH_MAX];
    if (strcmp(found->d_name, ".") == 0 || strcmp(found->d_name, "..") == 0) continue;
    if (snprintf(below, sizeof below, "%s/%s", path, found->d_name) >= (int)sizeof below) continue;
    landlock_allow_around(rules, below);
  }
  closedir(opened);
}

static void landlock_add_entries(int rules) {
  for (size_t i = 0; i < profile.count; i++) {
    const Entry *entry = &profile.entries[i];
    bool is_outside = profile.tier == BY_LANDLOCK;
    if (entry->access == MAY_READ && is_outside) landlock_allow_around(rules, entry->path);
    if (entry->access == MAY_WRITE) landlock_allow(rules, entry->path, landlock_rights);
  }
}

static void landlock_restrict(long abi) {
  int rules = landlock_open(abi);
  if (profile.tier != BY_LANDLOCK) { /* the mounts decide what is there */
    landlock_allow(rules, "/", FS_TO_READ);
    landlock_allow(rules, "/tmp", landlock_rights);
    landlock_allow(rules, "/dev/shm", landlock_rights);
  }
  landlock_add_entries(rules);
  landlock_allow(rules, "/proc", FS_TO_USE);
  for (int i = 0; i < USABLE_DEVICES; i++) landlock_allow(rules, usable_devices[i], FS_TO_USE);
  if (syscall(SYS_RESTRICT_SELF, rules, 0) < 0) cannot("landlock");
  close(rules);
}

#endif
#endif
