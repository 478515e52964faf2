// ModelProto -> Graph, before upgrading: links, constants and types as the file has them.
#include <algorithm>
#include <array>
#include <climits>
#include <filesystem>
#include <functional>
#include <set>

#include "base/budget_scope.h"
#include "base/text.h"
#include "onnx/attributes.h"
#include "onnx/export.h"
#include "onnx/fold_parameters.h"
#include "onnx/functions.h"
#include "onnx/onnx.h"
#include "onnx/quantize.h"
#include "onnx/tensor_proto.h"
#include "onnx/upgrade.h"
#include "ops/control.h"
#include "ops/driver.h"
#include "ops/op.h"
#include "reference/reference.h"

namespace evoq {
namespace {

// Operators of older sets that have meant the same since the first one.
constexpr std::array<std::string_view, 12> kUnchanged = {
    "ArgMax", "ArgMin", "Conv",  "Constant", "GlobalAveragePool", "GlobalMaxPool", "Identity",
    "MatMul", "Not",    "Shape", "Size",     "Transpose"};

std::string ShownDomain(const std::string& domain) { return domain.empty() ? "ai.onnx" : domain; }

constexpr int kMaxNesting = 8;  // of subgraphs

// Reads one graph of a model: the whole, or a subgraph, whose names the `outer` one may define.
class Importer {
 public:
  Importer(onnx::ModelProto& model, ExternalFiles* external)
      : model_(model), external_(external), proto_(*model.mutable_graph()) {}
  Importer(Importer& outer, onnx::GraphProto& proto)
      : model_(outer.model_),
        external_(outer.external_),
        proto_(proto),
        outer_(&outer),
        depth_(outer.depth_ + 1),
        versions_(outer.versions_) {}

  Result<Graph> Run() {
    EVOQ_TRY(CheckModel());
    EVOQ_TRY(InlineFunctions(model_));
    EVOQ_TRY(CheckOperators());
    EVOQ_TRY(Read({}));
    EVOQ_TRY(graph_.Sort());
    graph_.RemoveDeadNodes();
    AddMetadata();
    EVOQ_TRY(UpgradeNodes(graph_, versions_));
    EVOQ_TRY(FoldQuantParameters(graph_));
    EVOQ_TRY(TypeQuantizedValues(graph_));
    graph_.RemoveDeadNodes();
    Graph graph = graph_.Compacted();
    EVOQ_TRY(InferTypes(graph));
    EVOQ_TRY(CheckOutputTypes(graph));
    KeepDeclaredRanks(graph);
    return graph;
  }

 private:
  // Fills graph_. `captured` are the outer values that become inputs after the subgraph's own ones.
  Status Read(std::span<const std::pair<std::string, ValueId>> captured) {
    if (depth_ > kMaxNesting) return Unsupported("subgraphs nested more than {} deep", kMaxNesting);
    if (proto().sparse_initializer_size() > 0)
      return Unsupported("sparse initializers, expected dense ones");
    graph_.name = proto().name();
    EVOQ_TRY(AddInitializers());
    EVOQ_TRY(AddInputs());
    EVOQ_TRY(AddCaptured(captured));
    EVOQ_TRY(AddNodeOutputs());
    EVOQ_TRY(AddInputCasts());
    EVOQ_TRY(AddNodes());
    return AddOutputs();
  }

  Status CheckModel() {
    if (model_.opset_import_size() == 0)
      return InvalidInput(
          "the model does not say which operator set it uses (no opset_import), so its operators "
          "have no meaning");
    for (const auto& opset : model_.opset_import()) {
      const std::string domain = CanonicalDomain(opset.domain());
      if (domain.empty() && opset.version() < kOldestOpset && !OnlyUnchanged())
        return Unsupported("operator set {}, evoq reads {} to {}", opset.version(), kOldestOpset,
                           kNewestOpset);
      if (domain.empty() && opset.version() > kNewestOpset)
        return Unsupported("operator set {} is newer than evoq, which reads {} to {}",
                           opset.version(), kOldestOpset, kNewestOpset);
      const int version = static_cast<int>(std::clamp<int64_t>(opset.version(), 0, INT_MAX));
      // Some exporters write the same one twice.
      if (const auto [row, fresh] = versions_.emplace(domain, version);
          !fresh && row->second != version)
        return InvalidInput("operator sets {} and {} of domain '{}'", row->second, version,
                            ShownDomain(domain));
    }
    return {};
  }

