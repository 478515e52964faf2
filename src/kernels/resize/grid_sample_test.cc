#include <cmath>
#include <limits>

#include "kernels/resize/grid_taps.h"
#include "kernels/test_util.h"

namespace evoq {
extern const KernelDef kGridSampleKernel;
namespace {

// One place at a time; zeros outside are not added.
Tensor Expected(const GridSampling& sampling, const Tensor& x, const Tensor& grid) {
  const auto in = x.sizes(), at = grid.sizes();
  Tensor y = Tensor::Allocate(TensorType(DType::kFloat32, Shape{in[0], in[1], at[1], at[2]}));
  const int64_t places = at[1] * at[2];
  for (int64_t i = 0; i < y.elements(); ++i) {
    const float* place = grid.data<float>() + (i / places / in[1] * places + i % places) * 2;
    const auto rows = TapsAt(sampling, place[1], in[2]),
               columns = TapsAt(sampling, place[0], in[3]);
    float sum = 0;
    for (int a = 0; a < rows.count; ++a) {
      float row = 0;
      for (int b = 0; b < columns.count; ++b) {
        if (columns.index[b] >= 0 && rows.index[a] >= 0)
          row += columns.weight[b] *
                 x.data<float>()[(i / places * in[2] + rows.index[a]) * in[3] + columns.index[b]];
      }
      if (rows.index[a] >= 0) sum += rows.weight[a] * row;
    }
    y.mutable_data<float>()[i] = sum;
  }
  return y;
}

// Of [N, C, H, W], as [N, H, W, C].
Tensor WithChannelsLast(const Tensor& x) {
  const auto n = x.sizes();
  Tensor y = Tensor::Allocate(TensorType(DType::kFloat32, Shape{n[0], n[2], n[3], n[1]}));
  for (int64_t i = 0; i < x.elements(); ++i) {
    const int64_t plane = n[2] * n[3], pixel = i % plane, c = i / plane % n[1],
                  image = i / plane / n[1];
    y.mutable_data<float>()[(image * plane + pixel) * n[1] + c] = x.data<float>()[i];
  }
  return y;
}

TEST(GridSampleKernel, ModesAndPaddings) {
  const std::vector<int64_t> shapes[][2] = {
      {{1, 3, 4, 5}, {1, 2, 3, 2}},    {{2, 5, 9, 7}, {2, 8, 8, 2}},  {{1, 2, 1, 1}, {1, 5, 13, 2}},
      {{3, 1, 6, 20}, {3, 1, 129, 2}}, {{2, 35, 5, 6}, {2, 4, 7, 2}}, {{1, 0, 2, 2}, {1, 3, 3, 2}},
      {{2, 2, 2, 2}, {2, 0, 3, 2}}};
  for (const auto& [xs, gs] : shapes) {
    for (const char* mode : {"nearest", "linear", "cubic"}) {
      for (const char* padding : {"zeros", "border", "reflection"}) {
        for (int64_t corners : {0, 1}) {
          TestCall t;
          t.op = "GridSample";
          t.attrs.Set("mode", mode);
          t.attrs.Set("padding_mode", padding);
          t.attrs.Set("align_corners", corners);
          Tensor x = RandomTensor(TensorType(DType::kFloat32, Shape(xs)), 1),
                 grid = RandomTensor(TensorType(DType::kFloat32, Shape(gs)), 2);
          for (int64_t i = 0; i < grid.elements(); ++i) grid.mutable_data<float>()[i] *= 0.8f;
          if (grid.elements() > 8) {
            grid.mutable_data<float>()[0] = std::nanf("");
            grid.mutable_data<float>()[3] = -7.5f;
          }
          if (x.elements() > 8) x.mutable_data<float>()[0] = std::numeric_limits<float>::infinity();
          t.inputs = {x, grid};
          t.outputs = {TensorType(DType::kFloat32, Shape{xs[0], xs[1], gs[1], gs[2]})};
          const auto sampling = GridSamplingOf(t.attrs);
          ASSERT_TRUE(sampling);
          const Tensor y = Expected(*sampling, x, grid);
          const std::string what =
              fmt::format("{} {} {} {}", Shape(xs).ToString(), mode, padding, corners);
          ExpectKernel(kGridSampleKernel, t, {y}, what);
          t.attrs.Set("channels_last", int64_t{1});
          t.inputs[0] = WithChannelsLast(x);
          const Tensor last = WithChannelsLast(y);
          t.outputs = {last.type()};
          ExpectKernel(kGridSampleKernel, t, {last}, what + ", channels last");
        }
      }
    }
  }
}

TEST(GridSampleKernel, Rejects) {
  TestCall t;
  t.op = "GridSample";
  const auto zeros = [](std::vector<int64_t> sizes) {
    return Tensor::Allocate(TensorType(DType::kFloat32, Shape(std::move(sizes))));
  };
  t.inputs = {zeros({1, 2, 3, 4}), zeros({1, 5, 6, 2})};
  t.outputs = {TensorType(DType::kFloat32, Shape{1, 2, 5, 6})};
  EXPECT_FALSE(RejectOf(kGridSampleKernel, t));
  TestCall other = t;
  other.attrs.Set("mode", "best");
  EXPECT_EQ(RejectOf(kGridSampleKernel, other)->code, "attribute");
  other = t;
  other.inputs[0] = zeros({1, 2, 0, 4});
  EXPECT_EQ(RejectOf(kGridSampleKernel, other)->code, "shape");
  other = t;
  other.inputs[1] = zeros({1, 5, 7, 2});
  EXPECT_EQ(RejectOf(kGridSampleKernel, other)->code, "shape");
  other = t;
  other.inputs = {zeros({1, 2, 3}), zeros({1, 5, 1})};
  other.outputs = {TensorType(DType::kFloat32, Shape{1, 2, 5})};
  EXPECT_EQ(RejectOf(kGridSampleKernel, other)->code, "shape");
  other = t;
  other.inputs[0] = Tensor::Allocate(TensorType(DType::kFloat64, Shape{1, 2, 3, 4}));
  EXPECT_EQ(RejectOf(kGridSampleKernel, other)->code, "types");
}

}  // namespace
}  // namespace evoq
