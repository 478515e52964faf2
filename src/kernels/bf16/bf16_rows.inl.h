#include <cstring>

#include "kernels/bf16/bf16.h"

namespace evoq::EVOQ_ISA {
namespace {

void Widen(const uint16_t* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = static_cast<uint32_t>(x[i]) << 16;
    std::memcpy(y + i, &bits, sizeof(bits));
  }
}

// FloatToBfloat16 of tensor/dtype.h.
void Narrow(const float* x, uint16_t* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    uint32_t bits;
    std::memcpy(&bits, x + i, sizeof(bits));
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1)) >> 16,
                   nan = (bits >> 16) | 0x40u;
    y[i] = static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
  }
}

}  // namespace

extern const Bf16Table kBf16Table = {
    .widen = Widen,
    .narrow = Narrow,
};

}  // namespace evoq::EVOQ_ISA
