// The layouts of weights of 4 and 2 bits that the products of blocks/product.h read: lines of 64
// bytes hold four k of 16 columns in the lowest bits of each byte, the next four in the next ones.
#include "kernels/gemm/blocks/layout_low_bits.h"

#include "base/math.h"
#include "kernels/gemm/blocks/product.h"

namespace evoq {
namespace {

constexpr int64_t kLineBytes = 64;

// A layout of elements of kBits.
template <int kBits>
struct Lines {
  static constexpr const char* kName = kBits == 4 ? kK8N16W4 : kK16N16W2;
  static constexpr int64_t kDepth = 4 * (8 / kBits);  // of a line

  static Result<int64_t> Bytes(const TensorType& type) {
    if (DTypeBits(type.dtype) != kBits || type.shape.rank() != 2 || !type.bytes())
      return InvalidInput("layout {} of {}: expected a static matrix of {} bits", kName,
                          type.ToString(), kBits);
    const std::vector<int64_t> s = type.shape.sizes();
    const int64_t sizes[] = {CeilDiv(s[1], int64_t{kBlockColumns}), CeilDiv(s[0], kDepth),
                             kLineBytes};
    const auto bytes = CheckedProduct(sizes);
    if (!bytes) return Fail(ErrorCode::kTooLarge, "layout {} of {}", kName, type.ToString());
    return *bytes;
  }

  // Calls f(element of the plain tensor, byte of the packed one, its shift).
  template <typename F>
  static void ForEach(const TensorType& type, const F& f) {
    const int64_t depth = type.shape[0].value, columns = type.shape[1].value;
    const int64_t lines = CeilDiv(depth, kDepth);
    for (int64_t k = 0; k < depth; ++k) {
      const int64_t line = k / kDepth, byte = k % 4;
      const int shift = static_cast<int>(k % kDepth / 4) * kBits;
      for (int64_t n = 0; n < columns; ++n) {
        f(k * columns + n,
          (n / kBlockColumns * lines + line) * kLineBytes + n % kBlockColumns * 4 + byte, shift);
      }
    }
  }

  // Signed integers are stored as numbers >= 0.
  static uint8_t Flip(DType dtype) {
    return IsInteger(dtype) && IsSigned(dtype) ? 1 << (kBits - 1) : 0;
  }

  static Result<Tensor> Pack(const Tensor& plain) {
    EVOQ_ASSIGN(const int64_t bytes, Bytes(plain.type()));
    if (!plain.layout().empty())
      return InvalidInput("cannot pack a tensor of layout '{}'", plain.layout());
    std::vector<std::byte> packed(static_cast<size_t>(bytes));
    const uint8_t flip = Flip(plain.dtype());
    ForEach(plain.type(), [&](int64_t i, int64_t p, int shift) {
      packed[p] |= static_cast<std::byte>((PackedBits(plain.raw(), i, kBits) ^ flip) << shift);
    });
    return Tensor::Packed(plain.type(), kName, std::move(packed));
  }

  static Result<Tensor> Unpack(const Tensor& packed) {
    EVOQ_ASSIGN(const int64_t bytes, Bytes(packed.type()));
    if (packed.layout() != kName || static_cast<int64_t>(packed.bytes()) != bytes)
      return InvalidInput("{} with layout '{}' and {} bytes is not {}: expected {} bytes",
                          packed.type().ToString(), packed.layout(), packed.bytes(), kName, bytes);
    Tensor plain = Tensor::Allocate(packed.type());
    const uint8_t flip = Flip(packed.dtype());
    ForEach(packed.type(), [&](int64_t i, int64_t p, int shift) {
      SetPackedBits(plain.mutable_raw(), i, kBits,
                    (static_cast<int>(packed.raw()[p]) >> shift) ^ flip);
    });
    return plain;
  }
};

}  // namespace

extern const LayoutDef kLayoutK8N16W4 = {
    .name = kK8N16W4,
    .formula =
        "w[K, N]: byte [n / 16][k / 8][n % 16][k % 4] = w[k, n], in the low 4 bits for k % 8 < 4, "
        "else in the high ones; K and N filled up with zero bits; int4 stored plus 8",
    .bytes = Lines<4>::Bytes,
    .pack = Lines<4>::Pack,
    .unpack = Lines<4>::Unpack,
};

extern const LayoutDef kLayoutK16N16W2 = {
    .name = kK16N16W2,
    .formula =
        "w[K, N]: byte [n / 16][k / 16][n % 16][k % 4] = w[k, n], in its two bits from 2 (k % 16 / "
        "4) on; K and N filled up with zero bits; int2 stored plus 2",
    .bytes = Lines<2>::Bytes,
    .pack = Lines<2>::Pack,
    .unpack = Lines<2>::Unpack,
};

}  // namespace evoq
