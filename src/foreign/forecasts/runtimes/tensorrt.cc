// TensorRT with explicit quantization. It moves QuantizeLinear up and DequantizeLinear down through
// operators that only move values, computes weighted operators and pooling in integers when their
// inputs are dequantized, and adds a residual within the convolution.
#include <algorithm>

#include "foreign/forecasts/runtime.h"

namespace evoq {
namespace {

constexpr IntegerOp kTable[] = {
    {"Conv", IntegerForm::kWeighted},     {"ConvTranspose", IntegerForm::kWeighted},
    {"MatMul", IntegerForm::kWeighted},   {"Gemm", IntegerForm::kWeighted},
    {"AveragePool", IntegerForm::kEvery}, {"GlobalAveragePool", IntegerForm::kEvery},
    {"Add", IntegerForm::kEvery},         {"Mul", IntegerForm::kEvery},
    {"Concat", IntegerForm::kMove},       {"MaxPool", IntegerForm::kMove},
    {"Reshape", IntegerForm::kMove},      {"Transpose", IntegerForm::kMove},
    {"Flatten", IntegerForm::kMove},      {"Squeeze", IntegerForm::kMove},
    {"Unsqueeze", IntegerForm::kMove},    {"Slice", IntegerForm::kMove},
    {"Gather", IntegerForm::kMove},       {"Split", IntegerForm::kMove},
    {"DepthToSpace", IntegerForm::kMove}, {"SpaceToDepth", IntegerForm::kMove},
    {"Expand", IntegerForm::kMove},       {"Pad", IntegerForm::kMove},
    {"Relu", IntegerForm::kAfter},        {"Clip", IntegerForm::kAfter},
    {"LeakyRelu", IntegerForm::kAfter},   {"Sigmoid", IntegerForm::kAfter},
    {"Tanh", IntegerForm::kAfter},        {"HardSwish", IntegerForm::kAfter},
};

// int8 with zero points of 0 only, activations per tensor.
bool Takes(const TensorType& activation, const TensorType& weights) {
  const auto zero = [](const TensorType& type) {
    return type.dtype == DType::kInt8 &&
           std::all_of(type.quant->zero_points.begin(), type.quant->zero_points.end(),
                       [](int32_t z) { return z == 0; });
  };
  return zero(activation) && zero(weights) && activation.quant->per_tensor();
}

// Its ONNX reader has no such operators.
bool Refuses(const Graph&, const Node& node) {
  return !QlinearName(node).empty() || node.op == "DynamicQuantizeLinear" ||
         node.op == "ConvInteger" || node.op == "MatMulInteger";
}

Fates Run(const Graph& graph) { return Refuse(graph, FatesByTable(graph, kTable, Takes), Refuses); }

}  // namespace

extern const Runtime kRuntimeTensorrt = {
    .name = "tensorrt",
    .doc = "TensorRT 8.6 to 11 with explicit quantization (Q/DQ in the ONNX file)",
    .source =
        "TensorRT 10 and 11 documentation, Explicit Quantization: Q/DQ propagation, placement "
        "recommendations; NVIDIA/TensorRT#1992, #2774; onnx-tensorrt docs/operators.md",
    .placement = "tensorrt",
    .forecast = Run,
};

}  // namespace evoq
