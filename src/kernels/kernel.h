// What a kernel is to the rest of evoq: one row (KernelDef) in its own file, named by one line in
// kernels/kernels.inc.
//
// A kernel computes one step of a program. It is chosen and prepared once ("bind"), when a model is
// compiled or loaded; running it afterwards cannot fail, allocates nothing and takes no lock.
// Everything is checked in `reject` and `bind`.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/isa.h"
#include "base/reason.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "kernels/cpu_model.h"
#include "tensor/attrs.h"
#include "tensor/precision.h"

namespace evoq {

// One step as a kernel sees it: an operator with static types. An omitted optional input has dtype
// kUndefined.
struct KernelCall {
  std::string_view op;
  const Attrs& attrs;
  std::span<const TensorType> inputs;
  std::span<const TensorType> outputs;
  std::span<const Tensor* const>
      constants;  // per input: its data when constant (perhaps packed), else nullptr

  bool has_input(size_t i) const {
    return i < inputs.size() && inputs[i].dtype != DType::kUndefined;
  }
  const Tensor* constant(size_t i) const { return i < constants.size() ? constants[i] : nullptr; }
};

struct BindOptions {
  Isa isa = Isa::kScalar;
  int threads = 1;
  // One of what KernelDef::variants gives, or "" for the kernel's own choice. A name that does not
  // fit here and now (it may come from a file) is taken as "".
  std::string_view variant;
  const CpuModel* cpu = &CpuModelHere();
};

// What a run needs besides its tensors. `scratch` is 64-byte aligned, BoundKernel::scratch_bytes
// long, garbage at entry.
struct RunContext {
  ThreadPool& pool;
  std::byte* scratch;
  // what the step's backend opened for this run (kernels/backend.h); null on the processor
  void* stream = nullptr;
};

// How a bound kernel goes about its step, for profiles, forecasts and tests. Results never depend
// on it.
struct KernelPlan {
  std::string code;      // by its instruction set: "avx512"; empty where there is nothing to say
  int tile_rows = 0;     // of a register tile: the most rows,
  int tile_columns = 0;  // and columns; 0: it has none
  std::string method;    // among the ways to compute the same: "winograd 4x4", "direct", "lanes"
  bool widened = false;  // weights that are stored in fewer bits are held as float32

  std::string ToString() const;  // "avx512 14x32 winograd 4x4"
};

// A kernel with everything prepared: multipliers, offsets, tables, pointers into packed weights.
struct BoundKernel {
  using RunFn = void (*)(const void* state, const void* const* inputs, void* const* outputs,
                         const RunContext& context);
  std::shared_ptr<const void> state;
  RunFn run = nullptr;
  size_t scratch_bytes = 0;
  KernelPlan plan;

  // From a state struct with `void Run(const void* const* in, void* const* out, const RunContext&)
  // const`.
  template <typename State>
  static BoundKernel Of(State state, size_t scratch_bytes = 0, KernelPlan plan = {}) {
    BoundKernel bound;
    bound.state = std::make_shared<const State>(std::move(state));
    bound.run = [](const void* s, const void* const* in, void* const* out,
                   const RunContext& context) {
      static_cast<const State*>(s)->Run(in, out, context);
    };
    bound.scratch_bytes = scratch_bytes;
    bound.plan = std::move(plan);
    return bound;
  }
};

// Which limit of the machine a kernel is measured against.
enum class Peak { kInt8, kFloat32, kBf16, kMemory };

struct KernelDef {
  const char* name;  // "conv_int8": stable, stored in .etm plans
  const char* op;    // the operator it computes
  Precision precision;
  Peak peak;
  // Why it does not take the call: "types", "layout", "attribute", "shape", "not-constant" and the
  // values. Nothing when it can compute it on every machine.
  std::optional<Reason> (*reject)(const KernelCall& call);
  // The constant input in the layout that bind wants, independent of the instruction set
  // (kernels/layout.h), or an undefined tensor to keep it plain. Null: packs nothing. Packed bytes
  // are what the .etm stores.
  Result<Tensor> (*pack)(const KernelCall& call, size_t input) = nullptr;
  // Whether bind takes constant input `input`, of the call's type, in this packed layout as it is,
  // whichever kernel packed it. Null: only what it packed itself.
  bool (*reads)(const KernelCall& call, size_t input, std::string_view layout) = nullptr;
  // `call` passed `reject`; its constants are packed. Their memory outlives the bound kernel.
  Result<BoundKernel> (*bind)(const KernelCall& call, const BindOptions& options);
  // Names of the ways to compute `call` that are worth measuring against each other ("14x32",
  // "winograd 4x4"), at most 16; `options.variant` is empty. Integer kernels give the same bits in
  // each. They differ in how `bind` goes about it, never in the packed constants. Null: there is
  // one way. docs/tuning.md has the rules.
  std::vector<std::string> (*variants)(const KernelCall& call,
                                       const BindOptions& options) = nullptr;
  // Inputs that output 0 may overwrite, bit i for input i: where that input dies with this step,
  // the planner gives both the same memory. Element i of output 0 is written after element i of
  // such an input was last read. Null: none.
  uint32_t (*in_place)(const KernelCall& call) = nullptr;
};

// The processor's kernels, the preferred one of an operator first (kernels.inc). Those of a program
// are its target's (kernels/backend.h).
std::span<const KernelDef* const> AllKernels();
// nullptr when there is none of that name.
const KernelDef* FindKernel(std::string_view name);

}  // namespace evoq
