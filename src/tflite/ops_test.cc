// What operators compute that are several of the graph's.
#include <gtest/gtest.h>

#include <cmath>

#include "reference/reference.h"
#include "tflite/import_testing.h"

namespace evoq::tflite {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The outputs of a file on float32 inputs, as numbers.
std::vector<std::vector<double>> Outputs(const TestModel& file,
                                         const std::vector<std::vector<float>>& inputs) {
  const auto graph = Read(file);
  if (!graph) {
    ADD_FAILURE() << graph.error().message();
    return {};
  }
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < inputs.size(); ++i)
    tensors.push_back(
        Tensor::FromValues<float>(graph->value(graph->inputs()[i]).type.shape, inputs[i]));
  const auto made = EvaluateGraph(*graph, {tensors});
  if (!made) {
    ADD_FAILURE() << made.error().message();
    return {};
  }
  std::vector<std::vector<double>> outputs;
  for (const Tensor& tensor : *made) {
    std::vector<double>& numbers = outputs.emplace_back();
    if (const auto integers = ToInt64s(tensor)) {
      numbers.assign(integers->begin(), integers->end());
    } else if (const auto reals = ToFloat32(tensor)) {
      numbers.assign(reals->data<float>(), reals->data<float>() + reals->elements());
    }
  }
  return outputs;
}

// A file of one operator on x, whose other inputs are constants.
struct OneOp {
  TestModel file;
  int x = 0;

  explicit OneOp(std::vector<int> shape, int8_t type = kTestFloat) {
    x = file.Tensor("x", std::move(shape), type);
    file.graph().inputs = {x};
  }
  fb::OperatorT& Add(int number, std::vector<int> inputs, std::vector<int> shape,
                     int8_t type = kTestFloat) {
    const int y =
        file.Tensor("y" + std::to_string(file.graph().outputs.size()), std::move(shape), type);
    file.graph().outputs.push_back(y);
    return file.Operator(number, std::move(inputs), {y});
  }
};

// Windows of 2 x 2 over 3 4 / 0 0; padding counts for nothing.
TEST(TfliteOps, RootsOfMeansOfSquares) {
  const auto pooled = [](int8_t padding, std::vector<int> shape) {
    OneOp op({1, 2, 2, 1});
    fb::Pool2DOptionsT options;
    options.padding = padding;
    options.stride_w = options.stride_h = 1;
    options.filter_width = options.filter_height = 2;
    op.Add(12, {op.x}, std::move(shape)).options.Set(std::move(options));
    return Outputs(op.file, {{3, 4, 0, 0}});
  };
  EXPECT_EQ(pooled(/*VALID*/ 1, {1, 1, 1, 1}), (std::vector<std::vector<double>>{{2.5}}));
  const auto same = pooled(/*SAME*/ 0, {1, 2, 2, 1});
  ASSERT_EQ(same.size(), 1u);
  ASSERT_EQ(same[0].size(), 4u);
  EXPECT_EQ(same[0][0], 2.5);
  EXPECT_NEAR(same[0][1], std::sqrt(8.0), 1e-6);
  EXPECT_EQ(same[0][2], 0);
  EXPECT_EQ(same[0][3], 0);
}

TEST(TfliteOps, GatherOfEachBatch) {
  OneOp op({2, 3});
  fb::GatherOptionsT options;
  options.axis = options.batch_dims = 1;
  const int indices = op.file.Constant<int32_t>("i", {2, 2}, kTestInt32, {2, 0, 1, 1});
  op.Add(36, {op.x, indices}, {2, 2}).options.Set(std::move(options));
  EXPECT_EQ(Outputs(op.file, {{1, 2, 3, 4, 5, 6}}),
            (std::vector<std::vector<double>>{{3, 1, 5, 5}}));
}

// x[b, i, axis]: the axis in between stays where it is.
TEST(TfliteOps, GatherOfEachBatchOnALaterAxis) {
  OneOp op({2, 2, 3});
  fb::GatherOptionsT options;
  options.axis = -1;
  options.batch_dims = 1;
  const int indices = op.file.Constant<int32_t>("i", {2, 2}, kTestInt32, {2, 0, 1, 1});
  op.Add(36, {op.x, indices}, {2, 2, 2}).options.Set(std::move(options));
  EXPECT_EQ(Outputs(op.file, {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}}),
            (std::vector<std::vector<double>>{{2, 0, 5, 3, 7, 7, 10, 10}}));
}

