// Which scale set the next run of a model uses, by how much the runs before clipped
// (docs/adaptive.md).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "program/model.h"

namespace evoq {

struct AdaptiveOptions {
  // A set fits a run when at most this share of the watched elements, the mean over the tensors,
  // lies outside of its ranges; a finer set is taken where half of it does.
  double clip_limit = 0.005;
  int widen_after = 1;  // looks in a row at which the set does not fit, before a wider one is taken
  int narrow_after = 8;  // looks in a row at which the same finer set fits, before it is taken
  int every = 0;         // runs from one look to the next; 0: so many that looking costs 0.5%
  std::string pinned;    // the set that is always used; "": they change
  bool watch = false;    // also of a model with one set: to count what it clips
};

// Errors: kUsage for numbers out of range, and for a model without one of the pinned name, or
// without sets where it is not to be watched alone.
Status CheckAdaptive(const AdaptiveOptions& options, const Model& model);

// What was observed of one tensor.
struct WatchedTensor {
  std::string name;
  int64_t seen = 0;     // elements that were looked at, of all runs
  int64_t clipped = 0;  // of those, at an end of the range of the set that was used

  double rate() const {
    return seen == 0 ? 0 : static_cast<double>(clipped) / static_cast<double>(seen);
  }
};

struct AdaptiveState {
  std::vector<std::string> sets;
  size_t active = 0;  // of the next run
  int64_t runs = 0, looks = 0, switches = 0;
  std::vector<int64_t> runs_by_set;
  double clip_rate = 0;  // of the last look: the mean over the watched tensors
  std::vector<WatchedTensor> tensors;
};

// One for the executors of a model that run in turn. What it chooses is a function of the counts of
// the runs before. Run by run it allocates nothing.
class Adapter {
 public:
  // Of a model and options that CheckAdaptive takes. Without sets, the model has one, "calibrated".
  Adapter(const Model& model, const AdaptiveOptions& options);

  const AdaptiveOptions& options() const { return options_; }
  const AdaptiveState& state() const { return state_; }

  // Which set all further runs use, one of the model's; "": they change again.
  void Pin(const std::string& set);
  // One that knows nothing yet, with the same sets and options.
  std::shared_ptr<Adapter> Fresh() const;

  // The index of a tensor in state().tensors, for End.
  size_t Register(const std::string& tensor);

  struct Turn {
    size_t set;
    bool look;  // whether this run is to be observed
  };
  // Before a run of an executor for which `every` runs to a look cost little.
  Turn Begin(int every);
  // After a run that was observed: of each tensor the elements that were looked at and, for each
  // set, how many lie outside of its ranges; of the set in use, how many it clipped.
  struct Count {
    size_t tensor;
    int64_t seen;
    std::span<const uint32_t> outside;  // by set
  };
  void End(std::span<const Count> counts);

 private:
  void Start();
  size_t Wanted() const;

  AdaptiveOptions options_;
  AdaptiveState state_;
  std::vector<double> widths_;  // by set: the mean logarithm of how wide its ranges are
  std::vector<double> rates_;   // by set, of the last look
  int since_look_ = 0;
  int too_narrow_ = 0;      // looks in a row at which the set in use did not fit
  size_t finer_ = 0;        // the finer set that fitted last,
  int finer_in_a_row_ = 0;  // and at how many looks in a row
};

}  // namespace evoq
