#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "kernels/resize/resize.h"
#include "kernels/vec.h"

namespace evoq::EVOQ_ISA {
namespace {

void Blend(const float* a, const float* b, float w0, float w1, float* y, int64_t n) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    StoreVec<float, 16>(y + i, w0 * LoadVec<float, 16>(a + i) + w1 * LoadVec<float, 16>(b + i));
  for (; i < n; ++i) y[i] = w0 * a[i] + w1 * b[i];
}

void BlendBytes(const uint8_t* a, const uint8_t* b, float w0, float w1, float scale, int32_t zero,
                float* y, int64_t n) {
  const auto real = [=](const uint8_t* q) {
    return Convert<float, 16>(Convert<int32_t, 16>(LoadVec<uint8_t, 16>(q)) - zero) * scale;
  };
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) StoreVec<float, 16>(y + i, w0 * real(a + i) + w1 * real(b + i));
  for (; i < n; ++i) {
    y[i] = w0 * (static_cast<float>(a[i] - zero) * scale) +
           w1 * (static_cast<float>(b[i] - zero) * scale);
  }
}

void BlendPixels(const float* x, const int64_t* index, const float* weight, float* y, int64_t n,
                 int64_t c) {
  if (c == 1) {
    for (int64_t o = 0; o < n; ++o)
      y[o] = weight[2 * o] * x[index[2 * o]] + weight[2 * o + 1] * x[index[2 * o + 1]];
    return;
  }
  for (int64_t o = 0; o < n; ++o, y += c)
    Blend(x + index[2 * o] * c, x + index[2 * o + 1] * c, weight[2 * o], weight[2 * o + 1], y, c);
}

#if defined(__AVX2__)
// Of 256 bits with AVX-512 too: rows of odd lengths would have every wider store straddle two
// lines.
void BlendLine(const float* x, const LineBlock* blocks, int64_t count, float* y) {
  for (const LineBlock* b = blocks; b < blocks + count; ++b) {
    const __m256 all = _mm256_loadu_ps(x + b->from);
    const auto tap = [&](const uint8_t* places,
                         const float* weights) __attribute__((always_inline)) {
      const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(places));
      return _mm256_mul_ps(_mm256_loadu_ps(weights),
                           _mm256_permutevar8x32_ps(all, _mm256_cvtepu8_epi32(bytes)));
    };
    _mm256_storeu_ps(y + b->to,
                     _mm256_add_ps(tap(b->left, b->left_weight), tap(b->right, b->right_weight)));
  }
}
#else
constexpr auto BlendLine = nullptr;
#endif

}  // namespace

extern const ResizeTable kResizeTable = {
    .blend = Blend,
    .blend_bytes = BlendBytes,
    .blend_pixels = BlendPixels,
    .blend_line = BlendLine,
};

}  // namespace evoq::EVOQ_ISA
