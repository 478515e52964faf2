/* Matrix products on the kernels that evoq's models run on, in the shape of CBLAS: stable, for
 * programs that multiply matrices of their own. docs/gemm.md.
 *
 *   C = alpha op(A) op(B) + beta C        op(A) [m, k], op(B) [k, n], C [m, n]
 *
 * Element (i, j) of a row-major matrix X is X[i * ldx + j], of a column-major one X[i + j * ldx];
 * the leading dimension ldx is at least the length of a row (column), of the matrix as it is
 * stored. With beta 0, C is written only. No element of C may be one of A or B. Results do not
 * depend on the number of threads.
 *
 * Functions return 0, or the number of the first invalid argument (the first one is 1), or one of
 * the codes below; C is then as it was. They may be called from several threads at once; a call
 * that finds the threads busy runs on its caller's. It takes up to 384 KiB of the caller's stack.
 */
#ifndef EVOQ_GEMM_H_
#define EVOQ_GEMM_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* CBLAS's numbers. */
typedef enum { EVOQ_ROW_MAJOR = 101, EVOQ_COLUMN_MAJOR = 102 } evoq_order;
typedef enum { EVOQ_NO_TRANSPOSE = 111, EVOQ_TRANSPOSE = 112 } evoq_transpose;

enum {
  EVOQ_GEMM_NO_MEMORY = -1, /* the system refuses memory or threads */
  EVOQ_GEMM_NO_TARGET = -2, /* EVOQ_TARGET names no instruction set of this machine */
  EVOQ_GEMM_MOST_THREADS = 1024
};

/* Sets the number of threads that the products of this process share; 0: all physical cores, the
 * default. Returns 0; 1 where the number is negative or above EVOQ_GEMM_MOST_THREADS, or the system
 * refuses the threads. */
int evoq_gemm_set_threads(int threads);

int evoq_sgemm(evoq_order order, evoq_transpose transpose_a, evoq_transpose transpose_b, int64_t m,
               int64_t n, int64_t k, float alpha, const float* a, int64_t lda, const float* b,
               int64_t ldb, float beta, float* c, int64_t ldc);

int evoq_dgemm(evoq_order order, evoq_transpose transpose_a, evoq_transpose transpose_b, int64_t m,
               int64_t n, int64_t k, double alpha, const double* a, int64_t lda, const double* b,
               int64_t ldb, double beta, double* c, int64_t ldc);

/* bfloat16 A and B, the upper halves of float32; sums and C are float32 (docs/bf16.md). */
int evoq_gemm_bf16(evoq_order order, evoq_transpose transpose_a, evoq_transpose transpose_b,
                   int64_t m, int64_t n, int64_t k, float alpha, const uint16_t* a, int64_t lda,
                   const uint16_t* b, int64_t ldb, float beta, float* c, int64_t ldc);

/* C = (op(A) - a_zero) (op(B) - b_zero) + beta C, exact modulo 2^32; beta is 0 or 1. */
int evoq_gemm_u8s8s32(evoq_order order, evoq_transpose transpose_a, evoq_transpose transpose_b,
                      int64_t m, int64_t n, int64_t k, const uint8_t* a, int64_t lda,
                      int32_t a_zero, const int8_t* b, int64_t ldb, int32_t b_zero, int32_t beta,
                      int32_t* c, int64_t ldc);
int evoq_gemm_s8s8s32(evoq_order order, evoq_transpose transpose_a, evoq_transpose transpose_b,
                      int64_t m, int64_t n, int64_t k, const int8_t* a, int64_t lda, int32_t a_zero,
                      const int8_t* b, int64_t ldb, int32_t b_zero, int32_t beta, int32_t* c,
                      int64_t ldc);

/* op(B), packed once for many products. All matrices are row-major. A packed matrix may be read by
 * several threads at once; it is freed by evoq_gemm_free, and `*packed` is null where packing
 * failed. A product with one that another function packed is refused. */
typedef struct evoq_packed evoq_packed;
void evoq_gemm_free(evoq_packed* packed);

int evoq_sgemm_pack(evoq_transpose transpose_b, int64_t n, int64_t k, const float* b, int64_t ldb,
                    evoq_packed** packed);
int evoq_sgemm_packed(evoq_transpose transpose_a, int64_t m, float alpha, const float* a,
                      int64_t lda, const evoq_packed* packed, float beta, float* c, int64_t ldc);

int evoq_gemm_bf16_pack(evoq_transpose transpose_b, int64_t n, int64_t k, const uint16_t* b,
                        int64_t ldb, evoq_packed** packed);
int evoq_gemm_bf16_packed(evoq_transpose transpose_a, int64_t m, float alpha, const uint16_t* a,
                          int64_t lda, const evoq_packed* packed, float beta, float* c,
                          int64_t ldc);

int evoq_gemm_s8_pack(evoq_transpose transpose_b, int64_t n, int64_t k, const int8_t* b,
                      int64_t ldb, int32_t b_zero, evoq_packed** packed);
int evoq_gemm_u8s8s32_packed(evoq_transpose transpose_a, int64_t m, const uint8_t* a, int64_t lda,
                             int32_t a_zero, const evoq_packed* packed, int32_t beta, int32_t* c,
                             int64_t ldc);
int evoq_gemm_s8s8s32_packed(evoq_transpose transpose_a, int64_t m, const int8_t* a, int64_t lda,
                             int32_t a_zero, const evoq_packed* packed, int32_t beta, int32_t* c,
                             int64_t ldc);

#ifdef __cplusplus
}
#endif

#endif /* EVOQ_GEMM_H_ */
