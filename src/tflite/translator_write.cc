// What rows add to the graph: nodes, constants, activations, values of outputs.
#include "kernels/requant.h"
#include "tflite/translator.h"

namespace evoq::tflite {
namespace {

// The schema's numbers of fused activations.
enum Fused { kFusedNone, kFusedRelu, kFusedReluN1To1, kFusedRelu6, kFusedTanh, kFusedSignBit };

Result<Activation> ActivationOf(int fused) {
  switch (fused) {
    case kFusedNone: return Activation{};
    case kFusedRelu: return Activation{ActivationKind::kRelu};
    case kFusedReluN1To1: return Activation{ActivationKind::kClip, -1, 1};
    case kFusedRelu6: return Activation{ActivationKind::kClip, 0, 6};
    case kFusedTanh: return Activation{ActivationKind::kTanh};
    case kFusedSignBit: return Unsupported("the activation SIGN_BIT");
    default: return InvalidInput("activation number {}, expected 0 to 5", fused);
  }
}

// Whether no real number of the type is changed by the activation: its range is within the bounds.
bool ChangesNothing(const Activation& activation, const QuantParams& q, DType dtype) {
  const int64_t low = IntegerMin(dtype), high = IntegerMax(dtype);
  const float scale = q.scales[0];
  const int32_t zero = q.zero_points[0];
  const float least = DequantizeValue(static_cast<int32_t>(low), scale, zero),
              most = DequantizeValue(static_cast<int32_t>(high), scale, zero);
  if (activation.kind == ActivationKind::kRelu) return least >= 0;
  if (activation.kind != ActivationKind::kClip) return false;
  const auto cut = [&](float bound) {
    return QuantizeValue(bound, scale, zero, static_cast<int32_t>(low), static_cast<int32_t>(high));
  };
  return (least >= activation.alpha || cut(activation.alpha) == low) &&
         (most <= activation.beta || cut(activation.beta) == high);
}

}  // namespace

ValueId Translator::Apply(const char* op, std::vector<ValueId> inputs, Attrs attrs) {
  return graph_.Apply(op, fmt::format("{}_{}", output(0).name, op), std::move(inputs),
                      std::move(attrs));
}

std::vector<ValueId> Translator::ApplyMany(const char* op, std::vector<ValueId> inputs,
                                           size_t outputs, Attrs attrs) {
  Node node;
  node.op = op;
  node.name = output(0).name;
  node.inputs = std::move(inputs);
  node.attrs = std::move(attrs);
  for (size_t i = 0; i < outputs; ++i)
    node.outputs.push_back(graph_.AddValue(fmt::format("{}_{}_{}", output(0).name, op, i)));
  std::vector<ValueId> values = node.outputs;
  graph_.AddNode(std::move(node));
  return values;
}

ValueId Translator::Constant(Tensor tensor) {
  return graph_.AddConstant(output(0).name + "_constant", std::move(tensor));
}

ValueId Translator::Int64Constant(const std::vector<int64_t>& values) {
  return Constant(Tensor::FromValues(values));
}

ValueId Translator::FloatConstant(float value) { return Constant(Tensor::Scalar(value)); }

ValueId Translator::Transposed(ValueId value, const std::vector<int64_t>& perm) {
  return Apply("Transpose", {value}, Attrs::Of("perm", perm));
}

void Translator::Note(const std::string& text) { AddNote(output(0).name, text); }

void Translator::AddNote(const std::string& name, const std::string& text) {
  std::string& notes = graph_.metadata[kNotes];
  if (!notes.empty()) notes += '\n';
  notes += name + ": " + text;
}

Status Translator::Set(size_t i, ValueId value) { return Define(i, value, /*planar=*/false); }

Status Translator::SetPlanar(size_t i, ValueId value) { return Define(i, value, /*planar=*/true); }

Status Translator::SetSame(size_t i, size_t k) {
  return SetForms(Index(outputs_[i]), Index(inputs_[k]));
}

Status Translator::SetForms(size_t tensor, size_t from) {
  EVOQ_TRY(CheckSameValues(tensor, facts_[from]));
  facts_[tensor].sizes = facts_[from].sizes;
  forms_[tensor] = forms_[from];
  constants_[tensor] = constants_[from];
  return {};
}

Status Translator::CheckSameValues(size_t tensor, const TensorFacts& given) const {
  const TensorFacts& facts = facts_[tensor];
  if (facts.dtype == given.dtype && facts.quant == given.quant && facts.rank() == given.rank() &&
      facts.elements == given.elements)
    return {};
  return InvalidInput("{} is {}, its value {} is {}", facts.name, facts.type().ToString(),
                      given.name, given.type().ToString());
}

Status Translator::Define(size_t i, ValueId value, bool planar) {
  const size_t t = Index(outputs_[i]);
  const TensorFacts& facts = facts_[t];
  if (facts.quant && !facts.quant->per_tensor())
    return Unsupported("output {}: a computed tensor with a scale for each index of an axis",
                       facts.name);
  if (planar && facts.rank() != 4)
    return InvalidInput("output {} has rank {}, expected 4", facts.name, facts.rank());
  const NodeId producer = graph_.value(value).producer;
  const bool own = producer.valid() && graph_.value(value).users.empty();
  if (own && graph_.node(producer).outputs.size() == 1) graph_.RenameNode(producer, facts.name);
  if (facts.quant) {
    const std::string name = planar ? facts.name + "_planar_value" : facts.name;
    const ValueId quantized = graph_.AddValue(name, QuantType(t));
    graph_.AddNode({.op = "QuantizeLinear",
                    .name = facts.name + "_quantize",
                    .inputs = {value},
                    .outputs = {quantized}});
    value = quantized;
  } else if (own && !planar) {
    graph_.Rename(value, facts.name);
  }
  (planar ? forms_[t].planar : forms_[t].plain) = value;
  return {};
}

Status Translator::AddActivation(int activation, Attrs& attrs) const {
  EVOQ_ASSIGN(const Activation kind, ActivationOf(activation));
  if (kind.kind != ActivationKind::kNone) ActivationToAttrs(kind, attrs);
  return {};
}

Result<ValueId> Translator::Activated(ValueId value, int activation) {
  EVOQ_ASSIGN(const Activation kind, ActivationOf(activation));
  if (kind.kind == ActivationKind::kNone) return value;
  if (output(0).quant) {
    if (ChangesNothing(kind, *output(0).quant, output(0).dtype)) return value;
    const ValueId rounded = graph_.Apply("QuantizeLinear", output(0).name + "_rounded", {value}, {},
                                         QuantType(Index(outputs_[0])));
    value = Apply("DequantizeLinear", {rounded});
  }
  if (kind.kind == ActivationKind::kClip)
    return Apply("Clip", {value, FloatConstant(kind.alpha), FloatConstant(kind.beta)});
  return Apply(kind.kind == ActivationKind::kRelu ? "Relu" : "Tanh", {value});
}

}  // namespace evoq::tflite
