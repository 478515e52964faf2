#include "kernels/window.h"

#include "base/brief.h"

namespace evoq {
namespace {
constexpr int64_t kLimit = int64_t{1} << 31;  // keeps every product of two sizes inside int64
}

Result<std::vector<WindowDim>> WindowFromAttrs(const Attrs& attrs,
                                               const std::vector<int64_t>& kernel,
                                               const std::vector<int64_t>& in,
                                               const std::vector<int64_t>& out) {
  const size_t rank = in.size();
  if (kernel.size() != rank || out.size() != rank) {
    return InvalidInput("a window of {} dimensions over an input of {}", kernel.size(), rank);
  }
  const auto strides = attrs.Ints("strides", std::vector<int64_t>(rank, 1));
  const auto dilations = attrs.Ints("dilations", std::vector<int64_t>(rank, 1));
  const auto pads = attrs.Ints("pads", std::vector<int64_t>(2 * rank, 0));
  const std::string auto_pad = attrs.String("auto_pad", "NOTSET");
  if (strides.size() != rank || dilations.size() != rank || pads.size() != 2 * rank) {
    return InvalidInput("strides {}, dilations {}, pads {} for {} spatial dimensions",
                        BracketedBriefly<int64_t>(strides), BracketedBriefly<int64_t>(dilations),
                        BracketedBriefly<int64_t>(pads), rank);
  }
  std::vector<WindowDim> window(rank);
  for (size_t i = 0; i < rank; ++i) {
    WindowDim& d = window[i];
    d = {in[i], out[i], kernel[i], strides[i], dilations[i], pads[i], pads[rank + i]};
    for (int64_t v : {d.kernel, d.stride, d.dilation}) {
      if (v < 1 || v >= kLimit)
        return InvalidInput("kernel, stride or dilation {} in dimension {}", v, i);
    }
    if (d.in >= kLimit || d.out >= kLimit || std::abs(d.pad) >= kLimit ||
        std::abs(d.pad_end) >= kLimit) {
      return InvalidInput("sizes {} -> {} with padding {} in dimension {}", d.in, d.out, d.pad, i);
    }
    if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
      const int64_t total =
          std::max<int64_t>((d.out - 1) * d.stride + (d.kernel - 1) * d.dilation + 1 - d.in, 0);
      d.pad = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
      d.pad_end = total - d.pad;
    } else if (auto_pad == "VALID") {
      d.pad = d.pad_end = 0;
    }
  }
  return window;
}

}  // namespace evoq
