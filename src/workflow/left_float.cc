#include "workflow/left_float.h"

#include <map>
#include <set>

#include "base/printable.h"
#include "base/text.h"
#include "ops/roles.h"
#include "quant/low_bits.h"

namespace evoq {
namespace {

constexpr int64_t kWorthAWord = 64 << 10;  // bytes: files of less are small whatever their weights

// Bytes of float32 constants by the node that reads them, each constant once; not of nodes that
// the user excluded.
void Collect(const Graph& graph, const Reasons& reasons, std::map<std::string, int64_t>& bytes) {
  std::set<int> seen;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const auto why = reasons.find(node.name);
    if (why != reasons.end() && why->second.code == "excluded") continue;
    for (ValueId v : node.inputs) {
      if (!v.valid() || !graph.value(v).is_constant() || !seen.insert(v.index).second) continue;
      const TensorType& type = graph.value(v).type;
      if (type.dtype == DType::kFloat32 && !type.quantized())
        bytes[fmt::format("{} ({})", node.name, node.op)] += 4 * type.shape.elements().value_or(0);
    }
    for (const auto& body : node.bodies) Collect(*body, reasons, bytes);
  }
}

}  // namespace

std::optional<std::string> LeftFloatWarning(const Graph& quantized, int64_t float_bytes,
                                            const Reasons& reasons) {
  std::map<std::string, int64_t> bytes;
  Collect(quantized, reasons, bytes);
  int64_t all = 0;
  const std::pair<const std::string, int64_t>* most = nullptr;
  for (const auto& entry : bytes) {
    all += entry.second;
    if (most == nullptr || entry.second > most->second) most = &entry;
  }
  if (all < kWorthAWord || 2 * all <= float_bytes) return std::nullopt;
  const auto why = reasons.find(most->first.substr(0, most->first.rfind(" (")));
  return FormatPrintable("{} of {} of weights stay float32, {} of them those of {}{}",
                         HumanBytes(all), HumanBytes(float_bytes), HumanBytes(most->second),
                         most->first, why == reasons.end() ? "" : ": " + why->second.ToString());
}

std::map<std::string, TensorType> FewBitsOf(const Graph& graph) {
  std::map<std::string, TensorType> types;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!IsLinear(node) || !node.input(1).valid()) continue;
    const Value& weight = graph.value(node.input(1));
    if (weight.is_constant() && weight.type.quantized() && weight.type.quant->block > 0)
      types.emplace(weight.name, weight.type);
  }
  return types;
}

std::optional<std::string> KeptWarning(const Graph& quantized, const QuantScheme& scheme,
                                       const std::map<std::string, TensorType>& before) {
  if (scheme.precision == Precision::kFloat32) return std::nullopt;
  const DType wanted = scheme.low_bits != nullptr             ? scheme.low_bits->dtype
                       : scheme.precision == Precision::kBf16 ? DType::kBfloat16
                                                              : DType::kInt8;
  std::map<std::string, int> kept;
  for (const auto& [name, type] : FewBitsOf(quantized)) {
    const auto was = before.find(name);
    const bool same_bits =
        DTypeBits(type.dtype) == DTypeBits(wanted) && IsFloat(type.dtype) == IsFloat(wanted);
    if (was != before.end() && was->second == type && !same_bits) ++kept[DTypeName(type.dtype)];
  }
  if (kept.empty()) return std::nullopt;
  std::string counts;
  for (const auto& [type, count] : kept)
    counts += fmt::format("{}{} in {}", counts.empty() ? "" : ", ", count, type);
  return fmt::format(
      "--scheme {} is about weights in float: those that the model's file has in blocks stay as "
      "they are ({})",
      scheme.name, counts);
}

std::string FloatReasonsText(const Reasons& reasons) {
  std::map<std::string, std::vector<std::string>> nodes;
  for (const auto& [node, reason] : reasons) nodes[reason.ToString()].push_back(node);
  std::vector<std::pair<std::string, std::vector<std::string>>> groups(nodes.begin(), nodes.end());
  std::sort(groups.begin(), groups.end(),
            [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  std::string text;
  for (const auto& [reason, names] : groups) {
    const std::span<const std::string> first(names.data(), std::min<size_t>(names.size(), 3));
    text += FormatPrintable("  float: {:3} ({}{}): {}\n", names.size(), Joined(first, ", "),
                            names.size() > 3 ? ", ..." : "", reason);
  }
  return text;
}

}  // namespace evoq
