// Objects that code far below on the same thread finds without being given them.
#pragma once

namespace evoq {

// While it lives, `of` is this thread's T (Active); of scopes inside of each other the innermost
// one's. `of` may be null. A thread that works for another enters what is active there.
template <typename T>
class ThreadScope {
 public:
  explicit ThreadScope(T* of) : outer_(active_) { active_ = of; }
  ~ThreadScope() { active_ = outer_; }
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

  static T* Active() { return active_; }

 private:
  static inline thread_local T* active_ = nullptr;
  T* outer_;
};

}  // namespace evoq
