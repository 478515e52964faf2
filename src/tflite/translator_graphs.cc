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

std::vector<Translator::Binding> Translator::BindingsFrom(size_t first) const {
  std::vector<Binding> given;
  for (size_t i = first; i < inputs_.size(); ++i)
    given.push_back({facts_[Index(inputs_[i])], constants_[Index(inputs_[i])], ValueId()});
  return given;
}

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
    EVOQ_ASSIGN(Graph body, Translator(file, *this).RunBody(BindingsFrom(first)));
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

Result<Graph> Translator::RunBody(std::vector<Binding> given) {
  EVOQ_TRY(ReadTensors());
  for (Binding& one : given) {
    if (!one.constant.defined()) one.value = AddOuterInput(one);
  }
  EVOQ_TRY(BindInputs(given));
  EVOQ_TRY(TranslateAll());
  EVOQ_TRY(AddOutputs());
  return Finished();
}

Result<Graph> Translator::Finished() {
  EVOQ_TRY(graph_.Sort());
  graph_.RemoveDeadNodes();
  graph_.name = TextOf(file_.graph().name());
  return graph_.Compacted();
}

Status Translator::CheckCount(const flatbuffers::Vector<int32_t>* list, const char* what,
                              size_t expected) const {
  const size_t count = list == nullptr ? 0 : list->size();
  if (count == expected) return {};
  return InvalidInput("subgraph {} has {} {}, expected {}", file_.subgraph, count, what, expected);
}

ValueId Translator::AddOuterInput(const Binding& given) {
  return graph_.AddInput(given.facts.name, {given.facts.quant ? DType::kFloat32 : given.facts.dtype,
                                            Shape::UnknownRank()});
}

// Values come as real numbers, which quantized tensors are made of again without a loss.
Status Translator::BindInputs(const std::vector<Binding>& given) {
  const auto* inputs = file_.graph().inputs();
  EVOQ_TRY(CheckCount(inputs, "inputs", given.size()));
  for (size_t i = 0; i < given.size(); ++i) {
    const size_t t = Index(inputs->Get(static_cast<unsigned>(i)));
    const std::string label = fmt::format("input {} of subgraph {}", i, file_.subgraph);
    EVOQ_TRY(WithContext(CheckSameValues(t, given[i].facts), label));
    TensorFacts& facts = facts_[t];
    Forms& forms = forms_[t];
    if (forms.plain.valid()) return InvalidInput("{} is listed twice", label);
    facts.sizes = given[i].facts.sizes;
    if (given[i].constant.defined()) {
      constants_[t] = given[i].constant;
      forms.plain = graph_.AddConstant(facts.name, constants_[t]);
      continue;
    }
    forms.plain = given[i].value;
    if (!facts.quant) continue;
    forms.real = forms.plain;
    forms.plain =
        graph_.Apply("QuantizeLinear", facts.name + "_quantize", {forms.real}, {}, QuantType(t));
  }
  return {};
}

// ---- loops

// The real numbers of the subgraph's output, or its plain integers.
Result<ValueId> Translator::RealOutput(size_t i) {
  const size_t t = Index(file_.graph().outputs()->Get(static_cast<unsigned>(i)));
  if (facts_[t].elements != Elements::kReal)
    return Unsupported("output {}: {}", facts_[t].name, ElementsName(facts_[t].elements));
  if (!forms_[t].plain.valid() && !forms_[t].planar.valid()) EVOQ_TRY(MakeConstant(t));
  if (!forms_[t].real.valid()) forms_[t].real = Dequantized(t, Plain(t), "_real");
  return forms_[t].real;
}

// The outputs of a subgraph whose operators become nodes of the graph at hand.
Result<std::vector<ValueId>> Translator::Inline(int32_t subgraph,
                                                const std::vector<Binding>& given) {
  const File file = file_.At(static_cast<unsigned>(subgraph));
  Translator inner(file, *this);
  EVOQ_TRY(inner.ReadTensors());
  inner.graph_ = std::move(graph_);
  std::vector<ValueId> values;
  const Status done = [&]() -> Status {
    EVOQ_TRY(inner.BindInputs(given));
    EVOQ_TRY(inner.TranslateAll());
    const auto* outputs = file.graph().outputs();
    for (size_t i = 0; outputs != nullptr && i < outputs->size(); ++i) {
      EVOQ_ASSIGN(const ValueId value, inner.RealOutput(i));
      values.push_back(value);
    }
    return {};
  }();
  graph_ = std::move(inner.graph_);
  EVOQ_TRY(done);
  return values;
}

