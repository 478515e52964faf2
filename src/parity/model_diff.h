// Two models on the same samples, value by value.
#pragma once

#include <string>
#include <vector>

#include "parity/compared_model.h"
#include "parity/cut.h"
#include "parity/value_error.h"
#include "parity/value_form.h"

namespace evoq {

// A value that both models have.
struct DiffedValue {
  std::string name, a_name;  // in B, in A
  std::string step, op;      // the node of B that computes it
  std::string type;          // how B stores it: "uint8", "float32"
  bool output = false;       // of B
  bool real = true;          // else its elements are right or wrong, each (ValueError::AddElements)
  bool rescaled = false;     // B holds its channels multiplied, and divides where it reads them
  std::vector<size_t> reads;  // the values before it, by index
  int nodes = 1;              // of B, between those and it
  ValueError whole;           // B's against A's
  // What B's step makes of A's values against what A makes of the same values: of those that B
  // stores in another type, as B rounds them. What came in wrong is not in it.
  ValueError own;

  // own noise / whole noise, at most 1; 0 without noise.
  double own_share() const;
};

// What is true of one sample.
struct SampleDiff {
  double sqnr_db = 0;  // of the worst output
};

class ModelDiff {
 public:
  // Pairs values by name (parity/value_names.h), outputs also by position, and finds in which form
  // B holds each (parity/value_form.h) by running `first`: samples by input of A, of which one at
  // least is there. Errors: kInvalidInput where the models have not the same inputs, or no value in
  // common; those of runs.
  static Result<ModelDiff> Between(ComparedModel a, ComparedModel b,
                                   std::span<const std::vector<Tensor>> first);

  // Runs a sample (inputs of A, by position) and adds its errors.
  Result<SampleDiff> Add(std::span<const Tensor> inputs);

  // Paired values in B's execution order; names of A's and of B's values that have no counterpart.
  const std::vector<DiffedValue>& values() const { return values_; }
  const std::vector<std::string>& only_a() const { return only_a_; }
  const std::vector<std::string>& only_b() const { return only_b_; }
  // Values of B whose sizes depend on the data: element by element says nothing of them.
  const std::vector<std::string>& sized_by_data() const { return sized_by_data_; }
  // Whether B holds values or weights in another type than float32.
  bool narrows() const;

  // What A and B give for value `i` in a sample: A's elements, B's in A's form.
  Result<std::pair<Tensor, Tensor>> Both(size_t i, std::span<const Tensor> inputs);

 private:
  struct Ran {
    std::vector<Tensor> a;  // float32, by pair
    std::vector<Tensor> b;  // as stored
  };
  Status MatchInputs();
  Status Pair();
  Status SetAside(std::span<const Tensor> sample);
  Status Prepare();
  Status FindForms(std::span<const std::vector<Tensor>> first);
  Status FindFactors(std::span<const std::vector<Tensor>> first);
  Status Drop(const std::vector<bool>& keep);
  Result<std::vector<Tensor>> InputsOfB(std::span<const Tensor> inputs) const;
  Result<Ran> RunBoth(std::span<const Tensor> inputs);
  Result<std::vector<Tensor>> Alone(std::span<const Tensor> inputs, const Ran& ran,
                                    std::span<const ValueForm> forms,
                                    std::vector<Tensor>* given = nullptr);
  Result<std::vector<Tensor>> RightFor(std::span<const Tensor> inputs, const Ran& ran,
                                       std::span<const Tensor> given);
  bool MayBeRescaled(size_t i) const;

  ComparedModel a_, b_;
  std::vector<size_t> input_of_b_;            // of each input of B: A's
  std::vector<ValueId> a_values_, b_values_;  // by pair
  std::vector<bool> exact_;                   // B stores the pair's value in float32
  std::vector<DiffedValue> values_;           // by pair
  std::vector<ValueForm> forms_;              // by pair
  std::vector<std::string> only_a_, only_b_, sized_by_data_;
  TappedGraph a_tap_, b_tap_, a_cut_, b_cut_;  // positions alone are used
  RunFn run_a_, run_b_, run_a_cut_, run_b_cut_;
};

}  // namespace evoq
