// Graph -> Program: choose kernels, pack weights, order steps, plan memory, record decisions.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "compile/pack_cache.h"
#include "program/model.h"

namespace evoq {

// What a Program's values are: a tensor whose elements are no strings.
bool IsNumbers(const TensorType& type);

// The graph with its inputs bound to `shapes` (and 1 for a symbolic dimension 0), and with every
// size that follows. Errors: those of BindShapes.
Result<Graph> Bound(const Graph& lowered, const InputShapes& shapes, const Evaluator& evaluator);

// Why a bound graph is no single Program: it has subgraphs, or a value is no tensor of numbers or
// has a size that depends on data. Nothing when it is one.
std::optional<std::string> WhyNoProgram(const Graph& bound);

// Packs the constants of a lowered graph into the layouts that the chosen kernels want, in place.
// Shapes may be symbolic: `bound` is the same graph, Bound to the shapes to choose for. Records the
// plan for these shapes. `packs` may be null. Errors: kUnsupported with WhyNoProgram.
Result<Model> PackModel(Graph lowered, const Graph& bound, PackCache* packs,
                        const Target& target = Target());
Result<Model> PackModel(Graph lowered, const Evaluator& evaluator, const InputShapes& shapes = {},
                        const Target& target = Target());

// A graph whose sizes are not known, with the weights packed whose kernels say which layouts they
// read (KernelDef::reads), which are the same whatever the sizes; as it is where no sizes make a
// Program of it. No plan comes of it.
Result<Graph> PackForAnySizes(Graph lowered, const Evaluator& evaluator);

// Whose measurements a program follows: a stored tuning with exactly this machine and number of
// threads.
struct TuningKey {
  std::string machine;
  int threads = 0;
};

// The program of a model at these input shapes (symbols not named: as in the first plan). Reuses a
// stored plan's decisions where they still hold, and its tuning for `key`, if any. `packs` may be
// null. `evaluator`, which must outlive the program, computes sizes and runs what no kernel takes.
// Where a value is read in another memory than it was computed in, a step copies it
// (compile/transfers.h).
Result<Program> Compile(const Model& model, const Evaluator& evaluator,
                        const InputShapes& shapes = {}, const TuningKey& key = {},
                        PackCache* packs = nullptr, const Target& target = Target());

// A readable dump: one line per step with kernel, types and places; the arena and who lives where.
std::string Print(const Program& program);

}  // namespace evoq
