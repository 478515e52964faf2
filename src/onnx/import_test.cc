// The importer on small models written as protobuf text.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "onnx/onnx.h"
#include "onnx/proto.h"
#include "ops/op.h"

namespace evoq {
namespace {

using ::testing::HasSubstr;

std::string Serialized(const std::string& text) {
  onnx::ModelProto model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &model)) << text;
  return model.SerializeAsString();
}

Result<Graph> ImportText(const std::string& text) {
  const std::string bytes = Serialized(text);
  return ImportOnnxBytes(std::as_bytes(std::span(bytes)), "test.onnx");
}

std::string Opset(int version) { return fmt::format("ir_version: 8 opset_import {{ version: {} }} ", version); }

std::string Info(const std::string& name, int type, const std::string& dims) {
  return fmt::format("{{ name: '{}' type {{ tensor_type {{ elem_type: {} shape {{ {} }} }} }} }}", name, type, dims);
}

std::string ErrorOf(const Result<Graph>& graph) { return graph ? "imported" : graph.error().message(); }

TEST(Import, KeepsNamesSymbolsAndFacts) {
  const auto graph = ImportText(Opset(13) + "producer_name: 'me' metadata_props { key: 'k' value: 'v' } graph { name: 'g' input " +
                                Info("x", 1, "dim { dim_param: 'N' } dim { dim_value: 3 }") + " output " + Info("y", 1, "") +
                                " node { op_type: 'Identity' input: 'm' output: 'y' }"
                                " node { op_type: 'Identity' input: 'x' output: 'm' } }");
  ASSERT_TRUE(graph) << ErrorOf(graph);
  EXPECT_EQ(graph->value(graph->FindValue("y")).type.ToString(), "float32[N, 3]");
  EXPECT_TRUE(graph->FindNode("Identity_1").valid()) << Print(*graph);
  EXPECT_EQ(graph->metadata.at("onnx.producer_name"), "me");
  EXPECT_EQ(graph->metadata.at("onnx.opset"), "13");
  EXPECT_EQ(graph->metadata.at("k"), "v");
}

}  // namespace
}  // namespace evoq
