// Where the time and the bytes of a quantized model went, and why.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "profile/measure.h"
#include "program/etm.h"

namespace evoq {

// A part of the gap between what quantization allows and what was measured. Negative ms: better
// than ideal.
struct TimeCause {
  std::string
      code;  // of an ExplainRule ("no-int8-kernel", ...), or of a decision that no rule knows
  double ms = 0;
  double spread_ms = 0;  // half of the 95% interval of ms, from parts of the measured time; 0: too
                         // few runs to tell
  std::vector<std::string> steps;  // that with the largest loss first
  std::string sentence, fix;
  double gain_ms = 0;  // what the fix is predicted to win
};

// The causes and unexplained_ms add up to actual_ms - ideal_ms.
struct TimeLedger {
  double float_ms = 0;  // the float run
  double ideal_ms =
      0;  // its steps at what the narrower type allows on this machine; not above actual_ms
  double attainable_ms = 0;       // actual_ms less the gains of all fixes, not below ideal_ms
  double actual_ms = 0;           // the quantized run
  double gap_spread_ms = 0;       // half of the 95% interval of actual_ms - ideal_ms
  std::vector<TimeCause> causes;  // largest first
  double unexplained_ms = 0;

  // Whether the gap is known to a tenth of itself, or to 2% of the run.
  bool steady() const {
    return gap_spread_ms <= std::max(0.1 * std::fabs(actual_ms - ideal_ms), 0.02 * actual_ms);
  }
};

// A measured run and the program that ran.
struct LedgerRun {
  const StepProfile* profile = nullptr;
  const Program* program = nullptr;
};

// `attainable`: the float model as evoq itself would quantize it, without what breaks chains of
// integers, measured beside the other two; without it (null) what a faulty step could take is
// estimated from the model's healthy steps.
//
// Each step of the float run has an ideal: its measured time, but no more than ten times its
// roofline time and 2 microseconds (a slower kernel is no measure), divided by what the narrower
// type allows, the ratio of the peaks for linear and recurrent operators, 4 (bfloat16: 2) for what
// moves bytes.
// An operator without integer arithmetic is ideal at a quarter of its bytes at the speed of memory.
// What was measured is possible: where a step of another run takes less, that is its ideal, and
// where the quantized run does without it, nothing. What a step takes above its ideal is lost to
// its own cause up to what it takes in the attainable run, and to what makes the runs differ above
// that: excluded from quantization, a dynamic scale, an operator without an integer kernel.
// Conversions and float steps belong to the operator that causes them.
TimeLedger BuildTimeLedger(const LedgerRun& real, const LedgerRun& quantized,
                           const LedgerRun& attainable, const Limits& limits);
// Whether every step of `quantized` runs the same kernel on the same types as its namesake in
// `attainable`: measuring `attainable` then tells nothing new.
bool RunsSameSteps(const Program& quantized, const Program& attainable);

// Whether bfloat16 is the narrow type of a program: no step computes on integers.
bool NarrowsToBf16(const Program& program);
// Names of the steps that run in float32 because their operator has no integer form: the attainable
// run is without them.
std::set<std::string> StepsWithoutIntegerForm(const Program& program);

// What each category of the file's sections takes. They add up to the file's size.
struct BytePart {
  std::string name;  // of a tensor, or an element type
  int64_t bytes = 0;
  std::string why;
};
struct ByteCause {
  std::string code;
  int64_t bytes = 0;
  std::string sentence, fix;
  int64_t gain_bytes = 0;       // what the fix is predicted to save
  std::vector<BytePart> parts;  // largest first; may be empty
};
struct ByteLedger {
  int64_t float_weights = 0;  // 0 unknown
  // Float32 weights of the model before channels were pruned; 0: none were.
  int64_t unpruned_weights = 0;
  int64_t ideal_file = 0;  // a quarter of the float32 weights
  int64_t actual_file = 0;
  std::vector<ByteCause> causes;  // largest first
  int64_t unexplained_bytes = 0;
};
// `float_weights`: bytes of the float32 weights, 0 when unknown. `model`: what the file holds, for
// the reasons of what stays float.
ByteLedger BuildByteLedger(std::span<const EtmSection> sections, int64_t file_bytes,
                           int64_t float_weights, const Model& model);

nlohmann::json ToJson(const TimeLedger& ledger);
nlohmann::json ToJson(const ByteLedger& ledger);
nlohmann::json ToJson(const StepProfile& profile);
// Per step: kernel, rejected candidates and the reason for staying float.
nlohmann::json DecisionsJson(const Program& program);

std::string ToText(const TimeLedger& ledger);
std::string ToText(const ByteLedger& ledger);
// The per-step table, slowest first when `sort`.
std::string ToText(const StepProfile& profile, const Limits& limits, bool sort = false,
                   int limit = -1);

}  // namespace evoq
