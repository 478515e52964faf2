// What families of kernels count, and what becomes of the counts, worked out by hand.
#include "predict/cost.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/text.h"
#include "predict/loops.h"
#include "predict/test_counts.h"

namespace evoq {
namespace {

TEST(Rates, AMultiplyAddAtPeak) {
  const Rates rates(CostMachine());
  EXPECT_DOUBLE_EQ(rates.cycle_ns, 0.5);
  EXPECT_DOUBLE_EQ(rates.mac_ns(Peak::kInt8), 0.005);
  EXPECT_DOUBLE_EQ(rates.mac_ns(Peak::kBf16), 0.01);
  EXPECT_DOUBLE_EQ(rates.mac_ns(Peak::kFloat32), 0.02);
  EXPECT_DOUBLE_EQ(rates.mac_ns(Peak::kMemory), 0.5) << "a cycle";
  // Each limit is its own peak's alone.
  struct Change {
    double MachineLimits::* limit;
    std::array<double, 3> ns;  // int8, bf16, float32 with twice the limit
  };
  for (const Change& c : {Change{&MachineLimits::int8_gops, {0.0025, 0.01, 0.02}},
                          Change{&MachineLimits::bf16_gflops, {0.005, 0.005, 0.02}},
                          Change{&MachineLimits::fp32_gflops, {0.005, 0.01, 0.01}},
                          Change{&MachineLimits::clock_ghz, {0.005, 0.01, 0.02}}}) {
    MachineLimits limits = CostMachine();
    limits.*c.limit *= 2;
    const Rates changed(limits);
    EXPECT_DOUBLE_EQ(changed.mac_ns(Peak::kInt8), c.ns[0]);
    EXPECT_DOUBLE_EQ(changed.mac_ns(Peak::kBf16), c.ns[1]);
    EXPECT_DOUBLE_EQ(changed.mac_ns(Peak::kFloat32), c.ns[2]);
  }
  MachineLimits without = CostMachine();
  without.bf16_gflops = 0;
  EXPECT_DOUBLE_EQ(Rates(without).mac_ns(Peak::kBf16), 0.02)
      << "float32's, where there is no such instruction";
  without.int8_gops = 0;
  EXPECT_DOUBLE_EQ(Rates(without).mac_ns(Peak::kInt8), 0.5);
  MachineLimits two = CostMachine();
  two.threads = 2;
  EXPECT_DOUBLE_EQ(Rates(two).mac_ns(Peak::kInt8), 0.01) << "the limits are of both threads";
}

// The L2 counts with three quarters of its 1 MiB, the largest cache with half of its 32 MiB. Up to
// there a working set is read from it; from twice that on from the next one; between, the share
// grows evenly.
TEST(Rates, BytesByWhatTheyLieIn) {
  const Rates rates(CostMachine());
  const double l2 = 0.75 * (1 << 20), l3 = 16 << 20;
  const std::pair<double, double> cases[] = {{0, 0.01},
                                             {l2, 0.01},
                                             {1.5 * l2, (0.01 + 0.02) / 2},
                                             {1.25 * l2, 0.75 * 0.01 + 0.25 * 0.02},
                                             {2 * l2, 0.02},
                                             {l3, 0.02},
                                             {1.5 * l3, (0.02 + 0.05) / 2},
                                             {2 * l3, 0.05},
                                             {100 * l3, 0.05}};
  for (const auto& [working_set, per_byte] : cases)
    EXPECT_NEAR(rates.stream_ns(1000, working_set), 1000 * per_byte, 1e-9) << working_set;
  struct Change {
    double MachineLimits::* limit;
    std::array<double, 3> ns;  // of 1000 bytes in the L2, in the L3, in memory
  };
  for (const Change& c : {Change{&MachineLimits::l2_read_gbps, {5, 20, 50}},
                          Change{&MachineLimits::l3_read_gbps, {10, 10, 50}},
                          Change{&MachineLimits::dram_read_gbps, {10, 20, 25}}}) {
    MachineLimits limits = CostMachine();
    limits.*c.limit *= 2;
    const double sets[] = {0, l3, 2 * l3};
    for (int i = 0; i < 3; ++i)
      EXPECT_NEAR(Rates(limits).stream_ns(1000, sets[i]), c.ns[static_cast<size_t>(i)], 1e-9) << i;
  }
  // Two threads share the largest cache and all bandwidths: each has half.
  MachineLimits two = CostMachine();
  two.threads = 2;
  EXPECT_NEAR(Rates(two).stream_ns(1000, l2), 20, 1e-9);
  EXPECT_NEAR(Rates(two).stream_ns(1000, l3), 2 * 50, 1e-9)
      << "16 MiB of each are twice what each has of it";
  EXPECT_NEAR(Rates(two).stream_ns(1000, l3 / 2), 2 * 20, 1e-9);
}

// 10 x 40 by 40 x 24: 2 panels of 16 columns, tiles of 10 rows and both panels.
TEST(CostTerms, FloatProduct) {
  ExpectTerms(
      {MatMul(10, 40, 24), "matmul_f32", Tiled(14, 32)}, "product_f32",
      {{kArithmetic, 10 * 32 * 40 * 0.02},  // rows x padded columns x depth
       {kFeed, 40 * (10 * 1 + 1 * 2) *
                   0.5},  // of each row for each chunk of panels, of each panel for each tile
       {kRows, 10 * 0.5},
       {kOutputs, 10 * 2 * 0.5},
       {kTiles, 10 * 1 * 0.5},
       {kStream, (10 * 40 + 10 * 24) * 4 * 0.01},
       {kWeights, 40 * 24 * 4 * 0.01}});
  // 20 rows: two tiles of 14. 48 columns: three panels, two chunks of two.
  ExpectTerms({MatMul(20, 40, 48), "matmul_f32", Tiled(14, 32)}, "product_f32",
              {{kArithmetic, 20 * 48 * 40 * 0.02},
               {kFeed, 40 * (20 * 2 + 2 * 3) * 0.5},
               {kRows, 20 * 0.5},
               {kOutputs, 20 * 3 * 0.5},
               {kTiles, 10 * 2 * 2 * 0.5},
               {kStream, (20 * 40 + 20 * 48) * 4 * 0.01},
               {kWeights, 40 * 48 * 4 * 0.01}});
  // A tile of 6 x 64: one chunk of three panels. Of 14 x 32: two.
  EXPECT_NEAR(Counted(MatMul(6, 40, 48), "matmul_f32", Tiled(6, 64)).terms[kFeed],
              40 * (6 * 1 + 1 * 3) * 0.5, 1e-9);
  EXPECT_NEAR(Counted(MatMul(7, 40, 48), "matmul_f32", Tiled(14, 32)).terms[kFeed],
              40 * (7 * 2 + 1 * 3) * 0.5, 1e-9);
  // A tile of 28 x 16: 30 rows are two. Of 14 x 32: three.
  EXPECT_NEAR(Counted(MatMul(30, 40, 16), "matmul_f32", Tiled(28, 16)).terms[kTiles], 10 * 2 * 0.5,
              1e-9);
  EXPECT_NEAR(Counted(MatMul(30, 40, 17), "matmul_f32", Tiled(14, 32)).terms[kTiles], 10 * 3 * 0.5,
              1e-9);
  // A function that is not piecewise linear, a cycle per 16 results.
  EXPECT_NEAR(Counted(MatMul(10, 40, 24, "{activation=\"Tanh\"}"), "matmul_f32").terms[kCurve],
              240.0 / 16 * 0.5, 1e-9);
  EXPECT_NEAR(Counted(MatMul(10, 40, 24, "{activation=\"Relu\"}"), "matmul_f32").terms[kCurve], 0,
              1e-9);
}

std::string Conv(int64_t channels, const char* type, const char* weight_type, int64_t size = 8,
                 int64_t columns = 32, const char* attrs = "") {
  const char* scale = type[0] == 'u' ? "(scale 0.1, zero 0)" : "";
  const char* weight_scale = weight_type[0] == 'i' ? "(scale 0.1, zero 0)" : "";
  return fmt::format(
      "input %x: {0}[1, {2}, {2}, {1}]{5}\nconst %w: {4}[{7}, {1}, 3, 3]{6}\nn: %y: {0}[1, {3}, "
      "{3}, {7}]{5} = Conv{8}(%x, %w)\noutput %y\n",
      type, channels, size, size - 2, weight_type, scale, weight_scale, columns, attrs);
}

// 8 x 8 pixels by 3 x 3 taps to 6 x 6 pixels of 32 channels: 36 rows, 2 panels, tiles of 14 rows.
// `depth` = channels x taps products for each result.
TEST(CostTerms, IntegerConvolution) {
  const auto counted = [](int64_t channels, const char* attrs = "") {
    return Counted(Conv(channels, "uint8", "int8", 8, 32, attrs), "conv_int8", Tiled(14, 32),
                   36 * 32 * channels * 9);
  };
  // 20 channels are five quads for each of nine taps. Lines of 6 pixels end in each tile of 14.
  ExpectTerms(counted(20), "product_int8",
              {{kArithmetic, 36 * 32 * (9 * 5) * 4 * 0.005},
               {kFeed, 45 * (36 * 1 + 3 * 2) * 0.5},
               {kRows, 36 * 9 * 0.5},
               {kOutputs, 36 * 2 * 0.5},
               {kTiles, 10 * 3 * 0.5},
               {kEdges, 36 * 9 * 0.5},
               {kStream, (8 * 8 * 20 + 36 * 32) * 0.01},
               {kWeights, 32 * 20 * 9 * 0.01}});
  // 8 channels: a line of the window is one tap of 24, whose pixels are copied by whole vectors.
  ExpectTerms(counted(8), "product_int8",
              {{kArithmetic, 36 * 32 * (3 * 6) * 4 * 0.005},
               {kFeed, 18 * (36 + 6) * 0.5},
               {kRows, 36 * 3 * 0.5},
               {kOutputs, 36 * 2 * 0.5},
               {kTiles, 10 * 3 * 0.5},
               {kEdges, 36 * 3 * 0.5},
               {kCopies, 8 * 8 * 8 / 16 * 0.5},
               {kStream, (8 * 8 * 8 + 36 * 32) * 0.01},
               {kWeights, 32 * 8 * 9 * 0.01}});
  // 3 channels are padded to 4, by a shuffle for each of the 64 pixels; 5 to 8, one by one in 30
  // cycles.
  EXPECT_NEAR(counted(3).terms[kCopies], 64 * 0.5, 1e-9);
  EXPECT_NEAR(counted(3).terms[kArithmetic], 36 * 32 * (3 * 3) * 4 * 0.005, 1e-9)
      << "three lines of 12";
  EXPECT_NEAR(counted(5).terms[kCopies], 30 * 64 * 0.5, 1e-9);
  EXPECT_NEAR(counted(6).terms[kCopies], 30 * 64 * 0.5, 1e-9) << "no whole quads";
  // 16 channels are merged still, 17 are not; neither are dilated lines.
  EXPECT_NEAR(counted(16).terms[kRows], 36 * 3 * 0.5, 1e-9);
  EXPECT_NEAR(counted(17).terms[kRows], 36 * 9 * 0.5, 1e-9);
  EXPECT_NEAR(counted(16, "{dilations=[2, 2]}").terms[kRows], 36 * 9 * 0.5, 1e-9);
  EXPECT_NEAR(counted(16, "{dilations=[1, 1]}").terms[kRows], 36 * 3 * 0.5, 1e-9);
  // The family by the method: of the direct kernel another one, with the same counts.
  EXPECT_EQ(
      Counted(Conv(20, "uint8", "int8"), "conv_int8", {.method = "direct"}, 36 * 32 * 180).family,
      "direct_int8");
}

// Long lines: of 30 pixels, a tile of 14 reaches over the end of about every second one.
// 8 x 8 pixels of 20 channels by 9 taps of 2 columns: 18 columns, and a sum for each tap and
// output.
TEST(CostTerms, TapsBeside) {
  const KernelPlan plan = {
      .code = "", .tile_rows = 14, .tile_columns = 32, .method = "taps beside"};
  const std::map<Term, double> rest = {{kFeed, 20 * (64 * 1 + 5 * 2) * 0.5},
                                       {kRows, 64 * 0.5},
                                       {kOutputs, 64 * 2 * 0.5},
                                       {kTiles, 10 * 5 * 0.5}};
  std::map<Term, double> expected = rest;
  expected[kArithmetic] = 64 * 32 * 20 * 0.02;
  expected[kCopies] = 36 * 9 * 2 * 0.8 * 0.5;
  expected[kStream] = (64 * 20 + 36 * 2) * 4 * 0.01;
  expected[kWeights] = 2 * 20 * 9 * 4 * 0.01;
  ExpectTerms({Conv(20, "float32", "float32", 8, 2), "conv_f32", plan, 36 * 9 * 2 * 20},
              "product_f32", expected);
  // Of a transposed one, each input pixel is added to an output for each tap.
  expected[kCopies] = 64 * 9 * 2 * 0.8 * 0.5;
  expected[kStream] = (64 * 20 + 256 * 2) * 4 * 0.01;
  ExpectTerms({"input %x: float32[1, 8, 8, 20]\nconst %w: float32[20, 2, 3, 3]\nn: %y: float32[1, "
               "16, 16, 2] = ConvTranspose{strides=[2, 2]}(%x, %w)\noutput %y\n",
               "conv_transpose_f32", plan, 64 * 9 * 2 * 20},
              "transposed_f32", expected);
}

TEST(CostTerms, EdgesOfLongLines) {
  EXPECT_NEAR(Counted(Conv(20, "uint8", "int8", 32), "conv_int8", Tiled(14, 32), 900 * 32 * 180)
                  .terms[kEdges],
              900 * 9 * 0.5 * 14 / 30, 1e-9);
}

// bfloat16 from an odd number of channels: windows are copied, 15 cycles and 8 for each of three
// lines, and 10 for each of the nine taps at the image's sides, which 2 of 6 columns are.
TEST(CostTerms, Bfloat16Convolution) {
  const auto counted = [](int64_t channels, const char* attrs = "") {
    return Counted(Conv(channels, "bfloat16", "bfloat16", 8, 32, attrs), "conv_bf16", Tiled(14, 32),
                   36 * 32 * channels * 9);
  };
  EXPECT_NEAR(counted(3).terms[kCopies], 36 * (15 + 3 * 8 + 10 * (2.0 / 6) * 9) * 0.5, 1e-9);
  EXPECT_NEAR(counted(3).terms[kArithmetic], 36 * 32 * 14 * 2 * 0.01, 1e-9)
      << "27 products in 14 pairs";
  EXPECT_EQ(counted(4).terms[kCopies], 0);
  EXPECT_EQ(counted(6).terms[kCopies], 0);
  EXPECT_NEAR(counted(4).terms[kArithmetic], 36 * 32 * (9 * 2) * 2 * 0.01, 1e-9);
  // Dilated, taps are copied one by one: 7 cycles more for each of three, up to 60 and 3 for each;
  // sides are twice as wide.
  EXPECT_NEAR(counted(3, "{dilations=[2, 2]}").terms[kCopies],
              36 * (15 + 3 * (8 + 21) + 10 * (4.0 / 6) * 9) * 0.5, 1e-9);
}

// A transposed convolution of one tap is a product: of 5 channels one by one, in 3 pairs or in 2
// quads.
TEST(CostTerms, TransposedConvolutions) {
  const auto arithmetic = [](const char* type, const char* weight_type, const char* kernel,
                             const char* family) {
    const bool quantized = type[0] == 'u';
    const Counted counted(
        fmt::format("input %x: {0}[1, 8, 8, 5]{2}\nconst %w: {1}[5, 32, 1, 1]{2}\nn: %y: {0}[1, 8, "
                    "8, 32]{2} = ConvTranspose(%x, %w)\noutput %y\n",
                    type, weight_type, quantized ? "(scale 0.1, zero 0)" : ""),
        kernel, Tiled(14, 32), 64 * 32 * 5);
    EXPECT_EQ(counted.family, family);
    return counted.terms[kArithmetic];
  };
  EXPECT_NEAR(arithmetic("float32", "float32", "conv_transpose_f32", "transposed_f32"),
              64 * 32 * 5 * 0.02, 1e-9);
  EXPECT_NEAR(arithmetic("bfloat16", "bfloat16", "conv_transpose_bf16", "transposed_bf16"),
              64 * 32 * 6 * 0.01, 1e-9);
  EXPECT_NEAR(arithmetic("uint8", "int8", "conv_transpose_int8", "transposed_int8"),
              64 * 32 * 8 * 0.005, 1e-9);
}

// Pixels of 24 channels are whole quads, though one of the four taps reaches each output.
TEST(CostTerms, TransposedPixelsOfWholeQuads) {
  const Counted counted(
      "input %x: uint8[1, 8, 8, 24](scale 0.1, zero 0)\n"
      "const %w: int8[24, 32, 2, 2](scale 0.1, zero 0)\n"
      "n: %y: uint8[1, 16, 16, 32](scale 0.1, zero 0) = ConvTranspose{strides=[2, 2]}(%x, %w)\n"
      "output %y\n",
      "conv_transpose_int8", Tiled(14, 32), 256 * 32 * 24);
  EXPECT_NEAR(counted.terms[kCopies], 8 * 8 * 24 / 16 * 0.5, 1e-9);
}

// 4 x 4 outputs from 6 x 6 inputs: 36 products of the 4 tiles of an 8 x 8 image, 16 channels deep.
TEST(CostTerms, Winograd) {
  const std::string text =
      "input %x: float32[1, 8, 8, 16]\nconst %w: float32[32, 16, 3, 3]\nn: %y: float32[1, 8, 8, "
      "32] = Conv{pads=[1, 1, 1, 1]}(%x, %w)\noutput %y\n";
  const double bytes = (8 * 8 * 16 + 8 * 8 * 32) * 4 * 0.01, weights = 32 * 16 * 9 * 4 * 0.01;
  ExpectTerms({text, "conv_f32", Tiled(14, 32, "winograd 4x4")}, "winograd_f32",
              {{kArithmetic, 36 * 4 * 32 * 16 * 0.02},
               {kFeed, 36 * 16 * (4 + 2) * 0.5},
               {kRows, 36 * 4 * 1 * 0.5},
               {kOutputs, 36 * 4 * 2 * 0.5},
               {kTiles, 10 * 36 * 0.5},
               {kStream, bytes},
               {kWeights, weights * 36 / 9}});
  // 2 x 2 outputs: 16 products of 16 tiles, in two rows of 14.
  ExpectTerms({text, "conv_f32", Tiled(14, 32, "winograd 2x2")}, "winograd_f32",
              {{kArithmetic, 16 * 16 * 32 * 16 * 0.02},
               {kFeed, 16 * 16 * (16 + 2 * 2) * 0.5},
               {kRows, 16 * 16 * 1 * 0.5},
               {kOutputs, 16 * 16 * 2 * 0.5},
               {kTiles, 10 * 16 * 2 * 0.5},
               {kStream, bytes},
               {kWeights, weights * 16 / 9}});
}

// 6 x 6 pixels of 70 channels: two vectors of 64 bytes, five of 16 floats.
TEST(CostTerms, Depthwise) {
  const auto text = [](const char* type, const char* scale, const char* weight,
                       const char* weight_scale) {
    return fmt::format(
        "input %x: {0}[1, 8, 8, 70]{1}\nconst %w: {2}[70, 1, 3, 3]{3}\nn: %y: {0}[1, 6, 6, 70]{1} "
        "= Conv{{group=70}}(%x, %w)\noutput %y\n",
        type, scale, weight, weight_scale);
  };
  ExpectTerms({text("uint8", "(scale 0.1, zero 0)", "int8", "(scale 0.1, zero 0)"), "dwconv_int8"},
              "depthwise_int8",
              {{kArithmetic,
                36 * 3 * 2 * 4 *
                    0.5},  // three columns of up to four taps, two vectors of four times 16 lanes
               {kFeed, 36 * 2 * 0.5},
               {kCopies, 10 * 36 * 0.5},
               {kRows, 10 * 6 * 2 * 0.5},
               {kOutputs, 2520.0 / 16 * 0.5},
               {kStream, (64 * 70 + 36 * 70) * 0.01},
               {kWeights, 630 * 0.01}});
  ExpectTerms({text("float32", "", "float32", ""), "dwconv_f32"}, "depthwise_f32",
              {{kArithmetic, 36 * 9 * 5 * 0.5},
               {kFeed, 36 * 5 * 0.5},
               {kCopies, 10 * 36 * 0.5},
               {kRows, 10 * 6 * 5 * 0.5},
               {kOutputs, 2520.0 / 16 * 0.5},
               {kStream, (64 * 70 + 36 * 70) * 4 * 0.01},
               {kWeights, 630 * 4 * 0.01}});
}

// Windows that the kernels have no code of their own for, of 2 x 2 outputs of 16 channels: a tile
// of seven outputs for each of two lines. A place of the table for each line of the window and
// column under the tile; 30 cycles for the channels and seven for each tap; of bytes 90 and nine.
TEST(CostTerms, DepthwiseWithoutCodeOfItsOwn) {
  const auto counted = [](int64_t high, int64_t wide, const char* attrs, bool bytes) {
    return Counted(
        fmt::format("input %x: {4}[1, {0}, {1}, 16]{5}\nconst %w: {6}[16, 1, {2}, {3}]{5}\nn: "
                    "%y: {4}[1, 2, 2, 16]{5} = Conv{{channels_last=1, group=16{7}}}(%x, %w)\n"
                    "output %y\n",
                    high + 1, wide + 1, high, wide, bytes ? "uint8" : "float32",
                    bytes ? "(scale 0.1, zero 0)" : "", bytes ? "int8" : "float32", attrs),
        bytes ? "dwconv_int8" : "dwconv_f32");
  };
  const auto tiles = [&](int64_t high, int64_t wide, const char* attrs, bool bytes) {
    return counted(high, wide, attrs, bytes).terms[kTiles];
  };
  for (const bool bytes : {false, true}) {
    EXPECT_EQ(tiles(3, 3, "", bytes), 0);
#ifndef EVOQ_FEW_VARIANTS
    for (const int64_t k : {5, 7}) EXPECT_EQ(tiles(k, k, "", bytes), 0) << k;
#endif
  }
  EXPECT_NEAR(tiles(1, 1, "", false), 2 * (5 * 7 + 30 + 7) * 0.5, 1e-9);
  // Bytes fill a square kernel up.
  EXPECT_EQ(tiles(1, 1, "", true), 0);
#ifndef EVOQ_FEW_VARIANTS
  EXPECT_EQ(tiles(7, 2, "", true), 0);
#endif
  EXPECT_NEAR(tiles(7, 2, "", false), 2 * (5 * 7 * 8 + 30 + 7 * 14) * 0.5, 1e-9);
  EXPECT_NEAR(tiles(9, 9, "", false), 2 * (5 * 9 * 15 + 30 + 7 * 81) * 0.5, 1e-9);
  EXPECT_NEAR(tiles(9, 9, "", true), 2 * (5 * 9 * 15 + 90 + 9 * 81) * 0.5, 1e-9);
  EXPECT_NEAR(tiles(1, 31, "", false), 2 * (5 * 37 + 30 + 7 * 31) * 0.5, 1e-9);
  EXPECT_NEAR(tiles(1, 31, "", true), 2 * (5 * 37 + 90 + 9 * 31) * 0.5, 1e-9);
  // Outputs two apart stand on pixels two apart.
  EXPECT_NEAR(tiles(1, 9, ", strides=[1, 2], pads=[0, 0, 0, 1]", false),
              2 * (5 * 21 + 30 + 7 * 9) * 0.5, 1e-9);
  // All is in the tiles, but for what results and bytes take.
  ExpectTerms(counted(9, 9, "", false), "depthwise_f32",
              {{kTiles, 2 * (5 * 9 * 15 + 30 + 7 * 81) * 0.5},
               {kOutputs, 64.0 / 16 * 0.5},
               {kStream, (100 * 16 + 64) * 4 * 0.01},
               {kWeights, 81 * 16 * 4 * 0.01}});
}

// Two directions of an LSTM with 8 values of state: 5 steps of 2 sequences of 3 values. All inputs
// are one product of 10 x 3 by 32, each step's state one of 2 x 8 by 32; a thousand cycles for each
// step; the state's weights, 1,024 bytes, are read again in each step but the first.
TEST(CostTerms, Recurrent) {
  const auto text = [](const char* x, const char* attrs) {
    return fmt::format(
        "input %x: float32[{}]\nconst %w: float32[2, 32, 3]\nconst %r: float32[2, 32, 8]\nn: %y: "
        "float32[5, 2, 2, 8] = LSTM{{direction=\"bidirectional\", hidden_size=8{}}}(%x, %w, "
        "%r)\noutput %y\n",
        x, attrs);
  };
  const double rows = 10 * 0.5, step_rows = 2 * 0.5, tile = 10 * 0.5;
  const std::map<Term, double> expected = {
      {kCall, 1000 * 2 * 5 * 0.5},
      {kArithmetic, 2 * (10 * 32 * 3 * 0.02 + 5 * 2 * 32 * 8 * 0.02)},
      {kFeed, 2 * (3 * (10 + 2) * 0.5 + 5 * 8 * (2 + 2) * 0.5)},
      {kRows, 2 * (rows + 5 * step_rows)},
      {kOutputs, 2 * (2 * rows + 5 * 2 * step_rows)},
      {kCurve, 2 * 5 * 2 * (32 + 8) / 16.0 * 0.5},
      {kTiles, 2 * (tile + 5 * tile)},
      {kStream, (30 + 160) * 4 * 0.01},
      {kWeights, (2 * 32 * 3 + 2 * 32 * 8) * 4 * 0.01 + 2 * 4 * 1024 * 0.01}};
  ExpectTerms({text("5, 2, 3", ""), "lstm_f32"}, "recurrent", expected);
  ExpectTerms({text("2, 5, 3", ", layout=1"), "lstm_f32"}, "recurrent", expected);
}

// The same with integers: four products of bytes to a lane, tiles of 4 x 16, and a byte a weight.
TEST(CostTerms, RecurrentInIntegers) {
  const std::string text =
      "input %x: float32[5, 2, 3]\nconst %w: int8[2, 32, 3](scale 0.5, zero 0)\n"
      "const %r: int8[2, 32, 8](scale 0.5, zero 0)\nn: %y: float32[5, 2, 2, 8] = "
      "LSTM{data_block=8, direction=\"bidirectional\", hidden_size=8}(%x, %w, %r)\noutput %y\n";
  const KernelPlan plan = {.tile_rows = 4, .tile_columns = 16};
  const std::map<Term, double> expected = {
      {kCall, 1000 * 2 * 5 * 0.5},
      {kArithmetic, 2 * (10 * 32 * 4 * 0.005 + 5 * 2 * 32 * 8 * 0.005)},
      {kFeed, 2 * ((10 * 2 + 3 * 2) * 0.5 + 5 * 2 * (2 * 2 + 2) * 0.5)},
      {kRows, 2 * (10 * 0.5 + 5 * 2 * 0.5)},
      {kOutputs, 2 * (10 * 2 * 0.5 + 5 * 2 * 2 * 0.5)},
      {kCurve, 2 * 5 * 2 * (32 + 8) / 16.0 * 0.5},
      {kTiles, 2 * (10 * 3 * 2 * 0.5 + 5 * 10 * 2 * 0.5)},
      {kStream, (30 + 160) * 4 * 0.01},
      {kWeights, (2 * 32 * 3 + 2 * 32 * 8) * 0.01 + 2 * 4 * 256 * 0.01}};
  ExpectTerms({text, "lstm_int8", plan}, "recurrent", expected);
}

// The first family in the list that takes the kernel; a reference step by its operator; the last
// for what none takes.
TEST(FamilyOf, ByKernelAndMethod) {
  const auto family = [](const char* kernel, const char* op, const char* method) {
    Step step;
    step.decision.kernel = kernel;
    return std::string_view(FamilyOf(step, op, method).name);
  };
  EXPECT_EQ(family("maxpool_u8", "MaxPool", ""), "pool_int8");
  EXPECT_EQ(family("maxpool_f32", "MaxPool", ""), "pool_f32");
  EXPECT_EQ(family(kReferenceKernel, "LpNormalization", ""), "reference");
  EXPECT_EQ(family("conv_f32", "Conv", "winograd 4x4"), "winograd_f32");
  EXPECT_EQ(family("conv_f32", "Conv", ""), "product_f32");
  EXPECT_EQ(family("conv_bf16", "Conv", "winograd 2x2"), "winograd_f32");
  EXPECT_EQ(family("conv_bf16", "Conv", "in float32"), "product_f32");
  EXPECT_EQ(family("conv_bf16", "Conv", "taps beside"), "product_bf16");
  EXPECT_EQ(family("of_tomorrow", "Conv", ""), "other");
  EXPECT_EQ(family("", "", ""), "other");
}

TEST(FamilyOf, EveryKernel) {
  for (const KernelDef* kernel : AllKernels()) {
    Step step;
    step.decision.kernel = kernel->name;
    EXPECT_NE(std::string_view(FamilyOf(step, kernel->op, "").name), "other") << kernel->name;
  }
}

TEST(CostTerms, Definitions) {
  ExpectTerms(
      {"input %x: float32[64, 32]\nn: %y: float32[64, 32] = LpNormalization(%x)\noutput %y\n",
       kReferenceKernel,
       {},
       77},
      "reference",
      {{kArithmetic, 77 * 0.5},
       {kFeed, 2048 * 0.5},
       {kOutputs, 2048 * 0.5},
       {kStream, 2 * 2048 * 4 * 0.01}});
}

// Each block of the data, and of the weights, has a sum of its own, which is scaled and added.
TEST(CostTerms, SumsOfBlocks) {
  const auto outputs = [](const char* weights, const char* attrs) {
    return Counted(fmt::format("input %x: float32[10, 256]\nconst %w: int8[256, 48]{}\nn: %y: "
                               "float32[10, 48] = MatMul{}(%x, %w)\noutput %y\n",
                               weights, attrs),
                   "matmul_blocks", Tiled(6, 32))
        .terms[kOutputs];
  };
  const double once = 10 * 3 * 0.5;  // 3 panels of 16
  EXPECT_NEAR(outputs("(scale 0.1, zero 0)", ""), once, 1e-9);
  EXPECT_NEAR(outputs("(scale 0.1, zero 0)", "{data_block=64}"), 4 * once, 1e-9);
  EXPECT_NEAR(outputs("(scale 0.1, zero 0)", "{data_block=96}"), 3 * once, 1e-9);
  EXPECT_NEAR(outputs("(scale 0.1, zero 0)", "{data_block=512}"), once, 1e-9);
  EXPECT_NEAR(outputs("(384 scales on axis 0, block 32)", "{data_block=128}"), 8 * once, 1e-9);
}

// A rotary embedding's tables have rows for places that are not there.
TEST(CostTerms, PartsOfTables) {
  const auto weights = [](int64_t rows) {
    return Counted(fmt::format("input %x: float32[1, 2, 8, 32]\nconst %c: float32[{0}, 16]\nconst "
                               "%s: float32[{0}, 16]\nn: %y: float32[1, 2, 8, 32] = "
                               "RotaryEmbedding(%x, %c, %s)\noutput %y\n",
                               rows),
                   "rotary_embedding_f32")
        .terms[kWeights];
  };
  EXPECT_NEAR(weights(8), 2 * 8 * 16 * 4 * 0.01, 1e-9);
  EXPECT_NEAR(weights(1000), 2 * 8 * 32 * 4 * 0.01, 1e-9) << "as much as comes out";
}

// Constants count as the kernel holds them, at the speed of what the whole run lies in; activations
// at that of what they lie in themselves.
TEST(CostTerms, BytesOfConstants) {
  const auto text = [](const char* type) {
    return fmt::format(
        "input %x: float32[10, 40]\nconst %w: {}\nn: %y: float32[10, 24] = MatMul(%x, %w)\noutput "
        "%y\n",
        type);
  };
  const double floats = 40 * 24 * 4 * 0.01;
  EXPECT_NEAR(Counted(text("float32[40, 24]"), "matmul_f32").terms[kWeights], floats, 1e-9);
  EXPECT_NEAR(Counted(text("int8[40, 24](scale 0.1, zero 0)"), "matmul_f32", {.widened = true})
                  .terms[kWeights],
              floats, 1e-9)
      << "held as floats";
  EXPECT_NEAR(Counted(text("int8[40, 24](scale 0.1, zero 0)"), "matmul_f32").terms[kWeights],
              floats / 4, 1e-9)
      << "unpacked in the cache";
  EXPECT_NEAR(Counted(text("float16[40, 24]"), "matmul_f32", {.widened = true}).terms[kWeights],
              floats, 1e-9);
  EXPECT_NEAR(Counted(text("int8[40, 24](scale 0.1, zero 0)"), "matmul_w8").terms[kWeights],
              floats / 4, 1e-9)
      << "read as they are";
  const Counted large(text("float32[40, 24]"), "matmul_f32", {}, 0, CostMachine(), 64 << 20);
  EXPECT_NEAR(large.terms[kWeights], 5 * floats, 1e-9) << "from memory";
  EXPECT_NEAR(large.terms[kStream], (400 + 240) * 4 * 0.01, 1e-9);
}

// ns = sum of efficiency x term; threads as cost.h has it.
TEST(CostOf, ByHand) {
  const Counted counted(MatMul(10, 40, 24), "matmul_f32", Tiled(14, 32));
  const CostInput input(counted.graph, counted.step, Tiled(14, 32), 4000);
  const Efficiency& e = EfficiencyOf(EfficienciesFor(CostMachine()), "product_f32");
  double serial = e.times[kCall] * 1000 * 0.5;  // being a step: a thousand cycles
  for (int t = kCall + 1; t < kTermCount; ++t)
    serial += e.times[static_cast<size_t>(t)] * counted.terms[static_cast<size_t>(t)];
  const StepCost one = CostOf(input, Rates(CostMachine()), {}, 1);
  EXPECT_STREQ(one.family->name, "product_f32");
  EXPECT_NEAR(one.serial_ns, serial, 1e-9);
  EXPECT_NEAR(one.ns, serial, 1e-9) << "one thread does everything";
  EXPECT_EQ(one.terms[kCall], 500);
  EXPECT_NEAR(one.weighed[kFeed], e.times[kFeed] * counted.terms[kFeed], 1e-9);
  EXPECT_EQ(one.spread, e.spread);
  // Three loops, of which the busiest of four threads has 0.3: the part outside loops, 0.3 of the
  // rest, waiting, and three quarters of a quarter of the activations from other cores.
  const StepCost four = CostOf(input, Rates(CostMachine()), {0.3, 3}, 4);
  EXPECT_NEAR(four.serial_ns, serial, 1e-9);
  EXPECT_NEAR(four.ns,
              serial * (1 - e.shared) + serial * e.shared * 0.3 + 3 * e.fork * 1000 +
                  e.remote * counted.terms[kStream] * 0.75 / 4,
              1e-9);
}

// A step that was found fastest on one thread is not cut.
TEST(CutOf, StepsOfOneThread) {
  const Counted counted(MatMul(512, 512, 512), "matmul_f32");
  ThreadPool two(2), one(1);
  Step step = counted.step;
  const auto loops = [&](ThreadPool& pool) {
    return CutOf(CostInput(counted.graph, step, {}, 0), SelectIsa().value_or(Isa::kScalar), pool)
        .loops;
  };
  EXPECT_GT(loops(two), 0);
  EXPECT_EQ(loops(one), 0);
  step.tuning.threads = 1;
  EXPECT_EQ(loops(two), 0);
}

// Of four experts of 1 KiB one token reads two, three tokens all.
TEST(Cost, OfExpertsThoseInUse) {
  const auto weights = [](int tokens) {
    std::string text =
        fmt::format("input %x: float32[{0}, 1, 16]\ninput %ids: int64[{0}, 2]\n", tokens);
    for (const char* w : {"a", "b", "c", "d"})
      text += fmt::format("const %{}: float32[16, 16]\n", w);
    text += fmt::format(
        "n: %y: float32[{}, 2, 16] = evoq::ExpertMatMul{{experts=4}}(%x, %ids, %a, %b, %c, %d)\n"
        "output %y\n",
        tokens);
    const Counted counted(text, "expert_matmul_f32", Tiled(14, 32), tokens * 2 * 16 * 16);
    EXPECT_EQ(counted.family, "product_f32");
    return counted.terms[kWeights];
  };
  EXPECT_NEAR(weights(1), 2048 * 0.01, 1e-9);
  EXPECT_NEAR(weights(3), 4096 * 0.01, 1e-9);
}

}  // namespace
}  // namespace evoq
