// Steps that read each value about once: windows, functions of single values, sums over an axis,
// moves of bytes.
#include <algorithm>

#include "base/math.h"
#include "kernels/attention/attention_call.h"
#include "kernels/elementwise/broadcast.h"
#include "kernels/move/move_call.h"
#include "kernels/norm/norm.h"
#include "ops/op.h"
#include "predict/families/count.h"

namespace evoq {
namespace {

int64_t LastOf(const TensorType& type) {
  const int rank = type.shape.ranked() ? type.shape.rank() : 0;
  return rank > 0 && type.shape[rank - 1].known() ? std::max<int64_t>(type.shape[rank - 1].value, 1)
                                                  : 1;
}

// Rows of the last axis.
void Count(const CostInput& input, const Rates& rates, Terms& terms) {
  terms[kFeed] = Vectors(input.in_elements()) * rates.cycle_ns;
  const int64_t run =
      std::min(LastOf(input.args.outputs[0]),
               input.args.inputs.empty() ? int64_t{1} << 40 : LastOf(input.args.inputs[0]));
  terms[kRows] = static_cast<double>(input.out_elements() / run) * rates.cycle_ns;
  CountOutputs(input, rates, terms);
  CountBytes(input, rates, terms);
}

// Of constants that are read in parts, no more is read than comes out.
void CountPartsOfConstants(const CostInput& input, const Rates& rates, Terms& terms) {
  const auto out = static_cast<double>(input.args.outputs[0].bytes().value_or(0));
  terms[kWeights] = rates.stream_ns(std::min(static_cast<double>(input.weight_bytes()), out), out);
}

// Of what rows of a broadcast take: those that a kernel begins, and elements that it writes out so
// that several rows are one (kernels/elementwise/broadcast.h).
struct BroadcastRows {
  int64_t rows = 0, written = 0, written_rows = 0;
};

BroadcastRows RowsOf(const BroadcastPlan& plan, bool bytes) {
  const int64_t n = std::max<int64_t>(plan.inner, 1), rows = plan.elements / n;
  if (plan.outer_rank == 0 || n >= kMiddleRow) return {rows};
  const int last = plan.outer_rank - 1;
  const auto lies = [&](size_t k) { return plan.step[k] == 1 && plan.stride[last][k] == n; };
  const auto repeats = [&](size_t k) { return plan.stride[last][k] == 0; };
  bool together = n < kShortRow;
  if (bytes) {
    together = n % 64 != 0 && ((lies(0) && repeats(1) && plan.step[1] == 1) ||
                               (lies(1) && repeats(0) && plan.step[0] == 1));
  } else if (!together) {
    together = (lies(0) || repeats(0)) && (lies(1) || repeats(1));
  }
  if (!together) return {rows};
  const int64_t most = std::min(kWrittenOut / n, plan.outer[last]),
                groups = rows / std::max<int64_t>(plan.outer[last], 1);
  BroadcastRows found{groups * CeilDiv(plan.outer[last], std::max<int64_t>(most, 1))};
  for (size_t k = 0; k < 2; ++k) {
    if (!lies(k)) found.written += repeats(k) ? groups * most * n : plan.elements;
  }
  found.written_rows = found.written / n;
  return found;
}

// Rows along which both inputs go on or stand still. A rotary embedding has tables for all places.
void CountBinary(const CostInput& input, const Rates& rates, Terms& terms) {
  Count(input, rates, terms);
  CountPartsOfConstants(input, rates, terms);
  terms[kRows] = 0;
  if (input.args.inputs.size() < 2) return;
  const auto plan = PlanBroadcast(input.args.inputs[0].shape, input.args.inputs[1].shape,
                                  input.args.outputs[0].shape);
  if (!plan) return;
  const BroadcastRows rows = RowsOf(*plan, input.args.inputs[0].dtype == DType::kUint8);
  terms[kRows] = static_cast<double>(rows.rows) * rates.cycle_ns;
  // Written out four elements at a time, and a row begun.
  terms[kCopies] = static_cast<double>(rows.written / 4 + 4 * rows.written_rows) * rates.cycle_ns;
}

// Comparisons and choices: a choice has three inputs.
void CountLogic(const CostInput& input, const Rates& rates, Terms& terms) {
  Count(input, rates, terms);
  terms[kRows] = 0;
  const std::vector<TensorType>& in = input.args.inputs;
  const Shape& y = input.args.outputs[0].shape;
  int64_t inner = 0, elements = 0;
  if (in.size() == 2) {
    if (const auto plan = PlanBroadcast(in[0].shape, in[1].shape, y))
      inner = plan->inner, elements = plan->elements;
  } else if (in.size() == 3) {
    if (const auto plan = PlanBroadcastOf<3>({&in[0].shape, &in[1].shape, &in[2].shape}, y))
      inner = plan->inner, elements = plan->elements;
  }
  if (inner > 0) terms[kRows] = static_cast<double>(elements / inner) * rates.cycle_ns;
}

// Moves of `runs` pieces that lie in order on both sides.
void CountRuns(const CostInput& input, const Rates& rates, double runs, Terms& terms) {
  terms[kRows] = runs * rates.cycle_ns;
  CountBytes(input, rates, terms);
  CountPartsOfConstants(input, rates, terms);
}

// Of an input that is read in parts, no more is read than comes out.
void CountPartsRead(const CostInput& input, const Rates& rates, Terms& terms) {
  if (input.args.constants[0] != nullptr) return;
  const int64_t x = input.args.inputs[0].bytes().value_or(0),
                y = input.args.outputs[0].bytes().value_or(0);
  if (x <= y) return;
  const auto bytes = static_cast<double>(input.activation_bytes() - (x - y));
  terms[kStream] = rates.stream_ns(bytes, bytes / rates.limits.threads);
}

// Elements of `type` behind axis `axis`.
int64_t Behind(const TensorType& type, int64_t axis) {
  const std::vector<int64_t> sizes = type.shape.sizes();
  int64_t elements = 1;
  for (int64_t i = axis + 1; i < static_cast<int64_t>(sizes.size()); ++i)
    elements *= sizes[static_cast<size_t>(i)];
  return std::max<int64_t>(elements, 1);
}

int64_t AxisOf(const CostInput& input, const TensorType& type) {
  const int64_t axis = input.node.attrs.Int("axis", 0);
  return axis < 0 ? axis + type.shape.rank() : axis;
}

// Concat and Split: of each part a run from the axis on, for each place before it. A copy is one
// run.
void CountParts(const CostInput& input, const Rates& rates, Terms& terms) {
  const bool split = input.node.op == "Split";
  const std::vector<TensorType>& parts = split ? input.args.outputs : input.args.inputs;
  // Parts of a few bytes that a register holds are written without a call, some of them at a time.
  constexpr double kOfOneRegister = 1.0 / 6;
  double runs = 1;
  if (split || input.node.op == "Concat") {
    runs = 0;
    for (const TensorType& part : parts) {
      const int64_t elements = input.Elements(part);
      if (elements == 0 || part.shape.rank() == 0) continue;
      const int64_t run = std::max<int64_t>(Behind(part, AxisOf(input, part) - 1), 1),
                    bytes = run * DTypeBits(part.dtype) / 8;
      const bool one = !split && (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8);
      runs += static_cast<double>(elements / run) * (one ? kOfOneRegister : 1);
    }
  }
  CountRuns(input, rates, runs, terms);
}

// Windows and repetitions of what is there: runs of the axes that stay whole, and of the next one
// unless it is taken in steps.
void CountView(const CostInput& input, const Rates& rates, Terms& terms) {
  const TensorType &x = input.args.inputs[0], &y = input.args.outputs[0];
  if (input.extends) {  // by input 1, rows of the last axis
    const TensorType& added = input.args.inputs[1];
    const auto bytes = 2 * static_cast<double>(added.bytes().value_or(0));
    terms[kRows] = static_cast<double>(input.Elements(added)) /
                   static_cast<double>(std::max<int64_t>(LastOf(added), 1)) * rates.cycle_ns;
    terms[kStream] = rates.stream_ns(bytes, bytes / rates.limits.threads);
    return;
  }
  const int64_t rank = y.shape.rank();
  int64_t run = 1;
  if (x.shape.rank() == rank) {
    int64_t axis = rank - 1;
    for (; axis >= 0 && x.shape[static_cast<int>(axis)] == y.shape[static_cast<int>(axis)]; --axis)
      run = Behind(y, axis - 1);
    const auto steps = input.args.constants.size() > 4 && input.args.constants[4] != nullptr
                           ? ToInt64s(*input.args.constants[4])
                           : Result<std::vector<int64_t>>();
    const bool strided =
        steps && std::any_of(steps->begin(), steps->end(), [](int64_t s) { return s != 1; });
    // One value, repeated, is a run too.
    const bool repeated = axis >= 0 && x.shape[static_cast<int>(axis)].value == 1 && run > 1;
    if (axis >= 0 && !strided && !repeated) run = Behind(y, axis - 1);
  }
  CountRuns(input, rates, static_cast<double>(input.out_elements() / std::max<int64_t>(run, 1)),
            terms);
  CountPartsRead(input, rates, terms);
}

// One value after the other.
void CountUnary(const CostInput& input, const Rates& rates, Terms& terms) {
  Count(input, rates, terms);
  terms[kRows] = 0;
}

// Scores and weighed values, of causal ones those that count; each key and value laid out for them;
// a curve for each score. All keys that there is room for. Of integers, two products take the time
// of one.
void CountAttention(const CostInput& input, const Rates& rates, Terms& terms) {
  AttentionCall call;
  if (ReadAttention(input.args.call, call)) return Count(input, rates, terms);
  const auto queries = static_cast<double>(call.q.length),
             keys = static_cast<double>(std::max<int64_t>(call.keys(), 1)),
             scores = static_cast<double>(call.q.batch * call.q.heads) * queries * keys;
  const double seen = call.causal ? std::max(1 - (queries - 1) / (2 * keys), 0.5) : 1;
  const double macs = static_cast<double>(input.step.macs) * (call.in_integers() ? 0.5 : 1);
  terms[kArithmetic] = seen * macs * rates.mac_ns(Peak::kFloat32);
  terms[kFeed] = Vectors(input.in_elements()) * rates.cycle_ns;
  terms[kCurve] = seen * scores / 16 * rates.cycle_ns;
  CountBytes(input, rates, terms);
}

// Elements that one index moves: what lies behind the axis, or behind the axes that a tuple names.
// Of an index for each element, a row whose indices were made from one.
int64_t RunOfIndex(const CostInput& input) {
  const TensorType &x = input.args.inputs[0], &indices = input.args.inputs[1];
  if (input.node.op.ends_with("ND")) return Behind(x, LastOf(indices) - 1);
  if (!input.node.op.ends_with("Elements")) return Behind(x, AxisOf(input, x));
  const NodeId maker = input.graph.value(input.node.input(1)).producer;
  const bool expanded = maker.valid() && input.graph.node(maker).op == "Expand" &&
                        LastOf(input.graph.value(input.graph.node(maker).input(0)).type) == 1;
  return expanded ? LastOf(indices) : 1;
}

// Runs, each of an index. Single elements at places that are known are picked by vectors.
void CountGather(const CostInput& input, const Rates& rates, Terms& terms) {
  constexpr double kPicked = 1.0 / 32;  // of a run
  const int64_t run = RunOfIndex(input), bytes = run * DTypeBits(input.args.inputs[0].dtype) / 8;
  const bool scatters = input.args.inputs.size() > 2;
  const bool picks = input.node.op == "Gather" && input.args.constants[1] != nullptr &&
                     (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8);
  const double moved =
      static_cast<double>(scatters ? input.Elements(input.args.inputs[2]) : input.out_elements());
  CountRuns(input, rates, moved / static_cast<double>(run) * (picks ? kPicked : 1), terms);
  if (!scatters) CountPartsRead(input, rates, terms);
}

// Windows over channels-last values. What is left beside whole vectors of channels goes one by one.
void CountPool(const CostInput& input, const Rates& rates, Terms& terms) {
  Count(input, rates, terms);
  int64_t taps = 1;
  for (int64_t k : input.node.attrs.Ints("kernel_shape", {})) taps *= k;
  if (input.node.op.starts_with("Global"))
    taps = std::max<int64_t>(input.in_elements() / std::max<int64_t>(input.out_elements(), 1), 1);
  const int64_t channels = LastOf(input.args.outputs[0]), pixels = input.out_elements() / channels;
  terms[kArithmetic] = static_cast<double>(pixels * taps * CeilDiv(channels, 16)) * rates.cycle_ns;
  terms[kTiles] = static_cast<double>(pixels * taps * (channels % 16)) * rates.cycle_ns;
}

// Which axes of input 0 a reduction leaves out: those of input 1, or of an attribute.
std::vector<bool> ReducedAxes(const CostInput& input) {
  const int64_t rank = input.args.inputs[0].shape.rank();
  std::vector<int64_t> axes;
  if (!input.node.op.starts_with("Reduce")) {
    axes = {input.node.attrs.Int("axis", input.node.op == "TopK" ? -1 : 0)};
  } else if (input.args.constants.size() > 1 && input.args.constants[1] != nullptr) {
    axes = ToInt64s(*input.args.constants[1]).value_or(axes);
  }
  std::vector<bool> reduced(static_cast<size_t>(rank), axes.empty());
  for (int64_t axis : axes) {
    if (axis < 0) axis += rank;
    if (axis >= 0 && axis < rank) reduced[static_cast<size_t>(axis)] = true;
  }
  return reduced;
}

bool Masks(const Rates& rates) { return rates.limits.isa.Has(Isa::kAvx512); }

bool AddsUp(std::string_view op) {
  const std::optional<ReduceKind> kind = ReduceKindOf(op);
  return kind && AddsTerms(*kind);
}

// Where the last axis is left out: a pass over each run of the axes that go with it, and one over
// what fills no vector; the largest of short rows are found in columns, and AVX-512 adds up
// sixteen rows together. Else whole rows are added up, by bands of columns, of which those beside
// whole blocks of 64 are a short loop for each place.
void CountReduce(const CostInput& input, const Rates& rates, Terms& terms) {
  Count(input, rates, terms);
  constexpr int64_t kBand = 256, kBlock = 64;
  constexpr int64_t kInRegisters = 4, kTurned = 32, kTogether = 16;
  constexpr double kShortLoop = 0.15;  // of what beginning a row takes
  const std::vector<int64_t> sizes = input.args.inputs[0].shape.sizes();
  const std::vector<bool> reduced = ReducedAxes(input);
  const bool along = !reduced.empty() && reduced.back();
  int64_t row = 1;
  for (size_t i = sizes.size(); i > 0 && (sizes[i - 1] == 1 || reduced[i - 1] == along); --i)
    row *= sizes[i - 1];
  const int64_t elements = std::max<int64_t>(along ? input.in_elements() : input.out_elements(), 1);
  row = std::max<int64_t>(row, 1);
  double rows = static_cast<double>(elements / row);
  if (!along) {
    const double places = static_cast<double>(input.in_elements()) / static_cast<double>(elements);
    rows *=
        static_cast<double>(CeilDiv(row, kBand)) + (row % kBlock != 0 ? kShortLoop * places : 0);
  }
  terms[kRows] = rows * rates.cycle_ns;
  if (input.node.op.starts_with("Arg")) {
    if (along && row <= kTurned) {
      terms[kRows] = 0;
      terms[kCopies] = 2 * static_cast<double>(input.in_elements()) * rates.cycle_ns;
    }
  } else if (along && row * input.out_elements() == input.in_elements() && Masks(rates) &&
             rows >= kTogether && AddsUp(input.node.op)) {
    terms[kRows] /= kTogether;
  } else if (along && row % 16 != 0 && row > kInRegisters) {
    terms[kTiles] = (row < 16 ? 2 : 4) * rows * rates.cycle_ns;
  }
}

// What of a row fills no vector is added up by itself, but where vectors have masks.
void CountLayerNorm(const CostInput& input, const Rates& rates, Terms& terms) {
  Count(input, rates, terms);
  if (Masks(rates)) return;
  if (LastOf(input.args.inputs[0]) % 16 != 0) terms[kTiles] = 10 * terms[kRows];
}

// Of each place where its taps are, then a sum over them for each channel: of planes value by
// value, of channels last by vectors. Cycles, as measured.
void CountGridSample(const CostInput& input, const Rates& rates, Terms& terms) {
  const bool last = input.node.attrs.Int("channels_last", 0) != 0;
  const std::string mode = input.node.attrs.String("mode", "linear");
  const int64_t taps = mode.ends_with("cubic") ? 16 : 4,
                places = input.Elements(input.args.inputs[1]) / 2, outputs = input.out_elements();
  terms[kRows] = 60 * static_cast<double>(places) * rates.cycle_ns;
  terms[kArithmetic] = static_cast<double>(outputs * taps) * (last ? 0.35 : 1.4) * rates.cycle_ns;
  CountBytes(input, rates, terms);
}

// Axes that stay together are one. Runs of the last one where it stays last or, where it moves,
// blocks of 16 x 16 of the planes that are turned.
void CountPermutation(const CostInput& input, const std::vector<int64_t>& x,
                      const std::vector<int64_t>& perm, const Rates& rates, Terms& terms) {
  constexpr double kPlaneCycles = 50;  // to find where a plane begins, as measured
  CountBytes(input, rates, terms);
  struct Axis {
    int64_t size, last;  // the axis of x at its end
  };
  std::vector<Axis> merged;
  const auto next = [&](int64_t axis) {  // the following axis of x that is longer than one
    do ++axis;
    while (axis < static_cast<int64_t>(x.size()) && x[static_cast<size_t>(axis)] == 1);
    return axis;
  };
  for (int64_t p : perm) {
    const int64_t size = x[static_cast<size_t>(p)];
    if (size == 1) continue;
    if (!merged.empty() && next(merged.back().last) == p) {
      merged.back() = {merged.back().size * size, p};
    } else {
      merged.push_back({size, p});
    }
  }
  const int64_t elements = input.out_elements();
  if (merged.size() < 2 || elements == 0) {
    terms[kRows] = rates.cycle_ns;
    return;
  }
  const Axis to = merged.back();
  const Axis from = *std::max_element(merged.begin(), merged.end(),
                                      [](const Axis& a, const Axis& b) { return a.last < b.last; });
  if (from.last == to.last) {
    terms[kRows] = static_cast<double>(elements / to.size) * rates.cycle_ns;
  } else {
    const int64_t planes = elements / (from.size * to.size);
    terms[kTiles] =
        static_cast<double>(16 * CeilDiv(from.size, 16) * CeilDiv(to.size, 16) * planes) *
        rates.cycle_ns;
    terms[kRows] = kPlaneCycles * static_cast<double>(planes) * rates.cycle_ns;
    // Short rows are written one by one, but for those of three planes.
    if (to.size < 16 && to.size != 3)
      terms[kOutputs] = static_cast<double>(4 * elements / to.size) * rates.cycle_ns;
  }
}

void CountTranspose(const CostInput& input, const Rates& rates, Terms& terms) {
  CountPermutation(input, input.args.inputs[0].shape.sizes(), input.node.attrs.Ints("perm", {}),
                   rates, terms);
}

void CountBlocks(const CostInput& input, const Rates& rates, Terms& terms) {
  const Rearrangement moved = RearrangementOf(input.args.call);
  CountPermutation(input, moved.split, moved.perm, rates, terms);
}

// Multiply-adds of the nodes of a subgraph, and how many nodes there are.
struct BodyWork {
  int64_t macs = 0, nodes = 0;
};
BodyWork WorkOf(const Graph& body) {
  BodyWork work;
  for (NodeId id : body.order()) {
    ++work.nodes;
    work.macs += NodeCost(body, body.node(id)).macs;
    for (const auto& inner : body.node(id).bodies) {
      const BodyWork more = WorkOf(*inner);
      work.macs += more.macs;
      work.nodes += more.nodes;
    }
  }
  return work;
}

// By its definition: element by element. Of subgraphs, the one with most to do, once.
void CountReference(const CostInput& input, const Rates& rates, Terms& terms) {
  terms[kArithmetic] = static_cast<double>(input.step.macs) * rates.cycle_ns;
  terms[kFeed] = static_cast<double>(input.in_elements()) * rates.cycle_ns;
  terms[kOutputs] = static_cast<double>(input.out_elements()) * rates.cycle_ns;
  CountBytes(input, rates, terms);
  BodyWork most;
  for (const auto& body : input.node.bodies) {
    const BodyWork work = WorkOf(*body);
    most = {std::max(most.macs, work.macs), std::max(most.nodes, work.nodes)};
  }
  terms[kArithmetic] += static_cast<double>(most.macs) * rates.cycle_ns;
  terms[kCall] += static_cast<double>(1000 * most.nodes) * rates.cycle_ns;
}

}  // namespace

extern const CostFamily kFamilyPoolInt8, kFamilyPoolBf16, kFamilyPoolFloat, kFamilyResize,
    kFamilyGridSample, kFamilyNormalizeBf16, kFamilyLayerNorm, kFamilyNormalize, kFamilyAttention,
    kFamilySoftmaxBf16, kFamilySoftmax, kFamilyReduce, kFamilyBinaryByte, kFamilyBinaryBf16,
    kFamilyBinaryFloat, kFamilyCheapUnary, kFamilyUnaryByte, kFamilyUnaryBf16, kFamilyErf,
    kFamilyTanh, kFamilyCurve, kFamilyUnaryFloat, kFamilyQuantize, kFamilyDequantize,
    kFamilyDynamicQuantize, kFamilyCast, kFamilyTranspose, kFamilyBlocks, kFamilyCopy,
    kFamilyGather, kFamilyMove, kFamilyPad, kFamilyLogic, kFamilyCompare, kFamilyReference,
    kFamilyOther;
const CostFamily kFamilyPoolInt8 = {
    .name = "pool_int8",
    .kernels = "*maxpool_u8 *avgpool_u8",
    .count = CountPool,
};
const CostFamily kFamilyPoolBf16 = {
    .name = "pool_bf16",
    .kernels = "*maxpool_bf16 *avgpool_bf16",
    .count = CountPool,
};
const CostFamily kFamilyPoolFloat = {
    .name = "pool_f32",
    .kernels = "*maxpool_f32 *avgpool_f32",
    .count = CountPool,
};
const CostFamily kFamilyResize = {
    .name = "resize",
    .kernels = "resize_*",
    .count = Count,
};
const CostFamily kFamilyNormalizeBf16 = {
    .name = "normalize_bf16",
    .kernels = "*_norm_bf16",
    .count = Count,
};
const CostFamily kFamilyGridSample = {
    .name = "grid_sample",
    .kernels = "grid_sample_*",
    .count = CountGridSample,
};
const CostFamily kFamilyLayerNorm = {
    .name = "layer_norm",
    .kernels = "layer_norm_f32 rms_norm_f32",
    .count = CountLayerNorm,
};
const CostFamily kFamilyNormalize = {
    .name = "normalize",
    .kernels = "*_norm_*",
    .count = Count,
};
const CostFamily kFamilyAttention = {
    .name = "attention",
    .kernels = "attention_*",
    .count = CountAttention,
};
const CostFamily kFamilySoftmaxBf16 = {
    .name = "softmax_bf16",
    .kernels = "*softmax_bf16",
    .count = Count,
};
const CostFamily kFamilySoftmax = {
    .name = "softmax",
    .kernels = "*softmax_*",
    .count = Count,
};
const CostFamily kFamilyReduce = {
    .name = "reduce",
    .kernels = "Reduce* reduce_* argmax_* argmin_* topk_*",
    .count = CountReduce,
};
const CostFamily kFamilyBinaryByte = {
    .name = "binary_u8",
    .kernels = "add_u8 sub_u8 mul_u8 div_u8 max_u8 min_u8 pow_u8 prelu_u8",
    .count = CountBinary,
};
const CostFamily kFamilyBinaryBf16 = {
    .name = "binary_bf16",
    .kernels = "add_bf16 sub_bf16 mul_bf16 div_bf16 max_bf16 min_bf16 pow_bf16 prelu_bf16",
    .count = CountBinary,
};
const CostFamily kFamilyBinaryFloat = {
    .name = "binary_f32",
    .kernels =
        "add_f32 sub_f32 mul_f32 div_f32 max_f32 min_f32 pow_f32 prelu_f32 rotary_embedding_f32 "
        "add_integer sub_integer mul_integer",
    .count = CountBinary,
};
const CostFamily kFamilyCheapUnary = {
    .name = "cheap_unary",
    .kernels =
        "Relu_f32 Clip_f32 LeakyRelu_f32 Abs_f32 Neg_f32 Sqrt_f32 Reciprocal_f32 Floor_f32 "
        "Ceil_f32 Round_f32 Sign_f32",
    .count = CountUnary,
};
const CostFamily kFamilyUnaryByte = {
    .name = "unary_u8",
    .kernels = "?*_u8",
    .count = CountUnary,
};
const CostFamily kFamilyUnaryBf16 = {
    .name = "unary_bf16",
    .kernels = "?*_bf16",
    .count = CountUnary,
};
const CostFamily kFamilyErf = {
    .name = "erf",
    .kernels = "Erf_f32 Gelu_f32 Erf_bf16 Gelu_bf16",
    .count = CountUnary,
};
const CostFamily kFamilyTanh = {
    .name = "tanh",
    .kernels = "Tanh_f32 Tanh_bf16",
    .count = CountUnary,
};
const CostFamily kFamilyCurve = {
    .name = "curve_f32",
    .kernels =
        "Sigmoid_f32 Exp_f32 Silu_f32 HardSigmoid_f32 HardSwish_f32 Elu_f32 Celu_f32 Selu_f32 "
        "swiglu_f32",
    .count = CountUnary,
};
const CostFamily kFamilyUnaryFloat = {
    .name = "unary_f32",
    .kernels = "?*_f32",
    .count = CountUnary,
};
const CostFamily kFamilyQuantize = {
    .name = "quantize",
    .kernels = "quantize quantize_*",
    .count = Count,
};
const CostFamily kFamilyDequantize = {
    .name = "dequantize",
    .kernels = "dequantize*",
    .count = Count,
};
const CostFamily kFamilyDynamicQuantize = {
    .name = "dynamic_quantize",
    .kernels = "dynamic_quantize dynamic_quantize_bytes",
    .count = Count,
};
const CostFamily kFamilyCast = {
    .name = "cast",
    .kernels = "cast*",
    .count = Count,
};
const CostFamily kFamilyTranspose = {
    .name = "transpose",
    .kernels = "transpose",
    .count = CountTranspose,
};
const CostFamily kFamilyBlocks = {
    .name = "transpose",
    .kernels = "depth_to_space space_to_depth",
    .count = CountBlocks,
};
const CostFamily kFamilyCopy = {
    .name = "copy",
    .kernels = "copy* concat split",
    .count = CountParts,
};
const CostFamily kFamilyGather = {
    .name = "gather",
    .kernels = "gather* scatter_*",
    .count = CountGather,
};
const CostFamily kFamilyMove = {
    .name = "move",
    .kernels = "slice expand tile tensor_scatter unfold_tensor cum_sum",
    .count = CountView,
};
const CostFamily kFamilyPad = {
    .name = "pad",
    .kernels = "pad",
    .count = Count,
};
const CostFamily kFamilyLogic = {
    .name = "logic",
    .kernels = "Equal Greater GreaterOrEqual Less LessOrEqual And Or Xor Where",
    .count = CountLogic,
};
const CostFamily kFamilyCompare = {
    .name = "compare",
    .kernels =
        "reference/Equal reference/Greater* reference/Less* reference/And reference/Or "
        "reference/Not reference/Where",
    .count = CountReference,
};
const CostFamily kFamilyReference = {
    .name = "reference",
    .kernels = "reference/*",
    .count = CountReference,
    .by_definition = true,
};
const CostFamily kFamilyOther = {
    .name = "other",
    .kernels = "",
    .count = Count,
};  // FamilyOf gives it last

}  // namespace evoq
