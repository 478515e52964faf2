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
struct ProductSpace {
  explicit ProductSpace(int threads) : pool(threads) {}

  // At least so many bytes, of any content, 64-byte aligned. Throws std::bad_alloc.
  std::byte* Room(int64_t bytes) {
    const auto size = static_cast<size_t>(bytes);
    if (buffer.size() < size) buffer = AlignedBuffer(size);
    return buffer.data();
  }

  ThreadPool pool;
  AlignedBuffer buffer;
};

}  // namespace evoq
