// com.microsoft's operators on weights of few bits that lie packed in bytes: MatMulNBits and
// GatherBlockQuantized.
#include "base/math.h"
#include "kernels/gemm/blocks/block_data.h"
#include "onnx/upgrade.h"

namespace evoq {
namespace {

DType UnsignedOf(int64_t bits) {
  return bits == 8 ? DType::kUint8 : bits == 4 ? DType::kUint4 : DType::kUint2;
}

// Element i of `bits` wide numbers, packed in bytes from the low bits on.
uint8_t Packed(const Tensor& t, int64_t i, int bits) {
  return bits == 8 ? t.data<uint8_t>()[i] : PackedBits(t.raw(), i, bits);
}

// MatMulNBits(a, b [N, blocks, bytes], scales, zero points?, -, bias?): b[n, k] = (q - zero) *
// scale of the block of k. Becomes a MatMul with a [K, N] constant quantized in blocks along K.
Status MatMulNBits(Upgrade& u) {
  EVOQ_TRY(u.NeedInputs({0, 1, 2}));
  const int64_t k = u.attrs().Int("K"), n = u.attrs().Int("N"), block = u.attrs().Int("block_size"),
                bits = u.attrs().Int("bits", 4);
  if (bits != 2 && bits != 4 && bits != 8) return Unsupported("bits={}, expected 2, 4 or 8", bits);
  constexpr int64_t kMaxBlock = 1 << 20;  // sizes of blocks are multiplied below
  if (k < 1 || n < 1 || block < 16 || block > kMaxBlock || (block & (block - 1)) != 0 ||
      !CheckedMul(k, n) || *CheckedMul(k, n) > int64_t{1} << 36)
    return InvalidInput("K={}, N={}, block_size={}", k, n, block);
  if (u.HasInput(4)) return Unsupported("input 4 (g_idx)");
  const Tensor *weights = u.Constant(1), *scales = u.Constant(2), *zeros = u.Constant(3);
  if (weights == nullptr || scales == nullptr || (u.HasInput(3) && zeros == nullptr))
    return Unsupported("weights that are not constant");
  const int64_t blocks = CeilDiv(k, block), bytes = block * bits / 8,
                zero_bytes = CeilDiv(blocks * bits, 8);
  if (weights->dtype() != DType::kUint8 || weights->elements() != n * blocks * bytes)
    return InvalidInput("input 1 is {}, expected uint8[{}, {}, {}]", weights->type().ToString(), n,
                        blocks, bytes);
  if (scales->dtype() != DType::kFloat32 || scales->elements() != n * blocks)
    return InvalidInput("input 2 is {}, expected {} scales", scales->type().ToString(), n * blocks);
  const bool real_zeros = zeros != nullptr && zeros->dtype() != DType::kUint8;
  if (real_zeros && (zeros->dtype() != DType::kFloat32 || zeros->elements() != n * blocks))
    return InvalidInput("input 3 is {}", zeros->type().ToString());
  if (zeros != nullptr && !real_zeros && zeros->elements() != n * zero_bytes)
    return InvalidInput("input 3 is {}, expected {} bytes", zeros->type().ToString(),
                        n * zero_bytes);
  const DType dtype = UnsignedOf(bits);
  const int width = static_cast<int>(bits);
  const auto number = [&](int64_t row, int64_t i) {
    return Packed(*weights, (row * blocks + i / block) * block + i % block, width);
  };
  ValueId b;
  if (real_zeros) {
    Tensor dense = Tensor::Allocate(TensorType(DType::kFloat32, Shape{k, n}));
    for (int64_t i = 0; i < k * n; ++i) {
      const int64_t at = i % n * blocks + i / n / block;
      dense.mutable_data<float>()[i] =
          (static_cast<float>(number(i % n, i / n)) - zeros->data<float>()[at]) *
          scales->data<float>()[at];
    }
    b = u.AddConstant("weights", std::move(dense));
  } else {
    Tensor q = Tensor::Allocate(TensorType(dtype, Shape{k, n})),
           zero = Tensor::Allocate(TensorType(dtype, Shape{blocks, n}));
    Tensor scale = Tensor::Allocate(TensorType(DType::kFloat32, Shape{blocks, n}));
    const auto set = [&](Tensor& t, int64_t i, uint8_t v) {
      if (width == 8) {
        t.mutable_data<uint8_t>()[i] = v;
      } else {
        SetPackedBits(t.mutable_raw(), i, width, v);
      }
    };
    for (int64_t i = 0; i < k * n; ++i) set(q, i, number(i % n, i / n));
    for (int64_t i = 0; i < blocks * n; ++i) {
      const int64_t row = i % n, at = i / n;
      scale.mutable_data<float>()[i] = scales->data<float>()[row * blocks + at];
      set(zero, i,
          zeros == nullptr ? static_cast<uint8_t>(1 << (width - 1))
                           : Packed(*zeros, row * (zero_bytes * 8 / width) + at, width));
    }
    Attrs attrs = Attrs::Of("axis", int64_t{0});
    attrs.Set("block_size", block);
    b = u.Apply("DequantizeLinear", "real",
                {u.AddConstant("weights", std::move(q)), u.AddConstant("scale", std::move(scale)),
                 u.AddConstant("zero", std::move(zero))},
                std::move(attrs));
  }
  // Level 4 allows int8 data: with a scale for each block, as other runtimes round it.
  constexpr int64_t kInt8Level = 4;
  Attrs rounded;
  if (u.attrs().Int("accuracy_level", 0) == kInt8Level && !real_zeros &&
      u.InputType(0).dtype == DType::kFloat32)
    rounded.Set(kDataBlock, block);
  const ValueId y = u.Apply("MatMul", "product", {u.node().input(0), b}, std::move(rounded));
  u.ReplaceBy(u.HasInput(5) ? u.Apply("Add", "bias", {y, u.node().input(5)}) : y);
  return {};
}

// Numbers of `bits` that lie packed in each row of bytes, from the low bits on, as a tensor of rows
// of `columns`.
Tensor Unpacked(const Tensor& bytes, int bits, int64_t columns) {
  std::vector<int64_t> sizes = bytes.sizes();
  const int64_t row_bytes = sizes.back();
  sizes.back() = columns;
  Tensor q = Tensor::Allocate(TensorType(UnsignedOf(bits), Shape(sizes)));
  for (int64_t i = 0; i < q.elements(); ++i)
    SetPackedBits(q.mutable_raw(), i, bits,
                  Packed(bytes, i / columns * row_bytes * 8 / bits + i % columns, bits));
  return q;
}

// GatherBlockQuantized(data, indices, scales, zero points?): rows of weights that are quantized in
// blocks. Numbers of fewer than 8 bits in bytes lie packed along the last axis, which is then the
// quantized one, and have the zero point 2^(bits - 1) where none is given.
Status GatherBlocks(Upgrade& u) {
  EVOQ_TRY(u.NeedInputs({0, 1, 2}));
  // Copies: constants that are added move those of the graph.
  std::optional<Tensor> held[4];
  for (size_t i : {0, 2, 3}) {
    if (const Tensor* constant = u.Constant(i)) held[i] = *constant;
  }
  if (!held[0] || !held[2] || (u.HasInput(3) && !held[3]))
    return Unsupported("weights that are not constant");
  const Tensor *data = &*held[0], *scales = &*held[2], *zeros = held[3] ? &*held[3] : nullptr;
  const int64_t bits = u.attrs().Int("bits", 4), block = u.attrs().Int("block_size", 128);
  const bool bytes = data->dtype() == DType::kUint8;
  if (bytes && bits != 2 && bits != 4 && bits != 8)
    return Unsupported("bits={}, expected 2, 4 or 8", bits);
  if (!IsInteger(data->dtype()) || DTypeBits(data->dtype()) > 8 || data->shape().rank() < 1 ||
      block < 1)
    return InvalidInput("input 0 is {}, block_size={}", data->type().ToString(), block);
  const int rank = data->shape().rank();
  EVOQ_ASSIGN(const int axis, NormalizeAxis(u.attrs().Int("quantize_axis", 1), rank));
  ValueId weights = u.node().input(0), zero = u.node().input(3);
  if (bytes && axis != rank - 1) return Unsupported("quantize_axis {} of packed bytes", axis);
  if (bytes) {
    const int width = static_cast<int>(bits);
    const auto columns = CheckedMul(data->sizes().back(), 8 / bits);
    if (!columns || scales->shape().rank() != rank ||
        scales->sizes().back() != CeilDiv(*columns, block) ||
        (zeros != nullptr && (zeros->dtype() != DType::kUint8 || zeros->shape().rank() != rank ||
                              zeros->sizes().back() != CeilDiv(scales->sizes().back() * bits, 8) ||
                              zeros->elements() * scales->sizes().back() !=
                                  scales->elements() * zeros->sizes().back())))
      return InvalidInput("scales are {} for {} of {} bits in blocks of {}",
                          scales->type().ToString(), data->type().ToString(), bits, block);
    if (zeros != nullptr) {
      zero = u.AddConstant("zero", Unpacked(*zeros, width, scales->sizes().back()));
    } else {
      Tensor middle = Tensor::Allocate(TensorType(UnsignedOf(bits), scales->shape()));
      for (int64_t i = 0; i < middle.elements(); ++i)
        SetPackedBits(middle.mutable_raw(), i, width, 1 << (width - 1));
      zero = u.AddConstant("zero", std::move(middle));
    }
    if (width < 8) weights = u.AddConstant("weights", Unpacked(*data, width, *columns));
  }
  Attrs attrs = Attrs::Of("axis", int64_t{axis});
  attrs.Set("block_size", block);
  std::vector<ValueId> inputs = {weights, u.node().input(2)};
  if (zero.valid()) inputs.push_back(zero);
  const ValueId real = u.Apply("DequantizeLinear", "real", std::move(inputs), std::move(attrs));
  u.ReplaceBy(u.Apply("Gather", "", {real, u.node().input(1)},
                      Attrs::Of("axis", u.attrs().Int("gather_axis", 0))));
  return {};
}

constexpr UpgradeRule kRules[] = {
    {"MatMulNBits", "com.microsoft", kAnyVersion, MatMulNBits},
    {"GatherBlockQuantized", "com.microsoft", kAnyVersion, GatherBlocks},
};

}  // namespace

std::span<const UpgradeRule> PackedRules() { return kRules; }

}  // namespace evoq