TEST(TfliteOps, SymmetricPadsRepeatTheBorder) {
  OneOp op({1, 3});
  fb::MirrorPadOptionsT options;
  options.mode = 1;
  const int pads = op.file.Constant<int32_t>("p", {2, 2}, kTestInt32, {0, 1, 2, 3});
  op.Add(100, {op.x, pads}, {2, 8}).options.Set(std::move(options));
  EXPECT_EQ(Outputs(op.file, {{1, 2, 3}}),
            (std::vector<std::vector<double>>{{2, 1, 1, 2, 3, 3, 2, 1, 2, 1, 1, 2, 3, 3, 2, 1}}));
}

TEST(TfliteOps, ZerosLikeWhatIsNoNumber) {
  OneOp op({2});
  op.Add(93, {op.x}, {2});
  EXPECT_EQ(Outputs(op.file, {{kInfinity, NAN}}), (std::vector<std::vector<double>>{{0, 0}}));
}

// -1 and 3 are none of three.
TEST(TfliteOps, OneHot) {
  OneOp op({1});
  const int i = op.file.Ints("i", {2, -1, 3, 0}),
            three = op.file.Constant<int32_t>("d", {}, kTestInt32, {3}),
            on = op.file.Constant<float>("on", {}, kTestFloat, {5}),
            off = op.file.Constant<float>("off", {}, kTestFloat, {-1});
  fb::OneHotOptionsT options;
  options.axis = -1;
  op.Add(85, {i, three, on, off}, {4, 3}).options.Set(std::move(options));
  EXPECT_EQ(Outputs(op.file, {{0}}),
            (std::vector<std::vector<double>>{{-1, -1, 5, -1, -1, -1, -1, -1, -1, 5, -1, -1}}));
}

// What is scattered to one place is added up.
TEST(TfliteOps, Scatters) {
  OneOp op({3, 2});
  const int places = op.file.Constant<int32_t>("i", {3, 1}, kTestInt32, {1, 1, 3}),
            shape = op.file.Ints("shape", {4, 2}), ids = op.file.Ints("ids", {0, 2, 2}),
            five = op.file.Constant<int32_t>("n", {}, kTestInt32, {4});
  op.Add(122, {places, op.x, shape}, {4, 2});
  op.Add(125, {op.x, ids}, {3, 2});
  op.Add(155, {op.x, ids, five}, {4, 2});
  EXPECT_EQ(Outputs(op.file, {{1, 2, 3, 4, 5, 6}}),
            (std::vector<std::vector<double>>{
                {0, 0, 4, 6, 0, 0, 5, 6}, {1, 2, 0, 0, 8, 10}, {1, 2, 0, 0, 8, 10, 0, 0}}));
}

// The slice is moved to lie within.
TEST(TfliteOps, UpdatesOfSlices) {
  for (const auto& [starts, y] :
       {std::pair(std::vector<int32_t>{0, 1}, std::vector<double>{0, 8, 9, 3, 4, 5}),
        std::pair(std::vector<int32_t>{7, -3}, std::vector<double>{0, 1, 2, 8, 9, 5})}) {
    OneOp op({2, 3});
    const int part = op.file.Constant<float>("part", {1, 2}, kTestFloat, {8, 9});
    op.Add(151, {op.x, part, op.file.Ints("starts", starts)}, {2, 3});
    EXPECT_EQ(Outputs(op.file, {{0, 1, 2, 3, 4, 5}}), (std::vector<std::vector<double>>{y}));
  }
}

