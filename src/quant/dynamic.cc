// QuantizeDynamic and QuantizeStaticBytes: integer arithmetic whose activation scales are computed
// at each run, or are constants, written as ONNX has it:
//   q, s, z = DynamicQuantizeLinear(x);  y = activation(Mul(Cast(ConvInteger(q, w, z)), Mul(s,
//   s_w)) + bias + residual)
// With constants: q = QuantizeLinear(x, s, z).
// 16 bits are two bytes, the second of which holds what the first leaves:
//   r = x - DequantizeLinear(q, s, z);  s' = s / 254;  q' = QuantizeLinear(r, s', 128)
// so that x is nearly s' (254 (q - z) + (q' - 128)), and products are sums of those of bytes.
#include "graph/float_reason.h"
#include "graph/moving_out.h"
#include "kernels/activation.h"
#include "passes/widen.h"
#include "quant/given.h"
#include "quant/integer_kernels.h"
#include "quant/logarithm.h"
#include "quant/params.h"
#include "quant/plan.h"
#include "quant/quant.h"
#include "quant/stored_matrix.h"
#include "quant/turn_product.h"
#include "quant/weight_source.h"
#include "reference/reference.h"
#include "tensor/spilled.h"

namespace evoq {
namespace {

class Dynamic {
 public:
  // Without ranges: scales of each run.
  Dynamic(Graph& graph, const Ranges* ranges, const QuantizeOptions& options, DynamicBytes bytes)
      : graph_(graph), ranges_(ranges), options_(options), bytes_(bytes) {
    const IntegerKernels kernels(graph, options.per_channel);
    for (NodeId id : graph.order()) {
      if (auto refusal = kernels.DynamicRefusal(graph.node(id))) refusals_[id] = *refusal;
    }
  }

  // All weights are where they belong.
  void Settle() { moving_.Settle(); }

  // Converts the node and returns nothing, or says why it stays.
  Result<std::optional<Reason>> Convert(NodeId id) {
    const std::optional<StoredMatrix> stored = AsStored(graph_.node(id));
    if (!stored) EVOQ_TRY(WidenConstant(graph_, graph_.node(id).input(1)));
    EVOQ_TRY(WidenConstant(graph_, graph_.node(id).input(2)));
    const Node node = graph_.node(id);
    if (auto reason = Refusal(id, node, stored.has_value())) return reason;
    const ValueId weight = node.input(1);
    const int spatial = graph_.value(weight).type.shape.rank() - 2;
    const std::string weight_name = graph_.value(weight).name;
    std::vector<Weights> weights;
    if (stored) {
      const int axis = options_.per_channel ? 1 : -1;
      EVOQ_ASSIGN(const Tensor q,
                  WithContext(QuantizeStored(*stored, axis, options_.threads), weight_name));
      ReleasePages(stored->stored);
      used_[weight_name] = q.type();
      weights = {AddWeights(weight_name, spatial, "", q)};
    } else {
      EVOQ_TRY(WithContext(RangeOf(graph_.value(weight).constant), weight_name));
      EVOQ_ASSIGN(weights, BytesOf(node));
    }
    const std::vector<Input> data = Quantized(node.input(0));
    Attrs attrs = node.attrs;
    for (const char* fused : {"activation", "activation_alpha", "activation_beta", kFloatReason})
      attrs.Erase(fused);
    graph_.RenameNode(id, node.name + "_float");
    // The product of the first bytes comes last, with all that was fused to the node.
    ValueId sum = node.input(3);
    for (size_t i = data.size(); i-- > 0;) {
      for (size_t j = weights.size(); j-- > 0;) {
        const bool first = i == 0 && j == 0;
        const std::string name = first ? node.name : fmt::format("{}_{}{}", node.name, i, j);
        ValueId y = Product(*LinearFormOf(node), name, data[i], weights[j], attrs);
        if (first && node.input(2).valid()) {
          const auto values = graph_.value(node.input(2)).constant.values<float>();
          const ValueId bias = graph_.AddConstant(
              node.name + ".bias", Channels(spatial, {values.begin(), values.end()}));
          y = graph_.Apply("Add", node.name + "_biased", {y, bias});
        }
        sum = sum.valid() ? graph_.Apply("Add", name + "_sum", {y, sum}) : y;
      }
    }
    EVOQ_ASSIGN(const Activation activation, ActivationFromAttrs(node.attrs));
    const ValueId y = Activated(sum, activation, node.name);
    graph_.SetType(y, graph_.value(node.outputs[0]).type);  // later nodes ask for it
    calibrated_[y] = graph_.value(node.outputs[0]).name;
    graph_.ReplaceUses(node.outputs[0], y);
    return std::optional<Reason>();
  }

