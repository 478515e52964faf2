// Sizes that a graph computes, by their symbols: Shape, Gather, Slice, Concat and integer
// arithmetic, element by element.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "graph/graph.h"

namespace evoq {

// The sum of two dimensions: a number, or a symbol that names its terms in order, "past +
// sequence"; unknown where a term is, and where there are many.
Dim SumOf(const Dim& a, const Dim& b);

// a - b, where b's terms are among a's; else unknown.
Dim DifferenceOf(const Dim& a, const Dim& b);

class SymbolicSizes {
 public:
  // The elements of a small integer value: numbers, symbols, or unknown. -1, which Reshape and
  // Expand take, is a symbol that no file has; numbers below it are unknown.
  using Elements = std::vector<Dim>;
  static constexpr int64_t kMaxElements = 64;

  explicit SymbolicSizes(const Graph& graph) : graph_(graph) {}

  // Of a constant, or of what Learn has seen.
  std::optional<Elements> Of(ValueId value) const;
  // Follows a node whose inputs have been followed and whose outputs have their types.
  void Learn(const Node& node);
  // Dimensions that computed inputs of Reshape, Expand, Range and Slice tell, where `types` leaves
  // them open.
  void Refine(const Node& node, std::vector<TensorType>& types) const;

 private:
  std::optional<Elements> Compute(const Node& node) const;
  std::optional<Elements> OfShape(const Node& node) const;
  std::optional<Elements> Joined(const Node& node) const;
  std::optional<Elements> Picked(const Node& node) const;
  std::optional<Elements> Sliced(const Node& node) const;
  std::optional<Elements> Arithmetic(const Node& node) const;
  std::optional<Elements> Kept(const Node& node) const;

  void RefineReshape(const Node& node, Shape& shape) const;
  void RefineExpand(const Node& node, Shape& shape) const;
  void RefineRange(const Node& node, Shape& shape) const;
  void RefineSlice(const Node& node, Shape& shape) const;
  // The only number of a constant.
  std::optional<int64_t> OneOf(const Node& node, size_t input) const;

  const Graph& graph_;
  std::map<ValueId, Elements> known_;
};

}  // namespace evoq
