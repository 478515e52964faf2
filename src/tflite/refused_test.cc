// What is refused of TensorFlow Lite files, with which words.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tflite/import_testing.h"

namespace evoq::tflite {
namespace {

TEST(Tflite, OperatorsThatEvoqLacksAreNamedTogether) {
  TestModel file = SmallNet();
  const int boxes = file.Tensor("boxes", {1, 4, 4, 3});
  file.Operator(kCustom, {3}, {boxes});
  file.model.operator_codes.back()->custom_code = "Flexible";
  file.Operator(16, {3}, {file.Tensor("z", {1})});
  const auto graph = Read(file);
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().message(),
            "net.tflite: operators that evoq does not run: LSTM, custom Flexible");
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
    // The product of its sizes overflows in the order of ONNX only.
    {"SizesOfAnEmptyConstant",
     [](TestModel& f) {
       f.graph().tensors[0]->shape = {1, 4, 4, 4};
       f.graph().tensors[1]->shape = {INT32_MAX, INT32_MAX, 0, 4};
       f.graph().tensors[1]->quantization->scale = {0.25f};
       f.graph().tensors[1]->quantization->zero_point = {0};
       f.model.buffers[1]->data.clear();
     },
     "operator 0 (CONV_2D): input 1 (w): int8[2147483647, 2147483647, 0, 4](scale 0.25, zero 0) is "
     "too large"},
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
    {"ScalesOfACustomKind",
     [](TestModel& f) {
       f.graph().tensors[1]->quantization->details.Set(fb::details::CustomQuantizationT());
     },
     "scales of a custom kind"},
    {"Size", [](TestModel& f) { f.graph().tensors[0]->shape[1] = -7; }, "size -7 on axis 1"},
};
INSTANTIATE_TEST_SUITE_P(All, TfliteBroken, testing::ValuesIn(kBroken),
                         [](const auto& info) { return info.param.name; });

void ExpectRefused(const TestModel& file, const std::string& says) {
  const auto graph = Read(file);
  ASSERT_FALSE(graph) << says;
  EXPECT_EQ(graph.error().message(), "net.tflite: " + says);
  EXPECT_NE(graph.error().code(), ErrorCode::kInternal);
}

class TfliteBrokenVariables : public TfliteBroken {};
TEST_P(TfliteBrokenVariables, AreRefused) {
  TestModel file = SumNet();
  GetParam().damage(file);
  ExpectRefused(file, GetParam().says);
}

const Broken kBrokenVariables[] = {
    {"InitNumber",
     [](TestModel& f) { f.graph().operators[0]->options.AsWithCallOnce()->init_graph = 7; },
     "operator 0 (CALL_ONCE): it runs subgraph 7, expected 1 to 1"},
    {"InitIsTheGraph",
     [](TestModel& f) { f.graph().operators[0]->options.AsWithCallOnce()->init_graph = 0; },
     "operator 0 (CALL_ONCE): it runs subgraph 0, expected 1 to 1"},
    {"NoInit", [](TestModel& f) { f.graph().operators.erase(f.graph().operators.begin()); },
     "operator 1 (READ_VARIABLE): variable 'sum' is read before anything assigns a value to it"},
    {"InitOfAnother",
     [](TestModel& f) {
       f.model.subgraphs[1]->operators[0]->options.AsWithVarHandle()->shared_name = "other";
     },
     "operator 2 (READ_VARIABLE): variable 'sum' is read before anything assigns a value to it"},
    {"InitComesLate",
     [](TestModel& f) {
       std::rotate(f.graph().operators.begin(), f.graph().operators.begin() + 1,
                   f.graph().operators.begin() + 4);
       std::swap(f.graph().operators[1], f.graph().operators[4]);
     },
     "operator 1 (ASSIGN_VARIABLE): input 1: tensor 3 is read before an operator writes it"},
    {"InitAfterAssignment",
     [](TestModel& f) {
       std::rotate(f.graph().operators.begin(), f.graph().operators.begin() + 1,
                   f.graph().operators.begin() + 3);
       f.graph().operators[1]->code_index = f.graph().operators[4]->code_index;
       f.graph().operators[1]->inputs = {1, 0};
       f.graph().operators[1]->outputs = {};
       f.graph().operators[3]->inputs = {0, 0};
     },
     "operator 2 (CALL_ONCE): operator 1 (ASSIGN_VARIABLE) of subgraph 1: variable 'sum' is in use "
     "before it is set"},
    {"InitComputes",
     [](TestModel& f) {
       f.model.subgraphs[1]->operators[1]->code_index = 3;
       f.model.subgraphs[1]->operators[1]->inputs = {1, 1};
       f.model.subgraphs[1]->operators[1]->outputs = {0};
       f.model.subgraphs[1]->operators.erase(f.model.subgraphs[1]->operators.begin());
     },
     "operator 0 (CALL_ONCE): operator 0 (ADD) of subgraph 1: expected variables and constants "
     "that are assigned to them"},
    {"InitTensor", [](TestModel& f) { f.model.subgraphs[1]->operators[1]->inputs[1] = 9; },
     "operator 1 (ASSIGN_VARIABLE) of subgraph 1: input 1: tensor 9 of 2"},
    {"InitBytes", [](TestModel& f) { f.model.buffers[1]->data.pop_back(); },
     "operator 0 (CALL_ONCE): operator 1 (ASSIGN_VARIABLE) of subgraph 1: 7 bytes of data, "
     "float32[2] needs 8"},
    {"AssignsToATensor", [](TestModel& f) { f.graph().operators[4]->inputs[0] = 0; },
     "operator 4 (ASSIGN_VARIABLE): input 0 is no variable"},
    {"AnotherType", [](TestModel& f) { f.graph().tensors[2]->type = kTestInt32; },
     "operator 2 (READ_VARIABLE): before is int32[2], its value begin is float32[2]"},
    {"AnotherShape",
     [](TestModel& f) {
       f.model.subgraphs[1]->tensors[1]->shape = {1};
       f.model.buffers[1]->data.resize(4);
     },
     "variable 'sum' begins as float32[1] and is left as float32[2]"},
    {"ResourceInASum", [](TestModel& f) { f.graph().operators[3]->inputs[1] = 1; },
     "operator 3 (ADD): input 1 (sum_handle): a resource"},
    {"ResourceAsOutput", [](TestModel& f) { f.graph().outputs.push_back(1); },
     "output sum_handle: a resource"},
};
INSTANTIATE_TEST_SUITE_P(All, TfliteBrokenVariables, testing::ValuesIn(kBrokenVariables),
                         [](const auto& info) { return info.param.name; });

class TfliteBrokenBranches : public TfliteBroken {};
TEST_P(TfliteBrokenBranches, AreRefused) {
  TestModel file = BranchNet();
  GetParam().damage(file);
  ExpectRefused(file, GetParam().says);
}

const Broken kBrokenBranches[] = {
    {"Number", [](TestModel& f) { f.graph().operators[0]->options.AsWithIf()->else_graph = -1; },
     "operator 0 (IF): it runs subgraph -1, expected 1 to 2"},
    {"RunsItself",
     [](TestModel& f) {
       auto op = std::make_unique<fb::OperatorT>(*f.graph().operators[0]);
       op->inputs = {0, 1};
       op->outputs = {2};
       f.model.subgraphs[1]->operators.clear();
       f.model.subgraphs[1]->operators.push_back(std::move(op));
       f.model.subgraphs[1]->tensors[0]->type = kTestBool;
       f.model.subgraphs[1]->tensors[0]->shape = {};
       f.graph().operators[0]->inputs = {0, 0, 1};
     },
     "operator 0 (IF): operator 0 (IF) of subgraph 1: subgraph 1 has 2 inputs, expected 1"},
    {"Inputs", [](TestModel& f) { f.graph().operators[0]->inputs.pop_back(); },
     "operator 0 (IF): subgraph 1 has 2 inputs, expected 1"},
    {"Outputs", [](TestModel& f) { f.model.subgraphs[2]->outputs = {0, 1}; },
     "operator 0 (IF): subgraph 2 has 2 outputs, expected 1"},
    {"NoOutputs", [](TestModel& f) { f.model.subgraphs[2]->outputs.clear(); },
     "operator 0 (IF): subgraph 2 has 0 outputs, expected 1"},
    {"OutputNumber", [](TestModel& f) { f.model.subgraphs[2]->outputs[0] = 5; },
     "output 0 of subgraph 2: tensor 5 of 2"},
    {"InputTwice", [](TestModel& f) { f.model.subgraphs[2]->inputs = {0, 0}; },
     "operator 0 (IF): input 1 of subgraph 2 is listed twice"},
    {"InputType", [](TestModel& f) { f.model.subgraphs[1]->tensors[0]->type = kTestInt32; },
     "operator 0 (IF): input 0 of subgraph 1: x is int32[2], its value x is float32[2]"},
    {"VariableInABranch",
     [](TestModel& f) {
       f.at = 1;
       Handle(f, "v");
       f.Operator(143, {3}, {f.Tensor("read", {2})});
       f.at = 0;
     },
     "operator 0 (IF): operator 2 (READ_VARIABLE) of subgraph 1: variables of a subgraph"},
    {"OperatorThatEvoqLacks",
     [](TestModel& f) {
       f.at = 2;
       f.Operator(16, {0}, {f.Tensor("z", {2})});
       f.at = 0;
     },
     "operators that evoq does not run: LSTM"},
};
INSTANTIATE_TEST_SUITE_P(All, TfliteBrokenBranches, testing::ValuesIn(kBrokenBranches),
                         [](const auto& info) { return info.param.name; });

class TfliteBrokenBlocks : public TfliteBroken {};
TEST_P(TfliteBrokenBlocks, AreRefused) {
  TestModel file = BlocksNet();
  GetParam().damage(file);
  ExpectRefused(file, std::string("tensor 1 (w): ") + GetParam().says);
}

fb::details::BlockwiseQuantizationT& BlocksOf(TestModel& f) {
  return *f.graph().tensors[1]->quantization->details.AsBlockwise();
}

const Broken kBrokenBlocks[] = {
    {"Scales", [](TestModel& f) { BlocksOf(f).scales = 4; }, "its scales are tensor 4 of 4"},
    {"OwnScales", [](TestModel& f) { BlocksOf(f).scales = 1; }, "its scales have scales by block"},
    {"ComputedScales", [](TestModel& f) { BlocksOf(f).scales = 3; },
     "its scales: 0 bytes of data, float32[1, 2] needs 8"},
    {"ZeroPoints", [](TestModel& f) { BlocksOf(f).zero_points = 2; }, "zero points by block"},
    {"Size", [](TestModel& f) { BlocksOf(f).block_size = 4; },
     "scales [2, 2] by blocks of 4, the tensor is [2, 4]"},
    {"NoSize", [](TestModel& f) { BlocksOf(f).block_size = 0; },
     "scales [2, 2] by blocks of 0, the tensor is [2, 4]"},
    {"Rank", [](TestModel& f) { f.graph().tensors[2]->shape = {4}; },
     "scales [4] by blocks of 2, the tensor is [2, 4]"},
    {"Infinite", [](TestModel& f) { f.model.buffers[2]->data[1] = 0x7C; }, "the scale inf"},
    {"Type", [](TestModel& f) { f.graph().tensors[1]->type = kTestFloat; },
     "scales by block of float32"},
};
INSTANTIATE_TEST_SUITE_P(All, TfliteBrokenBlocks, testing::ValuesIn(kBrokenBlocks),
                         [](const auto& info) { return info.param.name; });

class TfliteBrokenLoops : public TfliteBroken {};
TEST_P(TfliteBrokenLoops, AreRefused) {
  TestModel file = LoopNet();
  GetParam().damage(file);
  ExpectRefused(file, GetParam().says);
}

const Broken kBrokenLoops[] = {
    {"Body", [](TestModel& f) { f.graph().operators[0]->options.AsWithWhile()->body_graph = 3; },
     "operator 0 (WHILE): it runs subgraph 3, expected 1 to 2"},
    {"Options", [](TestModel& f) { f.graph().operators[0]->options.Reset(); },
     "operator 0 (WHILE): it runs subgraph 0, expected 1 to 2"},
    {"Inputs", [](TestModel& f) { f.model.subgraphs[2]->inputs.push_back(3); },
     "operator 0 (WHILE): subgraph 2 has 4 inputs, expected 3"},
    {"Outputs", [](TestModel& f) { f.model.subgraphs[2]->outputs.push_back(0); },
     "operator 0 (WHILE): subgraph 2 has 4 outputs, expected 3"},
    {"OutputsOfTheOperator",
     [](TestModel& f) {
       f.graph().operators[0]->outputs.pop_back();
       f.graph().outputs.pop_back();
     },
     "operator 0 (WHILE): 3 inputs and 2 outputs"},
    {"InputsOfTheCondition", [](TestModel& f) { f.model.subgraphs[1]->inputs.pop_back(); },
     "operator 0 (WHILE): subgraph 1 has 2 inputs, expected 3"},
    {"NoCondition", [](TestModel& f) { f.model.subgraphs[1]->outputs.clear(); },
     "operator 0 (WHILE): subgraph 1 has 0 outputs, expected 1"},
    {"AnotherState",
     [](TestModel& f) {
       std::swap(f.model.subgraphs[2]->outputs[0], f.model.subgraphs[2]->outputs[1]);
     },
     "operator 0 (WHILE): more is int32[], its value x is float32[2]"},
};
INSTANTIATE_TEST_SUITE_P(All, TfliteBrokenLoops, testing::ValuesIn(kBrokenLoops),
                         [](const auto& info) { return info.param.name; });

class TfliteBrokenDetections : public TfliteBroken {};
TEST_P(TfliteBrokenDetections, AreRefused) {
  TestModel file = DetectionNet(false);
  GetParam().damage(file);
  ExpectRefused(
      file, std::string("operator 0 (custom TFLite_Detection_PostProcess): ") + GetParam().says);
}

void SetDetection(TestModel& f, const char* name, int value) {
  flexbuffers::Builder options;
  options.Map([&] {
    for (const char* key : {"max_detections", "num_classes", "max_classes_per_detection",
                            "detections_per_class", "y_scale", "x_scale", "h_scale", "w_scale"})
      options.Int(key, std::string(key) == name ? value : 1);
  });
  options.Finish();
  f.graph().operators[0]->custom_options = options.GetBuffer();
}

const Broken kBrokenDetections[] = {
    {"NoOptions", [](TestModel& f) { f.graph().operators[0]->custom_options.clear(); },
     "its options are no FlexBuffer"},
    {"CutOptions", [](TestModel& f) { f.graph().operators[0]->custom_options.resize(20); },
     "its options are no FlexBuffer"},
    {"NoMap", [](TestModel& f) { f.graph().operators[0]->custom_options = {5, 4, 1}; },
     "its options are no map"},
    {"Scale", [](TestModel& f) { SetDetection(f, "h_scale", 0); }, "h_scale 0, expected above 0"},
    {"Most", [](TestModel& f) { SetDetection(f, "max_detections", 0); },
     "0 detections, 1 of each of 1 classes, expected at least 1"},
    {"ClassesOfEach", [](TestModel& f) { SetDetection(f, "max_classes_per_detection", 2); },
     "2 classes of each detection"},
    {"Classes", [](TestModel& f) { SetDetection(f, "num_classes", 4); },
     "a batch of 1 and 3 scores of each box, expected 1 and at least 4"},
    {"Type", [](TestModel& f) { f.graph().tensors[6]->type = kTestInt32; },
     "output count is int32[1], expected float32"},
    {"Anchors", [](TestModel& f) { f.graph().tensors[2]->shape = {12}; },
     "input 2 (anchors) has rank 1, expected 2"},
};
INSTANTIATE_TEST_SUITE_P(All, TfliteBrokenDetections, testing::ValuesIn(kBrokenDetections),
                         [](const auto& info) { return info.param.name; });

class TfliteBrokenSparsity : public TfliteBroken {};
TEST_P(TfliteBrokenSparsity, IsRefused) {
  TestModel file = SparseNet();
  GetParam().damage(file);
  ExpectRefused(file, std::string("operator 0 (DENSIFY): ") + GetParam().says);
}

fb::sparse::SparsityT& SparsityOf(TestModel& f) { return *f.graph().tensors[0]->sparsity; }
void SetSegments(TestModel& f, std::vector<int32_t> to) {
  SparsityOf(f).axes[1]->segments.AsWith32()->values = std::move(to);
}

const Broken kBrokenSparsity[] = {
    {"Axes", [](TestModel& f) { SparsityOf(f).axes.pop_back(); },
     "input 0 (w): 2 axes of a sparse constant of rank 2 with 1 blocks"},
    {"Order", [](TestModel& f) { SparsityOf(f).traversal_order.pop_back(); },
     "input 0 (w): 3 axes of a sparse constant of rank 2 with 1 blocks"},
    {"AxisTwice", [](TestModel& f) { SparsityOf(f).traversal_order[0] = 1; },
     "input 0 (w): entry 0 of the traversal order is 1"},
    {"BlockBeforeAxes", [](TestModel& f) { SparsityOf(f).traversal_order = {0, 2, 1}; },
     "input 0 (w): entry 2 of the traversal order is 1"},
    {"BlockOfAnAxis", [](TestModel& f) { SparsityOf(f).block_map[0] = 2; },
     "input 0 (w): block 0 divides axis 2 of 2"},
    {"BlockSize", [](TestModel& f) { SparsityOf(f).axes[2]->dense_size = 4; },
     "input 0 (w): blocks of 4 on axis 1 of size 6"},
    {"DenseSize", [](TestModel& f) { SparsityOf(f).axes[0]->dense_size = 1 << 30; },
     "input 0 (w): axis 0 of the sparse constant: a dense size of 1073741824, expected 2"},
    {"Format", [](TestModel& f) { SparsityOf(f).axes[0]->format = 2; },
     "input 0 (w): axis 0 of the sparse constant: format number 2, expected 0 or 1"},
    {"FewSegments", [](TestModel& f) { SetSegments(f, {0, 2}); },
     "input 0 (w): axis 1 of the sparse constant: 2 segments, expected 3"},
    {"NoSegments", [](TestModel& f) { SparsityOf(f).axes[1]->segments.Reset(); },
     "input 0 (w): axis 1 of the sparse constant: 0 segments, expected 3"},
    {"SegmentsBegin", [](TestModel& f) { SetSegments(f, {1, 1, 2}); },
     "input 0 (w): axis 1 of the sparse constant: segments from 1 to 2, expected 0 to 2"},
    {"SegmentsEnd", [](TestModel& f) { SetSegments(f, {0, 0, 3}); },
     "input 0 (w): axis 1 of the sparse constant: segments from 0 to 3, expected 0 to 2"},
    {"SegmentsOverlap", [](TestModel& f) { SetSegments(f, {0, 7, 2}); },
     "input 0 (w): axis 1 of the sparse constant: segment 0 is from 0 to 7"},
    {"SegmentsShrink", [](TestModel& f) { SetSegments(f, {0, -1, 2}); },
     "input 0 (w): axis 1 of the sparse constant: segment 0 is from 0 to -1"},
    {"Index", [](TestModel& f) { SparsityOf(f).axes[1]->indices.AsWith16()->values[1] = 3; },
     "input 0 (w): axis 1 of the sparse constant: index 3 of 3 indices"},
    {"Data", [](TestModel& f) { f.model.buffers[1]->data.resize(12); },
     "input 0 (w): 12 bytes of data for 4 elements of a sparse constant"},
    {"Computed",
     [](TestModel& f) {
       f.graph().tensors[0]->sparsity.reset();
       f.graph().tensors[0]->buffer = 0;
       f.graph().inputs = {0};
     },
     "input 0 (w) is no constant"},
    {"AnotherType", [](TestModel& f) { f.graph().tensors[1]->type = kTestInt32; },
     "y is int32[2, 6], its value w is float32[2, 6]"},
};
INSTANTIATE_TEST_SUITE_P(All, TfliteBrokenSparsity, testing::ValuesIn(kBrokenSparsity),
                         [](const auto& info) { return info.param.name; });

class TfliteBrokenSpectra : public TfliteBroken {};
TEST_P(TfliteBrokenSpectra, AreRefused) {
  TestModel file = SpectrumNet();
  GetParam().damage(file);
  ExpectRefused(file, GetParam().says);
}

const Broken kBrokenSpectra[] = {
    {"Lengths",
     [](TestModel& f) {
       f.model.buffers[1]->data.resize(4);
       f.graph().tensors[1]->shape = {1};
     },
     "operator 0 (RFFT2D): lengths [1], expected two of at least 1"},
    {"LengthOfNothing", [](TestModel& f) { f.model.buffers[1]->data[4] = 0; },
     "operator 0 (RFFT2D): lengths [1, 0], expected two of at least 1"},
    {"Rank", [](TestModel& f) { f.graph().tensors[0]->shape = {4}; },
     "operator 0 (RFFT2D): input 0 has rank 1, expected at least 2"},
    {"RealOutput", [](TestModel& f) { f.graph().tensors[2]->type = kTestFloat; },
     "operator 0 (RFFT2D): output bins has no complex numbers"},
    {"IntegerInput", [](TestModel& f) { f.graph().tensors[0]->type = kTestInt32; },
     "operator 0 (RFFT2D): input 0 (x) is numbers of int32, expected numbers of float32"},
    {"RealInput", [](TestModel& f) { f.graph().operators[1]->inputs = {0}; },
     "operator 1 (COMPLEX_ABS): input 0 (x) is numbers of float32, expected complex numbers of "
     "float32"},
    {"ComplexOutput", [](TestModel& f) { f.graph().outputs = {2}; },
     "output bins: complex numbers"},
    {"ComplexInput", [](TestModel& f) { f.graph().tensors[0]->type = kTestComplex; },
     "input x: complex numbers"},
    {"ComplexSum",
     [](TestModel& f) {
       f.model.operator_codes[1]->short_code = f.model.operator_codes[1]->code = 101;
     },
     "operator 1 (ABS): input 0 (bins): complex numbers"},
    {"ComplexConstant",
     [](TestModel& f) {
       f.graph().operators[1]->inputs = {1};
       f.graph().tensors[1]->type = kTestComplex;
       f.graph().operators.erase(f.graph().operators.begin());
     },
     "operator 0 (COMPLEX_ABS): input 0 (lengths): a constant of complex numbers"},
};
INSTANTIATE_TEST_SUITE_P(All, TfliteBrokenSpectra, testing::ValuesIn(kBrokenSpectra),
                         [](const auto& info) { return info.param.name; });

// Subgraph 1 runs itself on its inputs.
TEST(Tflite, SubgraphsThatNestTooDeep) {
  TestModel file;
  for (int g = 0; g < 2; ++g) {
    if (g > 0) file.AddGraph();
    file.graph().inputs = {file.Tensor("c", {}, kTestBool)};
    fb::IfOptionsT options;
    options.then_graph = options.else_graph = 1;
    file.Operator(118, {0, 0}, {file.Tensor("y", {}, kTestBool)}).options.Set(std::move(options));
    file.graph().outputs = {1};
  }
  const auto graph = Read(file);
  ASSERT_FALSE(graph);
  EXPECT_NE(graph.error().message().find("subgraphs nest more than 8 deep"), std::string::npos)
      << graph.error().message();
}

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
