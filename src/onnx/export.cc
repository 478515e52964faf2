// Graph -> ModelProto. A quantized value `v` is three tensors of the file: what its operator
// computes (v/real), the integers (v, between a QuantizeLinear and its readers' DequantizeLinear),
// and what readers see (v/dequantized).
#include "onnx/export.h"

#include <charconv>
#include <climits>
#include <optional>
#include <set>

#include "base/file.h"
#include "graph/weight_bits.h"
#include "kernels/activation.h"
#include "kernels/gemm/blocks/block_data.h"
#include "onnx/attributes.h"
#include "onnx/export_blocks.h"
#include "onnx/export_recurrent.h"
#include "onnx/onnx.h"
#include "onnx/tensor_proto.h"
#include "ops/op.h"
#include "ops/util.h"
#include "reference/util.h"

namespace evoq {
namespace {

constexpr char kMicrosoftDomain[] = "com.microsoft";

void CollectDomains(const Graph& graph, std::set<std::string>& domains) {
  for (NodeId id : graph.order()) {
    domains.insert(graph.node(id).domain);
    if (MicrosoftProductOf(graph, graph.node(id)) != nullptr ||
        IsDynamicLstm(graph, graph.node(id)))
      domains.insert(kMicrosoftDomain);
    for (const auto& body : graph.node(id).bodies) CollectDomains(*body, domains);
  }
}

// The operator set of the file: the one that was asked for, or the oldest that will do.
Result<int> OpsetOf(const Graph& graph, int asked) {
  const NeededOpset needed = OpsetNeeded(graph);
  if (asked == 0) return std::max(needed.opset, kExportOpset);
  if (asked < needed.opset)
    return Unsupported("operator set {} was asked for, but {} needs {}", asked, needed.why,
                       needed.opset);
  return asked;
}

void WriteHeader(const Graph& graph, int opset, onnx::ModelProto& model) {
  model.set_ir_version(IrVersionOf(opset));
  model.set_producer_name("evoq");
  onnx::OperatorSetIdProto& import = *model.add_opset_import();
  import.set_domain("");
  import.set_version(opset);
  std::set<std::string> domains;
  CollectDomains(graph, domains);
  for (const std::string& domain : domains) {
    if (domain.empty() || domain == "evoq") continue;
    onnx::OperatorSetIdProto& other = *model.add_opset_import();
    other.set_domain(domain);
    other.set_version(1);
  }
  for (const auto& [key, value] : graph.metadata) {
    if (key.starts_with("onnx.")) continue;
    onnx::StringStringEntryProto& entry = *model.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  }
}

void WriteTensorType(const TensorType& type, onnx::TypeProto::Tensor& to) {
  to.set_elem_type(static_cast<int>(type.dtype));
  if (!type.shape.ranked()) return;
  auto& shape = *to.mutable_shape();
  for (const Dim& dim : type.shape.dims()) {
    auto& d = *shape.add_dim();
    if (dim.known()) d.set_dim_value(dim.value);
    if (!dim.known() && !dim.symbol.empty()) d.set_dim_param(dim.symbol);
  }
}

// The rank that the imported file declares for an output; nothing where it does not or what stands
// there is no rank.
std::optional<int> DeclaredRank(const Graph& graph, const std::string& output) {
  const auto fact = graph.metadata.find(kOutputRank + output);
  if (fact == graph.metadata.end()) return std::nullopt;
  int rank = -1;
  const std::string& text = fact->second;
  std::from_chars(text.data(), text.data() + text.size(), rank);
  return rank >= 0 && rank <= 64 ? std::optional(rank) : std::nullopt;
}

void WriteType(const TensorType& type, onnx::TypeProto& to) {
  const bool optional =
      type.kind == ValueKind::kOptional || type.kind == ValueKind::kOptionalSequence;
  onnx::TypeProto& held = optional ? *to.mutable_optional_type()->mutable_elem_type() : to;
  const bool sequence =
      type.kind == ValueKind::kSequence || type.kind == ValueKind::kOptionalSequence;
  WriteTensorType(type, *(sequence ? *held.mutable_sequence_type()->mutable_elem_type() : held)
                             .mutable_tensor_type());
}

// Writes one graph: the model's, or a subgraph, whose captured inputs are values of the graphs
// around it.
class Exporter {
 public:
  // `names`: all names in use, of values and nodes of the whole model.
  Exporter(const Graph& graph, onnx::GraphProto& proto, std::set<std::string>& names)
      : graph_(graph), proto_(proto), names_(names) {}

