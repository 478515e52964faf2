// Products whose weights are mostly zero blocks, against the formula of dense ones, and when they
// are taken.
#include "kernels/gemm/int8_sparse.h"

#include "kernels/gemm/int8_test_case.h"
#include "kernels/gemm/int8_variants.h"
#include "kernels/gemm/int8_winograd.h"
#include "kernels/layout.h"

namespace evoq::int8_test {
namespace {

Case Sparse(Ints x, Ints w, int blocks, bool long_blocks) {
  Case c;
  c.x = std::move(x);
  c.w = std::move(w);
  c.blocks = blocks;
  c.long_blocks = long_blocks;
  return c;
}
Case SparseMatMul(int64_t rows, int64_t k, int64_t n, int blocks, bool long_blocks) {
  Case c = Sparse({rows, k}, {k, n}, blocks, long_blocks);
  c.op = "MatMul";
  return c;
}

// The layout that the weights of a case are packed in.
std::string PackedAs(const char* kernel, const Case& c) {
  const Problem p = Build(c);
  return FindKernel(kernel)->pack(p.call(), 1)->layout();
}
// What a kernel bound for the first plain instruction set says that it does.
std::string MethodOf(const char* kernel, const Case& c, Isa isa, std::string_view variant = "") {
  Problem p = Build(c);
  p.data[1] = *FindKernel(kernel)->pack(p.call(), 1);
  p.constants[1] = &p.data[1];
  return FindKernel(kernel)->bind(p.call(), BindOptions{isa, 1, variant})->plan.method;
}

// Rows around a register and a tile of each instruction set, columns around a line and a panel, K
// around a group, a block of 16 and what one register transposes.
TEST(SparseInt8, ShapesAroundATile) {
  uint32_t seed = 1;
  for (const bool long_blocks : {false, true}) {
    for (const int64_t rows : {8, 9, 16, 17, 24, 25, 48, 49, 97}) {
      for (const int64_t k : {16, 20, 32, 36, 95, 128}) {
        for (const int64_t n : {16, 17, 36, 80}) {
          Case c = SparseMatMul(rows, k, n, 25, long_blocks);
          c.seed = seed++;
          c.w_small = seed % 3 == 0;
          Check("matmul_int8", c);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(SparseInt8, Convolutions) {
  for (const bool long_blocks : {false, true}) {
    Case c = Sparse({1, 9, 8, 32}, {24, 32, 1, 1}, 25, long_blocks);
    Check("conv_int8", c);
    c.strides = {2, 2};
    Check("conv_int8", c);
    c = Sparse({2, 7, 9, 20}, {37, 20, 3, 3}, 20, long_blocks);  // 20 channels: 5 groups of a tap
    c.pads = {1, 1, 1, 1};
    Check("conv_int8", c);
    c.dilations = {2, 2};
    Check("conv_int8", c);
    c = Sparse({1, 8, 8, 16}, {16, 16, 3, 3}, 25, long_blocks);  // few channels: taps melt
    c.pads = {1, 1, 1, 1};
    Check("conv_int8", c);
    c.x_type = DType::kInt8;
    c.x_zero = -3;
    Check("conv_int8", c);
    if (HasFatalFailure()) return;
  }
}

// Each way that a tile ends, and both kinds of blocks: with `extremes` no pair is safe.
TEST(SparseInt8, Epilogues) {
  uint32_t seed = 1;
  for (const bool long_blocks : {false, true}) {
    for (const int extremes : {0, 1, 2}) {
      Case c = Sparse({1, 7, 7, 48}, {70, 48, 1, 1}, 30, long_blocks);
      c.extremes = extremes;
      c.seed = seed++;
      Check("conv_int8", c);
      for (DType residual : {DType::kUint8, DType::kInt8}) {
        c.residual = residual;
        c.activation.kind = ActivationKind::kRelu;
        Check("conv_int8", c);
      }
      c.residual = DType::kUndefined;
      c.y_type = DType::kInt8;
      c.y_zero = -7;
      Check("conv_int8", c);
      c.y_type = DType::kFloat32;
      Check("conv_int8", c);
      c.y_type = DType::kUint8;
      c.y_zero = 17;
      c.table = true;
      Check("conv_int8", c);
      c.table = false;
      c.w_type = DType::kUint8;
      Check("conv_int8", c);
      c.w_zeros = 2;
      Check("conv_int8", c);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(SparseInt8, IntegerAndDynamic) {
  for (const bool long_blocks : {false, true}) {
    Case c = Sparse({1, 8, 7, 32}, {40, 32, 3, 3}, 25, long_blocks);
    c.pads = {1, 1, 1, 1};
    c.op = "ConvInteger";
    c.runtime_zero = true;
    Check("conv_integer", c);
    c.op = "DynamicConv";
    c.y_type = DType::kFloat32;
    c.runtime_zero = false;
    Check("dynamic_conv", c);
    Case m = SparseMatMul(30, 64, 50, 25, long_blocks);
    m.op = "DynamicMatMul";
    m.y_type = DType::kFloat32;
    Check("dynamic_matmul", m);
  }
}

// Weights are stored as blocks where few hold any, and unpacked where dense tiles are better.
TEST(SparseInt8, WhenItIsTaken) {
  EXPECT_EQ(PackedAs("matmul_int8", SparseMatMul(64, 128, 64, 25, false)), "blocks4x4-matmul");
  EXPECT_EQ(PackedAs("matmul_int8", SparseMatMul(64, 128, 64, 25, true)), "blocks1x16-matmul");
  EXPECT_EQ(PackedAs("conv_int8", Sparse({1, 8, 8, 64}, {64, 64, 3, 3}, 25, false)),
            "blocks4x4-conv");
  EXPECT_EQ(PackedAs("conv_int8", Sparse({1, 8, 8, 64}, {64, 64, 3, 3}, 25, true)),
            "blocks1x16-conv");
  EXPECT_EQ(PackedAs("matmul_int8", SparseMatMul(64, 128, 64, 70, false)), "k4n16-matmul");
  EXPECT_EQ(PackedAs("matmul_int8", SparseMatMul(64, 128, 64, 0, false)), "k4n16-matmul");
  Case grouped = Sparse({1, 8, 8, 64}, {64, 16, 1, 1}, 25, false);
  grouped.group = 4;
  EXPECT_EQ(PackedAs("conv_int8", grouped), "k4n16-conv");
  for (const Isa isa : SupportedIsas()) {
    SCOPED_TRACE(IsaName(isa));
    const Int8TileDef* sparse = Int8TileFor(isa).sparse;
    Problem packed = Build(SparseMatMul(64, 256, 64, 25, false));
    packed.data[1] = *FindKernel("matmul_int8")->pack(packed.call(), 1);
    packed.constants[1] = &packed.data[1];
    const std::vector<std::string> names =
        FindKernel("matmul_int8")->variants(packed.call(), BindOptions{isa, 1, {}});
    for (const std::string_view way : {kInt8Skipping, kInt8Dense})
      EXPECT_EQ(std::ranges::count(names, way), sparse != nullptr) << way;
    if (sparse == nullptr) continue;
    const Case few = SparseMatMul(64, 256, 64, sparse->most_blocks - 15, false),
               one = SparseMatMul(1, 256, 64, 20, false),
               flat = SparseMatMul(64, 16, 64, 25, false);
    // What is turned around costs a shallow product more than the blocks that it skips.
    EXPECT_EQ(MethodOf("matmul_int8", flat, isa).starts_with("4x4 blocks, "),
              4 * sparse->turning_depth < 16 * 3);
    EXPECT_EQ(MethodOf("matmul_int8", few, isa, kInt8Dense), "");
    EXPECT_TRUE(MethodOf("matmul_int8", flat, isa, kInt8Skipping).starts_with("4x4 blocks, "));
    EXPECT_TRUE(MethodOf("matmul_int8", few, isa).starts_with("4x4 blocks, "));
    EXPECT_EQ(MethodOf("matmul_int8", one, isa), "");  // a row would waste most of a register
    Case conv = Sparse({1, 28, 28, 64}, {64, 64, 3, 3}, 10, true);
    conv.pads = {1, 1, 1, 1};
    EXPECT_TRUE(MethodOf("conv_int8", conv, isa).starts_with("1x16 blocks, "));
    if (RowFor(kInt8WinogradRows, isa).table == nullptr) continue;
    EXPECT_EQ(MethodOf("conv_int8", conv, isa, kInt8Winograd), kInt8Winograd);
    conv.blocks = 35;
    EXPECT_EQ(MethodOf("conv_int8", conv, isa), kInt8Winograd);
  }
}

}  // namespace
}  // namespace evoq::int8_test
