#include "workflow/left_float.h"

#include <map>
#include <set>

#include "base/printable.h"
#include "base/text.h"

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

}  // namespace evoq
