// Makes one call of the operating system fail, among those of a process on files below a folder.
//
// Preloaded (LD_PRELOAD) into a dynamically linked program. Settings are variables of the environment:
//   FAILING_UNDER  absolute path; calls on files below it are counted, from 1
//   FAILING_AT     the number of the call that fails; 0: none
//   FAILING_MODE   eio, enospc, or short: a write takes half of the bytes, other calls fail with EIO
//   FAILING_LOG    a file that receives one line for the call that failed, and the count at the end
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long count;
static long at;
static const char *under, *mode, *log_path;
static _Atomic unsigned char ours[65536];   // file descriptors below the folder

#define NEXT(name) static __typeof__(name) *next; if (!next) next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

__attribute__((constructor)) static void begin(void) {
  under = getenv("FAILING_UNDER");
  mode = getenv("FAILING_MODE");
  log_path = getenv("FAILING_LOG");
  at = getenv("FAILING_AT") ? atol(getenv("FAILING_AT")) : 0;
}

static void note(const char *text, const char *path, long number) {
  if (!log_path) return;
  char line[PATH_MAX + 128];
  int length = snprintf(line, sizeof line, "%s %ld %s\n", text, number, path);
  long fd = syscall(SYS_openat, AT_FDCWD, log_path, O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (fd < 0) return;
  syscall(SYS_write, fd, line, (long)length);
  syscall(SYS_close, fd);
}

__attribute__((destructor)) static void end(void) { note("calls", "", atomic_load(&count)); }

static int is_below(const char *path) {
  if (!under || !path) return 0;
  char whole[2 * PATH_MAX];
  if (path[0] != '/') {
    char folder[PATH_MAX / 2];
    if (!getcwd(folder, sizeof folder)) return 0;
    snprintf(whole, sizeof whole, "%s/%s", folder, path);
    path = whole;
  }
  size_t length = strlen(under);
  return strncmp(path, under, length) == 0 && (path[length] == '/' || path[length] == 0);
}

static int is_ours(int fd) { return fd >= 0 && fd < 65536 && atomic_load(&ours[fd]); }

// Counts a call; whether it is the one that fails.
static int fails(const char *call, const char *path) {
  long number = atomic_fetch_add(&count, 1) + 1;
  if (number != at) return 0;
  note(call, path ? path : "", number);
  errno = mode && strcmp(mode, "enospc") == 0 ? ENOSPC : EIO;
  return 1;
}

static int is_short(void) { return mode && strcmp(mode, "short") == 0; }

static int opened(int fd, const char *path) {
  if (fd >= 0 && fd < 65536) atomic_store(&ours[fd], is_below(path));
  return fd;
}

#define OPEN(name)                                                        \
  int name(const char *path, int flags, ...) {                           \
    NEXT(name);                                                           \
    va_list list; va_start(list, flags); mode_t bits = va_arg(list, mode_t); va_end(list); \
    if (is_below(path) && fails(#name, path)) return -1;                  \
    return opened(next(path, flags, bits), path);                         \
  }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                      \
  int name(int folder, const char *path, int flags, ...) {               \
    NEXT(name);                                                           \
    va_list list; va_start(list, flags); mode_t bits = va_arg(list, mode_t); va_end(list); \
    if (is_below(path) && fails(#name, path)) return -1;                  \
    return opened(next(folder, path, flags, bits), path);                 \
  }
OPENAT(openat)
OPENAT(openat64)

int close(int fd) {
  NEXT(close);
  if (fd >= 0 && fd < 65536) atomic_store(&ours[fd], 0);
  return next(fd);
}

ssize_t read(int fd, void *bytes, size_t length) {
  NEXT(read);
  return is_ours(fd) && fails("read", NULL) ? -1 : next(fd, bytes, length);
}

#define PREAD(name, offset_type)                                          \
  ssize_t name(int fd, void *bytes, size_t length, offset_type from) {   \
    NEXT(name);                                                           \
    return is_ours(fd) && fails(#name, NULL) ? -1 : next(fd, bytes, length, from); \
  }
PREAD(pread, off_t)
PREAD(pread64, off64_t)

ssize_t write(int fd, const void *bytes, size_t length) {
  NEXT(write);
  if (is_ours(fd) && fails("write", NULL)) {
    if (is_short() && length > 1) return next(fd, bytes, length / 2);
    return -1;
  }
  return next(fd, bytes, length);
}

ssize_t writev(int fd, const struct iovec *parts, int number) {
  NEXT(writev);
  if (is_ours(fd) && fails("writev", NULL)) {
    if (is_short() && number > 0) return write(fd, parts[0].iov_base, parts[0].iov_len / 2);
    return -1;
  }
  return next(fd, parts, number);
}

#define PWRITE(name, offset_type)                                         \
  ssize_t name(int fd, const void *bytes, size_t length, offset_type from) { \
    NEXT(name);                                                           \
    if (is_ours(fd) && fails(#name, NULL)) {                              \
      if (is_short() && length > 1) return next(fd, bytes, length / 2, from); \
      return -1;                                                          \
    }                                                                     \
    return next(fd, bytes, length, from);                                 \
  }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

#define ON_FD(name)                                                       \
  int name(int fd) {                                                      \
    NEXT(name);                                                           \
    return is_ours(fd) && fails(#name, NULL) ? -1 : next(fd);             \
  }
ON_FD(fsync)
ON_FD(fdatasync)

#define TRUNCATE(name, offset_type)                                       \
  int name(int fd, offset_type length) {                                  \
    NEXT(name);                                                           \
    return is_ours(fd) && fails(#name, NULL) ? -1 : next(fd, length);     \
  }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

#define ON_TWO_PATHS(name)                                                \
  int name(const char *from, const char *to) {                            \
    NEXT(name);                                                           \
    return is_below(to) && fails(#name, to) ? -1 : next(from, to);        \
  }
ON_TWO_PATHS(rename)
ON_TWO_PATHS(link)

int renameat2(int a, const char *from, int b, const char *to, unsigned flags) {
  NEXT(renameat2);
  return is_below(to) && fails("renameat2", to) ? -1 : next(a, from, b, to, flags);
}

int linkat(int a, const char *from, int b, const char *to, int flags) {
  NEXT(linkat);
  return is_below(to) && fails("linkat", to) ? -1 : next(a, from, b, to, flags);
}

int mkdir(const char *path, mode_t bits) {
  NEXT(mkdir);
  return is_below(path) && fails("mkdir", path) ? -1 : next(path, bits);
}

#define ON_PATH(name)                                                     \
  int name(const char *path) {                                            \
    NEXT(name);                                                           \
    return is_below(path) && fails(#name, path) ? -1 : next(path);        \
  }
ON_PATH(unlink)
ON_PATH(rmdir)

void *mmap64(void *address, size_t length, int protection, int flags, int fd, off64_t from) {
  NEXT(mmap64);
  return is_ours(fd) && fails("mmap", NULL) ? MAP_FAILED : next(address, length, protection, flags, fd, from);
}
