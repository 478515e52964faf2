// ModelProto -> Graph, before upgrading: links, constants and types as the file has them.
#include "onnx/onnx.h"


#include <climits>
#include <filesystem>
#include <set>

#include "base/text.h"
#include "onnx/attributes.h"
#include "onnx/quantize.h"
#include "onnx/tensor_proto.h"
#include "onnx/upgrade.h"
#include "ops/driver.h"
#include "ops/op.h"

namespace evoq {
namespace {

constexpr int kOldestOpset = 6;
constexpr int kNewestOpset = 28;

std::string CanonicalDomain(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }
std::string ShownDomain(const std::string& domain) { return domain.empty() ? "ai.onnx" : domain; }

class Importer {
 public:
  Importer(onnx::ModelProto& model, ExternalFiles* external) : model_(model), external_(external) {}

  Result<Graph> Run() {
    EVOQ_TRY(CheckModel());
    EVOQ_TRY(CheckOperators());
    EVOQ_TRY(AddInitializers());
    EVOQ_TRY(AddInputs());
    EVOQ_TRY(AddNodeOutputs());
    EVOQ_TRY(AddInputCasts());
    EVOQ_TRY(AddNodes());
    EVOQ_TRY(AddOutputs());
    EVOQ_TRY(graph_.Sort());
    graph_.RemoveDeadNodes();
    AddMetadata();
    EVOQ_TRY(UpgradeNodes(graph_, versions_));
    EVOQ_TRY(TypeQuantizedValues(graph_));
    graph_.RemoveDeadNodes();
    Graph graph = graph_.Compacted();
    EVOQ_TRY(InferTypes(graph));
    EVOQ_TRY(CheckOutputTypes(graph));
    return graph;
  }

 private:
  Status CheckModel() {
    if (!model_.has_graph()) return InvalidInput("the file holds no graph, expected an ONNX model");
    if (model_.opset_import_size() == 0)
      return InvalidInput("the model does not say which operator set it uses (no opset_import), so its operators have no meaning");
    for (const auto& opset : model_.opset_import()) {
      const std::string domain = CanonicalDomain(opset.domain());
      if (domain.empty() && opset.version() < kOldestOpset)
        return Unsupported("operator set {}, evoq reads {} to {}", opset.version(), kOldestOpset, kNewestOpset);
      if (domain.empty() && opset.version() > kNewestOpset)
        return Unsupported("operator set {} is newer than evoq, which reads {} to {}", opset.version(), kOldestOpset, kNewestOpset);
      if (!versions_.emplace(domain, static_cast<int>(std::clamp<int64_t>(opset.version(), 0, INT_MAX))).second)
        return InvalidInput("operator set of domain '{}' appears twice", ShownDomain(domain));
    }
    if (proto().sparse_initializer_size() > 0) return Unsupported("sparse initializers, expected dense ones");
    return {};
  }

  bool IsFunction(const onnx::NodeProto& node) const {
    for (const auto& f : model_.functions()) {
      if (f.name() == node.op_type() && CanonicalDomain(f.domain()) == CanonicalDomain(node.domain())) return true;
    }
    return false;
  }

  // How a message names a node of the file, which may have no name.
  static std::string Where(const onnx::NodeProto& node) {
    if (!node.name().empty() || node.output_size() == 0) return fmt::format("node '{}'", node.name());
    return fmt::format("the node of output '{}'", node.output(0));
  }