  bool OnlyUnchanged() const {
    return std::all_of(proto_.node().begin(), proto_.node().end(), [](const onnx::NodeProto& node) {
      return std::find(kUnchanged.begin(), kUnchanged.end(), node.op_type()) != kUnchanged.end();
    });
  }

  // How a message names a node of the file, which may have no name.
  static std::string Where(const onnx::NodeProto& node) {
    if (!node.name().empty() || node.output_size() == 0)
      return fmt::format("node '{}'", node.name());
    return fmt::format("the node of output '{}'", node.output(0));
  }

  // What is missing, by operator: a line for each, with its first node.
  struct Missing {
    std::vector<std::string> lines;
    std::set<std::string> seen;
  };

  // Lists every operator that evoq lacks, of subgraphs too.
  Status CheckOperators() {
    Missing missing;
    EVOQ_TRY(CheckOperatorsOf(proto(), missing));
    const size_t count = missing.lines.size();
    if (count == 0) return {};
    return Unsupported("{} operator{} that evoq does not have: {}", count, count == 1 ? "" : "s",
                       fmt::join(missing.lines, ", "));
  }

  Status CheckOperatorsOf(const onnx::GraphProto& graph, Missing& missing) {
    for (const auto& node : graph.node()) {
      const std::string domain = CanonicalDomain(node.domain());
      const std::string where = Where(node);
      auto version = versions_.find(domain);
      // Quantizers add its operators to files without saying so, which ONNX Runtime takes.
      if (version == versions_.end() && domain == "com.microsoft")
        version = versions_.emplace(domain, 1).first;
      if (node.op_type().empty()) return InvalidInput("{} names no operator", where);
      if (version == versions_.end())
        return InvalidInput("{} ({}): its domain '{}' is not imported by the model", where,
                            node.op_type(), ShownDomain(domain));
      for (const auto& attr : node.attribute()) {
        if (attr.type() == onnx::AttributeProto::GRAPH)
          EVOQ_TRY(CheckOperatorsOf(attr.g(), missing));
      }
      if (node.op_type() == "Constant" && domain.empty()) continue;
      const bool known = domain != "evoq" && (FindOp(node.op_type(), domain) != nullptr ||
                                              IsReplaced(node.op_type(), domain));
      if (known || !missing.seen.insert(domain + "::" + node.op_type()).second) continue;
      missing.lines.push_back(fmt::format(
          "{} ({} {}, first at {}{}{})", node.op_type(), ShownDomain(domain), version->second,
          where, HasSubgraph(node) ? ", has a subgraph" : "", Nearest(node.op_type(), domain)));
    }
    return {};
  }

  // The operator of that name in another domain, where there is one.
  static std::string Nearest(const std::string& op, const std::string& domain) {
    for (const char* other : {"", "com.microsoft"}) {
      if (domain == other || (FindOp(op, other) == nullptr && !IsReplaced(op, other))) continue;
      return *other == 0
                 ? fmt::format("; evoq has that of ai.onnx {} to {}", kOldestOpset, kNewestOpset)
                 : fmt::format("; evoq has that of {}", other);
    }
    return "";
  }

  // ---- values

  Status Define(const std::string& name, ValueId id) {
    if (name.empty()) return InvalidInput("a value without a name");
    if (!values_.emplace(name, id).second) return InvalidInput("value '{}' is defined twice", name);
    return {};
  }

  Status AddInitializers() {
    for (auto& tensor : *proto().mutable_initializer()) {
      const std::string label = fmt::format("initializer '{}'", tensor.name());
      EVOQ_ASSIGN(Tensor raw, WithContext(TensorFromProto(tensor, external_), label));
      tensor.clear_raw_data();  // the largest part of the message: not held twice
      EVOQ_ASSIGN(Tensor computed, WithContext(ComputeTensor(std::move(raw)), label));
      EVOQ_TRY(Define(tensor.name(), graph_.AddConstant(tensor.name(), std::move(computed))));
    }
    return {};
  }

