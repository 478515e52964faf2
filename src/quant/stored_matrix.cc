#include "quant/stored_matrix.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "base/math.h"
#include "base/thread_pool.h"
#include "quant/params.h"

namespace evoq {
namespace {

constexpr int64_t kRun = 512, kRuns = 64;  // elements of a file's rows, and rows, at once

// QuantizeStored, whose rows of the file are channels.
class ByRows {
 public:
  ByRows(const StoredMatrix& weight, int threads)
      : weight_(weight),
        loops_(StoredLoopsFor(SelectIsa().value_or(Isa::kScalar))),
        runs_(weight.stored.sizes()[0]),
        length_(weight.stored.sizes()[1]),
        pool_(threads) {}

  // The largest magnitude of each row; nothing where an element is not finite.
  std::optional<std::vector<float>> Largest() {
    std::vector<float> largest(static_cast<size_t>(runs_));
    std::atomic<bool> finite = true;
    pool_.ParallelFor(runs_, kRuns, [&](int64_t begin, int64_t end) {
      float w[kRun];
      for (int64_t r = begin; r < end; ++r) {
        for (int64_t i = 0; i < length_; i += kRun) {
          const int64_t count = std::min(kRun, length_ - i);
          if (!Read(r, i, count, w)) finite = false;
          largest[r] = std::max(largest[r], loops_.largest(w, count));
        }
      }
    });
    return finite ? std::optional(std::move(largest)) : std::nullopt;
  }

  // Row r by scales[r], or by the one that there is.
  void Round(std::span<const float> scales, int8_t* to) {
    pool_.ParallelFor(CeilDiv(runs_, kRuns), 1, [&](int64_t begin, int64_t end) {
      for (int64_t group = begin; group < end; ++group) RoundRuns(group * kRuns, scales, to);
    });
  }

 private:
  bool Read(int64_t r, int64_t i, int64_t count, float* w) const {
    const int64_t at = (r * length_ + i) * (DTypeBits(weight_.stored.dtype()) / 8);
    return loops_.For(weight_.stored.dtype())
        .rows(weight_.stored.raw() + at, length_, count, 1, w, kRun);
  }

  void RoundRuns(int64_t first, std::span<const float> scales, int8_t* to) const {
    const int64_t runs = std::min(kRuns, runs_ - first);
    float w[kRun];
    int8_t q[kRuns][kRun];
    for (int64_t i = 0; i < length_; i += kRun) {
      const int64_t count = std::min(kRun, length_ - i);
      for (int64_t r = 0; r < runs; ++r) {
        Read(first + r, i, count, w);
        loops_.round(w, scales[scales.size() == 1 ? 0 : first + r], count, q[r]);
        if (!weight_.transposed) std::copy_n(q[r], count, to + (first + r) * length_ + i);
      }
      for (int64_t j = 0; weight_.transposed && j < count; ++j) {
        for (int64_t r = 0; r < runs; ++r) to[(i + j) * runs_ + first + r] = q[r][j];
      }
    }
  }

  const StoredMatrix& weight_;
  const StoredLoops& loops_;
  const int64_t runs_, length_;
  ThreadPool pool_;
};

}  // namespace

bool StoredMatrix::Read(const StoredLoops& loops, int64_t k, int64_t rows, int64_t n, int64_t count,
                        float* tile, int64_t stride) const {
  const int64_t step = stored.sizes()[1], bytes = DTypeBits(stored.dtype()) / 8;
  const StoredLoops::Of& read = loops.For(stored.dtype());
  if (transposed)
    return read.columns(stored.raw() + (n * step + k) * bytes, step, rows, count, tile, stride);
  return read.rows(stored.raw() + (k * step + n) * bytes, step, count, rows, tile, stride);
}

void StoredMatrix::Ask(int64_t k, int64_t rows, int64_t n, int64_t count) const {
  constexpr int64_t kLine = 64;
  const int64_t step = stored.sizes()[1], bytes = DTypeBits(stored.dtype()) / 8;
  rows = std::min(rows, depth() - k);
  count = std::min(count, columns() - n);
  if (rows <= 0 || count <= 0) return;
  const int64_t runs = transposed ? count : rows, length = (transposed ? rows : count) * bytes;
  const std::byte* run = stored.raw() + (transposed ? n * step + k : k * step + n) * bytes;
  for (int64_t i = 0; i < runs; ++i, run += step * bytes) {
    for (int64_t at = 0; at < length; at += kLine) __builtin_prefetch(run + at);
  }
}

tl::unexpected<Error> NotFinite(const Shape& shape) {
  return InvalidInput("a constant of {} holds a NaN or an infinity",
                      TensorType(DType::kFloat32, shape).ToString());
}

Result<Tensor> QuantizeStored(const StoredMatrix& weight, int axis, int threads) {
  EVOQ_CHECK(axis < 0 || axis == (weight.transposed ? 1 : 0), "axis {}", axis);
  ByRows rows(weight, threads);
  std::optional<std::vector<float>> scales = rows.Largest();
  if (!scales) return NotFinite(weight.shape());
  if (axis < 0) *scales = {scales->empty() ? 0 : *std::ranges::max_element(*scales)};
  for (float& scale : *scales) {
    const double wanted = scale / 127.0;
    scale = wanted == 0 ? 1.0f : ShortScale(wanted);
  }
  QuantParams params;
  params.axis = axis;
  params.zero_points.assign(scales->size(), 0);
  params.scales = std::move(*scales);
  Tensor q = Tensor::Allocate(TensorType(DType::kInt8, weight.shape(), std::move(params)));
  rows.Round(q.type().quant->scales, q.mutable_data<int8_t>());
  return q;
}

}  // namespace evoq
