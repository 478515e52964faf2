// How constant weights of a MatMul of float32 rows are stored: a format is a row (WeightFormat) in
// a file of its own, NAME_each.cc, named by one line of formats.inc. Weights lie in panels of 16
// columns, each a run of bytes that its format alone knows, and stay so in memory: products turn
// them into float32 in registers or, a panel at a time, in the cache.
//
// Plain data only: this header is included by files that are compiled for one instruction set.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace evoq {

inline constexpr int kWeightColumns = 16;  // of a panel

// The weights of one product: b[k, n] = (q[k, n] - zero[k / block, n]) * scale[k / block, n], q the
// element's number, an integer or of a tiny floating-point type.
struct WeightPanels {
  int64_t columns, depth;
  int64_t block;          // of K; depth, or 1 where that is 0, when there is one
  int64_t blocks;         // at least 1
  const uint8_t* packed;  // [columns / 16] panels
  int64_t panel_bytes;
  bool is_signed;       // q's type, where the format has two
  const float* scales;  // [columns / 16][blocks][16]: those that follow each other lie together
  const float* zeros;   // as scales; null when all are 0
};

// The other operands. bias, float32[columns], and residual, of y's shape, may be null.
struct WeightRows {
  int64_t rows;
  const float* a;  // [rows][depth]
  const float* bias;
  const float* residual;
  float* y;  // [rows][columns]
};

enum class WeightZeros { kNone, kColumns, kBlocks };

// One format, compiled for one instruction set: its functions use that set, all else is equal.
struct WeightFormat {
  const char* name;     // "int8", in profiles and documentation
  const char* layout;   // of packed tensors (kernels/layout.h), in files
  const char* formula;  // index formula of the layout
  int bits;             // of an element
  DType dtypes[2];      // what it stores; the second may be kUndefined
  int64_t block;        // scales of blocks along K: of multiples of so many
  WeightZeros zeros;    // which zero points may differ from 0: none, per column, per block too

  int64_t (*panel_bytes)(int64_t depth);
  // A panel from its elements, [depth][16], in the low bits of a byte each, and back.
  void (*pack)(const uint8_t* elements, int64_t depth, uint8_t* panel);
  void (*unpack)(const uint8_t* panel, int64_t depth, uint8_t* elements);
  // The panel's b in float32, [depth][16], rounded once; zeros in columns that pad it.
  void (*real)(const WeightPanels& weights, int64_t panel, float* b);
  // Columns of panels [begin, end) of
  //   y[m, n] = bias[n] + sum over blocks of scale[block, n] * sum_{k in block} a[m, k] *
  //             (q[k, n] - zero[block, n]) + residual[m, n]
  // in float32, k in order within a block, blocks in order; one fused multiply-add each where the
  // instruction set has it. For few rows: they read the weights a few times.
  void (*dot)(const WeightPanels& weights, const WeightRows& rows, int64_t begin, int64_t end);
};

}  // namespace evoq
