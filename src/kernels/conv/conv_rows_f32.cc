#include "kernels/conv/conv_rows_f32.h"

#include <algorithm>

#include "base/math.h"
#include "kernels/cpu_model.h"

namespace evoq {

std::array<ConvAxisF32, 3> ConvAxes(const ConvShapeF32& s) {
  std::array<ConvAxisF32, 3> axes;
  for (int i = 0; i < 3; ++i) {
    ConvAxisF32& a = axes[i];
    a.in = s.in[i], a.out = a.count = s.out[i], a.stride = s.stride[i];
    a.delta.clear(), a.tap.clear();
    for (int64_t k = 0; k < s.kernel[i]; ++k) {
      a.delta.push_back(k * s.dilation[i] - s.pad[i]);
      a.tap.push_back(k);
    }
  }
  return axes;
}

ConvAxisF32 ConvPhaseAxis(const ConvShapeF32& s, int axis, int64_t phase) {
  ConvAxisF32 a;
  const int64_t stride = s.stride[axis];
  a.in = s.in[axis], a.out = s.out[axis];
  a.count = phase < a.out ? CeilDiv(a.out - phase, stride) : 0;
  a.first = phase, a.step = stride;
  a.delta.clear(), a.tap.clear();
  for (int64_t k = 0; k < s.kernel[axis]; ++k) {
    const int64_t distance = phase + s.pad[axis] - k * s.dilation[axis];
    if (distance % stride != 0) continue;
    a.delta.push_back(distance / stride);
    a.tap.push_back(k);
  }
  return a;
}

std::array<ConvAxisF32, 3> ConvPhaseAxes(const ConvShapeF32& s, int64_t i) {
  const std::array<int64_t, 3> phase = s.phase(i);
  return {ConvPhaseAxis(s, 0, phase[0]), ConvPhaseAxis(s, 1, phase[1]),
          ConvPhaseAxis(s, 2, phase[2])};
}

ConvRowsF32::ConvRowsF32(const ConvShapeF32& shape, std::array<ConvAxisF32, 3> axes, int64_t b_tap)
    : batch(shape.batch),
      channels_in(shape.channels_in),
      channels_out(shape.channels_out),
      axis(std::move(axes)) {
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
        tap.push_back(
            {{static_cast<int32_t>(dz), static_cast<int32_t>(dy), static_cast<int32_t>(dx)},
             ((dz * axis[1].in + dy) * axis[2].in + dx) * channels_in,
             index * b_tap});
      }
    }
  }
  // Taps along the last axis read one run of memory when they lie side by side with all channels in
  // between, and so do their weights.
  const auto& last = axis[2];
  bool contiguous = shape.group == 1 && b_tap == channels_in * kPanelF32 && last.delta.size() > 1;
  for (size_t i = 1; contiguous && i < last.delta.size(); ++i)
    contiguous = last.delta[i] == last.delta[i - 1] + 1 && last.tap[i] == last.tap[i - 1] + 1;
  if (contiguous) merge = static_cast<int64_t>(last.delta.size());
  zeros.assign(static_cast<size_t>(std::max<int64_t>(shape.depth(), kPanelF32)), 0.0f);
}

bool PadsInput(const ConvShapeF32& s) {
  constexpr int64_t kFewChannels = 8, kShareOfOutput = 2;
  if (s.group != 1 || s.taps() == 1 || s.channels_in > kFewChannels) return false;
  const ConvShapeF32 padded = OverPadded(s);
  bool border = false;
  for (int i = 0; i < 3; ++i) {
    if (s.pad[i] < 0 || s.out[i] < 1) return false;
    border = border || s.pad[i] > 0 || padded.in[i] > s.in[i];
  }
  const int64_t copy = s.channels_in * padded.in[0] * padded.in[1] * padded.in[2];
  const bool stays = 4 * s.batch * copy <= kCpuModel.l2_bytes;
  return border &&
         (stays || kShareOfOutput * copy <= s.channels_out * s.out[0] * s.out[1] * s.out[2]);
}

ConvShapeF32 OverPadded(const ConvShapeF32& s) {
  ConvShapeF32 padded = s;
  padded.pad = {0, 0, 0};
  for (int i = 0; i < 3; ++i)
    padded.in[i] = (s.out[i] - 1) * s.stride[i] + (s.kernel[i] - 1) * s.dilation[i] + 1;
  return padded;
}

