#include "tflite/translator.h"

#include <algorithm>
#include <cmath>

#include "base/budget_scope.h"
#include "ops/op.h"

namespace evoq::tflite {
namespace {

const std::vector<int64_t> kToPlanar = {0, 3, 1, 2}, kToPlain = {0, 2, 3, 1};

}  // namespace

// An empty table: a vtable of no fields (4 bytes of itself, 4 of the table) and the table.
alignas(8) const uint8_t Translator::kNoOptions[] = {8, 0, 0, 0, 4, 0, 4, 0, 4, 0, 0, 0};

// ---- the whole graph

Result<Graph> Translator::Run() {
  EVOQ_TRY(CheckOperators());
  EVOQ_TRY(ReadTensors());
  EVOQ_TRY(AddInputs());
  EVOQ_TRY(TranslateAll());
  EVOQ_TRY(AddOutputs());
  EVOQ_TRY(AddStates());
  return std::move(graph_);
}

Status Translator::TranslateAll() {
  const auto* operators = file_.graph().operators();
  for (unsigned i = 0; operators != nullptr && i < operators->size(); ++i)
    EVOQ_TRY(WithContext(Translate(i), LabelOf(file_, i)));
  return {};
}

// Names all operators that evoq lacks at once, each with how often it occurs.
Status Translator::CheckOperators() const {
  std::map<std::string, int> missing;
  for (const unsigned g : file_.reached) {
    const File file = file_.At(g);
    const auto* operators = file.graph().operators();
    for (unsigned i = 0; operators != nullptr && i < operators->size(); ++i) {
      const fb::OperatorCode& code = file.CodeOf(*operators->Get(i));
      if (FindOpRow(code) == nullptr) ++missing[OperatorName(code)];
    }
  }
  if (missing.empty()) return {};
  constexpr size_t kShown = 20;
  std::vector<std::string> names;
  for (const auto& [name, count] : missing) {
    if (names.size() == kShown) break;
    names.push_back(count == 1 ? name : fmt::format("{} ({} times)", name, count));
  }
  return Unsupported("operators that evoq does not run: {}{}", fmt::join(names, ", "),
                     missing.size() > kShown ? fmt::format(" and {} more", missing.size() - kShown)
                                             : std::string());
}

Status Translator::ReadTensors() {
  const auto* tensors = file_.graph().tensors();
  const size_t count = tensors == nullptr ? 0 : tensors->size();
  EVOQ_TRY(SpendMemory(static_cast<int64_t>(count) * 512, "tensors"));
  facts_.resize(count);
  constants_.resize(count);
  forms_.resize(count);
  // What no operator reads may be of any kind.
  std::vector<bool> used(count);
  const auto use = [&](const flatbuffers::Vector<int32_t>* list) {
    for (unsigned i = 0; list != nullptr && i < list->size(); ++i) {
      if (list->Get(i) >= 0) used[Index(list->Get(i))] = true;
    }
  };
  use(file_.graph().inputs());
  use(file_.graph().outputs());
  const auto* operators = file_.graph().operators();
  for (unsigned i = 0; operators != nullptr && i < operators->size(); ++i) {
    use(operators->Get(i)->inputs());
    use(operators->Get(i)->outputs());
  }
  for (size_t i = 0; i < count; ++i) {
    if (!used[i]) continue;
    const fb::Tensor& tensor = *tensors->Get(static_cast<unsigned>(i));
    EVOQ_ASSIGN(facts_[i], WithContext(FactsOf(file_, tensor, i),
                                       fmt::format("tensor {} ({})", i, TextOf(tensor.name()))));
  }
  return {};
}

Status Translator::AddInputs() {
  const auto* inputs = file_.graph().inputs();
  for (unsigned i = 0; inputs != nullptr && i < inputs->size(); ++i) {
    const size_t t = Index(inputs->Get(i));
    const TensorFacts& facts = facts_[t];
    if (facts.quant && !facts.quant->per_tensor())
      return Unsupported("input {}: a scale for each index of an axis", facts.name);
    if (forms_[t].plain.valid()) return InvalidInput("input {} is listed twice", facts.name);
    if (facts.variable) return Unsupported("input {}: a variable", facts.name);
    if (facts.elements != Elements::kReal)
      return Unsupported("input {}: {}", facts.name, ElementsName(facts.elements));
    forms_[t].plain = graph_.AddInput(facts.name, facts.type());
    if (!facts.half()) continue;
    graph_.SetType(forms_[t].plain, {facts.stored, facts.type().shape});
    forms_[t].plain = Cast(forms_[t].plain, DType::kFloat32, facts.name + "_wide");
  }
  return {};
}

Status Translator::AddOutputs() {
  const auto* outputs = file_.graph().outputs();
  for (unsigned i = 0; outputs != nullptr && i < outputs->size(); ++i) {
    const size_t tensor = Index(outputs->Get(i));
    if (facts_[tensor].elements != Elements::kReal)
      return Unsupported("output {}: {}", facts_[tensor].name,
                         ElementsName(facts_[tensor].elements));
    if (!forms_[tensor].plain.valid() && !forms_[tensor].planar.valid())
      EVOQ_TRY(MakeConstant(tensor));
    if (depth_ == 0 && facts_[tensor].half()) {
      forms_[tensor].plain = Cast(Plain(tensor), facts_[tensor].stored, facts_[tensor].name);
      forms_[tensor].planar = ValueId();
    }
    AddOutput(tensor, facts_[tensor].name);
  }
  return {};
}

ValueId Translator::Cast(ValueId value, DType dtype, const std::string& name) {
  return graph_.Apply("Cast", name, {value}, Attrs::Of("to", static_cast<int>(dtype)));
}

void Translator::AddOutput(size_t tensor, const std::string& name) {
  ValueId value = Plain(tensor);
  // What is an input or a constant, or an output already, gets a value of its own.
  if (graph_.IsInput(value) || graph_.IsOutput(value) || graph_.value(value).is_constant())
    value = graph_.Apply("Identity", name + "_output", {value}, {},
                         facts_[tensor].quant ? QuantType(tensor) : TensorType());
  // The file's name is the output's, whatever was called so before.
  if (const ValueId other = graph_.FindValue(name);
      other.valid() && other != value && !graph_.IsInput(other) && !graph_.IsOutput(other))
    graph_.Rename(other, name + "_value");
  if (graph_.value(value).name != name) graph_.Rename(value, name);
  graph_.MarkOutput(value);
}

Status Translator::Translate(size_t op) {
  op_ = file_.graph().operators()->Get(static_cast<unsigned>(op));
  const OpRow& row = *FindOpRow(file_.CodeOf(*op_));
  inputs_.clear();
  outputs_.clear();
  if (op_->inputs() != nullptr) inputs_.assign(op_->inputs()->begin(), op_->inputs()->end());
  if (op_->outputs() != nullptr) outputs_.assign(op_->outputs()->begin(), op_->outputs()->end());
  EVOQ_TRY(Prepare(row));
  EVOQ_TRY(row.translate(*this));
  if (row.sizes != nullptr) {
    Sizes sizes = row.sizes(*this);
    if (!sizes.empty()) sizes_[outputs_[0]] = std::move(sizes);
  }
  for (const int32_t t : outputs_) {
    if (facts_[Index(t)].elements == Elements::kResource) continue;
    if (!forms_[Index(t)].plain.valid() && !forms_[Index(t)].planar.valid())
      return InvalidInput("output {} is nothing that the operator computes", facts_[Index(t)].name);
  }
  return {};
}

// Arity, and a value for each input.
Status Translator::Prepare(const OpRow& row) {
  const auto wrong = [](size_t count, int least, int most) {
    return static_cast<int64_t>(count) < least || (most >= 0 && static_cast<int64_t>(count) > most);
  };
  if (wrong(inputs_.size(), row.least_inputs, row.most_inputs))
    return InvalidInput("{} inputs, expected {} to {}", inputs_.size(), row.least_inputs,
                        row.most_inputs < 0 ? INT32_MAX : row.most_inputs);
  if (row.outputs < 0 ? outputs_.empty() : outputs_.size() != static_cast<size_t>(row.outputs))
    return InvalidInput("{} outputs, expected {}", outputs_.size(),
                        row.outputs < 0 ? std::string("at least 1") : std::to_string(row.outputs));
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i] < 0 && (static_cast<int64_t>(i) < row.least_inputs || row.most_inputs < 0))
      return InvalidInput("input {} is left out", i);
  }
  EVOQ_TRY(CheckElements(row));
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i] < 0 || input(i).elements == Elements::kResource) continue;
    const Forms& forms = forms_[Index(inputs_[i])];
    if (!forms.plain.valid() && !forms.planar.valid())
      EVOQ_TRY(WithContext(MakeConstant(Index(inputs_[i])),
                           fmt::format("input {} ({})", i, facts_[Index(inputs_[i])].name)));
  }
  for (const int32_t t : outputs_) {
    const TensorFacts& facts = facts_[Index(t)];
    if (forms_[Index(t)].plain.valid() || forms_[Index(t)].planar.valid())
      return InvalidInput("output {} was read as a constant before", facts.name);
  }
  return {};
}

