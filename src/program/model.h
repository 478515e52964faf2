// A model ready to be executed or written: what an .etm file holds, and what a compiled program is.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/reason.h"
#include "base/result.h"
#include "graph/evaluator.h"
#include "graph/graph.h"
#include "kernels/backend.h"
#include "program/scale_sets.h"
#include "tensor/precision.h"

namespace evoq {

using InputShapes = std::map<std::string, std::vector<int64_t>>;

// Kernel names that are no KernelDef: the operator's definition, a plain copy of bytes, and one
// from or to a memory that is apart (compile/transfers.h).
inline constexpr char kReferenceKernel[] = "reference";
inline constexpr char kCopyKernel[] = "copy-bytes";
inline constexpr char kTransferKernel[] = "copy-between-memories";

// Why the compiler took a kernel: written where the decision is taken, joined with measured times
// by `explain`.
struct Decision {
  std::string kernel;  // KernelDef::name, or one of the names above
  Precision precision = Precision::kAny;
  struct Rejected {
    std::string kernel;
    Reason reason;
  };
  std::vector<Rejected> rejected;  // preferred kernels that do not take this step
  // For a step that could compute on integers and does not: "no-int8-kernel", "excluded",
  // "no-range", "scale-is-dynamic", "weights-not-constant", ... Empty otherwise.
  Reason float_reason;
};

// The code of a variant that lost.
inline constexpr char kSlowerWhenMeasured[] = "slower-when-measured";

// How a step is computed fastest where it was measured (docs/tuning.md).
struct StepTuning {
  std::string variant;  // one of KernelDef::variants; "": the kernel's own choice
  int threads = 0;      // 1: on the caller alone; 0: on all threads of the executor
  std::vector<Decision::Rejected> slower;  // what lost, with its time
};

// What was measured on one kind of machine with one number of threads, by node name. Steps without
// an entry take defaults.
struct Tuning {
  std::string machine;  // processor and instruction set, as MachineName() gives them
  int threads = 0;
  std::map<std::string, StepTuning> steps;
};

// The kernel choices for one set of input shapes: node name -> decision.
struct Plan {
  InputShapes shapes;
  std::map<std::string, Decision> decisions;
  std::vector<Tuning> tunings;
};

// The lowered graph (symbolic shapes allowed, constants packed) and the plans made for it so far.
struct Model {
  Graph graph;
  std::vector<Plan> plans;
  std::string certificate;  // what is guaranteed of it, as JSON (docs/certificate.md); "": nothing
  std::vector<ScaleSet> sets;  // of which the graph is the first; empty: it has no others
};

// Where a value lives while a program runs.
struct Placement {
  enum class Kind { kUnused, kInput, kOutput, kConstant, kArena };
  Kind kind = Kind::kUnused;
  int64_t offset =
      0;  // arena: bytes from its start; input, output: index; constant: its ValueId::index
  // Of the arena. Inputs and outputs of the model are the host's; constants are wherever a step
  // reads them.
  const MemorySpace* space = &kHostMemory;
};

struct Step {
  NodeId node;
  Decision decision;
  const KernelDef* kernel = nullptr;  // that decision names; null where it is no KernelDef
  StepTuning tuning;
  const Backend* backend = &kProcessor;      // who computes it
  const MemorySpace* writes = &kHostMemory;  // where its outputs are: backend's memory, but of a
                                             // copy to the host
  int64_t macs = 0;
  int64_t bytes = 0;  // inputs and outputs, as stored
};

// The memory that steps work in, of one kind.
struct Arena {
  const MemorySpace* space = &kHostMemory;
  int64_t bytes = 0;
};

// A graph with static shapes, scheduled: one step per node that computes something (views have
// none), a place for every value. A function of the graph, the shapes and the kernel list; equal on
// every machine.
struct Program {
  std::shared_ptr<const Graph> graph;
  std::vector<Step> steps;                // in execution order
  std::vector<Placement> placements;      // by ValueId::index
  std::vector<Arena> arenas = {Arena()};  // one for each memory, the host's first
  // The most that is alive at one step, added up over the memories: the arenas cannot be smaller.
  int64_t live_bytes = 0;
  int64_t value_bytes = 0;   // what the arenas would take if no two values shared memory
  int64_t weight_bytes = 0;  // constants that steps read, as stored
  const Evaluator* evaluator = &kNoEvaluator;  // of the steps that no kernel takes

  int64_t arena_bytes() const {
    int64_t bytes = 0;
    for (const Arena& arena : arenas) bytes += arena.bytes;
    return bytes;
  }
};

}  // namespace evoq
