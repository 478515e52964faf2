// Which integer products take AMX's tiles, and that they do: counted on the software's.
#include <gtest/gtest.h>

#include "kernels/amx/emulator_testing.h"
#include "kernels/amx/software.h"
#include "kernels/gemm/int8_block.h"
#include "kernels/gemm/int8_test_case.h"

namespace evoq::int8_test {
namespace {

#if defined(__x86_64__)

TEST(Int8Amx, LeavesSmallProductsToAvx512) {
  const auto expect = [](Int8Use use, const Int8TileDef& tiles, std::string_view why) {
    for (const Int8TileDef* best : {&kInt8TileAmx, &kInt8TileAmxSoftware}) {
      const Int8TileChoice choice = TilesFor(*best, use);
      EXPECT_EQ(choice.tiles, &tiles == &kInt8TileAmx ? best : &tiles) << use.rows;
      EXPECT_EQ(choice.why, why) << use.rows << " " << use.depth;
    }
  };
  expect({.rows = 5, .depth = 32}, kInt8TileAmx, "");
  expect({.rows = 4, .depth = 4096}, kInt8TileAvx512, "for few rows");
  expect({.rows = 4096, .depth = 28}, kInt8TileAvx512, "for short rows");
  expect({.rows = 4096, .depth = 288, .lanes = true}, kInt8TileAvx512, "for narrow groups");
  expect({.rows = 4096, .depth = 288, .smallest = true}, kInt8TileAvx512, "");
  // Others have one kind of tiles.
  EXPECT_EQ(TilesFor(kInt8TileAvx512, {.rows = 1, .depth = 4, .lanes = true}).tiles,
            &kInt8TileAvx512);
  EXPECT_EQ(TilesFor(kInt8TileScalar, {.rows = 1, .depth = 4, .smallest = true}).tiles,
            &kInt8TileScalar);
}

// Tiles end with the rows of a register where they can.
TEST(Int8Amx, HeightsAreWholeRegisters) {
  EXPECT_EQ(TileRows(kInt8TileAmx, 2, 49), 32);
  EXPECT_EQ(TileRows(kInt8TileAmx, 1, 49), 64);
  EXPECT_EQ(TileRows(kInt8TileAmx, 4, 49), 16);
  EXPECT_EQ(TileRows(kInt8TileAmx, 2, 7), 16);
  EXPECT_EQ(TileRows(kInt8TileAmx, 2, 112), 32);
  EXPECT_EQ(TileRows(kInt8TileAvx512, 2, 49), 13);
  EXPECT_EQ(TileRows(kInt8TileAvx512, 2, 112), 14);
}

// What binding and running a case asks of the software's tiles.
struct Ran {
  std::string plan;
  AmxCounts counts;
};
Ran RunOn(Isa isa, const char* kernel_name, const Case& c, std::string_view variant, int threads) {
  Problem p = Build(c);
  const Tensor expected = Expected(p);
  const KernelDef* kernel = FindKernel(kernel_name);
  if (const Tensor packed = *kernel->pack(p.call(), 1); packed.defined()) p.data[1] = packed;
  const AmxCounts before = AmxSoftwareCounts();
  const auto bound = kernel->bind(p.call(), BindOptions{isa, threads, variant});
  RunOnce(p, *bound, expected, Pool(threads));
  const AmxCounts after = AmxSoftwareCounts();
  return {
      bound->plan.ToString(),
      {after.configurations - before.configurations, after.releases - before.releases,
       after.loads - before.loads, after.stores - before.stores, after.products - before.products}};
}

// On AMX_SOFTWARE, and what was compiled for AMX: they ask the same.
Ran RunBoth(const char* kernel_name, const Case& c, std::string_view variant = "",
            int threads = 1) {
  Ran ran = RunOn(Isa::kAmxSoftware, kernel_name, c, variant, threads);
  if (IsaSupported(Isa::kAmx)) return ran;  // counts nothing
  const AmxEmulator emulator;
  const AmxCounts counts = RunOn(Isa::kAmx, kernel_name, c, variant, threads).counts;
  EXPECT_EQ(counts.products, ran.counts.products);
  EXPECT_EQ(counts.loads, ran.counts.loads);
  EXPECT_EQ(counts.stores, ran.counts.stores);
  return ran;
}

Case MatMul(int64_t m, int64_t k, int64_t n) {
  Case c;
  c.op = "MatMul";
  c.x = {m, k};
  c.w = {k, n};
  return c;
}

TEST(Int8Amx, ProductsOfAMatMul) {
  if (!IsaSupported(Isa::kAmxSoftware)) GTEST_SKIP() << "no AVX-512";
  // 3 panels; 40 rows are 3 registers of rows, 32 + 16; 128 bytes are 2 steps: 3 * 3 * 2 products
  // into 3 * 3 registers of sums, each of which begins as the bias. Two panels of so few steps are
  // loaded once; the third one meets all rows in each step.
  const Ran ran = RunBoth("matmul_int8", MatMul(40, 128, 48));
  EXPECT_EQ(ran.plan, "amx software 32x32");
  EXPECT_EQ(ran.counts.products, 18);
  EXPECT_EQ(ran.counts.stores, 9);
  EXPECT_EQ(ran.counts.loads, 9 + 2 * (2 + 3) + 2 * (1 + 3));
  EXPECT_EQ(ran.counts.configurations, 1);
  EXPECT_EQ(ran.counts.releases, 1);
  // One register of rows by four panels, and four by one.
  const Ran wide = RunBoth("matmul_int8", MatMul(16, 64, 64));
  EXPECT_EQ(wide.plan, "amx software 16x64");
  EXPECT_EQ(wide.counts.products, 4);
  EXPECT_EQ(wide.counts.loads, 4 + 5);
  const Ran tall = RunBoth("matmul_int8", MatMul(64, 64, 16), "16 wide");
  EXPECT_EQ(tall.plan, "amx software 64x16");
  EXPECT_EQ(tall.counts.products, 4);
  EXPECT_EQ(tall.counts.loads, 4 + 5);
  // Every thread that has tiles configures its own.
  const Ran threads = RunBoth("matmul_int8", MatMul(640, 256, 256), "", 2);
  EXPECT_EQ(threads.counts.products, 40 * 16 * 4);
  EXPECT_GE(threads.counts.configurations, 2);
  EXPECT_EQ(threads.counts.configurations, threads.counts.releases);
}

TEST(Int8Amx, ProductsOfConvolutions) {
  if (!IsaSupported(Isa::kAmxSoftware)) GTEST_SKIP() << "no AVX-512";
  Case c;
  c.x = {1, 8, 8, 64};
  c.w = {32, 64, 3, 3};
  c.pads = {1, 1, 1, 1};
  // 64 pixels, two panels, a step for each tap: 4 * 2 * 9.
  EXPECT_EQ(RunBoth("conv_int8", c).counts.products, 72);
  // Three channels become four, and a kernel row of 7 one tap of 7 groups: 49 groups of four are 4
  // steps of 13. 16 pixels, one panel.
  c.x = {1, 13, 13, 3};
  c.w = {16, 3, 7, 7};
  c.strides = {2, 2};
  c.pads = {};
  EXPECT_EQ(RunBoth("conv_int8", c).counts.products, 4);
  // Wide groups, one by one: 16 pixels, 2 groups of 2 panels, 9 taps.
  c.x = {1, 4, 4, 128};
  c.w = {64, 64, 3, 3};
  c.strides = {};
  c.pads = {1, 1, 1, 1};
  c.group = 2;
  EXPECT_EQ(RunBoth("conv_int8", c).counts.products, 36);
}

TEST(Int8Amx, WhatIsLeftToAvx512) {
  if (!IsaSupported(Isa::kAmxSoftware)) GTEST_SKIP() << "no AVX-512";
  const auto expect = [](const char* kernel, const Case& c, std::string_view plan,
                         std::string_view variant = "") {
    const Ran ran = RunBoth(kernel, c, variant);
    EXPECT_EQ(ran.plan, plan);
    EXPECT_EQ(ran.counts.configurations, 0);
    EXPECT_EQ(ran.counts.products, 0);
  };
  expect("matmul_int8", MatMul(4, 64, 64), "avx512 4x64 for few rows");
  expect("matmul_int8", MatMul(40, 28, 64), "avx512 14x32 for short rows");
  expect("matmul_int8", MatMul(40, 64, 64), "avx512 14x32", "32 wide small tiles");
  Case groups;
  groups.x = {1, 6, 6, 32};
  groups.w = {32, 4, 3, 3};
  groups.group = 8;
  expect("conv_int8", groups, "avx512 8x16 for narrow groups");
  Case depthwise;
  depthwise.x = {1, 6, 6, 8};
  depthwise.w = {8, 2, 3, 3};
  depthwise.group = 4;
  expect("conv_int8", depthwise, "avx512 8x16 for narrow groups");
}

#endif

}  // namespace
}  // namespace evoq::int8_test
