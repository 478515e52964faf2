// OpenVINO's CPU plug-in: Q/DQ are read as FakeQuantize, and the low-precision transformations move
// them.
#include <algorithm>

#include "foreign/forecasts/runtime.h"

namespace evoq {
namespace {

constexpr IntegerOp kTable[] = {
    {"Conv", IntegerForm::kWeighted},     {"ConvTranspose", IntegerForm::kWeighted},
    {"MatMul", IntegerForm::kWeighted},   {"Gemm", IntegerForm::kWeighted},
    {"AveragePool", IntegerForm::kEvery}, {"GlobalAveragePool", IntegerForm::kEvery},
    {"Add", IntegerForm::kEvery},         {"Mul", IntegerForm::kEvery},
    {"ReduceMean", IntegerForm::kEvery},  {"Concat", IntegerForm::kMove},
    {"MaxPool", IntegerForm::kMove},      {"Reshape", IntegerForm::kMove},
    {"Transpose", IntegerForm::kMove},    {"Flatten", IntegerForm::kMove},
    {"Squeeze", IntegerForm::kMove},      {"Unsqueeze", IntegerForm::kMove},
    {"Slice", IntegerForm::kMove},        {"Split", IntegerForm::kMove},
    {"Gather", IntegerForm::kMove},       {"DepthToSpace", IntegerForm::kMove},
    {"Pad", IntegerForm::kMove},          {"Relu", IntegerForm::kAfter},
    {"Clip", IntegerForm::kAfter},        {"LeakyRelu", IntegerForm::kAfter},
    {"Sigmoid", IntegerForm::kAfter},     {"Tanh", IntegerForm::kAfter},
    {"HardSwish", IntegerForm::kAfter},
};

// Activations may be signed or not and have a zero point; weights are int8 with zero points of 0.
bool Takes(const TensorType& activation, const TensorType& weights) {
  return DTypeBits(activation.dtype) == 8 && activation.quant->per_tensor() &&
         weights.dtype == DType::kInt8 &&
         std::all_of(weights.quant->zero_points.begin(), weights.quant->zero_points.end(),
                     [](int32_t z) { return z == 0; });
}

Fates Run(const Graph& graph) { return FatesByTable(graph, kTable, Takes); }

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
