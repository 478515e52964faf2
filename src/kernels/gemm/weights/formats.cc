#include "kernels/gemm/weights/formats.h"

#include <algorithm>

#include "base/aligned.h"
#include "base/math.h"
#include "base/thread_pool.h"
#include "base/work_threads.h"
#include "kernels/call_util.h"
#include "kernels/derived.h"

namespace evoq {

#if defined(__x86_64__)
#define EVOQ_ROW(symbol)                                   \
  namespace scalar {                                       \
  extern const WeightFormat symbol;                        \
  }                                                        \
  namespace avx2 {                                         \
  extern const WeightFormat symbol;                        \
  }                                                        \
  namespace avx512 {                                       \
  extern const WeightFormat symbol;                        \
  }                                                        \
  static constexpr IsaRow<WeightFormat> symbol##Rows[] = { \
      {.needs = Isa::kAvx512, .table = &avx512::symbol},   \
      {.needs = Isa::kAvx2, .table = &avx2::symbol},       \
      {.needs = Isa::kScalar, .table = &scalar::symbol}};
#else
#define EVOQ_ROW(symbol)                                   \
  namespace scalar {                                       \
  extern const WeightFormat symbol;                        \
  }                                                        \
  static constexpr IsaRow<WeightFormat> symbol##Rows[] = { \
      {.needs = Isa::kScalar, .table = &scalar::symbol}};
#endif
#include "kernels/gemm/weights/formats.inc"
#undef EVOQ_ROW

