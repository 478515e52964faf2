// How often inputs of which sizes came, and what served them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "program/model.h"

namespace evoq {

// Elements of all inputs together.
double ElementsOf(const InputShapes& shapes);

// Of one set of input sizes.
struct SizeCount {
  InputShapes shapes;
  bool gear = false;      // declared in the model's file
  int64_t runs = 0;       // all
  int64_t padded = 0;     // of those, that a gear served (engine/padded_run.h)
  int64_t misses = 0;     // of those, that waited until the sizes were prepared
  double prepare_ms = 0;  // of preparing them, the last time
};

struct GearReport {
  int64_t gears = 0, ready = 0;  // declared in the model's file; of those, prepared
  int64_t runs = 0, padded = 0, misses = 0;
  double miss_ms = 0, worst_miss_ms = 0;  // what those runs waited, in all and at most
  int64_t beside = 0;                     // sets of sizes that were prepared without a run waiting
  double beside_ms = 0;
  std::vector<SizeCount> sizes;  // in the order of their shapes
  int64_t other_runs = 0;        // of sizes beyond the kMostSizes that are told apart

  int64_t hits() const { return runs - padded - misses; }
};

// One caller at a time.
class SizeCounts {
 public:
  static constexpr size_t kMostSizes = 4096;

  // Of these sizes; all further ones share one where there are kMostSizes. It stays where it is.
  SizeCount& Of(const InputShapes& shapes);
  // Counts a run: `waited_ms` where it waited until its sizes were prepared.
  void Ran(SizeCount& of, bool padded, std::optional<double> waited_ms);
  void Prepared(SizeCount& of, double ms, bool beside);
  GearReport Report() const;  // without gears and ready

 private:
  std::map<InputShapes, SizeCount> known_;
  SizeCount others_;
  GearReport sums_;
};

// The report's sizes as lines of text, which tools read again (workflow/suggest_gears.h):
//   RUNS NAME=1x128 NAME=1x128
// one line for each set of sizes, after a line that says so.
std::string CountsText(const GearReport& report);

}  // namespace evoq
