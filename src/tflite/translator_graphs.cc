// Subgraphs that operators run, and the variables of the graph.
#include <algorithm>

#include "tflite/translator.h"

namespace evoq::tflite {
namespace {

constexpr int kMostDepth = 8;

std::vector<double> NumbersOf(const Tensor& tensor) {
  if (const auto integers = ToInt64s(tensor)) return {integers->begin(), integers->end()};
  if (const auto reals = ToFloat32(tensor))
    return {reals->data<float>(), reals->data<float>() + reals->elements()};
  return {};
}

// What a state begins with, in words, and the numbers where these are not zeros: one where all are
// the same, none where they are too many.
struct Beginning {
  std::string words, numbers;
};
Beginning BeginningOf(const Tensor& tensor) {
  constexpr size_t kMost = 4096;
  const bool quantized = tensor.type().quantized();
  const double zero = quantized ? tensor.type().quant->zero_points[0] : 0;
  std::vector<double> numbers = NumbersOf(tensor);
  if (std::ranges::all_of(numbers, [&](double n) { return n == zero; }))
    return {quantized ? fmt::format("zeros, the integer {}", zero) : "zeros", ""};
  if (std::ranges::all_of(numbers, [&](double n) { return n == numbers[0]; })) numbers.resize(1);
  if (numbers.size() == 1)
    return {fmt::format("{} everywhere", numbers[0]), fmt::format("{}", numbers[0])};
  if (numbers.size() > kMost) return {"numbers that are not kept here", "?"};
  return {"the numbers of the fact tflite.initial", fmt::format("{}", fmt::join(numbers, ","))};
}

}  // namespace

// ---- subgraphs

Result<std::vector<ValueId>> Translator::ApplyGraphs(const char* op, std::vector<ValueId> inputs,
                                                     const std::vector<int32_t>& graphs,
                                                     size_t first) {
  if (depth_ == kMostDepth) return Unsupported("subgraphs nest more than {} deep", kMostDepth);
  Node node;
  node.op = op;
  node.name = output(0).name;
  node.inputs = std::move(inputs);
  for (size_t i = first; i < inputs_.size(); ++i) {
    if (!is_constant(i)) node.inputs.push_back(Real(i));
  }
  for (const int32_t number : graphs) {
    const File file = file_.At(static_cast<unsigned>(number));
    EVOQ_ASSIGN(Graph body, Translator(file, *this).RunBody(*this, first));
    if (body.outputs().size() != outputs_.size())
      return InvalidInput("subgraph {} has {} outputs, expected {}", number, body.outputs().size(),
                          outputs_.size());
    if (const auto notes = body.metadata.find(kNotes); notes != body.metadata.end())
      AddNote(fmt::format("subgraph {}", number), notes->second);
    node.bodies.push_back(std::make_shared<const Graph>(std::move(body)));
  }
  for (size_t i = 0; i < outputs_.size(); ++i)
    node.outputs.push_back(graph_.AddValue(fmt::format("{}_{}_{}", output(0).name, op, i)));
  std::vector<ValueId> values = node.outputs;
  graph_.AddNode(std::move(node));
  return values;
}

Result<Graph> Translator::RunBody(const Translator& outer, size_t first) {
  EVOQ_TRY(ReadTensors());
  EVOQ_TRY(BindInputs(outer, first));
  EVOQ_TRY(TranslateAll());
  EVOQ_TRY(AddOutputs());
  EVOQ_TRY(graph_.Sort());
  graph_.RemoveDeadNodes();
  graph_.name = TextOf(file_.graph().name());
  return graph_.Compacted();
}

// Values come as real numbers, which quantized tensors are made of again without a loss.
Status Translator::BindInputs(const Translator& outer, size_t first) {
  const auto* inputs = file_.graph().inputs();
  const size_t count = inputs == nullptr ? 0 : inputs->size(), given = outer.inputs_.size() - first;
  if (count != given)
    return InvalidInput("subgraph {} has {} inputs, expected {}", file_.subgraph, count, given);
  for (size_t i = 0; i < count; ++i) {
    const size_t t = Index(inputs->Get(static_cast<unsigned>(i))),
                 from = Index(outer.inputs_[first + i]);
    const std::string label = fmt::format("input {} of subgraph {}", i, file_.subgraph);
    EVOQ_TRY(WithContext(CheckSameValues(t, outer.facts_[from]), label));
    TensorFacts& facts = facts_[t];
    Forms& forms = forms_[t];
    if (forms.plain.valid()) return InvalidInput("{} is listed twice", label);
    facts.sizes = outer.facts_[from].sizes;
    if (outer.constants_[from].defined()) {
      constants_[t] = outer.constants_[from];
      forms.plain = graph_.AddConstant(facts.name, constants_[t]);
      continue;
    }
    forms.plain = graph_.AddInput(
        facts.name, {facts.quant ? DType::kFloat32 : facts.dtype, Shape::UnknownRank()});
    if (!facts.quant) continue;
    forms.real = forms.plain;
    forms.plain =
        graph_.Apply("QuantizeLinear", facts.name + "_quantize", {forms.real}, {}, QuantType(t));
  }
  return {};
}

// ---- variables

Status Translator::InitializeVariables(int32_t subgraph) {
  if (depth_ > 0) return Unsupported("variables of a subgraph");
  return variables_.Initialize(file_.At(static_cast<unsigned>(subgraph)));
}

Result<Variable*> Translator::VariableAtHand() {
  if (depth_ > 0) return Unsupported("variables of a subgraph");
  Variable* variable = variables_.Find(inputs_[0]);
  if (variable == nullptr) return InvalidInput("input 0 is no variable");
  return variable;
}

Status Translator::ReadVariable() {
  EVOQ_ASSIGN(Variable* const variable, VariableAtHand());
  const size_t out = Index(outputs_[0]);
  if (variable->tensor >= 0) return SetForms(out, Index(variable->tensor));
  if (!variable->initial.defined())
    return InvalidInput("variable '{}' is read before anything assigns a value to it",
                        variable->name);
  EVOQ_TRY(CheckSameValues(out, variable->initial_facts));
  facts_[out].sizes = variable->initial_facts.sizes;
  variable->tensor = outputs_[0];
  if (variable->assigned) {
    variable->state = graph_.AddInput(variable->name, facts_[out].type());
    forms_[out].plain = variable->state;
  } else {
    constants_[out] = variable->initial;
    forms_[out].plain = graph_.AddConstant(variable->name, variable->initial);
  }
  return {};
}

Status Translator::AssignVariable() {
  EVOQ_ASSIGN(Variable* const variable, VariableAtHand());
  if (variable->initial.defined())
    EVOQ_TRY(CheckSameValues(Index(inputs_[1]), variable->initial_facts));
  variable->tensor = inputs_[1];
  return {};
}

Status Translator::AddStates() {
  for (const Variable& variable : variables_.all()) {
    if (!variable.state.valid()) continue;
    const std::string name = graph_.value(variable.state).name;
    AddOutput(Index(variable.tensor), name + kNext);
    const Beginning begin = BeginningOf(variable.initial);
    AddNote(name,
            fmt::format("a state, which {}{} hands on; begins with {}", name, kNext, begin.words));
    if (!begin.numbers.empty()) graph_.metadata["tflite.initial." + name] = begin.numbers;
  }
  return {};
}

}  // namespace evoq::tflite
