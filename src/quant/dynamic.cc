// QuantizeDynamic: integer arithmetic whose activation scales are computed at each run, written as
// ONNX has it:
//   q, s, z = DynamicQuantizeLinear(x);  y = activation(Mul(Cast(ConvInteger(q, w, z)), Mul(s,
//   s_w)) + bias + residual)
#include "graph/float_reason.h"
#include "kernels/activation.h"
#include "quant/given.h"
#include "quant/params.h"
#include "quant/plan.h"
#include "quant/quant.h"
#include "reference/reference.h"
#include "tensor/spilled.h"

namespace evoq {
namespace {

class Dynamic {
 public:
  Dynamic(Graph& graph, const QuantizeOptions& options) : graph_(graph), options_(options) {}

  // Converts the node and returns nothing, or says why it stays.
  Result<std::optional<Reason>> Convert(NodeId id) {
    const Node node = graph_.node(id);
    if (auto reason = Refusal(node)) return reason;
    const int spatial = graph_.value(node.input(1)).type.shape.rank() - 2;
    const Tensor weight = graph_.value(node.input(1)).constant;
    EVOQ_TRY(WithContext(RangeOf(weight), graph_.value(node.input(1)).name));
    const int axis = WeightAxis(node, weight.shape().rank());
    const std::string name = graph_.value(node.input(1)).name;
    const GivenType* given = GivenFor(options_, name);
    Tensor q;
    if (given != nullptr) {
      EVOQ_ASSIGN(q, WithContext(QuantizeGiven(weight, *given), name));
    } else {
      q = Rounded(options_, {.node = node.name,
                             .weight = name,
                             .values = weight,
                             .axis = options_.per_channel ? axis : -1});
    }
    used_[name] = q.type();
    const ValueId w = graph_.AddConstant(name + ".int8",
                                         Spilled(q.WithType(TensorType(DType::kInt8, q.shape()))));
    const ValueId scales =
        graph_.AddConstant(name + ".scale", Channels(spatial, q.type().quant->scales));
    const Input& x = Quantized(node.input(0));
    Attrs attrs = node.attrs, to_float;
    for (const char* fused : {"activation", "activation_alpha", "activation_beta", kFloatReason})
      attrs.Erase(fused);
    to_float.Set("to", static_cast<int>(DType::kFloat32));
    graph_.RenameNode(id, node.name + "_float");
    ValueId y = graph_.Apply(LinearFormOf(node)->integer_form, node.name, {x.values, w, x.zero},
                             std::move(attrs));
    y = graph_.Apply("Cast", node.name + "_cast", {y}, std::move(to_float));
    const ValueId scale = graph_.Apply("Mul", node.name + "_scales", {x.scale, scales});
    y = graph_.Apply("Mul", node.name + "_scaled", {y, scale});
    if (node.input(2).valid()) {
      const auto values = graph_.value(node.input(2)).constant.values<float>();
      const ValueId bias = graph_.AddConstant(node.name + ".bias",
                                              Channels(spatial, {values.begin(), values.end()}));
      y = graph_.Apply("Add", node.name + "_biased", {y, bias});
    }
    if (node.input(3).valid()) y = graph_.Apply("Add", node.name + "_sum", {y, node.input(3)});
    EVOQ_ASSIGN(const Activation activation, ActivationFromAttrs(node.attrs));
    y = Activated(y, activation, node.name);
    graph_.SetType(y, graph_.value(node.outputs[0]).type);  // later nodes ask for it
    graph_.ReplaceUses(node.outputs[0], y);
    return std::optional<Reason>();
  }

  const std::map<std::string, TensorType>& used() const { return used_; }

 private:
  struct Input {
    ValueId values, scale, zero;
  };

  std::optional<Reason> Refusal(const Node& node) const {
    if (LinearFormOf(node)->integer_form == nullptr)
      return Reason{kNoInt8Kernel, fmt::format("{} has no dynamic form", node.op)};
    if (auto kept = KeptByOptions(node, options_)) return kept;
    if (auto given = GivenReason(node)) return given;
    const Tensor* w = graph_.ConstantInput(node, 1);
    if (w == nullptr) return Reason{"weights-not-constant", "the weight is computed at run time"};
    if (w->dtype() != DType::kFloat32 || !w->layout().empty())
      return Reason{"types",
                    fmt::format("the weight is {}, expected plain float32", w->type().ToString())};
    if (w->elements() == 0 || w->shape().rank() < 2 ||
        (LinearFormOf(node)->two_operands && w->shape().rank() != 2))
      return Reason{"shape", fmt::format("the weight is {}", w->type().ToString())};
    const TensorType& x = graph_.value(node.input(0)).type;
    if (x.dtype != DType::kFloat32)
      return Reason{"types", fmt::format("the input is {}, expected float32", x.ToString())};
    const Tensor* bias = graph_.ConstantInput(node, 2);
    if (node.input(2).valid() &&
        (bias == nullptr || bias->dtype() != DType::kFloat32 || !bias->layout().empty()))
      return Reason{"types", "the bias is no float32 constant"};
    return std::nullopt;
  }

