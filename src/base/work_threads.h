// How many threads work far below may use that has no option of its own: packing constants.
#pragma once

namespace evoq {

// While it lives, WorkThreads::Get on this thread is `count`, 0 for one per physical core. Outside
// of any scope it is 1. Results never depend on it.
class WorkThreads {
 public:
  explicit WorkThreads(int count);
  ~WorkThreads();
  WorkThreads(const WorkThreads&) = delete;
  WorkThreads& operator=(const WorkThreads&) = delete;

  static int Get();

 private:
  int outer_;
};

}  // namespace evoq
