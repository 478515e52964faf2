// Steps that read each value about once: windows, functions of single values, sums over an axis, moves of bytes.
#include <algorithm>

#include "ops/op.h"
#include "predict/families/count.h"

namespace evoq {
namespace {

int64_t LastOf(const TensorType& type) {
  const int rank = type.shape.ranked() ? type.shape.rank() : 0;
  return rank > 0 && type.shape[rank - 1].known() ? std::max<int64_t>(type.shape[rank - 1].value, 1) : 1;
}

// Rows of the last axis.
void Count(const CostInput& input, const Rates& rates, Terms& terms) {
  terms[kFeed] = Vectors(input.in_elements()) * rates.cycle_ns;
  const int64_t run = std::min(LastOf(input.args.outputs[0]), input.args.inputs.empty() ? int64_t{1} << 40 : LastOf(input.args.inputs[0]));
  terms[kRows] = static_cast<double>(input.out_elements() / run) * rates.cycle_ns;
  CountOutputs(input, rates, terms);
  CountBytes(input, rates, terms);
}

// Values of one shape, or broadcast: rows of the last axis are set up only for what is broadcast.
void CountBinary(const CostInput& input, const Rates& rates, Terms& terms) {
  Count(input, rates, terms);
  bool broadcast = false;
  for (const TensorType& type : input.args.inputs) broadcast |= input.Elements(type) > 1 && type.shape != input.args.outputs[0].shape;
  if (!broadcast) terms[kRows] = 0;
}

// One value after the other.
void CountUnary(const CostInput& input, const Rates& rates, Terms& terms) {
  Count(input, rates, terms);
  terms[kRows] = 0;
}

// Runs of what lies behind the axis.
void CountGather(const CostInput& input, const Rates& rates, Terms& terms) {
  Count(input, rates, terms);
  const std::vector<int64_t> x = input.args.inputs[0].shape.sizes();
  const int64_t rank = static_cast<int64_t>(x.size()), axis = input.node.attrs.Int("axis", 0);
  int64_t run = 1;
  for (int64_t i = (axis < 0 ? axis + rank : axis) + 1; i < rank; ++i) run *= x[static_cast<size_t>(i)];
  terms[kRows] = static_cast<double>(input.out_elements() / std::max<int64_t>(run, 1)) * rates.cycle_ns;
}

// Windows over channels-last values. What is left beside whole vectors of channels goes one by one.
void CountPool(const CostInput& input, const Rates& rates, Terms& terms) {
  Count(input, rates, terms);
  int64_t taps = 1;
  for (int64_t k : input.node.attrs.Ints("kernel_shape", {})) taps *= k;
  if (input.node.op.starts_with("Global")) taps = std::max<int64_t>(input.in_elements() / std::max<int64_t>(input.out_elements(), 1), 1);
  const int64_t channels = LastOf(input.args.outputs[0]), pixels = input.out_elements() / channels;
  terms[kArithmetic] = static_cast<double>(pixels * taps * CeilDiv(channels, 16)) * rates.cycle_ns;
  terms[kTiles] = static_cast<double>(pixels * taps * (channels % 16)) * rates.cycle_ns;
}

// One pass over each row, or two: rows of the axes that are summed over.
void CountReduce(const CostInput& input, const Rates& rates, Terms& terms) {
  Count(input, rates, terms);
  terms[kRows] = static_cast<double>(std::min(input.out_elements(), input.in_elements() / LastOf(input.args.inputs[0]))) * rates.cycle_ns;
  terms[kTiles] = 10 * static_cast<double>(input.out_elements()) * rates.cycle_ns / 16;
}

// Runs of what stays in order at the end or, where the last axis moves, blocks of 16 x 16 of the planes that are turned.
void CountTranspose(const CostInput& input, const Rates& rates, Terms& terms) {
  Count(input, rates, terms);
  const std::vector<int64_t> perm = input.node.attrs.Ints("perm", {});
  const std::vector<int64_t> y = input.args.outputs[0].shape.sizes();
  int64_t run = 1;
  for (size_t i = y.size(); i-- > 0 && perm.size() == y.size() && perm[i] == static_cast<int64_t>(i);) run *= y[i];
  terms[kRows] = static_cast<double>(input.out_elements() / std::max<int64_t>(run, 1)) * rates.cycle_ns;
  if (run > 1) return;
  const int64_t from = LastOf(input.args.inputs[0]), to = LastOf(input.args.outputs[0]);
  terms[kRows] = 0;
  terms[kTiles] = static_cast<double>(16 * CeilDiv(from, 16) * CeilDiv(to, 16) * (input.out_elements() / (from * to))) * rates.cycle_ns;
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

extern const CostFamily kFamilyPoolInt8, kFamilyPoolBf16, kFamilyPoolFloat, kFamilyResize, kFamilyNormalizeBf16, kFamilyNormalize, kFamilySoftmaxBf16, kFamilySoftmax, kFamilyReduce,
    kFamilyBinaryByte, kFamilyBinaryBf16, kFamilyBinaryFloat, kFamilyCheapUnary, kFamilyUnaryByte, kFamilyUnaryBf16, kFamilyCurve, kFamilyUnaryFloat,
    kFamilyQuantize, kFamilyDequantize, kFamilyDynamicQuantize, kFamilyCast, kFamilyTranspose, kFamilyCopy, kFamilyGather, kFamilyMove, kFamilyRecurrent, kFamilyReference,
    kFamilyOther;
const CostFamily kFamilyPoolInt8 = {"pool_int8", "*maxpool_u8 *avgpool_u8", "*", CountPool};
const CostFamily kFamilyPoolBf16 = {"pool_bf16", "*maxpool_bf16 *avgpool_bf16", "*", CountPool};
const CostFamily kFamilyPoolFloat = {"pool_f32", "*maxpool_f32 *avgpool_f32", "*", CountPool};
const CostFamily kFamilyResize = {"resize", "resize_*", "*", Count};
const CostFamily kFamilyNormalizeBf16 = {"normalize_bf16", "*_norm_bf16", "*", Count};
const CostFamily kFamilyNormalize = {"normalize", "*_norm_*", "*", Count};
const CostFamily kFamilySoftmaxBf16 = {"softmax_bf16", "*softmax_bf16", "*", Count};
const CostFamily kFamilySoftmax = {"softmax", "*softmax_*", "*", Count};
const CostFamily kFamilyReduce = {"reduce", "Reduce* reduce_* argmax_* argmin_*", "*", CountReduce};
const CostFamily kFamilyBinaryByte = {"binary_u8", "add_u8 sub_u8 mul_u8 div_u8 max_u8 min_u8 pow_u8 prelu_u8", "*", CountBinary};
const CostFamily kFamilyBinaryBf16 = {"binary_bf16", "add_bf16 sub_bf16 mul_bf16 div_bf16 max_bf16 min_bf16 pow_bf16 prelu_bf16", "*", CountBinary};
const CostFamily kFamilyBinaryFloat = {"binary_f32", "add_f32 sub_f32 mul_f32 div_f32 max_f32 min_f32 pow_f32 prelu_f32", "*", CountBinary};
const CostFamily kFamilyCheapUnary = {"cheap_unary", "Relu_f32 Clip_f32 LeakyRelu_f32 Abs_f32 Neg_f32 Sqrt_f32 Reciprocal_f32 Floor_f32 Ceil_f32 Round_f32 Sign_f32", "*", CountUnary};
const CostFamily kFamilyUnaryByte = {"unary_u8", "?*_u8", "*", CountUnary};
const CostFamily kFamilyUnaryBf16 = {"unary_bf16", "?*_bf16", "*", CountUnary};
const CostFamily kFamilyCurve = {"curve_f32", "Sigmoid_f32 Tanh_f32 Exp_f32 Erf_f32 Gelu_f32 Silu_f32 HardSigmoid_f32 HardSwish_f32 Elu_f32 Celu_f32 Selu_f32", "*", CountUnary};
const CostFamily kFamilyUnaryFloat = {"unary_f32", "?*_f32", "*", CountUnary};
const CostFamily kFamilyQuantize = {"quantize", "quantize_*", "*", Count};
const CostFamily kFamilyDequantize = {"dequantize", "dequantize*", "*", Count};
const CostFamily kFamilyDynamicQuantize = {"dynamic_quantize", "dynamic_quantize", "*", Count};
const CostFamily kFamilyCast = {"cast", "cast*", "*", Count};
const CostFamily kFamilyTranspose = {"transpose", "transpose", "*", CountTranspose};
const CostFamily kFamilyCopy = {"copy", "copy* concat split", "*", Count};
const CostFamily kFamilyGather = {"gather", "gather*", "*", CountGather};
const CostFamily kFamilyMove = {"move", "pad slice expand tile *space*", "*", Count};
const CostFamily kFamilyRecurrent = {"recurrent", "reference/LSTM reference/GRU reference/RNN", "*", CountReference};
const CostFamily kFamilyReference = {"reference", "reference/*", "*", CountReference};
const CostFamily kFamilyOther = {"other", "*", "*", Count};

}  // namespace evoq
