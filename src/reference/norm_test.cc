#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "reference/test_util.h"

namespace evoq {
namespace {

using Ints = std::vector<int64_t>;

void ExpectNear(const Tensor& tensor, const std::vector<float>& expected) {
  const std::vector<float> values = ToVector(tensor);
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(values[i], expected[i], 1e-5) << "element " << i;
}

TEST(Norm, Batch) {
  const auto channel = [](float a, float b) { return Floats({2}, {a, b}); };
  const Node node = NodeOf("BatchNormalization", 5, WithAttrs({{"epsilon", 1.0f}}));
  const Tensor y = Eval(node, {Floats({1, 2, 2}, {1, 3, 10, 20}), channel(2, 6), channel(5, -1),
                               channel(1, 10), channel(3, 8)});
  // (x - mean) * scale / 2 + bias, (x - mean) * scale / 3 + bias.
  ExpectNear(y, {5, 7, -1, 19});
  EXPECT_EQ(EvalError(node, {Floats({1, 2, 2}, {1, 3, 10, 20}), Floats({3}, {0, 0, 0}),
                             channel(5, -1), channel(1, 10), channel(3, 8)}),
            "node node (BatchNormalization): input 1 has 3 elements, expected one for each of 2 "
            "channels");
}

// A plane whose values differ little beside their mean: what a sum in order loses does not count.
TEST(Norm, InstancesOfNearlyEqualValues) {
  constexpr int64_t kSize = 20000;
  std::vector<float> values;
  for (int64_t i = 0; i < kSize; ++i)
    values.push_back(100.3f + 0.01f * std::sin(static_cast<float>(i)));
  double mean = 0, squares = 0;
  for (float v : values) mean += static_cast<double>(v) / kSize;
  for (float v : values) squares += (v - mean) * (v - mean) / kSize;
  const Tensor one = Tensor::FromValues<float>({1}, {1}),
               zero = Tensor::FromValues<float>({1}, {0});
  const Tensor y = Eval(NodeOf("InstanceNormalization", 3),
                        {Tensor::FromValues<float>({1, 1, kSize}, values), one, zero});
  for (int64_t i = 0; i < kSize; ++i)
    ASSERT_NEAR(y.data<float>()[i], (values[i] - mean) / std::sqrt(squares + 1e-5), 2e-3) << i;
}

TEST(Norm, InstanceGroupAndMeanVariance) {
  const Tensor x = Floats({1, 2, 2}, {1, 3, 10, 30}), scale = Floats({2}, {1, 2}),
               bias = Floats({2}, {0, 5});
  const Attrs no_epsilon = WithAttrs({{"epsilon", 0.0f}});
  ExpectNear(Eval(NodeOf("InstanceNormalization", 3, no_epsilon), {x, scale, bias}), {-1, 1, 3, 7});
  Attrs two_groups = no_epsilon;
  two_groups.Set("num_groups", 2);
  ExpectNear(Eval(NodeOf("GroupNormalization", 3, two_groups), {x, scale, bias}), {-1, 1, 3, 7});
  ExpectNear(Eval(NodeOf("MeanVarianceNormalization", 1, WithAttrs({{"axes", Ints{2}}})), {x}),
             {-1, 1, -1, 1});
}

TEST(Norm, LayerWithMomentsAndRms) {
  Node node = NodeOf("LayerNormalization", 3, WithAttrs({{"axis", int64_t{1}}, {"epsilon", 0.0f}}));
  node.outputs = {ValueId{3}, ValueId{4}, ValueId{5}};
  const std::vector<Tensor> inputs = {Floats({2, 1, 2}, {1, 5, -3, -4}), Floats({2}, {1, 10}),
                                      Floats({1}, {0.5f})};
  auto outputs = EvaluateNode(node, inputs, std::vector<TensorType>(3));
  ASSERT_TRUE(outputs) << outputs.error().message();
  ExpectNear((*outputs)[0], {-0.5f, 10.5f, 1.5f, -9.5f});
  EXPECT_EQ((*outputs)[1].type().ToString(), "float32[2, 1, 1]");
  ExpectNear((*outputs)[1], {3, -3.5f});
  ExpectNear((*outputs)[2], {0.5f, 2});
  // sqrt(mean of squares of 1 and 7) = 5.
  ExpectNear(Eval(NodeOf("RMSNormalization", 2, WithAttrs({{"epsilon", 0.0f}})),
                  {Floats({1, 2}, {1, 7}), Floats({2}, {5, 10})}),
             {1, 14});
}

TEST(Norm, LocalResponseAndLp) {
  const Attrs attrs =
      WithAttrs({{"size", int64_t{2}}, {"alpha", 2.0f}, {"beta", 1.0f}, {"bias", 1.0f}});
  // Size 2 looks at the channel and the next one.
  ExpectNear(Eval(NodeOf("LRN", 1, attrs), {Floats({1, 3, 1}, {1, 2, 3})}),
             {1.0f / 6, 2.0f / 14, 3.0f / 10});
  ExpectNear(Eval(NodeOf("LpNormalization", 1), {Floats({2, 2}, {3, 4, 0, 0})}),
             {0.6f, 0.8f, 0, 0});
  ExpectNear(
      Eval(NodeOf("LpNormalization", 1, WithAttrs({{"p", int64_t{1}}, {"axis", int64_t{0}}})),
           {Floats({2, 1}, {3, -1})}),
      {0.75f, -0.25f});
}

TEST(Norm, SoftmaxOfInnerAndLastAxesAgree) {
  const Tensor x = Sequence({3, 5}, 0.3f);
  const Tensor rows = Eval(NodeOf("LogSoftmax", 1), {x});
  const Tensor columns =
      Eval(NodeOf("LogSoftmax", 1, WithAttrs({{"axis", int64_t{0}}})), {*Permuted(x, {1, 0})});
  ExpectNear(*Permuted(columns, {1, 0}), ToVector(rows));
}

Tensor Resized(Attrs attrs, const Tensor& x, const std::vector<float>& scales) {
  return Eval(NodeOf("Resize", 3, std::move(attrs)),
              {x, Tensor(), Floats({static_cast<int64_t>(scales.size())}, scales)});
}

TEST(Resize, NearestModes) {
  const Tensor x = Floats({4}, {1, 2, 3, 4});
  const auto run = [&](const char* nearest, const char* coordinates) {
    return ToVector(
        Resized(WithAttrs({{"nearest_mode", std::string(nearest)},
                           {"coordinate_transformation_mode", std::string(coordinates)}}),
                x, {1.5f}));
  };
  // Places 0, 0.67, 1.33, 2, 2.67, 3.33.
  EXPECT_EQ(run("floor", "asymmetric"), (std::vector<float>{1, 1, 2, 3, 3, 4}));
  EXPECT_EQ(run("ceil", "asymmetric"), (std::vector<float>{1, 2, 3, 3, 4, 4}));
  // Places -0.17, 0.5, 1.17, 1.83, 2.5, 3.17.
  EXPECT_EQ(run("round_prefer_floor", "half_pixel"), (std::vector<float>{1, 1, 2, 3, 3, 4}));
  EXPECT_EQ(run("round_prefer_ceil", "half_pixel"), (std::vector<float>{1, 2, 2, 3, 4, 4}));
}

// Places by given scales are float32: 3 / 0.3f is 10 and 3.5 / 0.7f - 0.5 is 4.5, which they are
// not in double, where the scales are a little more and less than 0.3 and 0.7.
TEST(Resize, NearestByScalesOfFloat32) {
  std::vector<float> values(20);
  std::iota(values.begin(), values.end(), 0.0f);
  const auto run = [&](float scale, const char* nearest, const char* coordinates) {
    return ToVector(
        Resized(WithAttrs({{"nearest_mode", std::string(nearest)},
                           {"coordinate_transformation_mode", std::string(coordinates)}}),
                Floats({20}, values), {scale}));
  };
  EXPECT_EQ(run(0.3f, "floor", "asymmetric"), (std::vector<float>{0, 3, 6, 10, 13, 16}));
  EXPECT_EQ(run(0.7f, "round_prefer_floor", "half_pixel"),
            (std::vector<float>{0, 2, 3, 4, 6, 7, 9, 10, 12, 13, 14, 16, 17, 19}));
}

TEST(Resize, LinearAndCubic) {
  const Tensor x = Floats({1, 1, 2, 2}, {0, 4, 8, 12});
  const Tensor y = Resized(WithAttrs({{"mode", std::string("linear")}}), x, {1, 1, 1, 2});
  EXPECT_EQ(ToVector(y), (std::vector<float>{0, 1, 3, 4, 8, 9, 11, 12}));
  const Tensor corners =
      Resized(WithAttrs({{"mode", std::string("linear")},
                         {"coordinate_transformation_mode", std::string("align_corners")}}),
              x, {1, 1, 1.5f, 1});
  EXPECT_EQ(ToVector(corners), (std::vector<float>{0, 4, 4, 8, 8, 12}));
  // A cubic passes through its samples and is exact in the middle: (a/8 - (a-4)/8 ...) with a =
  // -0.5 gives 9/16, -1/16.
  const Attrs cubic = WithAttrs({{"mode", std::string("cubic")},
                                 {"cubic_coeff_a", -0.5f},
                                 {"coordinate_transformation_mode", std::string("asymmetric")}});
  ExpectNear(Resized(cubic, Floats({4}, {0, 16, 32, 64}), {2}), {0, 7, 16, 23, 32, 49, 64, 66});
}

// A place between two samples depends on these two alone: infinity or NaN beyond them stays there.
TEST(Resize, LinearReadsTwoSamples) {
  const Attrs linear = WithAttrs({{"mode", std::string("linear")}});
  for (const float wild : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    // Places -0.25, 0.25, 0.75, 1.25, 1.75, 2.25, ...: half way in quarters.
    const std::vector<float> y =
        ToVector(Resized(linear, Floats({6}, {0, 4, 8, wild, 12, 16}), {2}));
    const std::vector<float> left(y.begin(), y.begin() + 5), right(y.begin() + 9, y.end());
    EXPECT_EQ(left, (std::vector<float>{0, 1, 3, 5, 7}));
    EXPECT_EQ(right, (std::vector<float>{13, 15, 16}));
    for (int i = 5; i < 9; ++i) EXPECT_FALSE(std::isfinite(y[i])) << i;
  }
}

TEST(Resize, AntialiasAveragesWhatIsDropped) {
  const Attrs attrs = WithAttrs({{"mode", std::string("linear")}, {"antialias", int64_t{1}}});
  // Triangles of radius 2 around 0.5 and 2.5: weights 1/4, 3/4, 3/4, 1/4 over the axis with its
  // ends repeated, normalized.
  ExpectNear(
      Resized(attrs, Floats({4}, {8, 16, 24, 32}), {0.5f}),
      {(1 * 8 + 3 * 8 + 3 * 16 + 1 * 24) / 8.0f, (1 * 16 + 3 * 24 + 3 * 32 + 1 * 32) / 8.0f});
}

TEST(Resize, SizesAspectRatioAndErrors) {
  const auto run = [&](const char* policy, Ints sizes) {
    const Node node = NodeOf(
        "Resize", 4,
        WithAttrs({{"keep_aspect_ratio_policy", std::string(policy)}, {"axes", Ints{1, 2}}}));
    return Eval(node, {Floats({1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}), Tensor(), Tensor(),
                       Tensor::FromValues<int64_t>(Shape{2}, sizes)})
        .type()
        .ToString();
  };
  EXPECT_EQ(run("stretch", {3, 5}), "float32[1, 3, 5]");
  EXPECT_EQ(run("not_larger", {3, 5}), "float32[1, 3, 5]");
  EXPECT_EQ(run("not_larger", {4, 4}), "float32[1, 2, 4]");
  EXPECT_EQ(run("not_smaller", {4, 4}), "float32[1, 4, 8]");
  EXPECT_EQ(EvalError(NodeOf("Resize", 3), {Floats({2}, {1, 2}), Tensor(), Floats({1}, {-1})}),
            "node node (Resize): input 2 has the scale -1, expected more than 0");
}

TEST(DepthToSpace, BothModesAndBack) {
  std::vector<float> values(8);
  for (int i = 0; i < 8; ++i) values[i] = static_cast<float>(i);
  const Tensor x = Floats({1, 8, 1, 1}, values);
  const Tensor dcr = Eval(NodeOf("DepthToSpace", 1, WithAttrs({{"blocksize", int64_t{2}}})), {x});
  EXPECT_EQ(ToVector(dcr), (std::vector<float>{0, 2, 4, 6, 1, 3, 5, 7}));
  const Tensor crd =
      Eval(NodeOf("DepthToSpace", 1,
                  WithAttrs({{"blocksize", int64_t{2}}, {"mode", std::string("CRD")}})),
           {x});
  EXPECT_EQ(ToVector(crd), (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_TRUE(
      BitEqual(Eval(NodeOf("SpaceToDepth", 1, WithAttrs({{"blocksize", int64_t{2}}})), {dcr}), x));
  EXPECT_TRUE(
      BitEqual(Eval(NodeOf("SpaceToDepth", 1,
                           WithAttrs({{"blocksize", int64_t{2}}, {"mode", std::string("CRD")}})),
                    {crd}),
               x));
  EXPECT_EQ(EvalError(NodeOf("DepthToSpace", 1, WithAttrs({{"blocksize", int64_t{3}}})), {x}),
            "node node (DepthToSpace): number of channels 8 is not a multiple of 9");
}

TEST(Activations, SmoothOnes) {
  const Tensor x = Floats({3}, {-4, 0, 2});
  ExpectNear(Eval(NodeOf("HardSwish", 1), {x}), {0, 0, 5.0f / 3});
  ExpectNear(Eval(NodeOf("HardSigmoid", 1), {x}), {0, 0.5f, 0.9f});
  ExpectNear(Eval(NodeOf("Silu", 1, {}, "evoq"), {x}), {-0.0719448f, 0, 1.7615942f});
  ExpectNear(Eval(NodeOf("Gelu", 1), {x}), {-0.000126685f, 0, 1.9544997f});
  ExpectNear(Eval(NodeOf("Gelu", 1, WithAttrs({{"approximate", std::string("tanh")}})), {x}),
             {-0.00007f, 0, 1.954598f});
  ExpectNear(Eval(NodeOf("Mish", 1), {x}), {-0.0725898f, 0, 1.943959f});
  EXPECT_TRUE(BitEqual(Eval(NodeOf("Dropout", 1), {x}), x));
}

}  // namespace
}  // namespace evoq
