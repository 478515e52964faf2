// NumPy's .npy format (versions 1 to 3) in memory: what .npy files and the members of .npz files
// hold.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"
#include "tensor/tensor.h"

namespace evoq {

struct NpyHeader {
  TensorType type;
  bool fortran_order = false;  // stored with the first axis fastest
  size_t data_offset = 0;
};

// Checks that the data of the header's shape is there, exactly; that there are at most 64 axes
// (NumPy's limit); and that no size beside a 0 makes the others' product larger than 2^26: somebody
// may count them. Errors: kInvalidInput naming the place; kUnsupported for big-endian, string and
// structured arrays.
Result<NpyHeader> ParseNpyHeader(std::span<const std::byte> bytes);

// The header of a C-order array of this static type, padded so that the data after it is 64-byte
// aligned. Errors: kUnsupported for element types that .npy does not have.
Result<std::string> NpyHeaderBytes(const TensorType& type);

// The array in C order, in fresh memory, bools as 0 and 1.
Result<Tensor> ParseNpy(std::span<const std::byte> bytes);

// Any byte but 0 means true in a file, and becomes 1. Nothing for other types.
void NormalizeBools(Tensor& tensor);

}  // namespace evoq
