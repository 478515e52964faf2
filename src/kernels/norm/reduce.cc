// Reduce* over constant axes, float32, and ReduceMean of quantized uint8 (the average of
// kernels/requant.h). ArgMax, ArgMin.
#include "kernels/call_util.h"
#include "kernels/move/move.h"
#include "kernels/norm/norm.h"
#include "kernels/parallel.h"

namespace evoq {

std::optional<ReduceKind> ReduceKindOf(std::string_view op) {
#define EVOQ_REDUCE(name, start, term, combine, result) \
  if (op == #name) return ReduceKind::k##name;
  EVOQ_REDUCE_LIST
#undef EVOQ_REDUCE
  return std::nullopt;
}

namespace {

struct Plan {
  std::vector<int64_t> kept_sizes, kept_strides;  // outer axes that stay
  std::vector<int64_t> offsets;  // of the places that meet in an output row, in index order
  int64_t outputs = 1;           // rows of the output
  int64_t row = 1;
  bool row_reduced = false;
  int64_t count = 1;

  // Neighbours that go on as one axis merge.
  void Keep(int64_t size, int64_t stride) {
    outputs *= size;
    if (!kept_sizes.empty() && kept_strides.back() == size * stride) {
      kept_sizes.back() *= size;
      kept_strides.back() = stride;
    } else {
      kept_sizes.push_back(size);
      kept_strides.push_back(stride);
    }
  }

  int64_t OffsetOf(int64_t output) const {
    int64_t at = 0;
    for (size_t i = kept_sizes.size(); i-- > 1;) {
      at += output % kept_sizes[i] * kept_strides[i];
      output /= kept_sizes[i];
    }
    return kept_sizes.empty() ? at : at + output * kept_strides[0];
  }
  int64_t row_outputs() const { return row_reduced ? 1 : row; }
  // Each output is a row of the input, in order: no axis before the row is reduced.
  bool row_by_row() const { return row_reduced && offsets.size() == 1; }
};

Result<std::vector<bool>> ReducedAxes(const KernelCall& call) {
  const int rank = call.inputs[0].shape.rank();
  std::vector<int64_t> axes;
  if (call.has_input(1)) {
    if (call.constant(1) == nullptr) return Unsupported("the axes are computed at run time");
    EVOQ_ASSIGN(axes, ToInt64s(*call.constant(1)));
  }
  if (axes.empty())
    return std::vector<bool>(static_cast<size_t>(rank),
                             call.attrs.Int("noop_with_empty_axes") == 0);
  std::vector<bool> reduced(static_cast<size_t>(rank), false);
  for (int64_t axis : axes) {
    EVOQ_ASSIGN(const int normal, NormalizeAxis(axis, rank));
    reduced[static_cast<size_t>(normal)] = true;
  }
  return reduced;
}

Result<Plan> PlanOf(const KernelCall& call) {
  EVOQ_ASSIGN(const std::vector<bool> reduced, ReducedAxes(call));
  const auto sizes = call.inputs[0].shape.sizes(), strides = RowMajorStrides(sizes);
  Plan plan;
  plan.row_reduced = !reduced.empty() && reduced.back();
  size_t outer = sizes.size();
  while (outer > 0 && (sizes[outer - 1] == 1 || reduced[outer - 1] == plan.row_reduced))
    plan.row *= sizes[--outer];
  plan.offsets = {0};
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (reduced[i]) plan.count *= sizes[i];
  }
  for (size_t i = 0; i < outer; ++i) {
    if (!reduced[i]) {
      plan.Keep(sizes[i], strides[i]);
      continue;
    }
    std::vector<int64_t> next;
    if (static_cast<int64_t>(plan.offsets.size()) * sizes[i] > (1 << 22))
      return Unsupported("more than 4 million places");
    for (int64_t offset : plan.offsets) {
      for (int64_t k = 0; k < sizes[i]; ++k) next.push_back(offset + k * strides[i]);
    }
    plan.offsets = std::move(next);
  }
  return plan;
}

std::optional<Reason> RejectShape(const KernelCall& call) {
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  if (call.has_input(1) && call.constant(1) == nullptr)
    return Reject("not-constant", "the axes are computed at run time");
  const auto plan = PlanOf(call);
  if (!plan) return Reject("attribute", "{}", plan.error().message());
  if (ElementsOf(call.inputs[0]) == 0) return Reject("shape", "input 0 is empty");
  if (plan->outputs * plan->row_outputs() != ElementsOf(call.outputs[0])) {
    return Reject("shape", "{} -> {}", call.inputs[0].shape.ToString(),
                  call.outputs[0].shape.ToString());
  }
  return std::nullopt;
}

std::optional<Reason> RejectFloat(const KernelCall& call) {
  if (auto why = RejectUnlessFloat(call)) return why;
  return RejectShape(call);
}

// Rows of the output are cut into bands of columns when there are few of them.
constexpr int64_t kBand = 256;
int64_t BandsOf(const Plan& plan) { return plan.row_reduced ? 1 : CeilDiv(plan.row, kBand); }

// Calls part(row of the call with its columns, first output element) for the tasks [begin, end).
template <typename Part>
void ForTasks(const Plan& plan, int64_t begin, int64_t end, const Part& part) {
  const int64_t bands = BandsOf(plan);
  for (int64_t task = begin; task < end; ++task) {
    const int64_t output = bands == 1 ? task : task / bands,
                  first = bands == 1 ? 0 : task % bands * kBand;
    const int64_t width = plan.row_reduced ? plan.row : std::min(kBand, plan.row - first);
    const ReduceRow row{plan.offsets.data(), static_cast<int64_t>(plan.offsets.size()), width,
                        plan.row_reduced, static_cast<float>(plan.count)};
    part(row, plan.OffsetOf(output) + first, output * plan.row_outputs() + first);
  }
}

struct FloatState {
  ReduceKind kind;
  Plan plan;
  Isa isa;
  int64_t grain;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    if (plan.row_by_row()) return RunRows(in, out, context);
    const auto reduce = NormTableFor(isa).reduce;
    context.pool.ParallelFor(plan.outputs * BandsOf(plan), grain, [&](int64_t begin, int64_t end) {
      ForTasks(plan, begin, end, [&](const ReduceRow& row, int64_t from, int64_t to) {
        reduce(kind, static_cast<const float*>(in[0]) + from, row,
               static_cast<float*>(out[0]) + to);
      });
    });
  }

  void RunRows(const void* const* in, void* const* out, const RunContext& context) const {
    const auto reduce_rows = NormTableFor(isa).reduce_rows;
    context.pool.ParallelFor(plan.outputs, grain, [&](int64_t begin, int64_t end) {
      reduce_rows(kind, static_cast<const float*>(in[0]) + begin * plan.row, end - begin, plan.row,
                  static_cast<float*>(out[0]) + begin);
    });
  }
};

int64_t GrainOf(const Plan& plan, int threads) {
  const double task = static_cast<double>(plan.offsets.size()) *
                      static_cast<double>(plan.row_reduced ? plan.row : std::min(plan.row, kBand));
  return Grain(plan.outputs * BandsOf(plan), task * 0.15 + 5, threads);
}

Result<BoundKernel> BindFloat(const KernelCall& call, const BindOptions& options) {
  FloatState state{*ReduceKindOf(call.op), {}, options.isa, 1};
  EVOQ_ASSIGN(state.plan, PlanOf(call));
  state.grain = GrainOf(state.plan, options.threads);
  return BoundKernel::Of(std::move(state));
}

std::optional<Reason> RejectMeanBytes(const KernelCall& call) {
  if (!QuantizedU8(call.inputs[0]) || !QuantizedU8(call.outputs[0])) {
    return Reject("types", "{} -> {}, expected uint8 with one scale each",
                  call.inputs[0].ToString(), call.outputs[0].ToString());
  }
  if (auto rejection = RejectShape(call)) return rejection;
  if (PlanOf(call)->count > (1 << 22))
    return Reject("shape", "a sum of {} bytes could overflow int32", PlanOf(call)->count);
  return std::nullopt;
}

struct MeanState {
  Plan plan;
  ByteMean mean;
  Isa isa;
  int64_t grain;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const auto mean_bytes = NormTableFor(isa).mean_bytes;
    context.pool.ParallelFor(plan.outputs * BandsOf(plan), grain, [&](int64_t begin, int64_t end) {
      ForTasks(plan, begin, end, [&](const ReduceRow& row, int64_t from, int64_t to) {
        mean_bytes(mean, static_cast<const uint8_t*>(in[0]) + from, row,
                   static_cast<uint8_t*>(out[0]) + to);
      });
    });
  }
};

