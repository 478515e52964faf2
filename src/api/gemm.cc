#include "evoq/gemm.h"

#include <algorithm>
#include <exception>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <variant>

#include "base/isa.h"
#include "base/math.h"
#include "base/thread_state.h"
#include "products/double_product.h"
#include "products/float_product.h"
#include "products/int8_product.h"

struct evoq_packed {
  enum class Kind { kFloat32, kBfloat16, kInt8 };
  Kind kind;
  std::variant<evoq::PackedFloats, evoq::PackedInt8> matrix;
  int64_t n, k;
};

namespace {

using evoq::ByteOperand;
using evoq::FloatProduct;
using evoq::PackedFloats;
using evoq::PackedInt8;
using evoq::ProductBf16;
using evoq::ProductF32;
using evoq::ProductInt8;
using evoq::Strided;
using evoq::Workspace;
using Kind = evoq_packed::Kind;

// The threads and memory that calls share, one call at a time.
class Shared {
 public:
  static Shared& Get() {
    // Not destroyed: threads of the host may multiply while the process ends.
    static auto* const shared = new Shared;
    return *shared;
  }

  // Throws std::system_error where the system refuses the threads.
  void SetThreads(int threads) {
    const std::lock_guard lock(mutex_);
    workspace_ = std::make_unique<Workspace>(threads);
  }

  // Runs `work` in the shared workspace, or, where that is busy, in one of the calling thread.
  template <typename Work>
  void Run(const Work& work) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return work(Own());
    if (workspace_ == nullptr) workspace_ = std::make_unique<Workspace>(0);
    work(*workspace_);
  }

  const evoq::Result<evoq::Isa>& isa() const { return isa_; }

 private:
  static Workspace& Own() {
    thread_local Workspace own(1);
    return own;
  }

  const evoq::Result<evoq::Isa> isa_ = evoq::SelectIsa();
  std::mutex mutex_;
  std::unique_ptr<Workspace> workspace_;
};

// What Shared::Run and memory allow: 0, or a code of gemm.h.
template <typename Work>
int Run(const Work& work) {
  const evoq::ThreadState state;
  try {
    Shared& shared = Shared::Get();
    if (!shared.isa()) return EVOQ_GEMM_NO_TARGET;
    shared.Run([&](Workspace& workspace) { work(*shared.isa(), workspace); });
  } catch (const std::exception&) {
    return EVOQ_GEMM_NO_MEMORY;
  }
  return 0;
}

// A matrix as its caller gives it: op(X) has so many rows and columns.
template <typename T>
struct Stored {
  const T* data;
  int64_t rows, columns, leading;
  bool transposed, column_major;

  // Whether elements follow each other along a row of op(X).
  bool along_rows() const { return transposed == column_major; }
  bool LeadingFits() const {
    return leading >= std::max<int64_t>(along_rows() ? columns : rows, 1);
  }
  // Whether it can lie in memory, also in panels of 16 elements a line, with what else a product
  // takes: sums of such sizes do not overflow.
  bool Fits() const {
    const int64_t sizes[] = {std::max<int64_t>(along_rows() ? rows : columns, 1), leading, 256};
    return evoq::CheckedProduct(sizes).has_value();
  }
  Strided<T> View() const {
    return along_rows() ? Strided<T>{data, leading, 1} : Strided<T>{data, 1, leading};
  }
  // op(X)', read from the same memory.
  Stored Transposed() const { return {data, columns, rows, leading, !transposed, column_major}; }
};

bool IsOrder(evoq_order order) { return order == EVOQ_ROW_MAJOR || order == EVOQ_COLUMN_MAJOR; }
bool IsTranspose(evoq_transpose t) { return t == EVOQ_NO_TRANSPOSE || t == EVOQ_TRANSPOSE; }

// What must hold of an argument.
struct Demand {
  int argument;
  bool holds;
};
int FirstBroken(std::initializer_list<Demand> demands) {
  for (const Demand& d : demands) {
    if (!d.holds) return d.argument;
  }
  return 0;
}

// At which places the arguments of a function stand.
struct Places {
  int m, n, k, a, lda, b, ldb, beta, c, ldc;
};
constexpr Places kFloats = {4, 5, 6, 8, 9, 10, 11, 12, 13, 14};
constexpr Places kInts = {4, 5, 6, 7, 8, 10, 11, 13, 14, 15};

// C = A B of matrices in memory, with whatever a type adds.
template <typename A, typename B, typename C>
struct Call {
  evoq_order order;
  evoq_transpose transpose_a, transpose_b;
  int64_t m, n, k;
  const A* a;
  int64_t lda;
  const B* b;
  int64_t ldb;
  C* c;
  int64_t ldc;

