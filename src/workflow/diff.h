// Where two models part: the error of each value that both have.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "parity/model_diff.h"
#include "workflow/follow.h"
#include "workflow/probe.h"
#include "workflow/told.h"

namespace evoq {

struct DiffJob {
  std::string a, b;  // models: the one that is right, the one in question
  ProbeOptions probe;
  bool reference = false;        // A by the reference evaluator, not by kernels
  std::optional<double> bad_db;  // a step is bad whose own signal to noise is less (BadBelow)
  std::string keep;              // an .npz for the worst sample; "": none
  int threads = 0;
  // What B's outputs must keep (CheckKept).
  std::optional<double> min_sqnr_db, max_error;
};

struct Diffed {
  std::string a, b;
  int64_t samples = 0;
  std::vector<DiffedValue> values;  // in B's execution order
  std::vector<std::string> only_a, only_b;
  std::vector<std::string> sized_by_data;  // set aside (ModelDiff)
  double bad_db = 0;
  int first_bad = -1;          // of values; -1: none
  double sqnr_db = 0;          // of B's worst output
  double max_error = 0;        // of B's outputs
  std::string worst_sample;    // its name: the one with the least signal to noise of an output
  double worst_sample_db = 0;  // that
  std::string kept;            // the file that was written; "": none
  std::vector<std::string> warnings;
};

// The default of DiffJob::bad_db: 20, a hundredth of the signal's energy, where B holds values or
// weights in another type than float32; 60 where it does not.
constexpr double BadBelow(bool narrows) { return narrows ? 20 : 60; }

// The .npz that `keep` names holds the worst sample's inputs, by name, as `--data` takes them, and
// of each output and the first bad value "a:NAME" and "b:NAME". Errors: kUsage for options that do
// not fit; kInvalidInput where the models have no value in common; those of loading, data and runs.
Result<Diffed> Diff(const DiffJob& job, const Follow& follow = {});
// Errors: kConditionFailed where an output of B is further from A's than that.
Status CheckKept(const Diffed& diffed, std::optional<double> min_sqnr_db,
                 std::optional<double> max_error);
Told Tell(const Diffed& diffed);

}  // namespace evoq
