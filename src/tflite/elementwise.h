// Operators that compute element by element, on planar values where the operands are planar.
#pragma once

#include "tflite/translator.h"

namespace evoq::tflite {

// Calls make(operands), which gives the real output 0, and sets it.
template <typename Make>
Status SetElementwise(Translator& to, const Make& make) {
  const bool planar = to.output(0).rank() == 4 && to.AllPlanar();
  std::vector<ValueId> operands;
  for (size_t i = 0; i < to.inputs(); ++i)
    operands.push_back(planar ? to.PlanarOperand(i) : to.Real(i));
  EVOQ_ASSIGN(const ValueId y, make(operands));
  return planar ? to.SetPlanar(0, y) : to.Set(0, y);
}

inline Status SetApplied(Translator& to, const char* op, Attrs attrs = {}) {
  return SetElementwise(to, [&](const std::vector<ValueId>& operands) -> Result<ValueId> {
    return to.Apply(op, operands, attrs);
  });
}

}  // namespace evoq::tflite
