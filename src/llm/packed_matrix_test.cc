// Numbers in words, and what groups of them become.
#include "llm/packed_matrix.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace evoq {
namespace {

std::span<const std::byte> BytesOf(const std::vector<uint32_t>& words) {
  return std::as_bytes(std::span(words));
}

TEST(PackedNumbers, AlongARowAndDownAColumn) {
  const std::vector<uint32_t> words = {0x76543210, 0xfedcba98, 0x00000001, 0x00000002};
  PackedNumbers q{.words = BytesOf(words), .rows = 2, .columns = 9};
  EXPECT_EQ(q.sizes(), (std::vector<int64_t>{2, 2}));
  for (int i = 0; i < 8; ++i) EXPECT_EQ(q.At(0, i), i);
  EXPECT_EQ(q.At(0, 8), 8) << "the next word";
  EXPECT_EQ(q.At(1, 0), 1);
  EXPECT_EQ(q.At(1, 8), 2);
  q = {.words = BytesOf(words), .rows = 9, .columns = 2, .down = true};
  EXPECT_EQ(q.sizes(), (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(q.At(7, 0), 7);
  EXPECT_EQ(q.At(0, 1), 8);
  EXPECT_EQ(q.At(8, 0), 1);
  EXPECT_EQ(q.At(8, 1), 2);
  q = {.words = BytesOf(words), .rows = 1, .columns = 8, .bits = 8};
  EXPECT_EQ(q.At(0, 3), 0x76);
  EXPECT_EQ(q.At(0, 4), 0x98) << "no sign";
  q.bytes = true;
  EXPECT_EQ(q.At(0, 4), 0x98 - 256);
  q = {.words = BytesOf(words), .rows = 1, .columns = 8, .places = {0, 4, 1, 5, 2, 6, 3, 7}};
  EXPECT_EQ(q.At(0, 1), 4);
  EXPECT_EQ(q.At(0, 2), 1);
}

// Two groups of two inputs, three outputs.
GroupedMatrix Small(const std::vector<uint32_t>& words) {
  return {.inputs = 4,
          .outputs = 3,
          .group = 2,
          .q = {.words = BytesOf(words), .rows = 4, .columns = 3},
          .scale = [](int64_t g, int64_t n) { return static_cast<float>(1 + 3 * g + n); },
          .zero = [](int64_t g, int64_t n) { return static_cast<int>(3 * g + n); }};
}

TEST(GroupedMatrix, ConstantsHaveTheVeryValues) {
  const std::vector<uint32_t> words = {0x321, 0x654, 0x987, 0xcba};
  GroupedMatrix matrix = Small(words);
  const auto q = matrix.ToConstant();
  ASSERT_TRUE(q) << q.error().message();
  EXPECT_EQ(q->type().ToString(), "uint4[4, 3](6 scales on axis 0, block 2)");
  for (int64_t k = 0; k < 4; ++k) {
    for (int64_t n = 0; n < 3; ++n)
      EXPECT_EQ(int{PackedBits(q->raw(), k * 3 + n, 4)}, 3 * k + n + 1) << k << " " << n;
  }
  EXPECT_EQ(q->type().quant->scales, (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(q->type().quant->zero_points, (std::vector<int32_t>{0, 1, 2, 3, 4, 5}));
  // In another order of inputs, and of one group: a scale for each output.
  matrix.order = {2, 3, 0, 1};
  EXPECT_EQ(int{PackedBits(matrix.ToConstant()->raw(), 0, 4)}, 7);
  matrix.group = 4;
  EXPECT_EQ(matrix.ToConstant()->type().ToString(), "uint4[4, 3](3 scales on axis 1)");
}

TEST(GroupedMatrix, ScalesOfNothingAndNone) {
  const std::vector<uint32_t> words = {0x321, 0x654, 0x987, 0xcba};
  GroupedMatrix matrix = Small(words);
  matrix.scale = [](int64_t g, int64_t) { return g == 0 ? 0.0f : 2.0f; };
  const auto q = matrix.ToConstant();
  ASSERT_TRUE(q) << q.error().message();
  EXPECT_EQ(q->type().quant->scales, (std::vector<float>{1, 1, 1, 2, 2, 2}));
  for (int64_t n = 0; n < 3; ++n)
    EXPECT_EQ(int{PackedBits(q->raw(), n, 4)}, n) << "the zero point: its value is 0";
  for (const float bad : {NAN, INFINITY, -1.0f}) {
    matrix.scale = [bad](int64_t g, int64_t n) { return g == 1 && n == 2 ? bad : 1.0f; };
    const auto refused = matrix.ToConstant();
    ASSERT_FALSE(refused) << bad;
    EXPECT_NE(refused.error().message().find("output 2, group 1: the scale is"), std::string::npos);
  }
}

TEST(GroupedMatrix, InputsByGroup) {
  const auto order = [](std::vector<int32_t> groups, int64_t group) {
    const auto bytes = std::as_bytes(std::span(groups));
    return OrderByGroup({.sizes = {4}, .dtype = DType::kInt32, .bytes = bytes}, 4, group);
  };
  EXPECT_TRUE(order({0, 0, 1, 1}, 2)->empty()) << "as they are";
  EXPECT_EQ(*order({1, 0, 1, 0}, 2), (std::vector<int64_t>{1, 3, 0, 2}));
  EXPECT_EQ(order({0, 0, 0, 1}, 2).error().message(), "g_idx: group 0 has 3 inputs, expected 2");
  EXPECT_EQ(order({0, 0, 2, 1}, 2).error().message(), "g_idx: input 2 is in group 2 of 2");
  EXPECT_EQ(order({0, 0, -1, 1}, 2).error().message(), "g_idx: input 2 is in group -1 of 2");
}

TEST(GroupedMatrix, GroupsOfSettings) {
  const auto group = [](const char* text) { return GroupOf(nlohmann::json::parse(text), 256); };
  EXPECT_EQ(*group("{}"), 128);
  EXPECT_EQ(*group(R"({"group_size": 64})"), 64);
  EXPECT_EQ(*group(R"({"q_group_size": 32})"), 32);
  EXPECT_EQ(*group(R"({"group_size": -1})"), 256);
  EXPECT_EQ(*group(R"({"group_size": 256})"), 256);
  for (const char* bad : {R"({"group_size": 0})", R"({"group_size": 100})", R"({"group_size": -2})",
                          R"({"group_size": 512})"})
    EXPECT_EQ(group(bad).error().code(), ErrorCode::kUnsupported) << bad;
  EXPECT_EQ(group(R"({"group_size": "x"})").error().message(), "group_size is \"x\"");
}

}  // namespace
}  // namespace evoq