  // Tensors, sequences of them, and optionals of either.
  static Result<TensorType> TypeOf(const onnx::TypeProto& type) {
    const bool optional = type.has_optional_type();
    const onnx::TypeProto& held = optional ? type.optional_type().elem_type() : type;
    const bool sequence = held.has_sequence_type();
    EVOQ_ASSIGN(TensorType element,
                TensorTypeOf(sequence ? held.sequence_type().elem_type() : held));
    element.kind = optional ? (sequence ? ValueKind::kOptionalSequence : ValueKind::kOptional)
                            : (sequence ? ValueKind::kSequence : ValueKind::kTensor);
    if (!element.is_tensor()) element.dtype = ComputeType(element.dtype);
    return element;
  }

  // "?", as some exporters write, says nothing of which sizes are equal.
  static bool IsName(const std::string& symbol) {
    return std::ranges::any_of(symbol, [](unsigned char c) { return std::isalnum(c) || c >= 128; });
  }

  static Result<TensorType> TensorTypeOf(const onnx::TypeProto& type) {
    if (!type.has_tensor_type())
      return Unsupported("a value that is no tensor, sequence or optional (map, sparse or nested)");
    const auto& tensor = type.tensor_type();
    EVOQ_ASSIGN(const DType dtype, DTypeFromProto(tensor.elem_type()));
    if (!tensor.has_shape()) return TensorType(dtype, Shape::UnknownRank());
    std::vector<Dim> dims;
    for (const auto& d : tensor.shape().dim()) {
      if (d.has_dim_param() && IsName(d.dim_param())) {
        dims.push_back(Dim::Symbolic(d.dim_param()));
      } else if (!d.has_dim_value() || d.dim_value() == -1) {
        dims.push_back(Dim());
      } else if (d.dim_value() < 0) {
        return InvalidInput("dimension {}, expected a size >= 0 or a name", d.dim_value());
      } else if (d.dim_value() > kMaxTensorBytes) {
        return Fail(ErrorCode::kTooLarge, "dimension {}, more than {} elements", d.dim_value(),
                    kMaxTensorBytes);
      } else {
        dims.push_back(Dim(d.dim_value()));
      }
    }
    return TensorType(dtype, Shape(std::move(dims)));
  }

  // An input that an initializer gives a value is a constant.
  Status AddInputs() {
    std::set<std::string> seen;
    for (const auto& input : proto().input()) {
      if (!seen.insert(input.name()).second)
        return InvalidInput("input '{}' is listed twice", input.name());
      if (values_.count(input.name())) continue;
      TensorType type;  // subgraphs get theirs from what the node is given
      if (outer_ == nullptr) {
        EVOQ_ASSIGN(type,
                    WithContext(TypeOf(input.type()), fmt::format("input '{}'", input.name())));
      }
      EVOQ_TRY(Define(input.name(), graph_.AddInput(input.name(), std::move(type))));
    }
    return {};
  }

  Status AddCaptured(std::span<const std::pair<std::string, ValueId>> captured) {
    for (const auto& [name, id] : captured) {
      const Value& value = outer_->graph_.value(id);
      if (values_.count(name)) {  // the subgraph has a value of its own under this name
        if (!value.is_constant()) graph_.AddInput(name + "_outer", {});
        continue;
      }
      EVOQ_TRY(Define(name, value.is_constant() ? graph_.AddConstant(name, value.constant)
                                                : graph_.AddInput(name, value.type)));
    }
    return {};
  }

  Status AddNodeOutputs() {
    for (const auto& node : proto().node()) {
      if (node.op_type() == "Constant" && CanonicalDomain(node.domain()).empty()) {
        if (node.output_size() != 1)
          return InvalidInput("node '{}' (Constant): {} outputs, expected 1", node.name(),
                              node.output_size());
        EVOQ_ASSIGN(Tensor value,
                    WithContext(ConstantValue(node), fmt::format("constant '{}'", node.output(0))));
        EVOQ_TRY(Define(node.output(0), graph_.AddConstant(node.output(0), std::move(value))));
        continue;
      }
      for (const std::string& output : node.output()) {
        if (!output.empty()) EVOQ_TRY(Define(output, graph_.AddValue(output)));
      }
    }
    return {};
  }

