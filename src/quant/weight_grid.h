// A layer's weight as matrices, and the numbers and scales that it may become: what methods of
// rounding work on, whatever the scheme.
#pragma once

#include <optional>
#include <vector>

#include "quant/quant.h"

namespace evoq {

struct LowBitsLoops;  // quant/low_bits/loops.h

// y[n] = sum over k < depth of x[k] w[k, n] in each group: x are the group's input channels and, of
// a convolution, their taps, in the order of the weight's elements.
struct LayerMatrices {
  int64_t groups, depth, columns;
  bool by_column;  // element (g, k, n) is (g columns + n) depth + k of the weight; else k columns +
                   // n

  int64_t Element(int64_t g, int64_t k, int64_t n) const {
    return by_column ? (g * columns + n) * depth + k : k * columns + n;
  }
};
// Of a convolution, or a product by a matrix; nothing for other readers of weights.
std::optional<LayerMatrices> MatricesOf(const Node& node, const Tensor& weight);

// Numbers, scales and zero points chosen for a weight: stored value (k, n) is
// number[k, n] scale[k / block, n], each matrix row-major.
struct RoundedMatrix {
  std::vector<float> numbers;
  std::vector<float> scales, zeros;  // [blocks, columns]
};

class WeightGrid {
 public:
  WeightGrid(const WeightRounding& rounding, const LayerMatrices& matrices);

  const LayerMatrices& matrices() const { return m_; }
  int64_t block() const { return block_; }  // rows that share scales
  int64_t blocks() const { return blocks_; }
  bool one_scale() const { return one_scale_; }  // for all columns and groups

  // The zero points that numbers may have: 0 alone, or those of a type with several.
  std::vector<float> Zeros() const;

  // The float32 matrix of group g, [depth, columns].
  std::vector<float> Matrix(int64_t g) const;
  // Scales of columns [depth, columns] of block `b` of group g, by rounding to nearest: as
  // LowBits::choose; of int8 by the largest magnitude, of its fewer bits by LeastErrorScale, at
  // least the rounding's least scale.
  void Choose(int64_t g, int64_t b, const float* w, const float* importance, float* scale,
              float* zero) const;
  // The numbers nearest to `count` values.
  void Nearest(const float* v, const float* scale, const float* zero, int64_t count,
               float* number) const;
  // Of all blocks' scales, those that share steps (LowBits::Share); nothing where none do.
  void Share(const float* w, std::vector<float>& scales) const;
  // The scale nearest to `wanted` that can be stored and that block b of column n of group g may
  // have beside the others of `scales`.
  float Storable(int64_t g, int64_t b, int64_t n, std::span<const float> scales,
                 float wanted) const;
  // The scales of a form that was chosen before, for group g. `numbers` are its numbers.
  RoundedMatrix Read(int64_t g, const Tensor& quantized) const;
  // One matrix of each group, as the scheme takes it.
  Tensor Store(std::span<const RoundedMatrix> groups) const;

 private:
  bool few_bits() const { return loops_ == nullptr && r_.bits < 8; }
  float FinerBy(const Tensor& quantized) const;
  int64_t ScaleIndex(int64_t g, int64_t b, int64_t n) const;
  float Least(int64_t g, int64_t n) const;
  float Storable(int64_t g, int64_t n, float wanted) const;

  const WeightRounding& r_;
  LayerMatrices m_;
  int64_t block_, blocks_;
  int64_t shared_;  // blocks that share a step, or 1
  bool one_scale_;
  const LowBitsLoops* loops_;  // null: int8, or fewer bits of it
  float low_, high_;           // the numbers of these
  float scale_of_all_ = 1;     // with one scale: by the largest magnitude of the whole weight
};

}  // namespace evoq
