// Q/DQ pairs in the wrong places: the layers around them cannot run in integers end to end.
#include <algorithm>

#include "foreign/profiles/pairing.h"
#include "foreign/profiles/rule.h"

namespace evoq {
namespace {

bool IsConversion(const ForeignLayer& layer) {
  return layer.conversion == Conversion::kQuantize || layer.conversion == Conversion::kDequantize;
}

// Quantize layers behind an integer convolution that adds the residual in float.
std::vector<Loss> FindResidual(const ProfileCase& c) {
  std::vector<Loss> losses;
  if (!c.run.quantized()) return losses;
  for (size_t i = 0; i < c.run.layers.size(); ++i) {
    const ForeignLayer& layer = c.run.layers[i];
    if (!layer.has_residual || (!layer.outputs.empty() && !IsFloat(layer.outputs[0].precision)))
      continue;
    for (size_t reader : c.wiring.Readers(i)) {
      if (IsConversion(c.run.layers[reader])) losses.push_back({reader, c.run.layers[reader].ms});
    }
  }
  return losses;
}

bool IsPooling(const ForeignLayer& layer) { return layer.group == LayerGroup::kPooling; }

// Pooling that computes in float although integers could pass through it, with the conversions
// beside it.
std::vector<Loss> FindPooling(const ProfileCase& c) {
  std::vector<Loss> losses;
  if (!c.run.quantized()) return losses;
  const std::vector<Counterpart> pairs = c.baseline
                                             ? PairLayers(c.run, IsPooling, *c.baseline, IsPooling)
                                             : std::vector<Counterpart>();
  for (size_t i = 0; i < c.run.layers.size(); ++i) {
    const ForeignLayer& layer = c.run.layers[i];
    if (!IsPooling(layer)) continue;
    const std::string precision =
        layer.inputs.empty() ? layer.precision : layer.inputs[0].precision;
    if (c.run.detailed && !IsFloat(precision)) continue;
    double lost = IsFloat(precision) ? layer.ms * (1 - 8.0 / BitsOf(precision)) : 0;
    if (!pairs.empty() && pairs[i].sure)
      lost = std::max(lost, layer.ms - c.baseline->layers[*pairs[i].sure].ms);
    losses.push_back({i, lost});
    for (size_t writer : c.wiring.Writers(i)) {
      if (c.run.layers[writer].conversion == Conversion::kReformat)
        losses.push_back({writer, c.run.layers[writer].ms});
    }
    for (size_t reader : c.wiring.Readers(i)) {
      if (c.run.layers[reader].group != LayerGroup::kReformatQdq) continue;
      losses.push_back({reader, c.run.layers[reader].ms});
      for (size_t next : c.wiring.Readers(reader)) {
        if (c.run.layers[next].conversion == Conversion::kQuantize)
          losses.push_back({next, c.run.layers[next].ms});
      }
    }
  }
  return losses;
}

// Conversions of the model's own input.
std::vector<Loss> FindInput(const ProfileCase& c) {
  if (c.run.layers.empty() || !c.run.in_order) return {};
  const ForeignLayer& first = c.run.layers[0];
  if (first.conversion != Conversion::kQuantize && first.conversion != Conversion::kReformat)
    return {};
  if (!first.inputs.empty() && BitsOf(first.inputs[0].precision) == 8) return {};
  return {{0, first.ms}};
}

std::vector<Loss> FindUnfused(const ProfileCase& c) { return LossesWhere(c.run, IsConversion); }

}  // namespace

extern const ProfileRule kRuleResidualNotQuantized = {
    .code = "residual-not-quantized",
    .tool = "",
    .sentence =
        "The residual Add reads float, so that the integer convolution before it writes float and "
        "a separate layer quantizes the sum.",
    .fix =
        "Place Q/DQ on both inputs of every residual Add, the shortcut included: the convolution "
        "then adds and writes int8 itself.",
    .source = "TensorRT issue 1992; TensorRT developer guide 8.6 and 10, Q/DQ placement",
    .find = FindResidual,
};

extern const ProfileRule kRulePoolingInFloat = {
    .code = "pooling-in-float",
    .tool = "",
    .sentence =
        "Pooling runs in float between integer layers: two or four times the bytes, and "
        "conversions "
        "on both sides.",
    .fix = "Place Q/DQ before the pooling, global pooling included: integers pass through it.",
    .source =
        "TensorRT developer guide 8.6 and 10, Q/DQ placement; ONNX Runtime quantization guide",
    .find = FindPooling,
};

extern const ProfileRule kRuleInputConversion = {
    .code = "input-conversion",
    .tool = "",
    .sentence = "The first layer converts the model's float input.",
    .fix =
        "Feed the input in the format of the first convolution (int8 or fp16, channels-last), or "
        "quantize it where it is produced.",
    .source = "trtexec 8.6 to 11 --inputIOFormats; ONNX Runtime quantization guide",
    .find = FindInput,
};

extern const ProfileRule kRuleUnfusedQdq = {
    .code = "unfused-qdq",
    .tool = "",
    .sentence = "QuantizeLinear and DequantizeLinear run as layers of their own.",
    .fix =
        "Place Q/DQ on all inputs of an operator that has an integer kernel, and remove pairs "
        "around operators that have none.",
    .source = "TensorRT developer guide 8.6 and 10; ONNX Runtime quantization guide 1.20",
    .find = FindUnfused,
};

}  // namespace evoq
