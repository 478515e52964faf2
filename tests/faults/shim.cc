// Loaded into the command with LD_PRELOAD: something happens just before the n-th step of writing
// files.
//
//   EVOQ_FAULT=WHAT:N   kill, term, int, hup: that signal; full: the step fails with "No space left
//                       on device", and stderr says so ("shim: this step fails")
//
// Steps are the opening of a file to be made, write and fsync (not of standard streams), fchmod,
// linkat and rename. A step that is not reached changes nothing. EVOQ_NO_TMPFILE=1: the file system
// has no unnamed files.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace {

std::atomic<int> steps{0};

// Whether this step fails; signals come from here.
bool Step() {
  static const char* const fault = std::getenv("EVOQ_FAULT");
  if (fault == nullptr) return false;
  static const char* const colon = std::strchr(fault, ':');
  if (colon == nullptr || steps.fetch_add(1) + 1 != std::atoi(colon + 1)) return false;
  const struct {
    const char* name;
    int signal;
  } kinds[] = {{"kill:", SIGKILL}, {"term:", SIGTERM}, {"int:", SIGINT}, {"hup:", SIGHUP}};
  for (const auto& kind : kinds) {
    if (std::strncmp(fault, kind.name, std::strlen(kind.name)) == 0) ::raise(kind.signal);
  }
  if (std::strncmp(fault, "full:", 5) != 0) return false;
  constexpr char kTold[] = "shim: this step fails\n";
  if (::write(STDERR_FILENO, kTold, sizeof(kTold) - 1) < 0) std::abort();
  errno = ENOSPC;
  return true;
}

template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

int Open(const char* name, const char* path, int flags, mode_t mode) {
  const bool unnamed = (flags & O_TMPFILE) == O_TMPFILE;
  if (unnamed && std::getenv("EVOQ_NO_TMPFILE") != nullptr) {
    errno = EOPNOTSUPP;
    return -1;
  }
  if ((unnamed || (flags & O_CREAT) != 0) && Step()) return -1;
  return Next<int(const char*, int, ...)>(name)(path, flags, mode);
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = va_arg(rest, mode_t);
  va_end(rest);
  return Open("open", path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = va_arg(rest, mode_t);
  va_end(rest);
  return Open("open64", path, flags, mode);
}
ssize_t write(int fd, const void* data, size_t bytes) {
  if (fd > 2 && Step()) return -1;
  return Next<ssize_t(int, const void*, size_t)>("write")(fd, data, bytes);
}
int fsync(int fd) { return Step() ? -1 : Next<int(int)>("fsync")(fd); }
int fchmod(int fd, mode_t mode) noexcept {
  return Step() ? -1 : Next<int(int, mode_t)>("fchmod")(fd, mode);
}
int linkat(int from, const char* old, int to, const char* path, int flags) noexcept {
  return Step() ? -1
                : Next<int(int, const char*, int, const char*, int)>("linkat")(from, old, to, path,
                                                                               flags);
}
int rename(const char* old, const char* path) noexcept {
  return Step() ? -1 : Next<int(const char*, const char*)>("rename")(old, path);
}

}  // extern "C"
