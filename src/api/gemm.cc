#include "evoq/gemm.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <mutex>

#include "base/isa.h"
#include "base/math.h"
#include "products/float_product.h"

namespace {

using evoq::ProductF32;
using evoq::ProductSpace;

// The threads and memory that calls share, one call at a time.
class Shared {
 public:
  static Shared& Get() {
    static Shared shared;
    return shared;
  }

  // Throws std::system_error where the system refuses the threads.
  void SetThreads(int threads) {
    const std::lock_guard lock(mutex_);
    space_ = std::make_unique<ProductSpace>(threads);
  }

  // Runs `multiply` in the shared space, or, where that is busy, in one of the calling thread.
  template <typename Multiply>
  void Run(const Multiply& multiply) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) {
      thread_local ProductSpace own(1);
      return multiply(own);
    }
    if (space_ == nullptr) space_ = std::make_unique<ProductSpace>(0);
    multiply(*space_);
  }

  const evoq::Result<evoq::Isa>& isa() const { return isa_; }

 private:
  const evoq::Result<evoq::Isa> isa_ = evoq::SelectIsa();
  std::mutex mutex_;
  std::unique_ptr<ProductSpace> space_;
};

// A matrix as its caller gives it: op(X) has so many rows and columns.
struct Stored {
  int64_t rows, columns, leading;
  bool transposed, column_major;

  // Whether elements follow each other along a row of op(X).
  bool along_rows() const { return transposed == column_major; }
  bool LeadingFits() const {
    return leading >= std::max<int64_t>(along_rows() ? columns : rows, 1);
  }
  // Whether it can lie in memory, also in panels of 16 floats a line.
  bool Fits() const {
    const int64_t sizes[] = {along_rows() ? rows : columns, leading, 64};
    return evoq::CheckedProduct(sizes).has_value();
  }
  evoq::StridedF32 View(const float* data) const {
    return along_rows() ? evoq::StridedF32{data, leading, 1} : evoq::StridedF32{data, 1, leading};
  }
};

bool IsOrder(evoq_order order) { return order == EVOQ_ROW_MAJOR || order == EVOQ_COLUMN_MAJOR; }
bool IsTranspose(evoq_transpose t) { return t == EVOQ_NO_TRANSPOSE || t == EVOQ_TRANSPOSE; }

}  // namespace

int evoq_gemm_set_threads(int threads) {
  if (threads < 0 || threads > EVOQ_GEMM_MOST_THREADS) return 1;
  try {
    Shared::Get().SetThreads(threads);
  } catch (const std::exception&) {
    return 1;
  }
  return 0;
}

int evoq_sgemm(evoq_order order, evoq_transpose transpose_a, evoq_transpose transpose_b, int64_t m,
               int64_t n, int64_t k, float alpha, const float* a, int64_t lda, const float* b,
               int64_t ldb, float beta, float* c, int64_t ldc) {
  const bool column_major = order == EVOQ_COLUMN_MAJOR;
  const Stored as = {m, k, lda, transpose_a == EVOQ_TRANSPOSE, column_major},
               bs = {k, n, ldb, transpose_b == EVOQ_TRANSPOSE, column_major},
               cs = {m, n, ldc, false, column_major};
  const bool nothing = m == 0 || n == 0, no_sum = k == 0 || alpha == 0;
  if (!IsOrder(order)) return 1;
  if (!IsTranspose(transpose_a)) return 2;
  if (!IsTranspose(transpose_b)) return 3;
  if (m < 0) return 4;
  if (n < 0) return 5;
  if (k < 0) return 6;
  if (a == nullptr && !nothing && !no_sum) return 8;
  if (!as.LeadingFits()) return 9;
  if (b == nullptr && !nothing && !no_sum) return 10;
  if (!bs.LeadingFits()) return 11;
  if (c == nullptr && !nothing) return 13;
  if (!cs.LeadingFits()) return 14;
  if (nothing) return 0;
  if (!as.Fits() || !bs.Fits() || !cs.Fits()) return EVOQ_GEMM_NO_MEMORY;
  ProductF32 product = {m, n, k, alpha, as.View(a), bs.View(b), beta, c, ldc};
  if (column_major) {  // the rows of c are the columns of its transpose, op(b)' op(a)'
    const Stored at = {k, m, lda, !as.transposed, true}, bt = {n, k, ldb, !bs.transposed, true};
    product = {n, m, k, alpha, bt.View(b), at.View(a), beta, c, ldc};
  }
  try {
    Shared& shared = Shared::Get();
    if (!shared.isa()) return EVOQ_GEMM_NO_TARGET;
    shared.Run([&](ProductSpace& space) { evoq::Multiply(product, *shared.isa(), space); });
  } catch (const std::exception&) {
    return EVOQ_GEMM_NO_MEMORY;
  }
  return 0;
}
