// A model run on samples anew only where it differs from another one.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "quant/quant.h"

namespace evoq {

// The values of `variant` that are computed as in `base` from the same inputs and constants: the
// nodes before them are equal but for the reason why they stay in float, and so are the names and
// types of the values between. By value of `variant`, the value of `base`; inputs are among them.
std::map<ValueId, ValueId> SharedValues(const Graph& base, const Graph& variant);

class PartRuns {
 public:
  // Of variants of `base` on these samples (inputs by position), which both outlive it. Values of
  // `base` that variants share are kept up to `most_bytes`.
  PartRuns(const Graph& base, std::span<const std::vector<Tensor>> samples, PrepareFn prepare,
           int64_t most_bytes = int64_t{1} << 30)
      : base_(base), samples_(samples), prepare_(std::move(prepare)), most_bytes_(most_bytes) {}

  using UseFn = std::function<Status(size_t sample, std::span<const Tensor> outputs)>;
  // Hands out the outputs of `variant`, a graph of the same inputs, for each sample in order. What
  // lies before the first difference is not run again, where the variants come in the order of
  // their first differences and the values between take no more than most_bytes. Errors: those of
  // compiling and running.
  Status Run(const Graph& variant, const UseFn& use);

  int64_t whole_runs() const { return whole_runs_; }  // variants that were run from their inputs

 private:
  Status RunWhole(const Graph& variant, const UseFn& use);
  Result<bool> Keep(const std::vector<std::string>& names);

  const Graph& base_;
  std::span<const std::vector<Tensor>> samples_;
  PrepareFn prepare_;
  int64_t most_bytes_;
  std::map<std::string, std::vector<Tensor>> kept_;  // values of base_ by name, by sample
  int64_t whole_runs_ = 0;
};

}  // namespace evoq