  const std::map<std::string, TensorType>& used() const { return used_; }

 private:
  // A byte of 16 bits, or all of 8.
  struct Input {
    ValueId values, scale, zero;
  };
  struct Weights {
    ValueId values, scales;
  };
  static constexpr float kSecondByte = 1.0f / 254;  // of the first one's scale

  ValueId Product(const LinearForm& form, const std::string& name, const Input& x,
                  const Weights& weights, const Attrs& attrs) {
    Attrs to_float = Attrs::Of("to", static_cast<int>(DType::kFloat32));
    ValueId y = graph_.Apply(form.integer_form, name, {x.values, weights.values, x.zero}, attrs);
    y = graph_.Apply("Cast", name + "_cast", {y}, std::move(to_float));
    const ValueId scale = graph_.Apply("Mul", name + "_scales", {x.scale, weights.scales});
    return graph_.Apply("Mul", name + "_scaled", {y, scale});
  }

  // The node's weight, where no copy in float32 is needed to round it (quant/stored_matrix.h).
  std::optional<StoredMatrix> AsStored(const Node& node) const {
    if (bytes_.weights != 1 || options_.round || !LinearFormOf(node)->two_operands)
      return std::nullopt;
    const WeightSource source = SourceOf(graph_, node.input(1));
    if (!source.constant.valid() || GivenFor(options_, graph_.value(node.input(1)).name) != nullptr)
      return std::nullopt;
    const Tensor& values = graph_.value(source.constant).constant;
    if (values.shape().rank() != 2 || values.elements() == 0 || !IsNarrow(values) ||
        (options_.per_channel && !source.transposed))
      return std::nullopt;
    return StoredMatrix{values, source.transposed};
  }

  Weights AddWeights(const std::string& name, int spatial, const char* byte, const Tensor& q) {
    const Tensor plain = q.WithType(TensorType(DType::kInt8, q.shape()));
    const ValueId value = graph_.AddConstant(fmt::format("{}.int8{}", name, byte), plain);
    moving_.Take(value);
    return {value, graph_.AddConstant(fmt::format("{}.scale{}", name, byte),
                                      Channels(spatial, q.type().quant->scales))};
  }

  // The node's weights in as many bytes as they are to have; given ones in one.
  Result<std::vector<Weights>> BytesOf(const Node& node) {
    const Tensor weight = graph_.value(node.input(1)).constant;
    const std::string name = graph_.value(node.input(1)).name;
    const int spatial = weight.shape().rank() - 2;
    const int axis = options_.per_channel ? WeightAxis(node, weight.shape().rank()) : -1;
    const auto add = [&](const char* byte, const Tensor& q) {
      return AddWeights(name, spatial, byte, q);
    };
    const GivenType* given = GivenFor(options_, name);
    if (given != nullptr || bytes_.weights == 1) {
      Tensor q;
      if (given != nullptr) {
        EVOQ_ASSIGN(q, WithContext(QuantizeGiven(weight, *given), name));
      } else {
        q = Rounded(options_, {.node = node.name, .weight = name, .values = weight, .axis = axis});
      }
      used_[name] = q.type();
      return std::vector<Weights>{add("", q)};
    }
    const Tensor first = QuantizeWeight(weight, axis);
    QuantParams quant = *first.type().quant;
    for (float& scale : quant.scales) scale *= kSecondByte;
    EVOQ_ASSIGN(const Tensor rounded, ToFloat32(first));
    Tensor rest = Tensor::Allocate(TensorType(DType::kFloat32, weight.shape()));
    for (int64_t i = 0; i < rest.elements(); ++i)
      rest.mutable_data<float>()[i] = weight.data<float>()[i] - rounded.data<float>()[i];
    EVOQ_ASSIGN(const Tensor second, QuantizeGiven(rest, {.dtype = DType::kInt8, .params = quant}));
    used_[name] = TensorType(DType::kInt16, weight.shape(), std::move(quant));
    return std::vector<Weights>{add(".1", first), add(".2", second)};
  }