Status Translator::CheckElements(const OpRow& row) const {
  const auto check = [&](int32_t t, const char* what, size_t i) -> Status {
    if (t < 0) return {};
    const TensorFacts& facts = facts_[Index(t)];
    if (facts.elements == Elements::kReal ||
        (facts.elements == Elements::kComplex && row.complex) ||
        (facts.elements == Elements::kResource && row.resources))
      return {};
    return Unsupported("{} {} ({}): {}", what, i, facts.name, ElementsName(facts.elements));
  };
  for (size_t i = 0; i < inputs_.size(); ++i) EVOQ_TRY(check(inputs_[i], "input", i));
  for (size_t i = 0; i < outputs_.size(); ++i) EVOQ_TRY(check(outputs_[i], "output", i));
  return {};
}

Status Translator::MakeConstant(size_t tensor) {
  const TensorFacts& facts = facts_[tensor];
  const fb::Tensor& table = *file_.graph().tensors()->Get(static_cast<unsigned>(tensor));
  Tensor constant;
  if (facts.variable && file_.DataOf(table).empty()) {  // begins as zeros
    const TensorType type = facts.type();
    const auto bytes = type.shape.is_static() ? type.bytes() : std::nullopt;
    if (!bytes) return InvalidInput("a variable of an open size");
    EVOQ_TRY(ValidateQuant(type));
    EVOQ_TRY(SpendMemory(*bytes, "variables"));
    constant = Tensor::Allocate(type);
  } else {
    EVOQ_ASSIGN(constant, ConstantOf(file_, table, facts));
  }
  constants_[tensor] = constant;
  forms_[tensor].plain = graph_.AddConstant(facts.name, std::move(constant));
  return {};
}

