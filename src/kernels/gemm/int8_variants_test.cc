#include "kernels/gemm/int8_variants.h"

#include <gtest/gtest.h>

#include "kernels/gemm/gemm_int8_tile.h"
#include "kernels/gemm/int8_winograd.h"
#include "kernels/test_util.h"

namespace evoq {
namespace {

using Names = std::vector<std::string>;

// A product of `rows` rows and `columns` columns.
Int8Geometry Product(int64_t rows, int64_t columns) {
  Int8Geometry geometry;
  geometry.batch = rows;
  geometry.channels = 32;
  geometry.out_channels = columns;
  return geometry;
}
Names On(const Int8Geometry& geometry, int threads, Isa isa = Isa::kScalar) {
  BindOptions options;
  options.isa = isa;
  options.threads = threads;
  return Int8Variants(geometry, options);
}
// The best instruction set of this machine that has tiles of one kind.
Isa Widest() {
  Isa widest;
  for (const Isa isa : TestIsas()) {
    if (Int8TileFor(isa).small == nullptr) widest = isa;
  }
  return widest;
}

// Tiles wider than half of the columns' panels are no choice; larger blocks are one from 65 rows
// on; who shares out what, with several threads.
TEST(Int8Variants, WhatIsWorthMeasuring) {
  const Isa isa = Widest();
  const bool wide = Int8TileFor(isa).max_panels >= 4;
  if (Int8TileFor(isa).max_panels < 2) GTEST_SKIP() << "tiles of one panel only";
  EXPECT_EQ(On(Product(64, 16), 1, isa), Names());
  EXPECT_EQ(On(Product(64, 17), 1, isa), (Names{"32 wide"}));
  EXPECT_EQ(On(Product(65, 17), 1, isa), (Names{"32 wide", "32 wide large blocks"}));
  EXPECT_EQ(On(Product(64, 17), 2, isa), (Names{"32 wide", "32 wide rows", "32 wide columns"}));
  EXPECT_EQ(On(Product(64, 32), 1, isa), (Names{"32 wide"}));
  EXPECT_EQ(On(Product(64, 33), 1, isa), wide ? (Names{"32 wide", "64 wide"}) : Names{"32 wide"});
  if (!wide) return;
  EXPECT_EQ(On(Product(65, 33), 3, isa),
            (Names{"32 wide", "32 wide large blocks", "32 wide rows", "32 wide columns", "64 wide",
                   "64 wide large blocks", "64 wide rows", "64 wide columns"}));
  Int8Geometry groups = Product(64, 64);
  groups.group = 4;  // of 16 columns and 8 channels
  EXPECT_EQ(On(groups, 1, isa), Names());
  groups.out_channels = 4 * 17;
  EXPECT_EQ(On(groups, 1, isa), (Names{"32 wide"}));
  groups.channels = 4 * 3;  // computed directly
  EXPECT_EQ(On(groups, 1, isa), Names());
}

#if defined(__x86_64__)
// AMX has tiles that are taller than wide, and leaves a choice of AVX-512's.
TEST(Int8Variants, OfTwoKindsOfTiles) {
  for (const Isa isa : {Isa::kAmx, Isa::kAmxSoftware}) {
    EXPECT_EQ(On(Product(64, 33), 1, isa), (Names{"16 wide", "32 wide", "64 wide",
                                                  "32 wide small tiles", "64 wide small tiles"}));
    EXPECT_EQ(On(Product(32, 16), 1, isa), Names());
    EXPECT_EQ(On(Product(33, 16), 1, isa), Names{"16 wide"});
    EXPECT_LE(On(Product(65, 33), 2, isa).size(), 16u);
    // Few rows are left to AVX-512.
    EXPECT_EQ(On(Product(4, 33), 1, isa), On(Product(4, 33), 1, Isa::kAvx512));
  }
}
#endif

TEST(Int8Variants, NamesAreRead) {
  const auto expect = [](std::string_view name, int panels, ShareBy cut, bool large,
                         bool smallest = false) {
    const Int8Variant variant = ParseInt8Variant(name);
    EXPECT_EQ(variant.smallest, smallest) << name;
    EXPECT_EQ(variant.panels, panels) << name;
    EXPECT_EQ(variant.cut, cut) << name;
    EXPECT_EQ(variant.large_blocks, large) << name;
  };
  expect("32 wide", 2, ShareBy::kCost, false);
  expect("64 wide", 4, ShareBy::kCost, false);
  expect("32 wide large blocks", 2, ShareBy::kCost, true);
  expect("64 wide rows", 4, ShareBy::kRows, false);
  expect("32 wide columns", 2, ShareBy::kColumns, false);
  expect("16 wide", 1, ShareBy::kCost, false);
  expect("64 wide small tiles", 4, ShareBy::kCost, false, true);
  for (const char* other : {"", "48 wide", "48 wide rows", "32 wide  rows", " large blocks",
                            "large blocks", kInt8Winograd.data()})
    expect(other, 0, ShareBy::kCost, false);
}

}  // namespace
}  // namespace evoq
