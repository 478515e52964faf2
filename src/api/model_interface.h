// A model's inputs and outputs as the public interfaces have them: arrays of the caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "evoq/evoq.h"

namespace evoq {

inline constexpr int kMaxThreads = 1024;

// An array in the caller's memory, dense, aligned as its elements are.
struct ArrayView {
  ElementType type = ElementType::kFloat32;
  std::span<const int64_t> shape;
  std::span<const std::byte> bytes;
};

// The bytes of an array. Errors: kUsage for a type that arrays do not carry and a negative size,
// kTooLarge for a product beyond what memory can hold.
Result<size_t> BytesOf(ElementType type, std::span<const int64_t> shape);

// The bytes of an array in the caller's memory. Errors: those of BytesOf; kUsage for data that is
// null, or not aligned as the elements are.
Result<std::span<const std::byte>> CallersBytes(ElementType type, std::span<const int64_t> shape,
                                                const void* data);

// Whether arrays carry it.
bool Carried(const TensorType& type);

struct ModelInterface {
  std::vector<ArrayInfo> inputs, outputs;

  // `path` is for messages. Errors: kUnsupported where an input or output is no array.
  static Result<ModelInterface> Of(const Graph& graph, const std::string& path);

  // Whether the arrays have the model's number and types, the bytes of their sizes, and bools that
  // are bools. Errors: kUsage.
  Status Check(std::span<const ArrayView> inputs) const;
};

// What a run takes of arrays that were checked: views of them, of the inputs' `types` in the
// arrays' shapes. `owner`, which may be null, keeps their memory.
std::vector<Tensor> TensorsOf(std::span<const TensorType> types, std::span<const ArrayView> arrays,
                              std::shared_ptr<const void> owner = nullptr);

// Copies of what a run gave. Errors: kUnsupported for what arrays do not carry, with its name.
Status CopyOutputs(std::span<const Tensor> values, const std::vector<ArrayInfo>& infos,
                   std::vector<Array>& to);

}  // namespace evoq
