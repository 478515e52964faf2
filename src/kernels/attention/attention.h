// What attention is computed from, for each instruction set: products of a few rows by a block,
// one step of the softmax over blocks, and rotary embeddings. Every element of a result is the same
// sequence of operations whatever rows, columns or threads it is computed with.
#pragma once

#include <cstdint>

#include "kernels/attention/ahead.h"
#include "kernels/isa_table.h"

namespace evoq {

inline constexpr int kKeyBlock = 64;         // keys whose scores are computed together
inline constexpr int kMaxAttentionRows = 8;  // of `dots`; AttentionTable::rows is at most as many

// y[r, n] = (times == null ? 0 : y[r, n] * times[r]) + sum over k < depth of a[r, k] * b[k, n], in
// order of k, each term a fused multiply-add but in plain C++ on x86. Rows of a, b and y are
// a_step, b_step and y_step elements apart.
struct RowsByBlock {
  const float* a;
  int64_t a_step;
  const void* b;  // float32, or float16
  int64_t b_step;
  float* y;
  int64_t y_step;
  int64_t depth;
  int rows;  // 1 .. AttentionTable::rows
  int64_t columns;
  const float* times;      // [rows], or null
  Ahead* ahead = nullptr;  // a beat for each k and the columns that are computed together; or null
};

// y[r, j] = sum over d < size of q[r, d] * keys[j, d] for j < n <= kKeyBlock: 16 interleaved sums,
// fused as above, then of those 8 apart, 4, 2 and 1. Rows of q are q_step elements apart, keys
// key_step; those of y have room for kKeyBlock.
struct KeyDots {
  const float* q;
  int64_t q_step;
  int rows;          // 1 .. kMaxAttentionRows
  const void* keys;  // float32, or float16
  int64_t key_step;
  int64_t size;  // a multiple of 16
  int64_t n;
  float* y;
  Ahead* ahead;  // a beat for 16 elements of the rows and keys that are taken together
};

// How the scores of one row and one block become biased scores.
struct ScoreRow {
  float scale = 1, softcap = 0;        // softcap * tanh(x / softcap) where it is more than 0
  const float* bias = nullptr;         // added, or null
  const uint8_t* kept = nullptr;       // excludes keys where it is 0, or null
  int64_t begin = 0, end = kKeyBlock;  // the keys that count; bias and kept are read there

  EVOQ_ALWAYS_INLINE bool plain() const {
    return !(softcap > 0) && bias == nullptr && kept == nullptr;
  }
};

// Of the keys seen so far: their largest score, and the sum of exp(score - max).
struct SoftmaxState {
  float max, sum;
};

// Makes products q k of a block the weights exp(score - max), 0 where a key is excluded, and counts
// them; sums of earlier blocks are to be multiplied by `earlier`, what the larger maximum makes of
// them.
struct SoftenRows {
  int count;            // 1 .. kMaxAttentionRows
  const ScoreRow* row;  // [count]
  float* scores;        // [count][kKeyBlock]
  SoftmaxState* states;
  float* earlier;  // [count]
  // Given: weights are exp(score - the block's own max), those of the block are to be multiplied by
  // `now`, and the sums of weights are.
  float* now = nullptr;
  Ahead* ahead;  // a few beats for each row
};

// Rows of `size` int8 elements, one behind the other, each with a float16 scale for every `block`
// of them.
struct CacheRows {
  const int8_t* q;
  const uint16_t* scales;
  int64_t size, block;
};

struct AttentionTable {
  int rows, columns;                                      // that `product` computes together
  int dot_rows, dot_keys;                                 // that `dots` does
  void (*product)(const RowsByBlock& product);            // b in float32
  void (*product_half)(const RowsByBlock& product);       // b in float16
  void (*widen)(const uint16_t* x, float* y, int64_t n);  // float16 to float32
  // y = q * scale of `rows` rows, exactly.
  void (*dequantize)(const CacheRows& x, float* y, int64_t rows);
  // The largest magnitude; NaN counts for nothing.
  float (*largest)(const float* x, int64_t n);
  // q = round_half_even(x / scale) within -127 and 127, 0 of NaN.
  void (*quantize)(const float* x, float scale, int8_t* q, int64_t n);
  void (*dots)(const KeyDots& dots);       // keys in float32
  void (*dots_half)(const KeyDots& dots);  // keys in float16
  void (*soften)(const SoftenRows& rows);
  // The first 2 * half elements of x are pairs (a, b), halves apart or neighbours, and become
  // (cos a - sin b, sin a + cos b). y may be x.
  void (*rotate)(const float* x, const float* cosines, const float* sines, float* y, int64_t half,
                 bool interleaved);
};
EVOQ_ISA_TABLE(AttentionTable)

}  // namespace evoq