  Status Run(size_t own_inputs) {
    proto_.set_name(graph_.name.empty() ? "graph" : graph_.name);
    for (size_t i = 0; i < own_inputs; ++i) WriteInfo(graph_.inputs()[i], *proto_.add_input());
    for (NodeId id : graph_.order())
      EVOQ_TRY(WithContext(WriteNode(graph_.node(id)), NodeLabel(graph_.node(id))));
    for (ValueId out : graph_.outputs()) {
      if (graph_.value(out).is_constant()) {
        EVOQ_TRY(WriteConstant(out));
      }
      onnx::ValueInfoProto& info = *proto_.add_output();
      WriteInfo(out, info);
      // ONNX wants a rank of every output.
      const TensorType& type = graph_.value(out).type;
      const auto rank = type.is_tensor() && !type.shape.ranked() ? DeclaredRank(graph_, info.name())
                                                                 : std::nullopt;
      if (rank) {
        onnx::TensorShapeProto& shape =
            *info.mutable_type()->mutable_tensor_type()->mutable_shape();
        while (shape.dim_size() < *rank) shape.add_dim();
      }
    }
    return {};
  }

 private:
  void WriteInfo(ValueId id, onnx::ValueInfoProto& info) {
    const Value& value = graph_.value(id);
    info.set_name(value.name);
    if (value.type.dtype != DType::kUndefined) WriteType(value.type, *info.mutable_type());
  }

  // ---- names and small constants

  std::string Fresh(const std::string& wanted) {
    std::string name = wanted;
    for (int i = 1; !names_.insert(name).second; ++i) name = fmt::format("{}_{}", wanted, i);
    return name;
  }

  std::string Initializer(const std::string& wanted, const Tensor& tensor) {
    const std::string name = Fresh(wanted);
    TensorToProto(tensor, name, *proto_.add_initializer());
    return name;
  }

  // Notes that evoq keeps on its nodes (evoq.float_reason) are no attributes of ONNX.
  static void WriteAttrs(const Attrs& attrs, onnx::NodeProto& node) {
    for (const auto& [key, value] : attrs) {
      if (!key.starts_with("evoq.")) AttrToProto(key, value, node);
    }
  }

  std::string Emit(const std::string& op, const std::string& name,
                   const std::vector<std::string>& inputs, const std::string& output,
                   const Attrs& attrs = {}, const std::string& domain = "") {
    onnx::NodeProto& node = *proto_.add_node();
    node.set_op_type(op);
    node.set_domain(domain);
    node.set_name(name);
    for (const std::string& input : inputs) node.add_input(input);
    node.add_output(output);
    WriteAttrs(attrs, node);
    return output;
  }

  // ---- quantized types

  // The names of the scale and zero point of a quantized type, and the attributes that go with
  // them.
  struct Grid {
    std::string scale, zero;
    Attrs attrs;
  };

