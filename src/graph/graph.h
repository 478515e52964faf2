// The graph: nodes that compute values. It knows no operator: what a node means is the ops room's
// business.
//
// Graphs hold one dialect, whatever file they came from: ONNX operators at their newest semantics
// (the importer upgrades older ones), with these extensions, which the exporter writes back as
// plain ONNX:
//   * A quantized value is a type, not a node: a value whose TensorType has QuantParams is stored
//   as integers, and every
//     operator means "dequantize the inputs, compute in float32, quantize the output" (ops/op.h
//     gives the exact form).
//   * QuantizeLinear and DequantizeLinear have one input: scale and zero point are in the output's
//   or input's type.
//   * Conv, ConvTranspose, Gemm and MatMul may carry a fused bias, residual and activation
//   (docs/graph.md).
//   * Spatial operators may carry the attribute channels_last=1: their input 0 and output are
//   N,spatial...,C.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tensor/attrs.h"

namespace evoq {

// Indices with a type of their own, so that a node is never taken for a value.
struct NodeId {
  int32_t index = -1;
  bool valid() const { return index >= 0; }
  auto operator<=>(const NodeId&) const = default;
};
struct ValueId {
  int32_t index = -1;
  bool valid() const { return index >= 0; }
  auto operator<=>(const ValueId&) const = default;
};

class Graph;

// One operator applied to values. An invalid ValueId among the inputs is an omitted optional input.
struct Node {
  std::string op;      // ONNX op_type
  std::string domain;  // "" is ai.onnx
  std::string name;    // unique, never empty: what messages, profiles and --exclude call it
  Attrs attrs;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  // Subgraphs, never changed in place: If has then_branch and else_branch; Loop, Scan and
  // SequenceMap have one, body. A value of an outer graph that a subgraph reads is an input of the
  // node, after the operator's own ones, and an input of each subgraph, after its own ones, in the
  // same order.
  std::vector<std::shared_ptr<const Graph>> bodies;

  // The id of input i, invalid when omitted or past the end.
  ValueId input(size_t i) const { return i < inputs.size() ? inputs[i] : ValueId{}; }
};

// What nodes exchange: an input of the graph, a constant, or one output of one node.
struct Value {
  std::string name;           // unique, never empty
  TensorType type;            // dtype kUndefined until inferred
  Tensor constant;            // defined for a constant
  NodeId producer;            // invalid for inputs and constants
  std::vector<NodeId> users;  // nodes that read it, once per input that does

  bool is_constant() const { return constant.defined(); }
};

class Graph {
 public:
  std::string name;
  // Free-form facts that travel with the model: "producer", "source.sha256", "preprocess", ...
  std::map<std::string, std::string> metadata;

  // ---- reading
  const Node& node(NodeId id) const { return nodes_[id.index]; }
  const Value& value(ValueId id) const { return values_[id.index]; }
  const std::vector<ValueId>& inputs() const { return inputs_; }
  const std::vector<ValueId>& outputs() const { return outputs_; }
  // Live nodes in execution order: a node stands after the nodes whose outputs it reads. Valid
  // until the graph changes; a pass that edits while it walks takes a copy.
  const std::vector<NodeId>& order() const { return order_; }
  bool alive(NodeId id) const { return id.valid() && !nodes_[id.index].op.empty(); }
  bool IsInput(ValueId id) const;
  bool IsOutput(ValueId id) const;
  ValueId FindValue(std::string_view name) const;  // invalid when there is none
  NodeId FindNode(std::string_view name) const;
  int value_count() const {
    return static_cast<int>(values_.size());
  }  // ids are 0..count-1; dead ones included
  // The constant behind input i of the node, or nullptr when it is omitted or computed.
  const Tensor* ConstantInput(const Node& node, size_t i) const;
  // The only user of a value that is not a graph output, or an invalid id.
  NodeId OnlyUser(ValueId id) const;

  // ---- writing
  ValueId AddInput(std::string name, TensorType type);
  ValueId AddConstant(std::string name, Tensor tensor);  // the name is made unique
  // A value with no producer yet, for AddNode. The name is made unique.
  ValueId AddValue(std::string name, TensorType type = {});
  // Appends a node that computes `outputs` (values without a producer). The name is made unique.
  // The order is right again after Sort.
  NodeId AddNode(Node node);
  // AddNode with one new output, named as the node; returns the output.
  ValueId Apply(std::string op, std::string name, std::vector<ValueId> inputs, Attrs attrs = {},
                TensorType type = {});
  void MarkOutput(ValueId id);
  // Output i of the graph becomes `id`, which takes over the name.
  void ReplaceOutput(size_t i, ValueId id);

  void SetType(ValueId id, TensorType type) { values_[id.index].type = std::move(type); }
  void SetConstant(ValueId id, Tensor tensor);  // replaces a constant's data and type
  void Rename(ValueId id, std::string name);    // made unique
  Attrs& attrs(NodeId id) { return nodes_[id.index].attrs; }
  void SetBody(NodeId id, size_t i, std::shared_ptr<const Graph> body) {
    nodes_[id.index].bodies[i] = std::move(body);
  }
  void SetOp(NodeId id, std::string op, std::string domain = "");
  void RenameNode(NodeId id, std::string name);
  void SetInput(NodeId id, size_t i, ValueId to);  // extends the inputs when i is past the end
  // Every reader of `from`, and the graph's outputs, read `to` instead. A graph output keeps its
  // name: `to` takes it.
  void ReplaceUses(ValueId from, ValueId to);
  void ReplaceUsesIn(NodeId user, ValueId from, ValueId to);
  // Makes `value` the output i of `node` instead of the present one, which loses its producer.
  void SetOutput(NodeId node, size_t i, ValueId value);
  // Removes a node; its outputs lose their producer and must have no users left by the next Sort.
  void RemoveNode(NodeId id);

  // Removes nodes whose outputs nothing reads. Returns how many.
  int RemoveDeadNodes();
  // Rebuilds the execution order, keeping the present one where it is valid.
  // Errors: kInvalidInput when the graph has a cycle, naming a node of it.
  Status Sort();

  // Checks links, names and producers; ops are not looked at. Errors: kInternal naming what is
  // wrong: a broken pass.
  Status Verify() const;

  // A copy without dead nodes and unreferenced values; ids change.
  Graph Compacted() const;

 private:
  std::string UniqueName(const std::string& wanted, bool node);
  std::vector<Node> nodes_;
  std::vector<Value> values_;
  std::vector<NodeId> order_;
  std::vector<ValueId> inputs_, outputs_;
  std::map<std::string, int32_t, std::less<>> value_names_, node_names_;
};

// One line per input, constant, node and output, in execution order: what goldens compare and
// `--log-passes` prints.
//   input  %input: float32[N, 3, 224, 224]
//   const  %w: int8[32, 3, 3, 3](32 scales on axis 0)
//   conv_1: %y: uint8[N, 32, 112, 112](scale 0.02, zero 0) = Conv{strides=[2, 2]}(%input, %w, _,
//   %b) output %y
std::string Print(const Graph& graph);

// The inverse of Print. Constants are zero-filled unless written as `const %name: type = [v, v,
// ...]`, which Print does for at most 8 elements. For tests and examples. Errors: kInvalidInput
// with the line.
Result<Graph> ParseGraph(std::string_view text);

}  // namespace evoq
