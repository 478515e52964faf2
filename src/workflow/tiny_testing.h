// Models, arrays and files of a few bytes, in a folder that lives as long as a test.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"
#include "data/dataset.h"
#include "onnx/onnx.h"

namespace evoq {

class TinyFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              fmt::format("evoq_test_{}_{}", ::getpid(),
                          ::testing::UnitTest::GetInstance()->random_seed());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string At(const std::string& name) const { return (folder_ / name).string(); }
  int64_t SizeOf(const std::string& name) const {
    return static_cast<int64_t>(std::filesystem::file_size(At(name)));
  }
  static Graph Parsed(const std::string& text) {
    auto graph = ParseGraph(text);
    EXPECT_TRUE(graph) << graph.error().message();
    return std::move(*graph);
  }
  std::string Model(const std::string& name, const std::string& text) {
    EXPECT_TRUE(ExportOnnx(Parsed(text), At(name)));
    return At(name);
  }
  std::string Values(const std::string& name, const Shape& shape,
                     const std::vector<float>& values) {
    EXPECT_TRUE(WriteNpy(Tensor::FromValues<float>(shape, values), At(name)));
    return At(name);
  }
  std::string Text(const std::string& name, const std::string& text) {
    EXPECT_TRUE(WriteFileAtomic(At(name), text));
    return At(name);
  }

  std::filesystem::path folder_;
};

inline constexpr char kSumModel[] =
    "graph g\ninput %x: float32[2]\ninput %s: float32[2]\n"
    "a: %y: float32[2] = Add(%x, %s)\noutput %y\n";

}  // namespace evoq
