// Why a node stays in floating point, where it could compute on integers: an attribute of the node,
// "code: sentence" (base/reason.h). Docs and the ledger's rules (report/rules.inc) know the codes.
#pragma once

#include "base/reason.h"
#include "tensor/attrs.h"

namespace evoq {

inline constexpr char kFloatReason[] = "evoq.float_reason";
inline constexpr char kNoInt8Kernel[] = "no-int8-kernel";
inline constexpr char kNoBf16Kernel[] = "no-bf16-kernel";
// The file quantizes its data or weights to 16 bits, which no integer kernel multiplies.
inline constexpr char kSixteenBits[] = "sixteen-bits";

// Empty where the attribute is absent.
inline Reason FloatReasonOf(const Attrs& attrs) {
  return Reason::Parse(attrs.String(kFloatReason));
}
inline void SetFloatReason(Attrs& attrs, const Reason& reason) {
  attrs.Set(kFloatReason, reason.ToString());
}

}  // namespace evoq
