#include "kernels/gemm/int8_rows.h"

#include <algorithm>
#include <cstring>

#include "base/math.h"

namespace evoq {
namespace {

// Offsets of input positions out * stride + tap * dilation - pad, times `unit`; -1 outside [0, in).
std::vector<int64_t> AxisOffsets(int64_t out, int64_t taps, int64_t stride, int64_t dilation,
                                 int64_t pad, int64_t in, int64_t unit) {
  std::vector<int64_t> offsets;
  offsets.reserve(static_cast<size_t>(out * taps));
  for (int64_t o = 0; o < out; ++o) {
    for (int64_t t = 0; t < taps; ++t) {
      const int64_t position = o * stride + t * dilation - pad;
      offsets.push_back(position >= 0 && position < in ? position * unit : -1);
    }
  }
  return offsets;
}

constexpr int64_t kThinChannels = 16;

bool IsPointwise(const Int8Geometry& g) {
  for (int i = 0; i < 3; ++i) {
    if (g.kernel[i] != 1 || g.stride[i] != 1 || g.pad[i] != 0 || g.in[i] != g.out[i]) return false;
  }
  return true;
}

}  // namespace

Int8Rows::Int8Rows(const Int8Geometry& geometry, int64_t group_bytes, bool flip, bool merge,
                   bool pad_all)
    : source_(geometry), rows_(geometry.rows()), group_bytes_(group_bytes) {
  const Int8Geometry& g = source_;
  flip_ = flip ? 0x80 : 0;
  // Taps of few channels cost more to reach than to multiply: with the padding copied along, a
  // kernel row is one tap.
  const bool thin = merge && g.group == 1 && g.kernel[2] > 1 && g.dilation[2] == 1 &&
                    (pad_all || g.channels <= kThinChannels);
  const bool reaches_out = g.pad[2] != 0 || (g.out[2] - 1) * g.stride[2] + g.kernel[2] > g.in[2];
  copy_ = flip || group_bytes != g.group_channels() || (thin && reaches_out);
  pixel_bytes_ = g.group * group_bytes;
  dense_ = IsPointwise(g);
  int64_t pad[3];
  for (int i = 0; i < 3; ++i) {
    const int64_t needed =
        g.out[i] == 0 ? 0 : (g.out[i] - 1) * g.stride[i] + g.dilation[i] * (g.kernel[i] - 1) + 1;
    extent_[i] = copy_ && !dense_ ? needed : g.in[i];
    pad[i] = copy_ && !dense_ ? 0 : g.pad[i];
  }
  const bool whole = pad[2] == 0 && (g.out[2] - 1) * g.stride[2] + g.kernel[2] <= extent_[2];
  const bool merged = merge && g.group == 1 && g.kernel[2] > 1 && g.dilation[2] == 1 && whole;
  inner_taps_ = merged ? 1 : g.kernel[2];
  outer_taps_ = g.kernel[0] * g.kernel[1];
  tap_bytes_ = merged ? g.kernel[2] * pixel_bytes_ : group_bytes;
  padding_bytes_ = static_cast<size_t>(RoundUp(merged ? tap_bytes_ : pixel_bytes_, 64));
  scratch_bytes_ = padding_bytes_;
  if (copy_)
    scratch_bytes_ +=
        static_cast<size_t>(g.batch * extent_[0] * extent_[1] * extent_[2] * pixel_bytes_);
  scratch_bytes_ = static_cast<size_t>(RoundUp(static_cast<int64_t>(scratch_bytes_), 64));
  if (dense_) return;

  const auto width = AxisOffsets(g.out[2], inner_taps_, g.stride[2], g.dilation[2], pad[2],
                                 extent_[2], pixel_bytes_);
  for (int64_t t = 0; t < inner_taps_; ++t) {
    for (int64_t w = 0; w < g.out[2]; ++w) inner_.push_back(width[w * inner_taps_ + t]);
  }
  const int64_t line = extent_[2] * pixel_bytes_;
  const auto depth = AxisOffsets(g.out[0], g.kernel[0], g.stride[0], g.dilation[0], pad[0],
                                 extent_[0], extent_[1] * line);
  const auto height =
      AxisOffsets(g.out[1], g.kernel[1], g.stride[1], g.dilation[1], pad[1], extent_[1], line);
  for (int64_t od = 0; od < g.out[0]; ++od) {
    for (int64_t oh = 0; oh < g.out[1]; ++oh) {
      for (int64_t kd = 0; kd < g.kernel[0]; ++kd) {
        for (int64_t kh = 0; kh < g.kernel[1]; ++kh) {
          const int64_t d = depth[od * g.kernel[0] + kd], h = height[oh * g.kernel[1] + kh];
          outer_.push_back(d < 0 || h < 0 ? -1 : d + h);
        }
      }
    }
  }
  const auto inside = [](const std::vector<int64_t>& offsets) {
    return std::all_of(offsets.begin(), offsets.end(), [](int64_t offset) { return offset >= 0; });
  };
  if (!merge || rows_ == 0 || taps() == 1 || !inside(outer_) || !inside(inner_)) return;
  for (int64_t a = 0; a < outer_taps_; ++a) {
    for (int64_t b = 0; b < inner_taps_; ++b)
      tap_offsets_.push_back(outer_[a] + inner_[b * g.out[2]]);  // the first of each is 0
  }
}

void Int8Rows::CopyRow(const Int8TileDef& isa, const uint8_t* from, uint8_t* to) const {
  const int64_t channels = source_.group_channels();
  const int64_t pixels =
      std::min(source_.in[2], dense_ ? source_.in[2] : extent_[2] - source_.pad[2]);
  if (channels == group_bytes_) {
    if (flip_ == 0) {
      std::memcpy(to, from, static_cast<size_t>(pixels * pixel_bytes_));
      return;
    }
    for (int64_t i = 0; i < pixels * pixel_bytes_; ++i) to[i] = from[i] ^ flip_;
    return;
  }
  if (channels == 3 && group_bytes_ == 4)
    return isa.rows->expand3(from, to, pixels * source_.group, flip_);
  for (int64_t i = 0; i < pixels * source_.group; ++i) {
    const uint8_t* f = from + i * channels;
    uint8_t* t = to + i * group_bytes_;
    for (int64_t c = 0; c < channels; ++c) t[c] = f[c] ^ flip_;
    for (int64_t c = channels; c < group_bytes_; ++c) t[c] = 0;
  }
}

void Int8Rows::CopyPadded(const Int8TileDef& isa, const uint8_t* x, const uint8_t* padding,
                          uint8_t* to, ThreadPool& pool) const {
  const Int8Geometry& g = source_;
  const int64_t line_in = g.in[2] * g.channels, line_out = extent_[2] * pixel_bytes_;
  const int64_t lines = g.batch * extent_[0] * extent_[1];
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, line_out));
  pool.ParallelFor(lines, grain, [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      const int64_t n = line / (extent_[0] * extent_[1]);
      const int64_t d = line / extent_[1] % extent_[0] - g.pad[0], h = line % extent_[1] - g.pad[1];
      uint8_t* row = to + line * line_out;
      int64_t first = 0, last = 0;  // pixels copied
      if (d >= 0 && d < g.in[0] && h >= 0 && h < g.in[1]) {
        first = std::min(g.pad[2], extent_[2]);
        last = std::min(first + g.in[2], extent_[2]);
        if (last > first)
          CopyRow(isa, x + ((n * g.in[0] + d) * g.in[1] + h) * line_in, row + first * pixel_bytes_);
      }
      for (int64_t w = 0; w < first; ++w)
        std::memcpy(row + w * pixel_bytes_, padding, pixel_bytes_);
      for (int64_t w = last; w < extent_[2]; ++w)
        std::memcpy(row + w * pixel_bytes_, padding, pixel_bytes_);
    }
  });
}

