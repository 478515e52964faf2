// MatMul and Gemm: y = a b, so da = dy b^T and db = a^T dy.
#include "ops/matmul.h"

#include <algorithm>

#include "train/gradients/product.h"

namespace evoq {
namespace {

Strided<float> Turned(Strided<float> x) { return {x.data, x.column_stride, x.row_stride}; }

// A matrix [rows, columns] as it is stored, or its transpose.
Strided<float> View(const float* data, int64_t rows, int64_t columns, bool transposed) {
  return transposed ? Strided<float>{data, 1, rows} : Strided<float>{data, columns, 1};
}

struct Sizes {
  int64_t m, n, k;
  bool a_turned = false, b_turned = false;
  float alpha = 1;
};

// One product of matrices; da and db may be nullptr.
void BackwardOf(const GradientRun& run, const Sizes& s, const float* a, const float* b,
                const float* dy, float* da, float* db) {
  const Strided<float> av = View(a, s.m, s.k, s.a_turned), bv = View(b, s.k, s.n, s.b_turned);
  const Strided<float> d = {dy, s.n, 1};
  if (da != nullptr) {
    if (s.a_turned) {
      Product(run, s.k, s.m, s.n, bv, Turned(d), da, {.alpha = s.alpha, .beta = 1});
    } else {
      Product(run, s.m, s.k, s.n, d, Turned(bv), da, {.alpha = s.alpha, .beta = 1});
    }
  }
  if (db == nullptr) return;
  if (s.b_turned) {
    Product(run, s.n, s.k, s.m, Turned(d), av, db, {.alpha = s.alpha, .beta = 1});
  } else {
    Product(run, s.k, s.n, s.m, Turned(av), d, db, {.alpha = s.alpha, .beta = 1});
  }
}

// ---- Gemm(a, b, c?)

// How c [.., ..] broadcasts to [m, n].
struct Added {
  int64_t row_stride = 0, column_stride = 0;
};

Result<BoundGradient> BindGemm(const GradientArgs& args) {
  const Attrs& attrs = args.node.attrs;
  const std::vector<int64_t> y = args.y[0].shape.sizes(), a = args.x[0].shape.sizes();
  Sizes s{
      y[0], y[1], 0, attrs.Int("transA") != 0, attrs.Int("transB") != 0, attrs.Float("alpha", 1)};
  s.k = s.a_turned ? a[0] : a[1];
  const float beta = attrs.Float("beta", 1);
  Added c;
  if (args.x.size() > 2 && args.x[2].dtype != DType::kUndefined) {
    std::vector<int64_t> sizes = args.x[2].shape.sizes();
    while (sizes.size() < 2) sizes.insert(sizes.begin(), 1);
    c = {sizes[0] == 1 ? 0 : sizes[1], sizes[1] == 1 ? 0 : int64_t{1}};
  }
  const auto forward = [s, beta, c](const GradientRun& run) {
    Product(run, s.m, s.n, s.k, View(run.x[0], s.m, s.k, s.a_turned),
            View(run.x[1], s.k, s.n, s.b_turned), run.y[0], {.alpha = s.alpha});
    if (run.x.size() < 3 || run.x[2] == nullptr) return;
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.n; ++j)
        run.y[0][i * s.n + j] += beta * run.x[2][i * c.row_stride + j * c.column_stride];
    }
  };
  const auto backward = [s, beta, c](const GradientRun& run) {
    BackwardOf(run, s, run.x[0], run.x[1], run.dy[0], run.dx[0], run.dx[1]);
    if (run.dx.size() < 3 || run.dx[2] == nullptr) return;
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.n; ++j)
        run.dx[2][i * c.row_stride + j * c.column_stride] += beta * run.dy[0][i * s.n + j];
    }
  };
  return BoundGradient{.forward = forward, .backward = backward};
}

// ---- MatMul(a, b)