Result<BoundKernel> BindMeanBytes(const KernelCall& call, const BindOptions& options) {
  const TensorType &x = call.inputs[0], &y = call.outputs[0];
  MeanState state;
  EVOQ_ASSIGN(state.plan, PlanOf(call));
  const double count = static_cast<double>(state.plan.count);
  state.mean = {.zero_sum = static_cast<int32_t>(state.plan.count) * ZeroOf(x),
                .multiplier = static_cast<float>(static_cast<double>(ScaleOf(x)) /
                                                 (static_cast<double>(ScaleOf(y)) * count)),
                .zero = ZeroOf(y)};
  state.isa = options.isa;
  state.grain = GrainOf(state.plan, options.threads);
  return BoundKernel::Of(std::move(state));
}

// ---- ArgMax, ArgMin: the first of equals, or the last with select_last_index

struct ArgState {
  int64_t outer = 1, size = 1, inner = 1, grain = 1;
  bool max = true, last = false;

  Isa isa = Isa::kScalar;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const auto* x = static_cast<const float*>(in[0]);
    auto* y = static_cast<int64_t*>(out[0]);
    const NormTable& table = NormTableFor(isa);
    context.pool.ParallelFor(outer * inner, grain, [&](int64_t begin, int64_t end) {
      if (inner == 1) return ArgRows(table, x + begin * size, y + begin, end - begin);
      while (begin < end) {
        const int64_t column = begin % inner, width = std::min(inner - column, end - begin);
        table.arg_columns(x + begin / inner * size * inner + column, y + begin, size, inner, width,
                          max, last);
        begin += width;
      }
    });
  }

  // Short rows are turned, so many at a time, so that each is a column and none waits for its own
  // largest value. With AVX-512 longer ones take no longer as they lie.
  void ArgRows(const NormTable& table, const float* x, int64_t* y, int64_t rows) const {
    constexpr int64_t kTurned = 64, kMostTurned = 64, kLeastRows = 16, kRowsAhead = 2 * kTurned;
    const int64_t most = isa.Has(Isa::kAvx512) ? kMostTurned / 2 : kMostTurned;
    if (size > most || rows < kLeastRows) return table.arg_rows(x, y, rows, size, max, last);
    float turned[kMostTurned * kTurned];
    for (int64_t r = 0; r < rows; r += kTurned) {
      const int64_t count = std::min(kTurned, rows - r);
      const float* const ahead = x + (r + kRowsAhead) * size;
      for (int64_t i = 0; i < count * size; i += 16) __builtin_prefetch(ahead + i);
      MoveTableFor(isa).transpose(x + r * size, turned, count, size, size, kTurned, sizeof(float));
      table.arg_columns(turned, y + r, size, kTurned, count, max, last);
    }
  }
};