  Result<Tensor> ConstantValue(const onnx::NodeProto& node) {
    EVOQ_ASSIGN(const Attrs attrs, AttrsFromProto(node, external_));
    const auto list = [](const auto& values) { return Tensor::FromValues(values); };
    for (const auto& [name, value] : attrs) {
      if (const auto* t = std::get_if<Tensor>(&value); t && name == "value") return *t;
      if (const auto* f = std::get_if<float>(&value); f && name == "value_float")
        return Tensor::Scalar(*f);
      if (const auto* i = std::get_if<int64_t>(&value); i && name == "value_int")
        return Tensor::Scalar(*i);
      if (const auto* f = std::get_if<std::vector<float>>(&value); f && name == "value_floats")
        return list(*f);
      if (const auto* i = std::get_if<std::vector<int64_t>>(&value); i && name == "value_ints")
        return list(*i);
      if (const auto* s = std::get_if<std::string>(&value); s && name == "value_string")
        return Tensor::Scalar(*s);
      if (const auto* s = std::get_if<std::vector<std::string>>(&value);
          s && name == "value_strings")
        return list(*s);
      return Unsupported("attribute {}, expected a tensor, numbers or a number", name);
    }
    return InvalidInput("a Constant without a value");
  }

  // Values declared as 16-bit floats are computed as float32 behind a Cast.
  Status AddInputCasts() {
    for (ValueId in : graph_.inputs()) {
      const Value& value = graph_.value(in);
      if (ComputeType(value.type.dtype) == value.type.dtype || !value.type.is_tensor()) continue;
      Attrs attrs = Attrs::Of("to", static_cast<int>(DType::kFloat32));
      const std::string name = value.name;
      values_[name] = graph_.Apply("Cast", name + "_float32", {in}, std::move(attrs));
    }
    return {};
  }

  // ---- nodes

  // What casts give that make 16-bit floats: those are held as float32, unrounded.
  void FindNarrowed() {
    for (const auto& node : proto().node()) {
      if (node.op_type() != "Cast" || !CanonicalDomain(node.domain()).empty()) continue;
      const auto to = std::ranges::find(node.attribute(), "to", &onnx::AttributeProto::name);
      if (to == node.attribute().end() || node.output_size() != 1) continue;
      if (to->i() == static_cast<int>(DType::kFloat16) ||
          to->i() == static_cast<int>(DType::kBfloat16))
        narrowed_[node.output(0)] = static_cast<DType>(to->i());
    }
  }

  // A cast to 16 bits and back is there to round.
  ValueId Rounded(const Node& cast, const std::string& name, ValueId input) {
    const auto found = narrowed_.find(name);
    const auto to = static_cast<DType>(cast.attrs.Int("to", 0));
    if (found == narrowed_.end() || (to != DType::kFloat32 && to != DType::kFloat64)) return input;
    return graph_.Apply("Cast", cast.name + "_rounded", {input},
                        Attrs::Of("to", static_cast<int>(found->second)));
  }

  Status AddNodes() {
    FindNarrowed();
    int index = -1;
    for (auto& proto_node : *proto().mutable_node()) {
      ++index;
      const std::string domain = CanonicalDomain(proto_node.domain());
      if (proto_node.op_type() == "Constant" && domain.empty()) continue;
      Node node;
      node.op = proto_node.op_type();
      node.domain = domain;
      node.name =
          proto_node.name().empty() ? fmt::format("{}_{}", node.op, index) : proto_node.name();
      const std::string label = fmt::format("node {} ({})", node.name, node.op);
      EVOQ_ASSIGN(node.attrs, WithContext(AttrsFromProto(proto_node, external_), label));
      for (const std::string& input : proto_node.input()) {
        const auto found = values_.find(input);
        if (!input.empty() && found == values_.end())
          return InvalidInput("{}: input '{}' is not defined anywhere", label, input);
        node.inputs.push_back(input.empty() ? ValueId{} : found->second);
      }
      while (!node.inputs.empty() && !node.inputs.back().valid()) node.inputs.pop_back();
      for (const std::string& output : proto_node.output()) {
        node.outputs.push_back(output.empty() ? ValueId{} : values_.at(output));
      }
      while (!node.outputs.empty() && !node.outputs.back().valid()) node.outputs.pop_back();
      if (node.op == "Cast" && domain.empty() && !node.inputs.empty() &&
          narrowed_.count(proto_node.output(0)) == 0)
        node.inputs[0] = Rounded(node, proto_node.input(0), node.inputs[0]);
      EVOQ_TRY(WithContext(AddBodies(proto_node, node), label));
      EVOQ_TRY(WithContext(CheckInputCount(node), label));
      graph_.AddNode(std::move(node));
    }
    return {};
  }