// ---- values

TensorType Translator::QuantType(size_t tensor) const {
  return TensorType(facts_[tensor].dtype, Shape::UnknownRank(), *facts_[tensor].quant);
}

ValueId Translator::Plain(size_t tensor) {
  Forms& forms = forms_[tensor];
  if (!forms.plain.valid()) {
    const TensorFacts& facts = facts_[tensor];
    forms.plain =
        graph_.Apply("Transpose", facts.name + "_plain", {forms.planar},
                     Attrs::Of("perm", kToPlain), facts.quant ? QuantType(tensor) : TensorType());
    graph_.Rename(forms.plain, facts.name);
  }
  return forms.plain;
}

ValueId Translator::PlanarOf(size_t tensor) {
  Forms& forms = forms_[tensor];
  if (!forms.planar.valid()) {
    const TensorFacts& facts = facts_[tensor];
    forms.planar =
        graph_.Apply("Transpose", facts.name + "_planar", {forms.plain},
                     Attrs::Of("perm", kToPlanar), facts.quant ? QuantType(tensor) : TensorType());
  }
  return forms.planar;
}

ValueId Translator::Dequantized(size_t tensor, ValueId value, const char* suffix) {
  if (!facts_[tensor].quant) return value;
  return graph_.Apply("DequantizeLinear", facts_[tensor].name + suffix, {value});
}