  Grid GridOf(const std::string& name, const TensorType& type, bool with_zero) {
    const QuantParams& q = *type.quant;
    Shape shape;
    Grid grid;
    if (!q.per_tensor()) {
      grid.attrs.Set("axis", q.axis);
      shape = Shape{static_cast<int64_t>(q.scales.size())};
    }
    if (q.block > 0) {
      shape = type.shape;
      shape[q.axis] = (shape[q.axis].value + q.block - 1) / q.block;
      grid.attrs.Set("block_size", AttrValue(q.block));
    }
    grid.scale = Initializer(name + "/scale", Tensor::FromValues(shape, q.scales));
    if (!with_zero) return grid;
    std::vector<float> zeros(q.zero_points.begin(), q.zero_points.end());
    const auto stored = QuantizeTensor(Tensor::FromValues(shape, zeros),
                                       TensorType(type.dtype, shape, QuantParams::PerTensor(1, 0)));
    EVOQ_CHECK(stored.has_value(), "{}", name);
    grid.zero = Initializer(name + "/zero_point", *stored);
    return grid;
  }

  const Grid& GridOfValue(ValueId id) {
    auto it = grids_.find(id.index);
    if (it == grids_.end()) {
      const Value& value = graph_.value(id);
      it = grids_
               .emplace(id.index, GridOf(value.name, value.type, value.type.dtype != DType::kInt32))
               .first;
    }
    return it->second;
  }

  std::vector<std::string> WithGrid(const std::string& x, const Grid& grid) {
    return grid.zero.empty() ? std::vector{x, grid.scale} : std::vector{x, grid.scale, grid.zero};
  }

  // Of a type that ONNX does not have: its real numbers.
  Status WriteConstant(ValueId id) {
    if (!written_.insert(id.index).second) return {};
    const Value& value = graph_.value(id);
    if (!value.type.is_tensor())
      return Unsupported("constant {} is {}", value.name, value.type.ToString());
    if (!value.constant.layout().empty())
      return Unsupported("constant {} is packed as '{}': export the graph before compiling",
                         value.name, value.constant.layout());
    if (!DTypeFromOnnx(static_cast<int>(value.type.dtype))) {
      EVOQ_ASSIGN(const Tensor real, ToFloat32(value.constant));
      TensorToProto(real, value.name, *proto_.add_initializer());
      return {};
    }
    TensorToProto(value.constant, value.name, *proto_.add_initializer());
    return {};
  }

  // The name under which a node reads a value: its integers when `stored`, else real numbers.
  Result<std::string> Read(ValueId id, bool stored = false) {
    if (!id.valid()) return std::string();
    const Value& value = graph_.value(id);
    if (value.is_constant()) {
      EVOQ_TRY(WriteConstant(id));
    }
    if (stored || !value.type.quantized() || !DTypeFromOnnx(static_cast<int>(value.type.dtype)))
      return value.name;
    auto it = dequantized_.find(id.index);
    if (it != dequantized_.end()) return it->second;
    const Grid& grid = GridOfValue(id);
    const std::string name = Fresh(value.name + "/dequantized");
    Emit("DequantizeLinear", Fresh(value.name + "/dequantize"), WithGrid(value.name, grid), name,
         grid.attrs);
    return dequantized_[id.index] = name;
  }

  // The name a node gives the real numbers of its output; `Finish` quantizes them.
  std::string RealName(ValueId id) {
    if (!id.valid()) return "";
    const Value& value = graph_.value(id);
    return value.type.quantized() ? Fresh(value.name + "/real") : value.name;
  }

  Status Finish(ValueId id, const std::string& real) {
    if (!id.valid() || !graph_.value(id).type.quantized()) return {};
    const Value& value = graph_.value(id);
    if (value.type.dtype == DType::kInt32)
      return Unsupported("output {} is quantized to int32, which ONNX cannot compute", value.name);
    const Grid& grid = GridOfValue(id);
    Emit("QuantizeLinear", Fresh(value.name + "/quantize"), WithGrid(real, grid), value.name,
         grid.attrs);
    return {};
  }

  // ---- nodes

