// int8 depthwise rows in plain C++: the definition, and what compilers vectorize well enough
// without VNNI.
#include <cstring>

#include "kernels/dwconv/dwconv.h"
#include "kernels/math/math.inl.h"

namespace evoq::EVOQ_ISA {
namespace {

// The epilogue of kN channels of one pixel, in passes over a local block that compilers vectorize:
// y may alias anything.
template <int kN>
inline void FinishBlock(const DwInt8Args& args, const int32_t* acc, int64_t c, int64_t at,
                        const void* residual, void* y) {
  const OutputBounds bounds = args.bounds;
  float v[kN];
  for (int j = 0; j < kN; ++j) v[j] = static_cast<float>(acc[j]) * args.multiplier[c + j];
  if (args.offset != nullptr) {
    for (int j = 0; j < kN; ++j) v[j] = v[j] + args.offset[c + j];
  }
  if (args.has_residual && args.float_output) {
    const float* r = static_cast<const float*>(residual) + at;
    for (int j = 0; j < kN; ++j) v[j] = v[j] + r[j];
  } else if (args.has_residual) {
    const uint8_t* r = static_cast<const uint8_t*>(residual) + at;
    for (int j = 0; j < kN; ++j)
      v[j] = v[j] + static_cast<float>(r[j] - args.residual_zero) * args.residual_multiplier;
  }
  if (args.slopes != nullptr) {
    for (int j = 0; j < kN; ++j) v[j] = v[j] < 0 ? v[j] * args.slopes[c + j] : v[j];
  }
  for (int j = 0; j < kN; ++j) {
    v[j] = bounds.low > v[j] ? bounds.low : v[j];
    v[j] = bounds.high < v[j] ? bounds.high : v[j];
  }
  if (args.float_output) {
    std::memcpy(static_cast<float*>(y) + at, v, sizeof(v));
    return;
  }
  uint8_t q[kN];
  for (int j = 0; j < kN; ++j) {
    q[j] = static_cast<uint8_t>(static_cast<int32_t>(ToBits(v[j] + kRoundMagic) - 0x4B400000u) +
                                bounds.zero);
  }
  std::memcpy(static_cast<uint8_t*>(y) + at, q, sizeof(q));
}

// n channels of the kN sums at `acc`. Fewer are finished as a block, beside memory that is not
// theirs.
template <int kN = kDwBlock>
inline void FinishPixel(const DwInt8Args& args, const int32_t* acc, int64_t c, int64_t n,
                        int64_t at, const void* residual, void* y) {
  if (n == kN) return FinishBlock<kN>(args, acc, c, at, residual, y);
  const size_t size = args.float_output ? sizeof(float) : 1;  // the residual's too
  alignas(32) uint8_t part[kN * sizeof(float)], other[kN * sizeof(float)] = {};
  if (args.has_residual)
    std::memcpy(other, static_cast<const uint8_t*>(residual) + at * size, n * size);
  FinishBlock<kN>(args, acc, c, 0, other, part);
  std::memcpy(static_cast<uint8_t*>(y) + at * size, part, n * size);
}

// Channels [first, C) of one output row.
void Int8RowAny(const DwInt8Args& args, const uint8_t* x_image, int64_t oy, int64_t out_row,
                int64_t first, const void* residual, void* y) {
  const DwShape& shape = args.shape;
  const int64_t channels = shape.channels, padded = shape.blocks() * kDwBlock;
  const int64_t top = oy * shape.h.stride - shape.h.pad;
  for (int64_t ox = 0; ox < shape.w.out; ++ox) {
    const int64_t left = ox * shape.w.stride - shape.w.pad;
    for (int64_t c = first; c < channels; c += kDwBlock) {
      const int64_t n = channels - c < kDwBlock ? channels - c : kDwBlock;
      int32_t acc[kDwBlock];
      for (int j = 0; j < kDwBlock; ++j) acc[j] = args.bias[c + j];
      for (int64_t ky = 0; ky < shape.h.kernel; ++ky) {
        const int64_t iy = top + ky * shape.h.dilation;
        for (int64_t kx = 0; kx < shape.w.kernel; ++kx) {
          const int64_t ix = left + kx * shape.w.dilation;
          const bool inside = iy >= 0 && iy < shape.h.in && ix >= 0 && ix < shape.w.in;
          const uint8_t* p =
              (inside ? x_image + (iy * shape.w.in + ix) * channels : args.padding) + c;
          const int16_t* w = args.taps + (ky * shape.w.kernel + kx) * padded + c;
          if (n == kDwBlock) {
            for (int j = 0; j < kDwBlock; ++j) acc[j] += static_cast<int16_t>(p[j]) * w[j];
          } else {
            for (int64_t j = 0; j < n; ++j) acc[j] += static_cast<int16_t>(p[j]) * w[j];
          }
        }
      }
      const int64_t at = (out_row * shape.w.out + ox) * channels + c;
      if (n == kDwBlock) {
        FinishPixel(args, acc, c, kDwBlock, at, residual, y);
      } else {
        FinishPixel(args, acc, c, n, at, residual, y);
      }
    }
  }
}

[[maybe_unused, gnu::noinline]] void Int8RowsPlain(const DwInt8Args& args, const uint8_t* x,
                                                   const void* residual, void* y, int64_t begin,
                                                   int64_t end) {
  const DwShape& shape = args.shape;
  for (int64_t row = begin; row < end; ++row) {
    const uint8_t* x_image = x + row / shape.h.out * shape.h.in * shape.w.in * shape.channels;
    Int8RowAny(args, x_image, row % shape.h.out, row, 0, residual, y);
  }
}

}  // namespace
}  // namespace evoq::EVOQ_ISA