  // `stored`: the weight is rounded as it lies in the file.
  std::optional<Reason> Refusal(NodeId id, const Node& node, bool stored) const {
    if (LinearFormOf(node)->integer_form == nullptr)
      return Reason{kNoInt8Kernel, fmt::format("{} has no dynamic form", node.op)};
    if (auto kept = KeptByOptions(node, options_)) return kept;
    if (auto logarithm = bytes_.data == 1 ? LogarithmReason(graph_, node) : std::nullopt)
      return logarithm;
    if (auto given = GivenReason(node)) return given;
    if (auto unfit = WeightReason(node); unfit && !stored) return unfit;
    if (const auto refusal = refusals_.find(id); refusal != refusals_.end()) return refusal->second;
    const TensorType& x = graph_.value(node.input(0)).type;
    if (x.dtype != DType::kFloat32)
      return Reason{"types", fmt::format("the input is {}, expected float32", x.ToString())};
    if (const std::string name = NameInRanges(node.input(0));
        ranges_ != nullptr && ranges_->count(name) == 0)
      return Reason{"no-range", fmt::format("{} was not calibrated", name)};
    const Tensor* bias = graph_.ConstantInput(node, 2);
    if (node.input(2).valid() &&
        (bias == nullptr || bias->dtype() != DType::kFloat32 || !bias->layout().empty()))
      return Reason{"types", "the bias is no float32 constant"};
    return std::nullopt;
  }