  // Subgraphs, and the outer values that they read as inputs of the node. Constants go into the
  // subgraphs.
  Status AddBodies(onnx::NodeProto& proto_node, Node& node) {
    std::vector<onnx::GraphProto*> graphs;
    for (const char* name : {"then_branch", "else_branch", "body"}) {
      for (auto& attr : *proto_node.mutable_attribute()) {
        if (attr.type() == onnx::AttributeProto::GRAPH && attr.name() == name)
          graphs.push_back(attr.mutable_g());
      }
    }
    if (graphs.empty()) return {};
    std::vector<std::pair<std::string, ValueId>> captured,
        used;  // constants first, which take no place among the inputs
    for (const std::string& name : FreeNames(graphs)) {
      const auto found = values_.find(name);
      if (found == values_.end()) continue;
      (graph_.value(found->second).is_constant() ? used : captured)
          .emplace_back(name, found->second);
    }
    used.insert(used.end(), captured.begin(), captured.end());
    const OpDef* op = FindOp(node);
    const size_t own = node.op == "If"     ? 1
                       : node.op == "Loop" ? 2
                                           : 0;  // inputs that stay in their place when omitted
    if (op == nullptr || op->bodies == 0)
      return InvalidInput("a subgraph, which {} does not have", node.op);
    if (node.inputs.size() < own) node.inputs.resize(own);
    for (const auto& [name, id] : captured) node.inputs.push_back(id);
    node.attrs.Set("captured", static_cast<int>(captured.size()));
    for (onnx::GraphProto* graph : graphs) {
      Importer inner(*this, *graph);
      EVOQ_TRY(WithContext(inner.Read(used), fmt::format("subgraph '{}'", graph->name())));
      EVOQ_TRY(inner.graph_.Sort());
      inner.graph_.RemoveDeadNodes();
      node.bodies.push_back(std::make_shared<const Graph>(std::move(inner.graph_)));
    }
    return node.op == "Scan" && VersionOf(node, versions_) < 9 ? BatchedScan(node) : Status();
  }

  // Scan of opset 8 has a batch axis in front of all values: a Scan along it, of the Scan that is
  // meant.
  static Status BatchedScan(Node& node) {
    if (node.inputs.empty() || node.inputs[0].valid())
      return Unsupported("input 0 (sequence_lens)");
    node.inputs.erase(node.inputs.begin());
    EVOQ_ASSIGN(const size_t captured, CapturedInputs(node));
    const int64_t own = static_cast<int64_t>(node.inputs.size() - captured);
    Graph body;
    body.name = "batch_item";
    Node item = node;
    item.name = "scan";
    item.inputs.clear();
    for (size_t i = 0; i < node.inputs.size(); ++i)
      item.inputs.push_back(body.AddInput(fmt::format("in_{}", i), {}));
    for (size_t i = 0; i < node.outputs.size(); ++i)
      item.outputs[i] = body.AddValue(fmt::format("out_{}", i));
    if (item.attrs.Has("directions"))
      item.attrs.Set("scan_input_directions", item.attrs.Ints("directions"));
    item.attrs.Erase("directions");
    const std::vector<ValueId> outputs = item.outputs;
    body.AddNode(std::move(item));
    for (ValueId out : outputs) body.MarkOutput(out);
    node.bodies = {std::make_shared<const Graph>(std::move(body))};
    node.attrs.Erase("directions");
    node.attrs.Set("num_scan_inputs", own);
    return {};
  }

  // Names that the graphs read and do not define, in order of appearance.
  static std::vector<std::string> FreeNames(std::span<onnx::GraphProto* const> graphs) {
    std::vector<std::string> free;
    std::set<std::string> seen;
    struct Names {  // of a graph, and of those around it
      const Names* outer;
      std::set<std::string_view> own;
      bool Has(std::string_view name) const {
        return own.count(name) > 0 || (outer != nullptr && outer->Has(name));
      }
    };
    const std::function<void(const onnx::GraphProto&, const Names*)> walk =
        [&](const onnx::GraphProto& graph, const Names* outer) {
          Names defined{outer, {}};
          for (const auto& input : graph.input()) defined.own.insert(input.name());
          for (const auto& tensor : graph.initializer()) defined.own.insert(tensor.name());
          for (const auto& node : graph.node())
            defined.own.insert(node.output().begin(), node.output().end());
          const auto read = [&](const std::string& name) {
            if (!name.empty() && !defined.Has(name) && seen.insert(name).second)
              free.push_back(name);
          };
          for (const auto& node : graph.node()) {
            for (const std::string& input : node.input()) read(input);
            for (const auto& attr : node.attribute()) {
              if (attr.type() == onnx::AttributeProto::GRAPH) walk(attr.g(), &defined);
            }
          }
          for (const auto& output : graph.output()) read(output.name());
        };
    for (const onnx::GraphProto* graph : graphs) walk(*graph, nullptr);
    return free;
  }

