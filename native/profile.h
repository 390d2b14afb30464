/*
 * A profile describes what a confined plugin may use, one entry per line.
 *
 *   tier namespaces|landlock|inner     how the plugin is confined
 *   network none                       no network: only its own loopback, or (landlock) no sockets
 *   user 1073741825                    the user and group id of the plugin (default: the spawner's)
 *   tmp 268435456                      bytes that fit into its private /tmp (namespaces only)
 *   read|write|hide /a/path            absolute, without symbolic links, except for system links
 *
 * A path that isn't listed doesn't exist for the plugin. The deepest listed path decides.
 */
#ifndef DUCTILE_PROFILE_H
#define DUCTILE_PROFILE_H

#include "base.h"

#if defined(__linux__)

enum { ENTRIES_MAX = 512, CANNOT_CONFINE = 125 };

typedef enum { MAY_READ, MAY_WRITE, HIDDEN } Access;
typedef enum { BY_NAMESPACES, BY_LANDLOCK, IN_BOX } Tier;

typedef struct {
  char *path;
  Access access;
} Entry;

typedef struct {
  Tier tier;
  bool no_network;
  uid_t user; /* 0: keep the spawner's */
  unsigned long long tmp_bytes;
  Entry entries[ENTRIES_MAX];
  size_t count;
} Profile;

static Profile profile;

static void cannot(const char *what) {
  fprintf(stderr, "cannot be confined: %s: %s\n", what, strerror(errno));
  _exit(CANNOT_CONFINE);
}

static void cannot_read(const char *line) {
  errno = EINVAL;
  cannot(line);
}

/* "/a" contains "/a" and "/a/b", but not "/ab". */
static bool contains(const char *directory, const char *path) {
  size_t length = strlen(directory);
  if (length == 1) return true;
  return strncmp(directory, path, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

/* Sorts parents before their contents, because '/' comes before every other character. */
static int compare_entries(const void *left, const void *right) {
  const char *a = ((const Entry *)left)->path, *b = ((const Entry *)right)->path;
  while (*a != '\0' && *a == *b) a++, b++;
  int first = *a == '/' ? 1 : (unsigned char)*a + 1, second = *b == '/' ? 1 : (unsigned char)*b + 1;
  return (*a == '\0' ? 0 : first) - (*b == '\0' ? 0 : second);
}

/* Returns the deepest entry that contains this one, or NULL. */
static const Entry *entry_around(const Entry *entry) {
  const Entry *found = NULL;
  for (const Entry *other = profile.entries; other < entry; other++) {
    if (contains(other->path, entry->path)) found = other;
  }
  return found;
}

static void add_entry(char *path, Access access) {
  if (path[0] != '/' || profile.count == ENTRIES_MAX) cannot_read(path);
  profile.entries[profile.count++] = (Entry){path, access};
}

static void parse_line(char *line) {
  char *value = strchr(line, ' ');
  if (value == NULL) cannot_read(line);
  *value++ = '\0';
  if (strcmp(line, "read") == 0) add_entry(value, MAY_READ);
  else if (strcmp(line, "write") == 0) add_entry(value, MAY_WRITE);
  else if (strcmp(line, "hide") == 0) add_entry(value, HIDDEN);
  else if (strcmp(line, "user") == 0) profile.user = (uid_t)strtoul(value, NULL, 10);
  else if (strcmp(line, "tmp") == 0) profile.tmp_bytes = strtoull(value, NULL, 10);
  else if (strcmp(line, "network") == 0) profile.no_network = strcmp(value, "none") == 0;
  else if (strcmp(line, "tier") != 0) cannot_read(line);
  else if (strcmp(value, "namespaces") == 0) profile.tier = BY_NAMESPACES;
  else if (strcmp(value, "landlock") == 0) profile.tier = BY_LANDLOCK;
  else if (strcmp(value, "inner") == 0) profile.tier = IN_BOX;
  else cannot_read(value);
}

/* Parses a copy and wipes the argument, which the process list shows to everyone. */
static void parse_profile(char *argument) {
  char *text = strdup(argument);
  if (text == NULL) cannot("memory");
  memset(argument, 0, strlen(argument));
  for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) parse_line(line);
  qsort(profile.entries, profile.count, sizeof *profile.entries, compare_entries);
}

#endif
#endif
