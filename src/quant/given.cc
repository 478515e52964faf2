#include "quant/given.h"

#include <algorithm>
#include <cmath>

#include "ops/roles.h"
#include "passes/widen.h"
#include "quant/layer_bits.h"
#include "quant/params.h"
#include "quant/plan.h"
#include "quant/unfuse.h"
#include "reference/reference.h"

namespace evoq {
namespace {

// Whether integer arithmetic takes a value of this type: int8 or uint8 with one scale.
bool IsGivenByte(const GivenType& given) {
  return !given.real && given.params.per_tensor() &&
         (given.dtype == DType::kUint8 || given.dtype == DType::kInt8) &&
         (given.bits == 0 || given.bits == 8 || given.held);
}

constexpr double kMaxBias = 0x1p30;

TensorType TypeOf(const GivenType& given, const Shape& shape) {
  return {given.dtype, shape, given.params};
}

// What integers of the type stand for.
Range Representable(const GivenType& given) {
  const double scale = given.params.scales[0], zero = given.params.zero_points[0];
  return {static_cast<float>((static_cast<double>(IntegerMin(given.dtype)) - zero) * scale),
          static_cast<float>((static_cast<double>(IntegerMax(given.dtype)) - zero) * scale)};
}

bool ReadAsWeight(const Graph& graph, ValueId constant) {
  return std::ranges::any_of(graph.value(constant).users, [&](NodeId user) {
    const auto place = WeightPlaceOf(graph, graph.node(user));
    return place && graph.node(user).input(place->input) == constant;
  });
}

bool ReadAsBias(const Graph& graph, ValueId constant) {
  return std::ranges::any_of(graph.value(constant).users, [&](NodeId user) {
    return IsLinear(graph.node(user)) && graph.node(user).input(2) == constant;
  });
}

class Placer {
 public:
  Placer(Graph& graph, QuantizeOptions& options, Ranges& ranges, QuantizeReport& report)
      : graph_(graph), options_(options), ranges_(ranges), report_(report) {}

  Result<std::set<ValueId>> Run() {
    EVOQ_TRY(Split());
    const GivenTypes given = options_.given;
    for (const auto& [name, type] : given) {
      const ValueId v = graph_.FindValue(name);
      if (!v.valid()) continue;
      EVOQ_TRY(WithContext(Place(v, type), name));
    }
    EVOQ_TRY(graph_.Sort());
    EVOQ_TRY(InferTypes(graph_));
    for (NodeId id : graph_.order()) PassOn(graph_.node(id));
    return std::move(bytes_);
  }

 private:
  Status Split() {
    const std::vector<NodeId> nodes = graph_.order();
    for (NodeId id : nodes) {
      const Node& node = graph_.node(id);
      if (!IsLinear(node) || !node.outputs[0].valid()) continue;
      const ValueId y = node.outputs[0];
      const std::string name = graph_.value(y).name;
      NodeId last = id;
      if (HasResidual(node) && options_.given.count(name + ".product")) {
        SplitResidual(graph_, id);
        last = graph_.value(y).producer;
      }
      if (!graph_.node(last).attrs.String("activation").empty() &&
          options_.given.count(name + ".linear"))
        SplitActivation(graph_, last);
    }
    EVOQ_TRY(graph_.Sort());
    return InferTypes(graph_);
  }

  Status Place(ValueId v, const GivenType& given) {
    const Value& value = graph_.value(v);
    if (value.type.dtype != DType::kFloat32 || value.type.quantized()) return {};
    if (given.real) {
      ranges_.erase(value.name);
      return {};
    }
    if (value.is_constant()) return PlaceConstant(v, given);
    EVOQ_TRY(ValidateQuant(TypeOf(given, value.type.shape)));
    if (!IsGivenByte(given)) return Round(v, given);
    Range& range = ranges_[value.name];
    const Range representable = Representable(given);
    range.min = representable.min;
    range.max = representable.max;
    bytes_.insert(v);
    return {};
  }

  Status PlaceConstant(ValueId v, const GivenType& given) {
    const Value& value = graph_.value(v);
    // The bias of a product is rounded once its operands have their scales.
    if (given.dtype == DType::kInt32 && ReadAsBias(graph_, v)) return {};
    EVOQ_TRY(ValidateQuant(TypeOf(given, value.type.shape)));
    if (ReadAsWeight(graph_, v)) return {};
    EVOQ_ASSIGN(const Tensor q, QuantizeGiven(value.constant, given));
    EVOQ_ASSIGN(Tensor real, ToFloat32(q));
    report_.used[value.name] = q.type();
    graph_.SetConstant(v, std::move(real));
    if (IsGivenByte(given)) bytes_.insert(v);
    return {};
  }