// The products of a batch, at their places in a and b.
template <typename Body>
void ForEachProduct(const MatMulGeometry& g, const Body& body) {
  int64_t count = 1;
  for (int64_t size : g.batch) count *= size;
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, a = 0, b = 0;
    for (size_t d = g.batch.size(); d-- > 0; rest /= g.batch[d]) {
      a += rest % g.batch[d] * g.a_strides[d];
      b += rest % g.batch[d] * g.b_strides[d];
    }
    body(a * g.m * g.k, b * g.k * g.n, i * g.m * g.n);
  }
}

// The numbers of b, of a constant that stays quantized while the others are trained (Dettmers,
// Pagnoni, Holtzman, Zettlemoyer, "QLoRA: Efficient Finetuning of Quantized LLMs", 2023).
struct Operand {
  Tensor quantized;  // undefined: b is float32
  Tensor Floats() const {
    if (!quantized.defined()) return {};
    auto floats = ToFloat32(quantized);
    EVOQ_CHECK(floats, "{}", floats.error().message());  // Bind converted it once
    return *std::move(floats);
  }
};
const float* Numbers(const Tensor& dequantized, const GradientRun& run) {
  return dequantized.defined() ? dequantized.data<float>() : run.x[1];
}

// y += bias, or dbias += dy; c has one number for each column.
void AddBias(const float* bias, int64_t rows, int64_t columns, float* y) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) y[i * columns + j] += bias[j];
  }
}
void SumRows(const float* dy, int64_t rows, int64_t columns, float* db) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) db[j] += dy[i * columns + j];
  }
}

Result<BoundGradient> BindMatMul(const GradientArgs& args) {
  for (size_t i = 3; i < args.x.size(); ++i) {
    if (args.x[i].dtype != DType::kUndefined) return Unsupported("a fused input {}", i);
  }
  if (args.node.attrs.Has("activation") || args.node.attrs.Has("data_block"))
    return Unsupported("a fused activation, or data that is rounded");
  Operand operand;
  if (args.x[1].quantized()) {
    EVOQ_TRY(ToFloat32(*args.constants[1]));
    operand.quantized = *args.constants[1];
  }
  const bool biased = args.x.size() > 2 && args.x[2].dtype != DType::kUndefined;
  const int64_t outputs = *args.y[0].shape.elements();
  MatMulGeometry g = MatMulGeometryOf(args.x[0].shape, args.x[1].shape);
  if (args.x[1].shape.rank() <= 2 && args.x[0].shape.rank() > 1) {
    for (int64_t size : g.batch) g.m *= size;  // one product of all rows
    g.batch.clear();
  }
  const Sizes s{g.m, g.n, g.k};
  const int64_t rows = s.n == 0 ? 0 : outputs / s.n;
  const auto forward = [=](const GradientRun& run) {
    const Tensor held = operand.Floats();
    const float* const w = Numbers(held, run);
    ForEachProduct(g, [&](int64_t a, int64_t b, int64_t y) {
      Product(run, s.m, s.n, s.k, View(run.x[0] + a, s.m, s.k, false), View(w + b, s.k, s.n, false),
              run.y[0] + y);
    });
    if (biased) AddBias(run.x[2], rows, s.n, run.y[0]);
  };
  const auto backward = [=](const GradientRun& run) {
    const Tensor held = operand.Floats();
    const float* const w = Numbers(held, run);
    if (biased && run.dx[2] != nullptr) SumRows(run.dy[0], rows, s.n, run.dx[2]);
    ForEachProduct(g, [&](int64_t a, int64_t b, int64_t y) {
      BackwardOf(run, s, run.x[0] + a, w + b, run.dy[0] + y,
                 run.dx[0] == nullptr ? nullptr : run.dx[0] + a,
                 run.dx[1] == nullptr ? nullptr : run.dx[1] + b);
    });
  };
  return BoundGradient{.forward = forward, .backward = backward};
}

}  // namespace

extern const GradientDef kGradientGemm, kGradientMatMul;
const GradientDef kGradientGemm = {.op = "Gemm", .differentiable = 0b111, .bind = BindGemm};
const GradientDef kGradientMatMul = {
    .op = "MatMul", .differentiable = 0b111, .quantized = 0b10, .bind = BindMatMul};

}  // namespace evoq
