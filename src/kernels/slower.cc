#include "kernels/slower.h"

#include <algorithm>

#include "kernels/call_util.h"

namespace evoq {
namespace {

// Products of one channel each, which depthwise kernels did not take, fill no tile.
std::optional<Reason> SlowerByChannel(const KernelCall& call) {
  const int64_t group = call.attrs.Int("group", 1);
  const Shape& w = call.inputs[1].shape;
  if (group == 1 || w[0].value != group || w[1].value != 1) return std::nullopt;
  return Reject("shape",
                "each output channel reads one input channel, in windows {} that depthwise "
                "kernels do not take",
                w.ToString());
}

struct Row {
  const char* kernel;
  const char* op;
  std::optional<Reason> (*why)(const KernelCall& call);
};
constexpr Row kRows[] = {
    {"conv_int8", "Conv", SlowerByChannel},
    {"dynamic_conv", "DynamicConv", SlowerByChannel},
};

}  // namespace

std::optional<Reason> SlowerThanFloat(const KernelDef& kernel, const KernelCall& call) {
  const auto row = std::ranges::find(kRows, std::string_view(kernel.name), &Row::kernel);
  return row == std::end(kRows) ? std::nullopt : row->why(call);
}

std::optional<Reason> SlowerBesideFloats(const KernelDef& kernel, const KernelCall& call) {
  if (std::string_view(kernel.name) != "dynamic_dwconv") return std::nullopt;
  constexpr int64_t kFewTaps = 16;  // measured on a Zen 5: 3 x 3 loses, 5 x 5 gains
  const Shape& w = call.inputs[1].shape;
  int64_t taps = 1;
  for (int i = 2; i < w.rank(); ++i) taps *= w[i].value;
  if (taps >= kFewTaps) return std::nullopt;
  return Reject(
      "shape",
      "each output sums {} products, for which rounding data that no integer kernel gives "
      "takes longer than it saves",
      taps);
}

bool MayBeSlower(std::string_view op) {
  return std::ranges::find(kRows, op, &Row::op) != std::end(kRows);
}

}  // namespace evoq