  // The dialect gives these operators more inputs, or fewer, than a file may.
  static Status CheckInputCount(const Node& node) {
    struct Row {
      const char* op;
      size_t least, most;
    };
    constexpr Row kRows[] = {{"Conv", 2, 3}, {"ConvTranspose", 2, 3},  {"MatMul", 2, 2},
                             {"Add", 2, 2},  {"QuantizeLinear", 2, 3}, {"DequantizeLinear", 2, 3}};
    for (const Row& row : kRows) {
      if (node.op != row.op || !(node.domain.empty() || node.domain == "com.microsoft")) continue;
      if (node.inputs.size() < row.least || node.inputs.size() > row.most)
        return InvalidInput("{} inputs, expected {} to {}", node.inputs.size(), row.least,
                            row.most);
      for (size_t i = 0; i < row.least; ++i) {
        if (!node.inputs[i].valid())
          return InvalidInput("input {} is omitted, expected a value", i);
      }
    }
    return {};
  }

  Status AddOutputs() {
    if (proto().output_size() == 0) return InvalidInput("the graph has no outputs");
    for (const auto& output : proto().output()) {
      const auto found = values_.find(output.name());
      if (found == values_.end())
        return InvalidInput("output '{}' is not defined anywhere", output.name());
      ValueId id = found->second;
      if (outer_ != nullptr || !output.type().has_tensor_type()) {
        declared_outputs_.push_back(DType::kUndefined);
        graph_.MarkOutput(id);
        continue;
      }
      const int elem_type = output.type().tensor_type().elem_type();
      const auto declared = DTypeFromOnnx(elem_type);
      if (declared && ComputeType(*declared) != *declared) {
        Attrs attrs = Attrs::Of("to", elem_type);
        const std::string name = output.name();
        const bool renamed = !graph_.IsInput(id) && graph_.value(id).name == name;
        if (renamed) graph_.Rename(id, name + "_float32");
        id = graph_.Apply("Cast", name, {id}, std::move(attrs));
      }
      declared_outputs_.push_back(declared.value_or(DType::kUndefined));
      graph_.MarkOutput(id);
    }
    return {};
  }

  Status CheckOutputTypes(const Graph& graph) const {
    for (size_t i = 0; i < graph.outputs().size(); ++i) {
      const Value& value = graph.value(graph.outputs()[i]);
      if (declared_outputs_[i] == DType::kUndefined || value.type.dtype == declared_outputs_[i])
        continue;
      return InvalidInput("output '{}' is declared as {} but computed as {}", value.name,
                          DTypeName(declared_outputs_[i]), value.type.ToString());
    }
    return {};
  }

  // Where no rank follows from the nodes (branches of an If that differ), the file's word for it
  // goes into what is exported; nothing here computes with it.
  void KeepDeclaredRanks(Graph& graph) {
    for (const auto& output : proto().output()) {
      const auto& type = output.type().tensor_type();
      const ValueId id = graph.FindValue(output.name());
      if (!id.valid() || graph.value(id).type.shape.ranked() || !type.has_shape()) continue;
      graph.metadata[kOutputRank + output.name()] = std::to_string(type.shape().dim_size());
    }
  }

  void AddMetadata() {
    auto& facts = graph_.metadata;
    for (const auto& prop : model_.metadata_props()) facts[prop.key()] = prop.value();
    facts["onnx.producer_name"] = model_.producer_name();
    facts["onnx.producer_version"] = model_.producer_version();
    facts["onnx.ir_version"] = std::to_string(model_.ir_version());
    for (const auto& [domain, version] : versions_) {
      facts[domain.empty() ? "onnx.opset" : "onnx.opset." + domain] = std::to_string(version);
    }
  }

  onnx::GraphProto& proto() { return proto_; }

