// How rows of a GGUF file hold quantized weights, and what becomes of them: one row per format, in
// llm/block_formats.inc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "llm/stored_tensor.h"

namespace evoq {

// The most elements of a block.
inline constexpr int kMaxBlock = 256;

// A block as integers: element i stands for (q[i] - zeros[g]) * scales[g], where g = i / group. Of
// a floating-point type of 4 bits q has the bits.
struct IntegerBlock {
  float scales[kMaxBlock];
  int32_t zeros[kMaxBlock];
  int16_t q[kMaxBlock];
  // Of a block that was rounded, sums of squares: of what it moved, and of the file's values.
  double error = 0, power = 0;
};

// What became of a tensor.
struct BlockLoss {
  bool rounded = false;
  double share = 0;  // root mean square of what it moved, to that of the values
};

struct BlockFormat {
  const char* name;  // "Q4_0"
  uint32_t id;       // the number of ggml
  int elements;      // of a block, at most kMaxBlock
  int bytes;         // of a block
  // The values, in the order and with the roundings of ggml's own dequantization.
  void (*real)(const std::byte* block, float* values);
  // The same numbers as integers of `dtype`, `group` of them to a scale; false where they are none.
  // Null: a format whose blocks have an offset that is no multiple of their scale.
  bool (*integers)(const std::byte* block, IntegerBlock& out) = nullptr;
  DType dtype = DType::kInt8;
  int group = 32;
};

// What the sixteen numbers of IQ4_NL and IQ4_XS stand for.
inline constexpr int kValuesIq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                       1,    13,   25,  38,  53,  69,  89,  113};

std::span<const BlockFormat* const> AllBlockFormats();
const BlockFormat* FindBlockFormat(uint32_t id);

// A matrix [rows, columns] of blocks as a constant quantized in blocks along its columns. Where
// every block is integers, it has the very values of the file; else it is rounded to int8, 32 to a
// scale of (largest magnitude / 127), which `rounding` says. With `transposed` it is
// [columns, rows], blocks along axis 0, as MatMul takes it. Errors: kInvalidInput for a scale that
// is no finite number; kTooLarge.
Result<Tensor> FromBlocks(const StoredTensor& stored, bool transposed, BlockLoss& rounding);

}  // namespace evoq
