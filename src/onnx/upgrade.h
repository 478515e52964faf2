// Brings nodes of older operator versions to the graph's dialect: one row per change of an operator
// between versions.
#pragma once

#include <deque>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "ops/op.h"

namespace evoq {

// What a rule works on: one node of the graph, whose inputs' types are inferred, and helpers that
// name what they add after it.
class Upgrade {
 public:
  Upgrade(Graph& graph, NodeId id, int version) : graph_(graph), id_(id), version_(version) {}

  Graph& graph() { return graph_; }
  NodeId id() const { return id_; }
  const Node& node() const { return graph_.node(id_); }
  Attrs& attrs() { return graph_.attrs(id_); }
  int version() const { return version_; }  // the file's opset of the node's domain
  // Errors: kInvalidInput for one that is omitted.
  Status NeedInputs(std::initializer_list<size_t> wanted) const;
  bool HasInput(size_t i) const { return node().input(i).valid(); }
  // The constant behind input i, or nullptr. It stays where it is while the rule adds to the graph.
  const Tensor* Constant(size_t i) const;
  // Type of input i; dtype kUndefined when omitted.
  TensorType InputType(size_t i) const;

  ValueId AddConstant(std::string_view suffix, Tensor tensor);
  // Whether the constants that were added fit the budget. Errors: kTooLarge.
  const Status& status() const { return status_; }
  // Input `i` becomes a 1-D int64 constant.
  void SetInts(size_t i, std::string_view suffix, const std::vector<int64_t>& values);
  // The ints attribute, when present, becomes input `i`. Errors: kInvalidInput when it is of
  // another kind.
  Status AttrToInput(const char* attr, size_t i);
  // A new node `op`, named after this one and `suffix`, with one output.
  ValueId Apply(std::string op, std::string_view suffix, std::vector<ValueId> inputs,
                Attrs attrs = {});
  // A new node as it is, whose outputs the graph has.
  void AddNode(Node node) { added_.push_back(graph_.AddNode(std::move(node))); }
  // Removes the node; readers of its output 0 read `value`, which takes over its name.
  void ReplaceBy(ValueId value);
  // Whether someone reads output i.
  bool OutputUsed(size_t i) const;

  const std::vector<NodeId>& added() const { return added_; }

 private:
  Graph& graph_;
  NodeId id_;
  int version_;
  std::vector<NodeId> added_;
  mutable std::deque<Tensor> constants_;
  Status status_;
};

// The operator sets of ai.onnx that are read.
inline constexpr int kOldestOpset = 6, kNewestOpset = 28;

// An attribute of nodes that a function of the model brought from another operator set than the
// model's; UpgradeNodes removes it.
inline constexpr char kOpsetAttr[] = "evoq.opset";

// The operator set of the node's domain; `versions` are the model's.
int VersionOf(const Node& node, const std::map<std::string, int>& versions);

constexpr int kAnyVersion =
    1 << 20;  // a rule for the operator in every version: it is not part of the dialect

// Applies to nodes of opsets older than `before`.
struct UpgradeRule {
  const char* op;
  const char* domain;
  int before;
  Status (*apply)(Upgrade& u);
};

std::span<const UpgradeRule> OnnxRules();  // upgrade.cc: operators of ai.onnx, in version order
std::span<const UpgradeRule> QuantizedRules();  // upgrade_quantized.cc: QLinear*
std::span<const UpgradeRule> QonnxRules();      // upgrade_qonnx.cc: QONNX and FINN
std::span<const UpgradeRule> MicrosoftRules();  // upgrade_microsoft.cc: com.microsoft
std::span<const UpgradeRule> PackedRules();     // upgrade_packed.cc: MatMulNBits, ...
std::span<const UpgradeRule> Bnb4Rules();       // upgrade_bnb4.cc: MatMulBnb4
std::span<const UpgradeRule> RecurrentRules();  // upgrade_recurrent.cc: DynamicQuantizeLSTM

// Whether a rule replaces this operator, of any version, by operators of the dialect.
bool IsReplaced(std::string_view op, std::string_view domain);

// Upgrades and infers all nodes; `versions` maps a domain to the file's opset. `lenient`: a node
// whose types cannot be inferred is no error, as in a branch that is never taken.
Status UpgradeNodes(Graph& graph, const std::map<std::string, int>& versions, bool lenient = false);

}  // namespace evoq
