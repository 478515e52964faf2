// Whether one model is faster than another, or one set of saved times than another.
#pragma once

#include <string>

#include "profile/compare.h"
#include "report/ledger.h"
#include "workflow/follow.h"
#include "workflow/to_measure.h"
#include "workflow/told.h"

namespace evoq {

struct CompareJob {
  std::string a, b;    // models, or two .json files of `bench --export-times`
  std::string report;  // an HTML file to write; "": none
  InputShapes shapes;
  InputFiles inputs;  // content of inputs, where it counts for the time
  int batch = 0;
  int threads = 0;
  double duration_s = 10;  // as of CompareOptions
  double warmup_ms = 200;
  int rounds = 20;
  PhaseChoice phase;  // of language models with caches
  // Percent by which B may be slower (CheckNotSlower); negative: any.
  double fail_slower = -1;
  // Of the report: what it has besides (report/page_data.h), of the result; may be null. And what A
  // and B are called; "": by their paths.
  std::function<nlohmann::json(const Comparison&)> page;
  std::pair<std::string, std::string> names;
};

struct Compared {
  std::string a, b;
  Comparison result;
  nlohmann::json a_json, b_json;    // docs/cli.md's fields of `bench`
  std::vector<StepChange> changed;  // as parts of the compared times; where the verdict is not same
  bool steps_known = false;         // steps were measured to find them
  std::string report;               // the file that was written; "": none
};

// Errors: kUsage for options that do not fit; those of loading and of runs. Says nothing of
// fail_slower.
Result<Compared> Compare(const CompareJob& job, const Follow& follow = {});
// Errors: kConditionFailed where B is slower than that, for sure.
Status CheckNotSlower(const Comparison& result, double fail_slower);
Told Tell(const Compared& compared);

}  // namespace evoq
