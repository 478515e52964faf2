// What both public interfaces run: a loaded model on arrays of the caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "evoq/evoq.h"

namespace evoq {

// An array in the caller's memory, dense, aligned as its elements are.
struct ArrayView {
  ElementType type = ElementType::kFloat32;
  std::span<const int64_t> shape;
  std::span<const std::byte> bytes;
};

// Memory of the caller for an output.
struct OutputMemory {
  ElementType type = ElementType::kFloat32;
  std::span<const int64_t> shape;
  std::byte* data = nullptr;
};

// The bytes of an array. Errors: kUsage for a type that arrays do not carry and a negative size,
// kTooLarge for a product beyond what memory can hold.
Result<size_t> BytesOf(ElementType type, std::span<const int64_t> shape);

// The bytes of an array in the caller's memory. Errors: those of BytesOf; kUsage for data that is
// null, or not aligned as the elements are.
Result<std::span<const std::byte>> CallersBytes(ElementType type, std::span<const int64_t> shape,
                                                const void* data);

// The settings of the public interface as the engine takes them.
AdaptiveOptions OptionsOf(const AdaptiveSettings& settings);
// The other way, of what was observed.
AdaptiveReport ReportOf(const AdaptiveState& state);

// One run at a time. Whatever fails leaves it as it was: only shapes that were prepared are kept.
class ModelSession {
 public:
  // `threads`: 0 to 1024. Errors: those of Engine::Load with LibraryParts(); kUnsupported where an
  // input or output is no array.
  static Result<ModelSession> Load(const std::string& path, int threads,
                                   const std::optional<AdaptiveSettings>& adaptive = {});
  // As the engine's.
  const AdaptiveState* adaptive() const { return engine_->adaptive(); }
  Status PinScaleSet(const std::string& name) { return engine_->PinScaleSet(name); }

  const std::vector<ArrayInfo>& inputs() const { return inputs_; }
  const std::vector<ArrayInfo>& outputs() const { return outputs_; }

  // Errors: kUsage for inputs that are not the model's or whose bytes are not those of their type
  // and shape, those of Engine::At and of runs. `outputs` may then hold anything. Allocates nothing
  // when shapes and outputs are those of the run before, and sizes do not depend on data.
  Status Run(std::span<const ArrayView> inputs, std::vector<Array>* outputs);
  // The same into memory of the caller. Errors: also kUsage for outputs that are not the model's
  // for these inputs, that are not aligned as their elements are, or that overlap an input or
  // another output: then none is written.
  Status RunOn(std::span<const ArrayView> inputs, std::span<const OutputMemory> outputs);

 private:
  // What runs at these shapes.
  struct Prepared {
    std::vector<std::vector<int64_t>> shapes;
    std::shared_ptr<Executor> executor;
    std::vector<Array> outputs;  // types and shapes, without bytes
    std::vector<size_t> output_bytes;
    std::vector<const std::byte*> in;  // of a run; room for them
    std::vector<std::byte*> out;
  };
  Status Check(std::span<const ArrayView> inputs) const;
  Status CheckOutput(const OutputMemory& to, size_t index, const Array& model) const;
  // Whether the model is one Program at these shapes: else it runs in dynamic partitions.
  Result<bool> Settle(std::span<const ArrayView> inputs);
  Status PrepareFor(std::span<const ArrayView> inputs);
  Result<Prepared> Prepare(std::span<const ArrayView> inputs);
  Status RunPrepared(std::span<const ArrayView> inputs, std::vector<Array>& outputs);
  Status RunRegions(std::span<const ArrayView> inputs, std::vector<Array>& outputs);

  std::unique_ptr<Engine> engine_;
  std::vector<ArrayInfo> inputs_, outputs_;
  Prepared prepared_;                // its executor is null before the first run
  std::vector<Array> from_regions_;  // of RunOn
};

}  // namespace evoq