  bool column_major() const { return order == EVOQ_COLUMN_MAJOR; }
  bool empty() const { return m == 0 || n == 0; }
  Stored<A> StoredA() const {
    return {a, m, k, lda, transpose_a == EVOQ_TRANSPOSE, column_major()};
  }
  Stored<B> StoredB() const {
    return {b, k, n, ldb, transpose_b == EVOQ_TRANSPOSE, column_major()};
  }
  Stored<C> StoredC() const { return {c, m, n, ldc, false, column_major()}; }

  // `reads`: whether A and B are read.
  int Wrong(const Places& at, bool reads, bool beta_holds) const {
    return FirstBroken({{1, IsOrder(order)},
                        {2, IsTranspose(transpose_a)},
                        {3, IsTranspose(transpose_b)},
                        {at.m, m >= 0},
                        {at.n, n >= 0},
                        {at.k, k >= 0},
                        {at.a, a != nullptr || !reads},
                        {at.lda, StoredA().LeadingFits()},
                        {at.b, b != nullptr || !reads},
                        {at.ldb, StoredB().LeadingFits()},
                        {at.beta, beta_holds},
                        {at.c, c != nullptr || empty()},
                        {at.ldc, StoredC().LeadingFits()}});
  }
  bool Fits() const { return StoredA().Fits() && StoredB().Fits() && StoredC().Fits(); }
};

// `Product`: FloatProduct or ProductF64.
template <typename Product, typename T, typename C, typename Real>
int MultiplyFloats(const Call<T, T, C>& x, Real alpha, Real beta) {
  if (const int wrong = x.Wrong(kFloats, !x.empty() && x.k > 0 && alpha != 0, true)) return wrong;
  if (x.empty()) return 0;
  if (!x.Fits()) return EVOQ_GEMM_NO_MEMORY;
  Product product = {x.m,  x.n, x.k,  alpha, x.StoredA().View(), x.StoredB().View(),
                     beta, x.c, x.ldc};
  if (x.column_major())  // the rows of c are the columns of its transpose, op(b)' op(a)'
    product = {
        x.n,  x.m, x.k,  alpha, x.StoredB().Transposed().View(), x.StoredA().Transposed().View(),
        beta, x.c, x.ldc};
  return Run([&](evoq::Isa isa, Workspace& workspace) { evoq::Multiply(product, isa, workspace); });
}

// Bytes of either sign.
template <typename T>
ByteOperand Operand(const Stored<T>& x, int32_t zero) {
  const Strided<T> view = x.View();
  return {{reinterpret_cast<const uint8_t*>(view.data), view.row_stride, view.column_stride},
          std::is_signed_v<T>,
          zero};
}

template <typename A>
int MultiplyBytes(const Call<A, int8_t, int32_t>& x, int32_t a_zero, int32_t b_zero, int32_t beta) {
  if (const int wrong = x.Wrong(kInts, !x.empty() && x.k > 0, beta == 0 || beta == 1)) return wrong;
  if (x.empty()) return 0;
  if (!x.Fits()) return EVOQ_GEMM_NO_MEMORY;
  ProductInt8 product = {
      x.m,       x.n, x.k,  Operand(x.StoredA(), a_zero), Operand(x.StoredB(), b_zero),
      beta == 1, x.c, x.ldc};
  if (x.column_major())
    product = {x.n,
               x.m,
               x.k,
               Operand(x.StoredB().Transposed(), b_zero),
               Operand(x.StoredA().Transposed(), a_zero),
               beta == 1,
               x.c,
               x.ldc};
  return Run([&](evoq::Isa isa, Workspace& workspace) { evoq::Multiply(product, isa, workspace); });
}

// Packs op(B) by `pack(isa, workspace)`; the places of arguments are those of all pack functions.
template <typename T, typename Pack>
int MakePacked(Kind kind, evoq_transpose transpose, int64_t n, int64_t k, const T* b, int64_t ldb,
               evoq_packed** packed, int packed_place, const Pack& pack) {
  if (packed != nullptr) *packed = nullptr;
  const Stored<T> stored = {b, k, n, ldb, transpose == EVOQ_TRANSPOSE, false};
  if (const int wrong = FirstBroken({{1, IsTranspose(transpose)},
                                     {2, n >= 0},
                                     {3, k >= 0},
                                     {4, b != nullptr || n == 0 || k == 0},
                                     {5, stored.LeadingFits()},
                                     {packed_place, packed != nullptr}}))
    return wrong;
  if (!stored.Fits()) return EVOQ_GEMM_NO_MEMORY;
  return Run([&](evoq::Isa isa, Workspace& workspace) {
    auto made = std::make_unique<evoq_packed>(evoq_packed{kind, {}, n, k});
    made->matrix = pack(stored, isa, workspace);
    *packed = made.release();
  });
}

