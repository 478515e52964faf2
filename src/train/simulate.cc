#include "train/simulate.h"

#include <algorithm>
#include <cmath>

#include "graph/value_sets.h"
#include "kernels/activation.h"
#include "ops/pool.h"
#include "quant/activation_bits.h"
#include "quant/plan.h"
#include "quant/unfuse.h"
#include "reference/reference.h"
#include "train/simulation.h"

namespace evoq {
namespace {

// A mean over whole axes.
bool IsMeanOfAxes(const Node& node) {
  if (node.op == "GlobalAveragePool") return true;
  return node.op == "ReduceMean";
}

// The numbers of each mean of an operator that is simulated as one; 0 of others. `x` and `y` are
// static but for the batch.
int64_t CountOfMean(const Node& node, const Shape& x, const Shape& y) {
  constexpr int64_t kMost = 16384;  // times 255 below 2^22
  if (!node.domain.empty()) return 0;
  int64_t count = 0;
  if (node.op == "AveragePool") {
    const auto window = PoolWindowOf(node, x);
    const bool pads = !window || node.attrs.Int("ceil_mode") != 0 ||
                      std::ranges::any_of(window->pad_begin, [](int64_t p) { return p != 0; }) ||
                      std::ranges::any_of(window->pad_end, [](int64_t p) { return p != 0; });
    if (pads) return 0;
    count = 1;
    for (const int64_t size : window->kernel) count *= size;
  } else if (IsMeanOfAxes(node)) {
    if (!x.ranked() || !y.ranked() || y.rank() == 0 || x.rank() < 2) return 0;
    int64_t in = 1, out = 1;
    for (int d = 1; d < x.rank(); ++d) in *= std::max<int64_t>(x[d].value, 0);
    for (int d = 1; d < y.rank(); ++d) out *= std::max<int64_t>(y[d].value, 0);
    count = out > 0 && x[0] == y[0] ? in / out : 0;
  }
  return count <= kMost ? count : 0;
}

// A function of one value, which is a table in integers.
bool IsFunction(const Node& node) {
  const OpDef* const op = FindOp(node);
  return op != nullptr && op->quant == QuantTrait::kTable && node.inputs.size() == 1 &&
         node.attrs.String("activation").empty() && FindGradient(node) != nullptr;
}

// log(scale) as a parameter, of which StepOf gives the scale again.
float LogOf(float scale) {
  auto t = static_cast<float>(std::log(static_cast<double>(scale)));
  while (StepOf(t) > scale) t = std::nextafter(t, -HUGE_VALF);
  return t;
}

class Simulator {
 public:
  Simulator(const Graph& integers, const Graph& real, const GivenTypes& given)
      : integers_(integers), real_(real), given_(given), sets_(integers.value_count()) {}

  Result<Simulation> Run() {
    JoinMoved();
    Graph& graph = out_.graph;
    graph.name = integers_.name;
    for (ValueId id : integers_.inputs())
      values_[id] = graph.AddInput(integers_.value(id).name, integers_.value(id).type);
    for (NodeId id : integers_.order()) {
      const Node& node = integers_.node(id);
      EVOQ_TRY(WithContext(AddNode(node), fmt::format("{} ({})", node.name, node.op)));
    }
    for (ValueId id : integers_.outputs()) {
      if (integers_.value(id).type.quantized())
        return Unsupported("output {} is quantized", integers_.value(id).name);
      graph.MarkOutput(values_.at(id));
    }
    EVOQ_TRY(graph.Sort());
    return std::move(out_);
  }

 private:
  const TensorType& TypeOf(ValueId id) const { return integers_.value(id).type; }

  // Values that share a scale for as long as they live.
  void JoinMoved() {
    for (NodeId id : integers_.order()) {
      const Node& node = integers_.node(id);
      if (!MovesOnly(node) || !TypeOf(node.outputs[0]).quantized()) continue;
      for (ValueId in : node.inputs) {
        if (in.valid() && TypeOf(in).quantized()) sets_.Join(in, node.outputs[0]);
      }
      for (ValueId out : node.outputs) {
        if (out.valid() && TypeOf(out).quantized()) sets_.Join(out, node.outputs[0]);
      }
    }
  }

  // The name in `given` of a quantized value, "" of a constant.
  std::string NameOf(ValueId id) const {
    const Value& value = integers_.value(id);
    if (value.is_constant()) return "";
    if (given_.count(value.name) || !value.producer.valid()) return value.name;
    const Node& producer = integers_.node(value.producer);
    return IsQuantize(producer) ? integers_.value(producer.inputs[0]).name : value.name;
  }

