/*
 * A start through this program itself: it gives up the sight of some directories and becomes the
 * plugin.
 *
 *   spawner --confine [-h HIDDEN]... [-r READABLE]... -- PROGRAM
 *
 * Landlock knows only what is allowed, so everything is allowed that lies beside the way to what is
 * hidden: for /a/b/c all of / but a, all of /a but b and all of /a/b but c. What is made beside that
 * way later is not seen either. Directories that may be read although they lie in a hidden one are
 * allowed by name. The same rules keep the process from looking into others (their memory,
 * environment and root) and, where the kernel can, from sending them signals.
 */
#ifndef DUCTILE_CONFINE_H
#define DUCTILE_CONFINE_H

#include "base.h"

#if defined(__linux__)

#include <dirent.h>
#include <limits.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* The same on every architecture. Spelled out: the headers of a build may be older than the kernel. */
enum { SYS_CREATE_RULESET = 444, SYS_ADD_RULE = 445, SYS_RESTRICT_SELF = 446 };
enum { RULESET_VERSION = 1, RULE_PATH_BENEATH = 1 };
enum { HIDDEN_MAX = 32, CANNOT_CONFINE = 125 };

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
#define SCOPE_SIGNAL (1ull << 1)

typedef struct {
  uint64_t fs, net, scoped;
} Ruleset;

typedef struct {
  uint64_t allowed;
  int32_t parent;
} __attribute__((packed)) PathRule;

static uint64_t confine_rights;
static int confine_rules;
static const char *confine_hidden[HIDDEN_MAX];
static size_t confine_hidden_count;

static void cannot(const char *what) {
  fprintf(stderr, "cannot be confined: %s: %s\n", what, strerror(errno));
  _exit(CANNOT_CONFINE);
}

static void confine_open(void) {
  long abi = syscall(SYS_CREATE_RULESET, NULL, 0, RULESET_VERSION);
  if (abi < 1) cannot("landlock");
  confine_rights = FS_FIRST;
  if (abi >= 2) confine_rights |= FS_REFER;
  if (abi >= 3) confine_rights |= FS_TRUNCATE;
  if (abi >= 5) confine_rights |= FS_IOCTL_DEV;
  Ruleset set = {confine_rights, 0, abi >= 6 ? SCOPE_SIGNAL : 0};
  size_t size = abi >= 6 ? sizeof set : abi >= 4 ? 16 : 8;
  confine_rules = (int)syscall(SYS_CREATE_RULESET, &set, size, 0);
  if (confine_rules < 0) cannot("ruleset");
}

/* What is gone meanwhile, or is a link, needs no rule: where a link leads has its own. */
static void confine_allow(const char *path, uint64_t rights) {
  int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  struct stat stat;
  if (fstat(fd, &stat) == 0 && !S_ISLNK(stat.st_mode)) {
    uint64_t fitting = S_ISDIR(stat.st_mode) ? rights : rights & FS_OF_FILES;
    PathRule rule = {fitting & confine_rights, fd};
    syscall(SYS_ADD_RULE, confine_rules, RULE_PATH_BENEATH, &rule, 0);
  }
  close(fd);
}

static bool is_on_the_way(const char *path, const char *to) {
  size_t length = strlen(path);
  return strncmp(path, to, length) == 0 && (to[length] == '/' || to[length] == '\0');
}

static bool leads_to_hidden(const char *path) {
  for (size_t i = 0; i < confine_hidden_count; i++) {
    if (is_on_the_way(path, confine_hidden[i])) return true;
  }
  return false;
}

static bool is_hidden(const char *path) {
  for (size_t i = 0; i < confine_hidden_count; i++) {
    if (strcmp(path, confine_hidden[i]) == 0) return true;
  }
  return false;
}

/* Everything in a directory on the way to something hidden; the way itself is followed. */
static void confine_beside(const char *directory) {
  DIR *opened = opendir(directory[0] == '\0' ? "/" : directory);
  if (opened == NULL) return;
  for (struct dirent *entry; (entry = readdir(opened)) != NULL;) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", directory, entry->d_name) >= (int)sizeof path) continue;
    if (!leads_to_hidden(path)) confine_allow(path, confine_rights);
    else if (!is_hidden(path)) confine_beside(path);
  }
  closedir(opened);
}

/* Of root's own rights those by which the environment of any process can be read all the same. */
static void confine_root(void) {
  const int rights[] = {19 /* ptrace */, 21 /* administration */, 38 /* performance */};
  for (size_t i = 0; i < sizeof rights / sizeof *rights; i++) {
    if (prctl(PR_CAPBSET_DROP, rights[i], 0, 0, 0) < 0 && geteuid() == 0 && errno != EINVAL) {
      cannot("rights of root");
    }
  }
}

static int confine(int argc, char **argv) {
  int at = 2;
  const char *readable[HIDDEN_MAX];
  size_t readable_count = 0;
  for (; at + 1 < argc && strcmp(argv[at], "--") != 0; at += 2) {
    bool hides = strcmp(argv[at], "-h") == 0;
    if (confine_hidden_count + readable_count >= HIDDEN_MAX) cannot("too many directories");
    if (hides) confine_hidden[confine_hidden_count++] = argv[at + 1];
    else readable[readable_count++] = argv[at + 1];
  }
  if (at + 1 >= argc) cannot("arguments");
  confine_open();
  confine_beside("");
  for (size_t i = 0; i < readable_count; i++) confine_allow(readable[i], FS_TO_READ);
  confine_root();
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) cannot("privileges");
  if (syscall(SYS_RESTRICT_SELF, confine_rules, 0) < 0) cannot("restriction");
  close(confine_rules);
  extern char **environ;
  execve(argv[at + 1], argv + at + 1, environ);
  cannot(argv[at + 1]);
  return CANNOT_CONFINE;
}

#else

static int confine(int argc, char **argv) {
  (void)argc, (void)argv;
  return 125;
}

#endif
#endif
