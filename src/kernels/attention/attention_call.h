// Attention's inputs and sizes, read once from a call.
#pragma once

#include <algorithm>

#include "base/math.h"
#include "kernels/attention/attention_inputs.h"
#include "kernels/attention/heads.h"

namespace evoq {

inline constexpr int kInt8RowsStep = 16;    // that the sizes of rows are multiples of
inline constexpr int kInt8MostBlock = 512;  // elements with one scale whose sums fit an int32

// Keys or values, of [batch, kv heads, length, size]: those of the past, then the new ones.
struct AttentionCache {
  Heads past, now;  // past.length is 0 where there is none
  DType dtype = DType::kFloat32;
  int64_t block = 0;     // of int8 elements with one scale
  bool present = false;  // is an output too

  int64_t length() const { return past.length + now.length; }
  int64_t element_bytes() const { return DTypeBits(dtype) / 8; }
  int64_t blocks() const { return CeilDiv(now.size, block); }  // of a row
  // Rows whose pairs of integers fill vectors and blocks, and whose sums of products fit an int32
  // (attention_int8.h).
  bool in_integers() const {
    const int64_t least = std::min(block, now.size);
    return dtype == DType::kInt8 && now.size > 0 && now.size % kInt8RowsStep == 0 &&
           least % kInt8RowsStep == 0 && least <= kInt8MostBlock;
  }
};

struct AttentionCall {
  Heads q, y;
  AttentionCache k, v;
  int64_t group = 1;  // query heads of a key head
  float scale = 1, softcap = 0;
  bool causal = false;
  int64_t left = -1, right = -1;  // of the window; -1: no bound
  bool has_lengths = false, wide_lengths = true, has_sinks = false;
  // The mask: a bias, or bools; strides of batch, heads and queries, 0 where it is broadcast.
  bool has_mask = false, bools = false;
  int64_t mask_strides[3] = {0, 0, 0}, mask_keys = 0;

  int64_t keys() const { return k.length(); }
  int64_t past() const { return k.past.length; }
  bool in_integers() const { return k.in_integers() && v.in_integers(); }
};

// Why the kernel does not take the call; fills `read` where it does.
std::optional<Reason> ReadAttention(const KernelCall& call, AttentionCall& read);

}  // namespace evoq
