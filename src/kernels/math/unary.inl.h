// The definitions of math/unary.h as inline code. In an unnamed namespace: see kernels/isa_table.h.
#pragma once

#include "kernels/math/math.inl.h"
#include "kernels/math/sine.inl.h"
#include "kernels/math/unary.h"

namespace evoq {
namespace {

// min(max(x, low), high), in this order. x stays where a comparison fails: a NaN passes, and so
// does -0 beside a bound of 0.
EVOQ_INLINE float ClampInline(float x, float low, float high) {
  const float bounded = low > x ? low : x;
  return high < bounded ? high : bounded;
}

template <UnaryKind kKind>
struct UnaryFn;
#define EVOQ_UNARY(op, definition)                                          \
  template <>                                                               \
  struct UnaryFn<UnaryKind::k##op> {                                        \
    static EVOQ_INLINE float Compute(float x, [[maybe_unused]] float alpha, \
                                     [[maybe_unused]] float beta) {         \
      return definition;                                                    \
    }                                                                       \
  };
EVOQ_UNARY_LIST
#undef EVOQ_UNARY

}  // namespace
}  // namespace evoq
