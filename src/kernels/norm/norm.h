// Softmax, normalizations and reductions in float32. The order of every sum is the one of
// kernels/math/math.h: SumF along contiguous values, sequential from 0 along other axes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "kernels/isa_table.h"

namespace evoq {

// EVOQ_REDUCE(ONNX operator, start, term in x, combination of acc and a term, result of acc, count)
// clang-format off
#define EVOQ_REDUCE_LIST                                                   \
  EVOQ_REDUCE(ReduceSum, 0.0f, x, acc + t, acc)                            \
  EVOQ_REDUCE(ReduceMean, 0.0f, x, acc + t, acc / count)                   \
  EVOQ_REDUCE(ReduceSumSquare, 0.0f, x * x, acc + t, acc)                  \
  EVOQ_REDUCE(ReduceL1, 0.0f, x < 0.0f ? 0.0f - x : x, acc + t, acc)       \
  EVOQ_REDUCE(ReduceL2, 0.0f, x * x, acc + t, __builtin_sqrtf(acc))        \
  EVOQ_REDUCE(ReduceLogSum, 0.0f, x, acc + t, LogInline(acc))              \
  EVOQ_REDUCE(ReduceMax, -kInfinity, x, MaximumInline(t, acc), acc + 0.0f) \
  EVOQ_REDUCE(ReduceMin, kInfinity, x, MinimumInline(t, acc), acc + 0.0f)  \
  EVOQ_REDUCE(ReduceProd, 1.0f, x, acc * t, acc)
// clang-format on

enum class ReduceKind {
#define EVOQ_REDUCE(op, start, term, combine, result) k##op,
  EVOQ_REDUCE_LIST
#undef EVOQ_REDUCE
};

std::optional<ReduceKind> ReduceKindOf(std::string_view op);
// Results are sums of terms, which AVX-512 adds up for sixteen rows together.
constexpr bool AddsTerms(ReduceKind kind) { return kind < ReduceKind::kReduceLogSum; }

// One output row: `count` places in x, at offsets[i], each `row` contiguous elements.
//   row_reduced: y[0] = result(start combined with the reduction of each place's elements, in
//   order) otherwise:   y[k] = result(start combined with element k of each place, in order), k <
//   row
struct ReduceRow {
  const int64_t* offsets;
  int64_t places;
  int64_t row;
  bool row_reduced;
  float count;  // elements that each output combines
};

// Softmax of bytes with one scale each (kernels/requant.h).
struct ByteSoftmax {
  float e[256];                         // by distance from the row's largest byte
  alignas(64) uint8_t e_bytes[4][256];  // byte k of e[d]'s bits
  alignas(64) float e_lanes[4][4][16];  // e[64 c + 16 l + 4 g + t] at [c][g][4 l + t]: what Narrow
                                        // of bytes512.h packs
  float scale_y;
  int32_t zero_y;
};

// What a sum of bytes becomes: RoundToInteger((sum - zero_sum) * multiplier, zero, 0, 255).
struct ByteMean {
  int32_t zero_sum;
  float multiplier;
  int32_t zero;
};

struct NormTable {
  // `rows` rows of n contiguous values: m = MaxF(x), e = ExpF(x - m), s = SumF(e); y = e * (1 / s),
  // or (x - m) - LogF(s).
  void (*softmax_rows)(const float* x, float* y, int64_t rows, int64_t n, bool log);
  // The same along an axis of n with `inner` elements beside each other, for the columns [begin,
  // end) of them; sequential.
  void (*softmax_columns)(const float* x, float* y, int64_t n, int64_t inner, int64_t begin,
                          int64_t end, bool log);
  // `rows` rows of n contiguous bytes.
  void (*softmax_bytes)(const ByteSoftmax& softmax, const uint8_t* x, uint8_t* y, int64_t rows,
                        int64_t n);
  // Of each of `rows` rows of n contiguous values y = (x - mean) * inverse * scale + bias with mean
  // = SumF(x) / n and inverse = 1 / sqrt(SumSquaresF(x, mean) / n + epsilon); bias may be null.
  // `mean` and `inverse`, where not null, get those of each row.
  void (*layer_norm_rows)(const float* x, const float* scale, const float* bias, float* y,
                          int64_t rows, int64_t n, float epsilon, float* mean, float* inverse);
  // y = x * inverse * scale with inverse = 1 / sqrt(SumF(x^2) / n + epsilon).
  void (*rms_norm_row)(const float* x, const float* scale, float* y, int64_t n, float epsilon);
  // y = x * a[c] + b[c] for `pixels` pixels of c values; for one channel, over n values.
  void (*affine_pixels)(const float* x, const float* a, const float* b, float* y, int64_t pixels,
                        int64_t channels);
  void (*affine_run)(const float* x, float a, float b, float* y, int64_t n);
  // Channels [begin, end) of one image of `pixels` pixels; `step` floats from pixel to pixel,
  // `plane` from channel to channel. With m = sum(x) / n, off = sum(x - m) / n: mean = m + off, var
  // = sum((x - m)^2) / n - off^2, not below 0, y = (x - mean) * (scale / sqrt(var + epsilon)) +
  // bias. Sums are sequential in pixel order: `off` is what the first one lost by that.
  void (*instance_norm)(const float* x, const float* scale, const float* bias, float* y,
                        int64_t pixels, int64_t channels, bool channels_last, int64_t begin,
                        int64_t end, float epsilon);
  // Groups of `size` channels of one image of channels [0, channels), those of [begin, end): y = (x
  // - mean) * (inverse * scale[c]) + bias[c] with inverse = 1 / sqrt(squares / (pixels * size) +
  // epsilon). Of planes beside each other, mean = SumF(x) / n, squares = SumSquaresF(x, mean) over
  // the group's n values, and the product is (x - mean) * inverse * scale[c]. Of channels last,
  // each channel's sums are those of parts of 64 pixels, joined: with a part's m = sum(x) / p and q
  // = sum((x - m)^2) behind n pixels, d = m - mean, mean += d * (p / (n + p)), squares += q + d * d
  // * (n * p / (n + p)); a group's mean is that of its channels' means, and its squares are the sum
  // of squares + pixels * (mean of the channel - mean)^2. `means` and `factors` have room for
  // `channels` floats each.
  void (*group_norm)(const float* x, const float* scale, const float* bias, float* y,
                     int64_t pixels, int64_t channels, int64_t size, bool channels_last,
                     int64_t begin, int64_t end, float epsilon, float* means, float* factors);
  void (*reduce)(ReduceKind kind, const float* x, const ReduceRow& row, float* y);
  // The same of each of `rows` rows of n >= 1 elements beside each other.
  void (*reduce_rows)(ReduceKind kind, const float* x, int64_t rows, int64_t n, float* y);
  // y[r] = the index of the largest (or smallest) of each row's n contiguous values, the first of
  // equals or the last: best = 0, then for k = 1, 2, ...: best = k where x[k] > x[best] (x[k] <
  // x[best]), or x[k] == x[best] with `last`. n < 2^31. A NaN is better than any number and equals
  // another NaN.
  void (*arg_rows)(const float* x, int64_t* y, int64_t rows, int64_t n, bool max, bool last);
  // The same down `width` columns, `stride` values from one of n rows to the next.
  void (*arg_columns)(const float* x, int64_t* y, int64_t n, int64_t stride, int64_t width,
                      bool max, bool last);
  // Means of bytes: y[k] (or y[0]) of the sum over places (and the row).
  void (*mean_bytes)(const ByteMean& mean, const uint8_t* x, const ReduceRow& row, uint8_t* y);
};
EVOQ_ISA_TABLE(NormTable)

}  // namespace evoq
