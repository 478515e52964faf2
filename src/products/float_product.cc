#include "products/float_product.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/math.h"
#include "kernels/gemm/gemm_bf16.h"
#include "kernels/gemm/gemm_float.h"
#include "kernels/gemm/pack_bf16.h"
#include "kernels/gemm/pack_f32.h"
#include "kernels/move/move.h"
#include "products/copy_rows.h"

namespace evoq {
namespace {

// What follows works on units along K (gemm_float.h): a float32, or a pair of bfloat16.
constexpr int64_t kUnitBytes = 4;

template <typename T>
constexpr int64_t kPerUnit = kUnitBytes / sizeof(T);

template <typename T>
int64_t Units(int64_t k) {
  return CeilDiv(k, kPerUnit<T>);
}
template <typename T>
int64_t PanelUnits(int64_t k) {
  return Units<T>(k) * kPanelF32;
}
int64_t Panels(int64_t n) { return CeilDiv(n, int64_t{kPanelF32}); }

// One panel of b, from `column` on.
void PackPanel(const Strided<float>& b, int64_t k, int64_t n, int64_t column, Isa isa, float* to) {
  const float* const from = b.data + column * b.column_stride;
  if (b.row_stride == 1 && n - column >= kPanelF32)
    return MoveTableFor(isa).transpose(from, to, kPanelF32, k, b.column_stride, kPanelF32,
                                       sizeof(float));
  const PanelShapeF32 shape = {
      std::min<int64_t>(n - column, kPanelF32), 1, k, b.column_stride, 0, b.row_stride};
  PackPanelsF32(shape, from, 0, 1, to);
}
void PackPanel(const Strided<uint16_t>& b, int64_t k, int64_t n, int64_t column, Isa isa,
               float* to) {
  const uint16_t* const from = b.data + column * b.column_stride;
  const int64_t count = std::min<int64_t>(n - column, kPanelF32);
  if (b.column_stride == 1)
    return PackPairsOfMatrix(PairLayoutFor(isa), from, b.row_stride, k, count, 0, 1, to);
  for (int64_t c = 0; c < kPanelF32; ++c) {
    for (int64_t l = 0; l < k; l += 2) {
      uint16_t pair[2] = {};
      const auto bytes = static_cast<size_t>(std::min<int64_t>(k - l, 2)) * sizeof(uint16_t);
      if (c < count) std::memcpy(pair, from + c * b.column_stride + l, bytes);
      std::memcpy(to + l / 2 * kPanelF32 + c, pair, sizeof(pair));
    }
  }
}

// The columns of b from `first` on.
template <typename T>
void PackPanels(const Strided<T>& b, int64_t k, int64_t n, int64_t first, Isa isa, ThreadPool& pool,
                float* to) {
  const int64_t units = PanelUnits<T>(k);
  pool.ParallelFor(Panels(n - first), PackGrain(units), [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p)
      PackPanel(b, k, n, first + p * kPanelF32, isa, to + p * units);
  });
}

template <typename T>
class Product {
 public:
  Product(const FloatProduct<T>& product, Isa isa, Workspace& workspace)
      : p_(product), isa_(isa), workspace_(workspace), units_(Units<T>(p_.k)) {}

  // Whatever may throw comes before the first element of c.
  void Run() {
    const bool packs = p_.packed == nullptr, copies_a = CopiesA();
    const bool in_place =
        packs && kPerUnit<T> == 1 && p_.m <= kInPlaceRows && p_.b.column_stride == 1;
    const int64_t whole = in_place ? p_.n / kPanelF32 * kPanelF32 : 0;  // columns read as they are
    const bool apart = p_.alpha != 1 ? p_.beta != 0 : p_.beta != 0 && p_.beta != 1;
    const int64_t a_units = copies_a ? RoundUp(p_.m * units_, kPanelF32) : 0;
    const int64_t b_units = packs ? Panels(p_.n - whole) * PanelUnits<T>(p_.k) : 0;
    const int64_t sums = apart ? p_.m * p_.n : 0;
    auto* const scratch =
        reinterpret_cast<float*>(workspace_.Scratch((a_units + b_units + sums) * kUnitBytes));
    const float* panels =
        packs ? scratch + a_units : reinterpret_cast<const float*>(p_.packed->panels.data());
    y_ = apart ? scratch + a_units + b_units : p_.c;
    y_stride_ = apart ? p_.n : p_.c_stride;
    accumulate_ = p_.alpha == 1 && p_.beta == 1;
    DenseRowsF32 rows = {reinterpret_cast<const float*>(p_.a.data), p_.a.row_stride / kPerUnit<T>,
                         y_stride_, kPanelF32};
    if (copies_a) {
      CopyA(scratch);
      rows.a = scratch;
      rows.a_stride = units_;
    }
    const Columns read = InPlace(rows, whole);
    const Columns packed = Planned(rows, panels, PanelUnits<T>(p_.k), whole, p_.n);
    if (packs) PackPanels(p_.b, p_.k, p_.n, whole, isa_, workspace_.pool, scratch + a_units);
    Compute(read);
    Compute(packed);
    if (apart || p_.alpha != 1) Scale();
  }

