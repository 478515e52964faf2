// Learning from another model: from its scores (Hinton, Vinyals, Dean, "Distilling the Knowledge in
// a Neural Network", 2015) and from values that it computes on the way to them (Romero et al.,
// "FitNets: Hints for Thin Deep Nets", 2015).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace evoq {

// T^2 KL(p || q) of one sample, with p = softmax(teacher / T), q = softmax(scores / T): the factor
// T^2 keeps the gradient's size for any T. Adds to `gradient` [classes] its derivatives by the
// scores, T (q - p), times `factor`.
double AddDistillation(std::span<const float> scores, std::span<const float> teacher,
                       float temperature, float factor, float* gradient);

// |f - t|^2 / |t|^2 of one sample, with f = `step` * `values` and the teacher's values t; a t of
// zeros counts as if its length were 1. Adds to `gradient` its derivatives by f, times `factor`.
double AddFeatureDistillation(std::span<const float> values, float step,
                              std::span<const float> teacher, float factor, float* gradient);

// A value of the graph that is trained, and the one of its teacher that it learns to be.
struct FeaturePair {
  std::string own, teacher;
};
// Each of `wanted` is OWN=TEACHER, or a glob pattern of names: then all float32 values that both
// graphs compute under one name, with the same sizes behind the batch. In the order of `own`'s
// execution, each of its values once. Errors: kUsage for a name that a graph does not have, for
// values of other types or sizes, and for a pattern that no pair matches.
Result<std::vector<FeaturePair>> PairFeatures(const Graph& own, const Graph& teacher,
                                              std::span<const std::string> wanted);

}  // namespace evoq