  // Lists every operator that evoq lacks, with its first node.
  Status CheckOperators() {
    std::vector<std::string> lines;
    std::set<std::string> seen;
    for (const auto& node : proto().node()) {
      const std::string domain = CanonicalDomain(node.domain());
      const std::string where = Where(node);
      const auto version = versions_.find(domain);
      if (node.op_type().empty()) return InvalidInput("{} names no operator", where);
      if (version == versions_.end())
        return InvalidInput("{} ({}): its domain '{}' is not imported by the model", where, node.op_type(), ShownDomain(domain));
      if (node.op_type() == "Constant" && domain.empty()) continue;
      if (IsFunction(node))
        return Unsupported("{} calls '{}', a function inside the model; inline functions before importing", where, node.op_type());
      const bool known = domain != "evoq" && (FindOp(node.op_type(), domain) != nullptr || IsReplaced(node.op_type(), domain));
      if (known || !seen.insert(domain + "::" + node.op_type()).second) continue;
      lines.push_back(fmt::format("{} ({} {}, first at {}{})", node.op_type(), ShownDomain(domain), version->second, where,
                                  HasSubgraph(node) ? ", has a subgraph" : ""));
    }
    if (lines.empty()) return {};
    return Unsupported("{} operator{} that evoq does not have: {}", lines.size(), lines.size() == 1 ? "" : "s",
                       fmt::join(lines, ", "));
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

  Result<TensorType> TypeOf(const onnx::ValueInfoProto& info) {
    if (!info.type().has_tensor_type()) return Unsupported("a value that is not a tensor (sequence, map, optional or sparse)");
    const auto& tensor = info.type().tensor_type();
    EVOQ_ASSIGN(const DType dtype, DTypeFromProto(tensor.elem_type()));
    if (!tensor.has_shape()) return TensorType(dtype, Shape::UnknownRank());
    std::vector<Dim> dims;
    for (const auto& d : tensor.shape().dim()) {
      if (d.has_dim_param() && !d.dim_param().empty()) {
        dims.push_back(Dim::Symbolic(d.dim_param()));
      } else if (!d.has_dim_value() || d.dim_value() == -1) {
        dims.push_back(Dim());
      } else if (d.dim_value() < 0) {
        return InvalidInput("dimension {}, expected a size >= 0 or a name", d.dim_value());
      } else if (d.dim_value() > kMaxTensorBytes) {
        return Fail(ErrorCode::kTooLarge, "dimension {}, more than {} elements", d.dim_value(), kMaxTensorBytes);
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
      if (!seen.insert(input.name()).second) return InvalidInput("input '{}' is listed twice", input.name());
      if (values_.count(input.name())) continue;
      EVOQ_ASSIGN(TensorType type, WithContext(TypeOf(input), fmt::format("input '{}'", input.name())));
      EVOQ_TRY(Define(input.name(), graph_.AddInput(input.name(), std::move(type))));
    }
    return {};
  }

  Status AddNodeOutputs() {
    for (const auto& node : proto().node()) {
      if (node.op_type() == "Constant" && CanonicalDomain(node.domain()).empty()) {
        if (node.output_size() != 1) return InvalidInput("node '{}' (Constant): {} outputs, expected 1", node.name(), node.output_size());
        EVOQ_ASSIGN(Tensor value, WithContext(ConstantValue(node), fmt::format("constant '{}'", node.output(0))));
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
    const auto list = [](const auto& values) {
      return Tensor::FromValues(Shape{static_cast<int64_t>(values.size())}, values);
    };
    for (const auto& [name, value] : attrs) {
      if (const auto* t = std::get_if<Tensor>(&value); t && name == "value") return *t;
      if (const auto* f = std::get_if<float>(&value); f && name == "value_float") return Tensor::Scalar(*f);
      if (const auto* i = std::get_if<int64_t>(&value); i && name == "value_int") return Tensor::Scalar(*i);
      if (const auto* f = std::get_if<std::vector<float>>(&value); f && name == "value_floats") return list(*f);
      if (const auto* i = std::get_if<std::vector<int64_t>>(&value); i && name == "value_ints") return list(*i);
      return Unsupported("attribute {}, expected a tensor, numbers or a number", name);
    }
    return InvalidInput("a Constant without a value");
  }

  // Values declared as 16-bit floats are computed as float32 behind a Cast.
  Status AddInputCasts() {
    for (ValueId in : graph_.inputs()) {
      const Value& value = graph_.value(in);
      if (ComputeType(value.type.dtype) == value.type.dtype) continue;
      Attrs attrs;
      attrs.Set("to", static_cast<int>(DType::kFloat32));
      const std::string name = value.name;
      values_[name] = graph_.Apply("Cast", name + "_float32", {in}, std::move(attrs));
    }
    return {};
  }

  // ---- nodes

  Status AddNodes() {
    int index = -1;
    for (const auto& proto_node : proto().node()) {
      ++index;
      const std::string domain = CanonicalDomain(proto_node.domain());
      if (proto_node.op_type() == "Constant" && domain.empty()) continue;
      Node node;
      node.op = proto_node.op_type();
      node.domain = domain;
      node.name = proto_node.name().empty() ? fmt::format("{}_{}", node.op, index) : proto_node.name();
      const std::string label = fmt::format("node {} ({})", node.name, node.op);
      EVOQ_ASSIGN(node.attrs, WithContext(AttrsFromProto(proto_node, external_), label));
      for (const std::string& input : proto_node.input()) {
        const auto found = values_.find(input);
        if (!input.empty() && found == values_.end()) return InvalidInput("{}: input '{}' is not defined anywhere", label, input);
        node.inputs.push_back(input.empty() ? ValueId{} : found->second);
      }
      while (!node.inputs.empty() && !node.inputs.back().valid()) node.inputs.pop_back();
      for (const std::string& output : proto_node.output()) {
        node.outputs.push_back(output.empty() ? ValueId{} : values_.at(output));
      }
      while (!node.outputs.empty() && !node.outputs.back().valid()) node.outputs.pop_back();
      EVOQ_TRY(WithContext(CheckInputCount(node), label));
      graph_.AddNode(std::move(node));
    }
    return {};
  }

  // The dialect gives these operators more inputs, or fewer, than a file may.
  static Status CheckInputCount(const Node& node) {
    struct Row {
      const char* op;
      size_t least, most;
    };
    constexpr Row kRows[] = {{"Conv", 2, 3},   {"ConvTranspose", 2, 3},  {"MatMul", 2, 2},
                             {"Add", 2, 2},    {"QuantizeLinear", 2, 3}, {"DequantizeLinear", 2, 3}};
    for (const Row& row : kRows) {
      if (node.op != row.op || !(node.domain.empty() || node.domain == "com.microsoft")) continue;
      if (node.inputs.size() < row.least || node.inputs.size() > row.most)
        return InvalidInput("{} inputs, expected {} to {}", node.inputs.size(), row.least, row.most);
      for (size_t i = 0; i < row.least; ++i) {
        if (!node.inputs[i].valid()) return InvalidInput("input {} is omitted, expected a value", i);
      }
    }
    return {};
  }

  Status AddOutputs() {
    if (proto().output_size() == 0) return InvalidInput("the graph has no outputs");
    for (const auto& output : proto().output()) {
      const auto found = values_.find(output.name());
      if (found == values_.end()) return InvalidInput("output '{}' is not defined anywhere", output.name());
      ValueId id = found->second;
      const int elem_type = output.type().tensor_type().elem_type();
      const auto declared = DTypeFromOnnx(elem_type);
      if (declared && ComputeType(*declared) != *declared) {
        Attrs attrs;
        attrs.Set("to", elem_type);
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
      if (declared_outputs_[i] == DType::kUndefined || value.type.dtype == declared_outputs_[i]) continue;
      return InvalidInput("output '{}' is declared as {} but computed as {}", value.name, DTypeName(declared_outputs_[i]),
                          value.type.ToString());
    }
    return {};
  }

  void AddMetadata() {
    graph_.name = proto().name();
    auto& facts = graph_.metadata;
    for (const auto& prop : model_.metadata_props()) facts[prop.key()] = prop.value();
    facts["onnx.producer_name"] = model_.producer_name();
    facts["onnx.producer_version"] = model_.producer_version();
    facts["onnx.ir_version"] = std::to_string(model_.ir_version());
    for (const auto& [domain, version] : versions_) {
      facts[domain.empty() ? "onnx.opset" : "onnx.opset." + domain] = std::to_string(version);
    }
  }

  onnx::GraphProto& proto() { return *model_.mutable_graph(); }

  onnx::ModelProto& model_;
  ExternalFiles* external_;
  Graph graph_;
  std::map<std::string, int> versions_;      // domain -> opset
  std::map<std::string, ValueId> values_;    // by the file's names
  std::vector<DType> declared_outputs_;
};

}  // namespace

namespace {
Result<Graph> ImportModel(std::span<const std::byte> bytes, ExternalFiles* external) {
  if (bytes.empty()) return InvalidInput("the file is empty");
  if (bytes.size() > INT_MAX)
    return Fail(ErrorCode::kTooLarge, "{} bytes, protobuf files end at 2 GB; store the weights as external data", bytes.size());
  onnx::ModelProto model;
  if (!model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return InvalidInput("not an ONNX file: protobuf cannot read it (truncated, damaged or of another format)");
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

Result<Tensor> ReadTensorProto(const std::string& path) {
  EVOQ_ASSIGN(const auto file, MappedFile::Open(path));
  const auto bytes = file->bytes();
  onnx::TensorProto proto;
  if (bytes.size() > INT_MAX || !proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return InvalidInput("{}: not a TensorProto", path);
  return WithContext(TensorFromProto(proto, nullptr), path);
}

}  // namespace evoq
