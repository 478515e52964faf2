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
  for (ConvAxisF32& a : axis) {
    if (a.delta.empty()) continue;
    a.min_delta = *std::min_element(a.delta.begin(), a.delta.end());
    a.max_delta = *std::max_element(a.delta.begin(), a.delta.end());
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

namespace {

// Consecutive rows of a tile whose outputs lie on one line.
struct Run {
  int row, rows;
  int64_t z, y, x;  // input position of the first row for a delta of 0
  int64_t in;       // its offset in the input
};

void FillInside(const ConvRowsSourceF32& s, const SegmentF32& segment, const Run* runs, int run_count, TileRowsF32& tile) {
  const ConvRowsF32& map = *s.map;
  const ConvRowsF32::Tap* taps = map.tap.data() + segment.tap;
  const bool merged = map.merge > 1 && segment.depth == map.channels_in && segment.tap % map.merge == 0 &&
                      segment.taps % map.merge == 0;
  const int64_t step = merged ? map.merge : 1;
  tile.row_stride = 0;
  tile.tap_count = segment.taps / step;
  tile.depth = segment.depth * step;
  for (int64_t t = 0; t < tile.tap_count; ++t)
    tile.taps[t] = {taps[t * step].a - taps[0].a, taps[t * step].b + segment.k * kPanelF32};
  const int64_t next = map.axis[2].stride * map.channels_in;
  for (const Run* run = runs; run < runs + run_count; ++run) {
    const float* row = s.x + (run->in + taps[0].a + segment.k);
    for (int i = 0; i < run->rows; ++i) tile.rows[run->row + i] = row + i * next;
  }
}

void FillWithBorder(const ConvRowsSourceF32& s, const SegmentF32& segment, const Run* runs, int run_count,
                    TileRowsF32& tile) {
  const ConvRowsF32& map = *s.map;
  const int64_t next = map.axis[2].stride * map.channels_in;
  const float* zeros = map.zeros.data();
  tile.row_stride = kMaxTileRowsF32;
  tile.tap_count = segment.taps;
  tile.depth = segment.depth;
  for (int64_t t = 0; t < segment.taps; ++t) {
    const ConvRowsF32::Tap& tap = map.tap[segment.tap + t];
    tile.taps[t] = {segment.k, tap.b + segment.k * kPanelF32};
    for (const Run* run = runs; run < runs + run_count; ++run) {
      const float** rows = tile.rows + t * kMaxTileRowsF32 + run->row;
      const auto within = [](int64_t at, int64_t size) { return static_cast<uint64_t>(at) < static_cast<uint64_t>(size); };
      const bool line = within(run->z + tap.delta[0], map.axis[0].in) && within(run->y + tap.delta[1], map.axis[1].in);
      const int64_t x = run->x + tap.delta[2], size = line ? map.axis[2].in : 0, in = run->in + tap.a;
      for (int i = 0; i < run->rows; ++i)
        rows[i] = within(x + i * map.axis[2].stride, size) ? s.x + (in + i * next) : zeros;
    }
  }
}

}  // namespace

void FillConvRows(const void* source, int64_t first, int count, const SegmentF32& segment, TileRowsF32& tile) {
  const ConvRowsSourceF32& s = *static_cast<const ConvRowsSourceF32*>(source);
  const ConvRowsF32& map = *s.map;
  const ConvAxisF32 &az = map.axis[0], &ay = map.axis[1], &ax = map.axis[2];
  int64_t y = first / ax.count, x = first - y * ax.count, z = 0, n = 0;
  if (y >= ay.count) {  // a division costs as much as the rest
    z = y / ay.count, y %= ay.count;
    n = z / az.count, z %= az.count;
  }
  Run runs[kMaxTileRowsF32];
  int run_count = 0;
  bool inside = true;
  for (int r = 0; r < count; ++run_count) {
    const int rows = static_cast<int>(std::min<int64_t>(count - r, ax.count - x));
    Run& run = runs[run_count];
    run = {r, rows, z * az.stride, y * ay.stride, x * ax.stride, 0};
    run.in = (((n * az.in + run.z) * ay.in + run.y) * ax.in + run.x) * map.channels_in;
    inside = inside && az.Inside(run.z, run.z) && ay.Inside(run.y, run.y) &&
             ax.Inside(run.x, run.x + (rows - 1) * ax.stride);
    const int64_t oz = az.first + z * az.step, oy = ay.first + y * ay.step, ox = ax.first + x * ax.step;
    const int64_t out = (((n * az.out + oz) * ay.out + oy) * ax.out + ox) * map.channels_out;
    for (int i = 0; i < rows; ++i) tile.row_offset[r + i] = out + i * (ax.step * map.channels_out);
    r += rows;
    x = 0;
    if (++y < ay.count) continue;
    y = 0;
    if (++z < az.count) continue;
    z = 0, ++n;
  }
  if (segment.taps == 0) {
    tile.tap_count = tile.depth = tile.row_stride = 0;
  } else if (inside) {
    FillInside(s, segment, runs, run_count, tile);
  } else {
    FillWithBorder(s, segment, runs, run_count, tile);
  }
}

}  // namespace evoq
