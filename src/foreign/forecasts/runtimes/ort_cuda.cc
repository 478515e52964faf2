// ONNX Runtime's CUDA provider. It has no integer kernels for Q/DQ: pairs run as float arithmetic
// between conversions. Operators without a CUDA kernel run on the CPU, and each value that crosses
// is copied by a Memcpy node.
#include <algorithm>
#include <set>
#include <string_view>

#include "foreign/forecasts/qdq.h"
#include "foreign/forecasts/runtime.h"
#include "passes/match.h"

namespace evoq {
namespace {

// Operators of ai.onnx with a CUDA kernel for float32, sorted.
// clang-format off: one name a line is a page
constexpr std::string_view kKernels[] = {
    "Abs", "Add", "And", "ArgMax", "ArgMin", "Attention", "AveragePool", "BatchNormalization",
    "Cast", "Ceil", "Clip", "Compress", "Concat", "ConcatFromSequence", "ConstantOfShape", "Conv",
    "ConvTranspose", "Cos", "CumSum", "DepthToSpace", "DequantizeLinear", "Div", "Dropout",
    "Einsum", "Elu", "Equal", "Erf", "Exp", "Expand", "EyeLike", "Flatten", "Floor", "GRU",
    "Gather", "GatherElements", "GatherND", "Gelu", "Gemm", "GlobalAveragePool", "GlobalMaxPool",
    "Greater", "GreaterOrEqual", "GridSample", "HardSigmoid", "HardSwish", "Identity", "If",
    "InstanceNormalization", "IsInf", "IsNaN", "LRN", "LSTM", "LayerNormalization", "LeakyRelu",
    "Less", "LessOrEqual", "Log", "LogSoftmax", "Loop", "MatMul", "MatMulInteger", "Max", "MaxPool",
    "Min", "Mod", "Mul", "Neg", "NonZero", "Not", "OneHot", "Or", "PRelu", "Pad", "Pow",
    "QuantizeLinear", "RMSNormalization", "RNN", "RandomNormal", "RandomNormalLike",
    "RandomUniform", "RandomUniformLike", "Range", "Reciprocal", "ReduceL1", "ReduceL2",
    "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
    "ReduceSum", "ReduceSumSquare", "Relu", "Reshape", "Resize", "ReverseSequence", "RoiAlign",
    "RotaryEmbedding", "Round", "Scan", "ScatterElements", "ScatterND", "Selu", "SequenceAt",
    "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength",
    "Shape", "Shrink", "Sigmoid", "Sign", "Sin", "Size", "Slice", "Softmax", "Softplus", "Softsign",
    "SpaceToDepth", "Split", "Sqrt", "Squeeze", "Sub", "Sum", "Tanh", "TensorScatter",
    "ThresholdedRelu", "Tile", "TopK", "Transpose", "Trilu", "Unsqueeze", "Where", "Xor"
};
// clang-format on

// Inputs from `first` on that a CUDA kernel reads from the host: shapes, axes, counts.
struct HostInputs {
  std::string_view op;
  size_t first;
};
constexpr HostInputs kHostInputs[] = {
    {"ConstantOfShape", 0},
    {"CumSum", 1},
    {"Dropout", 1},
    {"Expand", 1},
    {"If", 0},
    {"Loop", 0},
    {"OneHot", 1},
    {"Pad", 1},
    {"Range", 0},
    {"ReduceL1", 1},
    {"ReduceL2", 1},
    {"ReduceLogSum", 1},
    {"ReduceLogSumExp", 1},
    {"ReduceMax", 1},
    {"ReduceMean", 1},
    {"ReduceMin", 1},
    {"ReduceProd", 1},
    {"ReduceSum", 1},
    {"ReduceSumSquare", 1},
    {"Reshape", 1},
    {"Resize", 1},
    {"Slice", 1},
    {"Split", 1},
    {"Squeeze", 1},
    {"Tile", 1},
    {"TopK", 1},
    {"Trilu", 1},
    {"Unsqueeze", 1},
};

bool ReadsFromHost(const Node& node, size_t i) {
  const auto row = std::find_if(std::begin(kHostInputs), std::end(kHostInputs),
                                [&](const HostInputs& h) { return h.op == node.op; });
  return node.domain.empty() && row != std::end(kHostInputs) && i >= row->first;
}
bool WritesToHost(const Node& node) {
  return node.domain.empty() && (node.op == "Shape" || node.op == "Size");
}

class Cuda {
 public:
  explicit Cuda(const Graph& graph) : graph_(graph) {}

  Fates Run() {
    for (NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      if (IsFolded(node)) continue;
      if (!HasKernel(node)) {
        host_.insert(id);
      } else if (PrefersHost(node)) {
        host_.insert(id);
        shapes_.insert(id);
      }
    }
    for (NodeId id : graph_.order()) Tell(id);
    for (int i = 0; i < graph_.value_count(); ++i) CountCopies(ValueId{i});
    return std::move(fates_);
  }

 private:
  // Computed from constants alone: done once, when the model is loaded; but for DequantizeLinear,
  // which stays.
  bool IsFolded(const Node& node) const {
    return !IsDequantize(node) && !node.inputs.empty() &&
           std::all_of(node.inputs.begin(), node.inputs.end(),
                       [&](ValueId v) { return !v.valid() || graph_.value(v).is_constant(); });
  }