ValueId Translator::Real(size_t i) {
  const size_t t = Index(inputs_[i]);
  if (!forms_[t].real.valid()) forms_[t].real = Dequantized(t, Plain(t), "_real");
  return forms_[t].real;
}

ValueId Translator::Part(size_t i, int64_t part) {
  return Apply("Gather", {Real(i), Constant(Tensor::Scalar(part))}, Attrs::Of("axis", -1));
}

ValueId Translator::Planar(size_t i) {
  const size_t t = Index(inputs_[i]);
  if (!forms_[t].real_planar.valid())
    forms_[t].real_planar = Dequantized(t, PlanarOf(t), "_planar_real");
  return forms_[t].real_planar;
}

ValueId Translator::Int64s(size_t i) {
  const ValueId value = Plain(Index(inputs_[i]));
  if (is_constant(i)) {
    if (const auto ints = Ints(i)) {
      Tensor tensor = Tensor::Allocate(TensorType(DType::kInt64, Shape(input(i).sizes)));
      std::copy(ints->begin(), ints->end(), tensor.mutable_data<int64_t>());
      return Constant(std::move(tensor));
    }
  }
  if (input(i).dtype == DType::kInt64) return value;
  return Apply("Cast", {value}, Attrs::Of("to", static_cast<int>(DType::kInt64)));
}

Result<ValueId> Translator::Weight(size_t i, const std::vector<int64_t>& perm) {
  const size_t t = Index(inputs_[i]);
  EVOQ_TRY(CheckRank(i, static_cast<int>(perm.size())));
  if (!constants_[t].defined()) return Transposed(Real(i), perm);
  EVOQ_ASSIGN(Tensor moved, Permuted(constants_[t], perm));
  return Dequantized(t, graph_.AddConstant(facts_[t].name, std::move(moved)), "_real");
}

Result<ValueId> Translator::Bias(size_t i, size_t x, size_t w) {
  if (!has(i)) return ValueId();
  const size_t t = Index(inputs_[i]);
  EVOQ_TRY(CheckRank(i, 1));
  if (!input(x).quant || !IsInteger(input(i).dtype)) return Real(i);
  if (!constants_[t].defined()) return Unsupported("bias {} is computed", input(i).name);
  EVOQ_ASSIGN(const std::vector<int64_t> integers, Ints(i));
  const auto channels = static_cast<int64_t>(integers.size());
  if (!input(w).quant) return InvalidInput("an integer bias, but weights of real numbers");
  const QuantParams& scales = *input(w).quant;
  if (!scales.per_tensor() && static_cast<int64_t>(scales.scales.size()) != channels)
    return InvalidInput("a bias of {} values for {} scales of weights", channels,
                        scales.scales.size());
  QuantParams params;
  params.axis = scales.per_tensor() ? -1 : 0;
  for (const float s : scales.scales) {
    params.scales.push_back(s * input(x).quant->scales[0]);
    params.zero_points.push_back(0);
  }
  const bool narrow = input(i).dtype == DType::kInt32;
  for (const float s : params.scales) {
    if (s > 0 && std::isfinite(s)) continue;
    return InvalidInput("the product {} of the scales of input and weights", s);
  }
  EVOQ_TRY(SpendMemory(channels * 8, "biases"));
  if (narrow) {
    const TensorType type(DType::kInt32, Shape{channels}, params);
    const ValueId value = graph_.AddConstant(facts_[t].name, constants_[t].WithType(type));
    return graph_.Apply("DequantizeLinear", facts_[t].name + "_real", {value});
  }
  // int64, of 16-bit activations: those compute in float32.
  Tensor real = Tensor::Allocate(TensorType(DType::kFloat32, Shape{channels}));
  for (size_t c = 0; c < integers.size(); ++c)
    real.mutable_data<float>()[c] = static_cast<float>(static_cast<double>(integers[c]) *
                                                       params.scales[scales.per_tensor() ? 0 : c]);
  return Constant(std::move(real));
}

