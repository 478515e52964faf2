#include "graph/moving_out.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "base/spill.h"
#include "tensor/spilled.h"

namespace evoq {
namespace {

Tensor Made(int64_t count, float first) {
  std::vector<float> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), first);
  return Tensor::FromValues<float>(Shape{count}, values);
}

class MovingOutTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::temp_directory_path() / fmt::format("evoq_moving_{}", ::getpid());
    std::filesystem::create_directories(dir_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::string Path() const { return (dir_ / "result").string(); }

  // Some constants, moved; a small one among them.
  std::vector<ValueId> Move(MovingOut::To to) {
    std::vector<ValueId> ids;
    MovingOut moving(graph_, to);
    for (int i = 0; i < 6; ++i) {
      ids.push_back(graph_.AddConstant(fmt::format("c{}", i), Made(i == 3 ? 10 : 700'000, i)));
      moving.Take(ids.back());
    }
    moving.Settle();
    for (int i = 0; i < 6; ++i) {
      const Tensor expected = Made(i == 3 ? 10 : 700'000, i);
      EXPECT_TRUE(BitEqual(graph_.value(ids[static_cast<size_t>(i)]).constant, expected)) << i;
    }
    return ids;
  }
  bool Mapped(ValueId id) const { return LiesInMappedPart(graph_.value(id).constant.raw()); }

  std::filesystem::path dir_;
  Graph graph_;
};

TEST_F(MovingOutTest, WithoutAScopeTheyStay) {
  for (ValueId id : Move(MovingOut::To::kResult)) EXPECT_FALSE(Mapped(id));
}

TEST_F(MovingOutTest, LargeOnesAreSpilled) {
  const SpillScope spill(dir_.string());
  EarlyParts early(Path());
  const std::vector<ValueId> ids = Move(MovingOut::To::kSpill);
  for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(Mapped(ids[i]), i != 3) << i;
  EXPECT_FALSE(early.Flush()) << "nothing came there";
}

TEST_F(MovingOutTest, OrGoIntoTheResultInOrder) {
  EarlyParts early(Path());
  const std::vector<ValueId> ids = Move(MovingOut::To::kResult);
  std::vector<std::span<const std::byte>> pieces;
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(Mapped(ids[i]), i != 3) << i;
    const Tensor& tensor = graph_.value(ids[i]).constant;
    if (i != 3) pieces.push_back({tensor.raw(), tensor.bytes()});
  }
  const auto begun = early.Take(Path(), EarlyParts::kBegin, pieces);
  ASSERT_TRUE(begun);
  EXPECT_EQ(begun->pieces, 5u);
}

TEST_F(MovingOutTest, AResultThatTakesNoneIsReplacedByTheSpill) {
  const SpillScope spill(dir_.string());
  EarlyParts early("/proc/self/no folder/result");
  const std::vector<ValueId> ids = Move(MovingOut::To::kResult);
  for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(Mapped(ids[i]), i != 3) << i;
}

TEST_F(MovingOutTest, WhatChangesMeanwhileStays) {
  const SpillScope spill(dir_.string());
  MovingOut moving(graph_, MovingOut::To::kSpill);
  const ValueId a = graph_.AddConstant("a", Made(700'000, 0));
  moving.Take(a);
  graph_.SetConstant(a, Made(5, 1));
  moving.Settle();
  EXPECT_TRUE(BitEqual(graph_.value(a).constant, Made(5, 1)));
}

}  // namespace
}  // namespace evoq
