// topk_f32 beside a plain sort.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/test_util.h"

namespace evoq {
extern const KernelDef kTopKFloat;
namespace {

TestCall CallOf(const Tensor& x, int64_t k) {
  TestCall t;
  t.op = "TopK";
  t.inputs = {x, Tensor::FromValues<int64_t>(Shape{1}, {k})};
  t.is_constant = {false, true};
  std::vector<int64_t> sizes = x.sizes();
  sizes.back() = k;
  t.outputs = {TensorType(DType::kFloat32, Shape(sizes)), TensorType(DType::kInt64, Shape(sizes))};
  return t;
}

std::vector<Tensor> Expected(const TestCall& t) {
  const Tensor& x = t.inputs[0];
  Tensor values = Tensor::Allocate(t.outputs[0]), places = Tensor::Allocate(t.outputs[1]);
  const int64_t size = x.sizes().back(), k = t.outputs[0].shape.sizes().back();
  for (int64_t r = 0; r * size < x.elements(); ++r) {
    const float* row = x.data<float>() + r * size;
    std::vector<int64_t> order(static_cast<size_t>(size));
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      if (std::isnan(row[a]) != std::isnan(row[b])) return std::isnan(row[a]);
      return std::isnan(row[a]) || row[a] == row[b] ? a < b : row[a] > row[b];
    });
    for (int64_t i = 0; i < k; ++i) {
      values.mutable_data<float>()[r * k + i] = row[order[static_cast<size_t>(i)]];
      places.mutable_data<int64_t>()[r * k + i] = order[static_cast<size_t>(i)];
    }
  }
  return {values, places};
}

TEST(TopK, EqualsASort) {
  std::mt19937 random(1);
  for (const auto& [rows, size, k] : {std::array<int64_t, 3>{1, 1, 1},
                                      {3, 8, 3},
                                      {70, 64, 64},
                                      {5, 200, 8},
                                      {2, 5, 0},
                                      {0, 5, 2}}) {
    Tensor x = Tensor::Allocate(TensorType(DType::kFloat32, Shape{rows, size}));
    for (int64_t i = 0; i < x.elements(); ++i)
      x.mutable_data<float>()[i] = random() % 11 == 0 ? NAN : static_cast<float>(random() % 9) - 4;
    const TestCall t = CallOf(x, k);
    ExpectKernel(kTopKFloat, t, Expected(t), fmt::format("{} of {}", k, size));
  }
}

TEST(TopK, PlacesMayBeLeftOut) {
  TestCall t = CallOf(Tensor::FromValues<float>(Shape{2, 3}, {1, 3, 2, 6, 5, 4}), 2);
  std::vector<Tensor> expected = Expected(t);
  t.outputs.pop_back();
  expected.pop_back();
  ExpectKernel(kTopKFloat, t, expected, "not there");
}

TEST(TopK, RejectsWithAReason) {
  const TestCall good = CallOf(Tensor::Allocate(TensorType(DType::kFloat32, Shape{2, 90})), 3);
  const auto code = [&](const auto& change) {
    TestCall t = good;
    change(t);
    const auto why = RejectOf(kTopKFloat, t);
    return why ? std::string(why->code) : "";
  };
  EXPECT_EQ(code([](TestCall&) {}), "");
  EXPECT_EQ(code([](TestCall& t) { t.attrs.Set("axis", int64_t{1}); }), "");
  EXPECT_EQ(code([](TestCall& t) { t.attrs.Set("axis", int64_t{0}); }), "attribute");
  EXPECT_EQ(code([](TestCall& t) { t.attrs.Set("largest", int64_t{0}); }), "attribute");
  EXPECT_EQ(code([](TestCall& t) { t.outputs[0].shape = Shape{2, 65}; }), "shape");
  EXPECT_EQ(code([](TestCall& t) { t.outputs[0].dtype = DType::kInt32; }), "types");
}

}  // namespace
}  // namespace evoq
