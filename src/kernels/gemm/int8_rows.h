// Where the activations of an integer convolution lie: for each output pixel and tap, a pointer to
// the input pixel's bytes (an indirection table instead of an im2col copy). A matrix product is a
// 1x1 convolution whose batch are the rows.
#pragma once

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/gemm/gemm_int8_tile.h"

namespace evoq {

// A channels-last convolution; fewer than three spatial dimensions have leading ones. All sizes are
// >= 0, kernels, strides and dilations >= 1, `in` x `channels` fit memory, and `out` is what ONNX's
// formula gives.
struct Int8Geometry {
  int64_t batch = 1;
  int64_t in[3] = {1, 1, 1};
  int64_t kernel[3] = {1, 1, 1};
  int64_t stride[3] = {1, 1, 1};
  int64_t dilation[3] = {1, 1, 1};
  int64_t pad[3] = {0, 0, 0};  // at the beginning; the end follows from `out`
  int64_t out[3] = {1, 1, 1};
  int64_t channels = 1;  // of all groups
  int64_t out_channels = 1;
  int64_t group = 1;

  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t rows() const { return batch * out[0] * out[1] * out[2]; }
  int64_t group_channels() const { return channels / group; }
  int64_t group_columns() const { return out_channels / group; }
};

class Int8Rows {
 public:
  // `group_bytes`: bytes per pixel and group that the kernel reads, at least group_channels(). When
  // it is more, or when `flip` (int8 activations become uint8 by adding 128), the input is copied
  // into scratch: spatially padded, each group's channels followed by zeros. `merge`: neighbouring
  // taps of a kernel row may become one longer tap, for which few channels are copied too, and taps
  // may have offsets; `pad`: for which any number of channels are.
  Int8Rows(const Int8Geometry& geometry, int64_t group_bytes, bool flip, bool merge,
           bool pad = false);

  int64_t count() const { return rows_; }
  int64_t taps() const { return outer_taps_ * inner_taps_; }
  // Where no tap of any output lies outside, a row has one pointer, and tap t lies tap_offsets()[t]
  // bytes behind it.
  int64_t pointers_per_row() const { return tap_offsets_.empty() ? taps() : 1; }
  const int64_t* tap_offsets() const {
    return tap_offsets_.empty() ? nullptr : tap_offsets_.data();
  }
  // Whether the rows lie one behind the other.
  bool dense() const { return dense_; }
  int64_t tap_bytes() const { return tap_bytes_; }      // per group and tap
  int64_t pixel_bytes() const { return pixel_bytes_; }  // distance of neighbouring pixels
  int64_t group_bytes() const { return group_bytes_; }
  size_t scratch_bytes() const { return scratch_bytes_; }

  // The prepared input of one run.
  struct Input {
    const uint8_t* x;
    const uint8_t* padding;  // a tap of zero points
  };
  // `zero` is the zero point of the stored (not yet flipped) activations.
  Input Prepare(const Int8TileDef& isa, const void* x, int32_t zero, std::byte* scratch,
                ThreadPool& pool) const;

  // pointers[(i / tile * taps() + tap) * tile + i % tile], or pointers[i] with offsets, for output
  // pixels begin + i, i < count.
  void Pointers(const Int8TileDef& isa, const Input& input, int64_t begin, int64_t count,
                int64_t tile, const uint8_t** pointers) const;

 private:
  void CopyRow(const Int8TileDef& isa, const uint8_t* from, uint8_t* to) const;
  void CopyPadded(const Int8TileDef& isa, const uint8_t* x, const uint8_t* padding, uint8_t* to,
                  ThreadPool& pool) const;

  Int8Geometry source_;     // as given
  int64_t extent_[3] = {};  // spatial sizes of the buffer that pointers go into
  int64_t rows_ = 0;
  int64_t group_bytes_ = 0, pixel_bytes_ = 0, tap_bytes_ = 0;
  int64_t outer_taps_ = 1, inner_taps_ = 1;
  uint8_t flip_ = 0;
  bool copy_ = false, dense_ = false;
  size_t padding_bytes_ = 0, scratch_bytes_ = 0;
  // Byte offsets within an image, -1 for padding: [out depth x out height][kernel depth x height],
  // [taps][out width].
  std::vector<int64_t> outer_, inner_, tap_offsets_;
};

}  // namespace evoq
