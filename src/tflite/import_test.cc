// What small TensorFlow Lite files become, and what is refused with which words.
#include "tflite/import.h"

#include <gtest/gtest.h>

#include <functional>

#include "reference/reference.h"
#include "tflite/test_model.h"

namespace evoq::tflite {
namespace {

Result<Graph> Read(const TestModel& file) {
  const std::string bytes = file.Bytes();
  return ImportTfliteBytes(std::as_bytes(std::span(bytes)), "net.tflite");
}

// acc[m] = b[m] + sum_c (x[c] - 3) w[m, c];  y = round(acc[m] * 0.5 * s[m] / 1.0) - 1
TEST(Tflite, ConvolutionOfBytes) {
  const auto graph = Read(SmallNet());
  ASSERT_TRUE(graph) << graph.error().message();
  const TensorType& in = graph->value(graph->inputs()[0]).type;
  EXPECT_EQ(in.ToString(), "int8[1, 4, 4, 2](scale 0.5, zero 3)");
  Tensor x = Tensor::Allocate(in);
  for (int i = 0; i < 32; ++i) x.mutable_data<int8_t>()[i] = static_cast<int8_t>(5 * i - 70);
  const auto y = EvaluateGraph(*graph, {{x}});
  ASSERT_TRUE(y) << y.error().message();
  ASSERT_EQ((*y)[0].type().ToString(), "int8[1, 4, 4, 3](scale 1, zero -1)");
  const int w[3][2] = {{1, 2}, {3, 4}, {5, 6}}, b[3] = {8, -8, 16};
  const double s[3] = {0.25, 0.5, 0.125};
  for (int p = 0; p < 16; ++p) {
    for (int m = 0; m < 3; ++m) {
      int acc = b[m];
      for (int c = 0; c < 2; ++c) acc += (x.data<int8_t>()[2 * p + c] - 3) * w[m][c];
      const double v = std::nearbyint(acc * 0.5 * s[m]) - 1;
      EXPECT_EQ((*y)[0].data<int8_t>()[3 * p + m], std::clamp(v, -128.0, 127.0)) << p << " " << m;
    }
  }
}

// Between two convolutions stands no Transpose: one at the input, one at the output.
TEST(Tflite, TwoConvolutionsMeetWithoutTransposes) {
  TestModel file;
  const int x = file.Tensor("x", {1, 4, 4, 1}),
            w = file.Constant<float>("w", {1, 3, 3, 1}, 0, std::vector<float>(9, 1));
  const int h = file.Tensor("h", {1, 4, 4, 1}), y = file.Tensor("y", {1, 4, 4, 1});
  for (const auto& [from, to] : {std::pair(x, h), std::pair(h, y)}) {
    fb::Conv2DOptionsT options;
    options.stride_h = options.stride_w = 1;
    options.activation = 3;
    file.Operator(3, {from, w}, {to}).options.Set(std::move(options));
  }
  file.graph().inputs = {x};
  file.graph().outputs = {y};
  const auto graph = Read(file);
  ASSERT_TRUE(graph) << graph.error().message();
  std::vector<std::string> ops;
  for (NodeId id : graph->order()) ops.push_back(graph->node(id).op);
  EXPECT_EQ(ops, (std::vector<std::string>{"Transpose", "Conv", "Conv", "Transpose"}));
}

TEST(Tflite, RowsAreSortedAndFound) {
  int last = -1;
  for (const OpRow* row : AllOpRows()) {
    EXPECT_GT(row->number, last) << row->name;
    EXPECT_EQ(FindOpRow(row->number), row);
    last = row->number;
  }
  EXPECT_EQ(FindOpRow(kCustom), nullptr);
}

TEST(Tflite, OperatorsThatEvoqLacksAreNamedTogether) {
  TestModel file = SmallNet();
  const int boxes = file.Tensor("boxes", {1, 4, 4, 3});
  file.Operator(kCustom, {3}, {boxes});
  file.model.operator_codes.back()->custom_code = "TFLite_Detection_PostProcess";
  file.Operator(119, {3}, {file.Tensor("z", {1})});
  const auto graph = Read(file);
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().message(),
            "net.tflite: operators that evoq does not run: WHILE, custom "
            "TFLite_Detection_PostProcess");
}

struct Broken {
  const char* name;
  std::function<void(TestModel&)> damage;
  const char* says;
};

class TfliteBroken : public testing::TestWithParam<Broken> {};

TEST_P(TfliteBroken, IsRefused) {
  TestModel file = SmallNet();
  GetParam().damage(file);
  const auto graph = Read(file);
  ASSERT_FALSE(graph);
  EXPECT_NE(graph.error().message().find(GetParam().says), std::string::npos)
      << graph.error().message();
  EXPECT_NE(graph.error().code(), ErrorCode::kInternal);
}

const Broken kBroken[] = {
    {"Version", [](TestModel& f) { f.model.version = 2; }, "version 2 of the format, evoq reads 3"},
    {"NoGraph", [](TestModel& f) { f.model.subgraphs.clear(); }, "the file holds no graph"},
    {"NoOutputs", [](TestModel& f) { f.graph().outputs.clear(); }, "the graph has no outputs"},
    {"BufferNumber", [](TestModel& f) { f.graph().tensors[1]->buffer = 9; },
     "tensor 1: buffer 9 of 3"},
    {"BufferBehindTheFile",
     [](TestModel& f) {
       f.model.buffers[1]->offset = 100;
       f.model.buffers[1]->size = ~uint64_t{0};
     },
     "buffer 1 lies at 100 with 18446744073709551615 bytes"},
    {"BytesOfAConstant", [](TestModel& f) { f.model.buffers[1]->data.pop_back(); },
     "operator 0 (CONV_2D): input 1 (w): 5 bytes of data"},
    {"CodeNumber", [](TestModel& f) { f.graph().operators[0]->code_index = 7; },
     "operator 0: code 7 of 1"},
    {"InputNumber", [](TestModel& f) { f.graph().operators[0]->inputs[0] = 44; },
     "operator 0 (CONV_2D): input 0: tensor 44 of 4"},
    {"InputLeftOut", [](TestModel& f) { f.graph().operators[0]->inputs[0] = -1; },
     "input 0 is left out"},
    {"ReadsItsOutput", [](TestModel& f) { f.graph().operators[0]->inputs[0] = 3; },
     "tensor 3 is read before an operator writes it"},
    {"WritesAConstant", [](TestModel& f) { f.graph().operators[0]->outputs[0] = 1; },
     "output 0: tensor 1 is written twice, or is an input or a constant"},
    {"TooFewInputs", [](TestModel& f) { f.graph().operators[0]->inputs.resize(1); },
     "1 inputs, expected 2 to 3"},
    {"Options", [](TestModel& f) { f.graph().operators[0]->options.Set(fb::Pool2DOptionsT()); },
     "options of kind 5, expected 1"},
    {"Stride", [](TestModel& f) { f.graph().operators[0]->options.AsWithConv2D()->stride_w = 0; },
     "strides 1 and 0, expected at least 1"},
    {"Channels", [](TestModel& f) { f.graph().tensors[1]->shape = {3, 1, 2, 1}; }, "Conv"},
    {"Scales", [](TestModel& f) { f.graph().tensors[1]->quantization->scale.pop_back(); },
     "3 zero points for 2 scales"},
    {"ScaleAxis", [](TestModel& f) { f.graph().tensors[1]->quantization->quantized_dimension = 3; },
     "3 scales along axis 3"},
    {"ZeroPoint", [](TestModel& f) { f.graph().tensors[0]->quantization->zero_point[0] = 300; },
     "zero point 300 of int8"},
    {"Type", [](TestModel& f) { f.graph().tensors[0]->type = 99; }, "element type number 99"},
    {"Strings", [](TestModel& f) { f.graph().tensors[0]->type = 5; }, "elements of type STRING"},
    {"ScalesByBlock", [](TestModel& f) { f.graph().tensors[1]->quantization->details_type = 2; },
     "scales by block"},
    {"Size", [](TestModel& f) { f.graph().tensors[0]->shape[1] = -7; }, "size -7 on axis 1"},
};
INSTANTIATE_TEST_SUITE_P(All, TfliteBroken, testing::ValuesIn(kBroken),
                         [](const auto& info) { return info.param.name; });

TEST(Tflite, CutAnywhereIsRefused) {
  const std::string bytes = SmallNet().Bytes();
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto graph =
        ImportTfliteBytes(std::as_bytes(std::span(bytes.data(), size)), "net.tflite");
    if (!graph) EXPECT_NE(graph.error().code(), ErrorCode::kInternal) << size;
  }
  EXPECT_FALSE(ImportTfliteBytes({}, "net.tflite"));
}

}  // namespace
}  // namespace evoq::tflite
