#include "kernels/gemm/curves_f32.h"

namespace evoq {

CurveF32 CurveForF32(const Activation& activation, Isa isa) {
  const CurveTable& table = CurveTableFor(isa);
  switch (activation.kind) {
    case ActivationKind::kHardSwish: return table.hard_swish;
    case ActivationKind::kSilu: return table.silu;
    case ActivationKind::kSigmoid: return table.sigmoid;
    case ActivationKind::kTanh: return table.tanh;
    case ActivationKind::kGelu: return table.gelu;
    default: return nullptr;
  }
}

}  // namespace evoq
