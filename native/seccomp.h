/*
 * A seccomp filter: system calls that a confined plugin never needs and that reach the kernel's less
 * guarded parts fail with EPERM. Everything else is allowed.
 */
#ifndef DUCTILE_SECCOMP_H
#define DUCTILE_SECCOMP_H

#include "profile.h"

#if defined(__linux__)
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
#define FILTER_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define FILTER_ARCH AUDIT_ARCH_AARCH64
#elif defined(__riscv) && __riscv_xlen == 64
#define FILTER_ARCH AUDIT_ARCH_RISCV64
#endif

/* Numbers from 424 on are the same everywhere. */
enum { NR_CLONE3 = 435, X32_BIT = 0x40000000 };
enum { NAMESPACE_FLAGS = 0x7e020080 }; /* CLONE_NEW* */
enum { FAMILY_ALG = 38, FAMILY_VSOCK = 40 };
enum { IOCTL_STI = 0x5412, IOCTL_LINUX = 0x541c, IOCTL_SETFLAGS = 0x40086602 };
enum { IOCTL_SETXATTR = 0x401c5820 };

/* Tracing, mounting, namespaces, keys, kernel programs, modules, clocks, and file handles. */
static const int refused_calls[] = {
    SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_kcmp, 438 /* pidfd_getfd */,
    SYS_perf_event_open, SYS_bpf, SYS_userfaultfd, 425, 426, 427 /* io_uring */,
    SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_setns, 428, 429, 430, 431, 432, 433,
    442, 467 /* open_tree, move_mount, fsopen, fsconfig, fsmount, fspick, mount_setattr, … */,
    SYS_keyctl, SYS_add_key, SYS_request_key, SYS_open_by_handle_at, SYS_name_to_handle_at,
    SYS_fanotify_init, SYS_kexec_load, SYS_init_module, SYS_finit_module, SYS_delete_module,
    SYS_reboot, SYS_swapon, SYS_swapoff, SYS_acct, SYS_quotactl, 443 /* quotactl_fd */, SYS_syslog,
    SYS_settimeofday, SYS_clock_settime, SYS_clock_adjtime, SYS_adjtimex, SYS_sethostname,
    SYS_setdomainname, SYS_vhangup, SYS_move_pages, SYS_migrate_pages, SYS_mbind,
#if defined(SYS_kexec_file_load)
    SYS_kexec_file_load,
#endif
#if defined(SYS_iopl)
    SYS_iopl, SYS_ioperm, SYS_modify_ldt,
#endif
};

/* Changes of files that Landlock doesn't govern; refused where files of others could be reached. */
static const int metadata_calls[] = {
    SYS_fchmod, SYS_fchmodat, 452 /* fchmodat2 */, SYS_fchown, SYS_fchownat, SYS_utimensat,
    SYS_setxattr, SYS_lsetxattr, SYS_fsetxattr, 463 /* setxattrat */, SYS_removexattr,
    SYS_lremovexattr, SYS_fremovexattr, 466 /* removexattrat */, 469 /* file_setattr */,
#if defined(SYS_chmod)
    SYS_chmod, SYS_chown, SYS_lchown, SYS_utime, SYS_utimes, SYS_futimesat,
#endif
};

enum { FILTER_MAX = 512 };
static struct sock_filter filter[FILTER_MAX];
static unsigned short filter_length;

static void emit(unsigned short code, uint32_t value, unsigned char yes, unsigned char no) {
  if (filter_length == FILTER_MAX) cannot("seccomp filter");
  filter[filter_length++] = (struct sock_filter){code, yes, no, value};
}

static void emit_load(size_t offset) { emit(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0); }

static void emit_result(int error) {
  emit(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error, 0, 0);
}

static void refuse_call(int call, int error) {
  emit(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 1);
  emit_result(error);
}

static void refuse_calls(const int *calls, size_t count) {
  for (size_t i = 0; i < count; i++) refuse_call(calls[i], EPERM);
}

/* Refuses a call if its argument matches a value; `test` is BPF_JEQ, or BPF_JSET for any bit. */
static void refuse_values(int call, int argument, unsigned short test, const uint32_t *values,
                          unsigned char count) {
  emit(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, (unsigned char)(2 * count + 2));
  emit_load(offsetof(struct seccomp_data, args) + (size_t)argument * 8);
  for (unsigned char i = 0; i < count; i++) {
    emit(BPF_JMP | test | BPF_K, values[i], 0, 1);
    emit_result(EPERM);
  }
  emit_load(offsetof(struct seccomp_data, nr));
}

#define COUNT(list) (sizeof(list) / sizeof *(list))

typedef struct {
  bool no_metadata, no_unix_sockets, no_sockets;
} Filter;

static void seccomp_restrict(Filter wanted) {
#if defined(FILTER_ARCH)
  emit_load(offsetof(struct seccomp_data, arch));
  emit(BPF_JMP | BPF_JEQ | BPF_K, FILTER_ARCH, 1, 0);
  emit(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS, 0, 0);
  emit_load(offsetof(struct seccomp_data, nr));
  emit(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1);
  emit_result(ENOSYS);
  /* The library then uses clone, whose flags a filter can read. */
  refuse_call(NR_CLONE3, ENOSYS);
  const uint32_t spaces[] = {NAMESPACE_FLAGS};
  refuse_values(SYS_clone, 0, BPF_JSET, spaces, COUNT(spaces));
  refuse_values(SYS_unshare, 0, BPF_JSET, spaces, COUNT(spaces));
  const uint32_t families[] = {FAMILY_ALG, FAMILY_VSOCK, AF_UNIX};
  refuse_values(SYS_socket, 0, BPF_JEQ, families, wanted.no_unix_sockets ? 3 : 2);
  if (wanted.no_sockets) refuse_call(SYS_socket, EACCES);
  const uint32_t controls[] = {IOCTL_STI, IOCTL_LINUX, IOCTL_SETFLAGS, IOCTL_SETXATTR};
  refuse_values(SYS_ioctl, 1, BPF_JEQ, controls, wanted.no_metadata ? 4 : 2);
  refuse_calls(refused_calls, COUNT(refused_calls));
  if (wanted.no_metadata) refuse_calls(metadata_calls, COUNT(metadata_calls));
  emit(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
  struct sock_fprog program = {filter_length, filter};
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0) cannot("seccomp");
#else
  (void)wanted;
  errno = ENOSYS;
  cannot("seccomp on this processor");
#endif
}

#endif
#endif
