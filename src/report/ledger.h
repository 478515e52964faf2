// Where the time and the bytes of a quantized model went, and why.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "profile/measure.h"
#include "program/etm.h"

namespace evoq {

// A part of the gap between what quantization allows and what was measured. Negative ms: better than ideal.
struct TimeCause {
  std::string code;  // "no-int8-kernel", "conversion", "kernel-below-ideal", ... (docs/explain.md)
  double ms = 0;
  std::vector<std::string> steps;
  std::string sentence, fix;
};

// ideal: each step of the float run at its measured time divided by what the narrower type allows on this machine: the
// ratio of the int8 to the float32 peak for linear operators, 4 for steps that move bytes. The causes and unexplained_ms
// add up to actual_ms - ideal_ms.
struct TimeLedger {
  double float_ms = 0, ideal_ms = 0, actual_ms = 0;
  std::vector<TimeCause> causes;  // largest first
  double unexplained_ms = 0;
};
TimeLedger BuildTimeLedger(const StepProfile& float_run, const StepProfile& quantized_run, const Program& quantized,
                           const Limits& limits);

// What each category of the file's sections takes. They add up to the file's size; ideal is a quarter of the float32
// weights.
struct ByteCause {
  std::string code;
  int64_t bytes = 0;
  std::string sentence;
};
struct ByteLedger {
  int64_t float_weights = 0, ideal_file = 0, actual_file = 0;
  std::vector<ByteCause> causes;  // largest first
  int64_t unexplained_bytes = 0;
};
// `float_weights`: bytes of the float32 weights, 0 when unknown.
ByteLedger BuildByteLedger(std::span<const EtmSection> sections, int64_t file_bytes, int64_t float_weights);

nlohmann::json ToJson(const TimeLedger& ledger);
nlohmann::json ToJson(const ByteLedger& ledger);
nlohmann::json ToJson(const StepProfile& profile);
// Per step: kernel, rejected candidates and the reason for staying float.
nlohmann::json DecisionsJson(const Program& program);

std::string ToText(const TimeLedger& ledger);
std::string ToText(const ByteLedger& ledger);
// The per-step table, slowest first when `sort`.
std::string ToText(const StepProfile& profile, const Limits& limits, bool sort = false, int limit = -1);

}  // namespace evoq