// A packed product's arguments at these places.
struct PackedPlaces {
  int m, a, lda, packed, beta, c, ldc;
};
constexpr PackedPlaces kPackedFloats = {2, 4, 5, 6, 7, 8, 9}, kPackedInts = {2, 3, 4, 6, 7, 8, 9};

template <typename A, typename C>
struct PackedCall {
  evoq_transpose transpose_a;
  int64_t m;
  const A* a;
  int64_t lda;
  const evoq_packed* packed;
  Kind kind;
  C* c;
  int64_t ldc;

  bool usable() const { return packed != nullptr && packed->kind == kind; }
  int64_t n() const { return usable() ? packed->n : 0; }
  int64_t k() const { return usable() ? packed->k : 0; }
  bool empty() const { return m == 0 || n() == 0; }
  Stored<A> StoredA() const { return {a, m, k(), lda, transpose_a == EVOQ_TRANSPOSE, false}; }
  Stored<C> StoredC() const { return {c, m, n(), ldc, false, false}; }

  int Wrong(const PackedPlaces& at, bool beta_holds) const {
    return FirstBroken({{1, IsTranspose(transpose_a)},
                        {at.m, m >= 0},
                        {at.a, a != nullptr || empty() || k() == 0},
                        {at.lda, StoredA().LeadingFits()},
                        {at.packed, usable()},
                        {at.beta, beta_holds},
                        {at.c, c != nullptr || empty()},
                        {at.ldc, StoredC().LeadingFits()}});
  }
  bool Fits() const { return StoredA().Fits() && StoredC().Fits(); }
};

template <typename T>
int MultiplyPackedFloats(const PackedCall<T, float>& x, float alpha, float beta) {
  if (const int wrong = x.Wrong(kPackedFloats, true)) return wrong;
  if (x.empty()) return 0;
  if (!x.Fits()) return EVOQ_GEMM_NO_MEMORY;
  const FloatProduct<T> product = {
      x.m, x.n(), x.k(), alpha, x.StoredA().View(),
      {},  beta,  x.c,   x.ldc, &std::get<PackedFloats>(x.packed->matrix)};
  return Run([&](evoq::Isa isa, Workspace& workspace) { evoq::Multiply(product, isa, workspace); });
}

template <typename A>
int MultiplyPackedBytes(const PackedCall<A, int32_t>& x, int32_t a_zero, int32_t beta) {
  if (const int wrong = x.Wrong(kPackedInts, beta == 0 || beta == 1)) return wrong;
  if (x.empty()) return 0;
  if (!x.Fits()) return EVOQ_GEMM_NO_MEMORY;
  const ProductInt8 product = {x.m,       x.n(), x.k(), Operand(x.StoredA(), a_zero),           {},
                               beta == 1, x.c,   x.ldc, &std::get<PackedInt8>(x.packed->matrix)};
  return Run([&](evoq::Isa isa, Workspace& workspace) { evoq::Multiply(product, isa, workspace); });
}

}  // namespace

int evoq_gemm_set_threads(int threads) {
  if (threads < 0 || threads > EVOQ_GEMM_MOST_THREADS) return 1;
  const evoq::ThreadState state;  // that its threads inherit
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
  return MultiplyFloats<ProductF32, float, float>(
      {order, transpose_a, transpose_b, m, n, k, a, lda, b, ldb, c, ldc}, alpha, beta);
}

int evoq_dgemm(evoq_order order, evoq_transpose transpose_a, evoq_transpose transpose_b, int64_t m,
               int64_t n, int64_t k, double alpha, const double* a, int64_t lda, const double* b,
               int64_t ldb, double beta, double* c, int64_t ldc) {
  return MultiplyFloats<evoq::ProductF64, double, double>(
      {order, transpose_a, transpose_b, m, n, k, a, lda, b, ldb, c, ldc}, alpha, beta);
}

