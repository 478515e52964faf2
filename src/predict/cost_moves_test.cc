// What is counted of operators that move, combine or reduce values, worked out by hand.
#include "predict/test_counts.h"

namespace evoq {
namespace {

std::string Two(const char* a, const char* b, const char* y, const char* op) {
  return fmt::format(
      "input %x: float32{}\ninput %z: float32{}\nn: %y: float32{} = {}(%x, %z)\noutput %y\n", a, b,
      y, op);
}

TEST(CostTerms, WhatReadsEachValueOnce) {
  // 64 x 32 values: a vector of 16 each cycle; rows of the last axis.
  ExpectTerms({"input %x: float32[64, 32]\nn: %y: float32[64, 32] = Softmax(%x)\noutput %y\n",
               "softmax_f32"},
              "softmax",
              {{kFeed, 2048.0 / 16 * 0.5},
               {kRows, 64 * 0.5},
               {kOutputs, 2048.0 / 16 * 0.5},
               {kStream, 2 * 2048 * 4 * 0.01}});
  ExpectTerms(
      {"input %x: float32[64, 32]\nn: %y: float32[64, 32] = Relu(%x)\noutput %y\n", "Relu_f32"},
      "cheap_unary",
      {{kFeed, 2048.0 / 16 * 0.5}, {kOutputs, 2048.0 / 16 * 0.5}, {kStream, 2 * 2048 * 4 * 0.01}});
  // Both inputs go on together: one row of all. A factor for each of 64 rows stands still within
  // it.
  ExpectTerms({Two("[64, 32]", "[64, 32]", "[64, 32]", "Add"), "add_f32"}, "binary_f32",
              {{kFeed, 4096.0 / 16 * 0.5},
               {kRows, 0.5},
               {kOutputs, 2048.0 / 16 * 0.5},
               {kStream, 3 * 2048 * 4 * 0.01}});
  EXPECT_NEAR(Counted(Two("[64, 32]", "[64, 1]", "[64, 32]", "Mul"), "mul_f32").terms[kRows],
              64 * 0.5, 1e-9);
}

MachineLimits WithoutMasks() {
  MachineLimits limits = CostMachine();
  limits.isa = Isa::kAvx2;
  return limits;
}

// Sums over 32 values each: 64 rows, with AVX-512 sixteen together; over 30 what fills no vector is
// added up, too. Of columns: bands of 256, and no sums within a row; axes that go together are one.
TEST(CostTerms, Reductions) {
  const auto counted = [](const char* x, const char* y, const char* axes,
                          const MachineLimits& limits = CostMachine(),
                          const std::string& op = "ReduceSum") {
    return Counted(fmt::format("input %x: float32{}\nconst %a: int64{}\n"
                               "n: %y: float32{} = {}(%x, %a)\noutput %y\n",
                               x, axes, y, op),
                   (op + "_f32").c_str(), {}, 0, limits);
  };
  ExpectTerms(counted("[64, 32]", "[64, 1]", "[1] = [-1]"), "reduce",
              {{kFeed, 2048.0 / 16 * 0.5},
               {kRows, 64 * 0.5 / 16},
               {kOutputs, 64.0 / 16 * 0.5},
               {kStream, (2048 + 64) * 4 * 0.01},
               {kWeights, 8 * 0.01}});
  for (const char* op : {"ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare"}) {
    const Counted masked = counted("[64, 30]", "[64, 1]", "[1] = [-1]", CostMachine(), op);
    EXPECT_NEAR(masked.terms[kRows], 64 * 0.5 / 16, 1e-9) << op;
    EXPECT_EQ(masked.terms[kTiles], 0) << op;
  }
  EXPECT_NEAR(counted("[15, 32]", "[15, 1]", "[1] = [-1]").terms[kRows], 15 * 0.5, 1e-9);
  const auto alone = [&](const char* x, const char* op, const MachineLimits& limits) {
    const Counted one = counted(x, "[64, 1]", "[1] = [-1]", limits, op);
    EXPECT_NEAR(one.terms[kRows], 64 * 0.5, 1e-9) << x << op;
    return one.terms[kTiles];
  };
  EXPECT_EQ(alone("[64, 32]", "ReduceSum", WithoutMasks()), 0);
  EXPECT_NEAR(alone("[64, 30]", "ReduceSum", WithoutMasks()), 4 * 64 * 0.5, 1e-9);
  EXPECT_NEAR(alone("[64, 10]", "ReduceSum", WithoutMasks()), 2 * 64 * 0.5, 1e-9);
  EXPECT_EQ(alone("[64, 3]", "ReduceSum", WithoutMasks()), 0);
  EXPECT_NEAR(alone("[64, 30]", "ReduceMax", CostMachine()), 4 * 64 * 0.5, 1e-9);
  ExpectTerms(counted("[2, 20, 30, 32]", "[2, 1, 30, 32]", "[1] = [1]"), "reduce",
              {{kFeed, 38400.0 / 16 * 0.5},
               {kRows, 2 * 4 * 0.5},
               {kOutputs, 1920.0 / 16 * 0.5},
               {kStream, (38400 + 1920) * 4 * 0.01},
               {kWeights, 8 * 0.01}});
  // Of 24 columns, a short loop for each of 20 places.
  EXPECT_NEAR(counted("[2, 20, 24]", "[2, 1, 24]", "[1] = [1]").terms[kRows],
              2 * (1 + 0.15 * 20) * 0.5, 1e-9);
  EXPECT_NEAR(counted("[2, 20, 30, 32]", "[2, 1, 1, 1]", "[3] = [1, 2, 3]").terms[kRows], 2 * 0.5,
              1e-9)
      << "all of an image is one row";
  EXPECT_NEAR(counted("[2, 20, 30, 32]", "[2, 1, 30, 1]", "[2] = [1, 3]").terms[kRows],
              2 * 20 * 30 * 0.5, 1e-9)
      << "rows of 32";
}

// The largest of short rows are found in columns, two cycles for a value; of longer ones row by
// row.
TEST(CostTerms, LargestOfRows) {
  const auto counted = [](int64_t columns) {
    return Counted(fmt::format("input %x: float32[64, {}]\nn: %y: int64[64] = ArgMax{{axis=1, "
                               "keepdims=0}}(%x)\noutput %y\n",
                               columns),
                   "argmax_f32");
  };
  EXPECT_NEAR(counted(30).terms[kCopies], 2 * 64 * 30 * 0.5, 1e-9);
  EXPECT_EQ(counted(30).terms[kRows], 0);
  EXPECT_EQ(counted(40).terms[kCopies], 0);
  EXPECT_NEAR(counted(40).terms[kRows], 64 * 0.5, 1e-9);
}

TEST(CostTerms, LayerNormalizations) {
  const auto tiles = [](int64_t columns, const MachineLimits& limits) {
    return Counted(fmt::format("input %x: float32[64, {0}]\nconst %s: float32[{0}]\nn: %y: "
                               "float32[64, {0}] = LayerNormalization(%x, %s)\noutput %y\n",
                               columns),
                   "layer_norm_f32", {}, 0, limits)
        .terms[kTiles];
  };
  EXPECT_EQ(tiles(32, WithoutMasks()), 0);
  EXPECT_NEAR(tiles(30, WithoutMasks()), 10 * 64 * 0.5, 1e-9);
  EXPECT_EQ(tiles(30, CostMachine()), 0);
}

// Rows of few elements go together, written out where they do not lie so: 1024 elements at a time.
TEST(CostTerms, ShortRowsOfABroadcast) {
  const auto counted = [](const char* a, const char* b, const char* y) {
    return Counted(Two(a, b, y, "Mul"), "mul_f32");
  };
  // 4 groups of 128 rows of 16, of one factor each: two times 64 rows at a time.
  const Counted factors = counted("[4, 128, 1]", "[4, 128, 16]", "[4, 128, 16]");
  EXPECT_NEAR(factors.terms[kRows], 8 * 0.5, 1e-9);
  EXPECT_NEAR(factors.terms[kCopies], 4 * 128 * (16 / 4 + 4) * 0.5, 1e-9);
  // One row for all of a group is written out once for each.
  const Counted repeated = counted("[4, 128, 16]", "[4, 1, 16]", "[4, 128, 16]");
  EXPECT_NEAR(repeated.terms[kRows], 8 * 0.5, 1e-9);
  EXPECT_NEAR(repeated.terms[kCopies], 4 * 64 * (16 / 4 + 4) * 0.5, 1e-9);
  // Rows of 40, of a factor each, are begun one by one.
  const Counted longer = counted("[4, 128, 1]", "[4, 128, 40]", "[4, 128, 40]");
  EXPECT_NEAR(longer.terms[kRows], 512 * 0.5, 1e-9);
  EXPECT_EQ(longer.terms[kCopies], 0);
}

// A choice by rows of 16.
TEST(CostTerms, Choices) {
  ExpectTerms({"input %c: bool[64, 1]\ninput %x: float32[64, 16]\ninput %z: float32[64, 16]\n"
               "n: %y: float32[64, 16] = Where(%c, %x, %z)\noutput %y\n",
               "Where"},
              "logic",
              {{kFeed, (64 + 2 * 1024) / 16.0 * 0.5},
               {kRows, 64 * 0.5},
               {kOutputs, 1024.0 / 16 * 0.5},
               {kStream, (64 + 3 * 1024 * 4) * 0.01}});
}

// 5 x 6 places of 8 channels: 60 cycles for a place, then four taps of each value; channels that
// are last go by vectors.
TEST(CostTerms, GridSamples) {
  for (const bool last : {false, true}) {
    const Counted counted(
        fmt::format("input %x: float32[1, {0}]\ninput %g: float32[1, 5, 6, 2]\nn: %y: float32[1, "
                    "{1}] = GridSample{{channels_last={2}}}(%x, %g)\noutput %y\n",
                    last ? "7, 9, 8" : "8, 7, 9", last ? "5, 6, 8" : "8, 5, 6", last ? 1 : 0),
        "grid_sample_f32");
    ExpectTerms(counted, "grid_sample",
                {{kRows, 60 * 30 * 0.5},
                 {kArithmetic, 240 * 4 * (last ? 0.35 : 1.4) * 0.5},
                 {kStream, (504 + 60 + 240) * 4 * 0.01}});
  }
}

// 4 queries by 4 new keys behind 12 of the past, of 2 heads of 8 that lie side by side: 128 scores.
// Causal ones see 13 to 16 keys.
TEST(CostTerms, Attention) {
  const auto text = [](int causal) {
    return fmt::format(
        "input %q: float32[1, 4, 16]\ninput %k: float32[1, 4, 16]\ninput %v: float32[1, 4, 16]\n"
        "input %a: float32[1, 2, 12, 8]\ninput %b: float32[1, 2, 12, 8]\n"
        "n: %y: float32[1, 4, 16] = Attention{{is_causal={}, kv_num_heads=2, q_num_heads=2}}"
        "(%q, %k, %v, _, %a, %b)\noutput %y\n",
        causal);
  };
  for (const int causal : {0, 1}) {
    const double seen = causal == 0 ? 1 : 14.5 / 16;
    ExpectTerms({text(causal), "attention_f32", {}, 2048}, "attention",
                {{kArithmetic, seen * 2048 * 0.02},
                 {kFeed, (3 * 64 + 2 * 192) / 16 * 0.5},
                 {kCurve, seen * 128 / 16 * 0.5},
                 {kStream, (4 * 64 + 2 * 192) * 4 * 0.01}});
  }
}

// Of int8 keys and values, two products in the time of one.
TEST(CostTerms, AttentionInIntegers) {
  ExpectTerms({"input %q: float32[1, 2, 4, 32]\ninput %k: int8[1, 1, 16, 32]\n"
               "input %v: int8[1, 1, 16, 32]\ninput %ks: float16[1, 1, 16, 1]\n"
               "input %vs: float16[1, 1, 16, 1]\n"
               "n: %y: float32[1, 2, 4, 32] = Attention(%q, %k, %v, _, _, _, _, %ks, %vs)\n"
               "output %y\n",
               "attention_int8",
               {},
               8192},
              "attention",
              {{kArithmetic, 8192 * 0.02 / 2},
               {kFeed, (256 + 2 * 512 + 2 * 16) / 16 * 0.5},
               {kCurve, 128.0 / 16 * 0.5},
               {kStream, (2 * 256 * 4 + 2 * 512 + 2 * 32) * 0.01}});
}

// 4 x 4 windows of 3 x 3 over 20 channels: two vectors, and four channels one by one.
TEST(CostTerms, Pooling) {
  ExpectTerms({"input %x: float32[1, 6, 6, 20]\nn: %y: float32[1, 4, 4, 20] = "
               "MaxPool{kernel_shape=[3, 3]}(%x)\noutput %y\n",
               "maxpool_f32"},
              "pool_f32",
              {{kArithmetic, 16 * 9 * 2 * 0.5},
               {kFeed, 720.0 / 16 * 0.5},
               {kRows, 16 * 0.5},
               {kOutputs, 320.0 / 16 * 0.5},
               {kTiles, 16 * 9 * 4 * 0.5},
               {kStream, (720 + 320) * 4 * 0.01}});
  // Of all 36 pixels.
  EXPECT_NEAR(Counted("input %x: float32[1, 6, 6, 32]\nn: %y: float32[1, 1, 1, 32] = "
                      "GlobalAveragePool(%x)\noutput %y\n",
                      "avgpool_f32")
                  .terms[kArithmetic],
              36 * 2 * 0.5, 1e-9);
}

// Copies by the pieces that lie in order on both sides.
TEST(CostTerms, Moves) {
  // Two parts of 3 and 5 of 8 columns: a piece of each for each of 4 rows.
  ExpectTerms({"input %x: float32[4, 3, 7]\ninput %z: float32[4, 5, 7]\nn: %y: float32[4, 8, 7] = "
               "Concat{axis=1}(%x, %z)\noutput %y\n",
               "concat"},
              "copy", {{kRows, 8 * 0.5}, {kStream, 2 * 224 * 4 * 0.01}});
  EXPECT_NEAR(Counted("input %x: float32[4, 8, 7]\nn: %y: float32[4, 3, 7], %z: float32[4, 5, 7] = "
                      "Split{axis=-2}(%x)\noutput %y\noutput %z\n",
                      "split")
                  .terms[kRows],
              8 * 0.5, 1e-9);
  // Single floats are written by a register each.
  EXPECT_NEAR(Counted("input %x: float32[60, 1]\ninput %z: float32[60, 2]\nn: %y: float32[60, 3] = "
                      "Concat{axis=1}(%x, %z)\noutput %y\n",
                      "concat")
                  .terms[kRows],
              2 * 60 / 6.0 * 0.5, 1e-9);
  EXPECT_NEAR(
      Counted("input %x: float32[4, 8, 7]\nn: %y: float32[4, 8, 7] = Identity(%x)\noutput %y\n",
              "copy-bytes")
          .terms[kRows],
      0.5, 1e-9)
      << "one piece";
  // Three of five rows of 6 x 7: one piece for each of 4 images. Every second column: value by
  // value.
  const auto slice = [](const char* shape, const char* steps) {
    return fmt::format(
        "input %x: float32[4, 5, 6, 7]\nconst %b: int64[4]\nconst %e: int64[4] = [9, 9, 9, "
        "9]\nconst %a: int64[4] = [0, 1, 2, 3]\nconst %s: int64[4] = [{}]\n"
        "n: %y: float32[{}] = Slice(%x, %b, %e, %a, %s)\noutput %y\n",
        steps, shape);
  };
  EXPECT_NEAR(Counted(slice("4, 3, 6, 7", "1, 1, 1, 1"), "slice").terms[kRows], 4 * 0.5, 1e-9);
  EXPECT_NEAR(Counted(slice("4, 5, 6, 4", "1, 1, 1, 2"), "slice").terms[kRows], 480 * 0.5, 1e-9);
  EXPECT_NEAR(Counted(slice("4, 5, 3, 7", "1, 1, 2, 1"), "slice").terms[kRows], 4 * 5 * 3 * 0.5,
              1e-9)
      << "every second line";
  // Each of 4 rows of 7 is repeated five times: 20 pieces.
  EXPECT_NEAR(Counted("input %x: float32[4, 1, 7]\nconst %s: int64[3] = [4, 5, 7]\nn: %y: "
                      "float32[4, 5, 7] = Expand(%x, %s)\noutput %y\n",
                      "expand")
                  .terms[kRows],
              20 * 0.5, 1e-9);
  // Each of 20 values fills a row of 7.
  EXPECT_NEAR(Counted("input %x: float32[4, 5, 1]\nconst %s: int64[3] = [4, 5, 7]\nn: %y: "
                      "float32[4, 5, 7] = Expand(%x, %s)\noutput %y\n",
                      "expand")
                  .terms[kRows],
              20 * 0.5, 1e-9);
  // A table of 100 rows of 64 floats, of which 8 are read: no more of the constant than comes out.
  ExpectTerms(
      {"input %x: int64[8]\nconst %t: float32[100, 64]\nn: %y: float32[8, 64] = Gather(%t, "
       "%x)\noutput %y\n",
       "gather_4"},
      "gather",
      {{kRows, 8 * 0.5}, {kStream, (8 * 8 + 8 * 64 * 4) * 0.01}, {kWeights, 8 * 64 * 4 * 0.01}});
}

// An index for each element, tuples, and single elements at places that are known.
TEST(CostTerms, RunsOfIndices) {
  const auto rows = [](const std::string& text, const char* kernel) {
    return Counted(text, kernel).terms[kRows];
  };
  EXPECT_NEAR(rows("input %x: float32[64, 32]\nconst %i: int64[8]\n"
                   "n: %y: float32[64, 8] = Gather{axis=1}(%x, %i)\noutput %y\n",
                   "gather"),
              64 * 8 / 32.0 * 0.5, 1e-9);
  EXPECT_NEAR(rows("input %x: float32[64, 32]\ninput %i: int64[8]\n"
                   "n: %y: float32[64, 8] = Gather{axis=1}(%x, %i)\noutput %y\n",
                   "gather"),
              64 * 8 * 0.5, 1e-9);
  EXPECT_NEAR(rows("input %x: float32[4, 5, 6]\ninput %i: int64[3, 2]\n"
                   "n: %y: float32[3, 6] = GatherND(%x, %i)\noutput %y\n",
                   "gather_nd"),
              3 * 0.5, 1e-9);
  // Rows of 16 are scattered as a whole where their indices were one.
  const std::string scatter =
      "n: %y: float32[90, 16] = ScatterElements{axis=0}(%x, %j, %z)\noutput %y\n";
  const std::string data = "input %x: float32[90, 16]\ninput %z: float32[7, 16]\n";
  EXPECT_NEAR(rows(data + "input %j: int64[7, 16]\n" + scatter, "scatter_elements"), 7 * 16 * 0.5,
              1e-9);
  EXPECT_NEAR(rows(data +
                       "input %i: int64[7, 1]\nconst %s: int64[2] = [7, 16]\n"
                       "e: %j: int64[7, 16] = Expand(%i, %s)\n" +
                       scatter,
                   "scatter_elements"),
              7 * 0.5, 1e-9);
}

// Of 32 steps of 64 x 16 one is picked, or cut out: no more is read.
TEST(CostTerms, PartsOfAnInput) {
  EXPECT_NEAR(Counted("input %x: float32[64, 32, 16]\ninput %i: int64[]\n"
                      "n: %y: float32[64, 16] = Gather{axis=1}(%x, %i)\noutput %y\n",
                      "gather")
                  .terms[kStream],
              (2 * 64 * 16 * 4 + 8) * 0.01, 1e-9);
  EXPECT_NEAR(Counted("input %x: float32[64, 32, 16]\nconst %b: int64[1]\nconst %e: int64[1] = "
                      "[1]\nconst %a: int64[1] = [1]\n"
                      "n: %y: float32[64, 1, 16] = Slice(%x, %b, %e, %a)\noutput %y\n",
                      "slice")
                  .terms[kStream],
              2 * 64 * 16 * 4 * 0.01, 1e-9);
}

// Six products of two computed operands, each of which is set up.
TEST(CostTerms, PairsOfOperands) {
  const char* const byte = "(scale 0.1, zero 0)";
  const Counted counted(fmt::format("input %x: uint8[6, 10, 8]{0}\ninput %z: uint8[6, 8, 20]{0}\n"
                                    "n: %y: uint8[6, 10, 20]{0} = MatMul(%x, %z)\noutput %y\n",
                                    byte),
                        "matmul_pair_int8", Tiled(14, 32));
  EXPECT_EQ(counted.family, "product_pair");
  EXPECT_NEAR(counted.terms[kCall], 1000 * 6 * 0.5, 1e-9);
}

// Blocks of 2 x 2 of two channels lie in runs of four elements.
TEST(CostTerms, BlocksOfPixels) {
  ExpectTerms({"input %x: float32[1, 3, 5, 8]\nn: %y: float32[1, 6, 10, 2] = "
               "DepthToSpace{blocksize=2, channels_last=1}(%x)\noutput %y\n",
               "depth_to_space"},
              "transpose", {{kRows, 120 / 4 * 0.5}, {kStream, 2 * 120 * 4 * 0.01}});
}

TEST(CostTerms, Transposes) {
  const auto text = [](const char* from, const char* to, const char* perm) {
    return fmt::format(
        "input %x: float32[{}]\nn: %y: float32[{}] = Transpose{{perm=[{}]}}(%x)\noutput %y\n", from,
        to, perm);
  };
  // Rows that stay last: 4 x 5 of 32.
  ExpectTerms({text("4, 5, 32", "5, 4, 32", "1, 0, 2"), "transpose"}, "transpose",
              {{kRows, 20 * 0.5}, {kStream, 2 * 640 * 4 * 0.01}});
  // 20 x 40 turned into 40 x 20, twice: 2 x 3 blocks of 16 x 16 of each plane, 16 cycles each.
  ExpectTerms({text("2, 20, 40", "2, 40, 20", "0, 2, 1"), "transpose"}, "transpose",
              {{kTiles, 16 * 2 * 3 * 2 * 0.5},
               {kRows, 50 * 2 * 0.5},  // of two planes
               {kStream, 2 * 1600 * 4 * 0.01}});
  // Axes that stay together are one: 6 x 7 pixels of 20 channels are 42 x 20.
  EXPECT_NEAR(Counted(text("1, 20, 6, 7", "1, 6, 7, 20", "0, 2, 3, 1"), "transpose").terms[kTiles],
              16 * 2 * 3 * 0.5, 1e-9);
  // Rows of fewer than 16 are written one by one, but for those of three.
  EXPECT_NEAR(Counted(text("8, 64", "64, 8", "1, 0"), "transpose").terms[kOutputs],
              4 * 512 / 8 * 0.5, 1e-9);
  EXPECT_EQ(Counted(text("3, 64", "64, 3", "1, 0"), "transpose").terms[kOutputs], 0);
  EXPECT_EQ(Counted(text("16, 64", "64, 16", "1, 0"), "transpose").terms[kOutputs], 0);
  // Nothing moves.
  EXPECT_NEAR(Counted(text("1, 64, 1", "64, 1, 1", "1, 0, 2"), "transpose").terms[kRows], 0.5,
              1e-9);
}

// Definitions go value by value, by multiply-adds.

}  // namespace
}  // namespace evoq