  std::optional<Reason> WeightReason(const Node& node) const {
    const Tensor* w = graph_.ConstantInput(node, 1);
    if (w == nullptr) return Reason{"weights-not-constant", "the weight is computed at run time"};
    if (w->dtype() != DType::kFloat32 || !w->layout().empty())
      return Reason{"types",
                    fmt::format("the weight is {}, expected plain float32", w->type().ToString())};
    if (w->elements() == 0 || w->shape().rank() < 2 ||
        (LinearFormOf(node)->two_operands && w->shape().rank() != 2))
      return Reason{"shape", fmt::format("the weight is {}", w->type().ToString())};
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

  // Of what a converted node gives, the name that it had.
  std::string NameInRanges(ValueId x) const {
    const auto it = calibrated_.find(x);
    return it != calibrated_.end() ? it->second : graph_.value(x).name;
  }

  // Each input is quantized once, whoever reads it.
  const std::vector<Input>& Quantized(ValueId x) {
    const auto [it, fresh] = inputs_.emplace(x, std::vector<Input>());
    if (!fresh) return it->second;
    const std::string name = graph_.value(x).name;
    const auto [first, second_scale] = FirstByte(x, name);
    it->second = {first};
    if (bytes_.data == 1) return it->second;
    Input second;
    second.scale = second_scale;
    second.zero = graph_.AddConstant(name + ".zero2", Tensor::Scalar(uint8_t{128}));
    const ValueId rounded = graph_.Apply("DequantizeLinear", name + "_rounded",
                                         {first.values, first.scale, first.zero});
    const ValueId rest = graph_.Apply("Sub", name + "_rest", {x, rounded});
    second.values =
        graph_.Apply("QuantizeLinear", name + "_quantized2", {rest, second.scale, second.zero});
    it->second.push_back(second);
    return it->second;
  }

  // And the scale of the second byte, where there is one.
  std::pair<Input, ValueId> FirstByte(ValueId x, const std::string& name) {
    if (ranges_ != nullptr) {
      const QuantParams params = ActivationParams(ranges_->at(NameInRanges(x)), DType::kUint8,
                                                  options_.symmetric_activations);
      const float scale = params.scales[0];
      const ValueId s = graph_.AddConstant(name + ".scale", Tensor::Scalar(scale));
      const ValueId z = graph_.AddConstant(
          name + ".zero", Tensor::Scalar(static_cast<uint8_t>(params.zero_points[0])));
      return {{graph_.Apply("QuantizeLinear", name + "_quantized", {x, s, z}), s, z},
              graph_.AddConstant(name + ".scale2", Tensor::Scalar(scale * kSecondByte))};
    }
    const Input byte{graph_.AddValue(name + "_quantized"), graph_.AddValue(name + "_scale"),
                     graph_.AddValue(name + "_zero")};
    graph_.AddNode({.op = "DynamicQuantizeLinear",
                    .name = name + "_quantize",
                    .inputs = {x},
                    .outputs = {byte.values, byte.scale, byte.zero}});
    if (bytes_.data == 1) return {byte, {}};
    const ValueId ratio = graph_.AddConstant(name + ".byte", Tensor::Scalar(kSecondByte));
    return {byte, graph_.Apply("Mul", name + "_scale2", {byte.scale, ratio})};
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
  const Ranges* ranges_;
  const QuantizeOptions& options_;
  DynamicBytes bytes_;
  std::map<NodeId, Reason> refusals_;  // of kernels, asked before anything changes
  std::map<ValueId, std::vector<Input>> inputs_;
  std::map<ValueId, std::string> calibrated_;
  std::map<std::string, TensorType> used_;  // what weights became
  MovingOut moving_{graph_, MovingOut::To::kSpill};
};

Result<QuantizeReport> Quantize(Graph& graph, const Ranges* ranges, const QuantizeOptions& options,
                                DynamicBytes bytes) {
  EVOQ_TRY(TurnProducts(graph, options, kWorkOfFloats, ranges));
  Dynamic dynamic(graph, ranges, options, bytes);
  Reasons reasons;
  int converted = 0;
  const std::vector<NodeId> nodes = graph.order();
  for (NodeId id : nodes) {
    if (!IsLinear(graph.node(id))) continue;
    const std::string name = graph.node(id).name;
    EVOQ_ASSIGN(const std::optional<Reason> reason, dynamic.Convert(id));
    if (reason) {
      SetFloatReason(graph.attrs(id), *reason);
      reasons[name] = *reason;
    } else {
      ++converted;
    }
  }
  dynamic.Settle();
  EVOQ_TRY(graph.Sort());
  graph.RemoveDeadNodes();
  EVOQ_TRY(InferTypes(graph));
  QuantizeReport report;
  if (bytes.weights == 1) {
    // Recurrent operators, tables of Gather, and the weights of what has no dynamic form.
    EVOQ_ASSIGN(report, QuantizeWeights(graph, options, {.rounding = bytes.data == 1}));
  } else {
    graph = graph.Compacted();
    EVOQ_TRY(graph.Verify());
    NoteNotUsed(options, "the scheme takes weights of Conv and MatMul only", report);
    report.nodes.Add(Precision::kFloat32, static_cast<int>(reasons.size()));
  }
  for (const auto& [name, type] : dynamic.used()) {
    report.used[name] = type;
    report.not_used.erase(name);
  }
  report.nodes.Add(Precision::kInt8, converted);
  report.float_reasons.merge(reasons);
  report.warnings.clear();
  if (report.nodes[Precision::kInt8] == 0 && report.int8_weights == 0)
    report.warnings.push_back(
        fmt::format("no weight became int{}: the model is unchanged", 8 * bytes.weights));
  return report;
}

}  // namespace

Result<QuantizeReport> QuantizeDynamic(Graph& graph, const QuantizeOptions& options,
                                       DynamicBytes bytes) {
  return Quantize(graph, nullptr, options, bytes);
}

Result<QuantizeReport> QuantizeStaticBytes(Graph& graph, const Ranges& ranges,
                                           const QuantizeOptions& options, DynamicBytes bytes) {
  return Quantize(graph, &ranges, options, bytes);
}

}  // namespace evoq
