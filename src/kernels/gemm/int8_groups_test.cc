#include "kernels/gemm/int8_groups.h"

#include <gtest/gtest.h>

namespace evoq {
namespace {

int64_t ToJoin(int64_t group, int64_t channels, int64_t columns, bool lanes) {
  Int8Geometry geometry;
  geometry.group = group;
  geometry.channels = group * channels;
  geometry.out_channels = group * columns;
  return GroupsToJoin(geometry, lanes);
}

TEST(Int8Groups, FillThePanelsOfTilesWithoutLanes) {
  EXPECT_EQ(ToJoin(32, 2, 2, false), 8);
  EXPECT_EQ(ToJoin(32, 4, 4, false), 4);
  EXPECT_EQ(ToJoin(16, 8, 8, false), 2);
  EXPECT_EQ(ToJoin(8, 16, 16, false), 1);
  EXPECT_EQ(ToJoin(8, 12, 12, false), 1);
  EXPECT_EQ(ToJoin(40, 3, 3, false), 4) << "5 would fit, of 15 channels, which are no words";
  EXPECT_EQ(ToJoin(5, 3, 3, false), 5) << "no other divisor";
  EXPECT_EQ(ToJoin(24, 1, 2, false), 8);
}

TEST(Int8Groups, HaveAWordOfChannels) {
  EXPECT_EQ(ToJoin(32, 2, 2, true), 2) << "the tiles' lanes do the rest";
  EXPECT_EQ(ToJoin(32, 4, 4, true), 1);
  EXPECT_EQ(ToJoin(40, 3, 3, true), 4);
  EXPECT_EQ(ToJoin(32, 1, 2, true), 4);
  for (const bool lanes : {false, true}) {
    EXPECT_EQ(ToJoin(8, 2, 32, lanes), 2) << "wider than a panel";
    EXPECT_EQ(ToJoin(8, 1, 64, lanes), 4);
    EXPECT_EQ(ToJoin(2, 1, 40, lanes), 2) << "there are no more";
  }
}

TEST(Int8Groups, OfDepthwiseAndWholeConvolutionsStay) {
  for (const bool lanes : {false, true}) {
    EXPECT_EQ(ToJoin(64, 1, 1, lanes), 1);
    EXPECT_EQ(ToJoin(1, 3, 8, lanes), 1);
    EXPECT_EQ(ToJoin(7, 64, 64, lanes), 1);
  }
}

}  // namespace
}  // namespace evoq
