#include "kernels/gemm/blocks/stream.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/aligned.h"
#include "base/math.h"
#include "base/thread_pool.h"
#include "base/work_threads.h"
#include "kernels/gemm/blocks/scale_steps.h"
#include "kernels/interleave.h"

namespace evoq {
namespace {

constexpr int64_t kLineBytes = 64;
constexpr int64_t kBytesForThreads = int64_t{1} << 20;  // packed alone below
constexpr int64_t kScalesForThreads = kBytesForThreads / 16;

constexpr StoredLines kStored[] = {
    {DType::kInt4, BlockLines::kNibbles, kStreamW4, kStreamW4Steps, 2, 8, 1, 8},
    {DType::kUint4, BlockLines::kNibbles, kStreamW4, nullptr, 2, 0, 1, 0},
    {DType::kInt2, BlockLines::kPairs, kStreamW2, nullptr, 4, 2, 1, 2},
    {DType::kUint2, BlockLines::kPairs, kStreamW2, nullptr, 4, 0, 1, 0},
    {DType::kFloat4E2M1, BlockLines::kE2m1, kStreamW4, nullptr, 2, kE2m1Offset, 0.5f, 0},
    {DType::kInt8, BlockLines::kFlippedBytes, kStreamW8, nullptr, 1, 128, 1, 0},
    {DType::kUint8, BlockLines::kFlippedBytes, kStreamW8, nullptr, 1, 0, 1, 128},
};

bool IsHalf(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t exponent = bits >> 23 & 0xff;  // of normal halfs 113 to 142
  if (exponent - 113 < 30) return (bits & 0x1fff) == 0;
  return HalfToFloat(FloatToHalf(x)) == x;
}

// The scales and zero points of a type that lists them.
struct Listed {
  const QuantParams& quant;
  int64_t columns;