bool Translator::CanBePlanarOperand(size_t i) const {
  const size_t t = Index(inputs_[i]);
  if (forms_[t].planar.valid()) return true;
  // Constants that broadcasting repeats but along channels.
  return is_constant(i) && (input(i).rank() <= 1 || input(i).rank() == 4);
}

bool Translator::AllPlanar() const {
  bool any = false;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!has(i) || !CanBePlanarOperand(i)) return false;
    any |= !is_constant(i);
  }
  return any;
}

ValueId Translator::PlanarOperand(size_t i) {
  if (input(i).rank() == 4) return Planar(i);
  const ValueId value = Real(i);
  if (input(i).rank() == 0) return value;
  return Apply("Reshape", {value, Int64Constant({input(i).sizes[0], 1, 1})});
}

// ---- questions

Result<std::vector<int64_t>> Translator::Ints(size_t i) const {
  const Tensor& constant = constants_[Index(inputs_[i])];
  if (!constant.defined())
    return Unsupported("input {} ({}) is computed, expected a constant", i, input(i).name);
  constexpr int64_t kMost = 1 << 24;
  if (constant.elements() > kMost)
    return Fail(ErrorCode::kTooLarge, "input {} has {} elements", i, constant.elements());
  EVOQ_TRY(SpendMemory(constant.elements() * 8, "integers"));
  return WithContext(ToInt64s(constant), fmt::format("input {}", i));
}

std::span<const uint8_t> Translator::custom_options() const {
  const auto* bytes = op_->custom_options();
  return bytes == nullptr ? std::span<const uint8_t>() : std::span(bytes->data(), bytes->size());
}

std::optional<float> Translator::FloatOf(size_t i) const {
  const Tensor& constant = constants_[Index(inputs_[i])];
  if (!constant.defined() || constant.elements() != 1) return std::nullopt;
  const auto real = ToFloat32(constant);
  return real ? std::optional(real->data<float>()[0]) : std::nullopt;
}

Size Translator::SizeOf(size_t i, size_t axis) const {
  const int64_t size = input(i).sizes[axis];
  if (size >= 0) return {.more = size};
  return {.tensor = inputs_[i], .axis = static_cast<int>(axis), .factor = 1};
}

Sizes Translator::SizesIn(size_t i) const {
  if (const auto found = sizes_.find(inputs_[i]); found != sizes_.end()) return found->second;
  const Tensor& constant = constants_[Index(inputs_[i])];
  constexpr int64_t kMost = 16;
  if (!constant.defined() || !IsInteger(constant.dtype()) || constant.elements() > kMost) return {};
  const auto integers = Ints(i);
  if (!integers) return {};
  Sizes sizes;
  for (const int64_t integer : *integers) sizes.push_back(Sum(Size{.more = integer}, Size()));
  return sizes;
}

Result<int64_t> Translator::Int(size_t i) const {
  EVOQ_ASSIGN(const std::vector<int64_t> values, Ints(i));
  if (values.size() != 1)
    return InvalidInput("input {} has {} values, expected 1", i, values.size());
  return values[0];
}

Result<int64_t> Translator::AxisOf(int64_t axis, int rank) const {
  if (axis < -rank || axis >= rank)
    return InvalidInput("axis {}, expected {} to {}", axis, -rank, rank - 1);
  return axis < 0 ? axis + rank : axis;
}

Status Translator::CheckSameElements() const {
  if (input(0).elements == output(0).elements) return {};
  return InvalidInput("output {} is {}, expected {}", output(0).name,
                      ElementsName(output(0).elements), ElementsName(input(0).elements));
}

Status Translator::CheckRank(size_t i, int rank) const {
  if (input(i).rank() == rank) return {};
  return InvalidInput("input {} ({}) has rank {}, expected {}", i, input(i).name, input(i).rank(),
                      rank);
}

}  // namespace evoq::tflite
