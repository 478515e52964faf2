#include "ops/window.h"

#include <algorithm>

#include "base/brief.h"
#include "base/math.h"
#include "base/text.h"
#include "ops/util.h"

namespace evoq {
namespace {

// Values and sizes beyond this are refused, so that sums and products of two cannot overflow.
constexpr int64_t kMaxValue = int64_t{1} << 31;
// Symbols longer than this are not made longer.
constexpr size_t kLongestName = 64;

// An attribute of `count` integers in [low, kMaxValue]; `fallback` for each when it is missing.
Result<std::vector<int64_t>> Integers(const Node& node, const char* name, size_t count, int64_t low,
                                      int64_t fallback) {
  EVOQ_ASSIGN(std::vector<int64_t> values, IntsAttr(node, name));
  if (values.empty()) values.assign(count, fallback);
  if (values.size() != count)
    return InvalidInput("attribute {} is {}, expected {} values", name,
                        BracketedBriefly<int64_t>(values), count);
  for (int64_t v : values) {
    if (v < low || v > kMaxValue)
      return InvalidInput("attribute {} has the value {}, expected {} to {}", name, v, low,
                          kMaxValue);
  }
  return values;
}

enum class AutoPad { kNone, kValid, kSameUpper, kSameLower };

Result<AutoPad> AutoPadOf(const Node& node) {
  const std::string name = node.attrs.String("auto_pad", "NOTSET");
  if (name == "NOTSET" || name.empty()) return AutoPad::kNone;
  if (name == "VALID") return AutoPad::kValid;
  if (name == "SAME_UPPER") return AutoPad::kSameUpper;
  if (name == "SAME_LOWER") return AutoPad::kSameLower;
  return InvalidInput(
      "attribute auto_pad is '{}', expected NOTSET, VALID, SAME_UPPER or SAME_LOWER", name);
}

// Kernel, strides, dilations and explicit pads; output not yet known.
Result<Window> ReadWindow(const Node& node, std::span<const Dim> kernel, std::span<const Dim> input,
                          AutoPad auto_pad) {
  const size_t rank = kernel.size();
  Window w;
  for (size_t d = 0; d < rank; ++d) {
    if (kernel[d].known() && (kernel[d].value < 1 || kernel[d].value > kMaxValue))
      return InvalidInput("kernel size {} on spatial axis {}, expected 1 to {}", kernel[d].value, d,
                          kMaxValue);
    if (input[d].value > kMaxValue)
      return InvalidInput("size {} on spatial axis {}, expected at most {}", input[d].value, d,
                          kMaxValue);
    w.kernel.push_back(kernel[d].value);
  }
  EVOQ_ASSIGN(w.strides, Integers(node, "strides", rank, 1, 1));
  EVOQ_ASSIGN(w.dilations, Integers(node, "dilations", rank, 1, 1));
  EVOQ_ASSIGN(std::vector<int64_t> pads, Integers(node, "pads", 2 * rank, 0, 0));
  if (auto_pad != AutoPad::kNone) std::fill(pads.begin(), pads.end(), 0);
  w.pad_begin.assign(pads.begin(), pads.begin() + rank);
  w.pad_end.assign(pads.begin() + rank, pads.end());
  w.output.resize(rank);
  return w;
}

int64_t Extent(const Window& w, size_t d) { return (w.kernel[d] - 1) * w.dilations[d] + 1; }

// The name of floor((in + offset) / stride) + 1, so that sizes that are computed alike are known to
// be equal: the input's own name when that is its size, else "height:-1/2"; no name without one or
// when it grows long.
Dim SymbolicOutput(const Dim& in, int64_t offset, int64_t stride, bool ceil_mode) {
  if (in.symbol.empty() || in.symbol.size() > kLongestName) return Dim();
  if (stride == 1 && offset == -1 && !ceil_mode) return in;
  return Dim::Symbolic(fmt::format("{}:{}/{}{}", in.symbol, offset, stride, ceil_mode ? "c" : ""));
}

// The same of in * stride + offset: "height*2", "height*2+1".
Dim SymbolicTransposedOutput(const Dim& in, int64_t offset, int64_t stride) {
  if (in.symbol.empty() || in.symbol.size() > kLongestName) return Dim();
  if (stride == 1 && offset == 0) return in;
  return Dim::Symbolic(offset == 0 ? fmt::format("{}*{}", in.symbol, stride)
                                   : fmt::format("{}*{}{:+}", in.symbol, stride, offset));
}

}  // namespace

std::span<const Dim> SpatialDims(const Shape& shape) { return std::span(shape.dims()).subspan(2); }

Result<Window> ResolveWindow(const Node& node, std::span<const Dim> kernel,
                             std::span<const Dim> input, bool ceil_mode) {
  if (kernel.size() != input.size())
    return InvalidInput("{} kernel sizes for {} spatial axes", kernel.size(), input.size());
  EVOQ_ASSIGN(const AutoPad auto_pad, AutoPadOf(node));
  EVOQ_ASSIGN(Window w, ReadWindow(node, kernel, input, auto_pad));
  for (size_t d = 0; d < kernel.size(); ++d) {
    if (!kernel[d].known()) continue;
    const int64_t in = input[d].value, stride = w.strides[d];
    const bool same = auto_pad == AutoPad::kSameUpper || auto_pad == AutoPad::kSameLower;
    if (!input[d].known()) {
      const int64_t offset = same ? -1 : w.pad_begin[d] + w.pad_end[d] - Extent(w, d);
      w.output[d] = SymbolicOutput(input[d], offset, stride, ceil_mode && !same);
      continue;
    }
    if (same) {
      const int64_t out = CeilDiv(in, stride);
      const int64_t pad = std::max<int64_t>((out - 1) * stride + Extent(w, d) - in, 0);
      w.pad_begin[d] = auto_pad == AutoPad::kSameUpper ? pad / 2 : pad - pad / 2;
      w.pad_end[d] = pad - w.pad_begin[d];
      w.output[d] = out;
      continue;
    }
    const int64_t room = in + w.pad_begin[d] + w.pad_end[d] - Extent(w, d);
    // A last window that begins inside counts with ceil_mode, though it be the first and ends
    // outside.
    if (room < 0 && !(ceil_mode && room + stride > 0))
      return InvalidInput("a window of {} is larger than the padded input, {} on spatial axis {}",
                          Extent(w, d), in + w.pad_begin[d] + w.pad_end[d], d);
    int64_t out = (ceil_mode ? CeilDiv(room, stride) : room / stride) + 1;
    if (ceil_mode && (out - 1) * stride >= in + w.pad_begin[d]) --out;
    w.output[d] = out;
  }
  return w;
}

Result<Window> ResolveTransposedWindow(const Node& node, std::span<const Dim> kernel,
                                       std::span<const Dim> input) {
  const size_t rank = kernel.size();
  if (rank != input.size())
    return InvalidInput("{} kernel sizes for {} spatial axes", rank, input.size());
  EVOQ_ASSIGN(const AutoPad auto_pad, AutoPadOf(node));
  EVOQ_ASSIGN(Window w, ReadWindow(node, kernel, input, auto_pad));
  EVOQ_ASSIGN(const std::vector<int64_t> output_padding,
              Integers(node, "output_padding", rank, 0, 0));
  EVOQ_ASSIGN(std::vector<int64_t> output_shape,
              Integers(node, "output_shape", node.attrs.Has("output_shape") ? rank : 0, 0, 0));
  for (size_t d = 0; d < rank; ++d) {
    if (!output_shape.empty()) w.output[d] = output_shape[d];
    if (!kernel[d].known()) continue;
    const bool same = auto_pad == AutoPad::kSameUpper || auto_pad == AutoPad::kSameLower;
    if (!input[d].known()) {
      const int64_t offset =
          same ? 0
               : Extent(w, d) + output_padding[d] - w.strides[d] - w.pad_begin[d] - w.pad_end[d];
      if (output_shape.empty())
        w.output[d] = SymbolicTransposedOutput(input[d], offset, w.strides[d]);
      continue;
    }
    const int64_t full = (input[d].value - 1) * w.strides[d] + Extent(w, d) + output_padding[d];
    if (output_shape.empty() && !same) {
      w.output[d] = full - w.pad_begin[d] - w.pad_end[d];
      if (w.output[d].value < 0)
        return InvalidInput("pads {} and {} exceed the size {} on spatial axis {}", w.pad_begin[d],
                            w.pad_end[d], full, d);
      continue;
    }
    if (output_shape.empty()) w.output[d] = input[d].value * w.strides[d];
    const int64_t pad = std::max<int64_t>(full - w.output[d].value, 0);
    w.pad_begin[d] = auto_pad == AutoPad::kSameUpper ? pad / 2 : pad - pad / 2;
    w.pad_end[d] = pad - w.pad_begin[d];
  }
  return w;
}

}  // namespace evoq
