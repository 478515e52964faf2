// Small ONNX files that stand for much: what their import keeps is drawn on a budget of 128 MiB and
// 64 times the files.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "onnx/onnx.h"
#include "onnx/proto.h"

namespace evoq {
namespace {

onnx::ModelProto Model() {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  return model;
}

Result<Graph> Import(const onnx::ModelProto& model) {
  const std::string bytes = model.SerializeAsString();
  return ImportOnnxBytes(std::as_bytes(std::span(bytes)), "test.onnx");
}

void AddInput(onnx::GraphProto& graph, const std::string& name) {
  auto& input = *graph.add_input();
  input.set_name(name);
  auto& type = *input.mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx::TensorProto::FLOAT);
  type.mutable_shape()->add_dim()->set_dim_value(1);
}

onnx::NodeProto& AddNode(google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes,
                         const std::string& op, std::initializer_list<std::string> inputs,
                         const std::string& output) {
  onnx::NodeProto& node = *nodes.Add();
  node.set_op_type(op);
  for (const std::string& in : inputs) node.add_input(in);
  node.add_output(output);
  return node;
}

// A function that adds a constant of a megabyte, called `calls` times.
onnx::ModelProto Repeated(int calls) {
  onnx::ModelProto model = Model();
  auto& local = *model.add_opset_import();
  local.set_domain("local"), local.set_version(1);
  auto& function = *model.add_functions();
  function.set_name("AddMuch"), function.set_domain("local");
  function.add_input("x"), function.add_output("y");
  function.add_opset_import()->set_version(17);
  auto& attr = *AddNode(*function.mutable_node(), "Constant", {}, "c").add_attribute();
  attr.set_name("value"), attr.set_type(onnx::AttributeProto::TENSOR);
  attr.mutable_t()->set_data_type(onnx::TensorProto::FLOAT);
  attr.mutable_t()->add_dims(1 << 18);
  attr.mutable_t()->set_raw_data(std::string(1 << 20, '\0'));
  AddNode(*function.mutable_node(), "Add", {"x", "c"}, "y");
  auto& graph = *model.mutable_graph();
  graph.set_name("g");
  AddInput(graph, "v0");
  for (int i = 0; i < calls; ++i)
    AddNode(*graph.mutable_node(), "AddMuch", {"v" + std::to_string(i)},
            "v" + std::to_string(i + 1))
        .set_domain("local");
  graph.add_output()->set_name("v" + std::to_string(calls));
  return model;
}

// 192 MiB + 64 KiB; a node takes 1 KiB and its message.
TEST(Budget, FunctionsThatRepeatAConstant) {
  const auto few = Import(Repeated(100));
  EXPECT_TRUE(few) << few.error().message();
  const auto many = Import(Repeated(250));
  ASSERT_FALSE(many);
  EXPECT_EQ(many.error().code(), ErrorCode::kTooLarge);
  EXPECT_NE(many.error().message().find("the nodes of the model's functions: "), std::string::npos)
      << many.error().message();
}

class ExternalBudget : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ + "/data.bin", std::ios::binary) << std::string((1 << 20) + 64, '\0');
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // `count` initializers that are one megabyte of the file, from `offset` on.
  Result<Graph> Overlapping(int count, int offset, onnx::TensorProto::DataType type,
                            int element_bytes) {
    onnx::ModelProto model = Model();
    auto& graph = *model.mutable_graph();
    graph.set_name("g");
    AddInput(graph, "x");
    for (int i = 0; i < count; ++i) {
      auto& tensor = *graph.add_initializer();
      tensor.set_name("w" + std::to_string(i)), tensor.set_data_type(type),
          tensor.add_dims((1 << 20) / element_bytes);
      tensor.set_data_location(onnx::TensorProto::EXTERNAL);
      for (const auto& [key, value] : {std::pair<std::string, std::string>("location", "data.bin"),
                                       {"offset", std::to_string(offset)}}) {
        auto& entry = *tensor.add_external_data();
        entry.set_key(key), entry.set_value(value);
      }
    }
    AddNode(*graph.mutable_node(), "Identity", {"x"}, "y");
    graph.add_output()->set_name("y");
    std::ofstream(folder_ + "/model.onnx", std::ios::binary) << model.SerializeAsString();
    return ImportOnnx(folder_ + "/model.onnx");
  }

  static void ExpectTooLarge(const Result<Graph>& graph, const std::string& what) {
    ASSERT_FALSE(graph);
    EXPECT_EQ(graph.error().code(), ErrorCode::kTooLarge);
    EXPECT_NE(graph.error().message().find(what), std::string::npos) << graph.error().message();
  }

  const std::string folder_ =
      (std::filesystem::temp_directory_path() / fmt::format("evoq_external_{}", ::getpid()))
          .string();
};

// 192 MiB and a little: 128 of the file, 64 of the data.
TEST_F(ExternalBudget, CopiesOfOverlappingData) {
  const auto few = Overlapping(150, 4, onnx::TensorProto::FLOAT, 4);
  EXPECT_TRUE(few) << few.error().message();
  ExpectTooLarge(Overlapping(250, 4, onnx::TensorProto::FLOAT, 4),
                 "external data that is copied: ");
  // What is aligned is read in place.
  const auto views = Overlapping(250, 64, onnx::TensorProto::FLOAT, 4);
  EXPECT_TRUE(views) << views.error().message();
  ExpectTooLarge(Overlapping(250, 64, onnx::TensorProto::BOOL, 1),
                 "external bools, which are copied: ");
  ExpectTooLarge(Overlapping(150, 64, onnx::TensorProto::FLOAT16, 2),
                 "16-bit constants, which become float32: ");
}

}  // namespace
}  // namespace evoq
