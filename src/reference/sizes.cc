#include "reference/sizes.h"

#include "ops/op.h"
#include "reference/definition.h"

namespace evoq {

namespace reference {
#define EVOQ_ROW_TYPE Definition
#define EVOQ_ROW_FILE "reference/sizes.inc"
#include "base/rows.inl.h"
}  // namespace reference

namespace {

const Definition* Find(const Node& node) {
  static const std::vector<const Definition*> sorted = SortedDefinitions(reference::kAllRows);
  return FindDefinition(sorted, node);
}

}  // namespace

bool ComputesSizes(const Node& node) { return Find(node) != nullptr; }

Result<std::vector<Tensor>> EvaluateSizes(const Node& node, std::span<const Tensor> inputs,
                                          std::span<const TensorType> output_types) {
  const Definition* definition = Find(node);
  if (definition == nullptr)
    return Unsupported("{}: its definition is only in the whole libevoq", NodeLabel(node));
  return EvaluateBy(*definition, kSizes, node, inputs, output_types);
}

}  // namespace evoq
