// Graph -> Program: choose kernels, pack weights, order steps, plan memory, record decisions.
#pragma once

#include <memory>

#include "base/result.h"
#include "program/model.h"

namespace evoq {

// Packs the constants of a lowered graph into the layouts that the chosen kernels want, in place. Shapes may be symbolic:
// inputs are bound to `shapes` (and 1 for a symbolic dimension 0) to choose. Records the plan for these shapes.
Result<Model> PackModel(Graph lowered, const InputShapes& shapes = {});

// The program of a model at these input shapes (symbols not named: as in the first plan). Reuses a stored plan's
// decisions where they still hold.
Result<Program> Compile(const Model& model, const InputShapes& shapes = {});

// A readable dump: one line per step with kernel, types and places; the arena and who lives where.
std::string Print(const Program& program);

}  // namespace evoq
