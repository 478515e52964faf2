// How fast a language model with caches reads prompts and writes tokens, beside what the machine
// allows.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "generate/work.h"
#include "profile/measure.h"
#include "workflow/follow.h"
#include "workflow/told.h"

namespace evoq {

struct LanguageBenchJob {
  std::string model;                     // for messages
  std::string kv_cache;                  // what the caches hold; "": as the model has them
  int64_t prompt_length = 0;             // as of PhaseOptions
  std::vector<int64_t> contexts;         // of decode; empty: 0, 1024 and 4096, as the model holds
  std::vector<int64_t> sequences = {1};  // of decode
  // Tokens that follow a context before it is taken up again, or as many as the model holds.
  int64_t decode_tokens = 32;
  double warmup_ms = 200, duration_s = 3;  // for each phase
  int64_t iterations = 3;                  // runs of each phase at least
};

// What a run must do, at the limits of the machine: all products at their peaks, all bytes at the
// speed of memory (of the L3 where they fit there).
struct WorkLimits {
  double arithmetic_ms = 0, memory_ms = 0;
  double ms() const { return std::max(arithmetic_ms, memory_ms); }
  const char* bound() const { return arithmetic_ms > memory_ms ? "arithmetic" : "memory"; }
};
WorkLimits LimitsOf(const Work& work, const Limits& limits);

struct MeasuredPhase {
  const PhaseDef* def = nullptr;
  Phase phase;
  RunTimes times;
  Disturbance disturbance;
  Work work;          // of a run, in the mean
  WorkLimits limits;  // of that

  double tokens_per_s() const;  // of all sequences, by the median run
  double share() const;         // of what the limits allow
};

struct LanguageBench {
  std::string model;
  Isa isa = Isa::kScalar;
  int threads = 1;
  Limits limits;
  double load_ms = 0, first_token_ms = 0;  // behind the beginning; the latter of the prompt
  int64_t room = 0, slots = 0, cache_bytes = 0, weight_bytes = 0;
  std::vector<MeasuredPhase> phases;
};

// `load_ms`: what loading the engine took. Errors: those of CachedModel; kUsage for numbers that
// the model does not allow.
Result<LanguageBench> BenchLanguage(std::unique_ptr<Engine> engine, double load_ms,
                                    const LanguageBenchJob& job, const Follow& follow = {});
Told Tell(const LanguageBench& bench);

}  // namespace evoq
