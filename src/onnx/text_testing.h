// Small ONNX models for tests, written as protobuf text from pieces.
#pragma once

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "onnx/onnx.h"
#include "onnx/proto.h"
#include "reference/reference.h"

namespace evoq::text {

using Names = std::vector<std::string>;
using Sizes = std::vector<int64_t>;

inline std::string Int(const std::string& name, int64_t value) {
  return fmt::format("attribute {{ name: '{}' type: INT i: {} }} ", name, value);
}
inline std::string Ints(const std::string& name, const Sizes& values) {
  std::string text = fmt::format("attribute {{ name: '{}' type: INTS ", name);
  for (int64_t v : values) text += fmt::format("ints: {} ", v);
  return text + "} ";
}
inline std::string Float(const std::string& name, float value) {
  return fmt::format("attribute {{ name: '{}' type: FLOAT f: {} }} ", name, value);
}
inline std::string Text(const std::string& name, const std::string& value) {
  return fmt::format("attribute {{ name: '{}' type: STRING s: '{}' }} ", name, value);
}

inline std::string Type(int type, const Sizes& sizes) {
  std::string text = fmt::format("type {{ tensor_type {{ elem_type: {} shape {{ ", type);
  for (int64_t size : sizes) text += fmt::format("dim {{ dim_value: {} }} ", size);
  return text + "} } } ";
}
inline std::string Input(const std::string& name, int type, const Sizes& sizes) {
  return fmt::format("input {{ name: '{}' {}}} ", name, Type(type, sizes));
}
inline std::string Output(const std::string& name) {
  return fmt::format("output {{ name: '{}' }} ", name);
}
// An initializer of ONNX's element type `type`: 1 is float, 7 int64, others are kept as int32.
inline std::string Constant(const std::string& name, int type, const Sizes& sizes,
                            const std::vector<double>& values) {
  std::string text = fmt::format("initializer {{ name: '{}' data_type: {} ", name, type);
  for (int64_t size : sizes) text += fmt::format("dims: {} ", size);
  const char* field = type == 1 ? "float" : type == 7 ? "int64" : "int32";
  for (double v : values) text += fmt::format("{}_data: {} ", field, v);
  return text + "} ";
}
inline std::string Node(const std::string& op, const Names& inputs, const Names& outputs,
                        const std::string& attributes = "", const std::string& domain = "") {
  std::string text = fmt::format("node {{ op_type: '{}' domain: '{}' ", op, domain);
  for (const std::string& in : inputs) text += fmt::format("input: '{}' ", in);
  for (const std::string& out : outputs) text += fmt::format("output: '{}' ", out);
  return text + attributes + "} ";
}

inline Result<Graph> Import(int opset, const std::string& graph) {
  onnx::ModelProto model;
  const std::string text = fmt::format(
      "ir_version: 8 opset_import {{ version: {} }} opset_import {{ domain: 'com.microsoft' "
      "version: 1 }} opset_import {{ domain: 'onnx.brevitas' version: 1 }} opset_import {{ domain: "
      "'org.openvinotoolkit' version: 1 }} graph {{ name: 'g' {} }}",
      opset, graph);
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &model)) << text;
  const std::string bytes = model.SerializeAsString();
  return ImportOnnxBytes(std::as_bytes(std::span(bytes)), "test.onnx");
}

// What the file holds to which the graph is exported.
inline onnx::ModelProto Exported(const Graph& graph) {
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("evoq_export_test_{}.onnx", ::getpid()))
          .string();
  const Status written = ExportOnnx(graph, path);
  EXPECT_TRUE(written) << written.error().message();
  onnx::ModelProto model;
  if (!written) return model;
  EXPECT_TRUE(model.ParseFromString(*ReadTextFile(path)));
  std::filesystem::remove(path);
  return model;
}

inline std::string ErrorOf(const Result<Graph>& graph) {
  return graph ? "imported" : graph.error().message();
}

// The outputs' real values, of bools 0 and 1.
inline std::vector<std::vector<float>> Evaluated(const Result<Graph>& graph,
                                                 const std::vector<Tensor>& inputs) {
  EXPECT_TRUE(graph) << ErrorOf(graph);
  if (!graph) return {};
  const auto outputs = EvaluateGraph(*graph, inputs);
  EXPECT_TRUE(outputs) << outputs.error().message();
  if (!outputs) return {};
  std::vector<std::vector<float>> values;
  for (const Tensor& y : *outputs) {
    const auto real = ToFloat32(y);
    EXPECT_TRUE(real) << real.error().message();
    values.emplace_back(real->data<float>(), real->data<float>() + real->elements());
  }
  return values;
}

inline Tensor Reals(const Sizes& sizes, const std::vector<float>& values) {
  return Tensor::FromValues<float>(Shape(sizes), values);
}

inline void ExpectNear(const std::vector<float>& got, const std::vector<float>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-5) << i;
}

}  // namespace evoq::text
