// Packed int8 weights, shared by all instruction sets: panels of 16 output channels, groups of 4
// input channels.
#pragma once

#include "kernels/layout.h"

namespace evoq {

// The dimensions of a packed weight. A Conv weight [M, C/group, k...] has taps = product(k); a
// MatMul weight [K, N] one. All output channels follow one another, whatever the group: the group
// of a panel's columns is the kernel's business.
struct K4N16 {
  int64_t columns = 0;   // output channels
  int64_t channels = 0;  // input channels per tap
  int64_t taps = 0;
  int64_t panels = 0;       // ceil(columns / 16)
  int64_t groups_of_4 = 0;  // per tap: ceil(channels / 4)
  int64_t panel_bytes = 0;  // 64 * taps * groups_of_4
};

inline constexpr const char* kK4N16Conv = "k4n16-conv";
inline constexpr const char* kK4N16MatMul = "k4n16-matmul";

// Errors: kInvalidInput unless 8-bit and [M, C, k...] or [K, N], with a size that fits.
Result<K4N16> K4N16OfConv(const TensorType& type);
Result<K4N16> K4N16OfMatMul(const TensorType& type);

extern const LayoutDef kLayoutK4N16Conv;
extern const LayoutDef kLayoutK4N16MatMul;

}  // namespace evoq