TEST(TfliteOps, Diagonals) {
  OneOp op({2});
  op.Add(113, {op.x}, {2, 2});
  const int wide = op.file.Constant<float>("wide", {2, 3}, kTestFloat, {1, 2, 3, 4, 5, 6}),
            high = op.file.Constant<float>("high", {3, 2}, kTestFloat, {1, 2, 3, 4, 5, 6});
  op.Add(115, {wide, op.x}, {2, 3});
  op.Add(115, {high, op.x}, {3, 2});
  EXPECT_EQ(Outputs(op.file, {{kInfinity, 9}}),
            (std::vector<std::vector<double>>{
                {kInfinity, 0, 0, 9}, {kInfinity, 2, 3, 4, 9, 6}, {kInfinity, 2, 3, 9, 5, 6}}));
}

TEST(TfliteOps, ReverseSequences) {
  OneOp op({1, 3, 2});
  fb::ReverseSequenceOptionsT options;
  options.seq_dim = 1;
  options.batch_dim = 2;
  op.Add(112, {op.x, op.file.Ints("lengths", {2, 3})}, {1, 3, 2}).options.Set(std::move(options));
  EXPECT_EQ(Outputs(op.file, {{1, 2, 3, 4, 5, 6}}),
            (std::vector<std::vector<double>>{{3, 6, 1, 4, 5, 2}}));
}

TEST(TfliteOps, UniqueElements) {
  TestModel file;
  const int x = file.Tensor("x", {5}), y = file.Tensor("y", {3}),
            at = file.Tensor("at", {5}, kTestInt32);
  file.Operator(103, {x}, {y, at});
  file.graph().inputs = {x};
  file.graph().outputs = {y, at};
  EXPECT_EQ(Outputs(file, {{7, 1, 7, 3, 1}}),
            (std::vector<std::vector<double>>{{7, 1, 3}, {0, 1, 0, 2, 1}}));
}

TEST(TfliteOps, ShapesBroadcast) {
  OneOp op({1});
  op.Add(145, {op.file.Ints("a", {3, 1}), op.file.Ints("b", {2, 1, 4})}, {3}, kTestInt32);
  EXPECT_EQ(Outputs(op.file, {{0}}), (std::vector<std::vector<double>>{{2, 3, 4}}));
}

TEST(TfliteOps, AnyAndAll) {
  OneOp op({2, 2});
  const int zero = op.file.Constant<float>("zero", {}, kTestFloat, {0}),
            above = op.file.Tensor("above", {2, 2}, kTestBool), axis = op.file.Ints("axis", {1});
  op.file.Operator(61, {op.x, zero}, {above});
  op.Add(91, {above, axis}, {2}, kTestInt32);
  op.Add(140, {above, axis}, {2}, kTestInt32);
  for (auto& tensor : op.file.graph().tensors) {
    if (tensor->name == "y0" || tensor->name == "y1") tensor->type = kTestBool;
  }
  EXPECT_EQ(Outputs(op.file, {{1, -1, 1, 1}}), (std::vector<std::vector<double>>{{1, 1}, {0, 1}}));
}

TEST(TfliteOps, Angles) {
  OneOp op({6});
  const int x = op.file.Constant<float>("c", {6}, kTestFloat, {1, -1, -1, 0, 0, 0});
  op.Add(156, {op.x, x}, {6});
  const auto y = Outputs(op.file, {{1, 1, -1, 2, -2, 0}});
  const double expected[] = {M_PI / 4, 3 * M_PI / 4, -3 * M_PI / 4, M_PI / 2, -M_PI / 2, 0};
  ASSERT_EQ(y.size(), 1u);
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(y[0][i], expected[i], 1e-6) << i;
}

TEST(TfliteOps, Bits) {
  OneOp op({1});
  const int a = op.file.Ints("a", {-5, 12, 7}), b = op.file.Ints("b", {1, 2, 0});
  op.Add(161, {a, b}, {3}, kTestInt32);
  op.Add(160, {a, b}, {3}, kTestInt32);
  EXPECT_EQ(Outputs(op.file, {{0}}), (std::vector<std::vector<double>>{{-3, 3, 7}, {-6, 14, 7}}));
}