  // The parameter of a quantized value's scale; of a constant it is one that nobody trains.
  ValueId StepOfValue(ValueId id) {
    const int set = sets_.Find(id);
    const float scale = TypeOf(id).quant->scales[0];
    const std::string name = NameOf(id);
    auto step = value_steps_.find(set);
    if (step == value_steps_.end()) {
      const std::string step_name =
          (name.empty() ? integers_.value(id).name : name) + std::string(kStepSuffix);
      const ValueId made = out_.graph.AddConstant(
          step_name, Tensor::FromValues<float>(Shape{1}, std::vector<float>{LogOf(scale)}));
      step = value_steps_.emplace(set, made).first;
    }
    if (!name.empty()) out_.steps[name] = out_.graph.value(step->second).name;
    return step->second;
  }

  // 8, or the bits of a value that uses fewer.
  int BitsOfValue(ValueId id) const {
    const auto given = given_.find(NameOf(id));
    return given != given_.end() && given->second.held ? given->second.bits : 8;
  }

  StepBounds BoundsOf(ValueId id) const {
    const TensorType& type = TypeOf(id);
    const int32_t zero = type.quant->zero_points[0];
    const LevelBounds bounds = LevelBoundsOf(type.dtype, BitsOfValue(id));
    return {static_cast<float>(bounds.low - zero), static_cast<float>(bounds.high - zero), zero};
  }

  // A value of the simulation: real numbers, or integers about their zero point.
  ValueId In(ValueId id) {
    if (!id.valid()) return {};
    auto [it, fresh] = values_.emplace(id, ValueId{});
    if (!fresh) return it->second;
    const Value& value = integers_.value(id);
    EVOQ_CHECK(value.is_constant(), "{} has no producer", value.name);
    Tensor tensor = value.constant;
    if (value.type.quantized()) {
      const QuantParams units = QuantParams::PerTensor(1, value.type.quant->zero_points[0]);
      tensor =
          ToFloat32(tensor.WithType(TensorType(value.type.dtype, value.type.shape, units))).value();
    }
    return values_[id] = out_.graph.AddConstant(value.name, std::move(tensor));
  }

  // A constant of the float32 graph.
  ValueId Real(ValueId id) {
    if (!id.valid()) return {};
    auto [it, fresh] = reals_.emplace(id, ValueId{});
    if (fresh) it->second = out_.graph.AddConstant(real_.value(id).name, real_.value(id).constant);
    return it->second;
  }

  void Emit(const Node& from, const std::string& op, std::vector<ValueId> inputs, Attrs attrs,
            const std::string& domain = kSimulationDomain) {
    Node node{.op = op,
              .domain = domain,
              .name = from.name,
              .attrs = std::move(attrs),
              .inputs = std::move(inputs)};
    for (ValueId out : from.outputs) {
      if (!out.valid()) {
        node.outputs.emplace_back();
        continue;
      }
      values_[out] = out_.graph.AddValue(integers_.value(out).name, TypeOf(out).Dequantized());
      node.outputs.push_back(values_[out]);
    }
    out_.graph.AddNode(std::move(node));
  }

  Status AddNode(const Node& node) {
    const bool from_integers = node.input(0).valid() && TypeOf(node.input(0)).quantized();
    const ValueId y = node.outputs[0];
    const bool to_integers = y.valid() && TypeOf(y).quantized();
    if (IsConversion(node) && node.inputs.size() == 1 && (from_integers || to_integers))
      return AddConversion(node);
    if (IsLinear(node) && from_integers) return AddLinear(node);
    if ((!from_integers && !to_integers) || GivesSizes(node)) return AddReal(node);
    if (MovesOnly(node) && FindGradient(node) != nullptr && from_integers && to_integers) {
      std::vector<ValueId> inputs;
      for (ValueId in : node.inputs) inputs.push_back(In(in));
      StepOfValue(y);
      Emit(node, node.op, std::move(inputs), node.attrs, "");
      return {};
    }
    if (node.op == "Add" && from_integers && to_integers) return AddPair(node);
    if (node.op == "Mul" && from_integers && to_integers) return AddPair(node);
    if (IsFunction(node) && from_integers && to_integers) return AddTable(node);
    if (const int64_t count = from_integers && to_integers
                                  ? CountOfMean(node, TypeOf(node.inputs[0]).shape, TypeOf(y).shape)
                                  : 0;
        count > 0)
      return AddMean(node, count);
    return Unsupported("training simulates no such operator on integers");
  }

