#include "generate/work.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "kernels/attention/attention_inputs.h"
#include "llm/part_weights.h"
#include "llm/parts.h"
#include "ops/experts.h"
#include "ops/index_range.h"
#include "ops/op.h"

namespace evoq {
namespace {

// Tokens that those of the phase see, of one sequence: each the context, those before it, itself;
// no more than `window` of them where that is not negative.
int64_t Seen(const Phase& phase, int64_t window) {
  int64_t seen = 0;
  for (int64_t i = 0; i < phase.tokens; ++i) {
    const int64_t all = phase.context + i + 1;
    seen += window < 0 ? all : std::min(all, window);
  }
  return seen;
}

int64_t BytesOf(const TensorType& type, int64_t elements) {
  return elements * DTypeBits(type.dtype) / 8;
}

// Of a table, the rows that the node's indices name.
int64_t LookedUpBytes(const Graph& graph, const Node& node, int indices, const Value& table) {
  const auto stored = static_cast<int64_t>(table.constant.bytes());
  const ValueId id = node.input(static_cast<size_t>(indices));
  std::vector<TensorType> types;
  for (ValueId in : node.inputs) types.push_back(in.valid() ? graph.value(in).type : TensorType());
  const auto range = IndexRangeOf(node, types);
  if (!id.valid() || !range) return stored;
  const int64_t rows = range->end, wanted = graph.value(id).type.shape.elements().value_or(rows);
  return rows > 0 ? std::min(stored, stored / rows * wanted) : 0;
}

// Attention over a cache: products of what is seen; keys and values read once.
Work AttentionWork(const Graph& graph, const Node& node, const Phase& phase, Peak peak) {
  Work work;
  const auto type = [&](size_t input) -> const TensorType& {
    return graph.value(node.inputs[input]).type;
  };
  const Shape &q = type(kQ).shape, &k = type(kK).shape, &v = type(kV).shape;
  if (q.rank() != 4 || k.rank() != 4 || v.rank() != 4) return work;
  const int64_t left = node.attrs.Int("left_window_size", -1), window = left < 0 ? -1 : left + 1;
  const int64_t size = k[3].value + v[3].value;
  const auto macs = [&](int64_t seen) {
    work.macs[static_cast<size_t>(peak)] = phase.sequences * seen * q[1].value * size;
  };
  const auto add_cache = [&](size_t input, int64_t rows) {
    const int64_t elements = type(input).shape[3].value * rows;
    work.cache_bytes += phase.sequences * k[1].value * BytesOf(type(input), elements);
  };
  if (node.attrs.Int("is_causal") == 0) {
    // Of a text that is read: within it, where keys are of this run, or from the other text.
    const NodeId made = graph.value(node.inputs[kK]).producer;
    const bool cached = made.valid() && graph.node(made).op == "TensorScatter";
    const int64_t read = phase.tokens > 1 ? phase.tokens : phase.source, keys = k[2].value;
    macs(q[2].value * (cached ? std::min(read, keys) : keys));
    if (!cached) return work;
    const int64_t written = phase.tokens > 1 ? phase.tokens : 0;
    for (size_t input : {kK, kV, kKeyScale, kValueScale}) {
      if (node.input(input).valid()) add_cache(input, std::min(read, keys) + written);
    }
    return work;
  }
  const Phase own{phase.sequences, phase.context, q[2].value};
  macs(Seen(own, window));
  int64_t read = own.context + own.tokens;
  if (window >= 0) read = std::min(read, window + own.tokens - 1);
  for (size_t input : {kK, kV, kKeyScale, kValueScale}) {
    if (node.input(input).valid()) add_cache(input, read + own.tokens);
  }
  return work;
}

// Of no element: what a model does with a text of no tokens.
bool ComputesNothing(const Graph& graph, const Node& node) {
  return std::ranges::all_of(node.outputs, [&](ValueId id) {
    return !id.valid() || graph.value(id).type.shape.elements() == 0;
  });
}

}  // namespace

int64_t Work::all_macs() const { return std::accumulate(macs.begin(), macs.end(), int64_t{0}); }

void Work::Add(const Work& more) {
  for (size_t i = 0; i < macs.size(); ++i) macs[i] += more.macs[i];
  weight_bytes += more.weight_bytes;
  cache_bytes += more.cache_bytes;
}

std::vector<PartWork> WorkOf(const Program& program, const Phase& phase) {
  const Graph& graph = *program.graph;
  std::map<std::string_view, Work> by_part;
  std::set<int> counted;  // constants
  for (const Step& step : program.steps) {
    const Node& node = graph.node(step.node);
    if (ComputesNothing(graph, node)) continue;
    const OpDef* const op = FindOp(node);
    Work& work = by_part[PartOf(node)];
    const Peak peak = step.kernel != nullptr ? step.kernel->peak : Peak::kFloat32;
    if (node.op == "Attention") {
      work.Add(AttentionWork(graph, node, phase, peak));
    } else {
      work.macs[static_cast<size_t>(peak)] += step.macs;
    }
    const bool chooses = op != nullptr && op->alternatives >= 0;
    int64_t alternatives = 0;  // bytes
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId id = node.inputs[i];
      if (!id.valid() || !graph.value(id).is_constant()) continue;
      const Value& constant = graph.value(id);
      // Of what comes before an operator's indices, those rows that they name.
      if (chooses && static_cast<int>(i) >= op->alternatives) {
        alternatives += BytesWithScales(constant.constant);
      } else if (op != nullptr && static_cast<int>(i) < op->indices) {
        work.weight_bytes += LookedUpBytes(graph, node, op->indices, constant);
      } else if (counted.insert(id.index).second) {
        work.weight_bytes += BytesWithScales(constant.constant);
      }
    }
    if (!chooses) continue;
    std::vector<TensorType> types;
    for (ValueId in : node.inputs)
      types.push_back(in.valid() ? graph.value(in).type : TensorType());
    const ReadShare share = ReadShareOf(node, types);
    work.weight_bytes += alternatives / share.of * share.read;
  }
  std::vector<PartWork> parts;
  for (const char* const part : ModelParts()) {
    const auto found = by_part.find(part);
    if (found != by_part.end() && (found->second.all_macs() > 0 || found->second.bytes() > 0))
      parts.push_back({part, found->second});
  }
  return parts;
}

Work Sum(const std::vector<PartWork>& parts) {
  Work sum;
  for (const PartWork& part : parts) sum.Add(part.work);
  return sum;
}

}  // namespace evoq
