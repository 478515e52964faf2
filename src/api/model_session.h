// What both public interfaces run: a loaded model on arrays of the caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "api/model_interface.h"

namespace evoq {

// Memory of the caller for an output.
struct OutputMemory {
  ElementType type = ElementType::kFloat32;
  std::span<const int64_t> shape;
  std::byte* data = nullptr;
};

// The settings of the public interface as the engine takes them.
AdaptiveOptions OptionsOf(const AdaptiveSettings& settings);
// The other way, of what was observed.
AdaptiveReport ReportOf(const AdaptiveState& state);
// Of the model's inputs, in their order.
SizesReport ReportOf(const GearReport& gears, const std::vector<ArrayInfo>& inputs);

// A model's file, or an .etm in memory (Session::LoadMemory), which messages call "model".
struct ModelSource {
  explicit ModelSource(std::string path) : name(std::move(path)) {}
  ModelSource(const void* data, size_t size)
      : name("model"), bytes(std::in_place, static_cast<const std::byte*>(data), size) {}
  std::string name;
  std::optional<std::span<const std::byte>> bytes;
};

// One run at a time. Whatever fails leaves it as it was: only shapes that were prepared are kept.
class ModelSession {
 public:
  // Errors: kUsage for threads beyond 0 to 1024; those of Engine::Load with LibraryParts();
  // those of ReadEtm for bytes; kUnsupported where an input or output is no array.
  static Result<ModelSession> Load(const ModelSource& source, const SessionOptions& options);
  // As the engine's.
  const AdaptiveState* adaptive() const { return engine_->adaptive(); }
  Status PinScaleSet(const std::string& name) { return engine_->PinScaleSet(name); }
  void WaitForGears() { engine_->WaitForGears(); }
  GearReport gears() const { return engine_->gears(); }

  const std::vector<ArrayInfo>& inputs() const { return interface_.inputs; }
  const std::vector<ArrayInfo>& outputs() const { return interface_.outputs; }

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
    Engine::Serving serving;
    std::vector<Array> outputs;  // types and shapes, without bytes
    std::vector<size_t> output_bytes;
    std::vector<const std::byte*> in;  // of a run; room for them
    std::vector<std::byte*> out;
  };
  Status CheckOutput(const OutputMemory& to, size_t index, const Array& model) const;
  // Whether the model is one Program at these shapes: else it runs in dynamic partitions.
  Result<bool> Settle(std::span<const ArrayView> inputs);
  std::vector<TensorType> InputTypes() const;
  Status PrepareFor(std::span<const ArrayView> inputs);
  Result<Prepared> Prepare(std::span<const ArrayView> inputs);
  Status RunPrepared(std::span<const ArrayView> inputs, std::vector<Array>& outputs);
  Status RunServing(std::span<const ArrayView> inputs);
  Status RunRegions(std::span<const ArrayView> inputs, std::vector<Array>& outputs);

  std::unique_ptr<Engine> engine_;
  ModelInterface interface_;
  Prepared prepared_;                // serves nothing before the first run
  std::vector<Array> from_regions_;  // of RunOn
};

}  // namespace evoq
