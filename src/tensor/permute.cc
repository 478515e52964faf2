#include "tensor/permute.h"

#include <algorithm>

#include "base/check.h"
#include "base/math.h"

namespace evoq {
namespace {

// Indices of a row-major tensor of these sizes in the order of its transpose.
std::vector<int64_t> TransposedOrder(const std::vector<int64_t>& sizes,
                                     std::span<const int64_t> perm, size_t count) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
  std::vector<int64_t> index(sizes.size(), 0), order(count);
  int64_t from = 0;
  for (int64_t& at : order) {
    at = from;
    for (size_t k = perm.size(); k-- > 0;) {
      from += strides[perm[k]];
      if (++index[k] < sizes[perm[k]]) break;
      from -= strides[perm[k]] * sizes[perm[k]];
      index[k] = 0;
    }
  }
  return order;
}

}  // namespace

TensorType PermutedAxes(const TensorType& type, std::span<const int64_t> perm) {
  EVOQ_CHECK(static_cast<int>(perm.size()) == type.shape.rank(), "{} axes of {}", perm.size(),
             type.ToString());
  TensorType to = type;
  std::vector<Dim> dims;
  for (int64_t axis : perm) dims.push_back(type.shape[static_cast<int>(axis)]);
  to.shape = Shape(std::move(dims));
  if (!type.quantized() || type.quant->per_tensor()) return to;
  QuantParams quant = *type.quant;
  quant.axis = static_cast<int>(std::find(perm.begin(), perm.end(), quant.axis) - perm.begin());
  std::vector<int64_t> blocks = type.shape.sizes();
  if (quant.block > 0) blocks[type.quant->axis] = CeilDiv(blocks[type.quant->axis], quant.block);
  // A type that is not valid has no order to follow.
  if (quant.block > 0 && type.shape.is_static() &&
      CheckedProduct(blocks) == static_cast<int64_t>(quant.scales.size()) &&
      quant.zero_points.size() == quant.scales.size()) {
    const auto order = TransposedOrder(blocks, perm, quant.scales.size());
    for (size_t i = 0; i < order.size(); ++i) {
      quant.scales[i] = type.quant->scales[order[i]];
      quant.zero_points[i] = type.quant->zero_points[order[i]];
    }
  }
  to.quant = std::make_shared<const QuantParams>(std::move(quant));
  return to;
}

}  // namespace evoq
