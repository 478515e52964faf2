#include "profile/limits.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "base/aligned.h"
#include "base/core_kind.h"
#include "base/thread_pool.h"
#include "base/threads.h"
#include "kernels/isa_table.h"
#include "profile/machine.h"
#include "profile/peak_loops.h"

namespace evoq {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t kDramBytes = int64_t{256} << 20;
constexpr int64_t kL3Bytes = int64_t{8} << 20;    // above every L2, within a common L3
constexpr int64_t kL2Bytes = int64_t{256} << 10;  // above every L1, within a common L2

double Seconds(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

double ScalarInt8(int64_t rounds) {
  int32_t acc = 0;
  for (int64_t r = 0; r < rounds * 1024; ++r) {
    acc += static_cast<int32_t>(r & 255) * 3;
    __asm__ volatile("" : "+r"(acc));
  }
  return 2.0 * 1024 * static_cast<double>(rounds);
}

double ScalarFp32(int64_t rounds) {
  float acc[8] = {};
  float x = 1, w = 0.5f;
  for (int64_t r = 0; r < rounds * 128; ++r) {
    for (float& a : acc) {
      a += x * w;
      __asm__ volatile("" : "+m"(a));
    }
  }
  return 2.0 * 8 * 128 * static_cast<double>(rounds);
}

// Runs body(thread) on every thread at once; the work of all over the longest time: per ns, so giga
// per second.
template <typename Body>
double Rate(int threads, const Body& body) {
  std::vector<double> work(threads), seconds(threads);
  std::atomic<int> waiting{threads};
  const auto run = [&](int t) {
    waiting.fetch_sub(1);
    while (waiting.load() > 0) std::this_thread::yield();
    const auto start = Clock::now();
    work[t] = body(t);
    seconds[t] = Seconds(start);
  };
  RunOnThreads(threads, run);
  double sum = 0;
  for (double w : work) sum += w;
  return sum / std::max(*std::max_element(seconds.begin(), seconds.end()) * 1e9, 1.0);
}

double ComputePeak(double (*loop)(int64_t), int threads) {
  if (loop == nullptr) return 0;
  int64_t rounds = 1;
  for (;; rounds *= 2) {  // about half a millisecond a round: a busy machine interrupts longer ones
    const auto start = Clock::now();
    loop(rounds);
    if (Seconds(start) > 0.0005) break;
  }
  double best = 0;
  for (int i = 0; i < 60; ++i)
    best = std::max(best, Rate(threads, [&](int) { return loop(rounds); }));
  return best;
}

void ScalarRead(const void* data, int64_t bytes) {
  const auto* p = static_cast<const uint64_t*>(data);
  uint64_t acc[16] = {};
  for (int64_t i = 0; i < bytes / 8; i += 16) {
    for (int k = 0; k < 16; ++k) acc[k] |= p[i + k];
  }
  for (uint64_t& a : acc) __asm__ volatile("" : "+r"(a) : : "memory");
}

// The best of five times. `streams`: each thread reads so many stretches at a time, 1 KiB of each
// in turn.
double ReadBandwidth(const PeakLoops& loops, int64_t bytes, int repeats, int threads,
                     int streams = 1) {
  AlignedBuffer buffer(static_cast<size_t>(bytes));
  std::fill_n(buffer.data(), bytes, std::byte{1});
  constexpr int64_t kPiece = 1024;
  const int64_t stretch = bytes / threads / streams / kPiece * kPiece, share = stretch * streams;
  const auto read = [&](int t) {
    const std::byte* from = buffer.data() + t * share;
    for (int r = 0; r < repeats; ++r) {
      if (streams == 1) {
        loops.read(from, share);
        continue;
      }
      for (int64_t at = 0; at < stretch; at += kPiece) {
        for (int s = 0; s < streams; ++s) loops.read(from + s * stretch + at, kPiece);
      }
    }
    return static_cast<double>(share) * repeats;
  };
  double best = 0;
  for (int i = 0; i < 5; ++i) best = std::max(best, Rate(threads, read));
  return best;
}

// Cycles per nanosecond: an addition that waits for the one before takes a cycle everywhere.
double ClockGhz() {
  double best = 0;
  for (int i = 0; i < 9; ++i) {
    constexpr int64_t kRounds = 100'000;
    uint64_t x = 1;
    const auto start = Clock::now();
    for (int64_t r = 0; r < kRounds; ++r) {
#pragma GCC unroll 16
      for (int k = 0; k < 16; ++k) {
        x += x;
        __asm__ volatile("" : "+r"(x));
      }
    }
    best = std::max(best, 16.0 * kRounds / (Seconds(start) * 1e9));
  }
  return best;
}

double ForkNs(int threads) {
  if (threads == 1) return 0;
  ThreadPool pool(threads);
  std::vector<double> ns;
  for (int i = 0; i < 2000; ++i) {
    const auto start = Clock::now();
    pool.ParallelFor(threads, 1, [](int64_t begin, int64_t) {
      __asm__ volatile("" : : "r"(begin));
    });
    ns.push_back(Seconds(start) * 1e9);
  }
  std::nth_element(ns.begin(), ns.begin() + 1000, ns.end());
  return ns[1000];
}

const PeakLoops& LoopsOf(Isa isa) {
#if defined(__x86_64__)
  static const IsaRow<PeakLoops> kRows[] = {
      {.needs = Isa::kAmx, .table = &AmxPeakLoops()},
      {.needs = Isa::kAvx512, .table = &Avx512PeakLoops()},
      {.needs = Isa::kAvx2Vnni, .table = &Avx2VnniPeakLoops()},
      {.needs = Isa::kAvx2VnniEvex, .table = &Avx2VnniEvexPeakLoops()},
      {.needs = Isa::kAvx2, .table = &Avx2PeakLoops()},
      {.needs = Isa::kScalar, .table = &ScalarPeakLoops()}};
#else
  static const IsaRow<PeakLoops> kRows[] = {{.needs = Isa::kScalar, .table = &ScalarPeakLoops()}};
#endif
  return *RowFor(kRows, isa).table;
}

SetPeaks PeaksOf(Isa isa, int threads) {
  const PeakLoops& loops = LoopsOf(isa);
  return {.isa = isa,
          .int8_gops = ComputePeak(loops.int8, threads),
          .bf16_gflops = isa.Has(Isa::kAvx512Bf16) ? ComputePeak(loops.bf16, threads) : 0,
          .fp32_gflops = ComputePeak(loops.fp32, threads)};
}

int64_t CoreCacheBytes() {
  constexpr int64_t kUnknown = 512 << 10;
  const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return bytes > 0 ? bytes : kUnknown;
}

}  // namespace

const PeakLoops& ScalarPeakLoops() {
  static constexpr PeakLoops kLoops = {
      .int8 = ScalarInt8,
      .fp32 = ScalarFp32,
      .bf16 = nullptr,
      .read = ScalarRead,
  };
  return kLoops;
}

std::vector<SetPeaks> MeasureSets(int threads) {
  std::vector<SetPeaks> sets;
  for (const Isa isa : AllIsas()) {
    if (IsaSupported(isa) && !isa.Has(Isa::kAmxSoftware)) sets.push_back(PeaksOf(isa, threads));
  }
  return sets;
}

Limits MeasureLimits(Isa isa, int threads) {
  Limits limits;
  limits.cpu = CpuName();
  limits.core = CoreKind();
  limits.isa = isa;
  limits.threads = threads;
  const SetPeaks peaks = PeaksOf(isa, threads);
  limits.int8_gops = peaks.int8_gops;
  limits.bf16_gflops = peaks.bf16_gflops;
  limits.fp32_gflops = peaks.fp32_gflops;
  const PeakLoops& loops = LoopsOf(isa);
  limits.l3_read_gbps = ReadBandwidth(loops, kL3Bytes * threads, 8, threads);
  // Memory gives more to a core that reads several stretches of it at a time.
  for (const int streams : {1, 4}) {
    limits.dram_read_gbps =
        std::max(limits.dram_read_gbps, ReadBandwidth(loops, kDramBytes, 1, threads, streams));
  }
  return limits;
}

MachineLimits MeasureMachine(Isa isa, int threads) {
  MachineLimits limits{MeasureLimits(isa, threads)};
  limits.clock_ghz = ClockGhz();
  limits.fork_ns = ForkNs(threads);
  limits.l2_bytes = CoreCacheBytes();
  limits.l3_bytes = LargestCacheBytes();
  limits.l2_read_gbps = ReadBandwidth(LoopsOf(isa), kL2Bytes * threads, 256, threads);
  return limits;
}

double PresentFp32Gflops(Isa isa, int threads) {
  const PeakLoops& loops = LoopsOf(isa);
  int64_t rounds = 1;
  for (auto start = Clock::now(); loops.fp32(rounds), Seconds(start) < 0.0005; start = Clock::now())
    rounds *= 2;
  constexpr int kTimes = 8;
  double sum = 0;
  for (int i = 0; i < kTimes; ++i) sum += Rate(threads, [&](int) { return loops.fp32(rounds); });
  return sum / kTimes;
}

double PeakGops(const Limits& limits, Peak peak) {
  switch (peak) {
    case Peak::kInt8: return limits.int8_gops;
    case Peak::kBf16: return limits.bf16_gflops > 0 ? limits.bf16_gflops : limits.fp32_gflops;
    case Peak::kFloat32: return limits.fp32_gflops;
    case Peak::kMemory: return 0;
  }
  return 0;
}

double RooflineNs(const Limits& limits, Peak peak, int64_t macs, int64_t bytes,
                  int64_t memory_bytes) {
  const double gops = PeakGops(limits, peak);
  const double compute = gops <= 0 ? 0 : 2.0 * static_cast<double>(macs) / gops;
  const auto read = [](int64_t of, double gbps) {
    return gbps <= 0 ? 0 : static_cast<double>(of) / gbps;
  };
  const int64_t others = bytes - memory_bytes;
  const bool fit = others <= 2 * kL3Bytes;
  return std::max(compute, read(memory_bytes, limits.dram_read_gbps) +
                               read(others, fit ? limits.l3_read_gbps : limits.dram_read_gbps));
}

}  // namespace evoq
