#include "llm/block_format.h"

#include <algorithm>
#include <cmath>

#include "base/budget_scope.h"
#include "base/math.h"
#include "base/rows.h"

namespace evoq {

#define EVOQ_ROW_TYPE BlockFormat
#define EVOQ_ROW_FILE "llm/block_formats.inc"
#include "base/rows.inl.h"

std::span<const BlockFormat* const> AllBlockFormats() { return kAllRows; }

const BlockFormat* FindBlockFormat(uint32_t id) {
  for (const BlockFormat* format : AllBlockFormats()) {
    if (format->id == id) return format;
  }
  return nullptr;
}

namespace {

constexpr int kRoundedGroup = 32;
constexpr int64_t kTileRows = 64;  // rows that are decoded together: their nibbles share bytes

// What blocks become, and how: `group` numbers of `dtype` to a scale. False: the block is no
// integers.
struct Form {
  bool (*decode)(const BlockFormat& format, const std::byte* block, IntegerBlock& out);
  DType dtype;
  int group;
};

bool Exact(const BlockFormat& format, const std::byte* block, IntegerBlock& out) {
  return format.integers(block, out);
}

bool Rounded(const BlockFormat& format, const std::byte* block, IntegerBlock& out) {
  float values[kMaxBlock];
  format.real(block, values);
  out.error = out.power = 0;
  for (int at = 0; at < format.elements; at += kRoundedGroup) {
    float largest = 0;
    for (int i = at; i < at + kRoundedGroup; ++i) {
      if (!std::isfinite(values[i])) largest = INFINITY;
      largest = std::max(largest, std::fabs(values[i]));
    }
    const int g = at / kRoundedGroup;
    // Values that small become zeros, whose scale is 1.
    out.scales[g] = largest < 0x1p-60f ? 1 : largest / 127;
    out.zeros[g] = 0;
    for (int i = at; i < at + kRoundedGroup; ++i) {
      const float q = std::isfinite(largest) ? std::nearbyint(values[i] / out.scales[g]) : 0;
      out.q[i] = static_cast<int16_t>(std::clamp(q, -127.0f, 127.0f));
      const double value = values[i], moved = value - out.q[i] * static_cast<double>(out.scales[g]);
      out.error += moved * moved;
      out.power += value * value;
    }
  }
  return true;
}

// Where element (row, column) and its scale go.
struct Target {
  bool transposed;
  int64_t rows, columns, groups;  // groups: of a row
  int64_t Element(int64_t r, int64_t c) const {
    return transposed ? c * rows + r : r * columns + c;
  }
  int64_t Scale(int64_t r, int64_t g) const { return transposed ? g * rows + r : r * groups + g; }
};

// An undefined tensor where a block does not have the form.
Result<Tensor> Decoded(const StoredTensor& stored, bool transposed, const Form& form,
                       BlockLoss& rounding) {
  double error = 0, power = 0;
  const BlockFormat& format = *stored.blocks;
  const int group = form.group, bits = DTypeBits(form.dtype);
  const int64_t rows = stored.sizes[0], columns = stored.sizes[1];
  const float factor = stored.factors.empty() ? 1 : stored.factors[0];
  const Target to{transposed, rows, columns, columns / group};
  const int64_t scales = rows * to.groups;
  EVOQ_TRY(SpendMemory(rows * columns * bits / 8 + scales * 8, "weights in blocks"));
  QuantParams quant;
  quant.scales.resize(static_cast<size_t>(scales));
  quant.zero_points.resize(static_cast<size_t>(scales));
  quant.axis = transposed ? 0 : 1;
  quant.block = group;
  const Shape shape = transposed ? Shape{columns, rows} : Shape{rows, columns};
  Tensor q = Tensor::Allocate(TensorType(form.dtype, shape));
  std::byte* out = q.mutable_raw();
  const int64_t blocks = columns / format.elements;
  std::vector<IntegerBlock> tile(static_cast<size_t>(std::min(kTileRows, rows)));
  for (int64_t first = 0; first < rows; first += kTileRows) {
    const int64_t last = std::min(first + kTileRows, rows);
    for (int64_t b = 0; b < blocks; ++b) {
      for (int64_t r = first; r < last; ++r) {
        IntegerBlock& block = tile[static_cast<size_t>(r - first)];
        if (!form.decode(format, stored.bytes.data() + (r * blocks + b) * format.bytes, block))
          return Tensor();
        error += block.error;
        power += block.power;
        for (int g = 0; g < format.elements / group; ++g) {
          if (!std::isfinite(block.scales[g] * factor))
            return InvalidInput("row {}, block {}: the scale is {}", r, b,
                                block.scales[g] * factor);
          const auto at = static_cast<size_t>(to.Scale(r, b * (format.elements / group) + g));
          quant.scales[at] = block.scales[g] * factor;
          quant.zero_points[at] = block.zeros[g];
        }
      }
      for (int i = 0; i < format.elements; ++i) {
        for (int64_t r = first; r < last; ++r) {
          const int n = tile[static_cast<size_t>(r - first)].q[i];
          const int64_t at = to.Element(r, b * format.elements + i);
          if (bits == 8) {
            out[at] = static_cast<std::byte>(n);
          } else {
            SetPackedBits(out, at, bits, n);
          }
        }
      }
    }
  }
  rounding.share = power > 0 ? std::sqrt(error / power) : 0;
  return q.WithType(TensorType(form.dtype, shape, std::move(quant)));
}

}  // namespace

Result<Tensor> FromBlocks(const StoredTensor& stored, bool transposed, BlockLoss& rounding) {
  const BlockFormat& format = *stored.blocks;
  if (stored.sizes.size() != 2)
    return Unsupported("{}: blocks of a tensor that is no matrix", stored.ToString());
  if (format.integers != nullptr) {
    EVOQ_ASSIGN(Tensor q,
                Decoded(stored, transposed, {Exact, format.dtype, format.group}, rounding));
    if (q.defined()) return q;
  }
  rounding.rounded = true;
  return Decoded(stored, transposed, {Rounded, DType::kInt8, kRoundedGroup}, rounding);
}

}  // namespace evoq