  Status AddConversion(const Node& node) {
    const ValueId x = node.inputs[0], y = node.outputs[0];
    Attrs attrs;
    if (IsQuantize(node)) {
      if (TypeOf(x).quantized()) return Unsupported("integers become other integers");
      BoundsOf(y).To(attrs, "y");
      const ValueId step = StepOfValue(y);
      Emit(node, "Quantize", {In(x), step}, std::move(attrs));
    } else if (integers_.value(x).is_constant()) {
      EVOQ_ASSIGN(Tensor real, ToFloat32(integers_.value(x).constant));
      values_[y] = out_.graph.AddConstant(integers_.value(y).name, std::move(real));
    } else {
      Emit(node, "Dequantize", {In(x), StepOfValue(x)}, std::move(attrs));
    }
    return {};
  }

  Status AddLinear(const Node& node) {
    const NodeId real = real_.FindNode(node.name);
    EVOQ_CHECK(real.valid(), "layer {} is not in the float32 graph", node.name);
    const Node& own = real_.node(real);
    const std::string& weight = real_.value(own.inputs[1]).name;
    const auto given = given_.find(weight);
    if (given == given_.end() || !real_.value(own.inputs[1]).is_constant())
      return Unsupported("its weights are no constants with scales");
    Attrs attrs = node.attrs;
    attrs.Set("op", node.op);
    // The bounds of y follow its step; those in the integers' Clip are of the step as it is.
    if (TypeOf(node.outputs[0]).quantized() && BitsOfValue(node.outputs[0]) < 8) {
      EraseActivation(attrs);
      EVOQ_ASSIGN(const ProductActivation activation, ProductActivationFromAttrs(own.attrs));
      ProductActivationToAttrs(activation, attrs);
    }
    BoundsOf(node.inputs[0]).To(attrs, "x");
    const DType type = given->second.dtype;
    StepBounds bounds = {static_cast<float>(IntegerMin(type)), static_cast<float>(IntegerMax(type)),
                         0};
    if (given->second.binary) bounds = {-1, 1, 0};
    bounds.To(attrs, "w");
    attrs.Set("binary", given->second.binary ? 1 : 0);
    std::vector<ValueId> inputs = {
        In(node.inputs[0]),          Real(own.inputs[1]),
        Real(own.input(2)),          In(node.input(3)),
        StepOfValue(node.inputs[0]), StepsOfWeight(weight, given->second.params)};
    const ValueId y = node.outputs[0], residual = node.input(3);
    const bool to_integers = TypeOf(y).quantized();
    if (to_integers) BoundsOf(y).To(attrs, "y");
    inputs.push_back(to_integers ? StepOfValue(y) : ValueId{});
    const bool integer_residual = residual.valid() && TypeOf(residual).quantized();
    inputs.push_back(integer_residual ? StepOfValue(residual) : ValueId{});
    Emit(node, "Linear", std::move(inputs), std::move(attrs));
    return {};
  }

  ValueId StepsOfWeight(const std::string& weight, const QuantParams& params) {
    auto [it, fresh] = weight_steps_.emplace(weight, ValueId{});
    if (!fresh) return it->second;
    std::vector<float> logs;
    for (const float scale : params.scales) logs.push_back(LogOf(scale));
    it->second =
        out_.graph.AddConstant(weight + std::string(kStepSuffix), Tensor::FromValues(logs));
    out_.steps[weight] = out_.graph.value(it->second).name;
    return it->second;
  }

  Status AddPair(const Node& node) {
    Attrs attrs = node.attrs;
    BoundsOf(node.inputs[0]).To(attrs, "a");
    BoundsOf(node.inputs[1]).To(attrs, "b");
    BoundsOf(node.outputs[0]).To(attrs, "y");
    const ValueId a = In(node.inputs[0]), b = In(node.inputs[1]);
    const ValueId step_a = StepOfValue(node.inputs[0]), step_b = StepOfValue(node.inputs[1]);
    Emit(node, node.op, {a, b, step_a, step_b, StepOfValue(node.outputs[0])}, std::move(attrs));
    return {};
  }

  Status AddTable(const Node& node) {
    const ValueId x = node.inputs[0], y = node.outputs[0];
    Attrs attrs = node.attrs;
    attrs.Set("op", node.op);
    attrs.Set("op_domain", node.domain);
    attrs.Set("x_unsigned", TypeOf(x).dtype == DType::kUint8 ? 1 : 0);
    attrs.Set("y_unsigned", TypeOf(y).dtype == DType::kUint8 ? 1 : 0);
    BoundsOf(x).To(attrs, "x");
    BoundsOf(y).To(attrs, "y");
    const ValueId from = In(x), step = StepOfValue(x);
    Emit(node, "Table", {from, step, StepOfValue(y)}, std::move(attrs));
    return {};
  }

