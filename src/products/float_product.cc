#include "products/float_product.h"

#include <algorithm>
#include <utility>

#include "base/math.h"
#include "kernels/gemm/gemm_float.h"
#include "kernels/gemm/pack_f32.h"
#include "kernels/move/move.h"

namespace evoq {
namespace {

// b as the micro-kernels read it: `step` floats between rows of 16 columns, `stride` between
// panels.
struct Panels {
  const float* data;
  int64_t step, stride;
  bool packed;
};

class Product {
 public:
  Product(const ProductF32& product, Isa isa, ProductSpace& space)
      : p_(product), isa_(isa), space_(space), move_(MoveTableFor(isa)) {}

  // Whatever may throw comes before the first element of c.
  void Run() {
    const bool in_place = p_.m <= kInPlaceRows && p_.b.column_stride == 1;
    const int64_t whole = in_place ? p_.n / kPanelF32 * kPanelF32 : 0;  // columns read as they are
    const bool copies_a = p_.a.column_stride != 1 || (in_place && p_.alpha != 1);
    const int64_t a_floats = copies_a ? RoundUp(p_.m * p_.k, kPanelF32) : 0;
    const int64_t b_floats = RoundUp(p_.n - whole, kPanelF32) * p_.k;
    auto* const room = reinterpret_cast<float*>(
        space_.Room(static_cast<size_t>(a_floats + b_floats) * sizeof(float)));
    DenseRowsF32 rows = {p_.a.data, p_.a.row_stride, p_.c_stride, 0};
    if (copies_a) {
      CopyA(in_place ? p_.alpha : 1, room);
      rows.a = room;
      rows.a_stride = p_.k;
    }
    const Columns read = Planned(rows, {p_.b.data, p_.b.row_stride, kPanelF32, false}, 0, whole);
    const Columns packed =
        Planned(rows, {room + a_floats, kPanelF32, p_.k * kPanelF32, true}, whole, p_.n);
    if (whole < p_.n) PackB(whole, in_place ? 1 : p_.alpha, room + a_floats);
    if (p_.beta != 0 && p_.beta != 1) ScaleC();
    Compute(read);
    Compute(packed);
  }

 private:
  // Columns [begin, end) of c.
  struct Columns {
    DenseRowsF32 rows;
    const float* b;
    int64_t begin, end;
    GemmPlan plan;
  };

  Columns Planned(DenseRowsF32 rows, const Panels& b, int64_t begin, int64_t end) const {
    if (begin == end) return {};
    GemmSizes sizes;
    sizes.rows = p_.m;
    sizes.columns = end - begin;
    sizes.taps = 1;
    sizes.depth = p_.k;
    sizes.panel_stride = b.stride;
    sizes.row_bytes = rows.a_stride * static_cast<int64_t>(sizeof(float));
    const BindOptions options{isa_, space_.pool.threads(), {}};
    GemmPlan plan = PlanGemm(sizes, GemmTypesF32(isa_), Activation{}, options);
    plan.b_step = rows.b_step = b.step;
    if (!b.packed) plan.k_stride = 0;
    return {rows, b.data, begin, end, std::move(plan)};
  }

  void Compute(const Columns& columns) {
    if (columns.begin == columns.end) return;
    float* const c = p_.c + columns.begin;
    const GemmJob job = {
        &columns.rows, DenseRowsF32::Fill,        columns.b, 0, columns.end - columns.begin, c,
        nullptr,       p_.beta == 0 ? nullptr : c};
    const GemmPlan& plan = columns.plan;
    space_.pool.ParallelFor(plan.tasks(), plan.grain, [&](int64_t first, int64_t last) {
      for (int64_t task = first; task < last; ++task) RunGemmTask(plan, job, task);
    });
  }

  // Rows of a, times `factor`, one behind the other.
  void CopyA(float factor, float* to) {
    constexpr int64_t kRows = 64;
    space_.pool.ParallelFor(CeilDiv(p_.m, kRows), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin * kRows; i < std::min(end * kRows, p_.m); i += kRows) {
        const int64_t count = std::min(kRows, p_.m - i);
        float* const y = to + i * p_.k;
        if (p_.a.column_stride == 1) {
          for (int64_t r = 0; r < count; ++r)
            std::copy_n(p_.a.data + (i + r) * p_.a.row_stride, p_.k, y + r * p_.k);
        } else {
          move_.transpose(p_.a.data + i, y, p_.k, count, p_.a.column_stride, p_.k, sizeof(float));
        }
        if (factor != 1) Scale(factor, count * p_.k, y);
      }
    });
  }

  // The columns from `first` on, times `factor`.
  void PackB(int64_t first, float factor, float* to) {
    const PanelShapeF32 shape = {p_.n - first, 1, p_.k, p_.b.column_stride, 0, p_.b.row_stride};
    const float* const from = p_.b.data + first * p_.b.column_stride;
    const int64_t grain = PackGrain(shape.panel_stride());
    space_.pool.ParallelFor(shape.panels(), grain, [&](int64_t begin, int64_t end) {
      for (int64_t panel = begin; panel < end; ++panel) {
        float* const y = to + panel * shape.panel_stride();
        const int64_t columns = shape.columns - panel * kPanelF32;
        if (p_.b.row_stride == 1 && columns >= kPanelF32) {
          move_.transpose(from + panel * kPanelF32 * p_.b.column_stride, y, kPanelF32, p_.k,
                          p_.b.column_stride, kPanelF32, sizeof(float));
        } else {
          PackPanelsF32(shape, from, panel, panel + 1, to);
        }
        if (factor != 1) Scale(factor, shape.panel_stride(), y);
      }
    });
  }

  void ScaleC() {
    space_.pool.ParallelFor(p_.m, PackGrain(p_.n), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) Scale(p_.beta, p_.n, p_.c + i * p_.c_stride);
    });
  }

  static void Scale(float factor, int64_t count, float* y) {
    for (int64_t i = 0; i < count; ++i) y[i] *= factor;
  }

  const ProductF32& p_;
  const Isa isa_;
  ProductSpace& space_;
  const MoveTable& move_;
};

}  // namespace

void Multiply(const ProductF32& product, Isa isa, ProductSpace& space) {
  if (product.k > 0 && product.alpha != 0) return Product(product, isa, space).Run();
  for (int64_t i = 0; i < product.m; ++i) {
    float* const row = product.c + i * product.c_stride;
    for (int64_t j = 0; j < product.n; ++j) row[j] = product.beta == 0 ? 0 : row[j] * product.beta;
  }
}

}  // namespace evoq
