#include "onnx/model_bytes.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "onnx/proto.h"

namespace evoq {
namespace {

class ModelBytes : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string Save(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return (folder_ / name).string();
  }
  static void PutOutside(onnx::TensorProto& tensor, const std::string& location) {
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    auto& entry = *tensor.add_external_data();
    entry.set_key("location"), entry.set_value(location);
  }
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / fmt::format("evoq_model_bytes_{}", ::getpid());
};

// Two initializers in one file, written in two ways; a constant of a subgraph, one of a function
// and an initializer in files of their own; one that is not outside, though it has a location.
TEST_F(ModelBytes, CountsEachExternalFileOnce) {
  Save("a.bin", std::string(1000, 'a')), Save("b.bin", std::string(200, 'b'));
  Save("c.bin", std::string(30, 'c')), Save("unread.bin", std::string(4000, 'u'));
  onnx::ModelProto model;
  auto& graph = *model.mutable_graph();
  PutOutside(*graph.add_initializer(), "a.bin");
  PutOutside(*graph.add_initializer(), "./a.bin");
  auto& branch = *graph.add_node()->add_attribute()->mutable_g();
  PutOutside(*branch.add_node()->add_attribute()->mutable_t(), "b.bin");
  PutOutside(*model.add_functions()->add_node()->add_attribute()->mutable_t(), "c.bin");
  auto& inside = *graph.add_initializer();
  PutOutside(inside, "unread.bin");
  inside.set_data_location(onnx::TensorProto::DEFAULT);
  const std::string bytes = model.SerializeAsString(), path = Save("model.onnx", bytes);
  const auto counted = ModelFileBytes(path);
  ASSERT_TRUE(counted) << counted.error().message();
  EXPECT_EQ(*counted, static_cast<int64_t>(bytes.size()) + 1000 + 200 + 30);
  std::filesystem::remove(folder_ / "b.bin");
  const auto missing = ModelFileBytes(path);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), ErrorCode::kNotFound);
  EXPECT_TRUE(missing.error().message().starts_with(path + ": external data 'b.bin'"))
      << missing.error().message();
}

TEST_F(ModelBytes, OtherFilesAreTheirBytes) {
  EXPECT_EQ(ModelFileBytes(Save("a.etm", "EvoTiny\n and more")), 17);
  EXPECT_EQ(ModelFileBytes(Save("empty.onnx", "")), 0);
  EXPECT_EQ(ModelFileBytes((folder_ / "none.onnx").string()).error().code(), ErrorCode::kNotFound);
  EXPECT_FALSE(ModelFileBytes(folder_.string()));
}

}  // namespace
}  // namespace evoq
