// The oldest operator set that can say what a graph says.
#include <algorithm>
#include <utility>

#include "base/math.h"
#include "onnx/export.h"
#include "onnx/onnx.h"
#include "ops/op.h"

namespace evoq {
namespace {

bool HasAttr(const Node& node, const char* attr) { return node.attrs.Has(attr); }

struct OperatorSince {
  const char* op;
  int opset;
  // Whether the node uses what this version brought; nullptr: every use does.
  bool (*uses)(const Node&);
};

// ReduceSum has both since 13.
constexpr auto kAxesInput = [](const Node& node) {
  return node.input(1).valid() || HasAttr(node, "noop_with_empty_axes");
};

constexpr OperatorSince kSince[] = {
    {"CumSum", 14, nullptr},
    {"HardSwish", 14, nullptr},
    {"Trilu", 14, nullptr},
    {"Reshape", 14, [](const Node& n) { return n.attrs.Int("allowzero") != 0; }},
    {"GRU", 14, [](const Node& n) { return n.attrs.Int("layout") != 0; }},
    {"LSTM", 14, [](const Node& n) { return n.attrs.Int("layout") != 0; }},
    {"RNN", 14, [](const Node& n) { return n.attrs.Int("layout") != 0; }},
    {"Bernoulli", 15, nullptr},
    {"CastLike", 15, nullptr},
    {"Optional", 15, nullptr},
    {"Shape", 15, [](const Node& n) { return HasAttr(n, "start") || HasAttr(n, "end"); }},
    {"RoiAlign", 16, nullptr},
    {"ScatterElements", 16, [](const Node& n) { return HasAttr(n, "reduction"); }},
    {"ScatterND", 16, [](const Node& n) { return HasAttr(n, "reduction"); }},
    {"BlackmanWindow", 17, nullptr},
    {"HammingWindow", 17, nullptr},
    {"HannWindow", 17, nullptr},
    {"LayerNormalization", 17, nullptr},
    {"MelWeightMatrix", 17, nullptr},
    {"STFT", 17, nullptr},
    {"SequenceMap", 17, nullptr},
    {"ReduceL1", 18, kAxesInput},
    {"ReduceL2", 18, kAxesInput},
    {"ReduceLogSum", 18, kAxesInput},
    {"ReduceLogSumExp", 18, kAxesInput},
    {"ReduceMax", 18, kAxesInput},
    {"ReduceMean", 18, kAxesInput},
    {"ReduceMin", 18, kAxesInput},
    {"ReduceProd", 18, kAxesInput},
    {"ReduceSumSquare", 18, kAxesInput},
    {"Split", 18, [](const Node& n) { return HasAttr(n, "num_outputs"); }},
    {"Pad", 18, [](const Node& n) { return n.input(3).valid(); }},
    {"Pad", 19, [](const Node& n) { return n.attrs.String("mode") == "wrap"; }},
    {"Resize", 18,
     [](const Node& n) {
       return HasAttr(n, "antialias") || HasAttr(n, "axes") ||
              HasAttr(n, "keep_aspect_ratio_policy");
     }},
    {"Resize", 19,
     [](const Node& n) {
       return n.attrs.String("coordinate_transformation_mode") == "half_pixel_symmetric";
     }},
    {"ScatterElements", 18,
     [](const Node& n) {
       return n.attrs.String("reduction") == "max" || n.attrs.String("reduction") == "min";
     }},
    {"ScatterND", 18,
     [](const Node& n) {
       return n.attrs.String("reduction") == "max" || n.attrs.String("reduction") == "min";
     }},
    {"LpPool", 18,
     [](const Node& n) { return HasAttr(n, "dilations") || HasAttr(n, "ceil_mode"); }},
    {"AveragePool", 19, [](const Node& n) { return HasAttr(n, "dilations"); }},
    {"Cast", 19, [](const Node& n) { return HasAttr(n, "saturate"); }},
    {"CastLike", 19, [](const Node& n) { return HasAttr(n, "saturate"); }},
    {"OptionalHasElement", 18, nullptr},
    {"OptionalGetElement", 18, nullptr},
    {"BitwiseAnd", 18, nullptr},
    {"BitwiseNot", 18, nullptr},
    {"BitwiseOr", 18, nullptr},
    {"BitwiseXor", 18, nullptr},
    {"CenterCropPad", 18, nullptr},
    {"Col2Im", 18, nullptr},
    {"Mish", 18, nullptr},
    {"DeformConv", 19, nullptr},
    {"AffineGrid", 20, nullptr},
    {"DFT", 20, nullptr},
    {"Gelu", 20, nullptr},
    {"GridSample", 20, nullptr},
    {"ImageDecoder", 20, nullptr},
    {"RegexFullMatch", 20, nullptr},
    {"StringConcat", 20, nullptr},
    {"StringSplit", 20, nullptr},
    {"GroupNormalization", 21, nullptr},
    {"Attention", 23, nullptr},
    {"Attention", 24, [](const Node& n) { return n.input(6).valid(); }},
    {"Attention", 25,
     [](const Node& n) {
       return HasAttr(n, "left_window_size") || HasAttr(n, "right_window_size");
     }},
    {"Cast", 24, [](const Node& n) { return HasAttr(n, "round_mode"); }},
    {"RMSNormalization", 23, nullptr},
    {"RotaryEmbedding", 23, nullptr},
    {"Swish", 24, nullptr},
    {"TensorScatter", 24, nullptr},
    {"BitCast", 26, nullptr},
    {"CumProd", 26, nullptr},
    {"CausalConvWithState", 27, nullptr},
    {"LinearAttention", 27, nullptr},
    {"SwiGLU", 28, nullptr},
};

// Operators take these types since then.
constexpr std::pair<DType, int> kTypeSince[] = {
    {DType::kFloat8E4M3FN, 19},   {DType::kFloat8E4M3FNUZ, 19}, {DType::kFloat8E5M2, 19},
    {DType::kFloat8E5M2FNUZ, 19}, {DType::kInt4, 21},           {DType::kUint4, 21},
    {DType::kBfloat16, 22},       {DType::kFloat4E2M1, 23},     {DType::kFloat8E8M0, 24},
    {DType::kInt2, 25},           {DType::kUint2, 25},
};

int TypeOpset(const Node& node, const TensorType& type) {
  const bool blocked = type.quantized() && type.quant->block > 0;
  for (const auto& [dtype, since] : kTypeSince) {
    if (type.dtype == dtype) return blocked ? std::max(since, 21) : since;
  }
  const bool quantizes =
      type.quantized() || node.op == "QuantizeLinear" || node.op == "DequantizeLinear";
  const bool wide = quantizes && (type.dtype == DType::kInt16 || type.dtype == DType::kUint16);
  if (wide || blocked) return 21;
  if (type.dtype == DType::kString && node.op == "Equal") return 19;
  const bool reduces_bools =
      type.dtype == DType::kBool && (node.op == "ReduceMax" || node.op == "ReduceMin");
  return reduces_bools ? 20 : kOldestExport;
}

// Whether a last window that begins in the padding is left out, which inference for older operator
// sets does not know.
bool LeavesOutAWindow(const Graph& graph, const Node& node) {
  if ((node.op != "MaxPool" && node.op != "AveragePool") || node.attrs.Int("ceil_mode") == 0)
    return false;
  const Shape &x = graph.value(node.inputs[0]).type.shape,
              &y = graph.value(node.outputs[0]).type.shape;
  const std::vector<int64_t> kernel = node.attrs.Ints("kernel_shape"),
                             strides = node.attrs.Ints("strides"), pads = node.attrs.Ints("pads"),
                             dilations = node.attrs.Ints("dilations");
  for (size_t i = 0; i < kernel.size() && static_cast<int>(i) + 2 < std::min(x.rank(), y.rank());
       ++i) {
    const Dim &from = x[static_cast<int>(i) + 2], &to = y[static_cast<int>(i) + 2];
    if (!from.known() || !to.known()) continue;
    const int64_t padding = pads.empty() ? 0 : pads[i] + pads[i + kernel.size()],
                  stride = strides.empty() ? 1 : strides[i];
    const int64_t reach = (kernel[i] - 1) * (dilations.empty() ? 1 : dilations[i]) + 1;
    if (to.value < CeilDiv(from.value + padding - reach, stride) + 1) return true;
  }
  return false;
}

}  // namespace

NeededOpset OpsetNeeded(const Graph& graph) {
  NeededOpset needed{kOldestExport, ""};
  const auto need = [&](int opset, auto&& why) {
    if (opset > needed.opset) needed = {opset, why()};
  };
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const auto label = [&] { return NodeLabel(node); };
    for (const auto& body : node.bodies) {
      const NeededOpset inner = OpsetNeeded(*body);
      need(std::max(inner.opset, kExportOpset),
           [&] { return inner.why.empty() ? label() : inner.why; });
    }
    for (const OperatorSince& row : kSince) {
      if (node.op == row.op && node.domain.empty() && (row.uses == nullptr || row.uses(node)))
        need(row.opset, label);
    }
    if (LeavesOutAWindow(graph, node)) need(22, label);
    if (node.attrs.String("activation") == "Gelu") need(20, label);
    if (node.attrs.String("activation") == "HardSwish") need(14, label);
    const bool onnx_form = node.op == "QuantizeLinear" || node.op == "DequantizeLinear";
    if (onnx_form && (node.attrs.Int("block_size") != 0 || HasAttr(node, "output_dtype")))
      need(21, label);
    for (const auto* values : {&node.inputs, &node.outputs}) {
      for (ValueId v : *values) {
        if (!v.valid()) continue;
        const TensorType& type = graph.value(v).type;
        need(TypeOpset(node, type), [&] {
          const bool blocked = type.quantized() && type.quant->block > 0;
          return fmt::format("value {} of {}{}", graph.value(v).name, DTypeName(type.dtype),
                             blocked ? " in blocks" : "");
        });
      }
    }
  }
  return needed;
}

int IrVersionOf(int opset) {
  constexpr int kFirstOpset[][2] = {{25, 13}, {24, 12}, {23, 11}, {21, 10}, {19, 9}};
  for (const auto& [first, ir] : kFirstOpset) {
    if (opset >= first) return ir;
  }
  return 8;
}

}  // namespace evoq
