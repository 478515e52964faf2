// The search for the precision of each layer: over a model of what layers cost, with the truth
// asked for a few plans only.
#pragma once

#include <functional>
#include <vector>

#include "base/result.h"

namespace evoq {

// A scheme (by index; 0 is float32) for each layer.
using Assignment = std::vector<int>;

// What a network of layers costs in each assignment: the sum over its layers, and over its links
// where a value changes its form between the layer that gives it and those that read it.
struct CostModel {
  struct Layer {
    std::vector<double> ms;  // by scheme; infinity where the layer does not exist in it
    std::vector<double>
        noise;  // by scheme: what it adds to the error of the outputs, in any unit; 0 for float32
  };
  // A value: one conversion for each form, other than the giver's, in which layers read it.
  struct Link {
    int from = -1;        // a layer; -1: an input of the model, float32
    std::vector<int> to;  // layers; -1: an output of the model, float32
    double elements = 0;
  };
  std::vector<Layer> layers;
  std::vector<Link> links;
  std::vector<int>
      forms;  // by scheme: the form of the values that its layers give and take; float32 is 0
  std::vector<std::vector<double>> convert_ms;  // [form][form], per element

  int schemes() const { return static_cast<int>(forms.size()); }
  double Ms(const Assignment& a) const;
  double Noise(const Assignment& a) const;
};

// An assignment of small Ms + weight * Noise: the best of what a descent finds from each uniform
// assignment, whose moves give a run of neighbouring layers (in the order of the list) another
// scheme, or in small networks any two layers. Exact where links are free. What was found so far
// where `stop`, asked now and then, is true; it may be null.
Assignment Cheapest(const CostModel& model, double ms_per_noise,
                    const std::function<bool()>& stop = nullptr);

// Whether an assignment is accurate enough, by measuring. Called once for each assignment.
using HoldsFn = std::function<Result<bool>(const Assignment&)>;

// The fastest assignment found that `holds`: Cheapest for a noise weight found by bisection, then
// layers given back one and two at a time while that is faster and still holds. At most `tries`
// calls of `holds`; all float32 is taken to hold. `stop`: as above.
Result<Assignment> FastestThatHolds(const CostModel& model, int tries, const HoldsFn& holds,
                                    const std::function<bool()>& stop = nullptr);

}  // namespace evoq