  Status AddMean(const Node& node, int64_t count) {
    Attrs attrs = node.attrs;
    attrs.Set("op", node.op);
    attrs.Set("count", count);
    BoundsOf(node.outputs[0]).To(attrs, "y");
    std::vector<ValueId> inputs;
    for (ValueId in : node.inputs) inputs.push_back(In(in));
    inputs.push_back(StepOfValue(node.inputs[0]));
    inputs.push_back(StepOfValue(node.outputs[0]));
    Emit(node, "Average", std::move(inputs), std::move(attrs));
    return {};
  }

  // A node on real numbers, in the operators that have gradients: without what is fused into it.
  Status AddReal(const Node& node) {
    Graph& graph = out_.graph;
    std::vector<ValueId> inputs;
    for (ValueId in : node.inputs) inputs.push_back(In(in));
    Emit(node, node.op, std::move(inputs), node.attrs, node.domain);
    NodeId made = graph.FindNode(node.name);
    if (HasResidual(graph.node(made))) {
      const ValueId y = graph.node(made).outputs[0];
      SplitResidual(graph, made);
      if (!graph.node(graph.value(y).producer).attrs.String("activation").empty())
        SplitActivation(graph, graph.value(y).producer);
    } else if (!node.attrs.String("activation").empty()) {
      SplitActivation(graph, made);
    }
    if (IsLinear(node) && node.op == "MatMul" && node.input(2).valid()) {
      const ValueId y = graph.node(made).outputs[0], bias = graph.node(made).inputs[2];
      graph.SetInput(made, 2, ValueId{});
      const ValueId product = graph.AddValue(graph.value(y).name + ".product", graph.value(y).type);
      graph.SetOutput(made, 0, product);
      graph.AddNode(
          {.op = "Add", .name = node.name + ".bias", .inputs = {product, bias}, .outputs = {y}});
    }
    return graph.Sort();
  }

  static constexpr std::string_view kStepSuffix = ".step";

  const Graph &integers_, &real_;
  const GivenTypes& given_;
  ValueSets sets_;
  std::map<ValueId, ValueId> values_, reals_;  // of the simulation, by those of the graphs
  std::map<int, ValueId> value_steps_;         // by set
  std::map<std::string, ValueId> weight_steps_;
  Simulation out_;
};

}  // namespace

Result<Simulation> Simulate(const Graph& integers, const Graph& real, const GivenTypes& given) {
  return Simulator(integers, real, given).Run();
}

// Whether an operator that only moves values moves integers in training: not where it reads a
// constant table, which is a parameter of real numbers, nor where it fills with another real number
// than 0.
static bool MovesIntegers(const Graph& graph, const Node& node) {
  if (FindGradient(node) == nullptr) return false;
  size_t real = 0, constants = 0;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId in = node.inputs[i];
    if (!in.valid() || graph.value(in).type.dtype != DType::kFloat32) continue;
    const Tensor* const constant = graph.ConstantInput(node, i);
    if (RoleOf(node, i) == Role::kFill) {
      const auto zero = [](float v) { return v == 0; };
      if (constant == nullptr) return false;
      const auto values = constant->values<float>();
      if (!std::all_of(values.begin(), values.end(), zero)) return false;
      continue;
    }
    ++real;
    constants += constant != nullptr;
  }
  return constants < real;
}

bool IsSimulated(const Graph& graph, const Node& node) {
  const auto shape = [&](ValueId id) { return graph.value(id).type.shape; };
  const OpDef* const op = FindOp(node);
  if (op == nullptr || op->quant == QuantTrait::kFloat || node.outputs.empty()) return true;
  if (IsLinear(node))
    return FindGradient(node) != nullptr && graph.ConstantInput(node, 1) != nullptr;
  if (MovesOnly(node)) return MovesIntegers(graph, node);
  if (IsFunction(node)) return true;
  if (node.op == "Mul" && node.domain.empty())
    return !graph.value(node.inputs[0]).is_constant() &&
           !graph.value(node.inputs[1]).is_constant() && shape(node.outputs[0]).ranked() &&
           shape(node.outputs[0]).rank() > 1 && node.attrs.String("activation").empty();
  if (node.op == "Add" && node.domain.empty())
    return shape(node.inputs[0]) == shape(node.inputs[1]) && shape(node.inputs[0]).ranked() &&
           shape(node.inputs[0]).rank() > 1;
  return CountOfMean(node, shape(node.inputs[0]), shape(node.outputs[0])) > 0;
}

}  // namespace evoq