  onnx::ModelProto& model_;
  ExternalFiles* external_;
  onnx::GraphProto& proto_;
  Importer* outer_ = nullptr;
  int depth_ = 0;
  Graph graph_;
  std::map<std::string, int> versions_;    // domain -> opset
  std::map<std::string, DType> narrowed_;  // by value
  std::map<std::string, ValueId> values_;  // by the file's names
  std::vector<DType> declared_outputs_;
};

}  // namespace

namespace {
Result<Graph> ImportModel(std::span<const std::byte> bytes, ExternalFiles* external) {
  if (bytes.empty()) return InvalidInput("the file is empty");
  if (bytes.size() > INT_MAX)
    return Fail(ErrorCode::kTooLarge,
                "{} bytes, protobuf files end at 2 GB; store the weights as external data",
                bytes.size());
  const BudgetScope budget(Budget::ForFile(static_cast<int64_t>(bytes.size())));
  onnx::ModelProto model;
  if (!model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return InvalidInput(
        "not an ONNX file: protobuf cannot read it (truncated, damaged or of another format)");
  if (!model.has_graph()) return InvalidInput("the file holds no graph, expected an ONNX model");
  return Importer(model, external).Run();
}

}  // namespace

Result<Graph> ImportOnnx(const std::string& path) {
  EVOQ_ASSIGN(const auto file, MappedFile::Open(path));
  ExternalFiles external(std::filesystem::path(path).parent_path().string());
  EVOQ_ASSIGN(Graph graph, WithContext(ImportModel(file->bytes(), &external), path));
  graph.metadata["source"] = BaseName(path);
  return graph;
}

Result<Graph> ImportOnnxBytes(std::span<const std::byte> bytes, const std::string& label) {
  ExternalFiles external;
  EVOQ_ASSIGN(Graph graph, WithContext(ImportModel(bytes, &external), label));
  graph.metadata["source"] = label;
  return graph;
}

namespace {

Result<Tensor> SequenceFromProto(const onnx::SequenceProto& proto, ValueKind kind, DType dtype) {
  if (proto.elem_type() != onnx::SequenceProto::TENSOR)
    return Unsupported("a sequence of other values than tensors");
  std::vector<Tensor> items;
  for (const auto& tensor : proto.tensor_values()) {
    EVOQ_ASSIGN(Tensor item, TensorFromProto(tensor, nullptr));
    EVOQ_ASSIGN(item, ComputeTensor(std::move(item)));
    items.push_back(std::move(item));
  }
  Tensor sequence =
      Tensor::Of(ValueKind::kSequence, TensorType(dtype, Shape::UnknownRank()), std::move(items));
  if (kind == ValueKind::kSequence) return sequence;
  return Tensor::Of(kind, TensorType(dtype, sequence.shape()), {sequence});
}

Result<Tensor> OptionalFromProto(const onnx::OptionalProto& proto, ValueKind kind, DType dtype) {
  if (proto.has_sequence_value())
    return SequenceFromProto(proto.sequence_value(), ValueKind::kOptionalSequence, dtype);
  std::vector<Tensor> items;
  if (proto.has_tensor_value()) {
    EVOQ_ASSIGN(Tensor item, TensorFromProto(proto.tensor_value(), nullptr));
    EVOQ_ASSIGN(item, ComputeTensor(std::move(item)));
    items.push_back(std::move(item));
  }
  return Tensor::Of(kind, TensorType(dtype, Shape::UnknownRank()), std::move(items));
}

}  // namespace

Result<Tensor> ReadValueProto(const std::string& path, const TensorType& type) {
  EVOQ_ASSIGN(const auto file, MappedFile::Open(path));
  const auto bytes = file->bytes();
  const auto parse = [&](auto& proto) {
    return bytes.size() <= INT_MAX &&
           proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  };
  onnx::TensorProto tensor;
  onnx::SequenceProto sequence;
  onnx::OptionalProto optional;
  switch (type.kind) {
    case ValueKind::kTensor:
      if (parse(tensor)) return WithContext(TensorFromProto(tensor, nullptr), path);
      break;
    case ValueKind::kSequence:
      if (parse(sequence))
        return WithContext(SequenceFromProto(sequence, type.kind, type.dtype), path);
      break;
    case ValueKind::kOptional:
    case ValueKind::kOptionalSequence:
      if (parse(optional))
        return WithContext(OptionalFromProto(optional, type.kind, type.dtype), path);
  }
  return InvalidInput("{}: not {}", path, type.ToString());
}

Result<Tensor> ReadTensorProto(const std::string& path) {
  return ReadValueProto(path, TensorType());
}

}  // namespace evoq
