/* Drops the rights of a confined process before it becomes the plugin: its user and its capabilities. */
#ifndef DUCTILE_RIGHTS_H
#define DUCTILE_RIGHTS_H

#include "profile.h"

#if defined(__linux__)
#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/*
 * Empties the bounding set first, while this is allowed: no program can regain what isn't in it. A user
 * without rights can't empty it and can't gain capabilities; only root must have an empty one.
 */
static void drop_bounding_set(void) {
  for (int right = 0; prctl(PR_CAPBSET_DROP, right, 0, 0, 0) == 0; right++) continue;
  if (errno == EINVAL || geteuid() != 0) return; /* that was the last one */
  for (int right = 0, has; (has = prctl(PR_CAPBSET_READ, right, 0, 0, 0)) >= 0; right++) {
    if (has > 0) cannot("capabilities");
  }
}

static void drop_capabilities(void) {
  struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct none[2] = {{0, 0, 0}, {0, 0, 0}};
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  if (syscall(SYS_capset, &head, none) < 0) cannot("capabilities");
}

static void become_user(void) {
  uid_t user = profile.user;
  if (user == 0) return;
  if (setgroups(0, NULL) < 0 || setresgid(user, user, user) < 0 || setresuid(user, user, user) < 0)
    cannot("user of the plugin");
}

static void drop_rights(void) {
  drop_bounding_set();
  become_user();
  drop_capabilities();
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) cannot("privileges");
}

#endif
#endif
