// An evaluation in parts, each of some of the samples, wherever each is made. Put together they
// give the numbers of one evaluation (docs/scale-out.md), but for the time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/part_number.h"
#include "certify/energy.h"
#include "workflow/targets.h"

namespace evoq {

// What a model answered to one sample, or to one of its rows (data/dataset.h).
struct EvaluatedRow {
  std::string name;
  int64_t class_index = -1;     // ClassOf its first output
  std::optional<int64_t> rank;  // of the label among the scores, 0 for the largest
  bool agrees = false;          // with the class of the reference
};

// What a model gave for one sample.
struct EvaluatedSample {
  std::vector<EvaluatedRow> rows;
  std::vector<Energy> energies;       // by output, against the reference's; empty without one
  std::vector<Deviation> deviations;  // by output, from its targets; empty without them
};

// How an output is compared with the reference's: real numbers by signal to noise; each element of
// others is right or wrong; of one whose size depends on the data, and whose positions tell
// nothing, a sample is right where it has the size.
enum class Judged { kReal, kElements, kSize };
const char* JudgedName(Judged judged);  // "real", "elements", "size"

struct EvaluationPart {
  std::vector<std::string> outputs;  // names
  std::vector<Judged> judged;        // by output; empty: all are real
  bool class_scores = true;          // the first output is a list of them
  bool has_reference = false, has_targets = false;
  PartNumber part;
  int64_t size = 0;     // samples of all parts
  double ms = 0;        // of the model's runs
  std::string warning;  // of the data; "" in a part that was read
  std::vector<EvaluatedSample> samples;
};

// Errors: those of writing.
Status SaveEvaluation(const EvaluationPart& part, const std::string& path);
// All parts, in any order, as one. Errors: those of reading; kInvalidInput for parts that are
// missing, stand twice or differ in what they are of, naming the files.
Result<EvaluationPart> MergeEvaluations(const std::vector<std::string>& paths);

}  // namespace evoq
