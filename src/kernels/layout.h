// Packed weight layouts. A layout is a pure function of the plain tensor, equal on every machine,
// so that a file packed here runs there; kernels of all instruction sets read the same bytes.
#pragma once

#include <span>
#include <string_view>

#include "tensor/tensor.h"

namespace evoq {

struct LayoutScales {
  int64_t scales = 0, zero_points = 0;  // bytes
};

struct LayoutDef {
  const char* name;
  const char* formula;  // index formula for the documentation
  // Bytes of a packed tensor of this type. Errors: kInvalidInput when the type cannot have this
  // layout.
  Result<int64_t> (*bytes)(const TensorType& type);
  // Plain row-major -> packed, and back. `plain`'s type is kept.
  Result<Tensor> (*pack)(const Tensor& plain);
  Result<Tensor> (*unpack)(const Tensor& packed);
  // What of the bytes of a packed tensor may be wrong, where something may: its type and number of
  // bytes were checked. Errors: kInvalidInput.
  Status (*check)(const Tensor& packed) = nullptr;
  // Where scales and zero points that are not one for all lie among the bytes
  // (QuantParams::inside): how many bytes, of a type and this layout. `pack` takes a type that
  // lists them and gives one that does not, `unpack` the reverse. Null: they never lie there.
  LayoutScales (*scale_bytes)(const TensorType& type, std::string_view layout) = nullptr;

  bool holds_scales() const { return scale_bytes != nullptr; }
};

std::span<const LayoutDef* const> AllLayouts();
// nullptr when there is none of that name.
const LayoutDef* FindLayout(std::string_view name);

// `tensor` in plain row-major, unpacking it where needed.
Result<Tensor> ToPlain(const Tensor& tensor);

}  // namespace evoq
