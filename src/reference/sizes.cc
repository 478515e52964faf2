#include "reference/sizes.h"

#include "ops/op.h"
#include "ops/op_rows.h"
#include "reference/definition.h"

namespace evoq {

namespace reference {
#define EVOQ_ROW_TYPE Definition
#define EVOQ_ROW_FILE "reference/sizes.inc"
#include "base/rows.inl.h"
}  // namespace reference

namespace {

const Definition* Find(const Node& node) {
  static const std::vector<const Definition*> sorted = SortedByOp<Definition>(reference::kAllRows);
  return FindByOp<Definition>(sorted, node.op, node.domain);
}

}  // namespace

bool ComputesSizes(const Node& node) { return Find(node) != nullptr; }

Result<std::vector<Tensor>> EvaluateSizes(const Node& node, std::span<const Tensor> inputs,
                                          std::span<const TensorType> output_types) {
  const Definition* definition = Find(node);
  const OpDef* op = FindOp(node);
  if (op == nullptr || definition == nullptr)
    return Unsupported("{}: its reference implementation is only in libevoq", NodeLabel(node));
  return EvaluateBy(*op, *definition, kSizes, node, inputs, output_types);
}

}  // namespace evoq