namespace {

Result<int64_t> PackedBytes(const WeightFormat& format, const TensorType& type) {
  if (DTypeBits(type.dtype) != format.bits || type.shape.rank() != 2 || !type.bytes())
    return InvalidInput("layout {} of {}: expected a static matrix of {}", format.layout,
                        type.ToString(),
                        format.bits == 8 ? "bytes" : fmt::format("{} bits", format.bits));
  const std::vector<int64_t> s = type.shape.sizes();
  const int64_t sizes[] = {CeilDiv(s[1], int64_t{kWeightColumns}), s[0], int64_t{kWeightColumns}};
  if (!CheckedProduct(sizes))
    return Fail(ErrorCode::kTooLarge, "layout {} of {}", format.layout, type.ToString());
  return sizes[0] * format.panel_bytes(s[0]);
}

Status CheckPacked(const WeightFormat& format, const Tensor& packed) {
  EVOQ_ASSIGN(const int64_t bytes, PackedBytes(format, packed.type()));
  if (static_cast<int64_t>(packed.bytes()) != bytes)
    return InvalidInput("layout {} of {}: {} bytes, expected {}", format.layout,
                        packed.type().ToString(), packed.bytes(), bytes);
  return {};
}

// Elements of a panel; none without columns, where the depth is any number.
size_t PanelElements(int64_t depth, int64_t columns) {
  return columns == 0 ? 0 : static_cast<size_t>(depth * kWeightColumns);
}

// `count` neighbours of a plain constant, a byte each.
void ReadElements(const std::byte* plain, int64_t at, int64_t count, int bits, uint8_t* to) {
  if (at * bits % 8 != 0 || count * bits % 8 != 0) {
    for (int64_t i = 0; i < count; ++i) to[i] = PackedBits(plain, at + i, bits);
    return;
  }
  const auto* from = reinterpret_cast<const uint8_t*>(plain) + at * bits / 8;
  const int mask = (1 << bits) - 1;
  for (int64_t i = 0; i < count; ++from) {
    for (int shift = 0; shift < 8; shift += bits) to[i++] = *from >> shift & mask;
  }
}

Result<Tensor> Pack(const WeightFormat& format, const Tensor& plain) {
  constexpr size_t kBytesForThreads = size_t{1} << 20;  // packed alone below
  EVOQ_ASSIGN(const int64_t bytes, PackedBytes(format, plain.type()));
  auto packed = std::make_shared<AlignedBuffer>(static_cast<size_t>(bytes));
  auto* const panels = reinterpret_cast<uint8_t*>(packed->data());
  const int64_t depth = plain.sizes()[0], columns = plain.sizes()[1];
  ThreadPool pool(plain.bytes() < kBytesForThreads ? 1 : WorkThreads::Get());
  pool.ParallelFor(CeilDiv(columns, int64_t{kWeightColumns}), 4, [&](int64_t panel, int64_t end) {
    std::vector<uint8_t> elements(PanelElements(depth, columns));
    for (; panel < end; ++panel) {
      const int64_t column = panel * kWeightColumns,
                    count = std::min<int64_t>(columns - column, kWeightColumns);
      for (int64_t k = 0; k < depth; ++k)
        ReadElements(plain.raw(), k * columns + column, count, format.bits,
                     elements.data() + k * kWeightColumns);
      format.pack(elements.data(), depth, panels + panel * format.panel_bytes(depth));
    }
  });
  const std::span<const std::byte> made(packed->data(), static_cast<size_t>(bytes));
  return Tensor::PackedView(plain.type(), format.layout, made, std::move(packed));
}

Result<Tensor> Unpack(const WeightFormat& format, const Tensor& packed) {
  EVOQ_TRY(CheckPacked(format, packed));
  Tensor plain = Tensor::Allocate(packed.type());
  const int64_t depth = plain.sizes()[0], columns = plain.sizes()[1];
  std::vector<uint8_t> elements(PanelElements(depth, columns));
  const auto* panel = reinterpret_cast<const uint8_t*>(packed.raw());
  for (int64_t column = 0; column < columns; column += kWeightColumns) {
    const int64_t count = std::min<int64_t>(columns - column, kWeightColumns);
    format.unpack(panel, depth, elements.data());
    panel += format.panel_bytes(depth);
    for (int64_t k = 0; k < depth; ++k) {
      for (int64_t n = 0; n < count; ++n) {
        const int64_t at = k * columns + column + n;
        const uint8_t element = elements[k * kWeightColumns + n];
        if (format.bits == 8) {
          plain.mutable_raw()[at] = static_cast<std::byte>(element);
        } else {
          SetPackedBits(plain.mutable_raw(), at, format.bits, element);
        }
      }
    }
  }
  return plain;
}

constexpr WeightFormatRows kAllFormats[] = {
#define EVOQ_ROW(symbol) symbol##Rows,
#include "kernels/gemm/weights/formats.inc"
#undef EVOQ_ROW
};

// What a format's layout computes is the same on every machine: its plain C++.
const LayoutDef kAllLayouts[] = {
#define EVOQ_ROW(symbol)                                                     \
  {scalar::symbol.layout, scalar::symbol.formula,                            \
   [](const TensorType& type) { return PackedBytes(scalar::symbol, type); }, \
   [](const Tensor& plain) { return Pack(scalar::symbol, plain); },          \
   [](const Tensor& packed) { return Unpack(scalar::symbol, packed); }},
#include "kernels/gemm/weights/formats.inc"
#undef EVOQ_ROW
};

bool Stores(const WeightFormat& format, DType dtype) {
  return dtype != DType::kUndefined && (format.dtypes[0] == dtype || format.dtypes[1] == dtype);
}

std::optional<Reason> RejectScales(const WeightFormat& format, const QuantParams& quant) {
  if (quant.inside) return Reject("layout", "scales are inside of a packed constant");
  const bool blocked = quant.block != 0;
  if (blocked ? quant.axis != 0 : !quant.per_tensor() && quant.axis != 1)
    return Reject("types", "b has scales along axis {}, expected columns or blocks along K",
                  quant.axis);
  if (quant.block % format.block != 0)
    return Reject("types", "blocks of {}, expected a multiple of {}", quant.block, format.block);
  const auto& zeros = quant.zero_points;
  const bool any = std::any_of(zeros.begin(), zeros.end(), [](int32_t z) { return z != 0; });
  if (any &&
      (format.zeros == WeightZeros::kNone || (blocked && format.zeros != WeightZeros::kBlocks)))
    return Reject("types", "{} with zero points", blocked ? "blocks" : "columns");
  return std::nullopt;
}

}  // namespace

std::span<const WeightFormatRows> AllWeightFormats() { return kAllFormats; }
std::span<const LayoutDef> WeightLayouts() { return kAllLayouts; }

std::optional<Reason> RejectWeightElements(const TensorType& type) {
  for (WeightFormatRows rows : AllWeightFormats()) {
    if (type.quantized() && Stores(*rows.back().table, type.dtype)) return std::nullopt;
  }
  // Of all formats, the one that quantization writes.
  return Reject("types", "b is {}, expected quantized int8 or uint8", type.ToString());
}

