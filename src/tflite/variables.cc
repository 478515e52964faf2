#include "tflite/variables.h"

#include "tflite/op_row.h"

namespace evoq::tflite {
namespace {

constexpr int kVarHandleNumber = 142, kAssignNumber = 144;

// Inputs or outputs of an operator.
size_t SizeOf(const flatbuffers::Vector<int32_t>* tensors) {
  return tensors == nullptr ? 0 : tensors->size();
}

template <typename Use>  // of an operator and its number
Status ForEachOperator(const File& file, const Use& use) {
  const auto* operators = file.graph().operators();
  for (unsigned i = 0; operators != nullptr && i < operators->size(); ++i) {
    const fb::Operator& op = *operators->Get(i);
    EVOQ_TRY(WithContext(use(op, NumberOf(file.CodeOf(op))), LabelOf(file, i)));
  }
  return {};
}

}  // namespace

Variables::Key Variables::KeyOf(const fb::Operator& op) {
  const auto* o = op.options_as_WithVarHandle();
  const auto text = [](const flatbuffers::String* s) { return s == nullptr ? "" : s->str(); };
  return o == nullptr ? Key() : Key(text(o->container()), text(o->shared_name()));
}

Variables::Variables(const File& file) {
  const auto* operators = file.graph().operators();
  for (unsigned i = 0; operators != nullptr && i < operators->size(); ++i) {
    const fb::Operator& op = *operators->Get(i);
    const int number = NumberOf(file.CodeOf(op));
    if (number == kVarHandleNumber && SizeOf(op.outputs()) == 1) {
      const auto [found, is_new] = by_key_.try_emplace(KeyOf(op), all_.size());
      if (is_new) all_.push_back({.name = found->first.second.substr(0, 200)});
      if (is_new && all_.back().name.empty()) all_.back().name = "variable";
      by_tensor_[op.outputs()->Get(0)] = found->second;
    } else if (number == kAssignNumber && SizeOf(op.inputs()) == 2) {
      if (Variable* variable = Find(op.inputs()->Get(0))) variable->assigned = true;
    }
  }
}

Variable* Variables::Find(int32_t tensor) {
  const auto found = by_tensor_.find(tensor);
  return found == by_tensor_.end() ? nullptr : &all_[found->second];
}

Status Variables::Initialize(const File& init) {
  std::map<int32_t, Key> keys;  // of tensors that name variables
  return ForEachOperator(init, [&](const fb::Operator& op, int number) -> Status {
    if (number == kVarHandleNumber && SizeOf(op.outputs()) == 1) {
      keys[op.outputs()->Get(0)] = KeyOf(op);
      return {};
    }
    if (number == kAssignNumber && SizeOf(op.inputs()) == 2) return Assign(init, op, keys);
    return Unsupported("expected variables and constants that are assigned to them");
  });
}

Status Variables::Assign(const File& init, const fb::Operator& op,
                         const std::map<int32_t, Key>& keys) {
  const auto key = keys.find(op.inputs()->Get(0));
  const int32_t from = op.inputs()->Get(1);
  if (key == keys.end() || from < 0) return InvalidInput("input 0 is no variable");
  const auto found = by_key_.find(key->second);
  if (found == by_key_.end()) return {};  // of another signature of the file
  Variable& variable = all_[found->second];
  if (variable.tensor >= 0)
    return InvalidInput("variable '{}' is in use before it is set", variable.name);
  const fb::Tensor& table = *init.graph().tensors()->Get(static_cast<unsigned>(from));
  EVOQ_ASSIGN(variable.initial_facts, FactsOf(init, table, static_cast<size_t>(from)));
  if (variable.initial_facts.quant && !variable.initial_facts.quant->per_tensor())
    return Unsupported("variable '{}' has a scale for each index of an axis", variable.name);
  EVOQ_ASSIGN(variable.initial, ConstantOf(init, table, variable.initial_facts));
  return {};
}

}  // namespace evoq::tflite
