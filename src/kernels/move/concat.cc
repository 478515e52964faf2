// Concat along any axis; quantized inputs whose parameters differ from the output's are requantized
// while copied.
#include "kernels/move/move_call.h"
#include "kernels/quantize/axis.h"
#include "kernels/requant.h"

namespace evoq {
namespace {

std::optional<Reason> RejectConcat(const KernelCall& call) {
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  const TensorType& y = call.outputs[0];
  const auto axis = NormalizeAxis(call.attrs.Int("axis"), y.shape.rank());
  if (!axis) return Reject("attribute", "{}", axis.error().message());
  int64_t along = 0;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const TensorType& x = call.inputs[i];
    if (!(QuantizedByte(x) && QuantizedByte(y))) {
      if (auto rejection = RejectUnlessSame(call, i)) return rejection;
    }
    if (x.shape.rank() != y.shape.rank())
      return Reject("shape", "input {} is {}, output {}", i, x.ToString(), y.ToString());
    for (int d = 0; d < y.shape.rank(); ++d) {
      if (d != *axis && x.shape[d] != y.shape[d])
        return Reject("shape", "input {} is {}, output {}", i, x.ToString(), y.ToString());
    }
    along += x.shape[*axis].value;
  }
  if (along != y.shape[*axis].value)
    return Reject("shape", "inputs of {} along the axis, output {}", along, y.shape.ToString());
  return std::nullopt;
}

struct Part {
  int64_t bytes;   // of one row of this input
  int64_t offset;  // in a row of the output
  int table = -1;  // how its integers become the output's; -1 copies
};

struct Table {
  alignas(64) uint8_t map[256];
};

Table TableBetween(const TensorType& x, const TensorType& y) {
  Table table;
  const IntegerRange range = RangeOf(y.dtype);
  for (int i = 0; i < 256; ++i) {
    const int32_t q = x.dtype == DType::kInt8 ? static_cast<int8_t>(i) : i;
    table.map[i] = static_cast<uint8_t>(QuantizeValue(
        DequantizeValue(q, ScaleOf(x), ZeroOf(x)), ScaleOf(y), ZeroOf(y), range.low, range.high));
  }
  return table;
}

// Bytes: parts of so few go row by row for each input, not input by input for each row. The rows
// that are written at a time stay in the L1 cache until they are whole.
constexpr int64_t kShortPart = 512;
constexpr int64_t kBytesAtOnce = 16 << 10;

// y[r] = x[r] for `rows` elements, those of y `stride` bytes apart.
template <typename T>
void Spread(const uint8_t* x, uint8_t* y, int64_t rows, int64_t stride) {
  for (int64_t r = 0; r < rows; ++r) __builtin_memcpy(y + r * stride, x + r * sizeof(T), sizeof(T));
}

// y's rows are what lies below the axis and the axis itself; each input fills a part of every row.
struct ConcatState {
  std::vector<Part> parts;
  std::vector<Table> tables;
  int64_t rows = 1, row_bytes = 0, grain = 1;
  int64_t bands = 1;  // pieces of a row, for threads when there are few rows
  bool short_parts = false;
  Isa isa = Isa::kScalar;

  // Rows [begin, end) where all parts are short.
  void ShortParts(const void* const* in, uint8_t* y, int64_t begin, int64_t end) const {
    alignas(64) uint8_t mapped[kBytesAtOnce];
    const int64_t most = std::max<int64_t>(kBytesAtOnce / std::max<int64_t>(row_bytes, 1), 1);
    for (int64_t row = begin, rows; row < end; row += rows) {
      rows = std::min(most, end - row);
      for (size_t i = 0; i < parts.size(); ++i) {
        const Part& part = parts[i];
        const auto* x = static_cast<const uint8_t*>(in[i]) + row * part.bytes;
        if (part.table >= 0) {
          QuantizeTableFor(isa).lookup(tables[static_cast<size_t>(part.table)].map, x, mapped,
                                       rows * part.bytes);
          x = mapped;
        }
        uint8_t* to = y + row * row_bytes + part.offset;
        switch (part.bytes) {
          case 1: Spread<uint8_t>(x, to, rows, row_bytes); break;
          case 2: Spread<uint16_t>(x, to, rows, row_bytes); break;
          case 4: Spread<uint32_t>(x, to, rows, row_bytes); break;
          case 8: Spread<uint64_t>(x, to, rows, row_bytes); break;
          default:
            for (int64_t r = 0; r < rows; ++r)
              CopyRun(reinterpret_cast<std::byte*>(to + r * row_bytes),
                      reinterpret_cast<const std::byte*>(x + r * part.bytes), part.bytes);
        }
      }
    }
  }

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    auto* y = static_cast<uint8_t*>(out[0]);
    const auto lookup = QuantizeTableFor(isa).lookup;
    context.pool.ParallelFor(rows * bands, grain, [&](int64_t begin, int64_t end) {
      if (short_parts) return ShortParts(in, y, begin, end);
      for (int64_t task = begin; task < end; ++task) {
        const int64_t row = bands == 1 ? task : task / bands, band = bands == 1 ? 0 : task % bands;
        for (size_t i = 0; i < parts.size(); ++i) {
          const Part& part = parts[i];
          const int64_t first = bands == 1 ? 0 : part.bytes * band / bands;
          const int64_t n = (bands == 1 ? part.bytes : part.bytes * (band + 1) / bands) - first;
          const auto* x = static_cast<const uint8_t*>(in[i]) + row * part.bytes + first;
          uint8_t* to = y + row * row_bytes + part.offset + first;
          if (part.table >= 0) {
            lookup(tables[static_cast<size_t>(part.table)].map, x, to, n);
          } else if (n > 0) {
            CopyRun(reinterpret_cast<std::byte*>(to), reinterpret_cast<const std::byte*>(x), n);
          }
        }
      }
    });
  }
};

Result<BoundKernel> BindConcat(const KernelCall& call, const BindOptions& options) {
  const TensorType& y = call.outputs[0];
  const int axis = *NormalizeAxis(call.attrs.Int("axis"), y.shape.rank());
  ConcatState state;
  state.isa = options.isa;
  for (int d = 0; d < axis; ++d) state.rows *= y.shape[d].value;
  for (const TensorType& x : call.inputs) {
    Part part{state.rows == 0 ? 0 : *x.bytes() / state.rows, state.row_bytes, -1};
    if (x.quantized() && (x.dtype != y.dtype || !(*x.quant == *y.quant))) {
      part.table = static_cast<int>(state.tables.size());
      state.tables.push_back(TableBetween(x, y));
    }
    state.row_bytes += part.bytes;
    state.parts.push_back(part);
  }
  state.short_parts = std::all_of(state.parts.begin(), state.parts.end(),
                                  [](const Part& part) { return part.bytes <= kShortPart; });
  state.bands =
      state.short_parts
          ? 1
          : std::clamp<int64_t>(2 * options.threads / std::max<int64_t>(state.rows, 1), 1, 64);
  state.grain =
      Grain(state.rows * state.bands, CopyNs(state.row_bytes / state.bands), options.threads);
  return BoundKernel::Of(std::move(state));
}

}  // namespace

extern const KernelDef kConcatKernel = {
    .name = "concat",
    .op = "Concat",
    .precision = Precision::kAny,
    .peak = Peak::kMemory,
    .reject = RejectConcat,
    .bind = BindConcat,
};

}  // namespace evoq
