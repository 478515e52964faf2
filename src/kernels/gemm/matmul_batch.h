// ONNX's batches of matrix products: y[batch, m, n] = sum over k of a[batch_a, m, k] b[batch_b, k,
// n].
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

namespace evoq {

// Index of the matrix that batch element `index` of `batch` (sizes) reads in a tensor with batch
// sizes `own`, aligned at the end and broadcast where 1.
inline int64_t BatchIndex(int64_t index, const std::vector<int64_t>& batch,
                          const std::vector<int64_t>& own) {
  int64_t result = 0, stride = 1;
  for (size_t i = 0; i < batch.size(); ++i) {
    const int64_t size = batch[batch.size() - 1 - i], at = index % size;
    index /= size;
    if (i >= own.size()) continue;
    const int64_t own_size = own[own.size() - 1 - i];
    if (own_size != 1) result += at * stride;
    stride *= own_size;
  }
  return result;
}

// Sizes of the product of a's and b's batch sizes under ONNX's broadcasting, or nothing.
inline std::optional<std::vector<int64_t>> BroadcastBatch(const std::vector<int64_t>& a,
                                                          const std::vector<int64_t>& b) {
  std::vector<int64_t> batch(std::max(a.size(), b.size()), 1);
  for (const auto* own : {&a, &b}) {
    for (size_t i = 0; i < own->size(); ++i) {
      int64_t& size = batch[batch.size() - own->size() + i];
      const int64_t d = (*own)[i];
      if (size != 1 && d != 1 && d != size) return std::nullopt;
      if (d != 1) size = d;
    }
  }
  return batch;
}

}  // namespace evoq
