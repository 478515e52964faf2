// Einsum, NonMaxSuppression, GridSample and Resize of integers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/test_util.h"

namespace evoq {
namespace {

Tensor RunEinsum(const char* equation, const std::vector<Tensor>& inputs) {
  return Eval(NodeOf("Einsum", static_cast<int>(inputs.size()),
                     WithAttrs({{"equation", std::string(equation)}})),
              inputs);
}

TEST(Einsum, ProductsDiagonalsAndBroadcasts) {
  const Tensor a = Floats({2, 2}, {1, 2, 3, 4}), b = Floats({2, 2}, {1, 0, 10, 1});
  EXPECT_EQ(ToVector(RunEinsum("ij, jk -> ik", {a, b})), (std::vector<float>{21, 2, 43, 4}));
  EXPECT_EQ(ToVector(RunEinsum("ii->i", {a})), (std::vector<float>{1, 4}));
  EXPECT_EQ(ToVector(RunEinsum("ii", {a})), (std::vector<float>{5}));
  EXPECT_EQ(ToVector(RunEinsum("ba", {a})), (std::vector<float>{1, 3, 2, 4}));
  const Tensor batched =
      RunEinsum("...ij,...j->...i", {Floats({2, 1, 2}, {1, 2, 3, 4}), Floats({2}, {10, 1})});
  EXPECT_EQ(batched.type().ToString(), "float32[2, 1]");
  EXPECT_EQ(ToVector(batched), (std::vector<float>{12, 34}));
}

TEST(Einsum, Errors) {
  const Tensor a = Floats({2, 2}, {1, 2, 3, 4});
  const auto message = [&](const char* equation) {
    return EvalError(NodeOf("Einsum", 1, WithAttrs({{"equation", std::string(equation)}})), {a});
  };
  EXPECT_EQ(message("ij,jk->ik"),
            "node node (Einsum): attribute equation 'ij,jk->ik' does not have 1 terms");
  EXPECT_EQ(message("ijk->i"),
            "node node (Einsum): attribute equation: 'ijk' stands for an input of rank 2");
  EXPECT_EQ(message("ij->k"),
            "node node (Einsum): attribute equation: the output has a label that no input has");
  EXPECT_EQ(message("i1->i"), "node node (Einsum): attribute equation: unexpected '1' in 'i1'");
}

TEST(NonMaxSuppression, KeepsTheBestOfEachHeap) {
  // Boxes 0 and 1 overlap by 9 / 11; box 2 is apart; corners may come in any order.
  const Tensor boxes = Floats({1, 3, 4}, {0, 0, 1, 1, 1.1f, 1, 0.1f, 0, 5, 5, 6, 6});
  const Tensor scores = Floats({1, 1, 3}, {0.8f, 0.9f, 0.5f});
  const auto run = [&](int64_t most, float overlap, float score) {
    return ToVector<int64_t>(Eval(
        NodeOf("NonMaxSuppression", 5),
        {boxes, scores, Tensor::Scalar(most), Tensor::Scalar(overlap), Tensor::Scalar(score)}));
  };
  EXPECT_EQ(run(10, 0.5f, 0), (std::vector<int64_t>{0, 0, 1, 0, 0, 2}));
  EXPECT_EQ(run(10, 0.9f, 0), (std::vector<int64_t>{0, 0, 1, 0, 0, 0, 0, 0, 2}));
  EXPECT_EQ(run(1, 0.9f, 0), (std::vector<int64_t>{0, 0, 1}));
  EXPECT_EQ(run(10, 0.9f, 0.8f), (std::vector<int64_t>{0, 0, 1}));
}

TEST(GridSample, ModesAndPaddings) {
  const Tensor x = Floats({1, 1, 4}, {10, 20, 30, 40});
  // Places -0.5, 1.25, 3.5 and 5 of 4 samples.
  const Tensor grid = Floats({1, 4, 1}, {-1, -0.125f, 1, 1.75f});
  const auto run = [&](const char* mode, const char* padding) {
    return ToVector(Eval(
        NodeOf("GridSample", 2,
               WithAttrs({{"mode", std::string(mode)}, {"padding_mode", std::string(padding)}})),
        {x, grid}));
  };
  EXPECT_EQ(run("linear", "zeros"), (std::vector<float>{5, 22.5f, 20, 0}));
  EXPECT_EQ(run("linear", "border"), (std::vector<float>{10, 22.5f, 40, 40}));
  EXPECT_EQ(run("linear", "reflection"), (std::vector<float>{10, 22.5f, 40, 30}));
  EXPECT_EQ(run("nearest", "zeros"), (std::vector<float>{10, 20, 0, 0}));
  const Attrs corners = WithAttrs({{"align_corners", int64_t{1}}});
  EXPECT_EQ(ToVector(Eval(NodeOf("GridSample", 2, corners), {x, Floats({1, 3, 1}, {-1, 0, 1})})),
            (std::vector<float>{10, 25, 40}));
}

Tensor ResizedBy(const Tensor& x, float scale, const Attrs& attrs) {
  return Eval(NodeOf("Resize", 3, attrs), {x, Tensor(), Floats({1}, {scale})});
}

// What ONNX Runtime gives: the fraction is cut off, towards zero.
TEST(ResizeIntegers, LinearCutsOffTheFraction) {
  const Attrs linear = WithAttrs({{"mode", std::string("linear")}});
  // 10, 12.75, 18.25, 21 and their negatives.
  const auto x = Tensor::FromValues<uint8_t>(Shape{2}, {10, 21});
  EXPECT_EQ(ToVector<uint8_t>(ResizedBy(x, 2, linear)), (std::vector<uint8_t>{10, 12, 18, 21}));
  const auto negative = Tensor::FromValues<int8_t>(Shape{2}, {-10, -21});
  EXPECT_EQ(ToVector<int8_t>(ResizedBy(negative, 2, linear)),
            (std::vector<int8_t>{-10, -12, -18, -21}));
  const auto most = Tensor::FromValues<int32_t>(
      Shape{2}, {std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::min()});
  EXPECT_EQ(ToVector<int32_t>(ResizedBy(most, 2, linear))[0], std::numeric_limits<int32_t>::max());
  // float64 has the last bit of 2^50 + 1.
  const int64_t wide = (int64_t{1} << 50) + 1;
  EXPECT_EQ(ToVector<int64_t>(
                ResizedBy(Tensor::FromValues<int64_t>(Shape{2}, {wide, wide}), 2, linear))[1],
            wide);
}

TEST(ResizeIntegers, CubicAndAntialiasRoundAndSaturate) {
  // Overshoots left of the step, by up to 0.1 of it.
  const std::vector<float> step = {0, 0, 0, 255, 255, 255};
  const Attrs cubic = WithAttrs({{"mode", std::string("cubic")}});
  const std::vector<float> real = ToVector(ResizedBy(Floats({6}, step), 2, cubic));
  const auto bytes = ToVector<uint8_t>(
      ResizedBy(Tensor::FromValues<uint8_t>(Shape{6}, {step.begin(), step.end()}), 2, cubic));
  ASSERT_EQ(bytes.size(), real.size());
  EXPECT_LT(*std::min_element(real.begin(), real.end()), -10);
  EXPECT_GT(*std::max_element(real.begin(), real.end()), 265);
  for (size_t i = 0; i < real.size(); ++i)
    EXPECT_EQ(bytes[i], std::clamp(std::nearbyint(real[i]), 0.0f, 255.0f)) << i;
  // 4 inputs with weights 1/8, 3/8, 3/8, 1/8, those outside at the ends: (7 * 3 + 9) / 8, ...
  const Attrs smooth = WithAttrs({{"mode", std::string("linear")}, {"antialias", int64_t{1}}});
  const auto x = Tensor::FromValues<uint8_t>(Shape{4}, {3, 5, 9, 30});
  const std::vector<float> averages = ToVector(ResizedBy(Floats({4}, {3, 5, 9, 30}), 0.5f, smooth));
  const auto got = ToVector<uint8_t>(ResizedBy(x, 0.5f, smooth));
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], std::nearbyint(averages[i])) << i;
}

TEST(ResizeIntegers, CropsAndBools) {
  const Attrs crop =
      WithAttrs({{"coordinate_transformation_mode", std::string("tf_crop_and_resize")},
                 {"extrapolation_value", 7.0f}});
  const auto x = Tensor::FromValues<uint8_t>(Shape{4}, {10, 20, 30, 40});
  const Tensor y = Eval(NodeOf("Resize", 3, crop), {x, Floats({2}, {0, 2}), Floats({1}, {1})});
  EXPECT_EQ(ToVector<uint8_t>(y), (std::vector<uint8_t>{10, 30, 7, 7}));
  const Tensor no = Tensor::Allocate(TensorType(DType::kBool, Shape{2}));
  EXPECT_EQ(EvalError(NodeOf("Resize", 3, WithAttrs({{"mode", std::string("linear")}})),
                      {no, Tensor(), Floats({1}, {2})}),
            "node node (Resize): input 0 is bool in mode linear, expected numbers: a Cast in front "
            "makes them");
}

}  // namespace
}  // namespace evoq
