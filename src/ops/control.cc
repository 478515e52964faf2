// If, Loop, Scan, SequenceMap: operators that evaluate subgraphs.
#include "ops/control.h"

#include <algorithm>
#include <map>

#include "base/budget_scope.h"
#include "ops/driver.h"
#include "ops/util.h"

namespace evoq {
namespace {

constexpr int kMaxRounds =
    80;  // of widening the types of loop values; each round widens at least one of at most 64 sizes

TensorType Unranked(const TensorType& type) {
  return TensorType::In(type.kind, type.dtype, Shape::UnknownRank());
}

// The least type that both fit.
Result<TensorType> Widened(const TensorType& a, const TensorType& b, const char* what, size_t i) {
  if (a.dtype != b.dtype || a.kind != b.kind)
    return InvalidInput("{} {} is {} and {}, expected the same type", what, i, a.ToString(),
                        b.ToString());
  if (!a.shape.ranked() || !b.shape.ranked() || a.shape.rank() != b.shape.rank())
    return Unranked(a);
  TensorType type = a;
  for (int d = 0; d < type.shape.rank(); ++d) {
    if (type.shape[d] != b.shape[d]) type.shape[d] = Dim();
  }
  return type;
}

// Whether `b` is what an optional `a` holds: a loop may be handed an option and hand on the value.
bool Unwraps(const TensorType& a, const TensorType& b) {
  return (a.kind == ValueKind::kOptional && b.kind == ValueKind::kTensor) ||
         (a.kind == ValueKind::kOptionalSequence && b.kind == ValueKind::kSequence);
}

// Output types of a subgraph whose inputs have these types; `constants` hold data that is known
// (may be shorter).
Result<std::vector<TensorType>> InferBody(const Graph& body, std::span<const TensorType> inputs,
                                          const Evaluator& evaluator,
                                          std::span<const Tensor* const> constants = {}) {
  if (inputs.size() != body.inputs().size())
    return InvalidInput("{} values for the subgraph's {} inputs", inputs.size(),
                        body.inputs().size());
  constexpr int64_t kNodeWork = 2000;  // to copy and infer one
  EVOQ_TRY(SpendWork(static_cast<int64_t>(body.order().size() + 1) * kNodeWork,
                     "inferring subgraphs, which are nested or often read"));
  Graph copy = body;
  std::map<ValueId, Tensor> known;
  for (size_t i = 0; i < inputs.size(); ++i) {
    copy.SetType(copy.inputs()[i], inputs[i]);
    if (i < constants.size() && constants[i] != nullptr) known[copy.inputs()[i]] = *constants[i];
  }
  EVOQ_TRY(WithContext(InferTypes(copy, std::move(known), evaluator), "subgraph " + body.name));
  std::vector<TensorType> types;
  for (ValueId out : copy.outputs()) types.push_back(copy.value(out).type);
  return types;
}

}  // namespace

Result<bool> ConditionOf(const Tensor& t) {
  if (t.dtype() != DType::kBool || t.elements() != 1)
    return InvalidInput("the condition is {}, expected one bool", t.type().ToString());
  return t.data<bool>()[0];
}

namespace {

Status CheckScalar(const InferArgs& args, size_t i, DType dtype) {
  if (!args.has(i)) return {};
  const auto elements = args.inputs[i].shape.elements();
  if (args.inputs[i].dtype == dtype && args.inputs[i].is_tensor() && elements.value_or(1) == 1)
    return {};
  return InvalidInput("input {} is {}, expected one {}", i, args.inputs[i].ToString(),
                      DTypeName(dtype));
}

}  // namespace

Result<size_t> OwnInputs(const Node& node, size_t least) {
  EVOQ_ASSIGN(const size_t captured, CapturedInputs(node));
  const size_t own = node.inputs.size() - captured;
  if (own < least) return InvalidInput("{} inputs, expected at least {}", own, least);
  return own;
}

namespace {

// ---- If(condition, captured...)

InferResult InferIf(const InferArgs& args) {
  EVOQ_TRY(CheckScalar(args, 0, DType::kBool));
  const auto branch = [&](size_t i) {
    return InferBody(*args.node.bodies[i], args.inputs.subspan(1), args.evaluator,
                     args.constants.subspan(std::min<size_t>(1, args.constants.size())));
  };
  if (const Tensor* condition = args.constant(0)) {
    EVOQ_ASSIGN(const bool taken, ConditionOf(*condition));
    return branch(taken ? 0 : 1);
  }
  // A branch may be impossible for these sizes: then the condition rules it out, or its evaluation
  // says so.
  auto first = branch(0);
  auto second = branch(1);
  if (!first || !second) return first ? first : second;
  std::vector<TensorType> types = std::move(*first);
  const std::vector<TensorType> others = std::move(*second);
  if (types.size() != others.size())
    return InvalidInput("the branches have {} and {} outputs", types.size(), others.size());
  for (size_t i = 0; i < types.size(); ++i) {
    EVOQ_ASSIGN(types[i], Widened(types[i], others[i], "output", i));
  }
  return types;
}

// ---- Loop(count?, condition?, states..., captured...)

}  // namespace

Result<LoopSizes> LoopSizesOf(const Node& node) {
  EVOQ_ASSIGN(const size_t own, OwnInputs(node, 2));
  const Graph& body = *node.bodies[0];
  const size_t states = own - 2;
  if (body.inputs().size() != node.inputs.size() || body.outputs().size() < states + 1)
    return InvalidInput("a subgraph of {} inputs and {} outputs for {} inputs",
                        body.inputs().size(), body.outputs().size(), node.inputs.size());
  return LoopSizes{states, body.outputs().size() - 1 - states};
}

namespace {

// How often the loop runs, when its inputs say so: the condition never changes.
Dim LoopCount(const InferArgs& args) {
  const Graph& body = *args.node.bodies[0];
  const Tensor *count = args.constant(0), *condition = args.constant(1);
  const ValueId out = body.outputs()[0];
  const Value& value = body.value(out);
  const bool passes = out == body.inputs()[1] ||
                      (value.producer.valid() && body.node(value.producer).op == "Identity" &&
                       body.node(value.producer).inputs[0] == body.inputs()[1]);
  const bool stays = passes || (value.is_constant() && value.constant.dtype() == DType::kBool &&
                                value.constant.elements() == 1 && value.constant.data<bool>()[0]);
  if (args.has(1) && condition == nullptr) return {};
  const bool starts =
      condition == nullptr || (condition->elements() == 1 && condition->data<bool>()[0]);
  if (!starts) return Dim(0);
  if (!stays || count == nullptr || count->elements() != 1) return {};
  return Dim(std::max<int64_t>(count->data<int64_t>()[0], 0));
}

InferResult InferLoop(const InferArgs& args) {
  EVOQ_TRY(CheckScalar(args, 0, DType::kInt64));
  EVOQ_TRY(CheckScalar(args, 1, DType::kBool));
  EVOQ_ASSIGN(const LoopSizes sizes, LoopSizesOf(args.node));
  std::vector<TensorType> inputs = {TensorType(DType::kInt64, Shape{}),
                                    TensorType(DType::kBool, Shape{})};
  inputs.insert(inputs.end(), args.inputs.begin() + 2, args.inputs.end());
  std::vector<const Tensor*> constants(inputs.size(), nullptr);
  for (size_t i = 2 + sizes.states; i < inputs.size(); ++i) constants[i] = args.constant(i);
  std::vector<TensorType> outputs;
  for (int round = 0;; ++round) {
    EVOQ_ASSIGN(outputs, InferBody(*args.node.bodies[0], inputs, args.evaluator, constants));
    bool same = true;
    for (size_t s = 0; s < sizes.states; ++s) {
      if (Unwraps(inputs[2 + s], outputs[1 + s])) continue;
      EVOQ_ASSIGN(TensorType wide, Widened(inputs[2 + s], outputs[1 + s], "state", s));
      same &= wide == inputs[2 + s];
      inputs[2 + s] = round < kMaxRounds ? std::move(wide) : Unranked(wide);
    }
    if (same) break;
  }
  std::vector<TensorType> types(inputs.begin() + 2,
                                inputs.begin() + 2 + static_cast<int64_t>(sizes.states));
  for (size_t s = 0; s < sizes.states; ++s) {
    if (Unwraps(types[s], outputs[1 + s])) types[s] = outputs[1 + s];
  }
  const Dim count = LoopCount(args);
  for (size_t r = 0; r < sizes.rows; ++r) {
    const TensorType& row = outputs[1 + sizes.states + r];
    if (!row.is_tensor())
      return InvalidInput("output {} of each round is {}, expected a tensor", r, row.ToString());
    TensorType type = Unranked(row);
    if (row.shape.ranked()) {
      std::vector<Dim> dims = {count};
      dims.insert(dims.end(), row.shape.dims().begin(), row.shape.dims().end());
      type.shape = Shape(std::move(dims));
    }
    types.push_back(std::move(type));
  }
  return types;
}

// ---- Scan(states..., sequences..., captured...)

}  // namespace

Result<ScanPlan> ScanPlanOf(const Node& node) {
  ScanPlan p;
  EVOQ_ASSIGN(const size_t own, OwnInputs(node, 1));
  EVOQ_ASSIGN(const int64_t sequences, IntAttr(node, "num_scan_inputs", 0));
  const Graph& body = *node.bodies[0];
  if (sequences < 1 || sequences > static_cast<int64_t>(own))
    return InvalidInput("attribute num_scan_inputs is {} of {} inputs", sequences, own);
  p.sequences = static_cast<size_t>(sequences);
  p.states = own - p.sequences;
  if (body.inputs().size() != node.inputs.size() || body.outputs().size() < p.states)
    return InvalidInput("a subgraph of {} inputs and {} outputs for {} inputs",
                        body.inputs().size(), body.outputs().size(), node.inputs.size());
  p.rows = body.outputs().size() - p.states;
  const auto list = [&](const char* name, size_t count, std::vector<int64_t>& values) -> Status {
    EVOQ_ASSIGN(values, IntsAttr(node, name, std::vector<int64_t>(count, 0)));
    if (values.empty()) values.assign(count, 0);
    return values.size() == count ? Status()
                                  : InvalidInput("attribute {} has {} numbers, expected {}", name,
                                                 values.size(), count);
  };
  EVOQ_TRY(list("scan_input_axes", p.sequences, p.in_axes));
  EVOQ_TRY(list("scan_input_directions", p.sequences, p.in_backwards));
  EVOQ_TRY(list("scan_output_axes", p.rows, p.out_axes));
  EVOQ_TRY(list("scan_output_directions", p.rows, p.out_backwards));
  return p;
}

namespace {

InferResult InferScan(const InferArgs& args) {
  EVOQ_ASSIGN(const ScanPlan p, ScanPlanOf(args.node));
  std::vector<TensorType> inputs(args.inputs.begin(), args.inputs.end());
  Dim length;
  for (size_t s = 0; s < p.sequences; ++s) {
    TensorType& type = inputs[p.states + s];
    if (!type.is_tensor())
      return InvalidInput("input {} is {}, expected a tensor", p.states + s, type.ToString());
    if (!type.shape.ranked()) continue;
    EVOQ_ASSIGN(const int axis, NormalizeAxis(p.in_axes[s], type.shape.rank()));
    const Dim size = type.shape[axis];
    if (size.known() && length.known() && size.value != length.value)
      return InvalidInput("sequences of {} and {} rows, expected equal lengths", length.value,
                          size.value);
    if (size.known() || length == Dim()) length = size;
    type.shape.mutable_dims().erase(type.shape.mutable_dims().begin() + axis);
  }
  std::vector<TensorType> outputs;
  for (int round = 0;; ++round) {
    EVOQ_ASSIGN(outputs, InferBody(*args.node.bodies[0], inputs, args.evaluator));
    bool same = true;
    for (size_t s = 0; s < p.states; ++s) {
      EVOQ_ASSIGN(TensorType wide, Widened(inputs[s], outputs[s], "state", s));
      same &= wide == inputs[s];
      inputs[s] = round < kMaxRounds ? std::move(wide) : Unranked(wide);
    }
    if (same) break;
  }
  std::vector<TensorType> types(inputs.begin(), inputs.begin() + static_cast<int64_t>(p.states));
  for (size_t r = 0; r < p.rows; ++r) {
    TensorType type = outputs[p.states + r];
    if (!type.is_tensor())
      return InvalidInput("output {} of each round is {}, expected a tensor", r, type.ToString());
    if (type.shape.ranked()) {
      EVOQ_ASSIGN(const int axis, NormalizeAxis(p.out_axes[r], type.shape.rank() + 1));
      type.shape.mutable_dims().insert(type.shape.mutable_dims().begin() + axis, length);
    }
    types.push_back(std::move(type));
  }
  return types;
}

// ---- SequenceMap(sequence, others..., captured...)

InferResult InferSequenceMap(const InferArgs& args) {
  EVOQ_ASSIGN(const size_t own, OwnInputs(args.node, 1));
  std::vector<TensorType> inputs(args.inputs.begin(), args.inputs.end());
  if (inputs[0].kind != ValueKind::kSequence)
    return InvalidInput("input 0 is {}, expected a sequence", inputs[0].ToString());
  for (size_t i = 0; i < own; ++i) inputs[i].kind = ValueKind::kTensor;
  EVOQ_ASSIGN(std::vector<TensorType> types,
              InferBody(*args.node.bodies[0], inputs, args.evaluator));
  for (TensorType& type : types) {
    if (!type.is_tensor())
      return InvalidInput("the subgraph gives {}, expected a tensor", type.ToString());
    type.kind = ValueKind::kSequence;
  }
  return types;
}

}  // namespace

Result<size_t> CapturedInputs(const Node& node) {
  const int64_t count = static_cast<int64_t>(node.inputs.size());
  const int64_t captured = node.op == "If" ? count - 1 : node.attrs.Int("captured", 0);
  if (captured < 0 || captured > count)
    return InvalidInput("{} captured values among {} inputs", captured, count);
  return static_cast<size_t>(captured);
}

Result<std::vector<TensorType>> BodyInputTypes(const Node& node, size_t body,
                                               std::span<const TensorType> inputs) {
  const size_t wanted = node.bodies[body]->inputs().size();
  std::vector<TensorType> types(inputs.begin(), inputs.end());
  const auto any_size = [](TensorType& type) {
    if (type.shape.ranked())
      type.shape = Shape(std::vector<Dim>(static_cast<size_t>(type.shape.rank())));
  };
  if (node.op == "If") {
    types.erase(types.begin(),
                types.begin() + std::min<int64_t>(1, static_cast<int64_t>(types.size())));
  } else if (node.op == "Loop") {
    EVOQ_ASSIGN(const size_t own, OwnInputs(node, 2));
    types[0] = TensorType(DType::kInt64, Shape{});
    types[1] = TensorType(DType::kBool, Shape{});
    for (size_t i = 2; i < own; ++i) any_size(types[i]);
  } else if (node.op == "Scan") {
    EVOQ_ASSIGN(const ScanPlan p, ScanPlanOf(node));
    for (size_t i = 0; i < p.states; ++i) any_size(types[i]);
    for (size_t s = 0; s < p.sequences; ++s) {
      TensorType& type = types[p.states + s];
      if (!type.shape.ranked()) continue;
      EVOQ_ASSIGN(const int axis, NormalizeAxis(p.in_axes[s], type.shape.rank()));
      type.shape.mutable_dims().erase(type.shape.mutable_dims().begin() + axis);
    }
  } else {
    EVOQ_ASSIGN(const size_t own, OwnInputs(node, 1));
    for (size_t i = 0; i < own; ++i) types[i].kind = ValueKind::kTensor;
  }
  if (types.size() != wanted)
    return InvalidInput("{} values for the subgraph's {} inputs", types.size(), wanted);
  return types;
}

extern const OpDef kIf = {.name = "If",
                          .max_inputs = -1,
                          .outputs = -1,
                          .containers = true,
                          .strings = Strings::kOwn,
                          .bodies = 2,
                          .infer = InferIf};
extern const OpDef kLoop = {.name = "Loop",
                            .min_inputs = 0,
                            .max_inputs = -1,
                            .outputs = -1,
                            .containers = true,
                            .strings = Strings::kOwn,
                            .bodies = 1,
                            .infer = InferLoop};
extern const OpDef kScan = {.name = "Scan",
                            .max_inputs = -1,
                            .outputs = -1,
                            .containers = true,
                            .strings = Strings::kOwn,
                            .bodies = 1,
                            .infer = InferScan};
extern const OpDef kSequenceMap = {.name = "SequenceMap",
                                   .max_inputs = -1,
                                   .outputs = -1,
                                   .containers = true,
                                   .strings = Strings::kOwn,
                                   .bodies = 1,
                                   .infer = InferSequenceMap};

}  // namespace evoq
