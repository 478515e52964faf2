#include "kernels/gemm/matmul_batch.h"
#include "kernels/requant.h"
#include "kernels/test_util.h"

namespace evoq {
namespace {

using Ints = std::vector<int64_t>;

struct PairCase {
  Ints a, b, y;
  DType b_type = DType::kUint8, y_type = DType::kUint8;
  int32_t a_zero = 121, b_zero = 99;
  bool residual = false, relu = false;
};

TestCall CallOf(const PairCase& c, uint32_t seed) {
  TestCall t;
  t.op = "MatMul";
  const TensorType y = c.y_type == DType::kFloat32
                           ? TensorType(c.y_type, Shape(c.y))
                           : TensorType(c.y_type, Shape(c.y), QuantParams::PerTensor(1.9f, 3));
  t.inputs = {
      RandomTensor(TensorType(DType::kUint8, Shape(c.a), QuantParams::PerTensor(0.05f, c.a_zero)),
                   seed),
      RandomTensor(TensorType(c.b_type, Shape(c.b), QuantParams::PerTensor(0.031f, c.b_zero)),
                   seed + 1)};
  if (c.residual) t.inputs = {t.inputs[0], t.inputs[1], Tensor(), RandomTensor(y, seed + 2)};
  if (c.relu) t.attrs.Set("activation", "Relu");
  t.outputs = {y};
  return t;
}

// kernels/requant.h, one element after the other.
Tensor Expected(const PairCase& c, const TestCall& t) {
  const Ints a_batch(c.a.begin(), c.a.end() - 2), b_batch(c.b.begin(), c.b.end() - 2),
      batch(c.y.begin(), c.y.end() - 2);
  const int64_t m = c.a[c.a.size() - 2], k = c.a.back(), n = c.b.back();
  Tensor y = Tensor::Allocate(t.outputs[0]);
  const bool real = c.y_type == DType::kFloat32;
  const float y_scale = real ? 1.0f : 1.9f, multiplier = LinearMultiplier(0.05f, 0.031f, y_scale);
  for (int64_t i = 0; i < y.elements(); ++i) {
    const int64_t product = i / (m * n), row = i / n % m, column = i % n;
    const auto* a =
        t.inputs[0].data<uint8_t>() + (BatchIndex(product, batch, a_batch) * m + row) * k;
    const int64_t b = BatchIndex(product, batch, b_batch) * k * n + column;
    int32_t acc = 0;
    for (int64_t d = 0; d < k; ++d) {
      const int64_t at = b + d * n;
      const int32_t q = c.b_type == DType::kInt8 ? t.inputs[1].data<int8_t>()[at]
                                                 : t.inputs[1].data<uint8_t>()[at];
      acc += (a[d] - c.a_zero) * (q - c.b_zero);
    }
    float v = static_cast<float>(acc) * multiplier;
    if (c.residual && real) v = v + t.inputs[3].data<float>()[i];
    if (c.residual && !real)
      v = v + static_cast<float>(t.inputs[3].data<uint8_t>()[i] - 3) * ScaleRatio(1.9f, y_scale);
    if (c.relu) v = v > 0 ? v : 0;
    if (real) {
      y.mutable_data<float>()[i] = v;
    } else {
      y.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(RoundToInteger(v, 3, 0, 255));
    }
  }
  return y;
}

void Check(const PairCase& c, uint32_t seed) {
  const TestCall t = CallOf(c, seed);
  ExpectKernel(*FindKernel("matmul_pair_int8"), t, {Expected(c, t)},
               fmt::format("{} {} zeros {} {}", t.inputs[0].type().ToString(),
                           t.inputs[1].type().ToString(), c.a_zero, c.b_zero));
}

TEST(MatMulPairInt8, Attention) {
  Check({{2, 3, 128, 64}, {2, 3, 64, 128}, {2, 3, 128, 128}}, 1);
  Check({{2, 16, 64}, {2, 64, 16}, {2, 16, 16}}, 2);
  Check({{1, 257, 33}, {1, 33, 70}, {1, 257, 70}}, 3);
}

TEST(MatMulPairInt8, BatchesBroadcast) {
  Check({{3, 1, 5, 8}, {4, 8, 9}, {3, 4, 5, 9}}, 1);
  Check({{5, 8}, {2, 8, 17}, {2, 5, 17}}, 2);
}

TEST(MatMulPairInt8, RandomShapes) {
  std::mt19937 rng(11);
  for (uint32_t i = 0; i < 300; ++i) {
    const int64_t batch = 1 + rng() % 3, m = 1 + rng() % 150, k = 1 + rng() % 90,
                  n = 1 + rng() % 100;
    PairCase c{{batch, m, k}, {batch, k, n}, {batch, m, n}};
    if (rng() % 3 == 0) c.b_type = DType::kInt8, c.b_zero = static_cast<int32_t>(rng() % 2) * -5;
    if (rng() % 3 == 0) c.b_zero = c.b_type == DType::kInt8 ? 0 : 128;
    c.a_zero = static_cast<int32_t>(rng() % 256);
    c.y_type = rng() % 3 == 0 ? DType::kFloat32 : DType::kUint8;
    c.residual = rng() % 3 == 0;
    c.relu = rng() % 4 == 0;
    Check(c, i);
  }
}

}  // namespace
}  // namespace evoq
