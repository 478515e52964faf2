// Layers whose kernel does not gain from fewer bits.
#include <map>

#include "base/text.h"
#include "doctor/rule.h"

namespace evoq {
namespace {

bool IsLinear(const ForeignLayer& layer) { return layer.group == LayerGroup::kConv || layer.group == LayerGroup::kMatMul; }

bool HasConversions(const ForeignRun& run) {
  for (const ForeignLayer& layer : run.layers) {
    if (layer.conversion == Conversion::kQuantize || layer.conversion == Conversion::kDequantize) return true;
  }
  return false;
}

// Convolutions and matrix products in float, in a model that was quantized.
std::vector<Loss> FindFloat(const DoctorCase& c) {
  std::vector<Loss> losses;
  if (!c.run.quantized() && !HasConversions(c.run)) return losses;
  for (size_t i = 0; i < c.run.layers.size(); ++i) {
    const ForeignLayer& layer = c.run.layers[i];
    if (IsLinear(layer) && NarrowingShare(layer) > 0) losses.push_back({i, layer.ms * NarrowingShare(layer)});
  }
  return losses;
}

// "32x64x56x56 conv": what pairs a layer with its counterpart in the baseline; the n-th of a kind meets the n-th.
std::string KindOf(const ForeignLayer& layer) {
  const std::string dims = layer.outputs.empty() ? "" : fmt::format("{}", fmt::join(layer.outputs[0].dims, "x"));
  return dims + (layer.group == LayerGroup::kConv ? " conv" : " matmul");
}

std::vector<Loss> FindSlower(const DoctorCase& c) {
  std::vector<Loss> losses;
  if (c.baseline == nullptr || !c.run.detailed || !c.baseline->detailed) return losses;
  std::map<std::string, std::vector<double>> before;
  for (const ForeignLayer& layer : c.baseline->layers) {
    if (IsLinear(layer) && NarrowingShare(layer) > 0) before[KindOf(layer)].push_back(layer.ms);
  }
  std::map<std::string, size_t> next, count;
  for (const ForeignLayer& layer : c.run.layers) count[KindOf(layer)] += IsLinear(layer);
  for (size_t i = 0; i < c.run.layers.size(); ++i) {
    const ForeignLayer& layer = c.run.layers[i];
    if (!IsLinear(layer)) continue;
    const std::string kind = KindOf(layer);
    const auto it = before.find(kind);
    const size_t n = next[kind]++;
    if (it == before.end() || it->second.size() != count[kind] || BitsOf(layer.precision) != 8) continue;
    if (layer.ms > it->second[n]) losses.push_back({i, layer.ms - it->second[n]});
  }
  return losses;
}

bool DequantizesConstant(const ForeignLayer& layer) {
  if (layer.type != "DequantizeLinear" || layer.inputs.empty()) return false;
  int64_t elements = 1;
  for (int64_t d : layer.inputs[0].dims) elements = d > 0 && elements < (int64_t{1} << 40) ? elements * d : elements;
  // The parameters of a constant input are at least as many bytes as it has (4-bit: half of it).
  return layer.weight_bytes > 0 && 2 * layer.weight_bytes >= elements && elements > 1;
}
std::vector<Loss> FindWeightDequantize(const DoctorCase& c) { return LossesWhere(c.run, DequantizesConstant); }

// The shares are what the slowest fast form of the operator would save: the figures of each rule's source, rounded down.
std::vector<Loss> FindConvInteger(const DoctorCase& c) {
  return LossesWhere(c.run, [](const ForeignLayer& layer) { return layer.type == "ConvInteger"; }, 0.5);
}
std::vector<Loss> FindSigned(const DoctorCase& c) {
  const auto so = [](const ForeignLayer& layer) { return layer.type == "QLinearConv" && !layer.inputs.empty() && layer.inputs[0].format == "int8"; };
  return LossesWhere(c.run, so, 0.5);
}
std::vector<Loss> FindReference(const DoctorCase& c) {
  const auto so = [&](const ForeignLayer& layer) { return layer.where.starts_with("ref") && layer.ms > 0.01 * c.run.layer_sum_ms; };
  return LossesWhere(c.run, so, 0.5);
}
std::vector<Loss> FindDynamic(const DoctorCase& c) {
  return LossesWhere(c.run, [](const ForeignLayer& layer) { return layer.type == "DynamicQuantizeLinear"; });
}

}  // namespace

extern const DoctorRule kRuleStaysFloat = {
    "stays-float", "", "Convolutions and matrix products compute in float although the model is quantized.",
    "Give both of their inputs Q/DQ (weights per channel); where accuracy forbids it, keep them together so that fewer conversions are needed.",
    "TensorRT developer guide 8.6 and 10; ONNX Runtime quantization guide 1.20; OpenVINO 2024 runtime counters", FindFloat};

extern const DoctorRule kRuleSlowerThanBaseline = {
    "int8-layer-slower", "", "Integer layers slower than the same layer of the baseline: few channels, or an output in float.",
    "Keep the first layer (three channels) in float, or let it write int8 directly by placing Q/DQ right behind its activation.",
    "the two measured runs", FindSlower};

extern const DoctorRule kRuleWeightsDequantizedEachRun = {
    "weights-dequantized-each-run", "onnxruntime", "Constant weights are dequantized at every inference.",
    "Weight-only int8 gains nothing here: quantize the activations too, or store the weights in float16.",
    "ONNX Runtime 1.30: DequantizeLinear of a constant is not folded when it is part of a Q/DQ form", FindWeightDequantize};

extern const DoctorRule kRuleConvIntegerKernel = {
    "no-fast-convinteger", "onnxruntime", "ConvInteger has no fast kernel: dynamic quantization makes convolutions slower than float.",
    "Quantize convolutional models statically (evoq quantize --scheme int8 --calib DIR).",
    "ONNX Runtime 1.30 CPU: ConvInteger runs 2 to 7 times slower than float32 Conv", FindConvInteger};

extern const DoctorRule kRuleSignedActivations = {
    "signed-activations", "onnxruntime", "Integer convolutions with signed activations run about twice as long as with unsigned ones on x86.",
    "Quantize activations to uint8 (QUInt8 activations, QInt8 weights).",
    "ONNX Runtime 1.30 CPU, x86 with VNNI: 2.1x in ResNet-50", FindSigned};

extern const DoctorRule kRuleDynamicRanges = {
    "dynamic-ranges", "onnxruntime", "Ranges of activations are measured at every inference.",
    "Calibrate once: static scales need no pass over the activations.", "ONNX DynamicQuantizeLinear, opset 11", FindDynamic};

extern const DoctorRule kRuleReferenceKernel = {
    "reference-kernel", "benchmark_app", "Layers run with a reference kernel, not an optimized one.",
    "Change the operator's form (layout, broadcast, data type) to one that has a kernel, or keep it in float32.",
    "OpenVINO 2024 to 2026: exec_type beginning with ref", FindReference};

}  // namespace evoq
