// gather_columns: columns of constant weights of few bits as float32 rows, read in the layout of
// the product that shares them (a tied embedding): y[.., k] = (x[k, n] - zero) * scale, n the index
// of that row. Indices as in kernels/move/gather.cc. Each column is computed once, in plain C++:
// what it waits for are the cache lines that the column is spread over.
#include <algorithm>

#include "base/math.h"
#include "base/small_code.h"
#include "kernels/call_util.h"
#include "kernels/gemm/blocks/stream.h"
#include "kernels/gemm/blocks/weights.h"
#include "kernels/gemm/weights/formats.h"
#include "kernels/parallel.h"

namespace evoq {
namespace {

// Columns of a stream (blocks/stream.h).
struct StreamColumns {
  Tensor weights;
  StreamShape shape;
  std::array<float, 256> numbers;

  static Result<StreamColumns> Of(const Tensor& x) {
    StreamColumns columns;
    columns.weights = x;
    if (x.layout().empty()) {
      EVOQ_ASSIGN(columns.weights, PackStream(x));
    }
    EVOQ_ASSIGN(columns.shape, StreamShapeOf(columns.weights.type(), columns.weights.layout()));
    if (static_cast<int64_t>(columns.weights.bytes()) != columns.shape.bytes)
      return InvalidInput("{} with {} bytes, expected {}", x.type().ToString(),
                          columns.weights.bytes(), columns.shape.bytes);
    columns.numbers = StreamNumbers(*columns.shape.stored);
    return columns;
  }
  int64_t scratch_bytes() const { return 0; }
  void Read(int64_t n, std::byte*, float* y) const {
    ReadStreamColumn(shape, reinterpret_cast<const uint8_t*>(weights.raw()), numbers, n, y);
  }
};

// Columns of a weight format (weights/format.h), which unpacks panels of 16.
struct FormatColumns {
  BoundWeights weights;

  static Result<FormatColumns> Of(const Tensor& x, Isa isa) {
    FormatColumns columns;
    EVOQ_ASSIGN(columns.weights, BindWeights(x, isa));
    return columns;
  }
  int64_t scratch_bytes() const { return weights.depth * kWeightColumns * 4; }
  void Read(int64_t n, std::byte* scratch, float* y) const {
    auto* panel = reinterpret_cast<float*>(scratch);
    weights.format->real(weights.panels(), n / kWeightColumns, panel);
    for (int64_t k = 0; k < weights.depth; ++k)
      y[k] = panel[k * kWeightColumns + n % kWeightColumns];
  }
};

template <typename Columns>
struct GatherColumns {
  Columns columns;
  int64_t count, size, depth, grain;
  bool wide;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    auto* y = static_cast<float*>(out[0]);
    context.pool.ParallelFor(count, grain, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t j = begin; j < end; ++j) {
        int64_t index =
            wide ? static_cast<const int64_t*>(in[1])[j] : static_cast<const int32_t*>(in[1])[j];
        index = std::clamp<int64_t>(index < 0 ? index + size : index, 0, size - 1);
        columns.Read(index, context.scratch + thread * columns.scratch_bytes(), y + j * depth);
      }
    });
  }
};

bool HasStream(const TensorType& type) {
  const StoredLines* stored = FindStored(type.dtype);
  return stored != nullptr && StreamShapeOf(type, stored->layout).has_value();
}

std::optional<Reason> RejectGather(const KernelCall& call) {
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  const TensorType &x = call.inputs[0], &indices = call.inputs[1], &y = call.outputs[0];
  if (call.constant(0) == nullptr) return Reject("not-constant", "the weights are computed");
  if (!PlainFloat(y) || (!HasStream(x) && FindWeightFormat(x).empty()))
    return Reject("types", "{} -> {}, expected weights that products read, and float32",
                  x.ToString(), y.ToString());
  if (indices.dtype != DType::kInt64 && indices.dtype != DType::kInt32)
    return Reject("types", "indices are {}, expected int64 or int32", indices.ToString());
  const int64_t rows = ElementsOf(indices);
  if ((x.shape[1].value == 0 && rows > 0) || ElementsOf(y) != rows * x.shape[0].value)
    return Reject("shape", "{} at {} -> {}", x.ToString(), indices.ToString(), y.ToString());
  return std::nullopt;
}

template <typename Columns>
Result<BoundKernel> BindColumns(Columns columns, const KernelCall& call,
                                const BindOptions& options) {
  const int64_t depth = call.inputs[0].shape[0].value, count = ElementsOf(call.inputs[1]);
  const double column_ns = static_cast<double>(depth) * (columns.scratch_bytes() == 0 ? 2 : 5);
  const auto scratch = CheckedMul(options.threads, columns.scratch_bytes());
  if (!scratch) return Fail(ErrorCode::kTooLarge, "columns of {}", call.inputs[0].ToString());
  GatherColumns<Columns> state = {std::move(columns),
                                  count,
                                  call.inputs[0].shape[1].value,
                                  depth,
                                  Grain(count, 100 + column_ns, options.threads),
                                  call.inputs[1].dtype == DType::kInt64};
  return BoundKernel::Of(std::move(state), static_cast<size_t>(*scratch));
}

EVOQ_SMALL_CODE Result<BoundKernel> BindGather(const KernelCall& call, const BindOptions& options) {
  const Tensor& x = *call.constant(0);
  const bool stream = x.layout().empty() ? HasStream(x.type()) : ReadsBlocks(x.type(), x.layout());
  if (stream) {
    EVOQ_ASSIGN(StreamColumns columns, StreamColumns::Of(x));
    return BindColumns(std::move(columns), call, options);
  }
  EVOQ_ASSIGN(FormatColumns columns, FormatColumns::Of(x, options.isa));
  return BindColumns(std::move(columns), call, options);
}

bool ReadsPacked(const KernelCall& call, size_t input, std::string_view layout) {
  return input == 0 &&
         (ReadsBlocks(call.inputs[0], layout) || ReadsWeights(call.inputs[0], layout));
}

}  // namespace

extern const KernelDef kGatherColumnsKernel = {
    .name = "gather_columns",
    .op = "GatherColumns",
    .precision = Precision::kInt8,
    .peak = Peak::kMemory,
    .reject = RejectGather,
    .reads = ReadsPacked,
    .bind = BindGather,
};

}  // namespace evoq
