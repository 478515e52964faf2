// The products that gradients are made of.
#pragma once

#include "products/float_product.h"
#include "train/gradient.h"

namespace evoq {

struct ProductForm {
  float alpha = 1, beta = 0;
  int64_t c_stride = 0;  // 0: n
};

// c [m, n] = alpha a [m, k] b [k, n] + beta c.
inline void Product(const GradientRun& run, int64_t m, int64_t n, int64_t k, Strided<float> a,
                    Strided<float> b, float* c, const ProductForm& form = {}) {
  Multiply(ProductF32{.m = m,
                      .n = n,
                      .k = k,
                      .alpha = form.alpha,
                      .a = a,
                      .b = b,
                      .beta = form.beta,
                      .c = c,
                      .c_stride = form.c_stride != 0 ? form.c_stride : n},
           run.isa, *run.workspace);
}

// Rows of `columns` numbers, and the same turned around.
inline Strided<float> Rows(const float* x, int64_t columns) { return {x, columns, 1}; }
inline Strided<float> Turned(const float* x, int64_t columns) { return {x, 1, columns}; }

}  // namespace evoq