  // The name of a float32 value as bfloat16, for operators whose inputs ONNX wants to be of one
  // type.
  Result<std::string> ReadAsBf16(ValueId id) {
    EVOQ_ASSIGN(const std::string name, Read(id));
    if (!id.valid() || graph_.value(id).type.dtype != DType::kFloat32) return name;
    return Emit("Cast", Fresh(name + "/cast"), {name}, Fresh(name + "/bfloat16"),
                Attrs::Of("to", static_cast<int64_t>(DType::kBfloat16)));
  }

  bool ReadsBf16(const Node& node) const {
    return node.input(0).valid() && graph_.value(node.input(0)).type.dtype == DType::kBfloat16;
  }

  // The mask of an Attention with a row for each query, without which ONNX Runtime takes none.
  std::string MaskOfQueries(const Node& node, const std::vector<std::string>& inputs) {
    const Shape &mask = graph_.value(node.input(3)).type.shape,
                &q = graph_.value(node.input(0)).type.shape;
    if (!q.ranked() || (q.rank() != 3 && q.rank() != 4)) return inputs[3];
    const int axis = q.rank() == 4 ? 2 : 1;
    const bool named = q[axis].known() || !q[axis].symbol.empty();
    if (named && mask.ranked() && mask.rank() >= 2 && mask[mask.rank() - 2] == q[axis])
      return inputs[3];
    const std::string to = node.name + "/mask_";
    Attrs part = Attrs::Of("start", int64_t{axis});
    part.Set("end", int64_t{axis + 1});
    const std::string queries =
        Emit("Shape", Fresh(to + "shape"), {inputs[0]}, Fresh(to + "queries"), part);
    const std::string one = Initializer(to + "one", Tensor::FromValues<int64_t>({1}));
    const std::string sizes = Emit("Concat", Fresh(to + "concat"), {queries, one},
                                   Fresh(to + "sizes"), Attrs::Of("axis", int64_t{0}));
    return Emit("Expand", Fresh(to + "expand"), {inputs[3], sizes}, Fresh(to + "rows"));
  }

  Status WriteNode(const Node& node) {
    if (node.attrs.Int("channels_last") != 0)
      return Unsupported("channels-last layout: export the graph before lowering");
    if (node.domain == "evoq" && node.op != "Silu")
      return Unsupported("ONNX has no operator of this name");
    if (node.op == "QuantizeLinear" && node.inputs.size() == 1) return WriteQuantize(node);
    if (node.op == "DequantizeLinear" && node.inputs.size() == 1) return WriteDequantize(node);
    const bool fusable = node.domain.empty() &&
                         (node.op == "Conv" || node.op == "ConvTranspose" || node.op == "MatMul");
    if (fusable || node.attrs.Has("activation")) return WriteFused(node);
    if (IsDynamicLstm(graph_, node)) return WriteDynamicLstm(node);
    std::vector<std::string> inputs;
    const bool one_type = ReadsBf16(node) && node.op.ends_with("Normalization");
    for (ValueId in : node.inputs) {
      EVOQ_ASSIGN(std::string name, one_type ? ReadAsBf16(in) : Read(in));
      inputs.push_back(std::move(name));
    }
    if (node.op == "Attention" && node.input(3).valid()) inputs[3] = MaskOfQueries(node, inputs);
    if (node.domain == "evoq") {
      const std::string real = RealName(node.outputs[0]);
      WriteSilu(node.name, inputs[0], real);
      return Finish(node.outputs[0], real);
    }
    Attrs attrs = node.attrs;
    attrs.Erase("channels_last");
    // Of GRU, RNN and other LSTMs no operator rounds the data: others compute in float32 with it.
    attrs.Erase(kDataBlock);
    if (!node.bodies.empty()) attrs.Erase("captured");
    const size_t own = OwnInputsOf(node);
    onnx::NodeProto& proto = *proto_.add_node();
    proto.set_op_type(node.op);
    proto.set_domain(node.domain);
    proto.set_name(node.name);
    for (size_t i = 0; i < own; ++i) proto.add_input(inputs[i]);
    if (node.op == "Optional" && attrs.Has("type")) WriteOptionalType(attrs, proto);
    WriteAttrs(attrs, proto);
    EVOQ_TRY(WriteBodies(
        node, std::vector<std::string>(inputs.begin() + static_cast<int64_t>(own), inputs.end()),
        proto));
    std::vector<std::string> reals;
    for (ValueId out : node.outputs) reals.push_back(RealName(out));
    for (const std::string& real : reals) proto.add_output(real);
    for (size_t i = 0; i < reals.size(); ++i) EVOQ_TRY(Finish(node.outputs[i], reals[i]));
    return {};
  }

