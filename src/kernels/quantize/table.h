// The table of a linear operator (input 4): y = table[q], where q is the operator's result
// quantized to uint8 with the parameters of the table's type. Kernels compute q and send the bytes
// through the table while they are in the cache.
#pragma once

#include <optional>

#include "kernels/call_util.h"

namespace evoq {

inline constexpr size_t kTableInput = 4;

// uint8[256], quantized with one scale, a plain constant, and an output in uint8. Passes when there
// is no table.
inline std::optional<Reason> RejectTable(const KernelCall& call) {
  if (!call.has_input(kTableInput)) return std::nullopt;
  const TensorType& table = call.inputs[kTableInput];
  if (!QuantizedU8(table) || table.shape.elements() != 256) {
    return Reject("types", "table is {}, expected uint8[256] with one scale", table.ToString());
  }
  if (call.constant(kTableInput) == nullptr || !call.constant(kTableInput)->layout().empty()) {
    return Reject("not-constant", "table is not a plain constant");
  }
  if (!QuantizedU8(call.outputs[0])) {
    return Reject("types", "output is {} behind a table, expected uint8 with one scale",
                  call.outputs[0].ToString());
  }
  return std::nullopt;
}

// A call that passed RejectTable as it is before its table: with q's type as output.
struct CallBeforeTable {
  explicit CallBeforeTable(const KernelCall& call)
      : output(call.outputs[0]),
        call{call.op, call.attrs, call.inputs, {&output, 1}, call.constants} {
    if (!call.has_input(kTableInput)) return;
    output.quant = call.inputs[kTableInput].quant;
    const auto* entries = call.constant(kTableInput)->data<uint8_t>();
    table.assign(entries, entries + 256);
  }
  CallBeforeTable(const CallBeforeTable&) = delete;
  CallBeforeTable& operator=(const CallBeforeTable&) = delete;

  TensorType output;
  KernelCall call;
  std::vector<uint8_t> table;  // empty: none
};

}  // namespace evoq
