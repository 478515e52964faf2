#include "onnx/functions.h"

#include <algorithm>
#include <climits>
#include <map>
#include <set>
#include <string>

#include "base/budget_scope.h"
#include "onnx/upgrade.h"

namespace evoq {
namespace {

constexpr int kMaxNodes = 1'000'000;
constexpr int64_t kNodeBytes = 1024;  // of a node in the graph, besides its message
constexpr int kMaxDepth = 64;

using Names = std::map<std::string, std::string>;

// Gives the names of a copied function's values those of the call.
class Renamer {
 public:
  Renamer(Names names, std::string prefix) : names_(std::move(names)), prefix_(std::move(prefix)) {}
  std::string operator()(const std::string& name) const {
    if (name.empty()) return name;
    const auto found = names_.find(name);
    return found == names_.end() ? prefix_ + name : found->second;
  }

 private:
  Names names_;
  std::string prefix_;
};

class Inliner {
 public:
  explicit Inliner(onnx::ModelProto& model) : model_(model) {
    for (const auto& function : model.functions())
      functions_[{CanonicalDomain(function.domain()), function.name()}] = &function;
  }

  Status Run() {
    ClearNotes(*model_.mutable_graph());
    if (functions_.empty()) return {};
    for (const auto& [key, function] : functions_) EVOQ_TRY(TakeOperatorSets(*function));
    return ExpandGraph(*model_.mutable_graph(), 0);
  }

 private:
  // A domain that only functions import joins the model's; nodes of a function that imports another
  // version carry that.
  Status TakeOperatorSets(const onnx::FunctionProto& function) {
    for (const auto& wanted : function.opset_import()) {
      const std::string domain = CanonicalDomain(wanted.domain());
      if (domain.empty() && (wanted.version() < kOldestOpset || wanted.version() > kNewestOpset))
        return Unsupported("function '{}' is of operator set {}, evoq reads {} to {}",
                           function.name(), wanted.version(), kOldestOpset, kNewestOpset);
      const auto same = [&](const auto& opset) {
        return CanonicalDomain(opset.domain()) == domain;
      };
      const auto& imports = model_.opset_import();
      const auto found = std::find_if(imports.begin(), imports.end(), same);
      if (found == imports.end()) {
        *model_.add_opset_import() = wanted;
      } else if (found->version() != wanted.version()) {
        versions_[{&function, domain}] =
            static_cast<int>(std::clamp<int64_t>(wanted.version(), 0, INT_MAX));
      }
    }
    return {};
  }

  // Takes the file's own notes, which mean nothing.
  static void ClearNotes(onnx::GraphProto& graph) {
    for (auto& node : *graph.mutable_node()) {
      EraseNote(node);
      for (auto& attr : *node.mutable_attribute()) {
        if (attr.type() == onnx::AttributeProto::GRAPH) ClearNotes(*attr.mutable_g());
      }
    }
  }

  static void EraseNote(onnx::NodeProto& node) {
    auto& attributes = *node.mutable_attribute();
    attributes.erase(std::remove_if(attributes.begin(), attributes.end(),
                                    [](const auto& attr) { return attr.name() == kOpsetAttr; }),
                     attributes.end());
  }

  Status ExpandGraph(onnx::GraphProto& graph, int depth) {
    google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
    nodes.Swap(graph.mutable_node());
    for (auto& node : nodes) EVOQ_TRY(ExpandNode(std::move(node), depth, *graph.mutable_node()));
    return {};
  }

  Status ExpandNode(onnx::NodeProto node, int depth,
                    google::protobuf::RepeatedPtrField<onnx::NodeProto>& out) {
    if (depth > kMaxDepth)
      return InvalidInput(
          "functions and subgraphs nested more than {} deep, or a function that calls itself",
          kMaxDepth);
    if (++nodes_ > kMaxNodes)
      return Fail(ErrorCode::kTooLarge, "more than {} nodes in functions", kMaxNodes);
    for (auto& attr : *node.mutable_attribute()) {
      if (attr.type() == onnx::AttributeProto::GRAPH)
        EVOQ_TRY(ExpandGraph(*attr.mutable_g(), depth + 1));
    }
    const auto found = functions_.find({CanonicalDomain(node.domain()), node.op_type()});
    if (found == functions_.end()) {
      *out.Add() = std::move(node);
      return {};
    }
    return Call(node, *found->second, depth, out);
  }