Int8Rows::Input Int8Rows::Prepare(const Int8TileDef& isa, const void* x, int32_t zero,
                                  std::byte* scratch, ThreadPool& pool) const {
  const auto* from = static_cast<const uint8_t*>(x);
  auto* padding = reinterpret_cast<uint8_t*>(scratch);
  if (dense_ && !copy_) return {from, padding};
  const int64_t channels = source_.group_channels();
  std::memset(padding, static_cast<uint8_t>(zero) ^ flip_, padding_bytes_);
  for (int64_t begin = channels;
       channels < group_bytes_ && begin < static_cast<int64_t>(padding_bytes_);
       begin += group_bytes_) {
    for (int64_t i = begin;
         i < std::min(begin + group_bytes_ - channels, static_cast<int64_t>(padding_bytes_)); ++i)
      padding[i] = 0;
  }
  if (!copy_) return {from, padding};
  uint8_t* to = padding + padding_bytes_;
  CopyPadded(isa, from, padding, to, pool);
  return {to, padding};
}

void Int8Rows::Pointers(const Int8TileDef& isa, const Input& input, int64_t begin, int64_t count,
                        int64_t tile, const uint8_t** pointers) const {
  if (dense_) {
    for (int64_t i = 0; i < count; ++i) pointers[i] = input.x + (begin + i) * pixel_bytes_;
    return;
  }
  const int64_t width = source_.out[2], lines = source_.out[0] * source_.out[1];
  const int64_t image = extent_[0] * extent_[1] * extent_[2] * pixel_bytes_;
  int64_t w = begin % width, line = begin / width % lines;
  Int8PointerRun run = {};
  run.x = input.x + begin / width / lines * image;
  run.padding = input.padding;
  run.outer_taps = tap_offsets_.empty() ? outer_taps_ : 1;
  run.inner_taps = tap_offsets_.empty() ? inner_taps_ : 1;
  run.width = width;
  run.tile = tile;
  for (int64_t i = 0; i < count; i += run.count) {
    const int64_t row = i % tile;
    run.count = std::min({count - i, tile - row, width - w});
    run.outer = outer_.data() + line * outer_taps_;
    run.inner = inner_.data() + w;
    run.to = pointers + (i - row) * pointers_per_row() + row;
    isa.rows->pointers(run);
    w += run.count;
    if (w == width) {
      w = 0;
      if (++line == lines) line = 0, run.x += image;
    }
  }
}

}  // namespace evoq
