// Which variants of a kernel are compiled. Where a kernel is instantiated for many sizes, a general
// one stands beside them; builds with a sanitizer (EVOQ_FEW_VARIANTS) take few sizes and leave the
// rest to the general one: their checks make each unrolled body many times as long to compile, and
// one body of each kind is enough to see a fault in all.
#pragma once

#include <cstdint>

namespace evoq {

#ifdef EVOQ_FEW_VARIANTS
inline constexpr bool kFewVariants = true;
#else
inline constexpr bool kFewVariants = false;
#endif

// Whether depthwise kernels of k x k have code of their own.
constexpr bool HasDepthwiseVariant(int64_t k) {
  return k == 3 || (!kFewVariants && (k == 5 || k == 7));
}

}  // namespace evoq