  Status Call(const onnx::NodeProto& call, const onnx::FunctionProto& function, int depth,
              google::protobuf::RepeatedPtrField<onnx::NodeProto>& out) {
    if (call.input_size() > function.input_size() || call.output_size() > function.output_size())
      return InvalidInput(
          "node '{}' calls '{}' with {} inputs and {} outputs, expected at most {} and {}",
          call.name(), function.name(), call.input_size(), call.output_size(),
          function.input_size(), function.output_size());
    Names names;
    for (int i = 0; i < function.input_size(); ++i)
      names[function.input(i)] = i < call.input_size() ? call.input(i) : "";
    for (int i = 0; i < function.output_size(); ++i) {
      if (i >= call.output_size() || call.output(i).empty()) continue;
      // A function may hand an input on: an Identity gives it the call's name.
      if (names.count(function.output(i))) {
        onnx::NodeProto& copy = *out.Add();
        copy.set_op_type("Identity");
        copy.add_input(names[function.output(i)]);
        copy.add_output(call.output(i));
        continue;
      }
      names[function.output(i)] = call.output(i);
    }
    const std::string prefix =
        fmt::format("{}_{}/", call.name().empty() ? function.name() : call.name(), ++calls_);
    const Renamer rename(std::move(names), prefix);
    for (const auto& inner : function.node()) {
      onnx::NodeProto node = inner;
      EVOQ_TRY(Adapt(node, call, rename, prefix));
      EVOQ_TRY(SpendMemory(kNodeBytes + static_cast<int64_t>(node.ByteSizeLong()),
                           "the nodes of the model's functions"));
      NoteVersions(function, node);
      EVOQ_TRY(ExpandNode(std::move(node), depth + 1, out));
    }
    return {};
  }

  // Writes the versions that the function imports, where they are not the model's, onto a node and
  // those of its subgraphs.
  void NoteVersions(const onnx::FunctionProto& function, onnx::NodeProto& node) const {
    const auto found = versions_.find({&function, CanonicalDomain(node.domain())});
    EraseNote(node);
    if (found != versions_.end()) {
      onnx::AttributeProto& note = *node.add_attribute();
      note.set_name(kOpsetAttr);
      note.set_type(onnx::AttributeProto::INT);
      note.set_i(found->second);
    }
    for (auto& attr : *node.mutable_attribute()) {
      if (attr.type() != onnx::AttributeProto::GRAPH) continue;
      for (auto& inner : *attr.mutable_g()->mutable_node()) NoteVersions(function, inner);
    }
  }

  // Puts the call's names and attributes into a copied node and its subgraphs.
  static Status Adapt(onnx::NodeProto& node, const onnx::NodeProto& call, const Renamer& rename,
                      const std::string& prefix) {
    if (!node.name().empty()) node.set_name(prefix + node.name());
    for (auto& name : *node.mutable_input()) name = rename(name);
    for (auto& name : *node.mutable_output()) name = rename(name);
    google::protobuf::RepeatedPtrField<onnx::AttributeProto> attributes;
    attributes.Swap(node.mutable_attribute());
    for (auto& attr : attributes) {
      if (!attr.ref_attr_name().empty()) {
        for (const auto& given : call.attribute()) {
          if (given.name() != attr.ref_attr_name()) continue;
          const std::string name = attr.name();
          attr = given;
          attr.set_name(name);
        }
        if (!attr.ref_attr_name().empty()) continue;  // not given: the operator's default
      } else if (attr.type() == onnx::AttributeProto::GRAPH) {
        onnx::GraphProto& graph = *attr.mutable_g();
        for (auto& input : *graph.mutable_input()) input.set_name(rename(input.name()));
        for (auto& output : *graph.mutable_output()) output.set_name(rename(output.name()));
        for (auto& tensor : *graph.mutable_initializer()) tensor.set_name(rename(tensor.name()));
        for (auto& inner : *graph.mutable_node()) EVOQ_TRY(Adapt(inner, call, rename, prefix));
      }
      *node.add_attribute() = std::move(attr);
    }
    return {};
  }

  onnx::ModelProto& model_;
  std::map<std::pair<std::string, std::string>, const onnx::FunctionProto*> functions_;
  std::map<std::pair<const onnx::FunctionProto*, std::string>, int>
      versions_;  // of a function's domains, where not the model's
  int nodes_ = 0, calls_ = 0;
};

}  // namespace

Status InlineFunctions(onnx::ModelProto& model) { return Inliner(model).Run(); }

}  // namespace evoq
