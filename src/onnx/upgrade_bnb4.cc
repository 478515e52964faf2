// com.microsoft's MatMulBnb4: weights of 4 bits as bitsandbytes quantizes them.
#include <cmath>

#include "base/budget_scope.h"
#include "base/math.h"
#include "onnx/upgrade.h"
#include "tensor/normal_float.h"

namespace evoq {
namespace {

// The numbers of quant_type 0, FP4, by their bits.
constexpr float kFp4Values[16] = {
    0.0f,  5.208333333e-03f,  2 / 3.0f,  1.0f,  1 / 3.0f,  0.5f,  1 / 6.0f,  0.25f,
    -0.0f, -5.208333333e-03f, -2 / 3.0f, -1.0f, -1 / 3.0f, -0.5f, -1 / 6.0f, -0.25f};

struct Bnb4 {
  int64_t k, n, block;
  const uint8_t* packed;
  const float* scales;

  // Weights lie row by row of [N, K], two to a byte, the first one in the high bits; scales are
  // of `block` in this order.
  int64_t At(int64_t row, int64_t column) const { return column * k + row; }
  uint8_t Bits(int64_t at) const { return packed[at / 2] >> (at % 2 == 0 ? 4 : 0) & 15; }
};

Tensor Dense(const Bnb4& b, const float (&values)[16]) {
  Tensor dense = Tensor::Allocate(TensorType(DType::kFloat32, Shape{b.k, b.n}));
  for (int64_t i = 0; i < b.k * b.n; ++i) {
    const int64_t at = b.At(i / b.n, i % b.n);
    dense.mutable_data<float>()[i] = values[b.Bits(at)] * b.scales[at / b.block];
  }
  return dense;
}

// Where blocks do not run from column to column and scales are such.
bool HasColumnBlocks(const Bnb4& b) {
  if (b.k % b.block != 0) return false;
  for (int64_t i = 0; i < b.k / b.block * b.n; ++i) {
    if (!std::isfinite(b.scales[i]) || b.scales[i] < 0) return false;
  }
  return true;
}

Tensor Quantized(const Bnb4& b) {
  constexpr int kZeroBits = 7;
  const int64_t blocks = b.k / b.block;
  QuantParams quant;
  quant.axis = 0;
  quant.block = b.block;
  quant.zero_points.assign(static_cast<size_t>(blocks * b.n), 0);
  for (int64_t i = 0; i < blocks * b.n; ++i) {
    const float scale = b.scales[i % b.n * blocks + i / b.n];
    quant.scales.push_back(scale == 0 ? 1 : scale);
  }
  Tensor q = Tensor::Allocate(TensorType(kNormalFloat4, Shape{b.k, b.n}));
  for (int64_t i = 0; i < b.k * b.n; ++i) {
    const int64_t at = b.At(i / b.n, i % b.n);
    SetPackedBits(q.mutable_raw(), i, 4, b.scales[at / b.block] == 0 ? kZeroBits : b.Bits(at));
  }
  return q.WithType(TensorType(kNormalFloat4, Shape{b.k, b.n}, std::move(quant)));
}

// MatMulBnb4(a, b, scales): a b', where b' is [N, K] of NF4 (quant_type 1) or FP4 times the scales.
// NF4 in blocks along K stays so; all else becomes float32.
Status MatMulBnb4(Upgrade& u) {
  for (size_t i : {0, 1, 2}) {
    if (!u.HasInput(i)) return InvalidInput("input {} is missing", i);
  }
  const int64_t k = u.attrs().Int("K"), n = u.attrs().Int("N"), block = u.attrs().Int("block_size"),
                type = u.attrs().Int("quant_type");
  const auto elements = CheckedMul(k, n);
  if (k < 1 || n < 1 || block < 1 || block > 1 << 20 || !elements || *elements > int64_t{1} << 36)
    return InvalidInput("K={}, N={}, block_size={}", k, n, block);
  if (type != 0 && type != 1) return Unsupported("quant_type={}, expected 0 or 1", type);
  const Tensor *weights = u.Constant(1), *scales = u.Constant(2);
  if (weights == nullptr || scales == nullptr) return Unsupported("weights that are not constant");
  if (weights->dtype() != DType::kUint8 || weights->elements() != CeilDiv(*elements, int64_t{2}))
    return InvalidInput("input 1 is {}, expected {} bytes", weights->type().ToString(),
                        CeilDiv(*elements, int64_t{2}));
  if (scales->dtype() != DType::kFloat32 || scales->elements() != CeilDiv(*elements, block))
    return InvalidInput("input 2 is {}, expected {} scales of float32", scales->type().ToString(),
                        CeilDiv(*elements, block));
  const Bnb4 bnb4 = {k, n, block, weights->data<uint8_t>(), scales->data<float>()};
  const bool stays = type == 1 && HasColumnBlocks(bnb4);
  EVOQ_TRY(SpendMemory(stays ? *elements / 2 + scales->elements() * 8 : *elements * 4,
                       "weights of 4 bits"));
  const ValueId b = u.AddConstant("weights", stays       ? Quantized(bnb4)
                                             : type == 1 ? Dense(bnb4, kNormalFloat4Values)
                                                         : Dense(bnb4, kFp4Values));
  u.ReplaceBy(u.Apply("MatMul", "", {u.node().input(0), b}));
  return {};
}

constexpr UpgradeRule kRules[] = {{"MatMulBnb4", "com.microsoft", kAnyVersion, MatMulBnb4}};

}  // namespace

std::span<const UpgradeRule> Bnb4Rules() { return kRules; }

}  // namespace evoq
