#include "predict/loops.h"

#include <algorithm>
#include <cstdlib>

#include "base/aligned.h"
#include "base/loop_notes.h"
#include "base/math.h"
#include "base/runnable_isa.h"
#include "kernels/kernel.h"

namespace evoq {
namespace {

// Zeros that take no memory until they are touched.
class Zeros {
 public:
  explicit Zeros(size_t bytes) : bytes_(std::calloc(bytes + 128, 1)) {
    EVOQ_CHECK(bytes_ != nullptr, "{} bytes", bytes);
  }
  ~Zeros() { std::free(bytes_); }
  Zeros(const Zeros&) = delete;
  Zeros& operator=(const Zeros&) = delete;
  std::byte* data() const {
    return reinterpret_cast<std::byte*>(RoundUp(reinterpret_cast<int64_t>(bytes_), int64_t{64}));
  }

 private:
  void* bytes_;
};

size_t BytesOf(const TensorType& type) { return static_cast<size_t>(type.bytes().value_or(0)); }

// Threads take whole pieces, each as many as the others or one more.
double LargestShare(const LoopCut& loop, int threads) {
  const int64_t pieces = CeilDiv(loop.count, loop.grain);
  return std::min(1.0, static_cast<double>(CeilDiv(pieces, int64_t{threads}) * loop.grain) /
                           static_cast<double>(loop.count));
}

// As the kernels of this machine cut it where it lacks `isa`: they are run here.
std::vector<LoopCut> LoopsOf(const CostInput& input, const KernelDef& kernel, Isa isa,
                             ThreadPool& pool) {
  const NodeCall& args = input.args;
  const auto bound = kernel.bind(args.call, {RunnableHere(isa), pool.threads(), {}});
  if (!bound) return {};
  std::vector<std::unique_ptr<Zeros>> memory;
  const auto zeros = [&](size_t bytes) {
    return memory.emplace_back(std::make_unique<Zeros>(bytes))->data();
  };
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (size_t i = 0; i < args.inputs.size(); ++i)
    inputs.push_back(args.constants[i] != nullptr                ? args.constants[i]->raw()
                     : args.inputs[i].dtype == DType::kUndefined ? nullptr
                                                                 : zeros(BytesOf(args.inputs[i])));
  for (const TensorType& type : args.outputs)
    outputs.push_back(type.dtype == DType::kUndefined ? nullptr : zeros(BytesOf(type)));
  const LoopNotes notes;
  bound->run(bound->state.get(), inputs.data(), outputs.data(),
             {pool, zeros(bound->scratch_bytes)});
  return notes.loops();
}

}  // namespace

Cut CutOf(const CostInput& input, Isa isa, ThreadPool& pool) {
  const KernelDef* const kernel = input.step.kernel;
  if (pool.threads() == 1 || input.step.tuning.threads == 1 || kernel == nullptr ||
      input.step.backend->memory != &kHostMemory || input.out_elements() == 0)
    return {};
  const std::vector<LoopCut> loops = LoopsOf(input, *kernel, isa, pool);
  if (loops.empty()) return {};
  Cut cut{0, static_cast<int>(loops.size())};
  for (const LoopCut& loop : loops)
    cut.share += LargestShare(loop, pool.threads()) / static_cast<double>(loops.size());
  return cut;
}

}  // namespace evoq