  Status WriteDynamicLstm(const Node& node) {
    const DynamicLstmWeights weights = DynamicLstmWeightsOf(graph_, node);
    std::vector<std::string> inputs;
    for (size_t i = 0; i < 8; ++i) {
      if (i == 1 || i == 2) {
        inputs.push_back(Initializer(graph_.value(node.input(i)).name + "/columns",
                                     i == 1 ? weights.w : weights.r));
        continue;
      }
      EVOQ_ASSIGN(std::string name, Read(node.input(i)));
      inputs.push_back(std::move(name));
    }
    inputs.push_back(Initializer(node.name + "/w_scale", weights.w_scale));
    inputs.push_back(Initializer(node.name + "/w_zero_point", weights.w_zero));
    inputs.push_back(Initializer(node.name + "/r_scale", weights.r_scale));
    inputs.push_back(Initializer(node.name + "/r_zero_point", weights.r_zero));
    Attrs attrs = node.attrs;
    for (const char* name : {kDataBlock, "layout"}) attrs.Erase(name);
    attrs.Set("hidden_size", graph_.value(node.input(2)).type.shape[2].value);
    onnx::NodeProto& proto = *proto_.add_node();
    proto.set_op_type("DynamicQuantizeLSTM");
    proto.set_domain(kMicrosoftDomain);
    proto.set_name(node.name);
    for (const std::string& input : inputs) proto.add_input(input);
    WriteAttrs(attrs, proto);
    std::vector<std::string> reals;
    for (ValueId out : node.outputs) reals.push_back(RealName(out));
    for (const std::string& real : reals) proto.add_output(real);
    for (size_t i = 0; i < reals.size(); ++i) EVOQ_TRY(Finish(node.outputs[i], reals[i]));
    return {};
  }

  Status WriteBodies(const Node& node, const std::vector<std::string>& captured,
                     onnx::NodeProto& proto) {
    for (size_t i = 0; i < node.bodies.size(); ++i) {
      EVOQ_ASSIGN(const Graph body, BodyForExport(graph_, node, i, captured, names_));
      onnx::AttributeProto& attr = *proto.add_attribute();
      attr.set_name(node.op != "If" ? "body" : i == 0 ? "then_branch" : "else_branch");
      attr.set_type(onnx::AttributeProto::GRAPH);
      EVOQ_TRY(WithContext(
          Exporter(body, *attr.mutable_g(), names_).Run(body.inputs().size() - captured.size()),
          "subgraph " + body.name));
    }
    return {};
  }

  // The numbers that stand for the attribute `type` in the graph.
  static void WriteOptionalType(Attrs& attrs, onnx::NodeProto& proto) {
    onnx::AttributeProto& attr = *proto.add_attribute();
    attr.set_name("type");
    attr.set_type(onnx::AttributeProto::TYPE_PROTO);
    const ValueKind kind =
        attrs.Int("type_is_sequence") != 0 ? ValueKind::kSequence : ValueKind::kTensor;
    WriteType(TensorType::In(kind, static_cast<DType>(attrs.Int("type")), Shape::UnknownRank()),
              *attr.mutable_tp());
    attrs.Erase("type");
    attrs.Erase("type_is_sequence");
  }