void PadInput(const ConvShapeF32& s, const void* x, float* y, ThreadPool& pool,
              void (*widen)(const uint16_t* x, float* y, int64_t n)) {
  const std::array<int64_t, 3> to = OverPadded(s).in;
  const int64_t line = to[2] * s.channels_in, before = std::min(s.pad[2], to[2]) * s.channels_in,
                count = std::min(s.in[2] * s.channels_in, line - before);
  pool.ParallelFor(s.batch * to[0] * to[1], PackGrain(line), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t iy = i % to[1] - s.pad[1], iz = i / to[1] % to[0] - s.pad[0],
                    n = i / to[1] / to[0];
      float* const at = y + i * line;
      if (iy < 0 || iy >= s.in[1] || iz < 0 || iz >= s.in[0]) {
        std::fill_n(at, line, 0.0f);
        continue;
      }
      std::fill_n(at, before, 0.0f);
      const int64_t from = ((n * s.in[0] + iz) * s.in[1] + iy) * s.in[2] * s.channels_in;
      if (widen != nullptr) {
        widen(static_cast<const uint16_t*>(x) + from, at + before, count);
      } else {
        std::copy_n(static_cast<const float*>(x) + from, count, at + before);
      }
      std::fill(at + before + count, at + line, 0.0f);
    }
  });
}

namespace {

// Consecutive rows of a tile whose outputs lie on one line.
struct Run {
  int row, rows;
  int64_t z, y, x;  // input position of the first row for a delta of 0
  int64_t in;       // its offset in the input
};

void FillInside(const ConvRowsSourceF32& s, const GemmSegment& segment, const Run* runs,
                int run_count, GemmRows& tile) {
  const ConvRowsF32& map = *s.map;
  const ConvRowsF32::Tap* taps = map.tap.data() + segment.tap;
  const bool merged = map.merge > 1 && segment.depth == map.channels_in &&
                      segment.tap % map.merge == 0 && segment.taps % map.merge == 0;
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
  if (run_count == 1 && tile.tap_count == 1 && tile.depth == next) {
    tile.next = tile.rows[0] + runs->rows * next;
    tile.next_step = CeilDiv(runs->rows, kPanelF32) * kPanelF32;
  }
}

void FillWithBorder(const ConvRowsSourceF32& s, const GemmSegment& segment, const Run* runs,
                    int run_count, GemmRows& tile) {
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
      const auto within = [](int64_t at, int64_t size) {
        return static_cast<uint64_t>(at) < static_cast<uint64_t>(size);
      };
      const bool line = within(run->z + tap.delta[0], map.axis[0].in) &&
                        within(run->y + tap.delta[1], map.axis[1].in);
      const int64_t x = run->x + tap.delta[2], size = line ? map.axis[2].in : 0,
                    in = run->in + tap.a;
      for (int i = 0; i < run->rows; ++i)
        rows[i] = within(x + i * map.axis[2].stride, size) ? s.x + (in + i * next) : zeros;
    }
  }
}

}  // namespace

void FillConvRows(const void* source, int64_t first, int count, const GemmSegment& segment,
                  GemmRows& tile) {
  const ConvRowsSourceF32& s = *static_cast<const ConvRowsSourceF32*>(source);
  const ConvRowsF32& map = *s.map;
  const ConvAxisF32 &az = map.axis[0], &ay = map.axis[1], &ax = map.axis[2];
  int64_t y = 0, x = first, z = 0, n = 0;
  if (x >= ax.count) {  // a division costs as much as the rest
    y = first / ax.count, x -= y * ax.count;
  }
  if (y >= ay.count) {
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
    const int64_t oz = az.first + z * az.step, oy = ay.first + y * ay.step,
                  ox = ax.first + x * ax.step;
    const int64_t out = (((n * az.out + oz) * ay.out + oy) * ax.out + ox) * map.channels_out;
    for (int i = 0; i < rows; ++i) tile.row_offset[r + i] = out + i * (ax.step * map.channels_out);
    r += rows;
    x = 0;
    if (++y < ay.count) continue;
    y = 0;
    if (++z < az.count) continue;
    z = 0, ++n;
  }
  tile.next = nullptr;
  if (segment.taps == 0) {
    tile.tap_count = tile.depth = tile.row_stride = 0;
  } else if (inside) {
    FillInside(s, segment, runs, run_count, tile);
  } else {
    FillWithBorder(s, segment, runs, run_count, tile);
  }
}

}  // namespace evoq
