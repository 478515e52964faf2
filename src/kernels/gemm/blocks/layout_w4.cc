// The layout of 4-bit weights that the products of blocks/product.h read (BlockLines::kNibbles).
#include "kernels/gemm/blocks/layout_w4.h"

#include "base/math.h"
#include "kernels/gemm/blocks/product.h"

namespace evoq {
namespace {

constexpr int64_t kLineDepth = 8, kLineBytes = 64;

Result<int64_t> Bytes(const TensorType& type) {
  if ((type.dtype != DType::kInt4 && type.dtype != DType::kUint4) || type.shape.rank() != 2 ||
      !type.bytes())
    return InvalidInput("layout {} of {}: expected a static matrix of int4 or uint4", kK8N16W4,
                        type.ToString());
  const std::vector<int64_t> s = type.shape.sizes();
  const int64_t sizes[] = {CeilDiv(s[1], int64_t{kBlockColumns}), CeilDiv(s[0], kLineDepth),
                           kLineBytes};
  const auto bytes = CheckedProduct(sizes);
  if (!bytes) return Fail(ErrorCode::kTooLarge, "layout {} of {}", kK8N16W4, type.ToString());
  return *bytes;
}

// Calls f(element of the plain tensor, byte of the packed one, its shift).
template <typename F>
void ForEach(const TensorType& type, const F& f) {
  const int64_t depth = type.shape[0].value, columns = type.shape[1].value;
  const int64_t lines = CeilDiv(depth, kLineDepth);
  for (int64_t k = 0; k < depth; ++k) {
    const int64_t line = k / kLineDepth, byte = k % 4;
    const int shift = k % kLineDepth < 4 ? 0 : 4;
    for (int64_t n = 0; n < columns; ++n) {
      f(k * columns + n,
        (n / kBlockColumns * lines + line) * kLineBytes + n % kBlockColumns * 4 + byte, shift);
    }
  }
}

uint8_t Flip(DType dtype) { return dtype == DType::kInt4 ? 8 : 0; }

Result<Tensor> Pack(const Tensor& plain) {
  EVOQ_ASSIGN(const int64_t bytes, Bytes(plain.type()));
  if (!plain.layout().empty())
    return InvalidInput("cannot pack a tensor of layout '{}'", plain.layout());
  std::vector<std::byte> packed(static_cast<size_t>(bytes));
  const uint8_t flip = Flip(plain.dtype());
  ForEach(plain.type(), [&](int64_t i, int64_t p, int shift) {
    packed[p] |= static_cast<std::byte>((PackedBits(plain.raw(), i, 4) ^ flip) << shift);
  });
  return Tensor::Packed(plain.type(), kK8N16W4, std::move(packed));
}

Result<Tensor> Unpack(const Tensor& packed) {
  EVOQ_ASSIGN(const int64_t bytes, Bytes(packed.type()));
  if (packed.layout() != kK8N16W4 || static_cast<int64_t>(packed.bytes()) != bytes)
    return InvalidInput("{} with layout '{}' and {} bytes is not {}: expected {} bytes",
                        packed.type().ToString(), packed.layout(), packed.bytes(), kK8N16W4, bytes);
  Tensor plain = Tensor::Allocate(packed.type());
  const uint8_t flip = Flip(packed.dtype());
  ForEach(packed.type(), [&](int64_t i, int64_t p, int shift) {
    SetPackedBits(plain.mutable_raw(), i, 4,
                  (static_cast<int>(packed.raw()[p]) >> shift & 15) ^ flip);
  });
  return plain;
}

}  // namespace

extern const LayoutDef kLayoutK8N16W4 = {
    .name = kK8N16W4,
    .formula =
        "w[K, N]: byte [n / 16][k / 8][n % 16][k % 4] = w[k, n], in the low 4 bits for k % 8 < 4, "
        "else in the high ones; K and N filled up with zero bits; int4 stored plus 8",
    .bytes = Bytes,
    .pack = Pack,
    .unpack = Unpack,
};

}  // namespace evoq
