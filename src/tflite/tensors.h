// Tensors of a TensorFlow Lite file: their types, and the data of constants.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tensor/tensor.h"
#include "tflite/file.h"

namespace evoq::tflite {

// What an element is: complex numbers are values with an axis of 2 at the end, real and imaginary
// part; resources name variables and have no value.
enum class Elements { kReal, kComplex, kResource };
const char* ElementsName(Elements elements);  // for messages

// What the file says of a tensor.
struct TensorFacts {
  std::string name;
  DType dtype = DType::kUndefined;  // as evoq stores it: float32 for float16 and bfloat16, int8 for
                                    // int4 and int2, uint8 for uint4
  DType stored = DType::kUndefined;  // as the file stores it
  std::vector<int64_t> sizes;        // -1 for one that a run may choose
  // Of integers of up to 16 bits that stand for real numbers: such a tensor is a quantized value.
  std::optional<QuantParams> quant;
  // Scales of int32 and int64 tensors, which are biases.
  std::vector<float> bias_scales;
  bool variable = false;
  Elements elements = Elements::kReal;

  // Of 16 bits in the file, of 32 here.
  bool half() const { return stored == DType::kFloat16 || stored == DType::kBfloat16; }
  int rank() const { return static_cast<int>(sizes.size()); }
  // With `quant`, and the sizes: a run's choice is the symbol N on axis 0, and one of the tensor's
  // name and the axis on others.
  TensorType type() const;
};

// Errors: kUnsupported for strings and zero points by block; kInvalidInput for scales that do not
// fit.
Result<TensorFacts> FactsOf(const File& file, const fb::Tensor& tensor, size_t index);

// The constant, also of a sparse one. Its bytes are those of the file where it is aligned and
// stored as evoq stores it. Errors: kInvalidInput for another number of bytes than the type has;
// kTooLarge.
Result<Tensor> ConstantOf(const File& file, const fb::Tensor& tensor, const TensorFacts& facts);

// The same numbers with axis k of the result being axis perm[k] of `from`.
Result<Tensor> Permuted(const Tensor& from, const std::vector<int64_t>& perm);

}  // namespace evoq::tflite
