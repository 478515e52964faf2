#include "quant/layer_rounding.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/math.h"
#include "products/double_product.h"

namespace evoq {
namespace {

constexpr int64_t kRows = 64;  // worked on at a time: products of matrices do the rest

// c [m, n] += alpha a b; strides of rows, `a` transposed where a_step is its row stride.
void AddProduct(RoundingTools tools, double alpha, int64_t m, int64_t n, int64_t k,
                Strided<double> a, Strided<double> b, double* c, int64_t c_stride) {
  if (m == 0 || n == 0 || k == 0) return;
  Multiply(ProductF64{.m = m,
                      .n = n,
                      .k = k,
                      .alpha = alpha,
                      .a = a,
                      .b = b,
                      .beta = 1,
                      .c = c,
                      .c_stride = c_stride},
           tools.isa, tools.workspace);
}

// Rounds row k of the matrix: values v; e and numbers take what comes of it.
class RowRounder {
 public:
  RowRounder(const WeightGrid& grid, std::span<const float> w, RoundedMatrix& rounded)
      : grid_(grid), w_(w), rounded_(rounded), columns_(grid.matrices().columns) {}

  void Round(int64_t k, const float* v, double* e) {
    const float* scale = Scale(k);
    float* number = &rounded_.numbers[k * columns_];
    grid_.Nearest(v, scale, &rounded_.zeros[k / grid_.block() * columns_], columns_, number);
    for (int64_t n = 0; n < columns_; ++n)
      e[n] = static_cast<double>(w_[k * columns_ + n]) - number[n] * scale[n];
  }
  const float* Scale(int64_t k) const { return &rounded_.scales[k / grid_.block() * columns_]; }

