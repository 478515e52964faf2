// Kernel families: one table of functions per set of features, chosen by the Isa that a kernel is
// bound for.
//
// A family keeps its loops in NAME.inl.h, in plain C++, and compiles them once per instruction set:
// NAME_scalar.cc, NAME_avx2.cc and NAME_avx512.cc define EVOQ_ISA (scalar, avx2, avx512) and
// include it. The .inl.h defines `const Table kTable` in namespace evoq::EVOQ_ISA. Whatever else
// such a file defines or includes as inline code must be in an unnamed namespace: an inline
// function with external linkage could be taken from the AVX-512 file everywhere.
#pragma once

#include <cstddef>

#include "base/isa.h"

// Before a loop whose iteration i touches element i only, so that an output that is the input
// itself (in place) is vectorized too.
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"  // loops with calls into the C library stay scalar
#define EVOQ_ELEMENTWISE _Pragma("clang loop vectorize(assume_safety)")
#else
#define EVOQ_ELEMENTWISE _Pragma("GCC ivdep")
#endif

namespace evoq {

// One table of a kernel family: what serves a machine that has `needs`.
template <typename Table>
struct IsaRow {
  Isa needs;
  const Table* table;  // nullptr: the family leaves such machines to another one
};

// Never a function of its own: see above.
#define EVOQ_ALWAYS_INLINE __attribute__((always_inline)) inline

// The first row whose needs `isa` has. Rows: better ones first; the last one needs nothing.
template <typename Table, size_t kCount>
EVOQ_ALWAYS_INLINE constexpr const IsaRow<Table>& RowFor(const IsaRow<Table> (&rows)[kCount],
                                                         Isa isa) {
  size_t i = 0;
  while (i + 1 < kCount && !isa.Has(rows[i].needs)) ++i;
  return rows[i];
}

}  // namespace evoq

// Declares a family of three tables: its rows `Table##Rows` and `const Table& Table##For(Isa)`. Use
// in namespace evoq. A family with other rows declares them itself. kernels/families_test.cc lists
// every family.
#if defined(__x86_64__)
#define EVOQ_ISA_TABLE(Table)                               \
  namespace scalar {                                        \
  extern const Table k##Table;                              \
  }                                                         \
  namespace avx2 {                                          \
  extern const Table k##Table;                              \
  }                                                         \
  namespace avx512 {                                        \
  extern const Table k##Table;                              \
  }                                                         \
  inline constexpr IsaRow<Table> Table##Rows[] = {          \
      {.needs = Isa::kAvx512, .table = &avx512::k##Table},  \
      {.needs = Isa::kAvx2, .table = &avx2::k##Table},      \
      {.needs = Isa::kScalar, .table = &scalar::k##Table}}; \
  EVOQ_ISA_CHOICE(Table)
#else
#define EVOQ_ISA_TABLE(Table)                               \
  namespace scalar {                                        \
  extern const Table k##Table;                              \
  }                                                         \
  inline constexpr IsaRow<Table> Table##Rows[] = {          \
      {.needs = Isa::kScalar, .table = &scalar::k##Table}}; \
  EVOQ_ISA_CHOICE(Table)
#endif
#define EVOQ_ISA_CHOICE(Table) \
  EVOQ_ALWAYS_INLINE const Table& Table##For(Isa isa) { return *RowFor(Table##Rows, isa).table; }
