#include "train/separate.h"

#include <gtest/gtest.h>

namespace evoq {
namespace {

std::string Separated(const std::string& text) {
  auto graph = ParseGraph(text);
  EXPECT_TRUE(graph) << graph.error().message();
  const Status status = SeparateParameters(*graph);
  EXPECT_TRUE(status) << status.error().message();
  return Print(*graph);
}

// As PyTorch writes a network that was not trained: its ones and its zeros are one tensor each.
TEST(SeparateParameters, EqualOnesAndZerosPart) {
  EXPECT_EQ(Separated(R"(graph g
input %x: float32[N, 2, 4]
const %one: float32[2] = [1.0, 1.0]
const %zero: float32[2] = [0.0, 0.0]
i1: %mean: float32[2] = Identity(%zero)
i2: %var: float32[2] = Identity(%one)
i3: %bias2: float32[2] = Identity(%zero)
b1: %y: float32[N, 2, 4] = BatchNormalization(%x, %one, %zero, %mean, %var)
b2: %z: float32[N, 2, 4] = BatchNormalization(%y, %one, %bias2, %zero, %one)
output %z
)"),
            R"(graph g
input %x: float32[N, 2, 4]
const %one: float32[2] = [1.0, 1.0]
const %zero: float32[2] = [0.0, 0.0]
const %mean: float32[2] = [0.0, 0.0]
const %var: float32[2] = [1.0, 1.0]
b1: %y: float32[N, 2, 4] = BatchNormalization(%x, %one, %zero, %mean, %var)
const %one_1: float32[2] = [1.0, 1.0]
const %bias2: float32[2] = [0.0, 0.0]
const %zero_1: float32[2] = [0.0, 0.0]
const %one_2: float32[2] = [1.0, 1.0]
b2: %z: float32[N, 2, 4] = BatchNormalization(%y, %one_1, %bias2, %zero_1, %one_2)
output %z
)");
}

// Tied weights stay tied, also by another name, and so does the bias of a layer that is applied
// twice; another layer's equal bias is its own.
TEST(SeparateParameters, WhatIsTiedStays) {
  EXPECT_EQ(Separated(R"(graph g
input %x: float32[N, 2]
const %w: float32[2, 2] = [1.0, 2.0, 3.0, 4.0]
const %v: float32[2, 2] = [1.0, 2.0, 3.0, 5.0]
const %zero: float32[2] = [0.0, 0.0]
i1: %tied: float32[2, 2] = Identity(%w)
g1: %a: float32[N, 2] = Gemm(%x, %w, %zero)
g2: %b: float32[N, 2] = Gemm(%a, %v, %zero)
g3: %c: float32[N, 2] = Gemm(%b, %tied, %zero)
output %c
)"),
            R"(graph g
input %x: float32[N, 2]
const %w: float32[2, 2] = [1.0, 2.0, 3.0, 4.0]
const %zero: float32[2] = [0.0, 0.0]
g1: %a: float32[N, 2] = Gemm(%x, %w, %zero)
const %v: float32[2, 2] = [1.0, 2.0, 3.0, 5.0]
const %zero_1: float32[2] = [0.0, 0.0]
g2: %b: float32[N, 2] = Gemm(%a, %v, %zero_1)
g3: %c: float32[N, 2] = Gemm(%b, %w, %zero)
output %c
)");
}

}  // namespace
}  // namespace evoq
