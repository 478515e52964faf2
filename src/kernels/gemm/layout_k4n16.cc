#include "kernels/gemm/layout_k4n16.h"

#include <algorithm>
#include <memory>

#include "base/aligned.h"
#include "base/math.h"
#include "base/thread_pool.h"
#include "base/work_threads.h"
#include "kernels/interleave.h"

namespace evoq {
namespace {

Result<K4N16> Dimensions(const TensorType& type, int64_t columns, int64_t channels, int64_t taps) {
  K4N16 d;
  d.columns = columns;
  d.channels = channels;
  d.taps = taps;
  d.panels = columns / 16 + (columns % 16 != 0);
  d.groups_of_4 = channels / 4 + (channels % 4 != 0);
  const int64_t factors[] = {64, taps, d.groups_of_4};
  const auto panel_bytes = CheckedProduct(factors);
  if (!panel_bytes || !CheckedMul(*panel_bytes, d.panels))
    return InvalidInput("{} is too large to pack", type.ToString());
  d.panel_bytes = *panel_bytes;
  return d;
}

Status CheckType(const TensorType& type) {
  if (type.dtype != DType::kInt8 && type.dtype != DType::kUint8)
    return InvalidInput("layout k4n16 holds int8 or uint8, got {}", type.ToString());
  if (!type.shape.is_static())
    return InvalidInput("layout k4n16 needs a static shape, got {}", type.ToString());
  if (!type.shape.elements()) return InvalidInput("{} is too large to pack", type.ToString());
  return {};
}

// Bytes of uint8 weights are stored as int8, less 128.
uint8_t Flip(DType dtype) { return dtype == DType::kUint8 ? 0x80 : 0; }

// Calls visit(packed offset, plain offset) for every element.
template <typename Visit>
void ForEach(const K4N16& d, bool conv, const Visit& visit) {
  for (int64_t n = 0; n < d.columns; ++n) {
    const int64_t panel = n / 16 * d.panel_bytes + n % 16 * 4;
    for (int64_t tap = 0; tap < d.taps; ++tap) {
      const int64_t base = panel + tap * d.groups_of_4 * 64;
      for (int64_t c = 0; c < d.channels; ++c) {
        const int64_t plain = conv ? (n * d.channels + c) * d.taps + tap : c * d.columns + n;
        visit(base + c / 4 * 64 + c % 4, plain);
      }
    }
  }
}

constexpr int64_t kBytesForThreads = int64_t{1} << 20;  // packed alone below

// [K, N] into zeros.
void PackMatrix(const K4N16& d, const uint8_t* from, uint8_t flip, uint8_t* to) {
  ThreadPool pool(d.panels * d.panel_bytes < kBytesForThreads ? 1 : WorkThreads::Get());
  pool.ParallelFor(d.panels, 4, [&](int64_t begin, int64_t end) {
    // Group by group, so that what is read of a row lies together.
    for (int64_t c = 0; c < d.channels; c += 4) {
      const uint8_t* const row = from + c * d.columns;
      for (int64_t panel = begin; panel < end; ++panel) {
        const int64_t n = 16 * panel;
        uint8_t* const four = to + panel * d.panel_bytes + c / 4 * 64;
        if (c + 4 <= d.channels && n + 16 <= d.columns) {
          Bytes16 rows[4];
          for (int i = 0; i < 4; ++i)
            rows[i] = LoadVec<uint8_t, 16>(row + i * d.columns + n) ^ flip;
          StoreByColumn(rows, four);
          continue;
        }
        for (int64_t i = 0; i < std::min<int64_t>(4, d.channels - c); ++i) {
          for (int64_t j = 0; j < std::min<int64_t>(16, d.columns - n); ++j)
            four[4 * j + i] = row[i * d.columns + n + j] ^ flip;
        }
      }
    }
  });
}

template <bool kConv>
Result<K4N16> DimensionsOf(const TensorType& type) {
  return kConv ? K4N16OfConv(type) : K4N16OfMatMul(type);
}

template <bool kConv>
Result<int64_t> Bytes(const TensorType& type) {
  EVOQ_ASSIGN(const K4N16 d, DimensionsOf<kConv>(type));
  return d.panels * d.panel_bytes;
}

template <bool kConv>
Result<Tensor> Pack(const Tensor& plain) {
  if (!plain.layout().empty())
    return InvalidInput("cannot pack a tensor of layout '{}'", plain.layout());
  EVOQ_ASSIGN(const K4N16 d, DimensionsOf<kConv>(plain.type()));
  const auto bytes = static_cast<size_t>(d.panels * d.panel_bytes);
  auto packed = std::make_shared<AlignedBuffer>(AlignedBuffer::Zeros(bytes));
  const auto* from = reinterpret_cast<const uint8_t*>(plain.raw());
  auto* to = reinterpret_cast<uint8_t*>(packed->data());
  const uint8_t flip = Flip(plain.dtype());
  if constexpr (kConv) {
    ForEach(d, kConv, [&](int64_t p, int64_t i) { to[p] = from[i] ^ flip; });
  } else {
    PackMatrix(d, from, flip, to);
  }
  const std::span<const std::byte> all(packed->data(), bytes);
  return Tensor::PackedView(plain.type(), kConv ? kK4N16Conv : kK4N16MatMul, all,
                            std::move(packed));
}

template <bool kConv>
Result<Tensor> Unpack(const Tensor& packed) {
  EVOQ_ASSIGN(const K4N16 d, DimensionsOf<kConv>(packed.type()));
  if (packed.layout() != (kConv ? kK4N16Conv : kK4N16MatMul) ||
      packed.bytes() != static_cast<size_t>(d.panels * d.panel_bytes))
    return InvalidInput("{} with layout '{}' and {} bytes is not k4n16: expected {} bytes",
                        packed.type().ToString(), packed.layout(), packed.bytes(),
                        d.panels * d.panel_bytes);
  Tensor plain = Tensor::Allocate(packed.type());
  const auto* from = reinterpret_cast<const uint8_t*>(packed.raw());
  auto* to = reinterpret_cast<uint8_t*>(plain.mutable_raw());
  const uint8_t flip = Flip(packed.dtype());
  ForEach(d, kConv, [&](int64_t p, int64_t i) { to[i] = from[p] ^ flip; });
  return plain;
}

}  // namespace

Result<K4N16> K4N16OfConv(const TensorType& type) {
  EVOQ_TRY(CheckType(type));
  const std::vector<int64_t> sizes = type.shape.sizes();
  if (sizes.size() < 3)
    return InvalidInput("layout k4n16-conv needs [M, C, k...], got {}", type.ToString());
  int64_t taps = 1;
  for (size_t i = 2; i < sizes.size(); ++i) {
    const auto product = CheckedMul(taps, sizes[i]);
    if (!product) return InvalidInput("{} is too large to pack", type.ToString());
    taps = *product;
  }
  return Dimensions(type, sizes[0], sizes[1], taps);
}

Result<K4N16> K4N16OfMatMul(const TensorType& type) {
  EVOQ_TRY(CheckType(type));
  if (type.shape.rank() != 2)
    return InvalidInput("layout k4n16-matmul needs [K, N], got {}", type.ToString());
  return Dimensions(type, type.shape[1].value, type.shape[0].value, 1);
}

const LayoutDef kLayoutK4N16Conv = {
    .name = "k4n16-conv",
    .formula =
        "w[M, C, taps]: byte [m / 16][tap][c / 4][m % 16][c % 4] = w[m, c, tap]; C padded to 4, M "
        "to 16 with zeros; uint8 stored less 128",
    .bytes = Bytes<true>,
    .pack = Pack<true>,
    .unpack = Unpack<true>,
};
const LayoutDef kLayoutK4N16MatMul = {
    .name = "k4n16-matmul",
    .formula =
        "w[K, N]: byte [n / 16][k / 4][n % 16][k % 4] = w[k, n]; K padded to 4, N to 16 with "
        "zeros; uint8 stored less 128",
    .bytes = Bytes<false>,
    .pack = Pack<false>,
    .unpack = Unpack<false>,
};

}  // namespace evoq
