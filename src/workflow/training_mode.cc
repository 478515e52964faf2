#include "workflow/training_mode.h"

#include "base/printable.h"

namespace evoq {

std::optional<std::string> TrainingModeSentence(const Graph& graph) {
  int count = 0;
  std::string first;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const ValueId mean = node.input(3);
    if (node.op != "BatchNormalization" || !node.domain.empty() || !mean.valid() ||
        !graph.value(mean).producer.valid())
      continue;
    if (count++ == 0) first = node.name;
  }
  if (count == 0) return std::nullopt;
  return FormatPrintable(
      "{} batch normalization{} ({}{}) {} in training mode: a sample's result depends on the "
      "others "
      "of its run, and the trained statistics are not used; export the network in evaluation mode",
      count, count == 1 ? "" : "s", first, count == 1 ? "" : ", ...", count == 1 ? "is" : "are");
}

}  // namespace evoq
