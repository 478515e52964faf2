#include "quant/equalize.h"

#include <algorithm>
#include <cmath>

#include "kernels/activation.h"
#include "quant/plan.h"

namespace evoq {
namespace {

constexpr float kMargin = 1.25f;
constexpr float kWorthwhile = 1.05f;  // a largest factor below this changes nothing

bool IsScalable(const Graph& graph, const Node& node) {
  return IsLinear(node) && !LinearFormOf(node)->outputs_by_group &&
         !HasComputedOperand(graph, node);
}

class Equalizer {
 public:
  Equalizer(Graph& graph, const std::set<NodeId>& integer, Ranges& ranges)
      : graph_(graph), integer_(integer), ranges_(ranges) {}

  int Run() {
    int count = 0;
    const std::vector<NodeId> nodes = graph_.order();
    for (NodeId id : nodes) count += Equalize(id);
    return count;
  }

 private:
  bool Equalize(NodeId producer) {
    const Node& node = graph_.node(producer);
    if (!integer_.count(producer) || !IsScalable(graph_, node) || node.input(3).valid())
      return false;
    const ValueId v = node.outputs[0];
    auto range = ranges_.find(graph_.value(v).name);
    if (!IsHomogeneous(node) || graph_.IsOutput(v) || range == ranges_.end() ||
        !(range->second.min >= 0))
      return false;
    Range& r = range->second;
    const WeightIndex view(node, graph_.ConstantInput(node, 1)->sizes());
    if (static_cast<int64_t>(r.channel_max.size()) != view.outputs() ||
        r.channel_means.size() != r.channel_max.size())
      return false;
    std::vector<float> factors(view.outputs());
    for (size_t c = 0; c < factors.size(); ++c)
      factors[c] = std::max(1.0f, r.max / (kMargin * std::max(r.channel_max[c], r.max * 1e-3f)));
    for (NodeId user : graph_.value(v).users) {
      if (!ReadsOnlyAsInput(user, v)) return false;
      LimitByReader(user, r, factors);
    }
    if (graph_.value(v).users.empty() ||
        *std::max_element(factors.begin(), factors.end()) < kWorthwhile)
      return false;
    const std::vector<NodeId> users = graph_.value(v).users;
    ScaleWeight(producer, [&](const WeightIndex& w, int64_t i) { return factors[w.OutputOf(i)]; });
    ScaleBias(producer, factors);
    for (NodeId user : users)
      ScaleWeight(user, [&](const WeightIndex& w, int64_t i) { return 1 / factors[w.InputOf(i)]; });
    for (size_t c = 0; c < factors.size(); ++c) {
      r.channel_means[c] *= factors[c];
      r.channel_max[c] *= factors[c];
    }
    return true;
  }

  // activation(t v) = t activation(v) for t >= 1 and v up to the range's end, where integers
  // saturate anyway.
  static bool IsHomogeneous(const Node& node) {
    const Activation a =
        ActivationFromAttrs(node.attrs).value_or(Activation{ActivationKind::kTanh});
    return a.kind == ActivationKind::kNone || a.kind == ActivationKind::kRelu ||
           (a.kind == ActivationKind::kClip && a.alpha == 0);
  }

  bool ReadsOnlyAsInput(NodeId user, ValueId v) const {
    const Node& node = graph_.node(user);
    if (!integer_.count(user) || !IsScalable(graph_, node) || node.input(3) == v) return false;
    const WeightIndex w(node, graph_.ConstantInput(node, 1)->sizes());
    return w.inputs() * w.groups() ==
           static_cast<int64_t>(ranges_.at(graph_.value(v).name).channel_max.size());
  }

  void LimitByReader(NodeId user, const Range& r, std::vector<float>& factors) const {
    const Node& node = graph_.node(user);
    const Tensor& weight = *graph_.ConstantInput(node, 1);
    const WeightIndex view(node, weight.sizes());
    if (view.inputs() == 1 && view.groups() > 1) return;
    std::vector<double> squares(factors.size()), largest(view.outputs());
    const auto w = weight.values<float>();
    for (size_t i = 0; i < w.size(); ++i) {
      squares[view.InputOf(i)] += static_cast<double>(w[i]) * w[i];
      largest[view.OutputOf(i)] = std::max<double>(largest[view.OutputOf(i)], std::fabs(w[i]));
    }
    double scale = 0;  // of the weights, over the outputs
    for (double m : largest) scale += m / 127 / view.outputs();
    const double readers = static_cast<double>(view.outputs() / view.groups()) * view.taps();
    for (size_t c = 0; c < factors.size(); ++c) {
      const double size =
          std::sqrt(std::max(0.0f, r.channel_means[c]) * static_cast<double>(r.channel_max[c]));
      if (size == 0 || scale == 0) continue;
      const double wish =
          std::sqrt(r.max / 255.0 * std::sqrt(squares[c] / readers) / (scale * size));
      factors[c] = std::max(1.0f, std::min(factors[c], static_cast<float>(wish)));
    }
  }

  template <typename Factor>
  void ScaleWeight(NodeId id, const Factor& factor) {
    const Node& node = graph_.node(id);
    const ValueId old = node.input(1);
    Tensor scaled = graph_.value(old).constant.Clone();
    const WeightIndex view(node, scaled.sizes());
    for (int64_t i = 0; i < scaled.elements(); ++i)
      scaled.mutable_data<float>()[i] *= factor(view, i);
    graph_.SetInput(id, 1, graph_.AddConstant(graph_.value(old).name + ".equalized", scaled));
  }

  void ScaleBias(NodeId id, const std::vector<float>& factors) {
    const ValueId old = graph_.node(id).input(2);
    if (!old.valid()) return;
    Tensor scaled = graph_.value(old).constant.Clone();
    for (int64_t c = 0; c < scaled.elements(); ++c) scaled.mutable_data<float>()[c] *= factors[c];
    graph_.SetInput(id, 2, graph_.AddConstant(graph_.value(old).name + ".equalized", scaled));
  }

  Graph& graph_;
  const std::set<NodeId>& integer_;
  Ranges& ranges_;
};

}  // namespace

int EqualizeChannels(Graph& graph, const std::set<NodeId>& integer, Ranges& ranges) {
  return Equalizer(graph, integer, ranges).Run();
}

}  // namespace evoq
