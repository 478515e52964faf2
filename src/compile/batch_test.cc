#include "compile/batch.h"

#include <gtest/gtest.h>

#include "ops/op.h"

namespace evoq {
namespace {

int64_t Samples(const std::string& text) {
  auto graph = ParseGraph("graph g\ninput %x: float32[4, 6, 8]\n" + text);
  EXPECT_TRUE(graph) << graph.error().message();
  const Status inferred = InferTypes(*graph, kNoEvaluator);
  EXPECT_TRUE(inferred) << inferred.error().message();
  return IndependentSamples(*graph);
}

TEST(IndependentSamples, RowsAndElements) {
  EXPECT_EQ(Samples("a: %y: float32[4, 6, 8] = Relu(%x)\noutput %y\n"), 4);
  EXPECT_EQ(Samples("const %b: float32[8]\na: %y: float32[4, 6, 8] = Add(%x, %b)\noutput %y\n"), 4);
  EXPECT_EQ(
      Samples("const %b: float32[4, 1, 1]\na: %y: float32[4, 6, 8] = Add(%x, %b)\noutput %y\n"), 1)
      << "a constant for each sample";
  EXPECT_EQ(
      Samples("const %w: float32[8, 5]\na: %y: float32[4, 6, 5] = MatMul(%x, %w)\noutput %y\n"), 4);
  EXPECT_EQ(Samples("t: %t: float32[4, 8, 6] = Transpose{perm=[0, 2, 1]}(%x)\na: %y: float32[4, 6, "
                    "6] = MatMul(%x, %t)\noutput %y\n"),
            4);
  EXPECT_EQ(Samples("t: %t: float32[6, 4, 8] = Transpose{perm=[1, 0, 2]}(%x)\noutput %t\n"), 1);
}

TEST(IndependentSamples, Axes) {
  EXPECT_EQ(Samples("a: %y: float32[4, 6, 8] = Softmax{axis=-1}(%x)\noutput %y\n"), 4);
  EXPECT_EQ(Samples("a: %y: float32[4, 6, 8] = Softmax{axis=0}(%x)\noutput %y\n"), 1);
  EXPECT_EQ(Samples("a: %y: float32[4, 6, 8] = Softmax{axis=-3}(%x)\noutput %y\n"), 1);
  EXPECT_EQ(Samples("a: %y: float32[4, 12, 8] = Concat{axis=1}(%x, %x)\noutput %y\n"), 4);
  EXPECT_EQ(Samples("a: %y: float32[8, 6, 8] = Concat{axis=0}(%x, %x)\noutput %y\n"), 1);
}

TEST(IndependentSamples, ReshapesMayMergeRowsIntoTheBatch) {
  const std::string flat =
      "const %s: int64[2] = [24, 8]\nr: %r: float32[24, 8] = Reshape(%x, %s)\n";
  EXPECT_EQ(Samples(flat +
                    "const %w: float32[8, 5]\na: %y: float32[24, 5] = MatMul(%r, %w)\noutput %y\n"),
            4);
  EXPECT_EQ(Samples(flat + "a: %y: float32[24, 8] = Add(%r, %r)\noutput %y\n"), 4);
  EXPECT_EQ(
      Samples("const %s: int64[2] = [6, 32]\nr: %r: float32[6, 32] = Reshape(%x, %s)\noutput %r\n"),
      1);
}

TEST(IndependentSamples, RangesOverTheBatchTieSamples) {
  EXPECT_EQ(Samples("q: %q: uint8[4, 6, 8], %s: float32[], %z: uint8[] = "
                    "DynamicQuantizeLinear(%x)\noutput %q\n"),
            1);
  EXPECT_EQ(Samples("a: %y: float32[1] = ReduceSum{keepdims=0}(%x)\noutput %y\n"), 1);
}

// What would mix samples, or need a constant once per sample: each a case that a rule alone holds
// back.
TEST(IndependentSamples, NotWhereSamplesMeet) {
  const auto one = [](const std::string& text) { EXPECT_EQ(Samples(text), 1) << text; };
  const auto four = [](const std::string& text) { EXPECT_EQ(Samples(text), 4) << text; };
  four("input %z: float32[4, 6, 8]\na: %y: float32[4, 6, 8] = Add(%x, %z)\noutput %y\n");
  one("input %z: float32[2, 6, 8]\na: %y: float32[4, 6, 8] = Relu(%x)\nb: %w: float32[2, 6, 8] = "
      "Relu(%z)\noutput %y\noutput %w\n");
  // z's rows are no samples.
  one("input %z: float32[6, 8]\na: %y: float32[4, 6, 8] = Add(%x, %z)\noutput %y\n");
  // x's samples lie along axis 1.
  one("input %z: float32[4, 1, 6, 8]\na: %y: float32[4, 4, 6, 8] = Add(%x, %z)\noutput %y\n");
  four("const %c: float32[6, 8]\na: %y: float32[4, 6, 8] = Add(%x, %c)\noutput %y\n");
  four("const %c: float32[1, 6, 8]\na: %y: float32[4, 6, 8] = Add(%x, %c)\noutput %y\n");
  // Axis 0 of y is the constant's.
  one("const %c: float32[2, 1, 6, 8]\na: %y: float32[2, 4, 6, 8] = Add(%x, %c)\noutput %y\n");
  one("const %c: float32[4, 6, 8]\na: %b: float32[4, 6, 8] = Relu(%x)\nb: %y: float32[4, 6, 8] = "
      "Relu(%c)\noutput %b\noutput %y\n");
  one("a: %y: int64[1, 6, 8] = ArgMax(%x)\noutput %y\n");
  one("const %s: int64[3] = [4, 8, 6]\nr: %r: float32[4, 8, 6] = Reshape(%x, %s)\na: %y: int64[8, "
      "6] = ArgMax{keepdims=0}(%r)\noutput %y\n");
  four("a: %y: int64[4, 6, 1] = ArgMax{axis=2}(%x)\noutput %y\n");
  one("a: %y: float32[2, 6, 8], %z: float32[2, 6, 8] = Split{num_outputs=2}(%x)\noutput %y\noutput "
      "%z\n");
  four(
      "a: %y: float32[4, 3, 8], %z: float32[4, 3, 8] = Split{axis=1, num_outputs=2}(%x)\noutput "
      "%y\noutput %z\n");
  one("const %c: float32[4, 1, 8]\na: %y: float32[4, 7, 8] = Concat{axis=1}(%x, %c)\noutput %y\n");
  four("const %w: float32[5, 6, 3]\na: %y: float32[4, 5, 6] = Conv(%x, %w)\noutput %y\n");
  one("const %c: float32[4, 5, 6]\na: %y: float32[4, 5, 8] = MatMul(%c, %x)\noutput %y\n");
  one("const %c: float32[4, 8, 5]\na: %y: float32[4, 6, 5] = MatMul(%x, %c)\noutput %y\n");
  four("const %c: float32[1, 8, 5]\na: %y: float32[4, 6, 5] = MatMul(%x, %c)\noutput %y\n");
  one("const %i: int64[4] = [3, 2, 1, 0]\na: %y: float32[4, 6, 8] = Gather(%x, %i)\noutput %y\n");
  one("a: %y: float32[4, 6, 8] = RandomNormalLike(%x)\noutput %y\n");
  four("const %p: bool[1, 6, 8]\na: %y: float32[4, 6, 8] = Where(%p, %x, %x)\noutput %y\n");
  one("const %p: bool[4, 1, 1]\na: %y: float32[4, 6, 8] = Where(%p, %x, %x)\noutput %y\n");
  // Without an order all axes are reversed.
  one("t: %y: float32[8, 6, 4] = Transpose(%x)\noutput %y\n");
}

}  // namespace
}  // namespace evoq