  size_t At(int64_t b, int64_t n) const {
    return static_cast<size_t>(quant.per_tensor() ? 0 : quant.block != 0 ? b * columns + n : n);
  }
};

// The scales that a head holds, from block `b` on.
std::optional<ScaleSteps> HeadSteps(const StreamShape& shape, const Listed& listed, int64_t b,
                                    int64_t n) {
  float scales[kStepBlocks];
  const int64_t count = std::min(kStepBlocks, shape.scales - b);
  for (int64_t i = 0; i < count; ++i) scales[i] = listed.quant.scales[listed.At(b + i, n)];
  return StepsOf({scales, static_cast<size_t>(count)});
}

bool BlocksMayHaveSteps(const QuantParams& quant, int64_t depth) {
  return quant.block == kStepBlock && depth > kStepBlock;
}

// Whether all scales are such multiples.
bool HaveSteps(const StreamShape& shape, const Listed& listed) {
  std::atomic<bool> all = true;
  ThreadPool pool(shape.scales * shape.columns < kScalesForThreads ? 1 : WorkThreads::Get());
  pool.ParallelFor(CeilDiv(shape.scales, kStepBlocks), 1, [&](int64_t head, int64_t end) {
    for (; head < end && all; ++head) {
      for (int64_t n = 0; n < shape.columns; ++n) {
        if (HeadSteps(shape, listed, head * kStepBlocks, n)) continue;
        all = false;
        return;
      }
    }
  });
  return all;
}

Status ReadLists(const QuantParams& quant, std::string_view layout, StreamShape& shape) {
  const int64_t wanted = quant.per_tensor() ? 1
                         : quant.block != 0 ? shape.scales * shape.columns
                                            : shape.columns;
  if (static_cast<int64_t>(quant.scales.size()) != wanted ||
      quant.zero_points.size() != quant.scales.size())
    return InvalidInput("{} scales for {} blocks of {} columns", quant.scales.size(), shape.scales,
                        shape.columns);
  shape.half_scales = std::ranges::all_of(
      quant.scales, [&](float scale) { return IsHalf(scale * shape.stored->unit); });
  const auto& zeros = quant.zero_points;
  shape.has_zeros = std::ranges::any_of(zeros, [&](int32_t zero) { return zero != zeros.front(); });
  shape.zero = shape.has_zeros || zeros.empty() ? 0 : zeros.front();
  // To look at all scales takes time: only where they may lie so.
  if (shape.stored->steps_layout == nullptr || layout == shape.stored->layout || shape.has_zeros ||
      shape.zero != 0)
    return {};
  shape.steps = BlocksMayHaveSteps(quant, shape.depth) && HaveSteps(shape, {quant, shape.columns});
  return {};
}

Status ReadSizes(const TensorType& type, StreamShape& shape) {
  const char* layout = shape.stored->layout;
  if (type.shape.rank() != 2 || !type.bytes() || type.shape[0].value < 1 || !type.quantized())
    return InvalidInput("layout {} of {}: expected a static quantized matrix", layout,
                        type.ToString());
  const QuantParams& quant = *type.quant;
  shape.depth = type.shape[0].value;
  shape.columns = type.shape[1].value;
  if (quant.block != 0 ? quant.axis != 0 : !quant.per_tensor() && quant.axis != 1)
    return InvalidInput("layout {} of {}: expected scales of columns, or of blocks along axis 0",
                        layout, type.ToString());
  const bool whole = quant.block == 0 || quant.block >= shape.depth;
  shape.block = whole ? shape.depth : quant.block;
  if (!whole && quant.block % shape.stored->block() != 0)
    return InvalidInput("layout {} of {}: expected blocks of a multiple of {}", layout,
                        type.ToString(), shape.stored->block());
  shape.scales = CeilDiv(shape.depth, shape.block);
  return {};
}

// Calls f(block, first k, end of it, head, lines) for each block of a unit.
template <typename Byte, typename F>
void ForEachBlock(const StreamShape& shape, Byte* unit, const F& f) {
  const int64_t line_depth = shape.stored->depth();
  Byte* head = unit;
  for (int64_t b = 0; b < shape.scales; ++b) {
    const int64_t k = b * shape.block, end = std::min(shape.depth, k + shape.block);
    if (b % shape.in_head() == 0) {
      head = unit;
      unit += shape.head_bytes();
    }
    f(b, k, end, head, unit);
    unit += CeilDiv(end - k, line_depth) * kUnitPanels * kLineBytes;
  }
}

// Of a head with steps, the multiples of column i.
uint16_t MultiplesAt(const uint8_t* head, int64_t i) {
  uint16_t word;
  std::memcpy(&word, head + 64 + 2 * i, 2);
  return word;
}

float ScaleAt(const StreamShape& shape, const uint8_t* head, int64_t b, int64_t i) {
  if (!shape.half_scales) {
    float scale;
    std::memcpy(&scale, head + 4 * i, 4);
    return scale;
  }
  uint16_t half;
  std::memcpy(&half, head + 2 * i, 2);
  if (!shape.steps) return HalfToFloat(half);
  const int multiple = MultiplesAt(head, i) >> (4 * (b % shape.in_head())) & 15;
  return HalfToFloat(half) * static_cast<float>(multiple);
}

int32_t ZeroAt(const StreamShape& shape, const uint8_t* head, int64_t i) {
  return shape.has_zeros ? head[shape.scale_bytes() + i] - shape.stored->offset : shape.zero;
}

void WriteHead(const StreamShape& shape, const Listed& listed, int64_t b, int64_t column,
               int64_t count, uint8_t* head) {
  std::memset(head, 0, static_cast<size_t>(shape.head_bytes()));
  for (int64_t n = 0; n < count; ++n) {
    if (shape.steps) {
      const ScaleSteps steps = *HeadSteps(shape, listed, b, column + n);
      const uint16_t step = FloatToHalf(steps.step);
      uint16_t word = 0;
      for (int i = 0; i < kStepBlocks; ++i)
        word = static_cast<uint16_t>(word | steps.multiples[i] << 4 * i);
      std::memcpy(head + 2 * n, &step, 2);
      std::memcpy(head + 64 + 2 * n, &word, 2);
      continue;
    }
    const size_t i = listed.At(b, column + n);
    const float scale = listed.quant.scales[i] * shape.stored->unit;
    const uint16_t half = FloatToHalf(scale);
    if (shape.half_scales) {
      std::memcpy(head + 2 * n, &half, 2);
    } else {
      std::memcpy(head + 4 * n, &scale, 4);
    }
    if (shape.has_zeros)
      head[shape.scale_bytes() + n] =
          static_cast<uint8_t>(listed.quant.zero_points[i] + shape.stored->offset);
  }
}

// Elements [first, first + count) of a plain tensor, a byte each, and zeros behind them.
template <int kBits>
void ReadElements(const std::byte* plain, int64_t first, int64_t count, uint8_t flip,
                  uint8_t (&q)[kUnitColumns]) {
  constexpr int kPerByte = 8 / kBits;
  const auto* bytes = reinterpret_cast<const uint8_t*>(plain) + first / kPerByte;
  if (count == kUnitColumns && first % kPerByte == 0) {
    for (int i = 0; i < kUnitColumns / kPerByte; ++i) {
      for (int g = 0; g < kPerByte; ++g)
        q[i * kPerByte + g] =
            static_cast<uint8_t>((bytes[i] >> (kBits * g) & ((1 << kBits) - 1)) ^ flip);
    }
    return;
  }
  for (int64_t n = 0; n < kUnitColumns; ++n)
    q[n] = n < count ? (kBits == 8 ? static_cast<uint8_t>(plain[first + n])
                                   : PackedBits(plain, first + n, kBits)) ^
                           flip
                     : 0;
}

// The two lines of 32 columns from 8 rows, of two elements a byte.
void PackNibbles(const std::byte* rows, int64_t step, uint8_t flip, uint8_t* lines) {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(rows);
  const auto flips = static_cast<uint8_t>(flip | flip << 4);
  Bytes16 first[4],
      second[4];  // of 16 columns each: rows i in the low bits, i + 4 in the high ones
  for (int i = 0; i < 4; ++i) {
    const Bytes16 low = LoadVec<uint8_t, 16>(bytes + i * step) ^ flips,
                  high = LoadVec<uint8_t, 16>(bytes + (i + 4) * step) ^ flips;
    const Bytes16 even = (low & 15) | (high << 4), odd = (low >> 4) | (high & 0xf0);
    first[i] = LowerPairs(even, odd);
    second[i] = UpperPairs(even, odd);
  }
  StoreByColumn(first, lines);
  StoreByColumn(second, lines + kLineBytes);
}

// One unit of a plain tensor's columns from `column` on.
template <int kBits>
void PackUnit(const StreamShape& shape, const Tensor& plain, int64_t column, uint8_t* unit) {
  constexpr int kGroups = 8 / kBits, kDepth = 4 * kGroups;
  const Listed listed{*plain.type().quant, shape.columns};
  const int64_t count = std::min<int64_t>(kUnitColumns, shape.columns - column);
  ForEachBlock(shape, unit, [&](int64_t b, int64_t k, int64_t end, uint8_t* head, uint8_t* to) {
    if (b % shape.in_head() == 0) WriteHead(shape, listed, b, column, count, head);
    for (; k < end; k += kDepth, to += kUnitPanels * kLineBytes) {
      const int64_t first = k * shape.columns + column;
      if (kBits == 4 && count == kUnitColumns && k + kDepth <= end && shape.columns % 2 == 0) {
        PackNibbles(plain.raw() + first / 2, shape.columns / 2, shape.stored->flip, to);
        continue;
      }
      uint8_t rows[kDepth][kUnitColumns];
      for (int i = 0; i < kDepth; ++i) {
        if (k + i < end) {
          ReadElements<kBits>(plain.raw(), (k + i) * shape.columns + column, count,
                              shape.stored->flip, rows[i]);
        } else {
          std::memset(rows[i], 0, kUnitColumns);
        }
      }
      for (int n = 0; n < kUnitColumns; ++n) {
        uint32_t four = 0;
        for (int i = 0; i < kDepth; ++i)
          four |= uint32_t{rows[i][n]} << (8 * (i % 4) + kBits * (i / 4));
        std::memcpy(to + 4 * n, &four, 4);
      }
    }
  });
}

template <int kBits>
void UnpackUnit(const StreamShape& shape, const uint8_t* unit, int64_t column, Tensor& plain) {
  constexpr int kDepth = 4 * (8 / kBits);
  const int64_t count = std::min<int64_t>(kUnitColumns, shape.columns - column);
  ForEachBlock(shape, unit, [&](int64_t, int64_t k, int64_t end, auto, const uint8_t* from) {
    for (; k < end; k += kDepth, from += kUnitPanels * kLineBytes) {
      for (int64_t i = 0; i < std::min<int64_t>(kDepth, end - k); ++i) {
        for (int64_t n = 0; n < count; ++n) {
          const int q = (from[4 * n + i % 4] >> (kBits * (i / 4))) ^ shape.stored->flip;
          const int64_t at = (k + i) * shape.columns + column + n;
          if constexpr (kBits == 8) {
            plain.mutable_raw()[at] = static_cast<std::byte>(q);
          } else {
            SetPackedBits(plain.mutable_raw(), at, kBits, q);
          }
        }
      }
    }
  });
}

// Calls f with the number of bits as a constant.
template <typename F>
void WithBits(int bits, const F& f) {
  if (bits == 2) f(std::integral_constant<int, 2>());
  if (bits == 4) f(std::integral_constant<int, 4>());
  if (bits == 8) f(std::integral_constant<int, 8>());
}

// The type with its scales and zero points in lists, from those inside.
TensorType ListedType(const StreamShape& shape, const Tensor& packed) {
  QuantParams quant = *packed.type().quant;
  if (!quant.inside) return packed.type();
  quant.inside.reset();
  const int64_t columns = shape.columns;
  quant.scales.assign(static_cast<size_t>(shape.scales * columns), 1);
  quant.zero_points.assign(quant.scales.size(), shape.zero);
  const auto* unit = reinterpret_cast<const uint8_t*>(packed.raw());
  for (int64_t column = 0; column < columns; column += kUnitColumns, unit += shape.unit_bytes) {
    const int64_t count = std::min<int64_t>(kUnitColumns, columns - column);
    ForEachBlock(shape, unit, [&](int64_t b, int64_t, int64_t, const uint8_t* head, auto) {
      for (int64_t n = 0; n < count; ++n) {
        const auto at = static_cast<size_t>(b * columns + column + n);
        quant.scales[at] = ScaleAt(shape, head, b, n) / shape.stored->unit;
        quant.zero_points[at] = ZeroAt(shape, head, n);
      }
    });
  }
  return TensorType(packed.dtype(), packed.shape(), std::move(quant));
}

Result<StreamShape> PackedShapeOf(const TensorType& type, const char* layout) {
  EVOQ_ASSIGN(const StreamShape shape, StreamShapeOf(type, layout));
  if (std::string_view(shape.layout()) != layout)
    return InvalidInput("layout {} of {}: expected {} bits", layout, type.ToString(),
                        layout == std::string_view(kStreamW2)   ? 2
                        : layout == std::string_view(kStreamW4) ? 4
                                                                : 8);
  if (!type.quant->per_tensor() && !type.quant->inside)
    return InvalidInput("layout {} of {}: expected scales inside of the constant", layout,
                        type.ToString());
  return shape;
}

// Scales and zero points, of a type that passed Bytes.
LayoutScales BytesOfScales(const TensorType& type, std::string_view layout) {
  const Result<StreamShape> shape = StreamShapeOf(type, layout);
  if (!shape || !type.quant->inside) return {};
  const int64_t columns = shape->columns, bytes = shape->scale_bytes() / kUnitColumns;
  return {shape->heads() * columns * bytes, shape->has_zeros ? shape->scales * columns : 0};
}

template <const char* const& kName>
Result<int64_t> Bytes(const TensorType& type) {
  if (FindStored(type.dtype) == nullptr)
    return InvalidInput("layout {} of {}: expected a quantized matrix", kName, type.ToString());
  EVOQ_ASSIGN(const StreamShape shape, PackedShapeOf(type, kName));
  return shape.bytes;
}

template <const char* const& kName>
Result<Tensor> Pack(const Tensor& plain) {
  return PackStream(plain, kName);
}

Result<Tensor> UnpackStream(const Tensor& packed) {
  EVOQ_ASSIGN(const StreamShape shape, StreamShapeOf(packed.type(), packed.layout()));
  if (packed.layout() != shape.layout() || static_cast<int64_t>(packed.bytes()) != shape.bytes)
    return InvalidInput("{} with layout '{}' and {} bytes is not {}: expected {} bytes",
                        packed.type().ToString(), packed.layout(), packed.bytes(), shape.layout(),
                        shape.bytes);
  Tensor plain = Tensor::Allocate(ListedType(shape, packed));
  const auto* unit = reinterpret_cast<const uint8_t*>(packed.raw());
  for (int64_t column = 0; column < shape.columns; column += kUnitColumns) {
    WithBits(shape.stored->bits(),
             [&](auto bits) { UnpackUnit<bits>(shape, unit, column, plain); });
    unit += shape.unit_bytes;
  }
  return plain;
}

// Scales are numbers > 0, and zero points of the type.
Status CheckStream(const Tensor& packed) {
  EVOQ_ASSIGN(const StreamShape shape, StreamShapeOf(packed.type(), packed.layout()));
  const int64_t most = (int64_t{1} << DTypeBits(packed.dtype())) - 1;
  bool bad_scale = false, bad_step = false, bad_zero = false;
  const auto* unit = reinterpret_cast<const uint8_t*>(packed.raw());
  for (int64_t column = 0; column < shape.columns; column += kUnitColumns) {
    const int64_t count = std::min<int64_t>(kUnitColumns, shape.columns - column);
    ForEachBlock(shape, unit, [&](int64_t b, int64_t, int64_t, const uint8_t* head, auto) {
      for (int64_t n = 0; n < count; ++n) {
        const float scale = ScaleAt(shape, head, b, n);
        bad_scale |= !(scale > 0) || !std::isfinite(scale);
        bad_step |= shape.steps &&
                    !IsStep(scale / static_cast<float>(
                                        MultiplesAt(head, n) >> (4 * (b % shape.in_head())) & 15));
        bad_zero |= shape.has_zeros && head[shape.scale_bytes() + n] > most;
      }
    });
    unit += shape.unit_bytes;
  }
  if (bad_scale) return InvalidInput("a scale inside that is no finite number > 0");
  if (bad_step) return InvalidInput("a step inside that is not 4, 5, 6 or 7 times a power of two");
  if (bad_zero)
    return InvalidInput("a zero point inside that {} has not", DTypeName(packed.dtype()));
  return {};
}

}  // namespace

const StoredLines* FindStored(DType dtype) {
  for (const StoredLines& stored : kStored) {
    if (stored.dtype == dtype) return &stored;
  }
  return nullptr;
}

Result<StreamShape> StreamShapeOf(const TensorType& type, std::string_view layout) {
  StreamShape shape;
  shape.stored = FindStored(type.dtype);
  if (shape.stored == nullptr)
    return InvalidInput("{}: expected quantized integers of 2, 4 or 8 bits or float4e2m1",
                        type.ToString());
  EVOQ_TRY(ReadSizes(type, shape));
  if (const auto& inside = type.quant->inside) {
    shape.half_scales = inside->half_scales;
    shape.has_zeros = inside->zeros;
    shape.zero = inside->zero;
    const char* const steps = shape.stored->steps_layout;
    if (steps != nullptr && layout == steps) {
      shape.steps = true;
      if (!BlocksMayHaveSteps(*type.quant, shape.depth) || !shape.half_scales || shape.has_zeros ||
          shape.zero != 0)
        return InvalidInput(
            "layout {} of {}: expected several blocks of 32, float16 steps and no zero points",
            steps, type.ToString());
    }
  } else {
    EVOQ_TRY(ReadLists(*type.quant, layout, shape));
    if (!layout.empty() && layout != shape.layout())
      return InvalidInput("layout {} of {}: its scales are no multiples of steps", layout,
                          type.ToString());
  }
  const int64_t lines = CeilDiv(shape.depth, shape.stored->depth());
  const auto heads = CheckedMul(shape.heads(), shape.head_bytes()),
             in_lines = CheckedMul(lines, kUnitPanels * kLineBytes),
             unit = heads && in_lines ? CheckedAdd(*heads, *in_lines) : std::nullopt,
             all = unit ? CheckedMul(CeilDiv(shape.columns, int64_t{kUnitColumns}), *unit)
                        : std::nullopt;
  if (!all)
    return Fail(ErrorCode::kTooLarge, "layout {} of {}", shape.stored->layout, type.ToString());
  shape.unit_bytes = *unit;
  shape.bytes = *all;
  return shape;
}

Result<Tensor> PackStream(const Tensor& plain, std::string_view layout) {
  if (!plain.layout().empty())
    return InvalidInput("cannot pack a tensor of layout '{}'", plain.layout());
  EVOQ_ASSIGN(const StreamShape shape, StreamShapeOf(plain.type(), layout));
  auto memory = std::make_shared<AlignedBuffer>(static_cast<size_t>(shape.bytes));
  auto* const units = reinterpret_cast<uint8_t*>(memory->data());
  ThreadPool pool(shape.bytes < kBytesForThreads ? 1 : WorkThreads::Get());
  pool.ParallelFor(
      CeilDiv(shape.columns, int64_t{kUnitColumns}), 4, [&](int64_t unit, int64_t end) {
        for (; unit < end; ++unit) {
          WithBits(shape.stored->bits(), [&](auto bits) {
            PackUnit<bits>(shape, plain, unit * kUnitColumns, units + unit * shape.unit_bytes);
          });
        }
      });
  TensorType type = plain.type();
  if (!type.quant->per_tensor()) {
    QuantParams quant;
    quant.axis = type.quant->axis;
    quant.block = type.quant->block;
    quant.inside = QuantParams::Inside{shape.half_scales, shape.has_zeros, shape.zero};
    type = TensorType(type.dtype, type.shape, std::move(quant));
  }
  const std::span<const std::byte> bytes(memory->data(), static_cast<size_t>(shape.bytes));
  return Tensor::PackedView(std::move(type), shape.layout(), bytes, std::move(memory));
}

std::array<float, 256> StreamNumbers(const StoredLines& stored) {
  const int count = 1 << stored.bits();
  Tensor all = Tensor::Allocate(TensorType(stored.dtype, Shape{count}));
  for (int i = 0; i < count; ++i) {
    if (stored.bits() == 8) {
      all.mutable_raw()[i] = static_cast<std::byte>(i ^ stored.flip);
    } else {
      SetPackedBits(all.mutable_raw(), i, stored.bits(), i ^ stored.flip);
    }
  }
  const Result<Tensor> real = ToFloat32(all);
  EVOQ_CHECK(real.has_value(), "{}", DTypeName(stored.dtype));
  std::array<float, 256> numbers = {};
  std::copy_n(real->data<float>(), count, numbers.begin());
  return numbers;
}

void ReadStreamColumn(const StreamShape& shape, const uint8_t* bytes,
                      const std::array<float, 256>& numbers, int64_t n, float* y) {
  const int bits = shape.stored->bits(), groups = shape.stored->groups, mask = (1 << bits) - 1;
  const int64_t line_depth = shape.stored->depth(), i = n % kUnitColumns;
  ForEachBlock(shape, bytes + n / kUnitColumns * shape.unit_bytes,
               [&](int64_t b, int64_t k, int64_t end, const uint8_t* head, const uint8_t* lines) {
                 const float scale = ScaleAt(shape, head, b, i) / shape.stored->unit;
                 const auto zero = static_cast<float>(ZeroAt(shape, head, i));
                 const uint8_t* four = lines + 4 * i;
                 for (; k < end; k += line_depth, four += kUnitPanels * kLineBytes) {
                   for (int g = 0; g < groups; ++g) {
                     for (int j = 0; j < 4 && k + 4 * g + j < end; ++j)
                       y[k + 4 * g + j] = (numbers[four[j] >> (bits * g) & mask] - zero) * scale;
                   }
                 }
               });
}

extern const LayoutDef kLayoutStreamW2 = {
    .name = kStreamW2,
    .formula =
        "w[K, N] in units of 32 columns, of each the blocks of K one after the other (one, where "
        "scales are not blocked): a head, then for each 16 k the lines [16][k % 4] of columns 0 to "
        "15 and 16 to 31, as of k16n16-matmul-w2",
    .bytes = Bytes<kStreamW2>,
    .pack = Pack<kStreamW2>,
    .unpack = UnpackStream,
    .check = CheckStream,
    .scale_bytes = BytesOfScales,
};
extern const LayoutDef kLayoutStreamW4 = {
    .name = kStreamW4,
    .formula =
        "w[K, N] in units of 32 columns, of each the blocks of K one after the other (one, where "
        "scales are not blocked): a head, then for each 8 k the lines [16][k % 4] of columns 0 to "
        "15 and 16 to 31, as of k8n16-matmul-w4",
    .bytes = Bytes<kStreamW4>,
    .pack = Pack<kStreamW4>,
    .unpack = UnpackStream,
    .check = CheckStream,
    .scale_bytes = BytesOfScales,
};
extern const LayoutDef kLayoutStreamW4Steps = {
    .name = kStreamW4Steps,
    .formula =
        "as stream-matmul-w4, of int4 in blocks of 32 whose scales are multiples of steps: a "
        "head for each 128 k, of 32 steps and 32 words of multiples",
    .bytes = Bytes<kStreamW4Steps>,
    .pack = Pack<kStreamW4Steps>,
    .unpack = UnpackStream,
    .check = CheckStream,
    .scale_bytes = BytesOfScales,
};
extern const LayoutDef kLayoutStreamW8 = {
    .name = kStreamW8,
    .formula =
        "w[K, N] in units of 32 columns, of each the blocks of K one after the other (one, where "
        "scales are not blocked): a head, then for each 4 k the lines [16][k % 4] of columns 0 to "
        "15 and 16 to 31, as of k4n16-matmul",
    .bytes = Bytes<kStreamW8>,
    .pack = Pack<kStreamW8>,
    .unpack = UnpackStream,
    .check = CheckStream,
    .scale_bytes = BytesOfScales,
};

}  // namespace evoq
