// A tensor as it lies in a file that the process has mapped.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "tensor/tensor.h"

namespace evoq {

struct BlockFormat;  // llm/block_format.h

struct StoredTensor;

// A matrix [outputs, inputs] that several tensors make (llm/checkpoint_format.h).
struct JoinedWeight {
  std::string format;  // "GPTQ int4"
  // [inputs, outputs], as MatMul takes it. Errors: kInvalidInput for what the numbers are not;
  // kTooLarge.
  std::function<Result<Tensor>()> constant;
  std::vector<int64_t> order;       // input k of the constant is input order[k]; empty: k
  std::vector<StoredTensor> parts;  // what `constant` reads
  // Instead of `constant`, where the tensors tell the number of elements alone, which is then the
  // only size: the matrix of these sizes. Errors: kInvalidInput for sizes that do not fit.
  std::function<Result<StoredTensor>(int64_t outputs, int64_t inputs)> shaped;
};

// Row-major elements of a type, rows of quantized blocks, or what several tensors make. Nothing of
// it is copied: `bytes` are the file's, which `owner` keeps mapped.
struct StoredTensor {
  std::vector<int64_t> sizes;
  DType dtype = DType::kUndefined;      // of plain elements
  const BlockFormat* blocks = nullptr;  // else what encodes each row: the last size, in blocks
  // What the values of blocks are multiplied by: one for all, or one for each matrix of a stack;
  // empty: 1. Positive.
  std::vector<float> factors;
  std::shared_ptr<const JoinedWeight> joined;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;

  // "bfloat16[512, 64]", "Q4_0[512, 64]".
  std::string ToString() const;
};

using StoredTensors = std::map<std::string, StoredTensor, std::less<>>;

// Plain elements as a tensor: a view of the file where they are aligned for their type, else a
// copy. `sizes` replaces the tensor's own and has as many elements. Errors: kTooLarge for a copy
// that the memory does not hold; kUnsupported for blocks.
Result<Tensor> PlainTensor(const StoredTensor& stored, const std::vector<int64_t>& sizes);

// The stretch of `tensor` in its file. Errors: kInvalidInput when stretches overlap, or when
// `no_gaps` and they leave bytes of [0, size) that belong to no tensor, naming both tensors.
struct Stretch {
  std::string tensor;
  uint64_t begin = 0, end = 0;
};
Status CheckStretches(std::vector<Stretch> stretches, uint64_t size, bool no_gaps);

}  // namespace evoq
