// Graph -> Program: choose kernels, pack weights, order steps, plan memory, record decisions.
#pragma once

#include <memory>

#include "base/result.h"
#include "program/model.h"

namespace evoq {

// Packs the constants of a lowered graph into the layouts that the chosen kernels want, in place. Shapes may be symbolic:
// inputs are bound to `shapes` (and 1 for a symbolic dimension 0) to choose. Records the plan for these shapes.
Result<Model> PackModel(Graph lowered, const InputShapes& shapes = {});

// Whose measurements a program follows: a stored tuning with exactly this machine and number of threads.
struct TuningKey {
  std::string machine;
  int threads = 0;
};

// The program of a model at these input shapes (symbols not named: as in the first plan). Reuses a stored plan's
// decisions where they still hold, and its tuning for `key`, if any.
Result<Program> Compile(const Model& model, const InputShapes& shapes = {}, const TuningKey& key = {});

// A readable dump: one line per step with kernel, types and places; the arena and who lives where.
std::string Print(const Program& program);

}  // namespace evoq
