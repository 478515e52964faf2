// LowBits::quantize of the numbers N, for the file that defines them:
//   static constexpr DType kType;
//   static constexpr int kTries;  // candidates of a block
//   static float Scale(int i, float low, float high);  // of candidate i; low <= 0 <= high, one not
//   static float Zero(int i);                          // its zero point
//   static float Nearest(float v, float zero);         // the number nearest to v = w / scale
//   static uint8_t Bits(float number, float zero);     // how it is stored
//   static float Storable(float scale);                // the nearest scale that can be stored
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/math.h"
#include "base/thread_pool.h"
#include "quant/low_bits.h"

namespace evoq {

// The nearest float16 number, of two the even one, where one is of its size; no smaller than the
// least. Without branches and calls, so that loops over it are vectorized.
inline float HalfScale(float scale) {
  constexpr float kLeast = 0x1p-24f, kLeastNormal = 0x1p-14f, kMost = 65504.0f;
  constexpr uint32_t kDropped = 13;  // bits that float32's mantissa has more
  const auto bits = std::bit_cast<uint32_t>(scale);
  const uint32_t half = (1u << (kDropped - 1)) - 1 + (bits >> kDropped & 1);
  const auto normal = std::bit_cast<float>((bits + half) >> kDropped << kDropped);
  const float subnormal = scale + 0x1.8p-1f - 0x1.8p-1f;  // a multiple of 2^-24
  const float rounded = scale < kLeastNormal ? std::max(subnormal, kLeast) : normal;
  return scale > kMost ? scale : rounded;
}

// v in [-2^22, 2^22] to the nearest whole number, of two the even one: what is added has no bits
// below 1.
inline float RoundEven(float v) { return v + 0x1.8p23f - 0x1.8p23f; }

// Elements of kBits from element `first` on, into memory that is zero there.
template <int kBits>
void StoreBits(const uint8_t* q, int count, int64_t first, std::byte* to) {
  constexpr int kPerByte = 8 / kBits;
  int i = 0;
  for (; i < count && (first + i) % kPerByte != 0; ++i) SetPackedBits(to, first + i, kBits, q[i]);
  for (; i + kPerByte <= count; i += kPerByte) {
    int byte = 0;
    for (int j = 0; j < kPerByte; ++j) byte |= q[i + j] << (j * kBits);
    to[(first + i) / kPerByte] = static_cast<std::byte>(byte);
  }
  for (; i < count; ++i) SetPackedBits(to, first + i, kBits, q[i]);
}

// Some columns of one block: what each step needs of them stays in the L1 cache.
template <typename N>
struct ColumnsOfBlock {
  static constexpr int kMost = 64;

  const float* w;  // of the first element
  int64_t stride, depth;
  int count;
  float scale[kMost], zero[kMost];

  // By `importance` of the rows; null: by cubes of errors.
  void Choose(const float* importance = nullptr) {
    float low[kMost] = {}, high[kMost] = {}, least[kMost];
    for (int64_t k = 0; k < depth; ++k) {
      for (int n = 0; n < count; ++n) {
        low[n] = std::min(low[n], w[k * stride + n]);
        high[n] = std::max(high[n], w[k * stride + n]);
      }
    }
    for (int i = 0; i < N::kTries; ++i) {
      float tried[kMost], inverse[kMost], error[kMost] = {};
      const float z = N::Zero(i);
      for (int n = 0; n < count; ++n) {
        tried[n] = low[n] == 0 && high[n] == 0 ? 1 : N::Scale(i, low[n], high[n]);
        inverse[n] = 1 / tried[n];
      }
      for (int64_t k = 0; k < depth; ++k) {
        const float* row = w + k * stride;
        for (int n = 0; n < count; ++n) {
          const float off = row[n] - N::Nearest(row[n] * inverse[n], z) * tried[n];
          error[n] +=
              importance != nullptr ? importance[k] * off * off : std::fabs(off) * off * off;
        }
      }
      for (int n = 0; n < count; ++n) {
        const bool better = i == 0 || error[n] < least[n];
        least[n] = better ? error[n] : least[n];
        scale[n] = better ? tried[n] : scale[n];
        zero[n] = better ? z : zero[n];
      }
    }
  }

  // Element (k, n) is element first + k * stride + n of `to`.
  void Store(int64_t first, std::byte* to) const {
    uint8_t q[kMost];
    for (int64_t k = 0; k < depth; ++k) {
      for (int n = 0; n < count; ++n)
        q[n] = N::Bits(N::Nearest(w[k * stride + n] / scale[n], zero[n]), zero[n]);
      StoreBits<N::kBits>(q, count, first + k * stride, to);
    }
  }
};

template <typename N>
Tensor QuantizeLowBits(const Tensor& weight, int64_t block, int threads) {
  const int64_t depth = weight.sizes()[0], columns = weight.sizes()[1];
  const int64_t step = block == 0 ? std::max<int64_t>(depth, 1) : block,
                blocks = CeilDiv(depth, step);
  QuantParams params;
  params.axis = block == 0 ? 1 : 0;
  params.block = block;
  params.scales.assign(static_cast<size_t>(std::max<int64_t>(blocks, 1) * columns), 1);
  params.zero_points.assign(params.scales.size(), 0);
  Tensor q = Tensor::Allocate(TensorType(N::kType, weight.shape()));
  const auto* w = weight.data<float>();
  std::byte* to = q.mutable_raw();
  // Threads take whole blocks, whose elements must not share bytes.
  ThreadPool pool(step * columns * N::kBits % 8 == 0 ? threads : 1);
  pool.ParallelFor(blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      for (int64_t n = 0; n < columns; n += ColumnsOfBlock<N>::kMost) {
        const int64_t first = b * step * columns + n;
        ColumnsOfBlock<N> some{w + first, columns, std::min(step, depth - b * step),
                               static_cast<int>(std::min<int64_t>(columns - n, some.kMost))};
        some.Choose();
        for (int i = 0; i < some.count; ++i) {
          params.scales[b * columns + n + i] = some.scale[i];
          params.zero_points[b * columns + n + i] = static_cast<int32_t>(some.zero[i]);
        }
        some.Store(first, to);
      }
    }
  });
  return q.WithType(TensorType(N::kType, weight.shape(), std::move(params)));
}

// LowBits::choose, nearest, bits and scale.
template <typename N>
void ChooseLowBits(const float* w, int64_t stride, int64_t depth, int64_t count,
                   const float* importance, float* scale, float* zero) {
  using Columns = ColumnsOfBlock<N>;
  for (int64_t n = 0; n < count; n += Columns::kMost) {
    Columns some{w + n, stride, depth,
                 static_cast<int>(std::min<int64_t>(count - n, Columns::kMost))};
    some.Choose(importance);
    std::copy_n(some.scale, some.count, scale + n);
    std::copy_n(some.zero, some.count, zero + n);
  }
}

template <typename N>
void NearestLowBits(const float* v, const float* scale, const float* zero, int64_t count,
                    float* number) {
  for (int64_t n = 0; n < count; ++n) number[n] = N::Nearest(v[n] / scale[n], zero[n]);
}

template <typename N>
constexpr LowBits LowBitsOf(const char* name, bool integers) {
  return {.name = name,
          .dtype = N::kType,
          .integers = integers,
          .quantize = QuantizeLowBits<N>,
          .choose = ChooseLowBits<N>,
          .nearest = NearestLowBits<N>,
          .bits = N::Bits,
          .scale = N::Storable};
}

}  // namespace evoq
