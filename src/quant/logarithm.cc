#include "quant/logarithm.h"

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/activation.h"
#include "ops/op.h"
#include "ops/roles.h"

namespace evoq {
namespace {

// What gives small values for small ones, so that their relative error matters behind it too.
constexpr std::string_view kKeepsSmall[] = {"Add", "Clip",      "Max",  "Mean",     "Min",
                                            "Mul", "ReduceMax", "Relu", "ReduceSum"};
constexpr std::string_view kPowers[] = {"Abs", "Pow", "ReduceL1", "ReduceL2", "ReduceSumSquare",
                                        "Sqrt"};

bool IsOneOf(std::span<const std::string_view> names, const std::string& op) {
  return std::ranges::find(names, op) != names.end();
}

bool IsPower(const Node& node) {
  return IsOneOf(kPowers, node.op) || (node.op == "Mul" && node.input(0) == node.input(1));
}

// Where the walk stands: a power was taken on the way, another product was passed.
struct Way {
  bool power = false, product = false;
  auto operator<=>(const Way&) const = default;
};

class Walk {
 public:
  explicit Walk(const Graph& graph) : graph_(graph) {}

  bool From(const Node& node, Way way) {
    const auto activation = ActivationFromAttrs(node.attrs);
    if (node.outputs.size() != 1 || !activation || !IsPiecewiseLinear(activation->kind))
      return false;
    if (!seen_.emplace(node.outputs[0], way).second) return false;
    return std::ranges::any_of(graph_.value(node.outputs[0]).users, [&](NodeId user) {
      return Into(graph_.node(user), node.outputs[0], way);
    });
  }

 private:
  bool Into(const Node& node, ValueId value, Way way) {
    if (node.op == "Log") return true;
    const OpDef* op = FindOp(node);
    if (op == nullptr || !node.input(0).valid()) return false;
    if (IsPower(node)) return From(node, {true, way.product});
    if (IsLinear(node)) {
      const bool filters = node.input(0) == value && node.input(1).valid() &&
                           graph_.value(node.input(1)).is_constant();
      return filters && way.power && !way.product && From(node, {true, true});
    }
    if (op->quant == QuantTrait::kMove || IsOneOf(kKeepsSmall, node.op)) return From(node, way);
    return false;
  }

  const Graph& graph_;
  std::set<std::pair<ValueId, Way>> seen_;
};

}  // namespace

std::optional<Reason> LogarithmReason(const Graph& graph, const Node& node) {
  if (!Walk(graph).From(node, {})) return std::nullopt;
  return Reason{"logarithm",
                "the logarithm of its result is taken: steps of 8 bits would be large errors of "
                "small values"};
}

}  // namespace evoq