  // Why given weights cannot be multiplied as integers: the products have int8 without zero points.
  std::optional<Reason> GivenReason(const Node& node) const {
    const Tensor* w = graph_.ConstantInput(node, 1);
    const GivenType* given =
        w == nullptr ? nullptr : GivenFor(options_, graph_.value(node.input(1)).name);
    if (given == nullptr ||
        (!given->real && given->dtype == DType::kInt8 && given->params.block == 0 &&
         (given->params.per_tensor() ||
          given->params.axis == WeightAxis(node, w->shape().rank())) &&
         std::ranges::all_of(given->params.zero_points, [](int32_t zero) { return zero == 0; })))
      return std::nullopt;
    return given->real ? kGivenAsFloat
                       : Reason{"types",
                                "its weights were given as another type than int8 with one scale "
                                "or one per output channel and no zero point"};
  }

  // Each input is quantized once, whoever reads it.
  const Input& Quantized(ValueId x) {
    const auto [it, fresh] = inputs_.emplace(x, Input{});
    if (fresh) {
      const std::string name = graph_.value(x).name;
      it->second = {graph_.AddValue(name + "_quantized"), graph_.AddValue(name + "_scale"),
                    graph_.AddValue(name + "_zero")};
      graph_.AddNode({.op = "DynamicQuantizeLinear",
                      .name = name + "_quantize",
                      .inputs = {x},
                      .outputs = {it->second.values, it->second.scale, it->second.zero}});
    }
    return it->second;
  }

  // One value per output channel, in a shape that broadcasts: [M, 1, 1] for an image, [N] for a
  // product.
  static Tensor Channels(int spatial, const std::vector<float>& values) {
    std::vector<int64_t> sizes = {static_cast<int64_t>(values.size())};
    if (values.size() > 1) sizes.resize(1 + spatial, 1);
    return Tensor::FromValues<float>(Shape(sizes), values);
  }

  ValueId Activated(ValueId y, const Activation& activation, const std::string& name) {
    if (activation.kind == ActivationKind::kNone) return y;
    std::vector<ValueId> inputs = {y};
    Attrs attrs;
    if (activation.kind == ActivationKind::kClip) {
      inputs.push_back(graph_.AddConstant(name + ".low", Tensor::Scalar(activation.alpha)));
      inputs.push_back(graph_.AddConstant(name + ".high", Tensor::Scalar(activation.beta)));
    }
    if (activation.kind == ActivationKind::kLeakyRelu) attrs.Set("alpha", activation.alpha);
    const ValueId out = graph_.AddValue(name + "_active");
    graph_.AddNode({.op = ActivationName(activation.kind),
                    .domain = activation.kind == ActivationKind::kSilu ? "evoq" : "",
                    .name = name + "_activation",
                    .attrs = std::move(attrs),
                    .inputs = std::move(inputs),
                    .outputs = {out}});
    return out;
  }

  Graph& graph_;
  const QuantizeOptions& options_;
  std::map<ValueId, Input> inputs_;
  std::map<std::string, TensorType> used_;  // what weights became
};

}  // namespace

Result<QuantizeReport> QuantizeDynamic(Graph& graph, const QuantizeOptions& options) {
  Dynamic dynamic(graph, options);
  Reasons reasons;
  int converted = 0;
  const std::vector<NodeId> nodes = graph.order();
  for (NodeId id : nodes) {
    if (!IsLinear(graph.node(id))) continue;
    const std::string name = graph.node(id).name;
    EVOQ_ASSIGN(const std::optional<Reason> reason, dynamic.Convert(id));
    if (reason) {
      reasons[name] = *reason;
    } else {
      ++converted;
    }
  }
  EVOQ_TRY(graph.Sort());
  graph.RemoveDeadNodes();
  EVOQ_TRY(InferTypes(graph));
  // Recurrent operators, tables of Gather, and the weights of what has no dynamic form.
  EVOQ_ASSIGN(QuantizeReport report, QuantizeWeights(graph, options, {.rounding = true}));
  for (const auto& [name, type] : dynamic.used()) {
    report.used[name] = type;
    report.not_used.erase(name);
  }
  report.nodes.Add(Precision::kInt8, converted);
  report.float_reasons.merge(reasons);
  report.warnings.clear();
  if (report.nodes[Precision::kInt8] == 0 && report.int8_weights == 0)
    report.warnings.push_back("no weight became int8: the model is unchanged");
  return report;
}

}  // namespace evoq
