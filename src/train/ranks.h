// Processes that train one model together, each a part of every batch (MPI).
//
// What they share is added up in the order of the batch's shards, whoever computed them: each
// process adds its own to what the ones before it had, and the last one tells all. So any number of
// processes gives the bits of one.
//
// The library of Open MPI is opened when it is asked for, by the names that its binary interface
// has (libmpi.so.40, of Open MPI 2 to 5): evoq is built without MPI and runs where there is none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace evoq {

// FNV-1a, of bytes behind those that gave `so_far`.
uint64_t HashOf(std::span<const std::byte> bytes, uint64_t so_far = 0xcbf29ce484222325ull);

class Ranks {
 public:
  // Of a process that mpirun started; once in a process. Errors: kNotFound where the library is not
  // there or is another MPI's.
  static Result<std::unique_ptr<Ranks>> Start();
  // Ends the work together, where Finish was called. Else the process is leaving with an error, and
  // mpirun ends the others when it is gone.
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Of `all` shards, those of this process: from First(rank()) to First(rank() + 1).
  int64_t First(int rank, int64_t all) const { return all * rank / size_; }

  // `sums` becomes the sum over all processes, in their order: `add` changes the part that begins
  // at `first` from what the processes before left there, which for the first one is undefined. A
  // call on every process, of the same size.
  template <typename T>
  void SumInOrder(std::span<T> sums,
                  const std::function<void(size_t first, std::span<T> part)>& add) const {
    constexpr size_t kPart = 1 << 16;  // elements under way at a time
    for (size_t first = 0; first < sums.size(); first += kPart) {
      const std::span<T> part = sums.subspan(first, std::min(kPart, sums.size() - first));
      if (rank_ > 0) Receive(std::as_writable_bytes(part), rank_ - 1);
      add(first, part);
      if (rank_ + 1 < size_) Send(std::as_bytes(part), rank_ + 1);
    }
    Broadcast(std::as_writable_bytes(sums), size_ - 1);
  }

  // Errors, on every process alike: kConditionFailed where one has another hash than the first,
  // saying that it has `what`. A call on every process.
  Status CheckSame(uint64_t hash, const char* what) const;

  // All work together is done.
  void Finish() { finished_ = true; }

 private:
  struct Library;
  Ranks() = default;
  void Send(std::span<const std::byte> bytes, int to) const;
  void Receive(std::span<std::byte> bytes, int from) const;
  void Broadcast(std::span<std::byte> bytes, int from) const;

  std::unique_ptr<Library> library_;
  int rank_ = 0, size_ = 1;
  bool finished_ = false;
};

}  // namespace evoq
