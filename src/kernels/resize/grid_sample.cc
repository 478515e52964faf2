// GridSample(x, grid) of planes in float32: y[n, c, o] = x[n, c] at the place grid[n, o], by its
// definition's taps and in its order (reference/grid_sample.cc). The taps of a place serve all
// channels, which lie together where channels are last.
#include <algorithm>
#include <array>
#include <utility>

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

bool ChannelsLast(const KernelCall& call) { return call.attrs.Int("channels_last") != 0; }

// Channels, height and width of x or y.
std::array<Dim, 3> PlaneOf(const Shape& shape, bool last) {
  return last ? std::array{shape[3], shape[1], shape[2]} : std::array{shape[1], shape[2], shape[3]};
}

std::optional<Reason> RejectGridSample(const KernelCall& call) {
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  const TensorType &x = call.inputs[0], &grid = call.inputs[1], &y = call.outputs[0];
  if (!PlainFloat(x) || !PlainFloat(grid) || !PlainFloat(y))
    return Reject("types", "{} at {}, expected float32", x.ToString(), grid.ToString());
  if (const auto sampling = GridSamplingOf(call.attrs); !sampling)
    return Reject("attribute", "{}", sampling.error().message());
  constexpr int64_t kMostElements = int64_t{1} << 30;  // of a plane
  const auto mismatch = [&] {
    if (x.shape.rank() != 4 || grid.shape.rank() != 4 || y.shape.rank() != 4) return true;
    const auto [channels, height, width] = PlaneOf(x.shape, ChannelsLast(call));
    const std::array to = {channels, grid.shape[1], grid.shape[2]};
    return grid.shape[3].value != 2 || x.shape[0] != grid.shape[0] || y.shape[0] != x.shape[0] ||
           PlaneOf(y.shape, ChannelsLast(call)) != to || height.value == 0 || width.value == 0 ||
           height.value > kMostElements / width.value;
  };
  if (mismatch())
    return Reject("shape", "{} at {} -> {}", x.ToString(), grid.ToString(), y.ToString());
  return std::nullopt;
}

constexpr int64_t kPlaces = 64;  // whose taps are found at a time

// Of channels c to c + kWidth - 1 of a place with taps x taps pixels, row by row.
template <int kWidth>
inline void SumTaps(const float* const* from, const float* down, const float* across, int taps,
                    int64_t c, float* y) {
  float sum[kWidth] = {};
#pragma GCC unroll 1
  for (int a = 0; a < taps; ++a) {
    float row[kWidth] = {};
#pragma GCC unroll 1
    for (int b = 0; b < taps; ++b) {
      const float* const pixel = from[a * taps + b] + c;
      for (int j = 0; j < kWidth; ++j) row[j] += across[b] * pixel[j];
    }
    for (int j = 0; j < kWidth; ++j) sum[j] += down[a] * row[j];
  }
  for (int j = 0; j < kWidth; ++j) y[c + j] = sum[j];
}

struct GridSampleState {
  GridSampling sampling;
  int64_t batch = 0, channels = 0, height = 0, width = 0, places = 0, grain = 1;
  bool last = false;         // channels
  std::vector<float> zeros;  // a pixel, where channels are last

  int64_t chunks() const { return CeilDiv(places, kPlaces); }

  // Taps of a place: weights, and offsets in a plane, of which -1 stands for a zero. A tap outside
  // counts nothing, whatever its weight; nearest has one tap.
  template <int kTaps>
  struct Taps {
    float down[kTaps], across[kTaps];
    int32_t offset[kTaps][kTaps];
  };

  // Of the place at grid[0], grid[1].
  __attribute__((noinline)) void Find(const float* grid, GridTaps<float>& rows,
                                      GridTaps<float>& columns) const {
    rows = TapsAt(sampling, grid[1], height);
    columns = TapsAt(sampling, grid[0], width);
  }
  template <int kTaps>
  void Find(const float* grid, Taps<kTaps>& taps) const {
    GridTaps<float> rows, columns;
    Find(grid, rows, columns);
    for (int a = 0; a < kTaps; ++a) {
      const bool row = a < rows.count && rows.index[a] >= 0;
      taps.down[a] = row ? rows.weight[a] : 0;
      taps.across[a] = a < columns.count && columns.index[a] >= 0 ? columns.weight[a] : 0;
      for (int b = 0; b < kTaps; ++b)
        taps.offset[a][b] = row && b < columns.count && columns.index[b] >= 0
                                ? static_cast<int32_t>(rows.index[a] * width + columns.index[b])
                                : -1;
    }
  }

  // Places [first, first + count) of image n.
  template <int kTaps>
  void Planes(const float* x, const float* grid, float* y, int64_t n, int64_t first,
              int64_t count) const {
    Taps<kTaps> taps[kPlaces];
    for (int64_t p = 0; p < count; ++p) Find(grid + (n * places + first + p) * 2, taps[p]);
    for (int64_t c = 0; c < channels; ++c) {
      const float* plane = x + (n * channels + c) * height * width;
      float* to = y + (n * channels + c) * places + first;
      for (int64_t p = 0; p < count; ++p) {
        float sum = 0;
        for (int a = 0; a < kTaps; ++a) {
          float row = 0;
          for (int b = 0; b < kTaps; ++b) {
            const int32_t at = taps[p].offset[a][b];
            row += taps[p].across[b] * (at < 0 ? 0 : plane[at]);
          }
          sum += taps[p].down[a] * row;
        }
        to[p] = sum;
      }
    }
  }

  template <int kTaps>
  void Pixels(const float* x, const float* grid, float* y, int64_t n, int64_t first,
              int64_t count) const {
    constexpr int kBlock = 16;
    const float* const image = x + n * height * width * channels;
    for (int64_t place = n * places + first, end = place + count; place < end; ++place) {
      Taps<kTaps> taps;
      Find(grid + place * 2, taps);
      const float* from[kTaps * kTaps];
#pragma GCC unroll 1
      for (int i = 0; i < kTaps * kTaps; ++i) {
        const int32_t at = taps.offset[i / kTaps][i % kTaps];
        from[i] = at < 0 ? zeros.data() : image + at * channels;
      }
      float* const to = y + place * channels;
      int64_t c = 0;
      for (; c + kBlock <= channels; c += kBlock)
        SumTaps<kBlock>(from, taps.down, taps.across, kTaps, c, to);
      for (; c < channels; ++c) SumTaps<1>(from, taps.down, taps.across, kTaps, c, to);
    }
  }

  template <int kTaps>
  void Chunk(const float* x, const float* grid, float* y, int64_t n, int64_t first,
             int64_t count) const {
    last ? Pixels<kTaps>(x, grid, y, n, first, count) : Planes<kTaps>(x, grid, y, n, first, count);
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
  const auto [channels, height, width] = PlaneOf(x, ChannelsLast(call));
  state.last = ChannelsLast(call) && channels.value > 1;
  state.batch = x[0].value;
  state.channels = channels.value;
  state.height = height.value;
  state.width = width.value;
  state.places = grid[1].value * grid[2].value;
  if (state.last) state.zeros.resize(static_cast<size_t>(state.channels));
  const double taps = state.sampling.mode == GridMode::kCubic ? 16 : 4;
  state.grain = Grain(state.batch * state.chunks(),
                      static_cast<double>(kPlaces) * (30 + taps * (state.last ? 0.1 : 0.7) *
                                                               static_cast<double>(state.channels)),
                      options.threads);
  return BoundKernel::Of(std::move(state));
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
