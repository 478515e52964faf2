// Packed weights of fewer than 8 bits for integer products by blocks (blocks/product.h).
#pragma once

#include "kernels/layout.h"

namespace evoq {

inline constexpr const char* kK8N16W4 = "k8n16-matmul-w4";
inline constexpr const char* kK16N16W2 = "k16n16-matmul-w2";
extern const LayoutDef kLayoutK8N16W4;
extern const LayoutDef kLayoutK16N16W2;

}  // namespace evoq
