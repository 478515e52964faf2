// For tests: something happens in a process of its own, so that limits, signals, damage and death
// stay there.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <type_traits>

namespace evoq {

// Runs `body` in a child process, which ends after it: with 1 where it returns false, else with 0.
// What waitpid says of that end; a child that hangs is ended by SIGALRM.
template <typename Body>
int StatusOfChild(const Body& body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::alarm(120);
    if constexpr (std::is_void_v<std::invoke_result_t<Body>>) {
      body();
      ::_exit(0);
    } else {
      ::_exit(body() ? 0 : 1);
    }
  }
  int status = -1;
  ::waitpid(pid, &status, 0);
  return status;
}

// Whether `body` is true in a child process.
template <typename Body>
bool InChild(const Body& body) {
  const int status = StatusOfChild(body);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace evoq
