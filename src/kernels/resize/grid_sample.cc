// GridSample(x, grid) of planes in float32: y[n, c, o] = x[n, c] at the place grid[n, o], by its
// definition's taps and in its order (reference/grid_sample.cc). The taps of a place serve all
// channels.
#include <algorithm>

#include "kernels/call_util.h"
#include "kernels/parallel.h"
#include "kernels/resize/grid_taps.h"

namespace evoq {

Result<GridSampling> GridSamplingOf(const Attrs& attrs) {
  GridSampling s;
  const std::string mode = attrs.String("mode", "linear"),
                    padding = attrs.String("padding_mode", "zeros");
  if (mode == "nearest") {
    s.mode = GridMode::kNearest;
  } else if (mode == "cubic" || mode == "bicubic") {
    s.mode = GridMode::kCubic;
  } else if (mode != "linear" && mode != "bilinear") {
    return InvalidInput("attribute mode is '{}', expected nearest, linear or cubic", mode);
  }
  if (padding == "border") {
    s.padding = GridPadding::kBorder;
  } else if (padding == "reflection") {
    s.padding = GridPadding::kReflection;
  } else if (padding != "zeros") {
    return InvalidInput("attribute padding_mode is '{}', expected zeros, border or reflection",
                        padding);
  }
  s.align_corners = attrs.Int("align_corners") != 0;
  return s;
}

namespace {

std::optional<Reason> RejectGridSample(const KernelCall& call) {
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  const TensorType &x = call.inputs[0], &grid = call.inputs[1], &y = call.outputs[0];
  if (!PlainFloat(x) || !PlainFloat(grid) || !PlainFloat(y))
    return Reject("types", "{} at {}, expected float32", x.ToString(), grid.ToString());
  if (const auto sampling = GridSamplingOf(call.attrs); !sampling)
    return Reject("attribute", "{}", sampling.error().message());
  constexpr int64_t kMostElements = int64_t{1} << 30;  // of a plane
  const bool planes = x.shape.rank() == 4 && grid.shape.rank() == 4 && y.shape.rank() == 4 &&
                      grid.shape[3].value == 2;
  if (!planes || x.shape[0].value != grid.shape[0].value ||
      y.shape !=
          Shape{x.shape[0].value, x.shape[1].value, grid.shape[1].value, grid.shape[2].value} ||
      x.shape[2].value == 0 || x.shape[3].value == 0 ||
      x.shape[2].value > kMostElements / x.shape[3].value)
    return Reject("shape", "{} at {} -> {}", x.ToString(), grid.ToString(), y.ToString());
  return std::nullopt;
}

constexpr int64_t kPlaces = 64;  // whose taps are found at a time

struct GridSampleState {
  GridSampling sampling;
  int64_t batch = 0, channels = 0, height = 0, width = 0, places = 0, grain = 1;

  int64_t chunks() const { return CeilDiv(places, kPlaces); }

  // Of the place at grid[0], grid[1].
  __attribute__((noinline)) void Find(const float* grid, GridTaps<float>& rows,
                                      GridTaps<float>& columns) const {
    rows = TapsAt(sampling, grid[1], height);
    columns = TapsAt(sampling, grid[0], width);
  }

  // Places [first, first + count) of image n.
  template <int kTaps>
  void Chunk(const float* x, const float* grid, float* y, int64_t n, int64_t first,
             int64_t count) const {
    float down[kPlaces][kTaps], across[kPlaces][kTaps];
    int32_t offset[kPlaces][kTaps][kTaps];  // in a plane; -1: a zero
    for (int64_t p = 0; p < count; ++p) {
      GridTaps<float> rows, columns;
      Find(grid + (n * places + first + p) * 2, rows, columns);
      for (int a = 0; a < kTaps; ++a) {
        // A tap outside counts nothing, whatever its weight; nearest has one tap.
        const bool row = a < rows.count && rows.index[a] >= 0;
        down[p][a] = row ? rows.weight[a] : 0;
        across[p][a] = a < columns.count && columns.index[a] >= 0 ? columns.weight[a] : 0;
        for (int b = 0; b < kTaps; ++b)
          offset[p][a][b] = row && b < columns.count && columns.index[b] >= 0
                                ? static_cast<int32_t>(rows.index[a] * width + columns.index[b])
                                : -1;
      }
    }
    for (int64_t c = 0; c < channels; ++c) {
      const float* plane = x + (n * channels + c) * height * width;
      float* to = y + (n * channels + c) * places + first;
      for (int64_t p = 0; p < count; ++p) {
        float sum = 0;
        for (int a = 0; a < kTaps; ++a) {
          float row = 0;
          for (int b = 0; b < kTaps; ++b) {
            const int32_t at = offset[p][a][b];
            row += across[p][b] * (at < 0 ? 0 : plane[at]);
          }
          sum += down[p][a] * row;
        }
        to[p] = sum;
      }
    }
  }

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const auto *x = static_cast<const float*>(in[0]), *grid = static_cast<const float*>(in[1]);
    auto* const y = static_cast<float*>(out[0]);
    context.pool.ParallelFor(batch * chunks(), grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t n = i / chunks(), first = i % chunks() * kPlaces,
                      count = std::min(kPlaces, places - first);
        if (sampling.mode == GridMode::kCubic) {
          Chunk<4>(x, grid, y, n, first, count);
        } else {
          Chunk<2>(x, grid, y, n, first, count);
        }
      }
    });
  }
};

Result<BoundKernel> BindGridSample(const KernelCall& call, const BindOptions& options) {
  GridSampleState state;
  EVOQ_ASSIGN(state.sampling, GridSamplingOf(call.attrs));
  const Shape &x = call.inputs[0].shape, &grid = call.inputs[1].shape;
  state.batch = x[0].value;
  state.channels = x[1].value;
  state.height = x[2].value;
  state.width = x[3].value;
  state.places = grid[1].value * grid[2].value;
  const double taps = state.sampling.mode == GridMode::kCubic ? 16 : 4;
  state.grain =
      Grain(state.batch * state.chunks(),
            static_cast<double>(kPlaces) * (30 + taps * 0.7 * static_cast<double>(state.channels)),
            options.threads);
  return BoundKernel::Of(state);
}

}  // namespace

extern const KernelDef kGridSampleKernel = {
    .name = "grid_sample_f32",
    .op = "GridSample",
    .precision = Precision::kFloat32,
    .peak = Peak::kMemory,
    .reject = RejectGridSample,
    .bind = BindGridSample,
};

}  // namespace evoq
