/*
 * A start through this program itself: it gives up rights and becomes the plugin.
 *
 *   spawner --confine PROFILE -- PROGRAM        (profile.h)
 *
 * namespaces   a box of its own (box.h), Landlock where the kernel has it, and a seccomp filter
 * landlock     Landlock with scopes (Linux 6.12), and a seccomp filter that also refuses what Landlock
 *              doesn't govern; for containers that allow no namespaces
 * inner        the same without making a box, for a program that bubblewrap has put into one
 *
 * Whatever fails, nothing is started: exit code 125, and the reason on stderr.
 */
#ifndef DUCTILE_CONFINE_H
#define DUCTILE_CONFINE_H

#include "base.h"

#if defined(__linux__)

#include "box.h"
#include "landlock.h"
#include "profile.h"
#include "rights.h"
#include "seccomp.h"

static void restrict_self(void) {
  long abi = landlock_abi();
  bool has_scopes = abi >= LANDLOCK_SCOPES;
  if (profile.tier == BY_LANDLOCK && !has_scopes) {
    errno = ENOSYS;
    cannot("Landlock can't keep signals in (Linux 6.12 can)");
  }
  drop_rights();
  if (abi >= 1) landlock_restrict(abi);
  bool is_outside = profile.tier == BY_LANDLOCK;
  seccomp_restrict((Filter){
      /* A user of its own owns nothing outside. The files of the service's user are its own. */
      .no_metadata = is_outside && profile.user == 0,
      /* Abstract sockets belong to the network; sockets with a path to every process that sees the path. */
      .no_unix_sockets = is_outside || (!profile.no_network && !has_scopes),
      .no_sockets = is_outside && profile.no_network,
  });
}

static int confine(int argc, char **argv) {
  extern char **environ;
  char directory[PATH_MAX];
  if (argc < 5 || strcmp(argv[3], "--") != 0) cannot_read("arguments");
  parse_profile(argv[2]);
  if (getcwd(directory, sizeof directory) == NULL) cannot("directory");
  if (profile.tier == BY_NAMESPACES) enter_box();
  if (chdir(directory) < 0) cannot(directory);
  restrict_self();
  execve(argv[4], argv + 4, environ);
  cannot(argv[4]);
  return CANNOT_CONFINE;
}

#else

static int confine(int argc, char **argv) {
  (void)argc, (void)argv;
  return 125;
}

#endif
#endif
