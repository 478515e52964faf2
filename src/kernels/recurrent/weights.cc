#include "kernels/recurrent/weights.h"

#include <algorithm>

#include "base/math.h"
#include "tensor/permute.h"

namespace evoq {
namespace {

// The parameters of rows [first, first + count) of direction `d`, as of a matrix [count, K].
std::optional<QuantParams> ParamsOf(const TensorType& w, int64_t d, int64_t first, int64_t count) {
  const QuantParams& quant = *w.quant;
  const int64_t directions = w.shape[0].value, rows = w.shape[1].value, depth = w.shape[2].value;
  const int64_t blocks = quant.block > 0 ? CeilDiv(depth, quant.block) : 1;
  const bool blocked = quant.axis == 2 && quant.block > 0,
             by_row = quant.axis == 1 && quant.block == 0,
             by_direction = quant.axis == 0 && quant.block == 0;
  if (!quant.per_tensor() && !blocked && !by_row && !by_direction) return std::nullopt;
  const int64_t wanted = quant.per_tensor() ? 1
                         : by_row           ? rows
                         : by_direction     ? directions
                                            : directions * rows * blocks;
  if (static_cast<int64_t>(quant.scales.size()) != wanted ||
      quant.zero_points.size() != quant.scales.size())
    return std::nullopt;
  const int64_t begin = by_direction ? d
                        : by_row     ? first
                        : blocked    ? (d * rows + first) * blocks
                                     : 0,
                size = by_row    ? count
                       : blocked ? count * blocks
                                 : 1;
  QuantParams params;
  params.scales.assign(quant.scales.begin() + begin, quant.scales.begin() + begin + size);
  params.zero_points.assign(quant.zero_points.begin() + begin,
                            quant.zero_points.begin() + begin + size);
  params.axis = by_row ? 0 : blocked ? 1 : -1;
  params.block = quant.block;
  return params;
}

constexpr int64_t kSwap[] = {1, 0};

// The type of the transposed rows [first, first + count) of direction `d`.
std::optional<TensorType> TypeOf(const TensorType& w, int64_t d, int64_t first, int64_t count) {
  if (!w.quantized() || w.shape.rank() != 3 || !w.shape.is_static()) return std::nullopt;
  auto params = ParamsOf(w, d, first, count);
  if (!params) return std::nullopt;
  return PermutedAxes(TensorType(w.dtype, Shape{count, w.shape[2].value}, std::move(*params)),
                      kSwap);
}

}  // namespace

std::optional<TensorType> DirectionType(const TensorType& weights, int64_t d) {
  return weights.shape.rank() == 3 ? TypeOf(weights, d, 0, weights.shape[1].value) : std::nullopt;
}

Result<Tensor> DirectionMatrix(const Tensor& weights, int64_t d, int64_t first, int64_t count) {
  const auto type = TypeOf(weights.type(), d, first, count);
  if (!type || !weights.layout().empty())
    return InvalidInput("weights are {}, expected scales by rows or by blocks along the last axis",
                        weights.type().ToString());
  const int bits = DTypeBits(weights.dtype());
  const int64_t depth = weights.sizes()[2], start = (d * weights.sizes()[1] + first) * depth;
  Tensor matrix = Tensor::Allocate(*type);
  if (bits == 8) {
    constexpr int64_t kTile = 64;  // of both axes: what is written stays in the L1 cache
    const std::byte* from = weights.raw() + start;
    std::byte* to = matrix.mutable_raw();
    for (int64_t n = 0; n < count; n += kTile) {
      for (int64_t k = 0; k < depth; k += kTile) {
        for (int64_t j = n; j < std::min(n + kTile, count); ++j) {
          for (int64_t i = k; i < std::min(k + kTile, depth); ++i)
            to[i * count + j] = from[j * depth + i];
        }
      }
    }
    return matrix;
  }
  if (bits > 8) return Unsupported("weights {}", weights.type().ToString());
  for (int64_t j = 0; j < count; ++j) {
    for (int64_t i = 0; i < depth; ++i)
      SetPackedBits(matrix.mutable_raw(), i * count + j, bits,
                    PackedBits(weights.raw(), start + j * depth + i, bits));
  }
  return matrix;
}

}  // namespace evoq
