// Layers whose kernel does not gain from fewer bits.
#include <algorithm>
#include <set>

#include "foreign/profiles/pairing.h"
#include "foreign/profiles/rule.h"

namespace evoq {
namespace {

bool IsLinear(const ForeignLayer& layer) {
  return layer.group == LayerGroup::kConv || layer.group == LayerGroup::kMatMul;
}

bool HasConversions(const ForeignRun& run) {
  for (const ForeignLayer& layer : run.layers) {
    if (layer.conversion == Conversion::kQuantize || layer.conversion == Conversion::kDequantize)
      return true;
  }
  return false;
}

// Convolutions and matrix products in float, in a model that was quantized.
std::vector<Loss> FindFloat(const ProfileCase& c) {
  std::vector<Loss> losses;
  if (!c.run.quantized() && !HasConversions(c.run)) return losses;
  for (size_t i = 0; i < c.run.layers.size(); ++i) {
    const ForeignLayer& layer = c.run.layers[i];
    if (IsLinear(layer) && NarrowingShare(layer) > 0)
      losses.push_back({i, layer.ms * NarrowingShare(layer)});
  }
  return losses;
}

// Integer layers that take longer than their counterparts in the baseline: by how much at least,
// or, with `doubtful`, those of which that is not sure.
std::vector<Loss> FindSlower(const ProfileCase& c, bool doubtful) {
  std::vector<Loss> losses;
  if (c.baseline == nullptr || !c.run.detailed || !c.baseline->detailed) return losses;
  const auto in_float = [](const ForeignLayer& layer) {
    return IsLinear(layer) && NarrowingShare(layer) > 0;
  };
  const std::vector<Counterpart> pairs = PairLayers(c.run, IsLinear, *c.baseline, in_float);
  for (size_t i = 0; i < c.run.layers.size(); ++i) {
    const ForeignLayer& layer = c.run.layers[i];
    if (!IsLinear(layer) || BitsOf(layer.precision) != 8) continue;
    Counterpart pair = pairs[i];
    if (pair.sure) {
      const ForeignLayer& before = c.baseline->layers[*pair.sure];
      pair = {{}, true, true, before.ms, before.ms, before.has_residual};
    }
    if (!pair.any || layer.ms <= pair.least_ms) continue;
    // Slower than each layer that may be its counterpart, of which none leaves a sum to another
    // layer that is part of this one.
    const bool sure =
        pair.same_kind && layer.ms > pair.most_ms && (pair.all_add || !layer.has_residual);
    if (sure && !doubtful) losses.push_back({i, layer.ms - pair.most_ms});
    if (!sure && doubtful) losses.push_back({i, 0});
  }
  return losses;
}

std::vector<Loss> FindSlowerForSure(const ProfileCase& c) { return FindSlower(c, false); }
std::vector<Loss> FindPerhapsSlower(const ProfileCase& c) { return FindSlower(c, true); }

bool DequantizesConstant(const ForeignLayer& layer) {
  if (layer.type != "DequantizeLinear" || layer.inputs.empty()) return false;
  int64_t elements = 1;
  for (int64_t d : layer.inputs[0].dims)
    elements = d > 0 && elements < (int64_t{1} << 40) ? elements * d : elements;
  // The parameters of a constant input are at least as many bytes as it has (4-bit: half of it).
  return layer.weight_bytes > 0 && 2 * layer.weight_bytes >= elements && elements > 1;
}
std::vector<Loss> FindWeightDequantize(const ProfileCase& c) {
  return LossesWhere(c.run, DequantizesConstant);
}

// The shares are what the slowest fast form of the operator would save: the figures of each rule's
// source, rounded down.
// Half of a ConvInteger, or what it surely takes above its counterpart.
std::vector<Loss> FindConvInteger(const ProfileCase& c) {
  std::vector<Loss> losses = LossesWhere(
      c.run, [](const ForeignLayer& layer) { return layer.type == "ConvInteger"; }, 0.5);
  for (const Loss& slower : FindSlowerForSure(c)) {
    for (Loss& loss : losses) {
      if (loss.layer == slower.layer) loss.ms = std::max(loss.ms, slower.ms);
    }
  }
  return losses;
}

// What a QuantizeLinear writes or a DequantizeLinear reads, constants aside; else nullptr.
const ForeignTensor* StoredOf(const ForeignLayer& layer) {
  if (layer.type == "QuantizeLinear") return layer.outputs.empty() ? nullptr : &layer.outputs[0];
  if (layer.type != "DequantizeLinear" || layer.inputs.empty() || DequantizesConstant(layer))
    return nullptr;
  return &layer.inputs[0];
}

// QLinearConv of signed activations, and the float layers beside pairs that the session could not
// turn into uint8, with the conversions there (the profile names no tensors: sizes tell).
std::vector<Loss> FindSigned(const ProfileCase& c) {
  std::vector<Loss> losses;
  std::set<std::vector<int64_t>> sizes;  // of what is stored as int8, the model's input aside
  for (size_t i = 1; i < c.run.layers.size(); ++i) {
    const ForeignTensor* stored = StoredOf(c.run.layers[i]);
    if (stored != nullptr && stored->format == "int8") sizes.insert(stored->dims);
  }
  bool found = false;
  for (size_t i = 0; i < c.run.layers.size(); ++i) {
    const ForeignLayer& layer = c.run.layers[i];
    if (layer.inputs.empty() || layer.outputs.empty()) continue;
    if (layer.type == "QLinearConv") {
      if (layer.inputs[0].format == "int8") losses.push_back({i, layer.ms * 0.5});
    } else if (IsLinear(layer) && NarrowingShare(layer) > 0 &&
               (sizes.count(layer.inputs[0].dims) || sizes.count(layer.outputs[0].dims))) {
      losses.push_back({i, layer.ms * NarrowingShare(layer)});
      found = true;
    }
  }
  for (size_t i = 1; found && i < c.run.layers.size(); ++i) {
    const ForeignTensor* stored = StoredOf(c.run.layers[i]);
    if (stored != nullptr && sizes.count(stored->dims)) losses.push_back({i, c.run.layers[i].ms});
  }
  return losses;
}

// Integer convolutions and products by uint8 weights, which stand at one place in QLinearConv,
// QLinearMatMul and QGemm; where they are packed and not told, their zero point does.
std::vector<Loss> FindUnsignedWeights(const ProfileCase& c) {
  const auto so = [](const ForeignLayer& layer) {
    const size_t at = layer.weights_told ? 3 : 4;
    return IsLinear(layer) && (layer.type.starts_with("QLinear") || layer.type == "QGemm") &&
           layer.inputs.size() > at && layer.inputs[at].format == "uint8" &&
           layer.where == "CPUExecutionProvider";
  };
  return LossesWhere(c.run, so, 0.5);
}

// What the integer layers between convolutions and products take above all such layers of the
// baseline, by their shares.
std::vector<Loss> FindElementwise(const ProfileCase& c) {
  if (c.baseline == nullptr) return {};
  std::vector<Loss> losses = LossesWhere(c.run, [](const ForeignLayer& layer) {
    return layer.group == LayerGroup::kElementwise && BitsOf(layer.precision) == 8;
  });
  double ms = 0;
  for (const Loss& loss : losses) ms += loss.ms;
  const double excess = ms - c.baseline->GroupMs(LayerGroup::kElementwise);
  if (excess <= 0) return {};
  for (Loss& loss : losses) loss.ms *= excess / ms;
  return losses;
}

std::vector<Loss> FindReference(const ProfileCase& c) {
  const auto so = [&](const ForeignLayer& layer) {
    return layer.where.starts_with("ref") && layer.ms > 0.01 * c.run.layer_sum_ms;
  };
  return LossesWhere(c.run, so, 0.5);
}
std::vector<Loss> FindDynamic(const ProfileCase& c) {
  const auto so = [](const ForeignLayer& layer) {
    // XNNPACK: "Convert (NC, F32, QD8)", "(NC, F32, QDU8)", "(NC, F32, QP8)".
    const bool by_row = layer.conversion == Conversion::kQuantize &&
                        (layer.type.find(", QD") != std::string::npos ||
                         layer.type.find(", QP") != std::string::npos);
    return layer.type.starts_with("DynamicQuant") || by_row;
  };
  return LossesWhere(c.run, so);
}

}  // namespace

extern const ProfileRule kRuleStaysFloat = {
    .code = "stays-float",
    .tool = "",
    .sentence =
        "Convolutions and matrix products compute in float although the model is quantized.",
    .fix =
        "Give both of their inputs Q/DQ (weights per channel); where accuracy forbids it, keep "
        "them together so that fewer conversions are needed.",
    .source =
        "TensorRT developer guide 8.6 and 10; ONNX Runtime quantization guide 1.20; OpenVINO 2024 "
        "runtime counters",
    .find = FindFloat,
};

extern const ProfileRule kRuleSlowerThanBaseline = {
    .code = "int8-layer-slower",
    .tool = "",
    .sentence = "Integer layers slower than the same layer of the baseline.",
    .fix =
        "Keep these layers in float, a first layer of three channels above all; one that writes "
        "float gains by Q/DQ right behind its activation.",
    .source = "the two measured runs",
    .find = FindSlowerForSure,
};

extern const ProfileRule kRuleElementwiseSlower = {
    .code = "int8-elementwise-slower",
    .tool = "onnxruntime",
    .sentence =
        "Integer activations and elementwise operators (QLinearSigmoid, QLinearMul, ...) take "
        "longer than all elementwise layers of the baseline, which has fused or faster ones.",
    .fix =
        "Relu and Clip become part of the integer convolution; where Sigmoid, SiLU, HardSwish or "
        "the sum of two branches must stay, this time is the price of the integer convolutions "
        "around them.",
    .source = "the two measured runs",
    .find = FindElementwise,
};

extern const ProfileRule kRulePerhapsSlower = {
    .code = "int8-layer-unpaired",
    .tool = "",
    .sentence =
        "Integer layers that may be slower than in the baseline: which layer there is the same "
        "one, or whether it does as much, cannot be told.",
    .fix =
        "Compare runs of one model with lasting node names (\"/layer1/conv1/Conv\"); TensorRT "
        "tells "
        "more of engines that are built with --profilingVerbosity=detailed.",
    .source = "the two measured runs",
    .find = FindPerhapsSlower,
    .doubt = true,
};

extern const ProfileRule kRuleWeightsDequantizedEachRun = {
    .code = "weights-dequantized-each-run",
    .tool = "onnxruntime",
    .sentence = "Constants (weights, biases, scales) are dequantized at every inference.",
    .fix =
        "Where activations are float, int8 weights gain nothing here: quantize activations too, or "
        "store the weights in float16. Where they are quantized, the operator behind has no "
        "integer "
        "form: fold a BatchNormalization before quantizing, and leave the others' constants float.",
    .source =
        "ONNX Runtime 1.30: DequantizeLinear of a constant is not folded when it is part of a Q/DQ "
        "form",
    .find = FindWeightDequantize,
};

extern const ProfileRule kRuleConvIntegerKernel = {
    .code = "no-fast-convinteger",
    .tool = "onnxruntime",
    .sentence =
        "ConvInteger has no fast kernel: dynamic quantization makes convolutions slower than "
        "float.",
    .fix = "Quantize convolutional models statically (evoq quantize --scheme int8 --calib DIR).",
    .source = "ONNX Runtime 1.30 CPU: ConvInteger runs 2 to 7 times slower than float32 Conv",
    .find = FindConvInteger,
};

extern const ProfileRule kRuleSignedActivations = {
    .code = "signed-activations",
    .tool = "onnxruntime",
    .sentence =
        "Activations are signed (int8, the default of ONNX Runtime's tool): on x86 the layers "
        "behind their Q/DQ compute in float, integer convolutions of them take about twice as "
        "long.",
    .fix =
        "Quantize activations to uint8 (QUInt8 activations, QInt8 weights), or repair the file: "
        "evoq explain MODEL.onnx --target ort-cpu --fix.",
    .source =
        "ONNX Runtime 1.30 CPU, x86 with VNNI: 2.1x in ResNet-50; 1.32: pairs of int8 with several "
        "readers are not turned into uint8",
    .find = FindSigned,
};

extern const ProfileRule kRuleUnsignedWeights = {
    .code = "unsigned-weights",
    .tool = "onnxruntime",
    .sentence =
        "Weights are uint8: on x86 the products of two unsigned types take about twice as long.",
    .fix =
        "Quantize weights to int8 with zero point 0, per output channel, or repair the file: evoq "
        "explain MODEL.onnx --target ort-cpu --fix --accept-changes.",
    .source = "ONNX Runtime 1.31 CPU, x86 with VNNI: 2 to 3 times; 1.32: 1.94x in a MobileNetV2",
    .find = FindUnsignedWeights,
};

extern const ProfileRule kRuleDynamicRanges = {
    .code = "dynamic-ranges",
    .tool = "onnxruntime tflite msprof",
    .sentence = "Ranges of activations are measured at every inference.",
    .fix = "Calibrate once: static scales need no pass over the activations.",
    .source = "ONNX DynamicQuantizeLinear, opset 11; XNNPACK's operators of types QD8 and QP8",
    .find = FindDynamic,
};

extern const ProfileRule kRuleReferenceKernel = {
    .code = "reference-kernel",
    .tool = "benchmark_app openvino",
    .sentence = "Layers run with a reference kernel, not an optimized one.",
    .fix =
        "Change the operator's form (layout, broadcast, data type) to one that has a kernel, or "
        "keep it in float32.",
    .source = "OpenVINO 2024 to 2026: exec_type beginning with ref",
    .find = FindReference,
};

}  // namespace evoq
