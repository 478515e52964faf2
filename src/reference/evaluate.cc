// The driver of definitions: from values as they are stored to what a definition takes, and back.
#include <algorithm>

#include "base/budget_scope.h"
#include "base/math.h"
#include "ops/driver.h"
#include "reference/definition.h"
#include "reference/util.h"

namespace evoq {
namespace {

std::vector<TensorType> TypesOf(std::span<const Tensor> tensors) {
  std::vector<TensorType> types;
  for (const Tensor& t : tensors) types.push_back(t.type());
  return types;
}

bool IsOtherFloat(DType dtype) { return IsFloat(dtype) && dtype != DType::kFloat32; }

// Dequantizes what is quantized.
Result<std::vector<Tensor>> RealInputs(std::span<const Tensor> inputs) {
  std::vector<Tensor> real(inputs.begin(), inputs.end());
  for (Tensor& tensor : real) {
    if (!tensor.defined() || !tensor.type().is_tensor() || !tensor.type().quantized()) continue;
    EVOQ_ASSIGN(tensor, ToFloat32(tensor));
  }
  return real;
}

// `tensor`, a plain one of some float type, as `dtype`: float32 or float64.
Result<Tensor> AsFloat(const Tensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype) return tensor;
  EVOQ_ASSIGN(const Tensor narrow, ToFloat32(tensor));
  return FromFloat32(narrow, dtype);
}

// Strings of all inputs become their ranks among them, so that operators move and compare int64;
// outputs become strings.
Result<std::vector<Tensor>> EvaluateRanks(const Definition& definition, const Node& node,
                                          std::span<const Tensor> inputs,
                                          std::span<const TensorType> types) {
  std::vector<std::string> names;
  for (const Tensor& t : inputs) {
    if (t.defined() && t.dtype() == DType::kString)
      names.insert(names.end(), t.values<std::string>().begin(), t.values<std::string>().end());
  }
  names.emplace_back();  // what operators fill with
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  const size_t longest =
      std::max_element(names.begin(), names.end(), [](const auto& a, const auto& b) {
        return a.size() < b.size();
      })->size();
  std::vector<Tensor> ranks(inputs.begin(), inputs.end());
  for (Tensor& t : ranks) {
    if (!t.defined() || t.dtype() != DType::kString) continue;
    Tensor rank = Tensor::Allocate(TensorType(DType::kInt64, t.shape()));
    for (int64_t i = 0; i < t.elements(); ++i)
      rank.mutable_data<int64_t>()[i] =
          std::lower_bound(names.begin(), names.end(), t.data<std::string>()[i]) - names.begin();
    t = std::move(rank);
  }
  std::vector<TensorType> rank_types(types.begin(), types.end());
  for (TensorType& type : rank_types) {
    if (type.dtype == DType::kString) type.dtype = DType::kInt64;
  }
  EVOQ_ASSIGN(std::vector<Tensor> outputs,
              definition.evaluate({.node = node, .inputs = ranks, .output_types = rank_types}));
  for (size_t i = 0; i < outputs.size() && i < types.size(); ++i) {
    if (!outputs[i].defined() || types[i].dtype != DType::kString) continue;
    EVOQ_TRY(
        SpendMemory(CheckedMul(outputs[i].elements(), static_cast<int64_t>(longest)).value_or(-1),
                    "repeated strings"));
    Tensor strings = Tensor::Allocate(TensorType(DType::kString, outputs[i].shape()));
    for (int64_t k = 0; k < strings.elements(); ++k)
      strings.mutable_data<std::string>()[k] =
          names[static_cast<size_t>(outputs[i].data<int64_t>()[k])];
    outputs[i] = std::move(strings);
  }
  return outputs;
}

bool IsSmall(DType dtype) { return DTypeBits(dtype) < 8 && dtype != DType::kUndefined; }

// Moves elements of fewer than 8 bits as bytes.
Result<std::vector<Tensor>> EvaluateUnpacked(const Definition& definition, const Node& node,
                                             std::span<const Tensor> inputs,
                                             std::span<const TensorType> types) {
  std::vector<Tensor> wide(inputs.begin(), inputs.end());
  for (Tensor& t : wide) {
    if (t.defined()) t = UnpackBits(t);
  }
  std::vector<TensorType> wide_types(types.begin(), types.end());
  for (TensorType& type : wide_types) {
    if (IsSmall(type.dtype))
      type.dtype = IsInteger(type.dtype) && IsSigned(type.dtype) ? DType::kInt8 : DType::kUint8;
  }
  EVOQ_ASSIGN(std::vector<Tensor> outputs,
              definition.evaluate({.node = node, .inputs = wide, .output_types = wide_types}));
  for (size_t i = 0; i < outputs.size() && i < types.size(); ++i) {
    if (outputs[i].defined() && IsSmall(types[i].dtype))
      outputs[i] = PackBits(outputs[i], types[i].dtype);
  }
  return outputs;
}

// The definition on plain values with all floats as `wide`, and its outputs as `types`.
Result<std::vector<Tensor>> EvaluateWide(const Definition& definition, const Node& node,
                                         std::span<const Tensor> inputs,
                                         std::span<const TensorType> types, DType wide) {
  std::vector<Tensor> wide_inputs(inputs.begin(), inputs.end());
  for (Tensor& tensor : wide_inputs) {
    if (!tensor.defined() || !tensor.type().is_tensor() || !IsFloat(tensor.dtype())) continue;
    EVOQ_ASSIGN(tensor, AsFloat(tensor, wide));
  }
  std::vector<TensorType> wide_types(types.begin(), types.end());
  for (TensorType& type : wide_types) {
    if (IsFloat(type.dtype)) type.dtype = wide;
  }
  EVOQ_ASSIGN(
      std::vector<Tensor> outputs,
      definition.evaluate({.node = node, .inputs = wide_inputs, .output_types = wide_types}));
  for (size_t i = 0; i < outputs.size() && i < types.size(); ++i) {
    if (!outputs[i].defined() || !outputs[i].type().is_tensor() || !IsFloat(outputs[i].dtype()) ||
        !IsFloat(types[i].dtype))
      continue;
    if (outputs[i].dtype() == types[i].dtype) continue;
    EVOQ_ASSIGN(const Tensor narrow, ToFloat32(outputs[i]));
    EVOQ_ASSIGN(outputs[i], FromFloat32(narrow, types[i].dtype));
  }
  return outputs;
}

// The definition on real values. Operators that have no arithmetic of their own for floats of
// several widths, or of 16 bits, are computed in the widest of float32 and the inputs' types that
// they have.
Result<std::vector<Tensor>> EvaluateReal(const OpDef& op, const Definition& definition,
                                         const Node& node, std::span<const Tensor> inputs,
                                         std::span<const TensorType> types) {
  bool other_float = false, float64 = false, small = false, strings = false;
  for (const Tensor& tensor : inputs) {
    if (!tensor.defined() || !tensor.type().is_tensor()) continue;
    other_float |= IsOtherFloat(tensor.dtype());
    float64 |= tensor.dtype() == DType::kFloat64;
    small |= IsSmall(tensor.dtype());
    strings |= tensor.dtype() == DType::kString;
  }
  const bool moves = op.quant == QuantTrait::kMove;
  if (strings && op.strings != Strings::kOwn) {
    if (!moves && op.strings != Strings::kRanks) return Unsupported("strings");
    return EvaluateRanks(definition, node, inputs, types);
  }
  auto outputs = definition.evaluate({.node = node, .inputs = inputs, .output_types = types});
  if (outputs || outputs.error().code() != ErrorCode::kUnsupported) return outputs;
  if (small && moves) return EvaluateUnpacked(definition, node, inputs, types);
  if (!other_float) return outputs;
  if (float64) {
    outputs = EvaluateWide(definition, node, inputs, types, DType::kFloat64);
    if (outputs || outputs.error().code() != ErrorCode::kUnsupported) return outputs;
  }
  return EvaluateWide(definition, node, inputs, types, DType::kFloat32);
}

// `types` are as stored, in N,C,spatial... order, as are the inputs.
Result<std::vector<Tensor>> EvaluateStored(const OpDef& op, const Definition& definition,
                                           const Node& node, std::span<const Tensor> inputs,
                                           std::span<const TensorType> types) {
  bool quantized = false;
  for (const Tensor& tensor : inputs) quantized |= tensor.defined() && tensor.type().quantized();
  for (const TensorType& type : types) quantized |= type.quantized();
  if (!quantized) return EvaluateReal(op, definition, node, inputs, types);
  if (definition.evaluate_quantized != nullptr) {
    auto outputs =
        definition.evaluate_quantized({.node = node, .inputs = inputs, .output_types = types});
    if (outputs || outputs.error().code() != ErrorCode::kUnsupported) return outputs;
  }
  EVOQ_ASSIGN(const std::vector<Tensor> real, RealInputs(inputs));
  std::vector<TensorType> real_types;
  for (const TensorType& type : types) real_types.push_back(type.Dequantized());
  EVOQ_ASSIGN(std::vector<Tensor> outputs, EvaluateReal(op, definition, node, real, real_types));
  for (size_t i = 0; i < outputs.size() && i < types.size(); ++i) {
    if (!outputs[i].defined() || !types[i].quantized()) continue;
    TensorType type = types[i];
    type.shape = outputs[i].shape();
    EVOQ_ASSIGN(outputs[i], QuantizeTensor(outputs[i], type));
  }
  return outputs;
}

Result<Tensor> Reordered(const Tensor& tensor, std::vector<int> (*order)(int),
                         TensorType (*type)(const TensorType&)) {
  const int rank = tensor.shape().rank();
  if (rank < 3) return tensor;
  EVOQ_ASSIGN(const Tensor moved, Permuted(tensor, order(rank)));
  return moved.WithType(type(tensor.type()));
}

// Draws what the sizes alone say of the cost; operators whose cost depends on attributes or data
// draw that themselves.
Status SpendOn(const OpDef& op, const Node& node, std::span<const Tensor> stored,
               std::span<const TensorType> outputs) {
  int64_t read = 0, written = 0;
  bool is_static = !stored.empty() && !outputs.empty();
  const auto add = [&](std::span<const TensorType> types, int64_t& bytes) {
    for (const TensorType& type : types) {
      is_static &= type.shape.is_static();
      if (type.is_tensor() && type.dtype != DType::kUndefined && bytes >= 0)
        bytes = CheckedAdd(bytes, type.bytes().value_or(0)).value_or(-1);
    }
  };
  add(outputs, written);
  EVOQ_TRY(SpendMemory(written, "its outputs"));
  if (!BudgetScope::Active()) return {};
  const std::vector<TensorType> inputs = TypesOf(stored);
  add(inputs, read);
  EVOQ_TRY(SpendWork(CheckedAdd(CheckedAdd(read, written).value_or(-1), 1000).value_or(-1),
                     "its values"));
  return is_static && op.macs != nullptr ? SpendWork(op.macs(node, inputs, outputs), "its products")
                                         : Status();
}

EvalResult Evaluate(const OpDef& op, const Definition& definition, const Evaluator& evaluator,
                    const Node& node, std::span<const Tensor> inputs,
                    std::span<const TensorType> declared) {
  EVOQ_TRY(
      CheckArity(op, node, [&](size_t i) { return i < inputs.size() && inputs[i].defined(); }));
  std::vector<TensorType> input_types;
  std::vector<const Tensor*> constants;
  std::vector<Tensor> stored;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].defined() && !inputs[i].layout().empty())
      return Unsupported("input {} is in layout {}, expected plain data", i, inputs[i].layout());
    input_types.push_back(inputs[i].type());
    constants.push_back(inputs[i].defined() ? &inputs[i] : nullptr);
    stored.push_back(inputs[i]);
    if (inputs[i].defined() && InputIsChannelsLast(op, node, i)) {
      EVOQ_ASSIGN(stored[i], Reordered(inputs[i], ChannelsFirstOrder, ToChannelsFirst));
    }
  }
  // Inferred again from the tensors at hand, so that operators meet sizes that fit, whatever the
  // caller declared.
  EVOQ_ASSIGN(std::vector<TensorType> types,
              InferOutputs(op, node, input_types, constants, declared, evaluator));
  const bool last = IsChannelsLast(op, node) && !types.empty();
  if (last) types[0] = ToChannelsFirst(types[0]);
  EVOQ_TRY(SpendOn(op, node, stored, types));
  EVOQ_ASSIGN(std::vector<Tensor> outputs, EvaluateStored(op, definition, node, stored, types));
  EVOQ_CHECK(outputs.size() >= types.size(), "{} gave {} outputs of {}", node.op, outputs.size(),
             types.size());
  outputs.resize(types.size());
  if (last) {
    EVOQ_ASSIGN(outputs[0], Reordered(outputs[0], ChannelsLastOrder, ToChannelsLast));
  }
  return outputs;
}

}  // namespace

EvalResult EvaluateBy(const OpDef& op, const Definition& definition, const Evaluator& evaluator,
                      const Node& node, std::span<const Tensor> inputs,
                      std::span<const TensorType> output_types) {
  return WithContext(Evaluate(op, definition, evaluator, node, inputs, output_types),
                     [&] { return NodeLabel(node); });
}

}  // namespace evoq
