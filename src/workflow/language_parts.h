// Where the time and the bytes of a language model's run go, by part of the model.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "profile/measure.h"
#include "program/etm.h"
#include "workflow/language_speed.h"
#include "workflow/to_measure.h"

namespace evoq {

struct PartTime {
  std::string part;  // of ModelParts()
  int steps = 0;
  double ms = 0, baseline_ms = 0;
  Work work;
  WorkLimits limits;
};

// What the program around the model does for each token that it writes, besides running it.
struct HostTimes {
  double choose_ms = 0;  // the likeliest of all logits
  double text_ms = 0;    // of a token; 0 where the model carries no tokenizer
  bool tokenizer = false;
};
Result<HostTimes> MeasureHost(const Graph& graph, int64_t vocabulary);

// Weights that a product reads in float32, and why.
struct FloatMatrix {
  std::string step, part;
  int64_t bytes = 0;
  Reason why;
};

// The bytes of a file that hold a part's weights.
struct PartBytes {
  std::string part;
  int64_t weights = 0, scales = 0, rest = 0;  // rest: zero points, packing, duplicates
};

struct LanguageParts {
  const PhaseDef* def = nullptr;
  Phase phase;
  std::vector<PartTime> times;
  double total_ms = 0;
  double outside_ms = 0;   // of that, outside the steps
  double baseline_ms = 0;  // of the baseline's run; 0: there is none
  int steps = 0;
  HostTimes host;
  std::vector<FloatMatrix> float_matrices;  // largest first
  std::vector<PartBytes> bytes;             // of an .etm
};

// `profile`: of a run of `phase`.
LanguageParts PartsOf(const ChosenPhase& phase, const Program& program, const StepProfile& profile,
                      const Limits& limits);
// Puts the baseline's times beside those of the same parts.
void SetBaseline(const LanguageParts& baseline, LanguageParts& parts);
// What the sections of an .etm hold of each part; the names are the graph's.
std::vector<PartBytes> BytesByPart(std::span<const EtmSection> sections, const Graph& graph);
Told Tell(const LanguageParts& parts);

}  // namespace evoq
