// Accuracy of a model on a data set.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "certify/accuracy.h"
#include "runtime/adapter.h"
#include "workflow/evaluation_part.h"
#include "workflow/follow.h"
#include "workflow/told.h"

namespace evoq {

struct EvalJob {
  std::string model;
  std::vector<std::string> data;  // data/inputs.h
  std::string labels, preprocess, reference;
  std::vector<std::string> targets;  // what outputs are to be (workflow/targets.h); none: nothing
  std::string predictions;           // a .tsv to write each sample's class to; "": none
  int64_t limit = 0;                 // samples; 0: all
  int threads = 0;
  // Scale sets follow the samples, in their order (docs/adaptive.md); nothing: always the first.
  std::optional<AdaptiveOptions> adaptive;
  // In parts (workflow/evaluation_part.h): only part "2/4" of the samples; a file to write what
  // they gave to; the files of all parts, put together: no model is run.
  std::string part, save_part;
  std::vector<std::string> merge;
};

struct EvalResult {
  std::string model, reference;
  int64_t samples = 0;
  // Of all samples, each of one row or of those of a fixed batch: what accuracy counts.
  int64_t rows = 0, labelled = 0, correct1 = 0, correct5 = 0, agreed = 0;
  // Signal to noise against the reference, when there is one: of each output, and of the worst.
  std::vector<OutputAccuracy> outputs;
  std::vector<Judged> judged;  // of each
  bool class_scores = true;    // the first output is a list of them: agreement is of its class
  // Not of outputs that are judged by their size; infinite without any other.
  double sqnr_db = 0;
  // The mean over the samples of each one's own, of its worst output, at most 200 dB: of samples of
  // different loudness, what the quiet ones lose.
  double sample_sqnr_db = 0;
  // How far each output is from its targets, where there are any.
  std::vector<std::pair<std::string, Deviation>> deviations;
  double ms_per_sample = 0;
  bool has_reference = false;
  std::optional<AdaptiveState> adaptive;  // at the end
  std::vector<std::pair<std::string, int64_t>>
      predictions;      // name of a row, class with the largest score
  std::string warning;  // of the data; "": none

  bool tells_classes() const { return has_reference && (class_scores || labelled > 0); }
  double top1() const {
    return labelled ? static_cast<double>(correct1) / static_cast<double>(labelled) : 0;
  }
  double top5() const {
    return labelled ? static_cast<double>(correct5) / static_cast<double>(labelled) : 0;
  }
  double agreement() const {
    return rows ? static_cast<double>(agreed) / static_cast<double>(rows) : 0;
  }
};

// Top-1 and top-5 against labels, distance from targets, top-1 agreement with the reference model:
// on output 0, where it is a list of scores. Every other comparison as Judged says. Errors: also
// kInvalidInput for a reference whose outputs cannot be compared.
Result<EvalResult> Evaluate(const EvalJob& job, const Follow& follow = {});
Told Tell(const EvalResult& result);

}  // namespace evoq
