// What one version of a model did, as Triton's statistics count it. Kept while the server runs,
// also when the version is loaded anew: counters never fall.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "serve/refusal.h"

namespace evoq::serve {

// How long a request took, in nanoseconds.
struct InferenceTimes {
  int64_t queue_ns = 0;     // from its arrival until it was computed
  int64_t input_ns = 0;     // joining the samples of a batch
  int64_t infer_ns = 0;     // the run
  int64_t output_ns = 0;    // taking a batch apart
  int64_t run_samples = 1;  // of the run, which other requests may have shared
  int64_t total_ns() const { return queue_ns + input_ns + infer_ns + output_ns; }
};

struct Duration {
  uint64_t count = 0;
  uint64_t ns = 0;
  void Add(int64_t more_ns) {
    ++count;
    ns += static_cast<uint64_t>(more_ns);
  }
};

// Upper ends of the histogram's buckets of request times in seconds; what is longer counts beside
// them.
inline constexpr std::array<double, 14> kLatencyBounds = {
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10};

// What the last minutes were like: slices of a few seconds each.
inline constexpr int64_t kSliceSeconds = 2;
inline constexpr int64_t kSlices = 150;
// Request times of a slice are counted in steps of a quarter of a power of two, from 2^-14 s (61
// us) to 2^5 s; what is shorter or longer is in the first or the last.
inline constexpr int kLatencySteps = 76;

struct HistorySlice {
  int64_t number = -1;  // of slices since the clock began; -1: none
  uint32_t success = 0, failure = 0;
  std::array<uint32_t, kLatencySteps> latency{};

  // Seconds that this share of the requests that succeeded took at most, to within 9%; 0: of none.
  double Quantile(double share) const;
};

// Requests that were also run by another model, in float, and how both did (shadow.h).
struct ShadowRead {
  uint64_t requests = 0;  // that both ran
  uint64_t skipped = 0;   // the other had no room, or failed
  uint64_t rows = 0, agreed = 0;
  double own_ns = 0, other_ns = 0;  // of a sample in the runs of each of these requests, added up
};

// Tokens of a language model's texts.
struct TokensRead {
  uint64_t prompt = 0;  // of prompts
  uint64_t cached = 0;  // of them, that were not run again
  uint64_t text = 0;    // that were written
};

struct StatisticsRead {
  uint64_t samples = 0;                           // that were computed, of requests that succeeded
  uint64_t executions = 0;                        // runs of the model
  int64_t last_inference_ms = 0;                  // since 1970; 0: none yet
  Duration success, queue, input, infer, output;  // of requests that succeeded
  Duration failure;                               // of all others
  std::map<std::string, uint64_t> failures;       // by NameOf(why)
  // By the number of samples in a run: input, infer and output of its executions.
  struct Batch {
    Duration input, infer, output;
  };
  std::map<int64_t, Batch> batches;
  std::array<uint64_t, kLatencyBounds.size() + 1> latency{};  // requests in each bucket
  ShadowRead shadow;
  TokensRead tokens;
};

// Safe from any thread.
class Statistics {
 public:
  using Clock = std::chrono::steady_clock;

  void Succeeded(int64_t samples, const InferenceTimes& times,
                 Clock::time_point now = Clock::now());
  void Failed(Why why, int64_t total_ns, Clock::time_point now = Clock::now());
  void Executed(int64_t samples, const InferenceTimes& times);
  // Adds to what is counted of them.
  void Shadowed(const ShadowRead& more);
  void Wrote(const TokensRead& more);
  StatisticsRead Read() const;
  // The last kSlices that are over, oldest first.
  std::vector<HistorySlice> History(Clock::time_point now = Clock::now()) const;

 private:
  HistorySlice& SliceAt(Clock::time_point now);

  mutable std::mutex mutex_;
  StatisticsRead read_;
  std::array<HistorySlice, kSlices + 1> history_;  // slice n at n modulo their number
};

}  // namespace evoq::serve
