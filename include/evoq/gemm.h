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
 * the codes below; C is then as it was. They may be called from several threads at once; calls that
 * find the threads busy run on their own. A call takes up to 256 KiB of its thread's stack. */
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

#ifdef __cplusplus
}
#endif

#endif /* EVOQ_GEMM_H_ */
