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

}  // namespace

extern const ResizeTable kResizeTable = {
    .blend = Blend,
    .blend_bytes = BlendBytes,
    .blend_pixels = BlendPixels,
};

}  // namespace evoq::EVOQ_ISA
