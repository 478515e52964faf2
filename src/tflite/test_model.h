// TensorFlow Lite files for tests and fuzzers, written with the tables of tflite/schema.fbs.
#pragma once

#include <flatbuffers/flexbuffers.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tflite/op_row.h"

namespace evoq::tflite {

// The schema's numbers of element types.
enum TestType : int8_t {
  kTestFloat = 0,
  kTestHalf = 1,
  kTestInt32 = 2,
  kTestBool = 6,
  kTestComplex = 8,
  kTestInt8 = 9,
  kTestResource = 13,
  kTestInt4 = 17
};

// A file with one graph. Tensors and operators are added in order, to the graph number `at`; what
// is public may be changed before Bytes is called.
struct TestModel {
  fb::ModelT model;
  size_t at = 0;

  TestModel() {
    model.version = 3;
    model.buffers.push_back(std::make_unique<fb::BufferT>());  // that of computed tensors
    model.subgraphs.push_back(std::make_unique<fb::SubGraphT>());
  }
  fb::SubGraphT& graph() { return *model.subgraphs[at]; }
  void AddGraph() {
    at = model.subgraphs.size();
    model.subgraphs.push_back(std::make_unique<fb::SubGraphT>());
  }

  // Returns the tensor's number. `scales` above 1 lie along `axis`.
  int Tensor(const std::string& name, std::vector<int> shape, int8_t type = kTestFloat,
             std::vector<float> scales = {}, int64_t zero = 0, int axis = 0) {
    auto tensor = std::make_unique<fb::TensorT>();
    tensor->name = name;
    tensor->shape = std::move(shape);
    tensor->type = type;
    if (!scales.empty()) {
      tensor->quantization = std::make_unique<fb::QuantizationT>();
      tensor->quantization->zero_point.assign(scales.size(), zero);
      tensor->quantization->scale = std::move(scales);
      tensor->quantization->quantized_dimension = axis;
    }
    graph().tensors.push_back(std::move(tensor));
    return static_cast<int>(graph().tensors.size()) - 1;
  }
  template <typename T>
  int Constant(const std::string& name, std::vector<int> shape, int8_t type,
               const std::vector<T>& values, std::vector<float> scales = {}, int64_t zero = 0,
               int axis = 0) {
    const int t = Tensor(name, std::move(shape), type, std::move(scales), zero, axis);
    auto buffer = std::make_unique<fb::BufferT>();
    buffer->data.resize(values.size() * sizeof(T));
    std::memcpy(buffer->data.data(), values.data(), buffer->data.size());
    graph().tensors[static_cast<size_t>(t)]->buffer = static_cast<uint32_t>(model.buffers.size());
    model.buffers.push_back(std::move(buffer));
    return t;
  }
  int Ints(const std::string& name, const std::vector<int32_t>& values) {
    return Constant<int32_t>(name, {static_cast<int>(values.size())}, kTestInt32, values);
  }
  fb::OperatorT& Operator(int number, std::vector<int> inputs, std::vector<int> outputs) {
    auto code = std::make_unique<fb::OperatorCodeT>();
    code->short_code = static_cast<int8_t>(std::min(number, 127));
    code->code = number;
    auto op = std::make_unique<fb::OperatorT>();
    op->code_index = static_cast<uint32_t>(model.operator_codes.size());
    op->inputs = std::move(inputs);
    op->outputs = std::move(outputs);
    model.operator_codes.push_back(std::move(code));
    graph().operators.push_back(std::move(op));
    return *graph().operators.back();
  }
  std::string Bytes() const {
    flatbuffers::FlatBufferBuilder builder;
    builder.ForceDefaults(true);  // every field has bytes, which a fuzzer may change
    fb::FinishModelBuffer(builder, fb::Model::Pack(builder, &model));
    return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
  }
};

// int8 [1, 4, 4, 2] -> convolution of 3 filters with a scale each, SAME -> [1, 4, 4, 3].
inline TestModel SmallNet() {
  TestModel file;
  const int x = file.Tensor("x", {1, 4, 4, 2}, kTestInt8, {0.5f}, 3);
  const int w = file.Constant<int8_t>("w", {3, 1, 1, 2}, kTestInt8, {1, 2, 3, 4, 5, 6},
                                      {0.25f, 0.5f, 0.125f});
  const int b = file.Constant<int32_t>("b", {3}, kTestInt32, {8, -8, 16}, {0.125f, 0.25f, 0.0625f});
  const int y = file.Tensor("y", {1, 4, 4, 3}, kTestInt8, {1.0f}, -1);
  auto options = fb::Conv2DOptionsT();
  options.stride_h = options.stride_w = 1;
  file.Operator(3, {x, w, b}, {y}).options.Set(std::move(options));
  file.graph().inputs = {x};
  file.graph().outputs = {y};
  return file;
}

// y = x w^T, of float32 x [1, 4] and int4 w [2, 4] = [1, 2, 3, -4], [-1, 0, 7, -8] with a float16
// scale for each two of a row: 1 and 0.5, 2 and 0.25.
inline TestModel BlocksNet() {
  TestModel file;
  const int x = file.Tensor("x", {1, 4}),
            w = file.Constant<uint8_t>("w", {2, 4}, kTestInt4, {0x21, 0xC3, 0x0F, 0x87}),
            scales = file.Constant<uint16_t>("scales", {2, 2}, kTestHalf,
                                             {0x3C00, 0x3800, 0x4000, 0x3400}),
            y = file.Tensor("y", {1, 2});
  fb::details::BlockwiseQuantizationT blocks;
  blocks.scales = scales;
  blocks.zero_points = -1;
  blocks.block_size = 2;
  auto quantization = std::make_unique<fb::QuantizationT>();
  quantization->details.Set(std::move(blocks));
  file.graph().tensors[static_cast<size_t>(w)]->quantization = std::move(quantization);
  file.Operator(9, {x, w}, {y});
  file.graph().inputs = {x};
  file.graph().outputs = {y};
  return file;
}

// A VAR_HANDLE: the tensor that names the variable.
inline int Handle(TestModel& file, const std::string& name) {
  const int handle = file.Tensor(name + "_handle", {}, kTestResource);
  fb::VarHandleOptionsT options;
  options.shared_name = name;
  file.Operator(142, {}, {handle}).options.Set(std::move(options));
  return handle;
}

// y = x + sum, then sum = y: numbers are float32 [2], the sum begins as `begin`.
inline TestModel SumNet(const std::vector<float>& begin = {0, 0}) {
  TestModel file;
  file.graph().inputs = {file.Tensor("x", {2})};
  fb::CallOnceOptionsT once;
  once.init_graph = 1;
  file.Operator(129, {}, {}).options.Set(std::move(once));
  const int sum = Handle(file, "sum"), before = file.Tensor("before", {2}),
            y = file.Tensor("y", {2}), after = file.Tensor("after", {2});
  file.Operator(143, {sum}, {before});
  file.Operator(0, {0, before}, {y});
  file.Operator(144, {sum, y}, {});
  file.Operator(143, {sum}, {after});
  file.graph().outputs = {y, after};
  file.AddGraph();
  const int handle = Handle(file, "sum");
  file.Operator(144, {handle, file.Constant<float>("begin", {2}, kTestFloat, begin)}, {});
  file.at = 0;
  return file;
}

// y = c ? x * w : x, of float32 [2] and a constant w of the outer graph.
inline TestModel BranchNet() {
  TestModel file;
  const int c = file.Tensor("c", {}, kTestBool), x = file.Tensor("x", {2}),
            w = file.Constant<float>("w", {2}, kTestFloat, {3, 4}), y = file.Tensor("y", {2});
  fb::IfOptionsT options;
  options.then_graph = 1;
  options.else_graph = 2;
  file.Operator(118, {c, x, w}, {y}).options.Set(std::move(options));
  file.graph().inputs = {c, x};
  file.graph().outputs = {y};
  for (const bool product : {true, false}) {
    file.AddGraph();
    file.graph().inputs = {file.Tensor("x", {2}), file.Tensor("w", {2})};
    file.graph().outputs = {product ? file.Tensor("product", {2}) : 0};
    if (product) file.Operator(18, {0, 1}, {2});
  }
  file.at = 0;
  return file;
}

// while (n < 3) { x = x * w; n = n + 1; } of float32 x [2] and an int32 n: gives x and n. A weight
// that each round hands on, constant or an input.
inline TestModel LoopNet(bool constant = true) {
  TestModel file;
  const int x = file.Tensor("x", {2}), n = file.Tensor("n", {}, kTestInt32),
            w = constant ? file.Constant<float>("w", {2}, kTestFloat, {3, 4})
                         : file.Tensor("w", {2});
  std::vector<int> made = {file.Tensor("y", {2}), file.Tensor("rounds", {}, kTestInt32),
                           file.Tensor("w_after", {2})};
  fb::WhileOptionsT options;
  options.cond_graph = 1;
  options.body_graph = 2;
  file.Operator(119, {x, n, w}, made).options.Set(std::move(options));
  file.graph().inputs = {x, n};
  if (!constant) file.graph().inputs.push_back(w);
  file.graph().outputs = made;
  for (const bool body : {false, true}) {
    file.AddGraph();
    const int in = file.Tensor("x", {2}), count = file.Tensor("n", {}, kTestInt32),
              weight = file.Tensor("w", {2}),
              number = file.Constant<int32_t>("number", {}, kTestInt32, {body ? 1 : 3});
    file.graph().inputs = {in, count, weight};
    if (body) {
      const int next = file.Tensor("next", {2}), more = file.Tensor("more", {}, kTestInt32);
      file.Operator(18, {in, weight}, {next});
      file.Operator(0, {count, number}, {more});
      file.graph().outputs = {next, more, weight};
    } else {
      file.graph().outputs = {file.Tensor("less", {}, kTestBool)};
      file.Operator(58, {count, number}, file.graph().outputs);
    }
  }
  file.at = 0;
  return file;
}

// y = DENSIFY(w), w of 2 rows of 6: rows listed, in each blocks of 2, of which the second row has
// the first and the third, and the first row none.
inline TestModel SparseNet() {
  namespace sp = fb::sparse;
  TestModel file;
  const int w = file.Constant<float>("w", {2, 6}, kTestFloat, {1, 2, 3, 4}),
            y = file.Tensor("y", {2, 6});
  auto sparsity = std::make_unique<sp::SparsityT>();
  sparsity->traversal_order = {0, 1, 2};
  sparsity->block_map = {1};
  for (const int size : {2, 0, 2}) {
    sparsity->axes.push_back(std::make_unique<sp::AxisT>());
    sparsity->axes.back()->dense_size = size;
  }
  sp::Indices32T segments;
  segments.values = {0, 0, 2};
  sp::Indices16T indices;
  indices.values = {0, 2};
  sparsity->axes[1]->format = 1;
  sparsity->axes[1]->segments.Set(std::move(segments));
  sparsity->axes[1]->indices.Set(std::move(indices));
  file.graph().tensors[static_cast<size_t>(w)]->sparsity = std::move(sparsity);
  file.Operator(124, {w}, {y});
  file.graph().outputs = {y};
  return file;
}

// y = |RFFT2D(x)|, of x [1, 4] the bins [1, 3].
inline TestModel SpectrumNet() {
  TestModel file;
  const int x = file.Tensor("x", {1, 4}), lengths = file.Ints("lengths", {1, 4}),
            bins = file.Tensor("bins", {1, 3}, kTestComplex), y = file.Tensor("y", {1, 3});
  file.Operator(131, {x, lengths}, {bins});
  file.Operator(135, {bins}, {y});
  file.graph().inputs = {x};
  file.graph().outputs = {y};
  return file;
}

// x[:n], n an input of 1 integer.
inline TestModel CutNet() {
  TestModel file;
  const int x = file.Tensor("x", {4}), n = file.Tensor("n", {1}, kTestInt32),
            y = file.Tensor("y", {4});
  fb::StridedSliceOptionsT options;
  options.begin_mask = 1;
  file.Operator(45, {x, file.Ints("begin", {3}), n, file.Ints("strides", {1})}, {y})
      .options.Set(std::move(options));
  file.graph().inputs = {x, n};
  file.graph().outputs = {y};
  return file;
}

// y = TRANSPOSE_CONV(x) of one channel, a filter of 3 x 3 and strides of 2, to the shape
// (n, 2 h + more, 2 w + more, 1) that the file computes of the shape of `x`.
inline TestModel WideningNet(int padding, int more, std::vector<int> signature) {
  TestModel file;
  const int x = file.Tensor("x", {1, 1, 1, 1}), y = file.Tensor("y", {1, 1, 1, 1}),
            shape = file.Tensor("shape", {4}, kTestInt32);
  for (const int t : {x, y})
    file.graph().tensors[static_cast<size_t>(t)]->shape_signature = signature;
  file.Operator(77, {x}, {shape});
  std::vector<int> sizes;
  for (const int axis : {0, 1, 2}) {
    const std::string name = "size" + std::to_string(axis);
    int size = file.Tensor(name, {}, kTestInt32);
    fb::StridedSliceOptionsT options;
    options.shrink_axis_mask = 1;
    file.Operator(45,
                  {shape, file.Ints(name + "_begin", {axis}), file.Ints(name + "_end", {axis + 1}),
                   file.Ints(name + "_step", {1})},
                  {size})
        .options.Set(std::move(options));
    if (axis > 0) {
      for (const auto& [number, operand] : {std::pair(18, 2), std::pair(0, more)}) {
        const std::string next = name + "_" + std::to_string(number);
        const int made = file.Tensor(next, {}, kTestInt32),
                  factor = file.Constant<int32_t>(next + "_by", {}, kTestInt32, {operand});
        file.Operator(number, {size, factor}, {made});
        size = made;
      }
    }
    sizes.push_back(size);
  }
  sizes.push_back(file.Constant<int32_t>("channels", {}, kTestInt32, {1}));
  const int packed = file.Tensor("packed", {4}, kTestInt32);
  fb::PackOptionsT pack;
  pack.values_count = 4;
  file.Operator(83, sizes, {packed}).options.Set(std::move(pack));
  fb::TransposeConvOptionsT options;
  options.padding = static_cast<int8_t>(padding);
  options.stride_h = options.stride_w = 2;
  const int w = file.Constant<float>("w", {1, 3, 3, 1}, kTestFloat, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  file.Operator(67, {packed, w, x}, {y}).options.Set(std::move(options));
  file.graph().inputs = {x};
  file.graph().outputs = {y};
  return file;
}

// Boxes [0, 0, 1, 1], [0, 0, 1, 0.75] and [2, 2, 3, 3] as anchors, moved by the codes [1, 3, 4];
// scores [1, 3, 3] of a background and two classes. Gives at most three detections.
inline TestModel DetectionNet(bool regular) {
  TestModel file;
  const int codes = file.Tensor("codes", {1, 3, 4}), scores = file.Tensor("scores", {1, 3, 3}),
            anchors =
                file.Constant<float>("anchors", {3, 4}, kTestFloat,
                                     {0.5f, 0.5f, 1, 1, 0.5f, 0.375f, 1, 0.75f, 2.5f, 2.5f, 1, 1});
  const std::vector<int> made = {file.Tensor("boxes", {1, 3, 4}), file.Tensor("classes", {1, 3}),
                                 file.Tensor("best", {1, 3}), file.Tensor("count", {1})};
  flexbuffers::Builder options;
  options.Map([&] {
    options.Int("max_detections", 3);
    options.Int("max_classes_per_detection", 1);
    options.Int("num_classes", 2);
    options.Bool("use_regular_nms", regular);
    options.Float("nms_score_threshold", 0.25f);
    options.Float("nms_iou_threshold", 0.5f);
    for (const char* scale : {"y_scale", "x_scale", "h_scale", "w_scale"}) options.Float(scale, 10);
  });
  options.Finish();
  file.Operator(kCustom, {codes, scores, anchors}, made).custom_options = options.GetBuffer();
  file.model.operator_codes.back()->custom_code = "TFLite_Detection_PostProcess";
  file.graph().inputs = {codes, scores};
  file.graph().outputs = made;
  return file;
}

// The operator on float inputs of [1, 4, 4, 2], with integers where it has more inputs than two:
// what a fuzzer starts from; not every such file is valid.
inline TestModel OneOperator(const OpRow& row) {
  TestModel file;
  std::vector<int> inputs;
  const int count = row.most_inputs < 0 ? 2 : row.most_inputs;
  for (int i = 0; i < count; ++i) {
    if (i == 0) {
      inputs.push_back(file.Tensor("x", {1, 4, 4, 2}));
      file.graph().inputs.push_back(inputs.back());
    } else {
      inputs.push_back(file.Ints("i", {1, 2, 2, 1}));
    }
  }
  const int outputs = row.outputs < 0 ? 2 : row.outputs;
  std::vector<int> made;
  for (int i = 0; i < outputs; ++i) made.push_back(file.Tensor("y", {1, 4, 4, 2}));
  file.graph().outputs = made;
  file.Operator(row.number, inputs, made);
  return file;
}

}  // namespace evoq::tflite
