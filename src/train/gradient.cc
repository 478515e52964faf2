#include "train/gradient.h"

#include "base/rows.h"

namespace evoq {

#define EVOQ_ROW_TYPE GradientDef
#define EVOQ_ROW_FILE "train/gradients.inc"
#include "base/rows.inl.h"

std::span<const GradientDef* const> AllGradients() { return kAllRows; }

const GradientDef* FindGradient(const Node& node) {
  if (!node.domain.empty()) return nullptr;
  for (const GradientDef* row : kAllRows) {
    if (node.op == row->op) return row;
  }
  return nullptr;
}

}  // namespace evoq