 private:
  const WeightGrid& grid_;
  std::span<const float> w_;
  RoundedMatrix& rounded_;
  int64_t columns_;
};

RoundedMatrix Empty(const WeightGrid& grid) {
  const LayerMatrices& m = grid.matrices();
  const auto scales = static_cast<size_t>(grid.blocks() * m.columns);
  return {.numbers = std::vector<float>(static_cast<size_t>(m.depth * m.columns)),
          .scales = std::vector<float>(scales, 1),
          .zeros = std::vector<float>(scales)};
}

void ChooseScales(const WeightGrid& grid, int64_t group, const float* w, const float* importance,
                  RoundedMatrix& rounded) {
  const LayerMatrices& m = grid.matrices();
  for (int64_t b = 0; b < grid.blocks(); ++b) {
    const int64_t k = b * grid.block();
    grid.Choose(group, b, w + k * m.columns, importance != nullptr ? importance + k : nullptr,
                &rounded.scales[b * m.columns], &rounded.zeros[b * m.columns]);
  }
  grid.Share(w, rounded.scales);
}

}  // namespace

std::vector<double> Damped(std::span<const double> gram, int64_t depth, double share) {
  std::vector<double> h(gram.begin(), gram.end());
  double sum = 0;
  for (int64_t k = 0; k < depth; ++k) sum += h[k * depth + k];
  const double more = share * sum / static_cast<double>(depth);
  for (int64_t k = 0; k < depth; ++k) {
    double& d = h[k * depth + k];
    d += more > 0 ? more : 1;
  }
  return h;
}

Status Cholesky(std::vector<double>& a, int64_t depth, RoundingTools tools) {
  const auto at = [&](int64_t i, int64_t j) -> double& { return a[i * depth + j]; };
  for (int64_t j0 = 0; j0 < depth; j0 += kRows) {
    const int64_t j1 = std::min(j0 + kRows, depth);
    AddProduct(tools, -1, depth - j0, j1 - j0, j0, {&at(j0, 0), depth, 1}, {&at(j0, 0), 1, depth},
               &at(j0, j0), depth);
    for (int64_t j = j0; j < j1; ++j) {
      double pivot = at(j, j);
      for (int64_t k = j0; k < j; ++k) pivot -= at(j, k) * at(j, k);
      if (!(pivot > 0) || !std::isfinite(pivot))
        return InvalidInput("the inputs' X^T X is not positive definite at row {}", j);
      at(j, j) = std::sqrt(pivot);
      for (int64_t i = j + 1; i < j1; ++i) {
        double sum = at(i, j);
        for (int64_t k = j0; k < j; ++k) sum -= at(i, k) * at(j, k);
        at(i, j) = sum / at(j, j);
      }
    }
    tools.workspace.pool.ParallelFor(depth - j1, 64, [&](int64_t begin, int64_t end) {
      for (int64_t i = j1 + begin; i < j1 + end; ++i) {
        for (int64_t j = j0; j < j1; ++j) {
          double sum = at(i, j);
          for (int64_t k = j0; k < j; ++k) sum -= at(i, k) * at(j, k);
          at(i, j) = sum / at(j, j);
        }
      }
    });
  }
  return {};
}

Result<std::vector<float>> Refitted(std::span<const float> w, std::span<const double> damped,
                                    std::span<const double> missing, int64_t depth,
                                    RoundingTools tools) {
  std::vector<double> l(damped.begin(), damped.end());
  EVOQ_TRY(Cholesky(l, depth, tools));
  const int64_t columns = static_cast<int64_t>(w.size()) / depth;
  std::vector<double> z(missing.begin(), missing.end());
  // L y = missing, then L^T z = y, by row blocks.
  const auto subtract = [&](int64_t to, int64_t from, double factor) {
    for (int64_t n = 0; n < columns; ++n) z[to * columns + n] -= factor * z[from * columns + n];
  };
  const auto scale = [&](int64_t k) {
    for (int64_t n = 0; n < columns; ++n) z[k * columns + n] /= l[k * depth + k];
  };
  for (int64_t k0 = 0; k0 < depth; k0 += kRows) {
    const int64_t k1 = std::min(k0 + kRows, depth);
    AddProduct(tools, -1, k1 - k0, columns, k0, {&l[k0 * depth], depth, 1}, {z.data(), columns, 1},
               &z[k0 * columns], columns);
    for (int64_t k = k0; k < k1; ++k) {
      for (int64_t j = k0; j < k; ++j) subtract(k, j, l[k * depth + j]);
      scale(k);
    }
  }
  for (int64_t k1 = depth; k1 > 0; k1 -= std::min(k1, kRows)) {
    const int64_t k0 = std::max<int64_t>(k1 - kRows, 0);
    if (k1 < depth)
      AddProduct(tools, -1, k1 - k0, columns, depth - k1, {&l[k1 * depth + k0], 1, depth},
                 {&z[k1 * columns], columns, 1}, &z[k0 * columns], columns);
    for (int64_t k = k1 - 1; k >= k0; --k) {
      for (int64_t j = k + 1; j < k1; ++j) subtract(k, j, l[j * depth + k]);
      scale(k);
    }
  }
  std::vector<float> out(w.begin(), w.end());
  for (size_t i = 0; i < out.size(); ++i) out[i] += static_cast<float>(z[i]);
  return out;
}

RoundedMatrix Nearest(const WeightGrid& grid, int64_t group, std::span<const float> w,
                      std::span<const float> importance) {
  const LayerMatrices& m = grid.matrices();
  RoundedMatrix rounded = Empty(grid);
  ChooseScales(grid, group, w.data(), importance.empty() ? nullptr : importance.data(), rounded);
  RowRounder rows(grid, w, rounded);
  std::vector<double> e(static_cast<size_t>(m.columns));
  for (int64_t k = 0; k < m.depth; ++k) rows.Round(k, &w[k * m.columns], e.data());
  return rounded;
}

namespace {

class GptqRounder {
 public:
  GptqRounder(const WeightGrid& grid, std::span<const float> w, std::span<const double> damped,
              const RoundedMatrix& nearest, RoundingTools tools)
      : w_(w),
        h_(damped),
        tools_(tools),
        depth_(grid.matrices().depth),
        columns_(grid.matrices().columns),
        rounded_(nearest),
        rows_(grid, w, rounded_),
        order_(static_cast<size_t>(depth_)),
        e_(static_cast<size_t>(depth_ * columns_)) {
    // Place a of L is row order_[a]; the last place is rounded first.
    std::iota(order_.rbegin(), order_.rend(), 0);
    const auto size = [&](int64_t k) { return h_[k * depth_ + k]; };
    std::ranges::sort(order_, [&](int64_t i, int64_t j) {
      return size(i) != size(j) ? size(i) < size(j) : i > j;
    });
  }

