#include "quant/weight_grid.h"

#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "kernels/gemm/blocks/scale_steps.h"
#include "ops/roles.h"
#include "quant/layer_bits.h"
#include "quant/low_bits.h"
#include "quant/low_bits/rounding.h"
#include "quant/params.h"

namespace evoq {

std::optional<LayerMatrices> MatricesOf(const Node& node, const Tensor& weight) {
  const LinearForm* form = LinearFormOf(node);
  const std::vector<int64_t> sizes = weight.sizes();
  if (form == nullptr || sizes.size() < 2 || weight.elements() == 0) return std::nullopt;
  if (form->two_operands) {
    if (sizes.size() != 2) return std::nullopt;
    return LayerMatrices{1, sizes[0], sizes[1], false};
  }
  if (!form->grouped || form->outputs_by_group) return std::nullopt;
  const WeightIndex index(node, sizes);
  return LayerMatrices{index.groups(), index.inputs() * index.taps(),
                       index.outputs() / index.groups(), true};
}

WeightGrid::WeightGrid(const WeightRounding& rounding, const LayerMatrices& matrices)
    : r_(rounding),
      m_(matrices),
      block_(rounding.low_bits != nullptr && rounding.block > 0 ? rounding.block : matrices.depth),
      blocks_(CeilDiv(matrices.depth, block_)),
      shared_(rounding.low_bits == nullptr ? 1 : rounding.low_bits->SharedBlocks(rounding.block)),
      one_scale_(rounding.low_bits == nullptr && rounding.axis < 0),
      loops_(rounding.low_bits == nullptr
                 ? nullptr
                 : &rounding.low_bits->loops(SelectIsa().value_or(Isa::kScalar))),
      low_(rounding.bits == 8 ? -127.0f : -std::ldexp(1.0f, rounding.bits - 1)),
      high_(rounding.bits == 8 ? 127.0f : -low_ - 1) {
  if (!one_scale_) return;
  if (few_bits()) {
    const float least =
        r_.least_scale.empty() ? 0 : LeastOfFewBits(std::ranges::max(r_.least_scale));
    scale_of_all_ = LeastErrorScale(r_.values.values<float>(), r_.bits, least);
  } else {
    scale_of_all_ = QuantizeWeight(r_.values, -1, r_.least_scale).type().quant->scales[0];
  }
}

std::vector<float> WeightGrid::Zeros() const {
  if (loops_ == nullptr) return {0};
  return {loops_->zeros, loops_->zeros + loops_->zero_count};
}

std::vector<float> WeightGrid::Matrix(int64_t g) const {
  const auto w = r_.values.values<float>();
  std::vector<float> matrix(static_cast<size_t>(m_.depth * m_.columns));
  for (int64_t k = 0; k < m_.depth; ++k) {
    for (int64_t n = 0; n < m_.columns; ++n) matrix[k * m_.columns + n] = w[m_.Element(g, k, n)];
  }
  return matrix;
}

float WeightGrid::Least(int64_t g, int64_t n) const {
  if (r_.least_scale.empty()) return 0;
  const float least = r_.least_scale[(g * m_.columns + n) % r_.least_scale.size()];
  return few_bits() ? LeastOfFewBits(least) : least;
}

void WeightGrid::Choose(int64_t g, int64_t b, const float* w, const float* importance, float* scale,
                        float* zero) const {
  if (loops_ != nullptr)
    return loops_->choose(w, m_.columns, std::min(block_, m_.depth - b * block_), m_.columns,
                          importance, scale, zero);
  const auto depth = static_cast<size_t>(m_.depth);
  std::vector<float> column(depth);
  for (int64_t n = 0; n < m_.columns; ++n) {
    float most = 0;
    for (size_t k = 0; k < depth; ++k) {
      column[k] = w[static_cast<int64_t>(k) * m_.columns + n];
      most = std::max(most, std::fabs(column[k]));
    }
    zero[n] = 0;
    if (one_scale_) {
      scale[n] = scale_of_all_;
    } else if (few_bits()) {
      const std::span<const float> sizes(importance, importance == nullptr ? 0 : depth);
      scale[n] = LeastErrorScale(column, r_.bits, Least(g, n), sizes);
    } else {
      scale[n] = Storable(g, n, most / 127);
    }
  }
}

void WeightGrid::Nearest(const float* v, const float* scale, const float* zero, int64_t count,
                         float* number) const {
  if (loops_ != nullptr) return loops_->nearest(v, scale, zero, count, number);
  for (int64_t n = 0; n < count; ++n)
    number[n] = RoundEven(std::clamp(v[n] / scale[n], low_, high_));
}

void WeightGrid::Share(const float* w, std::vector<float>& scales) const {
  for (int64_t b = 0; shared_ > 1 && b < blocks_; b += shared_) {
    const int64_t k = b * block_, depth = std::min(shared_ * block_, m_.depth - k);
    LowBits::Share({w + k * m_.columns, m_.columns, block_, depth},
                   {&scales[b * m_.columns], m_.columns}, m_.columns, *loops_);
  }
}

float WeightGrid::Storable(int64_t g, int64_t b, int64_t n, std::span<const float> scales,
                           float wanted) const {
  if (shared_ == 1) return Storable(g, n, wanted);
  std::vector<float> together;
  const int64_t first = b / shared_ * shared_;
  for (int64_t i = first; i < std::min(first + shared_, blocks_); ++i)
    together.push_back(scales[i * m_.columns + n]);
  const auto steps = StepsOf(together);
  if (!steps) return Storable(g, n, wanted);
  return std::clamp(std::nearbyint(wanted / steps->step), 1.0f, float{kMostMultiple}) * steps->step;
}

float WeightGrid::Storable(int64_t g, int64_t n, float wanted) const {
  if (one_scale_) return scale_of_all_;
  if (loops_ != nullptr) return wanted > 0 ? loops_->scale(wanted) : 1;
  const float scale = std::max(wanted, Least(g, n));
  return scale > 0 ? ShortScale(scale) : 1;
}

int64_t WeightGrid::ScaleIndex(int64_t g, int64_t b, int64_t n) const {
  return one_scale_ ? 0 : b * m_.groups * m_.columns + g * m_.columns + n;
}

RoundedMatrix WeightGrid::Read(int64_t g, const Tensor& quantized) const {
  const QuantParams& params = *quantized.type().quant;
  const int64_t scales = blocks_ * m_.columns;
  const float finer = few_bits() ? FinerBy(quantized) : 1;
  RoundedMatrix out{.numbers = std::vector<float>(static_cast<size_t>(m_.depth * m_.columns)),
                    .scales = std::vector<float>(static_cast<size_t>(scales)),
                    .zeros = std::vector<float>(static_cast<size_t>(scales))};
  for (int64_t b = 0; b < blocks_; ++b) {
    for (int64_t n = 0; n < m_.columns; ++n) {
      const auto at = static_cast<size_t>(ScaleIndex(g, b, n));
      out.scales[b * m_.columns + n] = params.scales[at] * finer;
      out.zeros[b * m_.columns + n] = static_cast<float>(params.zero_points[at]);
    }
  }
  const Tensor real = ToFloat32(quantized).value();
  const auto stored = real.values<float>();
  std::vector<float> values(static_cast<size_t>(m_.columns));
  for (int64_t k = 0; k < m_.depth; ++k) {
    for (int64_t n = 0; n < m_.columns; ++n) values[n] = stored[m_.Element(g, k, n)];
    Nearest(values.data(), &out.scales[k / block_ * m_.columns],
            &out.zeros[k / block_ * m_.columns], m_.columns, &out.numbers[k * m_.columns]);
  }
  return out;
}

// The least power of two by which int8 numbers are multiples of numbers of so few bits.
float WeightGrid::FinerBy(const Tensor& quantized) const {
  int32_t low = 0, high = 0;
  for (const int8_t q : quantized.values<int8_t>())
    low = std::min<int32_t>(low, q), high = std::max<int32_t>(high, q);
  float factor = 1;
  while (static_cast<float>(low) / factor < low_ || static_cast<float>(high) / factor > high_)
    factor *= 2;
  return factor;
}

Tensor WeightGrid::Store(std::span<const RoundedMatrix> groups) const {
  const LowBits* low = r_.low_bits;
  QuantParams params;
  params.axis = low == nullptr ? r_.axis : r_.block == 0 ? 1 : 0;
  params.block = low == nullptr ? 0 : r_.block;
  params.scales.assign(static_cast<size_t>(one_scale_ ? 1 : blocks_ * m_.groups * m_.columns),
                       scale_of_all_);
  params.zero_points.assign(params.scales.size(), 0);
  const DType type = low != nullptr ? low->dtype
                     : few_bits()   ? WeightTypeOf(r_.bits)
                                    : DType::kInt8;
  Tensor q = Tensor::Allocate(TensorType(type, r_.values.shape()));
  std::byte* to = q.mutable_raw();
  const int bits = DTypeBits(q.dtype());
  for (int64_t g = 0; g < m_.groups; ++g) {
    const RoundedMatrix& from = groups[g];
    for (int64_t i = 0; i < blocks_ * m_.columns; ++i) {
      const auto at = static_cast<size_t>(ScaleIndex(g, i / m_.columns, i % m_.columns));
      params.scales[at] = from.scales[i];
      params.zero_points[at] = static_cast<int32_t>(from.zeros[i]);
    }
    for (int64_t k = 0; k < m_.depth; ++k) {
      for (int64_t n = 0; n < m_.columns; ++n) {
        const float number = from.numbers[k * m_.columns + n];
        const int64_t at = m_.Element(g, k, n);
        if (few_bits()) {
          SetPackedBits(to, at, bits, static_cast<uint8_t>(static_cast<int8_t>(number)));
        } else if (low == nullptr) {
          to[at] = static_cast<std::byte>(static_cast<int8_t>(number));
        } else {
          SetPackedBits(to, at, bits,
                        loops_->bits(number, from.zeros[k / block_ * m_.columns + n]));
        }
      }
    }
  }
  q = q.WithType(TensorType(q.dtype(), q.shape(), std::move(params)));
  return few_bits() ? AsMultiples(q, r_) : q;
}

}  // namespace evoq
