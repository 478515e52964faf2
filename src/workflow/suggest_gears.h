// Gears for the sizes that were observed, by what each takes on this machine.
#pragma once

#include <string>
#include <vector>

#include "models/models.h"
#include "workflow/follow.h"
#include "workflow/gears.h"
#include "workflow/told.h"

namespace evoq {

struct SuggestJob {
  size_t most = 0;     // gears at most, 1 to kMostShapeSets
  std::string file;    // of observed sizes (ReadObservedSizes)
  int threads = 0;     // of runs
  double seconds = 6;  // of measuring, about
};

struct SuggestedGears {
  struct Gear {
    InputShapes shapes;
    double ms = 0;     // of a run
    int64_t runs = 0;  // of those observed, that it serves
    int64_t own = 0;   // of those, of its own sizes
  };
  std::vector<Gear> gears;
  int64_t runs = 0;       // observed
  size_t sizes = 0;       // different ones
  size_t measured = 0;    // of those; the times of the others lie between theirs, by elements
  int64_t waiting = 0;    // runs of sizes that no gear serves
  double prepare_ms = 0;  // what those wait
  std::vector<double> expected_ms;  // of a run, with at most 0, 1, ... gears
  double least_ms = 0;              // with a plan for each of the sizes
  std::string why_exact;            // why no gear serves other sizes; "": one does
};

// Errors: kUsage for numbers out of range; those of the file and of compiling and running the model
// at these sizes.
Result<SuggestedGears> SuggestGears(const Model& packed, const SuggestJob& job,
                                    const Follow& follow);
Told Tell(const SuggestedGears& suggested);

}  // namespace evoq
