#include "quant/scale_search.h"

#include <algorithm>
#include <cmath>

#include "products/double_product.h"

namespace evoq {
namespace {

class ScaleSearch {
 public:
  ScaleSearch(const WeightGrid& grid, int64_t group, std::span<const float> w,
              std::span<const double> gram, RoundingTools tools, RoundedMatrix& rounded)
      : grid_(grid),
        group_(group),
        w_(w),
        h_(gram),
        tools_(tools),
        depth_(grid.matrices().depth),
        columns_(grid.matrices().columns),
        rounded_(rounded),
        e_(w.size()) {
    for (int64_t k = 0; k < depth_; ++k) {
      const float* scale = &rounded.scales[k / grid.block() * columns_];
      for (int64_t n = 0; n < columns_; ++n)
        e_[k * columns_ + n] =
            static_cast<double>(w[k * columns_ + n]) - rounded.numbers[k * columns_ + n] * scale[n];
    }
  }

  void Search(int64_t b, BesideBlock beside) {
    first_ = b * grid_.block();
    rows_ = std::min(grid_.block(), depth_ - first_);
    const std::vector<double> others =
        beside == BesideBlock::kErrors ? OfOthers() : std::vector<double>();
    Try best = Now(b), next = best;
    best.errors = Errors(best, others);
    for (const float share : kScaleShares) {
      if (share == 1) continue;
      for (int64_t n = 0; n < columns_; ++n) {
        next.scales[n] = grid_.Storable(group_, b, n, rounded_.scales,
                                        share * rounded_.scales[b * columns_ + n]);
      }
      RoundBy(b, next);
      next.errors = Errors(next, others);
      for (int64_t n = 0; n < columns_; ++n) {
        if (next.errors[n] < best.errors[n]) Take(next, n, best);
      }
    }
    Keep(b, best);
  }

 private:
  // The block with other scales.
  struct Try {
    std::vector<float> scales, numbers;
    std::vector<double> e, errors;
  };

  Try Now(int64_t b) const {
    const auto part = [&](const auto& all) {
      const auto begin = all.begin() + first_ * columns_;
      return std::vector(begin, begin + rows_ * columns_);
    };
    const auto scales = rounded_.scales.begin() + b * columns_;
    return {.scales = std::vector<float>(scales, scales + columns_),
            .numbers = part(rounded_.numbers),
            .e = part(e_),
            .errors = {}};
  }

  void RoundBy(int64_t b, Try& to) const {
    const float* zeros = &rounded_.zeros[b * columns_];
    for (int64_t k = 0; k < rows_; ++k) {
      const float* w = &w_[(first_ + k) * columns_];
      float* numbers = &to.numbers[k * columns_];
      grid_.Nearest(w, to.scales.data(), zeros, columns_, numbers);
      for (int64_t n = 0; n < columns_; ++n)
        to.e[k * columns_ + n] = static_cast<double>(w[n]) - numbers[n] * to.scales[n];
    }
  }

  // H of the block's rows times e; of the rows [from, from + count) alone.
  std::vector<double> Product(const double* e, int64_t from, int64_t count) const {
    std::vector<double> he(static_cast<size_t>(rows_ * columns_));
    Multiply(ProductF64{.m = rows_,
                        .n = columns_,
                        .k = count,
                        .alpha = 1,
                        .a = {&h_[first_ * depth_ + from], depth_, 1},
                        .b = {e, columns_, 1},
                        .beta = 0,
                        .c = he.data(),
                        .c_stride = columns_},
             tools_.isa, tools_.workspace);
    return he;
  }

  std::vector<double> OfOthers() const {
    std::vector<double> all = Product(e_.data(), 0, depth_);
    const std::vector<double> own = Product(&e_[first_ * columns_], first_, rows_);
    for (size_t i = 0; i < all.size(); ++i) all[i] -= own[i];
    return all;
  }

  // By column, but for what no choice changes.
  std::vector<double> Errors(const Try& of, std::span<const double> others) const {
    const std::vector<double> he = Product(of.e.data(), first_, rows_);
    std::vector<double> errors(static_cast<size_t>(columns_));
    for (int64_t k = 0; k < rows_; ++k) {
      for (int64_t n = 0; n < columns_; ++n) {
        const auto i = static_cast<size_t>(k * columns_ + n);
        errors[n] += of.e[i] * (he[i] + (others.empty() ? 0 : 2 * others[i]));
      }
    }
    return errors;
  }

  void Take(const Try& from, int64_t n, Try& to) const {
    to.scales[n] = from.scales[n];
    to.errors[n] = from.errors[n];
    for (int64_t i = n; i < rows_ * columns_; i += columns_) {
      to.numbers[i] = from.numbers[i];
      to.e[i] = from.e[i];
    }
  }

  void Keep(int64_t b, const Try& best) {
    std::ranges::copy(best.scales, rounded_.scales.begin() + b * columns_);
    std::ranges::copy(best.numbers, rounded_.numbers.begin() + first_ * columns_);
    std::ranges::copy(best.e, e_.begin() + first_ * columns_);
  }

  const WeightGrid& grid_;
  const int64_t group_;
  std::span<const float> w_;
  std::span<const double> h_;
  RoundingTools tools_;
  const int64_t depth_, columns_;
  RoundedMatrix& rounded_;
  std::vector<double> e_;
  int64_t first_ = 0, rows_ = 0;  // of the block
};

}  // namespace

void SearchScales(const WeightGrid& grid, int64_t group, std::span<const float> w,
                  std::span<const double> gram, BesideBlock beside, RoundingTools tools,
                  RoundedMatrix& rounded) {
  if (grid.one_scale()) return;
  ScaleSearch search(grid, group, w, gram, tools, rounded);
  for (int64_t b = 0; b < grid.blocks(); ++b) search.Search(b, beside);
}

}  // namespace evoq