 private:
  // Columns [begin, end) of c.
  struct Columns {
    DenseRowsF32 rows;
    const float* b;
    int64_t begin, end;
    GemmPlan plan;
  };

  Columns Planned(const DenseRowsF32& rows, const float* b, int64_t panel_stride, int64_t begin,
                  int64_t end) const {
    if (begin == end) return {};
    GemmSizes sizes;
    sizes.rows = p_.m;
    sizes.columns = end - begin;
    sizes.taps = 1;
    sizes.depth = units_;
    sizes.panel_stride = panel_stride;
    sizes.row_bytes = rows.a_stride * kUnitBytes;
    const GemmTypes types = kPerUnit<T> == 2 ? GemmTypesBf16(isa_) : GemmTypesF32(isa_);
    GemmPlan plan =
        PlanGemm(sizes, types, Activation{}, BindOptions{isa_, workspace_.pool.threads(), {}});
    return {rows, b, begin, end, std::move(plan)};
  }

  // Of a b that is read as it is.
  Columns InPlace(DenseRowsF32 rows, int64_t whole) const {
    rows.b_step = p_.b.row_stride;
    Columns columns = Planned(rows, reinterpret_cast<const float*>(p_.b.data), kPanelF32, 0, whole);
    columns.plan.b_step = rows.b_step;
    columns.plan.k_stride = 0;
    return columns;
  }

  void Compute(const Columns& columns) {
    if (columns.begin == columns.end) return;
    float* const y = y_ + columns.begin;
    const GemmJob job = {.source = &columns.rows,
                         .fill = DenseRowsF32::Fill,
                         .b = columns.b,
                         .column_begin = 0,
                         .column_end = columns.end - columns.begin,
                         .y = y,
                         .bias = nullptr,
                         .residual = accumulate_ ? y : nullptr};
    const GemmPlan& plan = columns.plan;
    workspace_.pool.ParallelFor(plan.tasks(), plan.grain, [&](int64_t first, int64_t last) {
      for (int64_t task = first; task < last; ++task) RunGemmTask(plan, job, task);
    });
  }

  // Rows are read as units one behind the other.
  bool CopiesA() const {
    if (p_.a.column_stride != 1) return true;
    return kPerUnit<T> > 1 && (p_.k % kPerUnit<T> != 0 || p_.a.row_stride % kPerUnit<T> != 0 ||
                               reinterpret_cast<uintptr_t>(p_.a.data) % kUnitBytes != 0);
  }

  void CopyA(float* to) {
    CopyRows(p_.a, p_.m, p_.k, units_ * kPerUnit<T>, isa_, workspace_.pool,
             reinterpret_cast<T*>(to), [](T*, int64_t) {});
  }

  // c = alpha y [+ beta c]
  void Scale() {
    workspace_.pool.ParallelFor(p_.m, PackGrain(p_.n), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        float* const c = p_.c + i * p_.c_stride;
        const float* const y = y_ + i * y_stride_;
        if (p_.beta == 0) {
          for (int64_t j = 0; j < p_.n; ++j) c[j] = p_.alpha * y[j];
        } else {
          for (int64_t j = 0; j < p_.n; ++j) c[j] = p_.alpha * y[j] + p_.beta * c[j];
        }
      }
    });
  }

  const FloatProduct<T>& p_;
  const Isa isa_;
  Workspace& workspace_;
  const int64_t units_;
  float* y_ = nullptr;  // where sums go: c, or scratch where c is read once more
  int64_t y_stride_ = 0;
  bool accumulate_ = false;
};

template <typename T>
void MultiplyFloats(const FloatProduct<T>& product, Isa isa, Workspace& workspace) {
  if (product.k > 0 && product.alpha != 0) return Product<T>(product, isa, workspace).Run();
  ScaleC(product);
}

template <typename T>
PackedFloats PackFloats(const Strided<T>& b, int64_t k, int64_t n, Isa isa, Workspace& workspace) {
  PackedFloats packed;
  packed.panels = AlignedBuffer(static_cast<size_t>(Panels(n) * PanelUnits<T>(k) * kUnitBytes));
  if (k > 0)  // else b may be null
    PackPanels(b, k, n, 0, isa, workspace.pool, reinterpret_cast<float*>(packed.panels.data()));
  return packed;
}

}  // namespace

PackedFloats Pack(const Strided<float>& b, int64_t k, int64_t n, Isa isa, Workspace& workspace) {
  return PackFloats(b, k, n, isa, workspace);
}
PackedFloats Pack(const Strided<uint16_t>& b, int64_t k, int64_t n, Isa isa, Workspace& workspace) {
  return PackFloats(b, k, n, isa, workspace);
}
void Multiply(const ProductF32& product, Isa isa, Workspace& workspace) {
  MultiplyFloats(product, isa, workspace);
}
void Multiply(const ProductBf16& product, Isa isa, Workspace& workspace) {
  MultiplyFloats(product, isa, workspace);
}

}  // namespace evoq
