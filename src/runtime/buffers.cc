#include "runtime/buffers.h"

#include <cstring>

namespace evoq {
namespace {

// xorshift32: the same content everywhere.
struct Random {
  explicit Random(uint32_t seed) : state(seed * 2654435761u + 1) {}
  uint32_t state;
  uint32_t Next() {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
  }
};

void Fill(Tensor& tensor, Random& random) {
  if (tensor.dtype() == DType::kFloat32) {
    for (int64_t i = 0; i < tensor.elements(); ++i)
      tensor.mutable_data<float>()[i] = static_cast<float>(random.Next() >> 8) * 0x1p-23f - 1.0f;
  } else if (DTypeBits(tensor.dtype()) == 8 && tensor.dtype() != DType::kBool) {
    for (size_t i = 0; i < tensor.bytes(); ++i)
      tensor.mutable_raw()[i] = static_cast<std::byte>(random.Next() >> 16);
  }
  // Zeros are valid in every other type, also as indices and as bits of a float.
}

}  // namespace

void FillForSpeed(Tensor& tensor, uint32_t seed) {
  Random random(seed);
  Fill(tensor, random);
}

RunBuffers MakeBuffers(const Runnable& runnable, uint32_t seed) {
  RunBuffers buffers;
  buffers.inputs = runnable.sample();
  Random random(seed);
  for (size_t i = buffers.inputs.size(); i < runnable.input_types().size(); ++i) {
    buffers.inputs.push_back(Tensor::Allocate(runnable.input_types()[i]));
    Fill(buffers.inputs.back(), random);
  }
  const auto is_numbers = [](const TensorType& type) {
    return type.is_tensor() && type.dtype != DType::kString;
  };
  const std::vector<TensorType>& types = runnable.output_types();
  std::vector<int> shared(types.size(), -1);
  std::vector<TensorType> in_place;
  for (size_t o = 0; o < types.size() && runnable.repeats_in_place(); ++o) {
    shared[o] = runnable.shared_input(o);
    if (shared[o] >= 0) in_place.push_back(buffers.inputs[static_cast<size_t>(shared[o])].type());
  }
  // What runs in place is written to: the sample stays as it is. It lies together, as the caches of
  // a CachedModel do.
  std::vector<Tensor> copies = Tensor::AllocateTogether(in_place);
  auto copy = copies.begin();
  for (size_t o = 0; o < types.size(); ++o) {
    if (shared[o] < 0) {
      buffers.outputs.push_back(is_numbers(types[o]) ? Tensor::Allocate(types[o]) : Tensor());
      continue;
    }
    Tensor& input = buffers.inputs[static_cast<size_t>(shared[o])];
    std::memcpy(copy->mutable_raw(), input.raw(), input.bytes());
    input = std::move(*copy++);
    buffers.outputs.push_back(input.WithType(types[o]));
  }
  return buffers;
}

}  // namespace evoq
