#include "tests/craft/onnx.h"

#include <google/protobuf/text_format.h>

#include "base/check.h"
#include "onnx/proto.h"

namespace evoq::craft {
namespace {

template <typename Value>
std::string Attribute(const std::string& name, const char* type, const char* field,
                      const std::vector<Value>& values) {
  std::string text = fmt::format("attribute {{ name: '{}' type: {}", name, type);
  for (const Value& value : values) text += fmt::format(" {}: {}", field, value);
  return text + " } ";
}

std::string Dims(const Sizes& sizes) {
  std::string text;
  for (int64_t size : sizes)
    text += size < 0 ? "dim {} " : fmt::format("dim {{ dim_value: {} }} ", size);
  return text;
}

}  // namespace

std::string Int(const std::string& name, int64_t value) {
  return Attribute<int64_t>(name, "INT", "i", {value});
}
std::string Ints(const std::string& name, const Sizes& values) {
  return Attribute(name, "INTS", "ints", values);
}
std::string Float(const std::string& name, float value) {
  return Attribute<float>(name, "FLOAT", "f", {value});
}
std::string Floats(const std::string& name, const std::vector<float>& values) {
  return Attribute(name, "FLOATS", "floats", values);
}
std::string Text(const std::string& name, const std::string& value) {
  return Attribute<std::string>(name, "STRING", "s", {"'" + value + "'"});
}
std::string Subgraph(const std::string& name, const std::string& graph) {
  return fmt::format("attribute {{ name: '{}' type: GRAPH g {{ name: 'g' {} }} }} ", name, graph);
}

std::string Input(const std::string& name, int type, const Sizes& sizes) {
  return fmt::format(
      "input {{ name: '{}' type {{ tensor_type {{ elem_type: {} shape {{ {}}} }} }} }} ", name,
      type, Dims(sizes));
}
std::string InputOfAnyRank(const std::string& name, int type) {
  return fmt::format("input {{ name: '{}' type {{ tensor_type {{ elem_type: {} }} }} }} ", name,
                     type);
}
std::string Output(const std::string& name) {
  return fmt::format("output {{ name: '{}' }} ", name);
}

std::string Constant(const std::string& name, int type, const Sizes& sizes, float value) {
  const char* field = type == kFloat32 ? "float_data"
                      : type == kInt64 ? "int64_data"
                                       : "int32_data";
  std::string text = fmt::format("initializer {{ name: '{}' data_type: {}", name, type);
  int64_t count = 1;
  for (int64_t size : sizes) {
    text += fmt::format(" dims: {}", size);
    count *= size;
  }
  for (int64_t i = 0; i < count; ++i) text += fmt::format(" {}: {}", field, value);
  return text + " } ";
}

std::string Node(const std::string& op, const Names& inputs, const Names& outputs,
                 const std::string& attributes, const std::string& domain) {
  std::string text = fmt::format("node {{ op_type: '{}' domain: '{}' ", op, domain);
  for (const std::string& name : inputs) text += fmt::format("input: '{}' ", name);
  for (const std::string& name : outputs) text += fmt::format("output: '{}' ", name);
  return text + attributes + "} ";
}

std::string WriteOnnx(int opset, const std::string& graph, const std::string& more) {
  std::string text = fmt::format("ir_version: 8 opset_import {{ version: {} }} ", opset);
  for (const char* domain : {"com.microsoft", "qonnx.custom_op.general", "org.openvinotoolkit"})
    text += fmt::format("opset_import {{ domain: '{}' version: 1 }} ", domain);
  text += fmt::format("graph {{ name: 'g' {} }} {}", graph, more);
  onnx::ModelProto model;
  EVOQ_CHECK(google::protobuf::TextFormat::ParseFromString(text, &model), "{}", text);
  return model.SerializeAsString();
}

}  // namespace evoq::craft
