// The layouts of weights of 2, 4 and 8 bits in which the products of product.h read them from the
// first byte to the last (BlockStream): a packed constant holds its scales and zero points among
// its bytes (QuantParams::inside), so that kernels read a mapped file where it lies.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/gemm/blocks/product.h"
#include "kernels/layout.h"

namespace evoq {

inline constexpr const char* kStreamW2 = "stream-matmul-w2";
inline constexpr const char* kStreamW4 = "stream-matmul-w4";
inline constexpr const char* kStreamW8 = "stream-matmul-w8";
inline constexpr const char* kStreamW4Steps = "stream-matmul-w4-steps";
extern const LayoutDef kLayoutStreamW2;
extern const LayoutDef kLayoutStreamW4;
extern const LayoutDef kLayoutStreamW8;
extern const LayoutDef kLayoutStreamW4Steps;

// How weights of one type lie and what they are multiplied as: integers q = u - offset, each of
// which stands for `unit`.
struct StoredLines {
  DType dtype;
  BlockLines kind;
  const char* layout;        // kStreamW4, ...
  const char* steps_layout;  // where scales are multiples of steps (scale_steps.h); null: never
  int groups;                // numbers in a byte of a line
  int32_t offset;
  float unit;
  uint8_t flip;  // bits that a line has the other way round than a plain tensor

  int64_t depth() const { return 4 * groups; }
  int bits() const { return 8 / groups; }
  // Blocks are multiples of it, where K has several.
  int64_t block() const { return depth() < 8 ? 8 : depth(); }
};
// Null for types that have no stream.
const StoredLines* FindStored(DType dtype);

// The stream of weights of one type, [K, N].
struct StreamShape {
  const StoredLines* stored = nullptr;
  int64_t depth = 0, columns = 0;
  int64_t block = 0, scales = 0;  // k to a scale; scales of a column
  bool half_scales = false, has_zeros = false;
  int32_t zero = 0;    // of all, where has_zeros is not set
  bool steps = false;  // a head holds kStepBlocks scales of a column, as multiples of a step
  int64_t unit_bytes = 0, bytes = 0;

  int64_t scale_bytes() const { return half_scales && !steps ? 64 : 128; }
  int64_t head_bytes() const { return scale_bytes() + (has_zeros ? 64 : 0); }
  int64_t in_head() const { return steps ? kStepBlocks : 1; }             // scales of a column
  int64_t heads() const { return (scales + in_head() - 1) / in_head(); }  // of a column
  const char* layout() const { return steps ? stored->steps_layout : stored->layout; }
};

// Of a type that lists its scales, or has them inside of a constant of this layout. Errors:
// kInvalidInput for a type that has no stream: another element type, no static matrix, scales along
// another axis, blocks that lines do not divide; kTooLarge.
Result<StreamShape> StreamShapeOf(const TensorType& type, std::string_view layout = {});

// Plain weights as a stream, of this layout or else the shortest. One scale for all stays listed in
// the type as well. Errors: of StreamShapeOf.
Result<Tensor> PackStream(const Tensor& plain, std::string_view layout = {});

// What the bits of an element of the stream stand for, beside a scale and zero point of the tensor.
std::array<float, 256> StreamNumbers(const StoredLines& stored);

// Column n of the stream at `bytes`, K real numbers: (number - zero point) * scale in float32, as
// ToFloat32 computes it. `numbers`: StreamNumbers.
void ReadStreamColumn(const StreamShape& shape, const uint8_t* bytes,
                      const std::array<float, 256>& numbers, int64_t n, float* y);

}  // namespace evoq
