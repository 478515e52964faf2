// Every condition of the importer of .onnx files: a file that meets it gives its error, and no
// condition is without a file, crafted here or kept in tests/must_fail.
#include "tests/craft/onnx.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "onnx/onnx.h"
#include "tests/craft/conditions.h"
#include "tests/craft/onnx_cases.h"

namespace evoq::craft {
namespace {

Result<Graph> Import(const std::string& bytes) {
  return ImportOnnxBytes(std::as_bytes(std::span(bytes)), "crafted.onnx");
}

TEST(CraftedOnnx, EachGivesItsError) {
  std::set<std::string> seen;
  size_t good = 0;
  for (const OnnxCase& row : OnnxCases()) {
    SCOPED_TRACE(row.condition);
    EXPECT_TRUE(seen.insert(row.condition).second) << "appears twice";
    const auto graph = Import(row.bytes);
    if (row.error.empty()) {
      EXPECT_TRUE(graph) << graph.error().message();
      if (graph) EXPECT_TRUE(graph->Verify());
      ++good;
      continue;
    }
    if (graph) {
      ADD_FAILURE() << "imports, expected: " << row.error << "\n" << Print(*graph);
      continue;
    }
    const std::string& message = graph.error().message();
    EXPECT_NE(graph.error().code(), ErrorCode::kInternal) << message;
    EXPECT_TRUE(message.starts_with("crafted.onnx: ")) << message;
    EXPECT_NE(message.find(row.error), std::string::npos) << message << "\nexpected: " << row.error;
  }
  EXPECT_GE(good, 20u);
}

// What only values of a file of their own can be: read with the type that is expected of them.
TEST(CraftedOnnx, Values) {
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("evoq_craft_{}.pb", getpid())).string();
  const auto error_of = [&](const std::string& bytes, const TensorType& type) {
    std::ofstream(path, std::ios::binary) << bytes;
    const auto value = ReadValueProto(path, type);
    return value ? std::string("none") : value.error().message();
  };
  TensorType sequence(DType::kFloat32, Shape::UnknownRank());
  sequence.kind = ValueKind::kSequence;
  // SequenceProto: elem_type (field 2) is 2, SPARSE_TENSOR.
  EXPECT_EQ(error_of("\x10\x02", sequence), path + ": a sequence of other values than tensors");
  // TensorProto: dims 2, data_type 1, data_location (field 14) EXTERNAL.
  EXPECT_EQ(error_of("\x08\x02\x10\x01\x70\x01", TensorType()),
            path + ": external data where none is allowed");
  EXPECT_TRUE(error_of("\xff", TensorType()).starts_with(path + ": not "));
  std::filesystem::remove(path);
}

// Each sentence that the importer can say is said of some file: a new condition without one fails
// here.
TEST(CraftedOnnx, NoConditionIsWithoutAFile) {
  std::vector<std::string> messages;
  const auto note = [&](const Result<Graph>& graph) {
    if (!graph) messages.push_back(graph.error().message());
  };
  for (const OnnxCase& row : OnnxCases()) note(Import(row.bytes));
  const std::string broken = std::string(EVOQ_SOURCE_DIR) + "/tests/must_fail";
  for (const auto& entry : std::filesystem::directory_iterator(broken)) {
    if (entry.path().extension() == ".onnx") note(ImportOnnx(entry.path().string()));
  }
  const std::set<std::string> elsewhere = {
      // CraftedOnnx.Values
      "a sequence of other values than tensors", "external data where none is allowed",
      "{}: not {}",
      // a folder that goes away while its file is read; a file of 2 GB; one of 60 MB
      "folder '{}': {}", "{} bytes, protobuf files end at 2 GB; store the weights as external data",
      "more than {} nodes in functions",
      // attributes of ai.onnx are of their kind (CheckKind), and these rules are for no others
      "attribute {} is not a list of integers"};
  EXPECT_GT(
      ExpectEachSaid("src/onnx",
                     {"import.cc", "attributes.cc", "external.cc", "functions.cc",
                      "tensor_proto.cc", "quantize.cc", "upgrade.cc", "upgrade_microsoft.cc",
                      "upgrade_packed.cc", "upgrade_quantized.cc", "upgrader.cc"},
                     R"(InvalidInput\(|Unsupported\(|Fail\(ErrorCode::k\w+,)", messages, elsewhere),
      100u);
}

}  // namespace
}  // namespace evoq::craft
