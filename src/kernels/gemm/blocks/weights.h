// Constant weights of a MatMul with data_block, as the products of product.h read them.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/reason.h"
#include "base/result.h"
#include "kernels/gemm/blocks/product.h"
#include "tensor/tensor.h"

namespace evoq {

// The integers that plain quantized weights are multiplied as (block_data.h), and what 1 of them
// stands for beside a scale. Errors: kUnsupported for weights of other types.
struct BlockIntegers {
  std::vector<int64_t> q;
  float unit = 1;
};
Result<BlockIntegers> BlockIntegersOf(const Tensor& weights);

// The cut of K for blocks of the weights, quantized elements of a type that has a stream, and of
// the data; blocks that K does not reach count as one that ends with it. Nothing where they have no
// common pieces.
std::optional<BlockCut> BlockCutOf(const TensorType& weights, int64_t data_block);

// Why weights of this type, a matrix, are not multiplied by blocks of `data_block` > 0, or nothing.
std::optional<Reason> RejectBlocks(const TensorType& weights, int64_t data_block);

// `weights`, of a type that passed RejectBlocks, as a stream (stream.h), which BindBlocks reads in
// place; an undefined tensor where they are packed, or a scale would be lost.
Result<Tensor> PackBlocks(const Tensor& weights);
// Whether this layout is that stream.
bool ReadsBlocks(const TensorType& weights, std::string_view layout);

struct BoundBlocks {
  BlockLines kind = BlockLines::kNibbles;
  int groups = 1;  // numbers in a byte of a line
  BlockStream stream = {};
  int64_t unit_bytes = 0;
  int32_t factor = 0;                     // of BlockTable::quantize
  std::optional<BlockStream> unpacked;    // what BlockTable::unpack_steps makes of one with steps
  int32_t offset = 0;                     // of u
  std::shared_ptr<const Tensor> weights;  // the stream; shared: copies of these cost little

  const uint8_t* bytes() const;
};

// Takes a stream as it is and packs what lies otherwise. Errors: kInvalidInput for bytes or scales
// that the type does not have.
Result<BoundBlocks> BindBlocks(const Tensor& weights, int64_t data_block);

}  // namespace evoq
