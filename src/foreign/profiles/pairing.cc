#include "foreign/profiles/pairing.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "foreign/profiles/wiring.h"

namespace evoq {
namespace {

// Sizes without the ones behind them: a classifier's [32, 1000] is [32, 1000, 1, 1] to a
// convolution.
std::vector<int64_t> Trimmed(std::vector<int64_t> dims) {
  while (!dims.empty() && dims.back() == 1) dims.pop_back();
  return dims;
}

std::vector<int64_t> OutputDims(const ForeignLayer& layer) {
  return layer.outputs.empty() ? std::vector<int64_t>() : Trimmed(layer.outputs[0].dims);
}

// A matrix product is a convolution of single pixels.
bool IsPointwise(const ForeignLayer& layer) {
  return std::all_of(layer.kernel.begin(), layer.kernel.end(), [](int64_t k) { return k == 1; });
}

struct Kind {
  LayerGroup group;
  std::vector<int64_t> dims, kernel;
  int64_t weights;
  auto operator<=>(const Kind&) const = default;
};

Kind KindOf(const ForeignLayer& layer) {
  const bool linear = layer.group == LayerGroup::kConv || layer.group == LayerGroup::kMatMul;
  const bool same = linear && layer.weight_count > 0 && IsPointwise(layer);
  return {same ? LayerGroup::kMatMul : layer.group, OutputDims(layer),
          IsPointwise(layer) ? std::vector<int64_t>() : layer.kernel, layer.weight_count};
}

// A name that stays with an operator from file to file. "Conv_34" does not: exporters number all
// nodes of a file through.
bool IsLasting(const std::string& name) {
  // What OpenVINO puts behind the name of a node leaves it what it was.
  constexpr std::string_view kBehind = "/WithoutBiases";
  if (name.ends_with(kBehind)) {
    const std::string node = name.substr(0, name.size() - kBehind.size());
    const size_t number = node.find_last_not_of("0123456789") + 1;
    const bool counted = number > 0 && number < node.size() && node[number - 1] == '_';
    if (counted && node.find_first_of("/.") == std::string::npos) return false;
  }
  if (name.find_first_of("/.") != std::string::npos) return true;
  const size_t digits = name.find_last_not_of("0123456789");
  return digits == name.size() - 1 && name.find_first_of("0123456789") != std::string::npos;
}

// Whether the layer is there for this operator, not for one that is fused into it and may be fused
// into another one elsewhere.
bool IsWorkOf(const ForeignLayer& layer, const std::string& name) {
  const auto linear = [](LayerGroup group) {
    return group == LayerGroup::kConv || group == LayerGroup::kMatMul;
  };
  if (name.ends_with(".weight")) return linear(layer.group);
  const LayerGroup group = GroupOf("", name);
  // A name that says nothing ("conv1/WithoutBiases") is that of the layer's only operator.
  if (group == LayerGroup::kOther && layer.operators.size() == 1) return true;
  return group == layer.group || (linear(group) && linear(layer.group));
}

// The layers by the operators that they are there for, where only one of them is.
std::map<std::string, size_t> ByOperator(const ForeignRun& run, const std::vector<size_t>& layers) {
  std::map<std::string, size_t> found;
  std::set<std::string> twice;
  for (size_t i : layers) {
    for (const std::string& name : run.layers[i].operators) {
      if (!IsLasting(name) || !IsWorkOf(run.layers[i], name)) continue;
      if (!found.emplace(name, i).second) twice.insert(name);
    }
  }
  for (const std::string& name : twice) found.erase(name);
  return found;
}

// Whether each of the layers computes from the one before it.
bool IsChain(const Wiring& wiring, const std::vector<size_t>& layers) {
  for (size_t i = 1; i < layers.size(); ++i) {
    if (!wiring.DependsOn(layers[i], layers[i - 1])) return false;
  }
  return true;
}

// Whether the layers' names are numbered through in the order in which they run: then that is the
// order of the model file, also where a profile names no tensors.
bool IsNumbered(const ForeignRun& run, const std::vector<size_t>& layers) {
  int64_t last = -1;
  for (const size_t i : layers) {
    const ForeignLayer& layer = run.layers[i];
    const bool named_tensors = !layer.inputs.empty() && !layer.inputs[0].name.empty();
    if (!run.in_order || named_tensors || layer.operators.size() != 1) return false;
    const std::string& name = layer.operators[0];
    const size_t digits = name.find_last_not_of("0123456789") + 1;
    if (digits == name.size() || name.size() - digits > 9) return false;
    const int64_t number = std::stoll(name.substr(digits));
    if (number <= last) return false;
    last = number;
  }
  return true;
}

std::vector<size_t> Select(const ForeignRun& run, const LayerFilter& filter) {
  std::vector<size_t> layers;
  for (size_t i = 0; i < run.layers.size(); ++i) {
    if (filter(run.layers[i])) layers.push_back(i);
  }
  return layers;
}

// Layers of one kind, or of one output, and what they may be for one that has no sure counterpart.
struct Group {
  std::vector<size_t> layers;
  Counterpart range;
};
template <typename Key>
std::map<Key, Group> GroupBy(const ForeignRun& run, const std::vector<size_t>& layers,
                             Key (*key)(const ForeignLayer&)) {
  std::map<Key, Group> groups;
  for (size_t i : layers) {
    const ForeignLayer& layer = run.layers[i];
    Group& group = groups[key(layer)];
    Counterpart& range = group.range;
    range.least_ms = range.any ? std::min(range.least_ms, layer.ms) : layer.ms;
    range.most_ms = std::max(range.most_ms, layer.ms);
    range.all_add = range.all_add && layer.has_residual;
    range.any = true;
    group.layers.push_back(i);
  }
  return groups;
}

using Output = std::pair<LayerGroup, std::vector<int64_t>>;
Output OutputOf(const ForeignLayer& layer) { return {layer.group, OutputDims(layer)}; }

}  // namespace

std::vector<Counterpart> PairLayers(const ForeignRun& run, const LayerFilter& in_run,
                                    const ForeignRun& baseline, const LayerFilter& in_baseline) {
  std::vector<Counterpart> pairs(run.layers.size());
  std::vector<size_t> ours = Select(run, in_run), theirs = Select(baseline, in_baseline);
  const auto by_operator = ByOperator(run, ours), their_operators = ByOperator(baseline, theirs);
  std::set<size_t> taken;
  for (const auto& [name, i] : by_operator) {
    const auto it = their_operators.find(name);
    if (it == their_operators.end() || pairs[i].sure || taken.count(it->second)) continue;
    if (KindOf(run.layers[i]) != KindOf(baseline.layers[it->second])) continue;
    pairs[i].sure = it->second;
    taken.insert(it->second);
  }
  std::erase_if(ours, [&](size_t i) { return pairs[i].sure.has_value(); });
  std::erase_if(theirs, [&](size_t i) { return taken.count(i) > 0; });
  const auto kinds = GroupBy<Kind>(run, ours, KindOf),
             their_kinds = GroupBy<Kind>(baseline, theirs, KindOf);
  const auto their_outputs = GroupBy<Output>(baseline, theirs, OutputOf);
  const Wiring wiring(run), their_wiring(baseline);
  for (const auto& [kind, group] : kinds) {
    const auto it = their_kinds.find(kind);
    if (it == their_kinds.end()) {
      for (size_t i : group.layers) {
        if (const auto like = their_outputs.find(OutputOf(run.layers[i]));
            like != their_outputs.end())
          pairs[i] = like->second.range;
      }
      continue;
    }
    const std::vector<size_t>& others = it->second.layers;
    const bool ordered = group.layers.size() == others.size() &&
                         ((IsChain(wiring, group.layers) && IsChain(their_wiring, others)) ||
                          (IsNumbered(run, group.layers) && IsNumbered(baseline, others)));
    for (size_t n = 0; n < group.layers.size(); ++n) {
      Counterpart& pair = pairs[group.layers[n]];
      if (ordered) {
        pair.sure = others[n];
      } else {
        pair = it->second.range;
        pair.same_kind = true;
      }
    }
  }
  return pairs;
}

}  // namespace evoq
