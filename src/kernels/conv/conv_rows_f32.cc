#include "kernels/conv/conv_rows_f32.h"

#include <algorithm>

#include "base/math.h"

namespace evoq {
namespace {

ConvShapeOrRejection Reject(const char* code, std::string why) {
  return {ConvShapeF32{}, Rejection{code, std::move(why)}};
}

bool PlainFloat(const TensorType& type) { return type.dtype == DType::kFloat32 && !type.quantized(); }

// Weights that ToFloat32 turns into float32 without loss.
bool WeightType(const TensorType& type) {
  return type.quantized() || type.dtype == DType::kFloat32 || type.dtype == DType::kFloat16 ||
         type.dtype == DType::kBfloat16;
}

std::optional<Rejection> RejectTypes(const KernelCall& call) {
  if (call.inputs.size() < 2 || call.outputs.size() != 1 || !call.has_input(0) || !call.has_input(1))
    return Rejection{"shape", "needs x, w and one output"};
  for (const TensorType* type : {&call.inputs[0], &call.outputs[0]}) {
    if (!PlainFloat(*type)) return Rejection{"types", type->ToString() + ", expected float32"};
  }
  if (!WeightType(call.inputs[1])) return Rejection{"types", "weight " + call.inputs[1].ToString()};
  if (call.constant(1) == nullptr) return Rejection{"not-constant", "the weight is computed"};
  for (size_t i = 2; i < 4; ++i) {
    if (call.has_input(i) && !PlainFloat(call.inputs[i]))
      return Rejection{"types", call.inputs[i].ToString() + ", expected float32"};
  }
  for (const TensorType& type : call.inputs) {
    if (type.dtype != DType::kUndefined && !type.bytes()) return Rejection{"shape", type.ToString() + " is not static"};
  }
  if (!call.outputs[0].bytes()) return Rejection{"shape", call.outputs[0].ToString() + " is not static"};
  return std::nullopt;
}

// First pad of one axis. `total`: the padding that makes the sizes fit, where auto_pad or output_shape asks for it.
int64_t FirstPad(const std::string& auto_pad, int64_t explicit_pad, int64_t total, bool from_total) {
  if (auto_pad == "VALID") return 0;
  total = std::max<int64_t>(total, 0);
  if (auto_pad == "SAME_UPPER") return total / 2;
  if (auto_pad == "SAME_LOWER" || from_total) return total - total / 2;
  return explicit_pad;
}

}  // namespace

ConvShapeOrRejection ConvShapeOf(const KernelCall& call, bool transposed) {
  if (auto why = RejectTypes(call)) return {ConvShapeF32{}, std::move(why)};
  if (call.attrs.Int("channels_last") != 1) return Reject("layout", "the values are not channels-last");
  const std::vector<int64_t> x = call.inputs[0].shape.sizes(), w = call.inputs[1].shape.sizes(),
                             y = call.outputs[0].shape.sizes();
  const size_t rank = x.size(), axes = rank - 2;
  if (rank < 3 || rank > 5 || w.size() != rank || y.size() != rank)
    return Reject("shape", fmt::format("ranks {}, {} and {}, expected 3 to 5", rank, w.size(), y.size()));
  ConvShapeF32 s;
  s.batch = x[0];
  s.channels_in = x[rank - 1];
  s.channels_out = y[rank - 1];
  s.group = call.attrs.Int("group", 1);
  const bool fits = s.group >= 1 && s.channels_in % s.group == 0 && s.channels_out % s.group == 0 && y[0] == x[0] &&
                    (transposed ? w[0] == s.channels_in && w[1] == s.columns()
                                : w[0] == s.channels_out && w[1] == s.depth());
  if (!fits)
    return Reject("shape", fmt::format("{} * {} -> {} in {} groups", call.inputs[0].ToString(),
                                       call.inputs[1].ToString(), call.outputs[0].ToString(), s.group));
  if (call.has_input(2) && call.inputs[2].shape != Shape({s.channels_out}))
    return Reject("shape", "bias " + call.inputs[2].ToString());
  if (call.has_input(3) && call.inputs[3].shape != call.outputs[0].shape)
    return Reject("shape", "residual " + call.inputs[3].ToString());
  if (!ActivationFromAttrs(call.attrs)) return Reject("attribute", "activation " + call.attrs.String("activation"));

  const auto strides = call.attrs.Ints("strides", std::vector<int64_t>(axes, 1));
  const auto dilations = call.attrs.Ints("dilations", std::vector<int64_t>(axes, 1));
  const auto pads = call.attrs.Ints("pads", std::vector<int64_t>(2 * axes, 0));
  const auto output_padding = call.attrs.Ints("output_padding", std::vector<int64_t>(axes, 0));
  const std::string auto_pad = call.attrs.String("auto_pad", "NOTSET");
  if (strides.size() != axes || dilations.size() != axes || pads.size() != 2 * axes || output_padding.size() != axes)
    return Reject("attribute", "strides, dilations, pads or output_padding do not have the rank of x");
  constexpr int64_t kMost = int64_t{1} << 30;  // keeps index arithmetic far from overflow
  for (size_t i = 0; i < axes; ++i) {
    const size_t a = 3 - axes + i;
    s.in[a] = x[i + 1], s.out[a] = y[i + 1], s.kernel[a] = w[i + 2];
    s.stride[a] = strides[i], s.dilation[a] = dilations[i];
    if (s.stride[a] < 1 || s.dilation[a] < 1 || s.kernel[a] < 1 || pads[i] < -kMost ||
        std::max({s.stride[a], s.dilation[a], s.kernel[a], pads[i], s.in[a], s.out[a], s.kernel[a] * s.dilation[a],
                  s.out[a] * s.stride[a], s.in[a] * s.stride[a]}) > kMost)
      return Reject("attribute", fmt::format("axis {}: stride {}, dilation {}, kernel {}, pad {}", i, s.stride[a],
                                             s.dilation[a], s.kernel[a], pads[i]));
    const int64_t extent = (s.kernel[a] - 1) * s.dilation[a] + 1;
    const int64_t total = transposed
                              ? s.stride[a] * (s.in[a] - 1) + output_padding[i] + extent - s.out[a]
                              : (s.out[a] - 1) * s.stride[a] + extent - s.in[a];
    s.pad[a] = FirstPad(auto_pad, pads[i], total, transposed && call.attrs.Has("output_shape"));
  }
  return {s, std::nullopt};
}

ConvRowsF32::ConvRowsF32(const ConvShapeF32& shape, std::array<ConvAxisF32, 3> axes, int64_t b_tap)
    : batch(shape.batch), channels_in(shape.channels_in), channels_out(shape.channels_out), axis(std::move(axes)) {
  for (int i = 0; i < 3; ++i) {
    const auto [low, high] = std::minmax_element(axis[i].delta.begin(), axis[i].delta.end());
    min_delta[i] = axis[i].delta.empty() ? 0 : *low;
    max_delta[i] = axis[i].delta.empty() ? 0 : *high;
  }
  for (size_t z = 0; z < axis[0].delta.size(); ++z) {
    for (size_t y = 0; y < axis[1].delta.size(); ++y) {
      for (size_t x = 0; x < axis[2].delta.size(); ++x) {
        const int64_t dz = axis[0].delta[z], dy = axis[1].delta[y], dx = axis[2].delta[x];
        const int64_t index =
            (axis[0].tap[z] * shape.kernel[1] + axis[1].tap[y]) * shape.kernel[2] + axis[2].tap[x];
        tap.push_back({{static_cast<int32_t>(dz), static_cast<int32_t>(dy), static_cast<int32_t>(dx)},
                       ((dz * axis[1].in + dy) * axis[2].in + dx) * channels_in,
                       index * b_tap});
      }
    }
  }
  // Taps along the last axis read one run of memory when they lie side by side with all channels in between, and so do
  // their weights.
  const auto& last = axis[2];
  bool contiguous = shape.group == 1 && b_tap == channels_in * kPanelF32 && last.delta.size() > 1;
  for (size_t i = 1; contiguous && i < last.delta.size(); ++i)
    contiguous = last.delta[i] == last.delta[i - 1] + 1 && last.tap[i] == last.tap[i - 1] + 1;
  if (contiguous) merge = static_cast<int64_t>(last.delta.size());
  zeros.assign(static_cast<size_t>(shape.depth()), 0.0f);
}

void FillConvRows(const void* source, int64_t first, int count, const SegmentF32& segment, TileRowsF32& tile) {
  const ConvRowsSourceF32& s = *static_cast<const ConvRowsSourceF32*>(source);
  const ConvRowsF32& map = *s.map;
  const ConvAxisF32 &az = map.axis[0], &ay = map.axis[1], &ax = map.axis[2];
  int64_t x = first % ax.count, rest = first / ax.count;
  int64_t y = rest % ay.count;
  rest /= ay.count;
  int64_t z = rest % az.count, n = rest / az.count;
  int64_t base[kMaxTileRowsF32], iz[kMaxTileRowsF32], iy[kMaxTileRowsF32], ix[kMaxTileRowsF32];
  bool inside = true;
  for (int r = 0; r < count; ++r) {
    iz[r] = z * az.stride, iy[r] = y * ay.stride, ix[r] = x * ax.stride;
    base[r] = (((n * az.in + iz[r]) * ay.in + iy[r]) * ax.in + ix[r]) * map.channels_in;
    inside = inside && iz[r] + map.min_delta[0] >= 0 && iz[r] + map.max_delta[0] < az.in &&
             iy[r] + map.min_delta[1] >= 0 && iy[r] + map.max_delta[1] < ay.in && ix[r] + map.min_delta[2] >= 0 &&
             ix[r] + map.max_delta[2] < ax.in;
    const int64_t oz = az.first + z * az.step, oy = ay.first + y * ay.step, ox = ax.first + x * ax.step;
    tile.row_offset[r] = (((n * az.out + oz) * ay.out + oy) * ax.out + ox) * map.channels_out;
    if (++x < ax.count) continue;
    x = 0;
    if (++y < ay.count) continue;
    y = 0;
    if (++z < az.count) continue;
    z = 0, ++n;
  }
  tile.tap_count = segment.taps;
  tile.depth = segment.depth;
  tile.row_stride = 0;
  if (segment.taps == 0) return;
  const ConvRowsF32::Tap* taps = map.tap.data() + segment.tap;
  const int64_t k_b = segment.k * kPanelF32;
  if (inside) {
    const bool merged = map.merge > 1 && segment.depth == map.channels_in && segment.tap % map.merge == 0 &&
                        segment.taps % map.merge == 0;
    const int64_t step = merged ? map.merge : 1;
    tile.tap_count = segment.taps / step;
    tile.depth = segment.depth * step;
    for (int64_t t = 0; t < tile.tap_count; ++t)
      tile.taps[t] = {taps[t * step].a - taps[0].a, taps[t * step].b + k_b};
    for (int r = 0; r < count; ++r) tile.rows[r] = s.x + (base[r] + taps[0].a + segment.k);
    return;
  }
  tile.row_stride = kMaxTileRowsF32;
  for (int64_t t = 0; t < segment.taps; ++t) {
    const ConvRowsF32::Tap& tap = taps[t];
    tile.taps[t] = {segment.k, tap.b + k_b};
    const float** row = tile.rows + t * kMaxTileRowsF32;
    for (int r = 0; r < count; ++r) {
      const bool valid = static_cast<uint64_t>(iz[r] + tap.delta[0]) < static_cast<uint64_t>(az.in) &&
                         static_cast<uint64_t>(iy[r] + tap.delta[1]) < static_cast<uint64_t>(ay.in) &&
                         static_cast<uint64_t>(ix[r] + tap.delta[2]) < static_cast<uint64_t>(ax.in);
      row[r] = valid ? s.x + (base[r] + tap.a) : map.zeros.data();
    }
  }
}

}  // namespace evoq
