#include "kernels/gemm/int8_test_case.h"

namespace evoq::int8_test {
namespace {

Case Product(Ints a, Ints b) {
  Case c;
  c.op = "MatMul";
  c.x = std::move(a);
  c.w = std::move(b);
  return c;
}

TEST(MatMulInt8, RowsAroundTiles) {
  for (int64_t m : {0, 1, 2, 3, 4, 6, 7, 8, 13, 14, 15, 28, 29}) {
    for (int64_t n : {1, 16, 33, 64, 130}) {
      Case c = Product({m, 20}, {20, n});
      c.seed = static_cast<uint32_t>(m + n);
      Check("matmul_int8", c);
    }
  }
}

TEST(MatMulInt8, DepthsAndBatches) {
  for (int64_t k : {1, 2, 3, 4, 5, 63, 64, 65, 1024})
    Check("matmul_int8", Product({2, 3, k}, {k, 40}));
  Check("matmul_int8", Product({4096}, {4096, 70}));
  Check("matmul_int8", Product({17, 4096}, {4096, 70}));
  Check("matmul_int8", Product({3, 1024}, {1024, 700}));
  Check("matmul_int8", Product({301, 260}, {260, 90}));
}

TEST(MatMulInt8, Epilogues) {
  for (DType y : {DType::kUint8, DType::kFloat32}) {
    for (int w_zeros : {0, 1, 2}) {
      Case c = Product({19, 36}, {36, 50});
      c.y_type = y;
      c.w_zeros = w_zeros;
      c.residual = y;
      c.activation = {ActivationKind::kPRelu};
      Check("matmul_int8", c);
      c.activation = {ActivationKind::kLeakyRelu, 0.2f};
      Check("matmul_int8", c);
      c.table = y == DType::kUint8;
      Check("matmul_int8", c);
      c.x_type = DType::kInt8;
      c.x_zero = -3;
      c.w_type = DType::kUint8;
      c.activation = {ActivationKind::kClip, 0.0f, 6.0f};
      Check("matmul_int8", c);
    }
  }
}

TEST(DynamicMatMul, TypesAndZeroPoints) {
  uint32_t seed = 1;
  for (int64_t m : {0, 1, 5, 16, 300}) {
    for (DType x : {DType::kUint8, DType::kInt8}) {
      for (int w_zeros : {0, 1, 2}) {
        Case c = Product({2, m, 36}, {36, 70});
        c.op = "DynamicMatMul";
        c.y_type = DType::kFloat32;
        c.x_type = x;
        c.x_zero = x == DType::kUint8 ? 131 : -77;
        c.w_zeros = w_zeros;
        c.residual = seed % 2 == 0 ? DType::kFloat32 : DType::kUndefined;
        c.bias = seed % 3 != 0;
        c.activation = {seed % 2 == 0 ? ActivationKind::kGelu : ActivationKind::kRelu};
        c.seed = seed++;
        Check("dynamic_matmul", c);
      }
    }
  }
}

TEST(MatMulInteger, TypesAndZeroPoints) {
  uint32_t seed = 1;
  for (DType x : {DType::kUint8, DType::kInt8}) {
    for (DType w : {DType::kUint8, DType::kInt8}) {
      for (int w_zeros : {0, 1, 2}) {
        for (bool runtime : {false, true}) {
          Case c = Product({2, 11, 30}, {30, 45});
          c.op = "MatMulInteger";
          c.x_type = x;
          c.w_type = w;
          c.x_zero = x == DType::kUint8 ? 200 : -77;
          c.w_zeros = w_zeros;
          c.runtime_zero = runtime;
          c.seed = seed++;
          Check("matmul_integer", c);
        }
      }
    }
  }
}

TEST(MatMulInteger, WithoutZeroPoints) {
  Case c = Product({5, 12}, {12, 20});
  c.op = "MatMulInteger";
  c.x_zero = 0;
  Problem p = Build(c);
  const Tensor expected = Expected(p);
  p.inputs.resize(2);
  p.data.resize(2);
  p.constants.resize(2);
  p.constants[1] = &p.data[1];
  auto bound = FindKernel("matmul_integer")->bind(p.call(), BindOptions{});
  ASSERT_TRUE(bound);
  ThreadPool pool(1);
  RunOnce(p, *bound, expected, pool);
}

}  // namespace
}  // namespace evoq::int8_test
