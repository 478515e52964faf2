// How much memory and work one input may cost. A reader draws on a budget before it allocates or
// computes, so that a small file cannot exhaust the machine, whichever of its fields is wrong
// (docs/bad-input.md).
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace evoq {

// For one thread at a time. A unit of work is about a nanosecond: a byte copied or unpacked, a
// multiplication, an entry looked at.
class Budget {
 public:
  // What a file may cost whose readers know no better limit: it grows with the file, so that honest
  // large files are read.
  static constexpr int64_t kFileMemory = int64_t{128} << 20, kMemoryPerByte = 64;
  static constexpr int64_t kFileWork = int64_t{1} << 30, kWorkPerByte = 1024;

  Budget(int64_t memory_bytes, int64_t work_units)
      : memory_{memory_bytes, memory_bytes}, work_{work_units, work_units} {}
  static Budget ForFile(int64_t file_bytes);

  // Draws `bytes` or `units` for `what` ("member x.npy", "image of 3 x 4 pixels"). When less is
  // left nothing is drawn. Errors: kTooLarge with `what`, what it asked for, what is left and the
  // whole; the caller puts the file before it. A negative amount, which an overflow leaves, is too
  // large.
  Status TakeMemory(int64_t bytes, std::string_view what) {
    if (!Draw(memory_, bytes)) return Exceeded(memory_, bytes, "bytes of memory", what);
    return {};
  }
  Status TakeWork(int64_t units, std::string_view what) {
    if (!Draw(work_, units)) return Exceeded(work_, units, "units of work", what);
    return {};
  }
  // One more file to read: the limits grow as ForFile's do.
  void AddFile(int64_t file_bytes);
  // Gives back memory that was taken and is freed again.
  void GiveMemory(int64_t bytes) { memory_.left += bytes; }

  int64_t memory_left() const { return memory_.left; }
  int64_t memory_limit() const { return memory_.limit; }
  int64_t work_left() const { return work_.left; }

 private:
  struct Account {
    int64_t left, limit;
  };
  static bool Draw(Account& account, int64_t amount) {
    if (amount < 0 || amount > account.left) return false;
    account.left -= amount;
    return true;
  }
  static Status Exceeded(const Account& account, int64_t amount, std::string_view unit,
                         std::string_view what);
  Account memory_, work_;
};

}  // namespace evoq
