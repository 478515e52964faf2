#include "kernels/resize/resize.h"

#include <cmath>
#include <numeric>

#include "kernels/test_util.h"

namespace evoq {
extern const KernelDef kResizeNearest, kResizeLinear, kResizeTaps;
namespace {

double Place(const std::string& mode, double in, double out, double scale, double o) {
  if (mode == "align_corners") return out > 1 ? o * (in - 1) / (out - 1) : 0;
  if (mode == "asymmetric") return o / scale;
  if (mode == "pytorch_half_pixel" && out <= 1) return 0;
  if (mode == "half_pixel_symmetric")
    return in / 2 * (1 - out / (scale * in)) + (o + 0.5) / scale - 0.5;
  return (o + 0.5) / scale - 0.5;
}

int64_t Inside(double at, int64_t n) {
  return static_cast<int64_t>(std::min(std::max(at, 0.0), static_cast<double>(n - 1)));
}

// [outer, n, inner] -> [outer, out, inner] along one axis, as resize.h says.
std::vector<float> Axis(const std::vector<float>& x, int64_t outer, int64_t n, int64_t inner,
                        int64_t out, double scale, const std::string& mode,
                        const std::string& nearest) {
  std::vector<float> y(static_cast<size_t>(outer * out * inner));
  for (int64_t a = 0; a < outer; ++a) {
    for (int64_t o = 0; o < out; ++o) {
      const double place = Place(mode, static_cast<double>(n), static_cast<double>(out), scale,
                                 static_cast<double>(o));
      const double base = std::floor(place);
      for (int64_t i = 0; i < inner; ++i) {
        const auto at = [&](double p) { return x[(a * n + Inside(p, n)) * inner + i]; };
        float& v = y[(a * out + o) * inner + i];
        if (nearest == "floor")
          v = at(std::floor(place));
        else if (nearest == "ceil")
          v = at(std::ceil(place));
        else if (nearest == "round_prefer_floor")
          v = at(std::ceil(place - 0.5));
        else if (nearest == "round_prefer_ceil")
          v = at(std::floor(place + 0.5));
        else {
          const auto w0 = static_cast<float>(1 - (place - base)),
                     w1 = static_cast<float>(std::max(0.0, 1 - std::fabs(base + 1 - place)));
          const float first = w0 * at(base);
          v = first + w1 * at(base + 1);
        }
      }
    }
  }
  return y;
}

struct Case {
  std::vector<int64_t> in, out;  // N, spatial, C when channels last, else N, C, spatial
  bool last;
};

// Every axis of the case that changes, in ascending order: `axis(x, outer, in, inner, out)`.
template <typename AxisFn>
std::vector<float> EachAxis(const Case& s, std::vector<float> x, const AxisFn& axis_of) {
  std::vector<int64_t> sizes = s.in;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    if (s.in[axis] == s.out[axis]) continue;
    int64_t outer = 1, inner = 1;
    for (size_t i = 0; i < axis; ++i) outer *= sizes[i];
    for (size_t i = axis + 1; i < sizes.size(); ++i) inner *= sizes[i];
    x = axis_of(x, outer, sizes[axis], inner, s.out[axis]);
    sizes[axis] = s.out[axis];
  }
  return x;
}

// `nearest` empty for linear.
std::vector<float> Reference(const Case& s, std::vector<float> x, const std::string& mode,
                             const std::string& nearest) {
  return EachAxis(
      s, std::move(x),
      [&](const std::vector<float>& v, int64_t outer, int64_t in, int64_t inner, int64_t out) {
        return Axis(v, outer, in, inner, out, static_cast<double>(out) / static_cast<double>(in),
                    mode, nearest);
      });
}

TestCall MakeCall(const Case& s, TensorType x, TensorType y, const std::string& mode,
                  const std::string& coordinates) {
  TestCall t;
  t.op = "Resize";
  if (s.last) t.attrs.Set("channels_last", 1);
  t.attrs.Set("mode", mode.c_str());
  t.attrs.Set("coordinate_transformation_mode", coordinates.c_str());
  x.shape = Shape(s.in);
  y.shape = Shape(s.out);
  std::vector<int64_t> sizes = s.out;
  if (s.last) {
    sizes.insert(sizes.begin() + 1, sizes.back());
    sizes.pop_back();
  }
  t.inputs = {RandomTensor(x, 1), Tensor(), Tensor(), Tensor::FromValues(sizes)};
  t.is_constant = {false, false, false, true};
  t.outputs = {y};
  return t;
}

const Case kCases[] = {{{1, 7, 9, 20}, {1, 14, 18, 20}, true},
                       {{2, 3, 8, 10}, {2, 3, 16, 5}, false},
                       {{1, 6, 6, 64}, {1, 9, 6, 64}, true},
                       {{2, 11, 3}, {2, 5, 3}, true},
                       {{1, 3, 4, 5, 17}, {1, 6, 3, 10, 17}, true},
                       {{1, 2, 3, 4, 5}, {1, 2, 1, 8, 7}, false},
                       // Twice as wide, in short and in long rows; planes that stay; rows of
                       // several planes and images for threads.
                       {{1, 2, 3, 2}, {1, 2, 3, 4}, false},
                       {{2, 2, 4, 21}, {2, 2, 7, 42}, false},
                       {{2, 2, 3, 4, 5}, {2, 2, 3, 8, 7}, false},
                       {{2, 3, 5, 6, 100}, {2, 3, 8, 6, 200}, false},
                       // Eight times, hardly and twice as wide, of rows that eights do not fill.
                       {{1, 3, 3, 9}, {1, 3, 5, 71}, false},
                       {{1, 2, 2, 70}, {1, 2, 2, 83}, false},
                       {{1, 2, 8, 15}, {1, 2, 16, 30}, false},
                       {{1, 4, 33, 1}, {1, 9, 65, 1}, true}};
const char* const kModes[] = {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric",
                              "half_pixel_symmetric"};

TEST(Resize, NearestPicksElements) {
  for (const Case& s : kCases) {
    for (const char* mode : kModes) {
      for (const char* nearest : {"floor", "ceil", "round_prefer_floor", "round_prefer_ceil"}) {
        for (DType dtype : {DType::kFloat32, DType::kUint8}) {
          if (s.out.back() == 200 && std::string(nearest) != "floor") continue;
          const TensorType type = dtype == DType::kUint8
                                      ? TensorType(dtype, Shape{}, QuantParams::PerTensor(1, 0))
                                      : TensorType(dtype, Shape{});
          TestCall t = MakeCall(s, type, type, "nearest", mode);
          t.attrs.Set("nearest_mode", nearest);
          const Tensor real = ToFloat32(t.inputs[0]).value();
          const auto picked = Reference(
              s, {real.values<float>().begin(), real.values<float>().end()}, mode, nearest);
          const Tensor as_float = Tensor::FromValues(Shape(s.out), picked);
          const Tensor want =
              dtype == DType::kUint8 ? QuantizeTensor(as_float, t.outputs[0]).value() : as_float;
          const auto got = RunKernel(kResizeNearest, t, Isa::kScalar, 2);
          EXPECT_EQ(FirstDifference(got[0], want), "")
              << mode << " " << nearest << " " << Shape(s.in).ToString();
        }
      }
    }
  }
}

TEST(Resize, LinearEqualsTheDefinition) {
  const TensorType f32(DType::kFloat32, Shape{}),
      x8(DType::kUint8, Shape{}, QuantParams::PerTensor(0.03f, 120)),
      y8(DType::kUint8, Shape{}, QuantParams::PerTensor(0.025f, 110));
  for (const Case& s : kCases) {
    for (const char* mode : kModes) {
      for (bool bytes : {false, true}) {
        const TestCall t = MakeCall(s, bytes ? x8 : f32, bytes ? y8 : f32, "linear", mode);
        const Tensor real = ToFloat32(t.inputs[0]).value();
        const Tensor blended = Tensor::FromValues(
            Shape(s.out),
            Reference(s, {real.values<float>().begin(), real.values<float>().end()}, mode, ""));
        ExpectKernel(kResizeLinear, t,
                     {bytes ? QuantizeTensor(blended, t.outputs[0]).value() : blended},
                     std::string(mode) + Shape(s.in).ToString());
      }
    }
  }
}

// Elements of two and of eight bytes: o looks at o / 2.
TEST(Resize, NearestOfOtherWidths) {
  for (DType dtype : {DType::kInt16, DType::kInt64}) {
    for (bool last : {false, true}) {
      const TensorType type(dtype, Shape{});
      TestCall t =
          MakeCall(last ? Case{{1, 3, 2}, {1, 6, 2}, true} : Case{{1, 2, 3}, {1, 2, 6}, false},
                   type, type, "nearest", "asymmetric");
      t.attrs.Set("nearest_mode", "floor");
      const auto x = ToInt64s(t.inputs[0]).value(),
                 y = ToInt64s(RunKernel(kResizeNearest, t, Isa::kScalar)[0]).value();
      ASSERT_EQ(y.size(), 12u);
      for (size_t i = 0; i < 12; ++i)
        EXPECT_EQ(y[i], last ? x[i / 4 * 2 + i % 2] : x[i / 6 * 3 + i % 6 / 2])
            << DTypeName(dtype) << " " << i;
    }
  }
}

// Places by given scales are float32, where 3 / 0.3f is 10; by sizes double.
TEST(Resize, NearestByScalesOfFloat32) {
  TestCall t;
  t.op = "Resize";
  std::vector<float> values(20);
  std::iota(values.begin(), values.end(), 0.0f);
  t.inputs = {Tensor::FromValues(Shape{1, 1, 20}, values), Tensor(),
              Tensor::FromValues<float>(Shape{3}, {1, 1, 0.3f})};
  t.is_constant = {false, false, true};
  t.outputs = {TensorType(DType::kFloat32, Shape{1, 1, 6})};
  t.attrs.Set("coordinate_transformation_mode", "asymmetric");
  t.attrs.Set("nearest_mode", "floor");
  ExpectKernel(kResizeNearest, t,
               {Tensor::FromValues<float>(Shape{1, 1, 6}, {0, 3, 6, 10, 13, 16})}, "scales");
}

// Scales as an input, by name of their axes, and what stands where an attribute is not there:
// half_pixel, round_prefer_floor.
TEST(Resize, ScalesAndDefaults) {
  TestCall t;
  t.op = "Resize";
  t.inputs = {Tensor::FromValues<float>(Shape{1, 1, 4}, {10, 20, 30, 40}), Tensor(),
              Tensor::FromValues<float>(Shape{3}, {1, 1, 0.6f})};
  t.is_constant = {false, false, true};
  t.outputs = {TensorType(DType::kFloat32, Shape{1, 1, 2})};
  // Places (o + 0.5) / 0.6 - 0.5: 1/3 and 2. With the scale 2 / 4 of the sizes they would be 0.5
  // and 2.5.
  ExpectKernel(kResizeNearest, t, {Tensor::FromValues<float>(Shape{1, 1, 2}, {10, 30})}, "scales");
  t.attrs.Set("axes", std::vector<int64_t>{-1});
  t.inputs[2] = Tensor::FromValues<float>(Shape{1}, {0.4f});
  // Places 0.75 and 3.25.
  ExpectKernel(kResizeNearest, t, {Tensor::FromValues<float>(Shape{1, 1, 2}, {20, 40})}, "axes");
  t.inputs[2] = Tensor::FromValues<float>(Shape{1}, {0.5f});
  // Places 0.5 and 2.5, of which the lower neighbour is taken.
  ExpectKernel(kResizeNearest, t, {Tensor::FromValues<float>(Shape{1, 1, 2}, {10, 30})}, "halves");
}

// One axis of [outer, n, inner] by taps of weight w(distance * stretch), over all of the input.
std::vector<float> TapAxis(const std::vector<float>& x, int64_t outer, int64_t n, int64_t inner,
                           int64_t out, bool cubic, bool antialias, bool exclude) {
  const double scale = static_cast<double>(out) / static_cast<double>(n),
               stretch = antialias ? std::min(scale, 1.0) : 1;
  const auto reach = static_cast<int>((cubic ? 2 : 1) / stretch) + 2;
  std::vector<float> y(static_cast<size_t>(outer * out * inner));
  for (int64_t o = 0; o < out; ++o) {
    const double place = (static_cast<double>(o) + 0.5) / scale - 0.5, base = std::floor(place);
    std::vector<std::pair<int64_t, double>> taps;
    double sum = 0;
    for (int k = -reach; k <= reach; ++k) {
      const double at = base + k, d = std::fabs((at - place) * stretch), a = -0.75;
      double w = cubic ? (d <= 1  ? ((a + 2) * d - (a + 3)) * d * d + 1
                          : d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
                                  : 0)
                       : std::max(0.0, 1 - d);
      if (exclude && (at < 0 || at > static_cast<double>(n - 1))) w = 0;
      if (w != 0) taps.emplace_back(Inside(at, n), w);
      sum += w;
    }
    for (auto& tap : taps) tap.second /= antialias || exclude ? sum : 1;
    for (int64_t a = 0; a < outer; ++a) {
      for (int64_t i = 0; i < inner; ++i) {
        float v = 0;
        for (const auto& [at, w] : taps) v += static_cast<float>(w) * x[(a * n + at) * inner + i];
        y[(a * out + o) * inner + i] = v;
      }
    }
  }
  return y;
}

TEST(Resize, AnyTapsEqualTheDefinition) {
  const TensorType f32(DType::kFloat32, Shape{});
  for (const Case& s : kCases) {
    if (s.in.size() == 5) continue;
    for (int way = 1; way < 8; ++way) {
      const bool cubic = way % 2 != 0, antialias = way / 2 % 2 != 0, exclude = way / 4 != 0;
      TestCall t = MakeCall(s, f32, f32, cubic ? "cubic" : "linear", "half_pixel");
      t.attrs.Set("antialias", static_cast<int64_t>(antialias));
      t.attrs.Set("exclude_outside", static_cast<int64_t>(exclude));
      const auto values = t.inputs[0].values<float>();
      const std::vector<float> want = EachAxis(
          s, {values.begin(), values.end()},
          [&](const std::vector<float>& v, int64_t outer, int64_t in, int64_t inner, int64_t out) {
            return TapAxis(v, outer, in, inner, out, cubic, antialias, exclude);
          });
      const std::string what = fmt::format("{} {}", Shape(s.in).ToString(), way);
      const Tensor scalar = RunKernel(kResizeTaps, t, Isa::kScalar)[0];
      for (int64_t i = 0; i < scalar.elements(); ++i)
        ASSERT_NEAR(scalar.data<float>()[i], want[static_cast<size_t>(i)], 1e-5)
            << what << " " << i;
      ExpectKernel(kResizeTaps, t, {scalar}, what);
      EXPECT_EQ(RejectOf(kResizeLinear, t)->code, "attribute") << what;
    }
  }
}

TEST(Resize, LeavesTheRestToTheReference) {
  const TensorType f32(DType::kFloat32, Shape{});
  TestCall t = MakeCall(kCases[0], f32, f32, "cubic", "half_pixel");
  EXPECT_EQ(RejectOf(kResizeLinear, t)->code, "attribute");
  t = MakeCall(kCases[0], f32, f32, "linear", "tf_crop_and_resize");
  EXPECT_EQ(RejectOf(kResizeLinear, t)->code, "attribute");
  EXPECT_EQ(RejectOf(kResizeTaps, t)->code, "attribute");
  EXPECT_EQ(RejectOf(kResizeTaps, MakeCall(kCases[4], f32, f32, "cubic", "half_pixel"))->sentence,
            "rank 5, expected 3 to 4");
  EXPECT_EQ(RejectOf(kResizeTaps, MakeCall(kCases[0], f32, f32, "nearest", "half_pixel"))->sentence,
            "mode nearest");
  const TensorType bytes(DType::kUint8, Shape{}, QuantParams::PerTensor(1, 0));
  EXPECT_EQ(RejectOf(kResizeTaps, MakeCall(kCases[0], bytes, bytes, "cubic", "half_pixel"))->code,
            "types");
}

}  // namespace
}  // namespace evoq