  Status WriteQuantize(const Node& node) {
    if (!graph_.value(node.outputs[0]).type.quantized())
      return Fail(ErrorCode::kInternal, "output {} is not quantized",
                  graph_.value(node.outputs[0]).name);
    EVOQ_ASSIGN(const std::string x, Read(node.input(0)));
    return Finish(node.outputs[0], x);
  }

  Status WriteDequantize(const Node& node) {
    const Value& x = graph_.value(node.input(0));
    if (!x.type.quantized()) return Fail(ErrorCode::kInternal, "input {} is not quantized", x.name);
    EVOQ_ASSIGN(const std::string integers, Read(node.input(0), /*stored=*/true));
    const Grid& grid = GridOfValue(node.input(0));
    Emit("DequantizeLinear", node.name, WithGrid(integers, grid),
         graph_.value(node.outputs[0]).name, grid.attrs);
    return {};
  }

  void WriteSilu(const std::string& name, const std::string& x, const std::string& y) {
    const std::string gate = Emit("Sigmoid", Fresh(name + "/sigmoid"), {x}, Fresh(name + "/gate"));
    Emit("Mul", Fresh(name + "/mul"), {x, gate}, y);
  }

  static Tensor ScalarOf(float value, DType dtype) {
    const Tensor scalar = Tensor::Scalar(value);
    const auto narrow =
        dtype == DType::kFloat32 ? Result<Tensor>(scalar) : FromFloat32(scalar, dtype);
    return narrow ? *narrow : scalar;
  }

  // Channels stand on axis 1, or last in a product of matrices.
  Shape SlopeSizes(const Node& node, const ProductActivation& product) const {
    if (product.slopes.empty()) return {};
    const int rank = graph_.value(node.outputs[0]).type.shape.rank();
    std::vector<int64_t> sizes(static_cast<size_t>(node.op == "MatMul" ? 1 : rank - 1), 1);
    if (!sizes.empty()) sizes[0] = static_cast<int64_t>(product.slopes.size());
    return Shape(sizes);
  }

  // Slopes get `slope_sizes`, as they broadcast to y.
  void WriteActivation(const ProductActivation& product, const Shape& slope_sizes,
                       const std::string& name, const std::string& x, const std::string& y,
                       DType dtype) {
    const Activation& activation = product.activation;
    const std::string node = Fresh(name + "/activation");
    if (activation.kind == ActivationKind::kSilu) return WriteSilu(name, x, y);
    Attrs attrs;
    std::vector<std::string> inputs = {x};
    if (activation.kind == ActivationKind::kLeakyRelu) attrs.Set("alpha", activation.alpha);
    if (activation.kind == ActivationKind::kClip) {
      inputs.push_back(Initializer(name + "/min", ScalarOf(activation.alpha, dtype)));
      inputs.push_back(Initializer(name + "/max", ScalarOf(activation.beta, dtype)));
    }
    if (!product.slopes.empty())
      inputs.push_back(
          Initializer(name + "/slope", Tensor::FromValues<float>(slope_sizes, product.slopes)));
    Emit(ActivationName(activation.kind), node, inputs, y, attrs);
  }