int evoq_gemm_bf16(evoq_order order, evoq_transpose transpose_a, evoq_transpose transpose_b,
                   int64_t m, int64_t n, int64_t k, float alpha, const uint16_t* a, int64_t lda,
                   const uint16_t* b, int64_t ldb, float beta, float* c, int64_t ldc) {
  return MultiplyFloats<ProductBf16, uint16_t, float>(
      {order, transpose_a, transpose_b, m, n, k, a, lda, b, ldb, c, ldc}, alpha, beta);
}

int evoq_gemm_u8s8s32(evoq_order order, evoq_transpose transpose_a, evoq_transpose transpose_b,
                      int64_t m, int64_t n, int64_t k, const uint8_t* a, int64_t lda,
                      int32_t a_zero, const int8_t* b, int64_t ldb, int32_t b_zero, int32_t beta,
                      int32_t* c, int64_t ldc) {
  return MultiplyBytes<uint8_t>({order, transpose_a, transpose_b, m, n, k, a, lda, b, ldb, c, ldc},
                                a_zero, b_zero, beta);
}

int evoq_gemm_s8s8s32(evoq_order order, evoq_transpose transpose_a, evoq_transpose transpose_b,
                      int64_t m, int64_t n, int64_t k, const int8_t* a, int64_t lda, int32_t a_zero,
                      const int8_t* b, int64_t ldb, int32_t b_zero, int32_t beta, int32_t* c,
                      int64_t ldc) {
  return MultiplyBytes<int8_t>({order, transpose_a, transpose_b, m, n, k, a, lda, b, ldb, c, ldc},
                               a_zero, b_zero, beta);
}

void evoq_gemm_free(evoq_packed* packed) { delete packed; }

int evoq_sgemm_pack(evoq_transpose transpose_b, int64_t n, int64_t k, const float* b, int64_t ldb,
                    evoq_packed** packed) {
  return MakePacked(Kind::kFloat32, transpose_b, n, k, b, ldb, packed, 6,
                    [&](const Stored<float>& x, evoq::Isa isa, Workspace& workspace) {
                      return evoq::Pack(x.View(), k, n, isa, workspace);
                    });
}

int evoq_gemm_bf16_pack(evoq_transpose transpose_b, int64_t n, int64_t k, const uint16_t* b,
                        int64_t ldb, evoq_packed** packed) {
  return MakePacked(Kind::kBfloat16, transpose_b, n, k, b, ldb, packed, 6,
                    [&](const Stored<uint16_t>& x, evoq::Isa isa, Workspace& workspace) {
                      return evoq::Pack(x.View(), k, n, isa, workspace);
                    });
}

int evoq_gemm_s8_pack(evoq_transpose transpose_b, int64_t n, int64_t k, const int8_t* b,
                      int64_t ldb, int32_t b_zero, evoq_packed** packed) {
  return MakePacked(Kind::kInt8, transpose_b, n, k, b, ldb, packed, 7,
                    [&](const Stored<int8_t>& x, evoq::Isa isa, Workspace& workspace) {
                      return evoq::Pack(Operand(x, b_zero), k, n, isa, workspace);
                    });
}

int evoq_sgemm_packed(evoq_transpose transpose_a, int64_t m, float alpha, const float* a,
                      int64_t lda, const evoq_packed* packed, float beta, float* c, int64_t ldc) {
  return MultiplyPackedFloats<float>({transpose_a, m, a, lda, packed, Kind::kFloat32, c, ldc},
                                     alpha, beta);
}

int evoq_gemm_bf16_packed(evoq_transpose transpose_a, int64_t m, float alpha, const uint16_t* a,
                          int64_t lda, const evoq_packed* packed, float beta, float* c,
                          int64_t ldc) {
  return MultiplyPackedFloats<uint16_t>({transpose_a, m, a, lda, packed, Kind::kBfloat16, c, ldc},
                                        alpha, beta);
}

int evoq_gemm_u8s8s32_packed(evoq_transpose transpose_a, int64_t m, const uint8_t* a, int64_t lda,
                             int32_t a_zero, const evoq_packed* packed, int32_t beta, int32_t* c,
                             int64_t ldc) {
  return MultiplyPackedBytes<uint8_t>({transpose_a, m, a, lda, packed, Kind::kInt8, c, ldc}, a_zero,
                                      beta);
}

int evoq_gemm_s8s8s32_packed(evoq_transpose transpose_a, int64_t m, const int8_t* a, int64_t lda,
                             int32_t a_zero, const evoq_packed* packed, int32_t beta, int32_t* c,
                             int64_t ldc) {
  return MultiplyPackedBytes<int8_t>({transpose_a, m, a, lda, packed, Kind::kInt8, c, ldc}, a_zero,
                                     beta);
}
