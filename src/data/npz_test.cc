#include "data/npz.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"
#include "data/dataset.h"

namespace evoq {
namespace {

using Arrays = std::vector<std::pair<std::string, Tensor>>;

class NpzFile : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  const std::string path_ =
      std::filesystem::temp_directory_path() / fmt::format("evoq_npz_{}.npz", ::getpid());
};

TEST_F(NpzFile, ReadsBackWhatWasWritten) {
  const Arrays arrays = {{"x", Tensor::FromValues<float>(Shape{2, 3}, {1, 2, 3, 4, 5, -6})},
                         {"a:layer/out", Tensor::FromValues<int64_t>(Shape{}, {7})},
                         {"empty", Tensor::Allocate(TensorType(DType::kUint8, Shape{0, 4}))}};
  const Status written = WriteNpz(arrays, path_);
  ASSERT_TRUE(written) << written.error().message();
  const auto read = ReadNpz(path_);
  ASSERT_TRUE(read) << read.error().message();
  ASSERT_EQ(read->size(), arrays.size());
  for (const auto& [name, tensor] : arrays) {
    ASSERT_TRUE(read->count(name)) << name;
    EXPECT_TRUE(BitEqual(read->at(name), tensor)) << name;
  }
}

TEST_F(NpzFile, IsAFunctionOfItsArrays) {
  const Arrays arrays = {{"x", Tensor::FromValues<float>(Shape{1}, {1})}};
  ASSERT_TRUE(WriteNpz(arrays, path_));
  const std::string first = ReadTextFile(path_).value();
  ASSERT_TRUE(WriteNpz(arrays, path_));
  EXPECT_EQ(ReadTextFile(path_).value(), first);
}

TEST_F(NpzFile, RefusesNamesThatCannotBeTold) {
  const Tensor one = Tensor::FromValues<float>(Shape{1}, {1});
  for (const Arrays& arrays : {Arrays{{"x", one}, {"x", one}}, Arrays{{"", one}},
                               Arrays{{std::string(70000, 'n'), one}}}) {
    const Status written = WriteNpz(arrays, path_);
    ASSERT_FALSE(written);
    EXPECT_NE(written.error().message().find("expected a name of its own"), std::string::npos)
        << written.error().message();
    EXPECT_FALSE(std::filesystem::exists(path_));
  }
}

}  // namespace
}  // namespace evoq