  // The bias as real numbers; an int32 one has the implied scale s_x * s_w[c].
  Result<std::string> ReadBias(const Node& node) {
    const ValueId id = node.input(2);
    if (ReadsBf16(node)) return ReadAsBf16(id);
    if (!id.valid() || graph_.value(id).type.quantized() ||
        graph_.value(id).type.dtype != DType::kInt32)
      return Read(id);
    const Value& bias = graph_.value(id);
    const TensorType& x = graph_.value(node.input(0)).type;
    const TensorType& w = graph_.value(node.input(1)).type;
    if (!x.quantized() || !w.quantized() || !x.quant->per_tensor() || w.quant->block > 0 ||
        !bias.type.shape.is_static())
      return Unsupported("int32 bias {} without quantized inputs has no scale", bias.name);
    EVOQ_ASSIGN(const std::string stored, Read(id));
    const size_t count =
        w.quant->per_tensor() ? 1 : static_cast<size_t>(*bias.type.shape.elements());
    std::vector<float> scales(count);
    for (size_t c = 0; c < count; ++c) {
      const float s_w = w.quant->scales[c % w.quant->scales.size()];
      scales[c] =
          static_cast<float>(static_cast<double>(x.quant->scales[0]) * static_cast<double>(s_w));
    }
    // Beside a product of matrices it is that of a Gemm, with its scale. Beside a batch of them it
    // is an operand of an Add, and runtimes would make real numbers of it at every run.
    if (node.op == "MatMul" && bias.is_constant() && x.shape.ranked() && x.shape.rank() > 2) {
      std::vector<float> values;
      for (const int32_t q : bias.constant.values<int32_t>())
        values.push_back(static_cast<float>(static_cast<double>(q) *
                                            static_cast<double>(scales[values.size() % count])));
      return Initializer(node.name + "/bias", Tensor::FromValues(bias.type.shape, values));
    }
    const Shape shape = count == 1 ? Shape{} : Shape{static_cast<int64_t>(count)};
    Attrs attrs;
    if (count > 1) attrs.Set("axis", 0);
    const std::string scale =
        Initializer(node.name + "/bias_scale", Tensor::FromValues(shape, scales));
    const std::string real = Fresh(node.name + "/bias");
    return Emit("DequantizeLinear", Fresh(node.name + "/bias_dequantize"), {stored, scale}, real,
                attrs);
  }

  // Further inputs of a product of com.microsoft, and its attributes.
  Result<Attrs> ReadProduct(const Node& node, std::vector<std::string>& inputs) {
    EVOQ_ASSIGN(const MicrosoftProduct product,
                WithContext(AsMicrosoftProduct(graph_, node), node.name));
    for (const auto& [name, tensor] : product.inputs) {
      inputs.push_back(Fresh(fmt::format("{}/{}", node.name, name)));
      TensorToProto(tensor, inputs.back(), *proto_.add_initializer());
    }
    return product.attrs;
  }

  // y = activation(op(x, w[, bias]) + residual): each part that the node has is a node of the file.
  Status WriteFused(const Node& node) {
    EVOQ_ASSIGN(const ProductActivation activation, ProductActivationFromAttrs(node.attrs));
    Attrs attrs = node.attrs;
    EraseActivation(attrs);
    attrs.Erase("channels_last");
    const bool add = node.op == "Add", matmul = node.op == "MatMul";
    const char* product = MicrosoftProductOf(graph_, node);
    std::vector<std::string> inputs;
    for (size_t i = 0; i < (product != nullptr ? 1 : 2); ++i) {
      EVOQ_ASSIGN(std::string name, Read(node.input(i)));
      inputs.push_back(std::move(name));
    }
    if (product != nullptr) {
      EVOQ_ASSIGN(attrs, ReadProduct(node, inputs));
    }
    std::vector<std::string> addends;
    if (!add) {
      EVOQ_ASSIGN(std::string bias, ReadBias(node));
      EVOQ_ASSIGN(std::string residual, Read(node.input(3)));
      if (!bias.empty()) (matmul ? addends : inputs).push_back(std::move(bias));
      if (!residual.empty()) addends.push_back(std::move(residual));
    }
    const std::string real = RealName(node.outputs[0]);
    const bool has_activation = activation.activation.kind != ActivationKind::kNone;
    const auto step_name = [&](bool last, const char* suffix) {
      return last ? real : Fresh(node.name + suffix);
    };
    std::string y = Emit(product != nullptr ? product : node.op, node.name, inputs,
                         step_name(addends.empty() && !has_activation, "/linear"), attrs,
                         product != nullptr ? kMicrosoftDomain : node.domain);
    for (size_t i = 0; i < addends.size(); ++i) {
      const bool last = i + 1 == addends.size() && !has_activation;
      y = Emit("Add", Fresh(node.name + "/add"), {y, addends[i]}, step_name(last, "/sum"));
    }
    if (has_activation)
      WriteActivation(activation, SlopeSizes(node, activation), node.name, y, real,
                      ReadsBf16(node) ? DType::kBfloat16 : DType::kFloat32);
    return Finish(node.outputs[0], real);
  }

