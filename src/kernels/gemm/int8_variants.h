// The ways in which the integer engine may go about one product (KernelDef::variants,
// docs/tuning.md).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/gemm/int8_rows.h"
#include "kernels/gemm/share_out.h"
#include "kernels/kernel.h"

namespace evoq {

// "32 wide", "64 wide rows", "32 wide columns", "64 wide large blocks", "32 wide small tiles"; or
// kInt8Winograd, which is no Int8Variant, nor are the ways of weights in blocks, of which most are
// zero: tiles that skip those, and dense ones.
inline constexpr std::string_view kInt8Skipping = "skipping blocks", kInt8Dense = "dense";
struct Int8Variant {
  int panels = 0;                // of 16 columns in a tile; 0: the kernel's choice
  ShareBy cut = ShareBy::kCost;  // what threads share out
  bool large_blocks = false;     // of rows, beyond the L2 cache: weights are read fewer times
  bool smallest = false;         // Int8Use::smallest
};

// Those worth measuring for a product of this geometry by these packed weights, null for any.
std::vector<std::string> Int8Variants(const Int8Geometry& geometry, const BindOptions& options,
                                      const Tensor* weights = nullptr);

// All defaults for a name that is none of them.
Int8Variant ParseInt8Variant(std::string_view name);

// KernelDef::in_place: the residual, input 3, of which each element is read before that of the
// output is written.
uint32_t Int8InPlace(const KernelCall& call);

}  // namespace evoq