  Result<RoundedMatrix> Run() {
    l_.resize(static_cast<size_t>(depth_ * depth_));
    for (int64_t a = 0; a < depth_; ++a) {
      for (int64_t b = 0; b < depth_; ++b) l_[a * depth_ + b] = h_[order_[a] * depth_ + order_[b]];
    }
    EVOQ_TRY(Cholesky(l_, depth_, tools_));
    for (int64_t end = depth_; end > 0; end -= std::min(end, kRows))
      RoundPlaces(std::max<int64_t>(end - kRows, 0), end);
    return std::move(rounded_);
  }

 private:
  // Places [begin, end), the last one first.
  void RoundPlaces(int64_t begin, int64_t end) {
    std::vector<double> moved(static_cast<size_t>((end - begin) * columns_));
    AddProduct(tools_, 1, end - begin, columns_, depth_ - end,
               {&l_[end * depth_ + begin], 1, depth_}, {&e_[end * columns_], columns_, 1},
               moved.data(), columns_);
    std::vector<float> v(static_cast<size_t>(columns_));
    for (int64_t a = end - 1; a >= begin; --a) {
      const float* w = &w_[order_[a] * columns_];
      const double inverse = 1 / l_[a * depth_ + a];
      for (int64_t n = 0; n < columns_; ++n)
        v[n] = static_cast<float>(w[n] + moved[(a - begin) * columns_ + n] * inverse);
      double* e = &e_[a * columns_];
      rows_.Round(order_[a], v.data(), e);
      for (int64_t b = begin; b < a; ++b) {
        const double factor = l_[a * depth_ + b];
        double* to = &moved[(b - begin) * columns_];
        for (int64_t n = 0; n < columns_; ++n) to[n] += factor * e[n];
      }
    }
  }

  std::span<const float> w_;
  std::span<const double> h_;
  RoundingTools tools_;
  const int64_t depth_, columns_;
  RoundedMatrix rounded_;
  RowRounder rows_;
  std::vector<int64_t> order_;
  std::vector<double> l_, e_;
};

class Descent {
 public:
  Descent(const WeightGrid& grid, int64_t group, std::span<const float> w,
          std::span<const double> damped, RoundingTools tools, RoundedMatrix& rounded)
      : grid_(grid),
        group_(group),
        w_(w),
        h_(damped),
        tools_(tools),
        depth_(grid.matrices().depth),
        columns_(grid.matrices().columns),
        rounded_(rounded),
        rows_(grid, w, rounded),
        e_(static_cast<size_t>(depth_ * columns_)) {
    for (int64_t k = 0; k < depth_; ++k) {
      for (int64_t n = 0; n < columns_; ++n)
        e_[k * columns_ + n] = static_cast<double>(w[k * columns_ + n]) -
                               rounded.numbers[k * columns_ + n] * rows_.Scale(k)[n];
    }
  }

  void Sweep() {
    for (int64_t b = 0; b < grid_.blocks(); ++b) {
      const int64_t first = b * grid_.block(), end = std::min(first + grid_.block(), depth_);
      std::vector<double> g;
      if (!grid_.one_scale()) {
        g = Gradient(first, end);
        MoveScales(b, first, end, g);
      }
      const bool small = !g.empty() && end - first <= kMostOfBlock;
      for (int64_t k = first; k < end;) {
        const int64_t next = small ? end : std::min(k + kRows, end);
        MoveNumbers(k, next, small ? std::move(g) : Gradient(k, next));
        k = next;
      }
    }
  }

 private:
  static constexpr int64_t kMostOfBlock = 128;  // whose gradient serves both moves

  // (H e) of rows [first, end).
  std::vector<double> Gradient(int64_t first, int64_t end) const {
    std::vector<double> g(static_cast<size_t>((end - first) * columns_));
    AddProduct(tools_, 1, end - first, columns_, depth_, {&h_[first * depth_], depth_, 1},
               {e_.data(), columns_, 1}, g.data(), columns_);
    return g;
  }

