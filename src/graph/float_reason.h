// Why a node stays in floating point, where it could compute on integers: an attribute of the node,
// "code: sentence". Docs and the ledger's rules (report/rules.inc) know the codes.
#pragma once

namespace evoq {

inline constexpr char kFloatReason[] = "evoq.float_reason";
inline constexpr char kNoInt8Kernel[] = "no-int8-kernel";

}  // namespace evoq
