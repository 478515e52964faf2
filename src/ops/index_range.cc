#include "ops/index_range.h"

#include "base/check.h"
#include "kernels/attention/attention_inputs.h"
#include "ops/experts.h"
#include "ops/fold.h"
#include "ops/op.h"
#include "ops/util.h"

namespace evoq {
namespace {

using Types = std::span<const TensorType>;

IndexRange OfGather(const Node& node, Types inputs) {
  const Shape& shape = inputs[0].shape;
  const auto axis = NormalizeAxis(node.attrs.Int("axis", 0), shape.rank());
  EVOQ_CHECK(axis, "{}", NodeLabel(node));
  return {1, -shape[*axis].value, shape[*axis].value};
}

std::optional<IndexRange> OfGatherColumns(const Node&, Types inputs) {
  const int64_t size = inputs[0].shape[1].value;
  return IndexRange{1, -size, size};
}

// Tuples of one index: kernels take no others.
std::optional<IndexRange> OfGatherNd(const Node& node, Types inputs) {
  const Shape &x = inputs[0].shape, &indices = inputs[1].shape;
  if (indices[indices.rank() - 1].value != 1) return std::nullopt;
  const int64_t size = x[static_cast<int>(node.attrs.Int("batch_dims", 0))].value;
  return IndexRange{1, -size, size};
}

// Tuples of one index: of more, kernels take constants only.
std::optional<IndexRange> OfScatterNd(const Node&, Types inputs) {
  const Shape& indices = inputs[1].shape;
  if (indices[indices.rank() - 1].value != 1) return std::nullopt;
  const int64_t size = inputs[0].shape[0].value;
  return IndexRange{1, -size, size};
}

// GatherElements, ScatterElements.
std::optional<IndexRange> OfElements(const Node& node, Types inputs) {
  return OfGather(node, inputs);
}

// Rows of the caches.
std::optional<IndexRange> OfRotaryEmbedding(const Node&, Types inputs) {
  return IndexRange{3, 0, inputs[1].shape[0].value};
}

// Where the update begins: linear ones fit whole, circular ones may begin behind the last place.
std::optional<IndexRange> OfTensorScatter(const Node& node, Types inputs) {
  const Shape &cache = inputs[0].shape, &update = inputs[1].shape;
  const auto axis = ScatterAxis(node, cache.rank());
  EVOQ_CHECK(axis, "{}", NodeLabel(node));
  const bool circular = node.attrs.String("mode", "linear") == "circular";
  return IndexRange{2, 0, cache[*axis].value - (circular ? 0 : update[*axis].value) + 1};
}

// Keys that count, of all.
std::optional<IndexRange> OfAttention(const Node&, Types inputs) {
  const Shape& keys = inputs[kK].shape;
  return IndexRange{kLengths, 0, keys[keys.rank() - 2].value + 1};
}

std::optional<IndexRange> OfChooseExpert(const Node&, Types inputs) {
  return IndexRange{0, 0, static_cast<int64_t>(inputs.size()) - 1};
}

std::optional<IndexRange> OfExpertMatMul(const Node& node, Types) {
  return IndexRange{kExpertIds, 0, node.attrs.Int(kExperts)};
}

// Lengths of an RNN, GRU or LSTM, in steps.
std::optional<IndexRange> OfRecurrent(const Node& node, Types inputs) {
  return IndexRange{4, 0, inputs[0].shape[node.attrs.Int("layout", 0) != 0 ? 1 : 0].value + 1};
}

struct Rule {
  const char* op;
  const char* domain;
  std::optional<IndexRange> (*range)(const Node& node, Types inputs);
};
constexpr Rule kRules[] = {{"GatherND", "", OfGatherNd},
                           {"GatherElements", "", OfElements},
                           {"ScatterElements", "", OfElements},
                           {"ScatterND", "", OfScatterNd},
                           {"GatherColumns", "evoq", OfGatherColumns},
                           {"ChooseExpert", "evoq", OfChooseExpert},
                           {"ExpertMatMul", "evoq", OfExpertMatMul},
                           {"RotaryEmbedding", "", OfRotaryEmbedding},
                           {"TensorScatter", "", OfTensorScatter},
                           {"Attention", "", OfAttention},
                           {"RNN", "", OfRecurrent},
                           {"GRU", "", OfRecurrent},
                           {"LSTM", "", OfRecurrent}};

}  // namespace

std::optional<IndexRange> IndexRangeOf(const Node& node, Types inputs) {
  if (Gathers(node)) return OfGather(node, inputs);
  for (const Rule& rule : kRules) {
    if (node.op != rule.op || node.domain != rule.domain) continue;
    const std::optional<IndexRange> range = rule.range(node, inputs);
    const bool given =
        range && range->input < inputs.size() && inputs[range->input].dtype != DType::kUndefined;
    return given ? range : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace evoq
