// What a convolution reads and writes besides float32, which it computes in.
#pragma once

#include "kernels/bf16/bf16.h"

namespace evoq {

struct ConvEnds {
  const Bf16Table* bf16 = nullptr;             // x is bfloat16; null: all is float32
  bool y_bf16 = false, residual_bf16 = false;  // where x is

  // Of a call whose x is bfloat16.
  static ConvEnds OfBf16(const KernelCall& call, Isa isa) {
    return {&Bf16TableFor(isa), PlainBf16(call.outputs[0]),
            call.has_input(3) && PlainBf16(call.inputs[3])};
  }
};

}  // namespace evoq
