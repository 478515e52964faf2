// What a step costs, from its shapes and the machine's limits.
//
// A family of kernels has a formula (CostFamily) that counts what a step must do, each count as the
// nanoseconds that the machine's limits allow for it on one thread. How many of those nanoseconds
// pass in earnest is a constant per family and instruction set (Efficiency): 1.1 means 10% more
// than the limit. So the constants carry over to machines with other limits.
//   one thread:  ns = sum over terms: efficiency.times[t] * terms[t]
//   n threads:   ns * (1 - efficiency.shared * (1 - cut.share))
//                + cut.loops * efficiency.fork * fork_ns + efficiency.remote * terms[kStream] * (1
//                - 1/n) / n:
// the part outside shared loops, and of these the share of the thread that has most to do; waiting
// for the others once per loop; and of the activations that each thread reads and writes, those
// that lie in other cores' caches. A step that threads do not share takes `ns`. Where threads had
// nothing to do for longer than they spin, waking them comes on top (predict.cc).
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "compile/choose.h"
#include "profile/machine.h"
#include "program/model.h"

namespace evoq {

enum Term {
  kCall,        // being a step: a thousand cycles
  kArithmetic,  // multiply-adds at peak, padded to whole vectors
  kFeed,        // loads that feed them, a cycle per vector
  kRows,        // rows to be set up, a cycle each (a row: what a kernel's inner loop runs over)
  kOutputs,     // results, a cycle per 16
  kCurve,       // results that go through a function which is not piecewise linear, a cycle per 16
  kTiles,       // calls of a micro-kernel, ten cycles each
  kEdges,    // rows of tiles that reach over the end of a line of the image, a cycle for each tap
  kCopies,   // values laid beside each other for a kernel, by the cycles that it takes
  kStream,   // activations read and written, at the bandwidth of the cache that they fit
  kWeights,  // constants read, at the bandwidth of the cache that holds the whole run
  kTermCount,
};
const char* TermName(Term term);  // "call", "arithmetic", ...
using Terms = std::array<double, kTermCount>;

// Whose cores constants were fitted on.
struct FittedOn {
  const char* core;  // as CoreKind says it
  Isa isa;
};

// Constants of a family, fitted by bench/predict.py (predict/efficiency.inc).
struct Efficiency {
  FittedOn on;
  const char* family;
  Terms times;
  double shared, fork, remote;
  double spread;  // how far single runs were off in this family, as a share
};
// Of all families, fitted on the same cores.
using Efficiencies = std::span<const Efficiency>;
// Those that are taken for a machine: of its instruction set and the cores nearest to its own
// (SharedWords), else of AVX-512.
Efficiencies EfficienciesFor(const Limits& limits);
const Efficiency& EfficiencyOf(Efficiencies constants,
                               std::string_view family);  // a name of families.inc
// What all steps of a run are off together on a machine (the clock, neighbours, memory), with
// constants of `on`: a deviation, as a share.
double CommonSpread(const FittedOn& on, const Limits& limits);

// The machine's limits for one of the threads that run together, and its constants.
struct Rates {
  explicit Rates(const MachineLimits& limits);
  double cycle_ns;
  double mac_ns(Peak peak) const;  // one multiply-add; of kMemory: a cycle
  double stream_ns(double bytes,
                   double working_set) const;  // bytes of a working set, both of one thread
  MachineLimits limits;
  Efficiencies efficiencies;
};

// A step with static types, and what its run has in memory.
struct CostInput {
  const Graph& graph;
  const Node& node;
  const Step& step;
  KernelPlan plan;    // of its bound kernel
  int64_t run_bytes;  // weights, as kernels hold them, and activations of the whole run
  NodeCall args;
  bool extends = false;  // output 0 is input 0 where it lies: only what is new is written

  CostInput(const Graph& graph, const Step& step, const KernelPlan& plan, int64_t run_bytes);
  int64_t Elements(const TensorType& type) const;
  int64_t out_elements() const;
  int64_t in_elements() const;       // of activations
  int64_t activation_bytes() const;  // read and written
  int64_t weight_bytes()
      const;  // constants as the kernel holds them: one in float32 holds narrower weights as floats
  bool has_curve() const;  // a fused activation that is not piecewise linear
};

// One row per family, in predict/families/, named in predict/families.inc; the first that takes a
// step counts it.
struct CostFamily {
  const char* name;
  const char* kernels;  // glob patterns of kernel names, separated by spaces; "reference/OP": OP by
                        // its definition
  const char* method = "*";  // glob pattern of KernelPlan::method
  void (*count)(const CostInput& input, const Rates& rates, Terms& terms);
  // Its steps are computed by their definition: the size of their values says little of the time.
  bool by_definition = false;
};
std::span<const CostFamily* const> AllCostFamilies();
const CostFamily& FamilyOf(const Step& step, std::string_view op,
                           std::string_view method);  // the last family takes everything

// How a step's work is cut for several threads (predict/loops.h).
struct Cut {
  double share = 1;  // of the work, on the thread that has the most: 1 / threads at best
  int loops = 0;     // that threads share, one after the other; 0: one thread does everything
};

struct StepCost {
  const CostFamily* family;
  Terms terms;    // counts, nanoseconds at the limits
  Terms weighed;  // the same with their efficiencies
  double serial_ns;
  double ns;  // with the machine's threads
  double spread;
};
// `cut`: for `threads` threads.
StepCost CostOf(const CostInput& input, const Rates& rates, const Cut& cut, int threads);

}  // namespace evoq
