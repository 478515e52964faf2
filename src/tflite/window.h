// Windows of convolutions and pools: from the schema's options to ONNX's attributes.
#pragma once

#include "base/result.h"
#include "tensor/attrs.h"

namespace evoq::tflite {

// The schema's numbers of paddings. SAME puts the larger half at the end.
inline constexpr int kPaddingSame = 0, kPaddingValid = 1;

inline Status AddWindow(int padding, int stride_h, int stride_w, Attrs& attrs) {
  if (padding != kPaddingSame && padding != kPaddingValid)
    return InvalidInput("padding number {}, expected 0 or 1", padding);
  if (stride_h < 1 || stride_w < 1)
    return InvalidInput("strides {} and {}, expected at least 1", stride_h, stride_w);
  attrs.Set("strides", std::vector<int64_t>{stride_h, stride_w});
  if (padding == kPaddingSame) attrs.Set("auto_pad", "SAME_UPPER");
  return {};
}

inline Status AddDilations(int h, int w, Attrs& attrs) {
  if (h < 1 || w < 1) return InvalidInput("dilations {} and {}, expected at least 1", h, w);
  if (h > 1 || w > 1) attrs.Set("dilations", std::vector<int64_t>{h, w});
  return {};
}

}  // namespace evoq::tflite
