// Layout "taps-c": weights [C, 1, k...] as p[tap][c] with c padded to a multiple of 16 by zeros.
#include <cstring>

#include "base/math.h"
#include "kernels/dwconv/dwconv.h"
#include "kernels/layout.h"

namespace evoq {
namespace {

struct Sizes {
  int64_t channels, padded, taps, element;
};

Result<Sizes> SizesOf(const TensorType& type) {
  if (type.dtype != DType::kInt8 && type.dtype != DType::kUint8 && type.dtype != DType::kFloat32 &&
      type.dtype != DType::kBfloat16) {
    return InvalidInput("layout taps-c: {} weights, expected int8, uint8, float32 or bfloat16",
                        DTypeName(type.dtype));
  }
  if (!type.bytes() || type.shape.rank() < 3 || type.shape[1].value != 1) {
    return InvalidInput("layout taps-c: weights {}, expected a static [C, 1, k...]",
                        type.shape.ToString());
  }
  const auto sizes = type.shape.sizes();
  const auto taps = CheckedProduct(std::span(sizes).subspan(2));
  const auto padded = CheckedAdd(sizes[0], kDwBlock - 1);
  if (!taps || !padded)
    return InvalidInput("layout taps-c: weights {} are too large", type.shape.ToString());
  return Sizes{sizes[0], *padded / kDwBlock * kDwBlock, *taps, DTypeBits(type.dtype) / 8};
}

Result<int64_t> Bytes(const TensorType& type) {
  EVOQ_ASSIGN(const Sizes s, SizesOf(type));
  const int64_t factors[] = {s.padded, s.taps, s.element};
  const auto bytes = CheckedProduct(factors);
  if (!bytes) return InvalidInput("layout taps-c: weights {} are too large", type.shape.ToString());
  return *bytes;
}

Result<Tensor> Pack(const Tensor& plain) {
  EVOQ_ASSIGN(const int64_t bytes, Bytes(plain.type()));
  EVOQ_ASSIGN(const Sizes s, SizesOf(plain.type()));
  std::vector<std::byte> packed(static_cast<size_t>(bytes));
  for (int64_t c = 0; c < s.channels; ++c) {
    for (int64_t t = 0; t < s.taps; ++t) {
      std::memcpy(&packed[(t * s.padded + c) * s.element],
                  plain.raw() + (c * s.taps + t) * s.element, s.element);
    }
  }
  return Tensor::Packed(plain.type(), "taps-c", std::move(packed));
}

Result<Tensor> Unpack(const Tensor& packed) {
  EVOQ_ASSIGN(const int64_t bytes, Bytes(packed.type()));
  EVOQ_ASSIGN(const Sizes s, SizesOf(packed.type()));
  if (static_cast<int64_t>(packed.bytes()) != bytes) {
    return InvalidInput("layout taps-c: {} bytes for {}, expected {}", packed.bytes(),
                        packed.type().ToString(), bytes);
  }
  Tensor plain = Tensor::Allocate(packed.type());
  for (int64_t c = 0; c < s.channels; ++c) {
    for (int64_t t = 0; t < s.taps; ++t) {
      std::memcpy(plain.mutable_raw() + (c * s.taps + t) * s.element,
                  packed.raw() + (t * s.padded + c) * s.element, s.element);
    }
  }
  return plain;
}

}  // namespace

extern const LayoutDef kTapsLayout = {
    .name = "taps-c",
    .formula = "p[tap][c], tap = row-major index of the kernel position, c padded to 16",
    .bytes = Bytes,
    .pack = Pack,
    .unpack = Unpack,
};

}  // namespace evoq
