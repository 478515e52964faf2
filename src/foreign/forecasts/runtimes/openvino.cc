// OpenVINO's CPU plug-in: Q/DQ are read as FakeQuantize, and the low-precision transformations move
// them.
#include <algorithm>

#include "foreign/forecasts/qdq.h"
#include "foreign/forecasts/runtime.h"

namespace evoq {
namespace {

// ConvTranspose runs in float32 whatever its inputs are. Functions of one value read and write
// integers, too, within one generated kernel.
constexpr IntegerOp kTable[] = {
    {"Conv", IntegerForm::kWeighted},
    {"MatMul", IntegerForm::kWeighted},
    {"Gemm", IntegerForm::kWeighted},
    {"AveragePool", IntegerForm::kEvery},
    {"GlobalAveragePool", IntegerForm::kEvery},
    {"Add", IntegerForm::kEvery},
    {"Mul", IntegerForm::kEvery},
    {"ReduceMean", IntegerForm::kEvery},
    {"Concat", IntegerForm::kMove},
    {"MaxPool", IntegerForm::kMove},
    {"Resize", IntegerForm::kMove},
    {"Expand", IntegerForm::kMove},
    {"Reshape", IntegerForm::kMove},
    {"Transpose", IntegerForm::kMove},
    {"Flatten", IntegerForm::kMove},
    {"Squeeze", IntegerForm::kMove},
    {"Unsqueeze", IntegerForm::kMove},
    {"Slice", IntegerForm::kMove},
    {"Split", IntegerForm::kMove},
    {"Gather", IntegerForm::kMove},
    {"DepthToSpace", IntegerForm::kMove},
    {"Pad", IntegerForm::kMove},
    {"Relu", IntegerForm::kAfterOrEvery},
    {"Clip", IntegerForm::kAfterOrEvery},
    {"LeakyRelu", IntegerForm::kAfterOrEvery},
    {"PRelu", IntegerForm::kAfterOrEvery},
    {"Sigmoid", IntegerForm::kAfterOrEvery},
    {"Tanh", IntegerForm::kAfterOrEvery},
    {"HardSwish", IntegerForm::kAfterOrEvery},
    {"Elu", IntegerForm::kAfterOrEvery},
};

bool AllEqual(const std::vector<int32_t>& zeros) {
  return std::all_of(zeros.begin(), zeros.end(), [&](int32_t z) { return z == zeros[0]; });
}

// A depthwise convolution may read a scale for each channel: each output has that of one.
bool ScalesFit(const TensorType& activation, const TensorType& weights) {
  const QuantParams& q = *activation.quant;
  if (q.per_tensor()) return true;
  const Shape& w = weights.shape;
  return q.block == 0 && q.axis == 1 && w.ranked() && w.rank() > 2 && w[1].value == 1 &&
         w[0].value == static_cast<int64_t>(q.scales.size()) && AllEqual(q.zero_points);
}

// Activations may be signed or not and have a zero point; weights are int8 with zero points of 0.
bool Takes(const TensorType& activation, const TensorType& weights) {
  return DTypeBits(activation.dtype) == 8 && ScalesFit(activation, weights) &&
         weights.dtype == DType::kInt8 &&
         std::all_of(weights.quant->zero_points.begin(), weights.quant->zero_points.end(),
                     [](int32_t z) { return z == 0; });
}

// Integer operators that its ONNX reader has no rule for, or only for weights with one scale.
bool Refuses(const Graph& graph, const Node& node) {
  const std::string name = QlinearName(node);
  for (const char* op : {"QGemm", "QLinearGlobalAveragePool", "QLinearLeakyRelu"}) {
    if (name == op) return true;
  }
  const TensorType* w = !name.empty() && IsWeighted(node) ? WeightQuantType(graph, node) : nullptr;
  return w != nullptr && !w->quant->per_tensor();
}

Fates Run(const Graph& graph) { return Refuse(graph, FatesByTable(graph, kTable, Takes), Refuses); }

}  // namespace

extern const Runtime kRuntimeOpenvino = {
    .name = "openvino",
    .doc = "OpenVINO's CPU plug-in",
    .source =
        "OpenVINO 2025 documentation, Low Precision Transformations; executed graphs of OpenVINO "
        "2026.4 (weights in uint8 run in bf16 or f32)",
    .placement = "openvino",
    .forecast = Run,
};

}  // namespace evoq
