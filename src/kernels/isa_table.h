// One table of functions per instruction set, chosen by the Isa that a kernel is bound for.
//
// A family keeps its loops in NAME.inl.h, in plain C++, and compiles them once per instruction set:
// NAME_scalar.cc, NAME_avx2.cc and NAME_avx512.cc define EVOQ_ISA (scalar, avx2, avx512) and
// include it. The .inl.h defines `const Table kTable` in namespace evoq::EVOQ_ISA. Whatever else
// such a file defines or includes as inline code must be in an unnamed namespace: an inline
// function with external linkage could be taken from the AVX-512 file everywhere.
#pragma once

#include "base/isa.h"

// Before a loop whose iteration i touches element i only, so that an output that is the input
// itself (in place) is vectorized too.
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"  // loops with calls into the C library stay scalar
#define EVOQ_ELEMENTWISE _Pragma("clang loop vectorize(assume_safety)")
#else
#define EVOQ_ELEMENTWISE _Pragma("GCC ivdep")
#endif

#if defined(__x86_64__)
// Declares the tables and `const Table& TableFor(Isa)`. Use in namespace evoq.
#define EVOQ_ISA_TABLE(Table)                         \
  namespace scalar {                                  \
  extern const Table k##Table;                        \
  }                                                   \
  namespace avx2 {                                    \
  extern const Table k##Table;                        \
  }                                                   \
  namespace avx512 {                                  \
  extern const Table k##Table;                        \
  }                                                   \
  inline const Table& Table##For(Isa isa) {           \
    if (isa == Isa::kAvx512) return avx512::k##Table; \
    if (isa == Isa::kAvx2) return avx2::k##Table;     \
    return scalar::k##Table;                          \
  }
#else
#define EVOQ_ISA_TABLE(Table)  \
  namespace scalar {           \
  extern const Table k##Table; \
  }                            \
  inline const Table& Table##For(Isa) { return scalar::k##Table; }
#endif
