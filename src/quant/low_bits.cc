#include "quant/low_bits.h"

#include "base/rows.h"

namespace evoq {

#define EVOQ_ROW_TYPE LowBits
#define EVOQ_ROW_FILE "quant/low_bits.inc"
#include "base/rows.inl.h"

std::span<const LowBits* const> AllLowBits() { return kAllRows; }

}  // namespace evoq