  // What an operator that only moves numbers gives has its inputs' type, unless it was given one:
  // rounded numbers are rounded already.
  void PassOn(const Node& node) {
    if (!MovesOnly(node)) return;
    const GivenType* given = nullptr;
    for (size_t i : RealInputs(graph_, node)) {
      const ValueId x = node.inputs[i];
      if (!bytes_.count(x) || graph_.value(x).is_constant()) return;
      const GivenType* own = GivenFor(options_, graph_.value(x).name);
      if (given != nullptr && (own->dtype != given->dtype || own->params != given->params)) return;
      given = own;
    }
    if (given == nullptr) return;
    const GivenType type = *given;
    for (ValueId y : node.outputs) {
      if (!y.valid() || graph_.value(y).type.dtype != DType::kFloat32) continue;
      const std::string& name = graph_.value(y).name;
      if (!options_.given.emplace(name, type).second) continue;
      ranges_[name].min = Representable(type).min;
      ranges_[name].max = Representable(type).max;
      bytes_.insert(y);
    }
  }

  // Everybody reads the rounded value.
  Status Round(ValueId v, const GivenType& given) {
    const TensorType real = graph_.value(v).type, type = TypeOf(given, real.shape);
    const std::string name = graph_.value(v).name;
    const std::vector<NodeId> users = graph_.value(v).users;
    const ValueId q = graph_.Apply("QuantizeLinear", name + ".quantize", {v}, {}, type);
    const ValueId rounded = graph_.Apply("DequantizeLinear", name + ".rounded", {q}, {}, real);
    for (NodeId user : users) graph_.ReplaceUsesIn(user, v, rounded);
    for (size_t i = 0; i < graph_.outputs().size(); ++i) {
      if (graph_.outputs()[i] == v) graph_.ReplaceOutput(i, rounded);
    }
    report_.used[name] = type;
    ranges_.erase(name);
    options_.given[graph_.value(v).name] = options_.given[graph_.value(rounded).name] = given;
    return {};
  }