std::optional<Reason> RejectWeightScales(const TensorType& type) {
  if (type.shape.rank() != 2)
    return Reject("shape", "b has rank {}, expected 2", type.shape.rank());
  std::optional<Reason> why;
  for (WeightFormatRows rows : AllWeightFormats()) {
    const WeightFormat& format = *rows.back().table;
    if (!Stores(format, type.dtype)) continue;
    why = RejectScales(format, *type.quant);
    if (!why) break;
  }
  return why;
}

WeightFormatRows FindWeightFormat(const TensorType& type) {
  for (WeightFormatRows rows : AllWeightFormats()) {
    const WeightFormat& format = *rows.back().table;
    if (type.quantized() && type.shape.rank() == 2 && type.bytes() && Stores(format, type.dtype) &&
        !RejectScales(format, *type.quant))
      return rows;
  }
  return {};
}

Result<Tensor> PackWeights(const Tensor& weights) {
  const WeightFormatRows rows = FindWeightFormat(weights.type());
  if (rows.empty() || !weights.layout().empty()) return Tensor();
  return Pack(*rows.back().table, weights);
}

bool ReadsWeights(const TensorType& weights, std::string_view layout) {
  const WeightFormatRows rows = FindWeightFormat(weights);
  return !rows.empty() && rows.back().table->layout == layout;
}

WeightPanels BoundWeights::panels() const {
  return {columns,
          depth,
          block,
          blocks,
          reinterpret_cast<const uint8_t*>(packed.raw()),
          format->panel_bytes(depth),
          IsSigned(packed.dtype()),
          scales->scales.data(),
          scales->zeros.empty() ? nullptr : scales->zeros.data()};
}

Result<BoundWeights> BindWeights(const Tensor& weights, Isa isa) {
  const WeightFormatRows rows = FindWeightFormat(weights.type());
  if (rows.empty()) return InvalidInput("no format of {}", weights.type().ToString());
  BoundWeights bound;
  bound.format = &FormatFor(rows, isa);
  bound.packed = weights;
  if (weights.layout().empty()) {
    EVOQ_ASSIGN(bound.packed, Pack(*bound.format, weights));
  } else if (weights.layout() != bound.format->layout) {
    return InvalidInput("weights have layout '{}', expected {}", weights.layout(),
                        bound.format->layout);
  }
  EVOQ_TRY(CheckPacked(*bound.format, bound.packed));
  const QuantParams& quant = *weights.type().quant;
  const int64_t depth = weights.sizes()[0], n = weights.sizes()[1],
                panels = CeilDiv(n, int64_t{kWeightColumns});
  bound.depth = depth;
  bound.columns = n;
  bound.block = quant.block != 0 ? quant.block : std::max<int64_t>(depth, 1);
  const int64_t blocks = std::max<int64_t>(CeilDiv(depth, bound.block), 1);
  bound.blocks = blocks;
  const int64_t wanted = quant.block != 0 ? blocks * n : quant.per_tensor() ? 1 : n;
  if (static_cast<int64_t>(quant.scales.size()) != wanted ||
      quant.zero_points.size() != quant.scales.size())
    return InvalidInput("{} scales for {} blocks of {} columns", quant.scales.size(), blocks, n);
  const bool any = std::any_of(quant.zero_points.begin(), quant.zero_points.end(),
                               [](int32_t z) { return z != 0; });
  const auto widened = [&] {
    WeightScales made;
    made.scales.assign(static_cast<size_t>(panels * blocks * kWeightColumns), 0.0f);
    if (any) made.zeros.assign(made.scales.size(), 0.0f);
    for (int64_t i = 0; i < blocks * n; ++i) {
      const auto from = static_cast<size_t>(wanted == 1 ? 0 : i);
      const int64_t to =
          (i % n / kWeightColumns * blocks + i / n) * kWeightColumns + i % n % kWeightColumns;
      made.scales[to] = quant.scales[from];
      if (any) made.zeros[to] = static_cast<float>(quant.zero_points[from]);
    }
    return made;
  };
  // The parameters live as long as the constant that holds them.
  bound.scales = Derive<WeightScales>(
      bound.packed, fmt::format("weight scales {}", fmt::ptr(bound.packed.type().quant.get())),
      widened);
  return bound;
}

}  // namespace evoq
