// How products are cut into tiles, blocks and parts for threads: what PlanGemm chooses, worked
// out by hand from its limits (tiles of 14 x 32, 6 x 64 and 28 x 16, 256 KiB of B, 224 rows, 1024
// of K); and what the integer engine chooses, by its name and its scratch memory.
#include <limits>

#include "base/math.h"
#include "kernels/gemm/gemm_bf16.h"
#include "kernels/gemm/int8_test_case.h"
#include "kernels/gemm/int8_winograd.h"
#include "kernels/gemm/int8_winograd_tile.h"
#include "kernels/gemm/share_out.h"

namespace evoq {
namespace {

#if defined(__x86_64__)
constexpr int64_t kNoSharing = std::numeric_limits<int32_t>::max();

GemmSizes Sizes(int64_t rows, int64_t columns, int64_t taps, int64_t depth) {
  GemmSizes sizes;
  sizes.rows = rows;
  sizes.columns = columns;
  sizes.taps = taps;
  sizes.depth = depth;
  sizes.panel_stride = taps * depth * kPanelF32;
  sizes.row_bytes = 4 * depth;
  return sizes;
}
GemmPlan Plan(const GemmSizes& sizes, int threads = 1) {
  return PlanGemm(sizes, GemmTypesF32(Isa::kAvx512), Activation(), {Isa::kAvx512, threads, {}});
}

TEST(GemmPlan, TilesAndBlocks) {
  struct Case {
    int64_t rows, columns, taps, depth;
    int panels;
    int64_t tiles, row_blocks, group_panels, grain;
  };
  const Case cases[] = {
      {1000, 64, 1, 100, 2, 72, 5, 40,
       1},  // 1000 / 14; 16 tiles to a block; 40 panels of 6400 bytes
      {6, 64, 1, 100, 4, 1, 1, 40, kNoSharing},  // the tile of few rows; 38400 multiplications
      {7, 64, 1, 100, 2, 1, 1, 40, kNoSharing},
      {28, 36, 1, 65, 2, 2, 1, 62, kNoSharing},  // 65520 multiplications
      {28, 36, 1, 66, 2, 2, 1, 62, 1},           // 66528; 62 of 4224 bytes
      {1000, 16, 1, 100, 1, 36, 5, 40, 1},       // one panel: 1000 / 28; 8 tiles to a block
      {1000, 17, 1, 100, 2, 72, 5, 40, 1},
      {11, 64, 1, 1024, 4, 2, 1, 4, 1},  // rows 4096 bytes apart: tiles of 6
      {15, 32, 1, 1024, 2, 3, 1, 4, 1},  // or 7
      {10, 64, 1, 1024, 2, 1, 1, 4, 1},  // ten rows evict none of each other
      {11, 64, 1, 1020, 2, 1, 1, 4, 1},
      {14, 64, 2, 1024, 4, 3, 1, 4, 1},     // of several taps too
      {100, 256, 1, 3000, 2, 8, 1, 4, 1},   // 4 panels of 1008 * 64 bytes
      {1000, 64, 130, 1, 2, 72, 5, 14, 1},  // sums of 15 tiles: 7 units of 6720 fit
      {1000, 64, 0, 8, 2, 72, 5, 4096, kNoSharing},
  };
  for (const Case& c : cases) {
    const GemmPlan plan = Plan(Sizes(c.rows, c.columns, c.taps, c.depth));
    const std::string label = fmt::format("{} x {} of {} x {}", c.rows, c.columns, c.taps, c.depth);
    EXPECT_EQ(plan.panels, c.panels) << label;
    EXPECT_EQ(plan.tiles, c.tiles) << label;
    EXPECT_EQ(plan.row_blocks, c.row_blocks) << label;
    EXPECT_EQ(plan.column_blocks, 1) << label;
    EXPECT_EQ(plan.group_panels, c.group_panels) << label;
    EXPECT_EQ(plan.grain, c.grain) << label;
    EXPECT_EQ(plan.k_stride, c.tiles > 1 ? c.depth * 16 : 0) << label;
  }
  GemmSizes apart = Sizes(1000, 64, 9, 100);
  apart.taps_in_order = false;
  EXPECT_EQ(Plan(apart).k_stride, 0);
  GemmSizes jobs = Sizes(28, 36, 1, 33);  // 33264 multiplications, twice
  EXPECT_EQ(Plan(jobs).grain, kNoSharing);
  jobs.jobs = 2;
  EXPECT_EQ(Plan(jobs).grain, 1);
}

// K is cut at taps, or within one where it has more than 1024: tap, taps, k and depth of each part.
TEST(GemmPlan, Segments) {
  using Parts = std::vector<std::vector<int64_t>>;
  const auto parts = [](int64_t rows, int64_t taps, int64_t depth) {
    Parts found;
    for (const GemmSegment& s : Plan(Sizes(rows, 64, taps, depth)).segments)
      found.push_back({s.tap, s.taps, s.k, s.depth});
    return found;
  };
  EXPECT_EQ(parts(100, 1, 1024), (Parts{{0, 1, 0, 1024}}));
  EXPECT_EQ(parts(100, 1, 1025), (Parts{{0, 1, 0, 528}, {0, 1, 528, 497}}));  // 513, in whole 16
  EXPECT_EQ(parts(100, 2, 1500),
            (Parts{{0, 1, 0, 752}, {0, 1, 752, 748}, {1, 1, 0, 752}, {1, 1, 752, 748}}));
  EXPECT_EQ(parts(10, 1, 3000), (Parts{{0, 1, 0, 3000}}));  // few rows
  EXPECT_EQ(parts(11, 1, 3000), (Parts{{0, 1, 0, 1008}, {0, 1, 1008, 1008}, {0, 1, 2016, 984}}));
  EXPECT_EQ(
      parts(100, 9, 512),
      (Parts{{0, 2, 0, 512}, {2, 2, 0, 512}, {4, 2, 0, 512}, {6, 2, 0, 512}, {8, 1, 0, 512}}));
  EXPECT_EQ(parts(100, 9, 300), (Parts{{0, 3, 0, 300}, {3, 3, 0, 300}, {6, 3, 0, 300}}));
  EXPECT_EQ(parts(100, 130, 1),
            (Parts{{0, 44, 0, 1}, {44, 44, 0, 1}, {88, 42, 0, 1}}));  // at most 64
  EXPECT_EQ(parts(100, 0, 8), (Parts{{0, 0, 0, 0}}));
  EXPECT_EQ(parts(100, 8, 0), (Parts{{0, 0, 0, 0}}));
}

// One tile of rows reads B once; of one or two rows with several panels nothing is asked for.
TEST(GemmPlan, Walks) {
  for (const int64_t rows : {1, 2, 3, 6, 8, 14, 15, 100})
    EXPECT_EQ(Plan(Sizes(rows, 640, 1, 4000)).walks, rows >= 3 && rows <= 14) << rows;
  EXPECT_FALSE(Plan(Sizes(8, 640, 9, 64)).walks);
  GemmSizes apart = Sizes(8, 640, 1, 4000);
  apart.taps_in_order = false;
  EXPECT_FALSE(Plan(apart).walks);
  for (const int64_t rows : {1, 6, 7}) {
    const GemmPlan plan = PlanGemm(Sizes(rows, 640, 1, 4000), GemmTypesF32(Isa::kAvx2),
                                   Activation(), {Isa::kAvx2, 1, {}});
    EXPECT_EQ(plan.walks, rows <= 6) << rows;
  }
}

TEST(ShareOut, EachItemHasItsPart) {
  for (int64_t count = 1; count <= 40; ++count) {
    for (int64_t parts = 1; parts <= count; ++parts) {
      for (int64_t part = 0; part < parts; ++part) {
        for (int64_t i = PartBegin(count, parts, part); i < PartBegin(count, parts, part + 1); ++i)
          ASSERT_EQ(PartOf(count, parts, i), part) << i << " of " << count << ", " << parts;
      }
    }
  }
}

// The least of the costs that share_out.h describes, computed apart from it. The first: of 28 x 64
// by 100 two blocks of columns cost 2978 ns, two of rows 3225, four of both 3575, one task 4627.
TEST(GemmPlan, SharedOut) {
  struct Case {
    int64_t rows, columns, taps, depth, jobs;
    int threads;
    int64_t row_blocks, column_blocks;
  };
  const Case cases[] = {{28, 64, 1, 100, 1, 2, 1, 2},    {300, 64, 1, 100, 1, 3, 3, 1},
                        {1000, 256, 1, 512, 1, 4, 8, 1}, {100, 1000, 1, 64, 1, 4, 1, 4},
                        {50, 32, 9, 16, 8, 2, 1, 1},     {14, 512, 1, 2000, 1, 3, 1, 3},
                        {476, 626, 9, 63, 1, 4, 4, 2},   {2026, 459, 1, 92, 1, 3, 21, 1},
                        {424, 640, 1, 61, 1, 2, 2, 2},   {2761, 125, 1, 60, 1, 2, 16, 1},
                        {126, 32, 1, 186, 1, 4, 4, 1}};
  for (const Case& c : cases) {
    GemmSizes sizes = Sizes(c.rows, c.columns, c.taps, c.depth);
    sizes.jobs = c.jobs;
    const GemmPlan plan = Plan(sizes, c.threads);
    EXPECT_EQ(plan.row_blocks, c.row_blocks) << c.rows << " x " << c.columns;
    EXPECT_EQ(plan.column_blocks, c.column_blocks) << c.rows << " x " << c.columns;
    EXPECT_EQ(plan.tasks(), c.row_blocks * c.column_blocks) << c.rows << " x " << c.columns;
  }
}

// Groups of at most 8 columns, whole ones to a panel, of which the depths fit 16 floats.
TEST(GemmPlan, Lanes) {
  EXPECT_TRUE(FitsLanesF32(4, 4, Isa::kAvx512));
  EXPECT_FALSE(FitsLanesF32(5, 4, Isa::kAvx512));
  EXPECT_TRUE(FitsLanesF32(8, 8, Isa::kAvx512));
  EXPECT_FALSE(FitsLanesF32(1, 16, Isa::kAvx512));
  EXPECT_FALSE(FitsLanesF32(1, 3, Isa::kAvx512));
  EXPECT_FALSE(FitsLanesF32(1, 0, Isa::kAvx512));
  EXPECT_TRUE(FitsLanesF32(1, 1, Isa::kAvx512));
  EXPECT_TRUE(FitsLanesF32(4, 4, Isa::kAvx2));
  EXPECT_FALSE(FitsLanesF32(4, 4, Isa::kScalar));
  GemmSizes sizes = Sizes(1000, 16, 9, 3);
  sizes.lane_columns = 4;
  const GemmPlan plan = Plan(sizes);
  EXPECT_EQ(plan.lanes, (std::vector<int32_t>{0, 0, 0, 0, 3, 3, 3, 3, 6, 6, 6, 6, 9, 9, 9, 9}));
  EXPECT_EQ(plan.panels, 1);
  EXPECT_EQ(plan.tiles, 72);  // of 14 rows
}

// Tiles by rows, depth and columns: 14 x 32 or 6 x 64, of nearly equal height. Scratch: a tap of
// padding, two rows of columns, and per part the pointers and sums of its rows and a range.
TEST(Int8Plan, TilesBlocksAndParts) {
  if (!IsaSupported(Isa::kAvx512)) GTEST_SKIP() << "no AVX-512";
  struct Case {
    int64_t m, k, n;
    int threads;
    const char* choice;
    const char* variant;
    size_t scratch;
  };
  const Case cases[] = {
      {1, 20, 16, 1, "", "avx512 1x16", 64 + 128 + 64 + 64 + 128},
      {15, 20, 16, 1, "", "avx512 8x16", 64 + 128 + 128 + 64 + 128},    // blocks of 16 rows
      {29, 20, 40, 1, "", "avx512 10x32", 64 + 384 + 256 + 128 + 128},  // 30 rows
      {7, 20, 48, 1, "", "avx512 7x32", 64 + 384 + 64 + 64 + 128},
      {6, 20, 64, 1, "", "avx512 6x64", 64 + 512 + 64 + 64 + 128},
      {7, 20, 64, 1, "", "avx512 7x32", 64 + 512 + 64 + 64 + 128},
      {8, 20, 64, 1, "", "avx512 8x32", 64 + 512 + 64 + 64 + 128},
      {8, 20, 64, 1, "64 wide", "avx512 4x64", 64 + 512 + 64 + 64 + 128},
      {6, 20, 64, 1, "32 wide", "avx512 6x32", 64 + 512 + 64 + 64 + 128},
      {8, 20, 33, 1, "64 wide", "avx512 4x64", 64 + 384 + 64 + 64 + 128},
      {8, 20, 32, 1, "64 wide", "avx512 8x32", 64 + 256 + 64 + 64 + 128},
      // Rows of 4096 bytes, or of 2048 with long taps, and outputs of 4096: more than ten evict one
      // another.
      {11, 4096, 64, 1, "", "avx512 6x64", 4096 + 512 + 128 + 64 + 128},
      {10, 4096, 64, 1, "", "avx512 10x32", 4096 + 512 + 128 + 64 + 128},
      {11, 4092, 64, 1, "", "avx512 11x32", 4096 + 512 + 128 + 64 + 128},
      {11, 2048, 64, 1, "", "avx512 6x64", 2048 + 512 + 128 + 64 + 128},
      {11, 20, 4096, 1, "", "avx512 6x64", 64 + 2 * 16384 + 128 + 64 + 128},
      // Five blocks of 2002 rows of 64 + 64 bytes in 256 KiB; 8192 pointers; 24 tiles beside large
      // weights.
      {10000, 64, 64, 1, "", "avx512 14x32", 64 + 512 + 16064 + 8064 + 128},
      {10000, 64, 64, 1, "32 wide large blocks", "avx512 14x32", 64 + 512 + 40128 + 20096 + 128},
      {20000, 4, 1, 1, "", "avx512 14x16", 64 + 128 + 53440 + 26752 + 128},
      {1000, 4096, 256, 1, "", "avx512 6x64", 4096 + 2048 + 1152 + 576 + 128},
      {1000, 4092, 256, 1, "", "avx512 14x32", 4096 + 2048 + 2688 + 1344 + 128},
      // Least costs, computed apart: one part is enough; by rows in 3, in 2, in 8; by columns in 3.
      {29, 20, 40, 2, "", "avx512 10x32", 64 + 384 + 512},
      {301, 260, 90, 3, "", "avx512 14x32", 320 + 768 + 3 * (896 + 448 + 128)},
      {301, 260, 90, 3, "32 wide rows", "avx512 14x32", 320 + 768 + 3 * (896 + 448 + 128)},
      {301, 260, 90, 3, "32 wide columns", "avx512 14x32", 320 + 768 + 3 * (2496 + 1280 + 128)},
      {1000, 64, 64, 2, "", "avx512 14x32", 64 + 512 + 2 * (4032 + 2048 + 128)},
      {10000, 64, 64, 4, "", "avx512 14x32", 64 + 512 + 8 * (10112 + 5056 + 128)},
      // Depths that are no multiple of four: the rows are copied too.
      {1528, 185, 851, 6, "", "avx512 14x32", 355840},
      {739, 305, 490, 4, "", "avx512 14x32", 242176},
      {5, 305, 316, 6, "", "avx512 5x64", 5248},
      {3470, 396, 850, 2, "", "avx512 14x32", 30400},
      {7, 151, 103, 3, "", "avx512 7x32", 2944},
      {45, 130, 16, 3, "", "avx512 12x16", 6976},
      {3286, 344, 59, 6, "", "avx512 14x32", 43136},
      {3034, 850, 483, 3, "", "avx512 14x32", 2630144},
      {3549, 795, 320, 2, "", "avx512 14x32", 2873472},
      // Weights of 400 KiB stay; of 1 MiB: 24 tiles, four blocks of 336 rows or five of 280.
      {1000, 1024, 400, 1, "", "avx512 14x32", 1024 + 3200 + 1344 + 704 + 128},
      {1344, 4092, 256, 1, "", "avx512 14x32", 4096 + 2048 + 2688 + 1344 + 128},
      {1400, 4092, 256, 1, "", "avx512 14x32", 4096 + 2048 + 2240 + 1152 + 128},
  };
  for (const Case& c : cases) {
    int8_test::Case product;
    product.op = "MatMul";
    product.x = {c.m, c.k}, product.w = {c.k, c.n};
    int8_test::Problem p = int8_test::Build(product);
    const KernelDef& kernel = *FindKernel("matmul_int8");
    const Tensor packed = kernel.pack(p.call(), 1).value();
    p.constants[1] = &packed;
    const auto bound = kernel.bind(p.call(), BindOptions{Isa::kAvx512, c.threads, c.choice});
    ASSERT_TRUE(bound);
    EXPECT_EQ(bound->plan.ToString(), c.variant)
        << c.m << " x " << c.k << " x " << c.n << " " << c.choice;
    EXPECT_EQ(bound->scratch_bytes, c.scratch)
        << c.m << " x " << c.k << " x " << c.n << " " << c.threads << " threads " << c.choice;
  }
}

// Groups of 8 columns, two to a panel, are worked on together: the 900 rows of nine pointers each
// are cut for threads, not the groups.
TEST(Int8Plan, NarrowGroupsTogether) {
  if (!IsaSupported(Isa::kAvx512)) GTEST_SKIP() << "no AVX-512";
  int8_test::Case conv;
  conv.x = {1, 30, 30, 64}, conv.w = {64, 8, 3, 3}, conv.group = 8, conv.pads = {1, 1, 1, 1};
  int8_test::Problem p = int8_test::Build(conv);
  const KernelDef& kernel = *FindKernel("conv_int8");
  const Tensor packed = kernel.pack(p.call(), 1).value();
  p.constants[1] = &packed;
  for (const int threads : {2, 3}) {
    const int64_t rows = threads == 2 ? 462 : 308;  // 33 or 22 tiles of 14
    const auto bound = kernel.bind(p.call(), BindOptions{Isa::kAvx512, threads, ""});
    ASSERT_TRUE(bound);
    EXPECT_EQ(bound->plan.ToString(), "avx512 14x16");
    const int64_t part = RoundUp(8 * 9 * rows, 64) + RoundUp(4 * rows, 64) + 128;
    EXPECT_EQ(bound->scratch_bytes, static_cast<size_t>(64 + 512 + threads * part));
  }
}

// Winograd's tiles: 3 x 3 taps of stride 1 in two dimensions, up to so many channels in whole 16.
TEST(Int8Plan, WhatFitsWinograd) {
  Int8Geometry good;
  good.in[1] = good.in[2] = good.out[1] = good.out[2] = 8;
  good.kernel[1] = good.kernel[2] = 3;
  good.pad[1] = good.pad[2] = 1;
  good.channels = 32, good.out_channels = 16;
  EXPECT_TRUE(FitsInt8Winograd(good, Isa::kAvx2));
  EXPECT_FALSE(FitsInt8Winograd(good, Isa::kScalar));
  const auto fits = [&](const auto& change) {
    Int8Geometry g = good;
    change(g);
    return FitsInt8Winograd(g, Isa::kAvx2);
  };
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(fits([&](Int8Geometry& g) { g.kernel[i] = i == 0 ? 3 : 1; })) << i;
    EXPECT_FALSE(fits([&](Int8Geometry& g) { g.stride[i] = 2; })) << i;
    EXPECT_FALSE(fits([&](Int8Geometry& g) { g.dilation[i] = 2; })) << i;
  }
  EXPECT_FALSE(fits([](Int8Geometry& g) { g.in[0] = 2; }));
  EXPECT_FALSE(fits([](Int8Geometry& g) { g.out[0] = 2; }));
  EXPECT_FALSE(fits([](Int8Geometry& g) { g.pad[0] = 1; }));
  EXPECT_FALSE(fits([](Int8Geometry& g) { g.group = 2; }));
  EXPECT_FALSE(fits([](Int8Geometry& g) { g.channels = 0; }));
  EXPECT_FALSE(fits([](Int8Geometry& g) { g.channels = 24; }));
  EXPECT_TRUE(fits([](Int8Geometry& g) { g.channels = kInt8WinogradChannels; }));
  EXPECT_FALSE(fits([](Int8Geometry& g) { g.channels = kInt8WinogradChannels + 16; }));
  EXPECT_TRUE(fits([](Int8Geometry& g) { g.batch = 1; }));
  EXPECT_FALSE(fits([](Int8Geometry& g) { g.batch = 0; }));
  EXPECT_FALSE(fits([](Int8Geometry& g) { g.out_channels = 0; }));
  EXPECT_TRUE(fits([](Int8Geometry& g) { g.out_channels = 1; }));
}

// By its cost in multiply-adds: of 32 x 32 channels and an image of 24 x 24 tiles 16 (1024 * 576 +
// 12 * 576 * 64) = 16515072 against 9 * 1024 * 2304 = 21233664; of 16 x 16 channels 5898240 against
// 5308416; of four tiles, whose weights cost as forty, 704512 against 147456.
TEST(Int8Plan, WhereWinogradIsTaken) {
  if (!IsaSupported(Isa::kAvx2)) GTEST_SKIP() << "no AVX2";
  const auto variant = [](int64_t size, int64_t channels, const auto& change) {
    int8_test::Case conv;
    conv.x = {1, size, size, channels}, conv.w = {channels, channels, 3, 3},
    conv.pads = {1, 1, 1, 1};
    change(conv);
    int8_test::Problem p = int8_test::Build(conv);
    const KernelDef& kernel = *FindKernel(conv.op == "ConvInteger" ? "conv_integer" : "conv_int8");
    const Tensor packed = kernel.pack(p.call(), 1).value();
    p.constants[1] = &packed;
    return kernel.bind(p.call(), BindOptions{Isa::kAvx2, 1, ""}).value().plan.ToString();
  };
  const auto winograd = [&](int64_t size, int64_t channels, const auto& change) {
    return variant(size, channels, change).find(kInt8Winograd) != std::string::npos;
  };
  const auto none = [](int8_test::Case&) {};
  EXPECT_TRUE(winograd(48, 32, none));
  EXPECT_FALSE(winograd(48, 16, none));
  EXPECT_FALSE(winograd(4, 32, none));
  EXPECT_FALSE(winograd(48, 32, [](int8_test::Case& c) { c.w_zeros = 1; }));
  EXPECT_FALSE(winograd(48, 32, [](int8_test::Case& c) { c.w_zeros = 2; }));
  EXPECT_FALSE(
      winograd(48, 32, [](int8_test::Case& c) { c.op = "ConvInteger", c.runtime_zero = true; }));
}

// Memory for a computed b: whole panels of 16 columns, none where it is read in place (at most 8
// rows and whole panels) or constant.
TEST(GemmPlan, ScratchOfComputedOperands) {
  const auto scratch = [](DType dtype, Shape a, Shape b, Shape y, bool constant) {
    const KernelDef& kernel = *FindKernel(dtype == DType::kFloat32 ? "matmul_f32" : "matmul_bf16");
    const Attrs none;
    const Tensor plain = Tensor::Allocate(TensorType(dtype, b));
    const std::vector<TensorType> inputs = {TensorType(dtype, a), plain.type()},
                                  outputs = {TensorType(dtype, y)};
    std::vector<const Tensor*> constants = {nullptr, constant ? &plain : nullptr};
    const KernelCall call{"MatMul", none, inputs, outputs, constants};
    Tensor packed;
    if (constant)
      packed = kernel.pack(call, 1).value(), constants[1] = packed.defined() ? &packed : &plain;
    return kernel.bind(KernelCall{"MatMul", none, inputs, outputs, constants}, BindOptions{})
        .value()
        .scratch_bytes;
  };
  const DType f = DType::kFloat32, b = DType::kBfloat16;
  EXPECT_EQ(scratch(f, {9, 5}, {5, 20}, {9, 20}, false), 32u * 5 * 4);
  EXPECT_EQ(scratch(f, {8, 5}, {5, 20}, {8, 20}, false), 32u * 5 * 4);
  EXPECT_EQ(scratch(f, {9, 5}, {5, 32}, {9, 32}, false), 32u * 5 * 4);
  EXPECT_EQ(scratch(f, {8, 5}, {5, 32}, {8, 32}, false), 0u);
  EXPECT_EQ(scratch(f, {3, 9, 5}, {3, 5, 20}, {3, 9, 20}, false), 3u * 32 * 5 * 4);
  EXPECT_EQ(scratch(f, {9, 5}, {5, 20}, {9, 20}, true), 0u);
  EXPECT_EQ(scratch(f, {3, 9, 5}, {3, 5, 20}, {3, 9, 20}, true), 0u);
  EXPECT_EQ(scratch(b, {9, 5}, {5, 20}, {9, 20}, false), 32u * 3 * 4);  // pairs
  EXPECT_EQ(scratch(b, {3, 9, 6}, {3, 6, 20}, {3, 9, 20}, false), 3u * 32 * 3 * 4);
  EXPECT_EQ(scratch(b, {9, 5}, {5, 20}, {9, 20}, true), 0u);
}

// Of scalar tiles of 2 x 16: rows that are copied, whose segments are no longer than the copy; sums
// that wait for a function before they are rounded, 48 Ki of two rows.
TEST(GemmPlan, Bfloat16) {
  const Attrs none;
  const auto plan = [&](const GemmSizes& sizes, bool copied, DType y, DType residual,
                        ActivationKind activation = ActivationKind::kNone) {
    const TensorType any(DType::kBfloat16, Shape{1, 1});
    const std::vector<TensorType> inputs = {any, any, TensorType(),
                                            TensorType(residual, Shape{1, 1})};
    const std::vector<TensorType> outputs = {TensorType(y, Shape{1, 1})};
    const std::vector<const Tensor*> constants(4, nullptr);
    const KernelCall call{"MatMul", none, inputs, outputs, constants};
    return PlanGemm(sizes, GemmTypesBf16(call, copied, Isa::kScalar), Activation{activation},
                    {Isa::kScalar, 1, {}});
  };
  const DType f = DType::kFloat32, b = DType::kBfloat16;
  const GemmPlan wide = plan(Sizes(1000, 64, 1, 1), false, b, f);
  EXPECT_EQ(wide.group_panels, 4096);  // of 64 bytes
  EXPECT_FALSE(wide.late());
  EXPECT_TRUE(wide.types.y_bf16);
  EXPECT_FALSE(wide.types.residual_bf16);
  const GemmPlan late = plan(Sizes(1000, 64, 1, 1), false, b, f, ActivationKind::kTanh);
  EXPECT_TRUE(late.late());
  EXPECT_EQ(late.group_panels, 1536);
  EXPECT_FALSE(plan(Sizes(1000, 64, 1, 1), false, f, f, ActivationKind::kTanh).late());
  const GemmPlan deep = plan(Sizes(1000, 64, 1, 100), false, f, b);
  EXPECT_EQ(deep.group_panels, 40);
  EXPECT_FALSE(deep.types.y_bf16);
  EXPECT_TRUE(deep.types.residual_bf16);
  EXPECT_FALSE(plan(Sizes(4, 64, 1, 8), false, b, DType::kUndefined).types.residual_bf16);
  EXPECT_EQ(plan(Sizes(4, 64, 1, 3000), false, b, f).segments.size(), 1u);
  const auto cut = plan(Sizes(4, 64, 1, 3000), true, b, f).segments;
  ASSERT_EQ(cut.size(), 3u);
  EXPECT_EQ((std::vector<int64_t>{cut[0].depth, cut[1].k, cut[1].depth, cut[2].k, cut[2].depth,
                                  cut[2].taps}),
            (std::vector<int64_t>{1008, 1008, 1008, 2016, 984, 1}));
  EXPECT_EQ(plan(Sizes(4, 64, 1, 1024), true, b, f).segments.size(), 1u);
}

// What a plan says of itself: the tile that is taken, not the largest.
TEST(GemmPlan, Described) {
  const auto text = [](int64_t rows, int64_t columns, int64_t depth) {
    return Plan(Sizes(rows, columns, 1, depth)).Describe().ToString();
  };
  EXPECT_EQ(text(100, 64, 100), "avx512 14x32");
  EXPECT_EQ(text(6, 64, 100), "avx512 6x64");
  EXPECT_EQ(text(100, 16, 100), "avx512 28x16");
  EXPECT_EQ(text(100, 32, 1024), "avx512 7x32");
  EXPECT_EQ(text(100, 64, 1024), "avx512 6x64");
  GemmSizes lanes = Sizes(1000, 16, 9, 3);
  lanes.lane_columns = 4;
  EXPECT_EQ(Plan(lanes).Describe().ToString(), "avx512 14x16 lanes");
  EXPECT_EQ(KernelPlan().ToString(), "");
  EXPECT_EQ((KernelPlan{.method = "runs"}).ToString(), "runs");
}
#endif

}  // namespace
}  // namespace evoq
