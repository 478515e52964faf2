#include "kernels/elementwise/logic.h"

namespace evoq::EVOQ_ISA {
namespace {

template <LogicKind kKind>
struct LogicFn;
#define EVOQ_LOGIC(op, definition)            \
  template <>                                 \
  struct LogicFn<LogicKind::k##op> {          \
    template <typename T>                     \
    static inline uint8_t Compute(T a, T b) { \
      return definition;                      \
    }                                         \
  };
EVOQ_LOGIC_LIST
#undef EVOQ_LOGIC

template <LogicKind kKind, typename T>
void CompareRow(const T* a, const T* b, uint8_t* y, int64_t n, int64_t a_step, int64_t b_step) {
  using F = LogicFn<kKind>;
  if (a_step != 0 && b_step != 0) {
    for (int64_t i = 0; i < n; ++i) y[i] = F::Compute(a[i], b[i]);
  } else if (a_step != 0) {
    const T one = *b;
    for (int64_t i = 0; i < n; ++i) y[i] = F::Compute(a[i], one);
  } else {
    const T one = *a;
    for (int64_t i = 0; i < n; ++i) y[i] = F::Compute(one, b[i * b_step]);
  }
}

template <typename T>
void CompareAs(LogicKind kind, const void* a, const void* b, uint8_t* y, int64_t n, int64_t a_step,
               int64_t b_step) {
  switch (kind) {
#define EVOQ_LOGIC(op, definition)                                                                \
  case LogicKind::k##op:                                                                          \
    return CompareRow<LogicKind::k##op>(static_cast<const T*>(a), static_cast<const T*>(b), y, n, \
                                        a_step, b_step);
    EVOQ_LOGIC_LIST
#undef EVOQ_LOGIC
  }
}

void Compare(LogicKind kind, LogicElement element, const void* a, const void* b, uint8_t* y,
             int64_t n, int64_t a_step, int64_t b_step) {
  switch (element) {
    case LogicElement::kUint8: return CompareAs<uint8_t>(kind, a, b, y, n, a_step, b_step);
    case LogicElement::kInt8: return CompareAs<int8_t>(kind, a, b, y, n, a_step, b_step);
    case LogicElement::kInt32: return CompareAs<int32_t>(kind, a, b, y, n, a_step, b_step);
    case LogicElement::kInt64: return CompareAs<int64_t>(kind, a, b, y, n, a_step, b_step);
    case LogicElement::kFloat32: return CompareAs<float>(kind, a, b, y, n, a_step, b_step);
  }
}

template <typename T>
void SelectRow(const uint8_t* c, const void* x, const void* z, void* out, int64_t n, int64_t c_step,
               int64_t a_step, int64_t b_step) {
  const auto *a = static_cast<const T*>(x), *b = static_cast<const T*>(z);
  auto* y = static_cast<T*>(out);
  if (c_step == 0) {
    const T* from = *c != 0 ? a : b;
    const int64_t step = *c != 0 ? a_step : b_step;
    for (int64_t i = 0; i < n; ++i) y[i] = from[i * step];
  } else if (a_step != 0 && b_step != 0) {
    for (int64_t i = 0; i < n; ++i) {
      const T p = a[i], q = b[i];
      y[i] = c[i] != 0 ? p : q;
    }
  } else if (a_step != 0) {
    const T q = *b;
    for (int64_t i = 0; i < n; ++i) {
      const T p = a[i];
      y[i] = c[i] != 0 ? p : q;
    }
  } else {
    const T p = *a;
    for (int64_t i = 0; i < n; ++i) {
      const T q = b[i * b_step];
      y[i] = c[i] != 0 ? p : q;
    }
  }
}

void Select(int size, const uint8_t* c, const void* a, const void* b, void* y, int64_t n,
            int64_t c_step, int64_t a_step, int64_t b_step) {
  switch (size) {
    case 1: return SelectRow<uint8_t>(c, a, b, y, n, c_step, a_step, b_step);
    case 2: return SelectRow<uint16_t>(c, a, b, y, n, c_step, a_step, b_step);
    case 4: return SelectRow<uint32_t>(c, a, b, y, n, c_step, a_step, b_step);
    default: return SelectRow<uint64_t>(c, a, b, y, n, c_step, a_step, b_step);
  }
}

}  // namespace

extern const LogicTable kLogicTable = {
    .compare = Compare,
    .select = Select,
};

}  // namespace evoq::EVOQ_ISA
