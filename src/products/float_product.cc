#include "products/float_product.h"

#include <algorithm>
#include <utility>

#include "base/math.h"
#include "kernels/gemm/gemm_float.h"
#include "kernels/gemm/pack_f32.h"
#include "kernels/move/move.h"

namespace evoq {
namespace {

// With fewer rows of a, packing b costs more than it saves.
constexpr int64_t kInPlaceRows = 8;

// The rows of a matrix whose elements follow each other; those of c lie c_stride apart.
struct Rows {
  const float* a;
  int64_t a_stride, c_stride, b_step;

  static void Fill(const void* source, int64_t first, int count, const GemmSegment& segment,
                   GemmRows& tile) {
    const Rows& rows = *static_cast<const Rows*>(source);
    for (int r = 0; r < count; ++r) {
      tile.rows[r] = rows.a + (first + r) * rows.a_stride + segment.k;
      tile.row_offset[r] = (first + r) * rows.c_stride;
    }
    tile.row_stride = 0;
    tile.next = nullptr;
    tile.taps[0] = {0, segment.k * rows.b_step};
    tile.tap_count = segment.taps;
    tile.depth = segment.depth;
  }
};

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
    const bool in_place = p_.m <= kInPlaceRows && p_.b.column_stride == 1 && p_.alpha == 1;
    const int64_t whole = in_place ? p_.n / kPanelF32 * kPanelF32 : 0;  // columns read as they are
    const bool copies_a = p_.a.column_stride != 1;
    const int64_t a_floats = copies_a ? RoundUp(p_.m * p_.k, kPanelF32) : 0;
    const int64_t b_floats = RoundUp(p_.n - whole, kPanelF32) * p_.k;
    auto* const room = reinterpret_cast<float*>(
        space_.Room(static_cast<size_t>(a_floats + b_floats) * sizeof(float)));
    Rows rows = {p_.a.data, p_.a.row_stride, p_.c_stride, 0};
    if (copies_a) {
      CopyA(room);
      rows.a = room;
      rows.a_stride = p_.k;
    }
    const Columns read = Planned(rows, {p_.b.data, p_.b.row_stride, kPanelF32, false}, 0, whole);
    const Columns packed =
        Planned(rows, {room + a_floats, kPanelF32, p_.k * kPanelF32, true}, whole, p_.n);
    if (whole < p_.n) PackB(whole, room + a_floats);
    if (p_.beta != 0 && p_.beta != 1) ScaleC();
    Compute(read);
    Compute(packed);
  }

 private:
  // Columns [begin, end) of c.
  struct Columns {
    Rows rows;
    const float* b;
    int64_t begin, end;
    GemmPlan plan;
  };

  Columns Planned(Rows rows, const Panels& b, int64_t begin, int64_t end) const {
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
    const GemmJob job = {&columns.rows,
                         Rows::Fill,
                         columns.b,
                         0,
                         columns.end - columns.begin,
                         c,
                         nullptr,
                         p_.beta == 0 ? nullptr : c};
    const GemmPlan& plan = columns.plan;
    space_.pool.ParallelFor(plan.tasks(), plan.grain, [&](int64_t first, int64_t last) {
      for (int64_t task = first; task < last; ++task) RunGemmTask(plan, job, task);
    });
  }

  // Rows of a whose elements lie apart, one behind the other.
  void CopyA(float* to) {
    constexpr int64_t kRows = 64;
    space_.pool.ParallelFor(CeilDiv(p_.m, kRows), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin * kRows; i < std::min(end * kRows, p_.m); i += kRows) {
        const int64_t count = std::min(kRows, p_.m - i);
        if (p_.a.row_stride == 1) {
          move_.transpose(p_.a.data + i, to + i * p_.k, p_.k, count, p_.a.column_stride, p_.k,
                          sizeof(float));
          continue;
        }
        for (int64_t r = i; r < i + count; ++r) {
          for (int64_t l = 0; l < p_.k; ++l)
            to[r * p_.k + l] = p_.a.data[r * p_.a.row_stride + l * p_.a.column_stride];
        }
      }
    });
  }

  // The columns from `first` on, times alpha.
  void PackB(int64_t first, float* to) {
    const PanelShapeF32 shape = {p_.n - first, 1, p_.k, p_.b.column_stride, 0, p_.b.row_stride};
    const float* const from = p_.b.data + first * p_.b.column_stride;
    const int64_t grain = std::max<int64_t>(1, (64 << 10) / (shape.panel_stride() + 1));
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
        if (p_.alpha == 1) continue;
        for (int64_t i = 0; i < shape.panel_stride(); ++i) y[i] *= p_.alpha;
      }
    });
  }

  void ScaleC() {
    const int64_t grain = std::max<int64_t>(1, (64 << 10) / p_.n);
    space_.pool.ParallelFor(p_.m, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        for (int64_t j = 0; j < p_.n; ++j) p_.c[i * p_.c_stride + j] *= p_.beta;
      }
    });
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
