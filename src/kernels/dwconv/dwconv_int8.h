// What the kernels of int8 depthwise convolutions share: their arrays.
#pragma once

#include <vector>

#include "base/aligned.h"
#include "kernels/dwconv/dwconv_call.h"
#include "kernels/gemm/int8_finish.h"

namespace evoq {

// DwInt8Args and the arrays that they point to.
struct DwInt8State {
  DwInt8Args args;
  AlignedBuffer pairs, float_taps, taps, bias, multiplier, slopes, padding;
  AlignedBuffer ring, ring_bias, ring_multiplier, ring_wide, padding_row;
  Int8Finish finish;
  Isa isa;
  int64_t grain;

  // The arrays of weights, from layout taps-c; args.shape and isa are set.
  void SetWeights(const TensorType& type, const std::byte* packed);
  // Of PRelu, or of LeakyRelu for all channels; nothing for another activation.
  void SetSlopes(const ProductActivation& product);
  // Those of square kernels, where the rows take the shape so, from those of the weights, bias,
  // multiplier and padding. args.shape and args.taps get the kernel, with zeros.
  void SetRing();
  // Pieces of rows for this many threads.
  void SetGrain(int threads);

 private:
  void SetPairs();
  void SetFloatTaps();
  void FillUp(int64_t kernel);
  void SetRing64();
  void SetRing16();
};

// The channel behind entry i of args.ring_bias, or -1.
int64_t DwRingChannel(const DwInt8Args& args, int64_t i);

}  // namespace evoq
