// A graph at trial sizes. Where dimensions are computed, symbols do not tell which of them are
// equal, nor what a computed mask holds: passes try.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace evoq {

// The graph at one choice of sizes; ids are those of the graph.
class SizeProbe {
 public:
  // A value with more elements is not computed.
  static constexpr int64_t kMaxElements = int64_t{1} << 20;

  // `symbols`: sizes of the inputs' symbols; one that is missing and reads "a + b" is their sum.
  // `data`: what inputs hold. Errors: of binding and inference: the graph cannot have these sizes.
  static Result<SizeProbe> Of(const Graph& graph, const std::map<std::string, int64_t>& symbols,
                              const std::map<ValueId, Tensor>& data = {});

  // Of a value that the graph had when the probe was made; else undefined.
  TensorType type(ValueId id) const {
    return id.valid() && id.index < bound_->value_count() ? bound_->value(id).type : TensorType();
  }
  // What the value holds, where that follows from sizes, constants and `data` alone.
  std::optional<Tensor> ValueOf(ValueId id);

 private:
  std::optional<Tensor> Compute(ValueId id, int depth);
  std::shared_ptr<Graph> bound_;
  std::map<ValueId, std::optional<Tensor>> computed_;
};

// Some probes of a graph, made when they are first asked for.
class SizeProbes {
 public:
  explicit SizeProbes(const Graph& graph) : graph_(graph) {}

  // Whether two dimensions are equal: for certain, or at all trial sizes, which differ from each
  // other and from 1. Operators that want equal dimensions or a 1 leave nothing else then.
  bool Same(ValueId a, int axis_a, ValueId b, int axis_b);
  // Whether `mask` says something of each of the scores without widening them: each of its sizes is
  // that of theirs or, but for the last one, 1.
  bool Masks(ValueId mask, ValueId scores);
  // The dimension's size, known or equal at all trial sizes.
  std::optional<int64_t> Size(ValueId value, int axis);
  // Empty where the graph cannot have sizes that were tried.
  std::vector<SizeProbe>& all();
  // Whether the graph's inputs leave no size open, so that one probe says everything.
  bool exact();

 private:
  void Make();
  const Graph& graph_;
  bool made_ = false, exact_ = false;
  std::vector<SizeProbe> probes_;
};

// ---- masks of attention

// What a mask lets queries see, which stand at the last places before the end of the keys.
struct Sight {
  bool causal = false;  // no later keys; else all keys
  int64_t window = 0;   // keys that are seen, the query's own place included; 0: all earlier ones

  bool operator==(const Sight&) const = default;
};

// Of a mask [..., queries, keys] of bools (true: seen) or of what is added to scores (0: seen; 1e4
// below or less: hidden). Nothing for a mask of another kind. More keys than `keys` are none of it.
std::optional<Sight> SightOf(const Tensor& mask, int64_t queries, int64_t keys);

// Numbers above `least` and below 2^31 - 1 among the constants of one element that `value` is
// computed from: sizes beyond which it may be something else. Nothing for a long computation.
std::optional<std::vector<int64_t>> LargeNumbers(const Graph& graph, ValueId value, int64_t least);

}  // namespace evoq