Result<ValueId> Translator::InlineCondition(int32_t subgraph, const std::vector<Binding>& given) {
  EVOQ_ASSIGN(const std::vector<ValueId> values, Inline(subgraph, given));
  if (values.size() != 1)
    return InvalidInput("subgraph {} has {} outputs, expected 1", subgraph, values.size());
  const ValueId shape = graph_.AddConstant("scalar", Tensor::FromValues(std::vector<int64_t>()));
  return graph_.Apply("Reshape", "condition", {values[0], shape});
}

// Its outputs: whether another round follows, then the states. Inputs: the round's number, that it
// is to be run, the states, and what the rounds have in common.
Result<Graph> Translator::RunLoopBody(int32_t condition, std::vector<Binding> given,
                                      const std::vector<bool>& states) {
  EVOQ_TRY(ReadTensors());
  graph_.AddInput("round", {DType::kInt64, Shape()});
  graph_.AddInput("goes_on", {DType::kBool, Shape()});
  for (const bool state : {true, false}) {
    for (size_t i = 0; i < given.size(); ++i) {
      if (states[i] == state && !given[i].constant.defined())
        given[i].value = AddOuterInput(given[i]);
    }
  }
  EVOQ_TRY(BindInputs(given));
  EVOQ_TRY(TranslateAll());
  std::vector<ValueId> next;
  for (size_t i = 0; i < given.size(); ++i) {
    if (!states[i]) continue;
    const size_t t = Index(file_.graph().outputs()->Get(static_cast<unsigned>(i)));
    EVOQ_TRY(CheckSameValues(t, given[i].facts));
    EVOQ_ASSIGN(given[i].value, RealOutput(i));
    next.push_back(given[i].value);
  }
  EVOQ_ASSIGN(const ValueId again, InlineCondition(condition, given));
  graph_.MarkOutput(again);
  for (const ValueId value : next) graph_.MarkOutput(graph_.Apply("Identity", "next", {value}));
  return Finished();
}

Result<std::vector<ValueId>> Translator::ApplyLoop(int32_t condition, int32_t body) {
  if (depth_ == kMostDepth) return Unsupported("subgraphs nest more than {} deep", kMostDepth);
  if (inputs_.size() != outputs_.size())
    return InvalidInput("{} inputs and {} outputs", inputs_.size(), outputs_.size());
  const File file = file_.At(static_cast<unsigned>(body));
  const auto *ins = file.graph().inputs(), *outs = file.graph().outputs();
  Translator inner(file, *this);
  EVOQ_TRY(inner.CheckCount(ins, "inputs", inputs_.size()));
  EVOQ_TRY(inner.CheckCount(outs, "outputs", inputs_.size()));
  std::vector<Binding> given = BindingsFrom(0);
  for (size_t i = 0; i < given.size(); ++i) given[i].value = Real(i);
  Node node;
  node.op = "Loop";
  node.name = output(0).name;
  EVOQ_ASSIGN(const ValueId begins, InlineCondition(condition, given));
  node.inputs = {ValueId(), begins};
  std::vector<bool> states;
  for (unsigned i = 0; i < inputs_.size(); ++i) {
    states.push_back(ins->Get(i) != outs->Get(i));
    if (states[i]) {
      node.inputs.push_back(given[i].value);
      given[i].constant = Tensor();
    }
  }
  int64_t captured = 0;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (states[i] || given[i].constant.defined()) continue;
    node.inputs.push_back(given[i].value);
    ++captured;
  }
  if (captured > 0) node.attrs.Set("captured", captured);
  EVOQ_ASSIGN(Graph made, inner.RunLoopBody(condition, given, states));
  if (const auto notes = made.metadata.find(kNotes); notes != made.metadata.end())
    AddNote(fmt::format("subgraph {}", body), notes->second);
  node.bodies.push_back(std::make_shared<const Graph>(std::move(made)));
  std::vector<ValueId> y;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    y.push_back(given[i].value);
    if (!states[i]) continue;
    y.back() = graph_.AddValue(fmt::format("{}_Loop_{}", output(0).name, i));
    node.outputs.push_back(y.back());
  }
  if (!node.outputs.empty()) graph_.AddNode(std::move(node));
  return y;
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
