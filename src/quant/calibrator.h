// What runs over the samples of a calibration, whole or a part of them (quant/calibration_part.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quant/interval.h"
#include "quant/observer.h"
#include "quant/statistics.h"

namespace evoq {

// Errors: kUsage for bins and percentiles that no observer takes.
Status CheckOptions(const CalibrationOptions& options);

class Calibrator {
 public:
  explicit Calibrator(const CalibrationOptions& options)
      : options_(options), def_(ObserverOf(options)) {}

  // A copy of the graph whose watched values are outputs.
  Result<Graph> Instrument(const Graph& source);

  bool intervals() const { return options_.intervals || options_.stop_when_enough; }
  bool NeedsHistograms() const { return def_.histogram != HistogramKind::kNone; }
  int64_t samples() const { return static_cast<int64_t>(hashes_.size()); }
  const std::vector<uint64_t>& hashes() const { return hashes_; }  // of each sample

  // Whether the samples so far tell the ranges well enough, asked of after ever more of them.
  bool IsEnough();
  // The first pass over one run. Errors: kInvalidInput for a NaN or an infinity; where infinities
  // are let pass, only for those of inputs.
  Status ObserveRange(std::span<const Tensor> inputs, std::span<const Tensor> outputs);

  // Values that hold infinities, as scores behind a mask of -infinity, get no range.
  void LetInfinitiesPass() { infinities_ = true; }
  std::vector<std::string> InfiniteValues() const;

  void StartHistograms();
  // The second pass over the run whose first sample is number `first`.
  void CountBins(std::span<const Tensor> inputs, std::span<const Tensor> outputs, int64_t first);

  Ranges Choose();
  // Of each value, by name, in the graph's order.
  std::vector<std::pair<std::string, LoneSample>> LoneSamples() const;
  bool enough() const { return enough_; }
  // Of the decision to stop; where all samples were used, of the ranges.
  const Known& known() const { return known_; }

  // What was seen, by value name; of a calibration with intervals only.
  std::map<std::string, ValueRecord> Records() const;
  // As if it had seen what the records tell, on samples of these hashes. Values that are not
  // watched yet are from now on.
  void Resume(std::map<std::string, ValueRecord> records, std::vector<uint64_t> hashes);

 private:
  struct Watched {
    std::string name;
    int input = -1;   // position among the graph's inputs,
    int output = -1;  // or among the outputs
    bool infinite = false;
    ValueStatistics seen{-1, false};
  };
  template <typename Without>
  Range Chosen(const Observed& all, const Without& without) const;

  const CalibrationOptions& options_;
  const ObserverDef& def_;
  std::vector<Watched> watched_;
  std::vector<uint64_t> hashes_;
  std::vector<int> groups_;  // of each sample, where intervals are asked for
  int64_t next_question_ = kFewestSamples;
  Known known_;
  bool enough_ = false, infinities_ = false;
};

}  // namespace evoq