Result<ArgState> ArgOf(const KernelCall& call) {
  const Shape& x = call.inputs[0].shape;
  EVOQ_ASSIGN(const int axis, NormalizeAxis(call.attrs.Int("axis", 0), x.rank()));
  ArgState state;
  for (int i = 0; i < x.rank(); ++i)
    (i < axis ? state.outer : i == axis ? state.size : state.inner) *= x[i].value;
  state.max = call.op == "ArgMax";
  state.last = call.attrs.Int("select_last_index") != 0;
  return state;
}

std::optional<Reason> RejectArg(const KernelCall& call) {
  if (!PlainFloat(call.inputs[0]) || call.outputs[0].dtype != DType::kInt64) {
    return Reject("types", "{} -> {}, expected float32 to int64", call.inputs[0].ToString(),
                  call.outputs[0].ToString());
  }
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  const auto state = ArgOf(call);
  if (!state) return Reject("attribute", "{}", state.error().message());
  if (state->size > INT32_MAX) return Reject("shape", "{} along the axis", state->size);
  if (state->size == 0 || state->outer * state->inner != ElementsOf(call.outputs[0])) {
    return Reject("shape", "{} -> {}", call.inputs[0].ToString(), call.outputs[0].ToString());
  }
  return std::nullopt;
}

Result<BoundKernel> BindArg(const KernelCall& call, const BindOptions& options) {
  EVOQ_ASSIGN(ArgState state, ArgOf(call));
  state.isa = options.isa;
  state.grain =
      Grain(state.outer * state.inner, static_cast<double>(state.size) * 0.1 + 3, options.threads);
  return BoundKernel::Of(state);
}

}  // namespace

extern const KernelDef kReduceMeanByte = {
    .name = "reduce_mean_u8",
    .op = "ReduceMean",
    .precision = Precision::kInt8,
    .peak = Peak::kMemory,
    .reject = RejectMeanBytes,
    .bind = BindMeanBytes,
};
#define EVOQ_REDUCE(op_name, start, term, combine, result) \
  extern const KernelDef k##op_name##Float = {             \
      .name = #op_name "_f32",                             \
      .op = #op_name,                                      \
      .precision = Precision::kFloat32,                    \
      .peak = Peak::kMemory,                               \
      .reject = RejectFloat,                               \
      .bind = BindFloat,                                   \
  };
EVOQ_REDUCE_LIST
#undef EVOQ_REDUCE
extern const KernelDef kArgMaxFloat = {
    .name = "argmax_f32",
    .op = "ArgMax",
    .precision = Precision::kFloat32,
    .peak = Peak::kMemory,
    .reject = RejectArg,
    .bind = BindArg,
};
extern const KernelDef kArgMinFloat = {
    .name = "argmin_f32",
    .op = "ArgMin",
    .precision = Precision::kFloat32,
    .peak = Peak::kMemory,
    .reject = RejectArg,
    .bind = BindArg,
};

}  // namespace evoq