  Graph& graph_;
  QuantizeOptions& options_;
  Ranges& ranges_;
  QuantizeReport& report_;
  std::set<ValueId> bytes_;
};

}  // namespace

const GivenType* GivenFor(const QuantizeOptions& options, const std::string& value) {
  const auto given = options.given.find(value);
  return given == options.given.end() ? nullptr : &given->second;
}

std::optional<Reason> GivenAsOther(const std::string& value, const QuantizeOptions& options) {
  const GivenType* given = GivenFor(options, value);
  if (given == nullptr || IsGivenByte(*given)) return std::nullopt;
  if (given->real) return Reason{"excluded", fmt::format("{} was given as floating point", value)};
  return Reason{"types",
                fmt::format("{} was given as {}: integer kernels take 8 bits with one scale", value,
                            DTypeName(given->dtype))};
}

std::optional<Reason> GivenWeightReason(const Graph& graph, const Node& node, const Ranges& ranges,
                                        const QuantizeOptions& options) {
  const ValueId w = node.input(1);
  const GivenType* given = w.valid() ? GivenFor(options, graph.value(w).name) : nullptr;
  if (given == nullptr) return std::nullopt;
  if (given->real) return kGivenAsFloat;
  const TensorType type = TypeOf(*given, graph.value(w).type.shape);
  const QuantParams& params = given->params;
  const bool one_per_output = params.block == 0 && HasOneOutputAxis(node) &&
                              params.axis == WeightAxis(node, type.shape.rank());
  if (!IsInteger(given->dtype) || DTypeBits(given->dtype) > 8 ||
      (!params.per_tensor() && !one_per_output))
    return Reason{"types", fmt::format("its weights were given as {}: integer kernels take 8 bits "
                                       "with one scale or one per output channel",
                                       type.ToString())};
  const ValueId x = node.input(0), b = node.input(2);
  if (!b.valid()) return std::nullopt;
  const GivenType* data = GivenFor(options, graph.value(x).name);
  const auto range = ranges.find(graph.value(x).name);
  const double scale_x = data != nullptr && IsGivenByte(*data) ? data->params.scales[0]
                         : range != ranges.end()
                             ? ActivationParams(range->second, DType::kInt8, false).scales[0]
                             : 1;
  const auto bias = graph.value(b).constant.values<float>();
  for (size_t c = 0; c < bias.size(); ++c) {
    if (std::fabs(bias[c]) / (scale_x * params.scales[c % params.scales.size()]) > kMaxBias)
      return Reason{"types", fmt::format("with the weights' given scale {} the bias {} is too "
                                         "large for int32",
                                         params.scales[c % params.scales.size()], bias[c])};
  }
  return std::nullopt;
}

Result<Tensor> QuantizeGiven(const Tensor& weight, const GivenType& given) {
  const TensorType type = TypeOf(given, weight.shape());
  EVOQ_TRY(ValidateQuant(type));
  if (given.binary) return SignsOf(weight, type);
  EVOQ_ASSIGN(Tensor q, QuantizeTensor(weight, type));
  if (given.bits == 0 || given.bits >= DTypeBits(given.dtype)) return q;
  // The same integers within fewer bits, by way of real numbers of scale 1, which is exact.
  const int64_t low = IsSigned(given.dtype) ? -(int64_t{1} << (given.bits - 1)) : 0,
                high = low + (int64_t{1} << given.bits) - 1;
  const TensorType units(given.dtype, weight.shape(), QuantParams::PerTensor(1, 0));
  EVOQ_ASSIGN(Tensor real, ToFloat32(q.WithType(units)));
  float* numbers = real.mutable_data<float>();
  for (int64_t i = 0; i < real.elements(); ++i)
    numbers[i] = std::clamp(numbers[i], static_cast<float>(low), static_cast<float>(high));
  EVOQ_ASSIGN(q, QuantizeTensor(real, units));
  return q.WithType(type);
}

Result<ValueId> AddGivenWeight(Graph& graph, ValueId w, const Tensor& weight,
                               const GivenType& given, QuantizeReport& report) {
  const std::string name = graph.value(w).name;
  EVOQ_ASSIGN(const Tensor q, WithContext(QuantizeGiven(weight, given), name));
  report.used[name] = q.type();
  return graph.AddConstant(fmt::format("{}.{}", name, DTypeName(q.dtype())), q);
}

void CountWeight(const TensorType& type, QuantizeReport& report) {
  if (DTypeBits(type.dtype) < 8 || IsTinyFloat(type.dtype)) {
    ++report.low_bit_weights[DTypeName(type.dtype)];
  } else {
    ++report.int8_weights;
  }
}

Result<std::set<ValueId>> PlaceGiven(Graph& graph, QuantizeOptions& options, Ranges& ranges,
                                     QuantizeReport& report) {
  if (options.given.empty()) return std::set<ValueId>();
  return Placer(graph, options, ranges, report).Run();
}

Status QuantizeFloatNodesGiven(Graph& graph, const QuantizeOptions& options,
                               QuantizeReport& report) {
  std::map<ValueId, ValueId> done;
  const std::vector<NodeId> nodes = graph.order();
  for (NodeId id : nodes) {
    const Node& node = graph.node(id);
    const auto place = WeightPlaceOf(graph, node);
    if (!place) continue;
    const ValueId w = node.input(place->input);
    const Value& weight = graph.value(w);
    const GivenType* given = GivenFor(options, weight.name);
    if (given == nullptr || given->real || KeptByOptions(node, options) ||
        weight.type.dtype != DType::kFloat32 || !weight.constant.layout().empty())
      continue;
    ValueId& q = done[w];
    if (!q.valid()) {
      const Tensor real = weight.constant;
      EVOQ_ASSIGN(q, AddGivenWeight(graph, w, real, *given, report));
    }
    graph.SetInput(id, place->input, q);
    CountWeight(graph.value(q).type, report);
  }
  return {};
}

void NoteNotUsed(const QuantizeOptions& options, const std::string& why, QuantizeReport& report) {
  for (const auto& [name, given] : options.given) {
    if (report.used.count(name) || given.real) continue;
    report.not_used.emplace(name, given.dtype == DType::kInt32
                                      ? "its operator computes in float32, with the bias as it is"
                                      : why);
  }
}

}  // namespace evoq