  const Graph& graph_;
  onnx::GraphProto& proto_;
  std::set<std::string>& names_;
  std::set<int32_t> written_;                   // constants that are initializers already
  std::map<int32_t, std::string> dequantized_;  // value -> name of its real numbers
  std::map<int32_t, Grid> grids_;               // value -> its scale and zero point
};

// The graph with weights in the bits that they need, beside the real numbers of their bias, whose
// steps are finer than theirs; nothing where none has fewer than 8.
std::optional<Graph> WithNarrowWeights(const Graph& graph) {
  std::optional<Graph> out;
  std::map<ValueId, ValueId> narrowed;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const int bits = WeightBitsOf(node);
    const Tensor* const w = bits < 8 ? graph.ConstantInput(node, 1) : nullptr;
    const Tensor* const b = graph.ConstantInput(node, 2);
    if (w == nullptr || !node.input(0).valid()) continue;
    const TensorType& x = graph.value(node.input(0)).type;
    if (!x.quantized() || !x.quant->per_tensor()) continue;
    if (b != nullptr && b->dtype() != DType::kInt32 && b->dtype() != DType::kFloat32) continue;
    const auto narrow = NarrowWeights(*w, bits);
    if (!narrow) continue;
    if (!out) out = graph;
    auto [value, fresh] = narrowed.emplace(node.inputs[1], ValueId{});
    if (fresh) value->second = out->AddConstant(graph.value(node.inputs[1]).name, *narrow);
    out->SetInput(id, 1, value->second);
    if (b == nullptr || b->dtype() != DType::kInt32 || b->type().quantized()) continue;
    Tensor real = Tensor::Allocate(TensorType(DType::kFloat32, b->shape()));
    const std::vector<float>& scales = w->type().quant->scales;
    for (int64_t c = 0; c < b->elements(); ++c)
      real.mutable_data<float>()[c] = static_cast<float>(
          b->data<int32_t>()[c] * (static_cast<double>(x.quant->scales[0]) *
                                   scales[static_cast<size_t>(c) % scales.size()]));
    out->SetInput(id, 2, out->AddConstant(graph.value(node.inputs[2]).name, std::move(real)));
  }
  return out;
}

}  // namespace

Result<std::string> ExportOnnxBytes(const Graph& given, const std::string& label, int opset) {
  const std::optional<Graph> narrow = WithNarrowWeights(given);
  const Graph& graph = narrow ? *narrow : given;
  onnx::ModelProto model;
  EVOQ_ASSIGN(opset, WithContext(OpsetOf(graph, opset), label));
  WriteHeader(graph, opset, model);
  std::set<std::string> names;
  for (int i = 0; i < graph.value_count(); ++i) names.insert(graph.value(ValueId{i}).name);
  for (NodeId id : graph.order()) names.insert(graph.node(id).name);
  EVOQ_TRY(WithContext(Exporter(graph, *model.mutable_graph(), names).Run(graph.inputs().size()),
                       label));
  if (model.ByteSizeLong() > INT_MAX)
    return Fail(ErrorCode::kTooLarge, "{}: the model is {} bytes, an ONNX file holds at most 2 GB",
                label, model.ByteSizeLong());
  return model.SerializeAsString();
}

Status ExportOnnx(const Graph& graph, const std::string& path, int opset) {
  EVOQ_ASSIGN(const std::string bytes, ExportOnnxBytes(graph, path, opset));
  return WriteFileAtomic(path, bytes);
}

}  // namespace evoq
