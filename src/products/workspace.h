// What products of matrices that lie anywhere work in and read.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/aligned.h"
#include "base/thread_pool.h"

namespace evoq {

// Element (i, j) is data[i * row_stride + j * column_stride]; one of the strides is 1.
template <typename T>
struct Strided {
  const T* data;
  int64_t row_stride, column_stride;
};

// What products of one caller at a time work in.
struct Workspace {
  explicit Workspace(int threads) : pool(threads) {}

  // At least so many bytes, of any content, 64-byte aligned. Throws std::bad_alloc.
  std::byte* Scratch(int64_t bytes) {
    const auto size = static_cast<size_t>(bytes);
    if (buffer.size() < size) buffer = AlignedBuffer(size);
    return buffer.data();
  }

  ThreadPool pool;
  AlignedBuffer buffer;
};

// c[j] *= beta for j < n; with beta 0, c is not read.
template <typename T>
void ScaleRow(T beta, int64_t n, T* c) {
  for (int64_t j = 0; j < n; ++j) c[j] = beta == 0 ? 0 : c[j] * beta;
}

// What is left of a product without terms.
template <typename Product>
void ScaleC(const Product& p) {
  for (int64_t i = 0; i < p.m; ++i) ScaleRow(p.beta, p.n, p.c + i * p.c_stride);
}

}  // namespace evoq
