// Runtimes whose treatment of a graph is predicted: one row each, named by one line in
// foreign/forecasts/runtimes.inc.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace evoq {

// What a runtime makes of a node.
enum class Fate {
  kNone,      // nothing to say: no real values (shape arithmetic), constants, QuantizeLinear,
              // DequantizeLinear
  kInteger,   // computes on integers
  kMoved,     // integers pass through it
  kAbsorbed,  // becomes part of another node, or has no effect
  kFloat,     // computes on floating-point numbers
  kHost,      // runs on the CPU although the runtime computes elsewhere
  kRefused,   // not read: the runtime does not load the file
};
// "none", "integer", "moved", "absorbed", "float", "host", "refused"
const char* FateName(Fate fate);
bool OnIntegers(Fate fate);  // kInteger, kMoved or kAbsorbed

// Copies of one value between the device and the host.
struct HostCopy {
  ValueId value;
  bool to_host = false;
};

struct Fates {
  std::vector<Fate> nodes;          // by NodeId
  std::vector<NodeId> conversions;  // QuantizeLinear and DequantizeLinear of activations that run
                                    // as nodes of their own
  std::vector<NodeId> weights;      // DequantizeLinear of constants that run at every inference
  std::vector<HostCopy> copies;

  Fate at(NodeId id) const {
    return static_cast<size_t>(id.index) < nodes.size() ? nodes[id.index] : Fate::kNone;
  }
  int Count(Fate fate) const;
};

struct Runtime {
  const char* name;  // of `explain --target`
  const char* doc;
  const char* source;     // where its tables can be checked, with version
  const char* placement;  // the QdqTarget (quant/unfuse.h) whose placement it wants; "" where
                          // integers do not pay at all
  // The graph as imported: Q/DQ are nodes.
  Fates (*forecast)(const Graph& graph);
};
std::span<const Runtime* const> AllRuntimes();
// By its name or by that of its placement: `ort` is `ort-cpu`.
const Runtime* FindRuntime(std::string_view name);

// ---- for rows

// How an operator becomes integer arithmetic.
enum class IntegerForm {
  kWeighted,      // inputs 0 and 1 dequantized
  kEvery,         // every activation it reads dequantized, the result quantized
  kMove,          // integers pass when one side is quantized
  kAfter,         // part of the weighted operator before it
  kAfterOrEvery,  // the same (of Sigmoid also x Sigmoid(x)), else as kEvery
};
struct IntegerOp {
  const char* op;
  IntegerForm form;
};
// The fates by such a table, in which types of other than 8 bits are no integers: what runtimes do
// that move Q/DQ through the graph themselves. `takes` says which quantization parameters weights
// and activations may have.
Fates FatesByTable(const Graph& graph, std::span<const IntegerOp> table,
                   bool (*takes)(const TensorType& activation, const TensorType& weights));

// Operators written as integer ones (QLinearConv, ...), which the importer reads as Q/DQ around
// float ones: the operator's name in the file, "" of others.
std::string QlinearName(const Node& node);
// Nodes that `refuses` names get that fate.
Fates Refuse(const Graph& graph, Fates fates,
             bool (*refuses)(const Graph& graph, const Node& node));

// Nodes with real values that are not Q/DQ nor constant: what has a fate.
bool HasFate(const Graph& graph, const Node& node);

}  // namespace evoq
