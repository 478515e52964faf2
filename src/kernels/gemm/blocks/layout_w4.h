// Packed 4-bit weights for integer products by blocks (blocks/product.h).
#pragma once

#include "kernels/layout.h"

namespace evoq {

inline constexpr const char* kK8N16W4 = "k8n16-matmul-w4";
extern const LayoutDef kLayoutK8N16W4;

}  // namespace evoq