  // f(s + d) = f(s) - 2 d q^T g + d^2 q^T H q of the block's numbers q; g = H e is kept true.
  void MoveScales(int64_t b, int64_t first, int64_t end, std::vector<double>& g) {
    std::vector<double> q(g.size()), hq(g.size());
    for (size_t i = 0; i < q.size(); ++i) q[i] = rounded_.numbers[first * columns_ + i];
    AddProduct(tools_, 1, end - first, columns_, end - first,
               {&h_[first * depth_ + first], depth_, 1}, {q.data(), columns_, 1}, hq.data(),
               columns_);
    std::vector<double> linear(static_cast<size_t>(columns_)), square(linear.size());
    for (int64_t i = 0; i < end - first; ++i) {
      for (int64_t n = 0; n < columns_; ++n) {
        linear[n] += q[i * columns_ + n] * g[i * columns_ + n];
        square[n] += q[i * columns_ + n] * hq[i * columns_ + n];
      }
    }
    for (int64_t n = 0; n < columns_; ++n) {
      float& scale = rounded_.scales[b * columns_ + n];
      if (!(square[n] > 0)) continue;
      const double wanted = scale + linear[n] / square[n];
      if (!(wanted > 0)) continue;
      const float stored =
          grid_.Storable(group_, b, n, rounded_.scales, static_cast<float>(wanted));
      const double d = static_cast<double>(stored) - scale;
      if (!(d * d * square[n] < 2 * d * linear[n])) continue;
      scale = stored;
      for (int64_t k = first; k < end; ++k) {
        e_[k * columns_ + n] =
            static_cast<double>(w_[k * columns_ + n]) - rounded_.numbers[k * columns_ + n] * stored;
        g[(k - first) * columns_ + n] -= d * hq[(k - first) * columns_ + n];
      }
    }
  }

  // g = H e of the rows.
  void MoveNumbers(int64_t first, int64_t end, std::vector<double> g) {
    std::vector<float> v(static_cast<size_t>(columns_));
    std::vector<double> before(v.size());
    for (int64_t k = first; k < end; ++k) {
      double* e = &e_[k * columns_];
      const double inverse = 1 / h_[k * depth_ + k];
      for (int64_t n = 0; n < columns_; ++n) {
        before[n] = e[n];
        v[n] = static_cast<float>(w_[k * columns_ + n] - e[n] +
                                  g[(k - first) * columns_ + n] * inverse);
      }
      rows_.Round(k, v.data(), e);
      for (int64_t n = 0; n < columns_; ++n) before[n] = e[n] - before[n];
      for (int64_t j = k + 1; j < end; ++j) {
        const double factor = h_[j * depth_ + k];
        double* to = &g[(j - first) * columns_];
        for (int64_t n = 0; n < columns_; ++n) to[n] += factor * before[n];
      }
    }
  }

  const WeightGrid& grid_;
  const int64_t group_;
  std::span<const float> w_;
  std::span<const double> h_;
  RoundingTools tools_;
  const int64_t depth_, columns_;
  RoundedMatrix& rounded_;
  RowRounder rows_;
  std::vector<double> e_;
};

}  // namespace

Result<RoundedMatrix> Gptq(const WeightGrid& grid, std::span<const float> w,
                           std::span<const double> damped, const RoundedMatrix& nearest,
                           RoundingTools tools) {
  return GptqRounder(grid, w, damped, nearest, tools).Run();
}

void Descend(const WeightGrid& grid, int64_t group, std::span<const float> w,
             std::span<const double> damped, int sweeps, RoundingTools tools,
             RoundedMatrix& rounded) {
  Descent descent(grid, group, w, damped, tools, rounded);
  for (int i = 0; i < sweeps; ++i) descent.Sweep();
}

double ResultError(const WeightGrid& grid, std::span<const float> w, std::span<const double> gram,
                   const RoundedMatrix& rounded, RoundingTools tools) {
  const LayerMatrices& m = grid.matrices();
  std::vector<double> e(w.size()), he(w.size());
  for (size_t i = 0; i < e.size(); ++i) {
    const auto row = static_cast<int64_t>(i) / m.columns, n = static_cast<int64_t>(i) % m.columns;
    e[i] = static_cast<double>(w[i]) -
           rounded.numbers[i] * rounded.scales[row / grid.block() * m.columns + n];
  }
  AddProduct(tools, 1, m.depth, m.columns, m.depth, {gram.data(), m.depth, 1},
             {e.data(), m.columns, 1}, he.data(), m.columns);
  return std::inner_product(e.begin(), e.end(), he.begin(), 0.0);
}

}  // namespace evoq