  bool HasKernel(const Node& node) const {
    if (node.attrs.Has("evoq.from") || !node.domain.empty()) return false;
    if (!std::binary_search(std::begin(kKernels), std::end(kKernels), std::string_view(node.op)))
      return false;
    const ValueId x = node.input(0);
    const DType in = x.valid() ? graph_.value(x).type.dtype : DType::kUndefined;
    if (node.op == "DequantizeLinear") return in != DType::kInt32 && DTypeBits(in) <= 8;
    if (node.op == "MatMulInteger")
      return in == DType::kInt8 && graph_.value(node.input(1)).type.dtype == DType::kInt8;
    if (node.op == "Resize") return in != DType::kInt8 && node.attrs.Int("antialias", 0) == 0;
    if (node.op == "NonZero") return DTypeBits(in) >= 8 && in != DType::kInt8;
    if (node.op == "ReduceMax" || node.op == "ReduceMean" || node.op == "ReduceSum")
      return IsFloat(in) || in == DType::kInt32 || in == DType::kInt64;
    return true;
  }

  bool OnHost(ValueId v) const {
    const NodeId producer = graph_.value(v).producer;
    return graph_.alive(producer) &&
           (host_.count(producer) > 0 || WritesToHost(graph_.node(producer)));
  }

  bool IsShapeValue(ValueId v) const {
    const NodeId producer = graph_.value(v).producer;
    return graph_.alive(producer) &&
           (shapes_.count(producer) > 0 ||
            (!host_.count(producer) && WritesToHost(graph_.node(producer))));
  }

  // Arithmetic on shapes, which CUDA kernels write to the host, stays there.
  bool PrefersHost(const Node& node) const {
    if (!node.bodies.empty()) return false;
    bool any = false;
    for (ValueId v : node.inputs) {
      if (!v.valid() || graph_.value(v).is_constant()) continue;
      if (IsFloat(graph_.value(v).type.dtype) || graph_.value(v).type.quantized() ||
          !IsShapeValue(v))
        return false;
      any = true;
    }
    return any;
  }

  void Tell(NodeId id) {
    const Node& node = graph_.node(id);
    fates_.nodes.resize(std::max<size_t>(fates_.nodes.size(), id.index + 1), Fate::kNone);
    if (host_.count(id)) {
      if (HasFate(graph_, node) || IsDequantize(node)) fates_.nodes[id.index] = Fate::kHost;
    } else if (HasFate(graph_, node)) {
      const bool integers = node.op == "MatMulInteger" || IsWeightOnly(node);
      const bool moved = node.input(0).valid() && graph_.value(node.inputs[0]).type.quantized();
      fates_.nodes[id.index] = integers ? Fate::kInteger : moved ? Fate::kMoved : Fate::kFloat;
    }
    if (!IsQuantize(node) && !IsDequantize(node)) return;
    const bool weights = IsDequantize(node) && graph_.value(node.input(0)).is_constant();
    if (weights) {
      const auto& users = graph_.value(node.outputs[0]).users;
      if (!std::all_of(users.begin(), users.end(),
                       [&](NodeId user) { return IsWeightOnly(graph_.node(user)); }))
        fates_.weights.push_back(id);
    } else {
      fates_.conversions.push_back(id);
    }
  }

  // MatMulNBits: weights of 4 or 8 bits, activations in float.
  bool IsWeightOnly(const Node& node) const {
    if (node.op != "MatMul" || !node.domain.empty() ||
        ReadQuantType(graph_, node.input(0)) != nullptr)
      return false;
    const TensorType* w = ReadQuantType(graph_, node.input(1));
    return w != nullptr && IsConstantLike(graph_, node.input(1)) && w->shape.rank() == 2 &&
           !OnlyQuantizer(graph_, node.outputs[0]).valid();
  }

  // One Memcpy for each value that is read on the side where it is not.
  void CountCopies(ValueId v) {
    const Value& value = graph_.value(v);
    const bool input = graph_.IsInput(v), computed = graph_.alive(value.producer);
    if (!input && !computed) return;
    bool by_host = false, by_device = false;
    for (NodeId user : value.users) {
      if (!graph_.alive(user)) continue;
      const Node& node = graph_.node(user);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] != v) continue;
        (host_.count(user) || ReadsFromHost(node, i) ? by_host : by_device) = true;
      }
    }
    const bool from_host = input || OnHost(v);
    if (input ? by_host && by_device : from_host && by_device) fates_.copies.push_back({v, false});
    if (!from_host && by_host) fates_.copies.push_back({v, true});
  }

  const Graph& graph_;
  std::set<NodeId> host_, shapes_;  // on the CPU; of those, the ones that could run elsewhere
  Fates fates_;
};

Fates Run(const Graph& graph) { return Cuda(graph).Run(); }

}  // namespace

extern const Runtime kRuntimeOrtCuda = {
    .name = "ort-cuda",
    .doc = "ONNX Runtime's CUDA provider",
    .source =
        "ONNX Runtime docs/OperatorKernels.md (operator set 24), CUDAExecutionProvider; "
        "microsoft/onnxruntime#18032 (Memcpy), #24807 (no QLinearConv), #7745",
    .placement = "",
    .forecast = Run,
};

}  // namespace evoq
