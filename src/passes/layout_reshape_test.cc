// Permutations through a Reshape, and where the shapes do not tell them.
#include <gtest/gtest.h>

#include "passes/layout.h"

namespace evoq {
namespace {

// -1, -2, ... are dimensions without a size, of different names.
Shape ShapeFrom(const std::vector<int64_t>& sizes) {
  std::vector<Dim> dims;
  for (int64_t size : sizes)
    dims.push_back(size >= 0 ? Dim(size) : Dim::Symbolic("d" + std::to_string(-size)));
  return Shape(std::move(dims));
}

using Sizes = std::vector<int64_t>;

TEST(ReshapePermutation, KeepsGroupsOfNeighboursTogether) {
  const struct {
    const char* what;
    Sizes from, to;
    Permutation perm, gathered, result;
  } kRows[] = {
      {"a merged pair is gathered", {2, 3, 4}, {2, 12}, {0, 2, 1}, {0, 1, 2}, {0, 1}},
      {"a pair stands where its first axis stands",
       {4, 3, 5},
       {12, 5},
       {0, 2, 1},
       {0, 1, 2},
       {0, 1}},
      {"two merged pairs change places", {2, 3, 4, 5}, {6, 20}, {2, 3, 0, 1}, {2, 3, 0, 1}, {1, 0}},
      {"two axes that split", {6, 20}, {2, 3, 4, 5}, {1, 0}, {1, 0}, {2, 3, 0, 1}},
      {"split of three", {24, 5}, {2, 3, 4, 5}, {1, 0}, {1, 0}, {3, 0, 1, 2}},
      {"a 1 is dropped", {2, 1, 3}, {2, 3}, {2, 1, 0}, {2, 1, 0}, {1, 0}},
      {"a last 1 is dropped", {2, 3, 1}, {2, 3}, {2, 1, 0}, {2, 1, 0}, {1, 0}},
      {"two last ones are dropped", {2, 3, 1, 1}, {2, 3}, {1, 0, 3, 2}, {1, 0, 3, 2}, {1, 0}},
      {"a new 1 stands before what follows it", {2, 3}, {2, 1, 3}, {1, 0}, {1, 0}, {1, 2, 0}},
      {"two new ones keep their order", {2, 3}, {2, 1, 1, 3}, {1, 0}, {1, 0}, {1, 2, 3, 0}},
      {"new ones at the end stay there", {2, 3}, {2, 3, 1, 1}, {1, 0}, {1, 0}, {1, 0, 2, 3}},
      {"a 1 inside a group does not place it",
       {5, 4, 1, 3},
       {5, 12},
       {2, 0, 1, 3},
       {0, 1, 2, 3},
       {0, 1}},
      {"the first of a group's axes places it",
       {5, 4, 1, 3},
       {5, 12},
       {3, 0, 1, 2},
       {1, 2, 3, 0},
       {1, 0}},
      {"no axes", {}, {}, {}, {}, {}},
      {"an axis without a size has the same name", {-1, 3}, {-1, 3}, {1, 0}, {1, 0}, {1, 0}},
      {"the only one without a size", {-1, 3}, {-2, 3}, {1, 0}, {1, 0}, {1, 0}},
      {"the second one without a size", {3, -1}, {3, -2}, {1, 0}, {1, 0}, {1, 0}},
      {"nothing but one without a size", {-1}, {-2}, {0}, {0}, {0}},
      {"at another place", {-1, 1}, {1, -2}, {1, 0}, {1, 0}, {0, 1}},
      {"beside a merged pair", {-1, 3, 4}, {-2, 12}, {1, 2, 0}, {1, 2, 0}, {1, 0}},
      {"of 0 elements", {0, 3}, {0, 3}, {1, 0}, {1, 0}, {1, 0}},
  };
  for (const auto& row : kRows) {
    const auto moved = ReshapePermutation(ShapeFrom(row.from), ShapeFrom(row.to), row.perm);
    ASSERT_TRUE(moved) << row.what;
    EXPECT_EQ(moved->gathered, row.gathered) << row.what;
    EXPECT_EQ(moved->result, row.result) << row.what;
  }
}

TEST(ReshapePermutation, IsNothingWhereTheShapesDoNotTell) {
  constexpr int64_t kLarge = int64_t{1} << 32;
  const struct {
    const char* what;
    Sizes from, to;
  } kRows[] = {
      {"other products", {6}, {4}},
      {"the input goes on", {6, 5}, {6}},
      {"the output goes on", {6}, {6, 5}},
      {"a size that is not known against one", {3}, {-1, 3}},
      {"one against a size that is not known", {-1, 3}, {3}},
      {"not at the same place", {-1, 3}, {3, -2}},
      {"other sizes beside it", {-1, 4}, {-2, 2}},
      {"two that are not known, the first renamed", {-1, -3}, {-2, -3}},
      {"two that are not known, the second renamed", {-3, -1, 4}, {-3, -2, 4}},
      {"two that are not known are no product", {3, -1, -2, 2}, {6}},
      {"0 elements whatever the size is", {-1, 0}, {-2, 0}},
      {"0 elements first", {0, -1}, {0, -2}},
      {"0 elements last", {3, 0}, {0, 3}},
      // (2^32 + 1) 2^32 is 2^32 modulo 2^64.
      {"a product beyond 64 bits", {kLarge + 1, -1, kLarge}, {kLarge + 1, -2, kLarge}},
      {"a product beyond 32 bits", {65536, 32768}, {int64_t{1} << 31}},
      {"parts of a size beyond 32 bits", {int64_t{1} << 31}, {65536, 32768}},
  };
  for (const auto& row : kRows) {
    Permutation perm;
    for (size_t i = row.from.size(); i > 0; --i) perm.push_back(static_cast<int64_t>(i) - 1);
    EXPECT_FALSE(ReshapePermutation(ShapeFrom(row.from), ShapeFrom(row.to), perm)) << row.what;
  }
  EXPECT_FALSE(ReshapePermutation(Shape::UnknownRank(), ShapeFrom({}), {}))
      << "input without a rank";
  EXPECT_FALSE(ReshapePermutation(ShapeFrom({}), Shape::UnknownRank(), {}))
      << "output without a rank";
}

}  // namespace
}  // namespace evoq