// A depth of 3, one channel: windows of two with stride 1, and the transposed one of stride 2.
TEST(TfliteOps, ConvolutionsOfVolumes) {
  OneOp op({1, 3, 1, 1, 1});
  fb::Conv3DOptionsT options;
  options.padding = 1;
  options.stride_d = options.stride_h = options.stride_w = 1;
  const int w = op.file.Constant<float>("w", {2, 1, 1, 1, 1}, kTestFloat, {1, 10}),
            b = op.file.Constant<float>("b", {1}, kTestFloat, {0.5f}),
            shape = op.file.Ints("shape", {1, 6, 1, 1, 1});
  op.Add(132, {op.x, w, b}, {1, 2, 1, 1, 1}).options.Set(fb::Conv3DOptionsT(options));
  options.stride_d = 2;
  op.Add(141, {shape, w, op.x}, {1, 6, 1, 1, 1}).options.Set(std::move(options));
  EXPECT_EQ(Outputs(op.file, {{1, 2, 3}}),
            (std::vector<std::vector<double>>{{21.5, 32.5}, {1, 10, 2, 20, 3, 30}}));
}

// Boxes 0 and 1 overlap by 0.5, which stays below the threshold only where it is above 0.5.
TestModel SuppressionNet(float overlap, bool scored) {
  TestModel file;
  const int boxes = file.Constant<float>("boxes", {3, 4}, kTestFloat,
                                         {0, 0, 1, 1, 0, 0, 1, 0.5f, 2, 2, 3, 3}),
            scores = file.Tensor("scores", {3}),
            most = file.Constant<int32_t>("most", {}, kTestInt32, {3});
  std::vector<int> inputs = {boxes, scores, most,
                             file.Constant<float>("iou", {}, kTestFloat, {overlap}),
                             file.Constant<float>("least", {}, kTestFloat, {0.1f})};
  std::vector<int> made = {file.Tensor("kept", {3}, kTestInt32)};
  if (scored) {
    inputs.push_back(file.Constant<float>("sigma", {}, kTestFloat, {0}));
    made.push_back(file.Tensor("kept_scores", {3}));
  }
  made.push_back(file.Tensor("count", {}, kTestInt32));
  file.graph().inputs = {scores};
  file.graph().outputs = made;
  file.Operator(scored ? 121 : 120, inputs, made);
  return file;
}

TEST(TfliteOps, SuppressionFillsUpWithZeros) {
  EXPECT_EQ(Outputs(SuppressionNet(0.5f, false), {{0.5f, 0.75f, 0.25f}}),
            (std::vector<std::vector<double>>{{1, 2, 0}, {2}}));
  EXPECT_EQ(Outputs(SuppressionNet(0.51f, false), {{0.5f, 0.75f, 0.25f}}),
            (std::vector<std::vector<double>>{{1, 0, 2}, {3}}));
  EXPECT_EQ(Outputs(SuppressionNet(0.5f, true), {{0.5f, 0.75f, 0.0625f}}),
            (std::vector<std::vector<double>>{{1, 0, 0}, {0.75, 0, 0}, {1}}));
}

TEST(TfliteOps, Detections) {
  for (const bool regular : {false, true}) {
    // Scores of a background and two classes: box 0 is the first class and hardly the second one.
    const auto y = Outputs(DetectionNet(regular), {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
                                                   {0, 0.75f, 0.5f, 0, 0.5f, 0, 0, 0, 0.25f}});
    ASSERT_EQ(y.size(), 4u);
    const std::vector<double> a = {0, 0, 1, 1}, b = {0, 0, 1, 0.75}, c = {2, 2, 3, 3};
    std::vector<double> boxes = a;
    boxes.insert(boxes.end(), regular ? a.begin() : c.begin(), regular ? a.end() : c.end());
    boxes.insert(boxes.end(), c.begin(), c.end());
    if (!regular) std::fill(boxes.begin() + 8, boxes.end(), 0);
    EXPECT_EQ(y[0], boxes);
    EXPECT_EQ(y[1], regular ? (std::vector<double>{0, 1, 1}) : (std::vector<double>{0, 1, 0}));
    EXPECT_EQ(y[2], regular ? (std::vector<double>{0.75, 0.5, 0.25})
                            : (std::vector<double>{0.75, 0.25, 0}));
    EXPECT_EQ(y[3], std::vector<double>{regular ? 3.0 : 2.0});
  }
}

}  // namespace
}  // namespace evoq::tflite
