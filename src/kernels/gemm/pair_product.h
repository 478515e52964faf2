// y = activation(a b + residual) of two computed operands of bytes with one scale each, as in
// attention: b is packed into the panels of layout k4n16 at each run, with its column sums; then
// the tiles of constant weights compute.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/math.h"
#include "base/reason.h"
#include "kernels/gemm/int8_block.h"
#include "kernels/gemm/int8_linear.h"
#include "kernels/gemm/pair_int8.h"

namespace evoq {

struct PairShapes {
  int64_t m = 1, n = 1, k = 1, a_count = 1, b_count = 1;
  std::vector<int64_t> a_of, b_of;  // per product: its matrices
  int64_t products() const { return static_cast<int64_t>(a_of.size()); }
};

// Why a [..., m, k] by b [..., k, n], of static shapes, is not taken.
std::optional<Reason> ReadPairShapes(const TensorType& a, const TensorType& b, PairShapes& shapes);

struct PairProduct {
  static constexpr int64_t kRows = 112;  // of a block: whole tiles of 16, 14, 8, 7, 4, 2 rows

  // `call`: as MatMul's, of operands that ReadPairShapes takes; a is uint8. Its residual may have
  // any shape. Errors: kInvalidInput for scales whose product overflows.
  static Result<PairProduct> Of(const KernelCall& call, const BindOptions& options);

  PairShapes s;
  int32_t a_zero = 0, b_zero = 0;  // b's as packed
  uint8_t b_flip = 0;
  Int8Epilogue epilogue;
  std::vector<float> multiplier, slopes;  // per padded column; slopes: or empty
  std::vector<int32_t> b_zeros;           // per padded column; empty: 0
  std::vector<uint8_t> ones;
  const Int8TileDef* tiles = nullptr;
  const PairTable* pair = nullptr;
  const char* why = "";  // these tiles (Int8TileChoice)
  int tile_panels = 1;
  int64_t pack_grain = 1;

  int64_t panels() const { return CeilDiv(s.n, 16); }
  // Bytes of a row of a: whole words.
  int64_t depth() const { return RoundUp(s.k, 4); }
  int64_t panel_bytes() const { return 16 * depth(); }
  int64_t y_row_bytes() const { return s.n * epilogue.y_bytes(); }
  int64_t residual_bytes() const {
    return epilogue.residual_type == Int8Residual::kFloat32 ? 4 : 1;
  }

  // Scratch that Pack fills: the panels of every b and their biases; that Words fills: a with rows
  // of whole words where k is not a multiple of four. Both multiples of 64.
  int64_t packed_bytes() const { return s.b_count * panels() * (panel_bytes() + 64); }
  int64_t words_bytes() const {
    return s.k == depth() ? 0 : RoundUp(s.a_count * s.m * depth(), 64);
  }
  void Pack(const void* b, std::byte* packed, ThreadPool& pool) const;
  // a, or its copy.
  const uint8_t* Words(const void* a, std::byte* copy) const;

  // One product's rows [first, first + count), count <= kRows, to y. `words`: their first one;
  // residual: their first element, or null; those of the next row are residual_stride bytes behind.
  struct Block {
    int64_t product, count;
    const uint8_t* words;
    const std::byte* packed;
    uint8_t* y;
    const void* residual;
    int64_t residual_stride;
  };
  void Rows(const Block& block) const;
};

}  // namespace evoq
