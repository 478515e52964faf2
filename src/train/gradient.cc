#include "train/gradient.h"

#include "base/rows.h"
#include "train/simulation.h"

namespace evoq {

#define EVOQ_ROW_TYPE GradientDef
#define EVOQ_ROW_FILE "train/gradients.inc"
#include "base/rows.inl.h"

std::span<const GradientDef* const> AllGradients() { return kAllRows; }

const GradientDef* FindGradient(const Node& node) {
  const bool simulated = node.domain == kSimulationDomain;
  for (const GradientDef* row : simulated ? AllSimulations() : AllGradients()) {
    if (node.op == row->op && (simulated || node.domain == row->domain)) return row;
  }
  return nullptr;
}

}  // namespace evoq
