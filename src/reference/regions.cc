// Sampling of regions: RoiAlign, MaxRoiPool, AffineGrid, DeformConv.
#include "ops/regions.h"

#include <algorithm>
#include <cmath>

#include "base/budget_scope.h"
#include "base/math.h"
#include "reference/arithmetic.h"
#include "reference/definition.h"
#include "reference/indexing.h"
#include "reference/real.h"
#include "reference/util.h"

namespace evoq {
namespace {

// ---- bilinear samples of a plane [height, width]

template <typename T>
struct Tap {
  int64_t at[4] = {0, 0, 0, 0};
  T weight[4] = {0, 0, 0, 0};
  T Sum(const T* plane) const {
    T sum = 0;
    for (int i = 0; i < 4; ++i) sum += weight[i] * plane[at[i]];
    return sum;
  }
};

// ---- RoiAlign(x, rois, batch_indices): per region [x1, y1, x2, y2] a grid of bins, each the mean
// (or, with mode max, the largest weighted neighbour) of sampling_ratio^2 bilinear samples (as many
// as fit when 0). Samples more than one pixel outside are 0.

template <typename T>
Tap<T> RoiTap(T y, T x, int64_t height, int64_t width) {
  Tap<T> tap;
  if (!(y >= -1 && y <= static_cast<T>(height) && x >= -1 && x <= static_cast<T>(width)))
    return tap;
  const auto place = [](T at, int64_t size, int64_t* low, int64_t* high) {
    at = std::max(at, T{0});
    *low = std::min(static_cast<int64_t>(at), size - 1);
    *high = std::min(*low + 1, size - 1);
    return *high == *low ? T{0} : at - static_cast<T>(*low);
  };
  int64_t y0, y1, x0, x1;
  const T ly = place(y, height, &y0, &y1), lx = place(x, width, &x0, &x1);
  const int64_t at[4] = {y0 * width + x0, y0 * width + x1, y1 * width + x0, y1 * width + x1};
  const T weight[4] = {(1 - ly) * (1 - lx), (1 - ly) * lx, ly * (1 - lx), ly * lx};
  std::copy_n(at, 4, tap.at);
  std::copy_n(weight, 4, tap.weight);
  return tap;
}

template <typename T>
EvalResult RoiAlign(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  const std::vector<int64_t> in = x.sizes();
  EVOQ_ASSIGN(const std::vector<int64_t> batches, IndicesInput(args, 2, in[0]));
  EVOQ_ASSIGN(Tensor y, AllocateOutput(args.output_types[0]));
  const std::vector<int64_t> out = y.sizes();
  if (static_cast<int64_t>(batches.size()) != out[0])
    return InvalidInput("{} regions and {} batch indices", out[0], batches.size());
  if (in[2] * in[3] == 0 && y.elements() > 0)
    return InvalidInput("input 0 is {}, which has nothing to sample", x.type().ToString());
  const Attrs& attrs = args.node.attrs;
  const bool half = attrs.String("coordinate_transformation_mode", "half_pixel") == "half_pixel",
             mean = attrs.String("mode", "avg") == "avg";
  const T scale = attrs.Float("spatial_scale", 1), offset = half ? T{0.5} : T{0};
  const int64_t ratio = attrs.Int("sampling_ratio", 0);
  std::vector<Tap<T>> taps;
  for (int64_t r = 0; r < out[0]; ++r) {
    const T* roi = args.inputs[1].data<T>() + r * 4;
    const T x1 = roi[0] * scale - offset, y1 = roi[1] * scale - offset;
    T width = roi[2] * scale - offset - x1, height = roi[3] * scale - offset - y1;
    if (!half) width = std::max(width, T{1}), height = std::max(height, T{1});
    const T bin_h = height / static_cast<T>(out[2]), bin_w = width / static_cast<T>(out[3]);
    // A region that is no number has no samples: max(0, NaN) is 0.
    const auto samples = [&](T bin) {
      return ratio > 0 ? ratio
                       : static_cast<int64_t>(std::min(std::max(T{0}, std::ceil(bin)), T{4096}));
    };
    const int64_t rows = samples(bin_h), columns = samples(bin_w);
    EVOQ_TRY(SpendWork({rows, columns, out[2], out[3], in[1] + 1, 8}, "sampling regions"));
    const T count = static_cast<T>(std::max<int64_t>(rows * columns, 1));
    for (int64_t bin = 0; bin < out[2] * out[3]; ++bin) {
      taps.clear();
      for (int64_t i = 0; i < rows * columns; ++i) {
        const T at_y = y1 + static_cast<T>(bin / out[3]) * bin_h +
                       (static_cast<T>(i / columns) + T{0.5}) * bin_h / static_cast<T>(rows);
        const T at_x = x1 + static_cast<T>(bin % out[3]) * bin_w +
                       (static_cast<T>(i % columns) + T{0.5}) * bin_w / static_cast<T>(columns);
        taps.push_back(RoiTap(at_y, at_x, in[2], in[3]));
      }
      for (int64_t c = 0; c < in[1]; ++c) {
        const T* plane = x.data<T>() + (batches[r] * in[1] + c) * in[2] * in[3];
        T value = 0;
        for (size_t i = 0; i < taps.size(); ++i) {
          if (mean) {
            value += taps[i].Sum(plane);
            continue;
          }
          for (int k = 0; k < 4; ++k) {
            const T v = taps[i].weight[k] * plane[taps[i].at[k]];
            value = i + k == 0 ? v : MaxFn()(v, value);
          }
        }
        y.mutable_data<T>()[(r * in[1] + c) * out[2] * out[3] + bin] = mean ? value / count : value;
      }
    }
  }
  return One(std::move(y));
}

EvalResult EvaluateRoiAlign(const EvalArgs& args) {
  return EvaluateAsFloats(args, [&](auto tag) { return RoiAlign<decltype(tag)>(args); }, {2});
}

// ---- MaxRoiPool(x, rois): regions [batch, x1, y1, x2, y2] in whole pixels, the largest of each
// bin (0 for an empty one).

template <typename T>
EvalResult MaxRoiPool(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  const std::vector<int64_t> in = x.sizes();
  EVOQ_ASSIGN(Tensor y, AllocateOutput(args.output_types[0]));
  const std::vector<int64_t> out = y.sizes();
  const T scale = args.node.attrs.Float("spatial_scale", 1);
  for (int64_t r = 0; r < out[0]; ++r) {
    const T* roi = args.inputs[1].data<T>() + r * 5;
    if (!(roi[0] >= 0 && roi[0] < static_cast<T>(in[0])))
      return InvalidInput("region {} is of batch item {} of {}", r, roi[0], in[0]);
    const auto pixel = [&](int i) {
      return std::round(std::clamp(roi[i] * scale, T{-1e9}, T{1e9}));
    };
    const T x1 = pixel(1), y1 = pixel(2), width = std::max(pixel(3) - x1 + 1, T{1}),
            height = std::max(pixel(4) - y1 + 1, T{1});
    EVOQ_TRY(SpendWork({in[1], in[2] + out[2], in[3] + out[3]}, "pooling regions"));
    const auto range = [](int64_t bin, int64_t bins, T start, T length, int64_t size) {
      const T step = length / static_cast<T>(bins), last = static_cast<T>(size);
      const T low = std::floor(static_cast<T>(bin) * step) + start,
              high = std::ceil(static_cast<T>(bin + 1) * step) + start;
      // Of NaN: 0.
      const auto inside = [&](T at) {
        return static_cast<int64_t>(std::min(std::max(T{0}, at), last));
      };
      return std::pair{inside(low), inside(high)};
    };
    for (int64_t bin = 0; bin < out[2] * out[3]; ++bin) {
      const auto [top, bottom] = range(bin / out[3], out[2], y1, height, in[2]);
      const auto [left, right] = range(bin % out[3], out[3], x1, width, in[3]);
      for (int64_t c = 0; c < in[1]; ++c) {
        const T* plane = x.data<T>() + (static_cast<int64_t>(roi[0]) * in[1] + c) * in[2] * in[3];
        const bool empty = top >= bottom || left >= right;
        T value = empty ? 0 : plane[top * in[3] + left];
        for (int64_t i = top; i < bottom; ++i) {
          for (int64_t j = left; j < right; ++j) value = MaxFn()(plane[i * in[3] + j], value);
        }
        y.mutable_data<T>()[(r * in[1] + c) * out[2] * out[3] + bin] = value;
      }
    }
  }
  return One(std::move(y));
}

EvalResult EvaluateMaxRoiPool(const EvalArgs& args) {
  return EvaluateAsFloats(args, [&](auto tag) { return MaxRoiPool<decltype(tag)>(args); });
}

// ---- AffineGrid(theta, size): grid[n, place] = theta[n] * (place's coordinates from -1 to 1, last
// axis first, and 1).

template <typename T>
EvalResult AffineGrid(const EvalArgs& args) {
  EVOQ_ASSIGN(Tensor grid, AllocateGrown(args.output_types[0]));
  const std::vector<int64_t> sizes = grid.sizes();
  const int64_t axes = sizes.back(), batch = sizes[0];
  const bool align = args.node.attrs.Int("align_corners") != 0;
  const int64_t places = batch == 0 || axes == 0 ? 0 : grid.elements() / batch / axes;
  if (places == 0) return One(std::move(grid));
  std::vector<T> coordinates[3];  // of each axis; the last axis of the grid comes first
  for (int64_t d = 0; d < axes; ++d) {
    const T count = static_cast<T>(sizes[axes - d]);
    for (int64_t i = 0; i < sizes[axes - d]; ++i) {
      const T index = static_cast<T>(i);
      coordinates[d].push_back(align ? (count == 1 ? T{-1} : -1 + 2 * index / (count - 1))
                                     : (2 * index + 1) / count - 1);
    }
  }
  T* to = grid.mutable_data<T>();
  for (int64_t n = 0; n < batch; ++n) {
    const T* theta = args.inputs[0].data<T>() + n * axes * (axes + 1);
    size_t index[3] = {0, 0, 0};
    for (int64_t p = 0; p < places; ++p) {
      T at[4] = {0, 0, 0, 1};
      at[axes] = 1;
      for (int64_t d = 0; d < axes; ++d) at[d] = coordinates[d][index[d]];
      for (int64_t d = 0; d < axes; ++d) {
        T sum = 0;
        for (int64_t k = 0; k <= axes; ++k) sum += theta[d * (axes + 1) + k] * at[k];
        *to++ = sum;
      }
      for (int64_t d = 0; d < axes && ++index[d] == coordinates[d].size(); ++d) index[d] = 0;
    }
  }
  return One(std::move(grid));
}

EvalResult EvaluateAffineGrid(const EvalArgs& args) {
  return EvaluateAsFloats(args, [&](auto tag) { return AffineGrid<decltype(tag)>(args); }, {1});
}

// ---- DeformConv(x, w, offset, bias?, mask?): a convolution whose tap (i, j) reads, with bilinear
// weights and zeros outside, at its place plus offset[group, i, j, (y, x)], times mask[group, i,
// j]. Two spatial axes. Sums are sequential: channel, then tap.

// Zeros outside, weights of the four neighbours inside.
template <typename T>
Tap<T> DeformTap(T y, T x, int64_t height, int64_t width) {
  Tap<T> tap;
  if (!(y > -1 && y < static_cast<T>(height) && x > -1 && x < static_cast<T>(width))) return tap;
  const T y0 = std::floor(y), x0 = std::floor(x), ly = y - y0, lx = x - x0;
  const T weights[4] = {(1 - ly) * (1 - lx), (1 - ly) * lx, ly * (1 - lx), ly * lx};
  for (int k = 0; k < 4; ++k) {
    const int64_t row = static_cast<int64_t>(y0) + k / 2, column = static_cast<int64_t>(x0) + k % 2;
    if (row < 0 || row >= height || column < 0 || column >= width) continue;
    tap.at[k] = row * width + column;
    tap.weight[k] = weights[k];
  }
  return tap;
}

constexpr int64_t kPlaces = 8;  // whose samples serve all output channels
constexpr int64_t kRows = 4;    // output channels that are summed together

// Of tap number `tap` at the output places [first, first + count): `shift` holds the places' y
// offsets, and `places` elements behind them the x offsets.
template <typename T>
void FindTaps(const DeformPlan& p, int64_t tap, const T* shift, int64_t places, int64_t columns,
              int64_t first, int64_t count, const std::vector<int64_t>& in, Tap<T>* taps) {
  for (int64_t j = 0; j < count; ++j) {
    const int64_t place = first + j;
    const T y = static_cast<T>(place / columns * p.strides[0] - p.pads[0] +
                               tap / p.kernel[1] * p.dilations[0]) +
                shift[j];
    const T x = static_cast<T>(place % columns * p.strides[1] - p.pads[1] +
                               tap % p.kernel[1] * p.dilations[1]) +
                shift[places + j];
    taps[j] = DeformTap(y, x, in[2], in[3]);
  }
}

// sums[r][j] += sum_i w[r][i] * from[i][j], in order of i.
template <typename T, int64_t kCount>
void AddProducts(const T* w, const T* from, int64_t depth, T (*sums)[kPlaces]) {
  T acc[kCount][kPlaces];
  std::copy_n(sums[0], kCount * kPlaces, acc[0]);
  for (int64_t i = 0; i < depth; ++i) {
    for (int64_t r = 0; r < kCount; ++r) {
      for (int64_t j = 0; j < kPlaces; ++j) acc[r][j] += w[r * depth + i] * from[i * kPlaces + j];
    }
  }
  std::copy_n(acc[0], kCount * kPlaces, sums[0]);
}

template <typename T>
EvalResult DeformConv(const EvalArgs& args) {
  const Tensor &x = args.inputs[0], &w = args.inputs[1], &offset = args.inputs[2];
  EVOQ_ASSIGN(const DeformPlan p, DeformPlanOf(args.node, w.shape()));
  EVOQ_ASSIGN(Tensor y, AllocateOutput(args.output_types[0]));
  const std::vector<int64_t> in = x.sizes(), out = y.sizes();
  const int64_t taps = p.kernel[0] * p.kernel[1], places = out[2] * out[3], channels = w.sizes()[1],
                per_offset = in[1] / p.offset_group;
  const auto fits = [&](const Tensor& t, int64_t count) {
    return t.sizes() == std::vector<int64_t>{in[0], count, out[2], out[3]};
  };
  if (!fits(offset, p.offset_group * taps * 2) ||
      (args.has(4) && !fits(args.inputs[4], p.offset_group * taps)))
    return InvalidInput("offsets {} do not fit the output {}", offset.type().ToString(),
                        y.type().ToString());
  EVOQ_TRY(
      SpendWork({in[0], places, in[1] + 1, taps + 1, out[1] / p.group + 16}, "the convolution"));
  const int64_t depth = channels * taps, plane = in[2] * in[3], per_group = out[1] / p.group;
  std::vector<T> samples(static_cast<size_t>(in[1] * taps * kPlaces));
  for (int64_t i = 0; i < in[0] * CeilDiv(places, kPlaces); ++i) {
    const int64_t n = i / CeilDiv(places, kPlaces), first = i % CeilDiv(places, kPlaces) * kPlaces,
                  count = std::min(kPlaces, places - first);
    for (int64_t k = 0; k < p.offset_group * taps; ++k) {
      const int64_t at = (n * p.offset_group * taps + k) * places + first;  // in the mask
      const int64_t group = k / taps, tap = k % taps;
      Tap<T> found[kPlaces];
      FindTaps(p, tap, offset.data<T>() + at + (n * p.offset_group * taps + k) * places, places,
               out[3], first, count, in, found);
      const T* mask = args.has(4) ? args.inputs[4].data<T>() + at : nullptr;
      for (int64_t c = group * per_offset; c < (group + 1) * per_offset; ++c) {
        const T* from = x.data<T>() + (n * in[1] + c) * plane;
        T* to = samples.data() + (c * taps + tap) * kPlaces;
        for (int64_t j = 0; j < count; ++j) {
          const T v = found[j].Sum(from);
          to[j] = mask != nullptr ? v * mask[j] : v;
        }
      }
    }
    for (int64_t m = 0; m < out[1];) {
      const int64_t rows = std::min(kRows, (m / per_group + 1) * per_group - m);
      T sums[kRows][kPlaces];
      for (int64_t r = 0; r < rows; ++r)
        std::fill_n(sums[r], kPlaces, args.has(3) ? args.inputs[3].data<T>()[m + r] : T{0});
      const T* weights = w.data<T>() + m * depth;
      const T* from = samples.data() + m / per_group * depth * kPlaces;
      if (rows == kRows) {
        AddProducts<T, kRows>(weights, from, depth, sums);
      } else {
        for (int64_t r = 0; r < rows; ++r)
          AddProducts<T, 1>(weights + r * depth, from, depth, sums + r);
      }
      for (int64_t r = 0; r < rows; ++r)
        std::copy_n(sums[r], count, y.mutable_data<T>() + (n * out[1] + m + r) * places + first);
      m += rows;
    }
  }
  return One(std::move(y));
}

EvalResult EvaluateDeformConv(const EvalArgs& args) {
  return EvaluateAsFloats(args, [&](auto tag) { return DeformConv<decltype(tag)>(args); });
}

}  // namespace

namespace reference {

extern const Definition kAffineGrid = {.name = "AffineGrid", .evaluate = EvaluateAffineGrid};
extern const Definition kDeformConv = {.name = "DeformConv", .evaluate = EvaluateDeformConv};
extern const Definition kMaxRoiPool = {.name = "MaxRoiPool", .evaluate = EvaluateMaxRoiPool};
extern const Definition kRoiAlign = {.name = "RoiAlign", .evaluate = EvaluateRoiAlign};

}  // namespace reference
}  // namespace evoq
