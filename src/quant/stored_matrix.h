// Weights as files hold them, read as float32 a few at a time.
#pragma once

#include <cstdint>

#include "kernels/isa_table.h"
#include "tensor/tensor.h"

namespace evoq {

// Runs of `depth` elements, one every `step` elements, as float32; whether all are finite.
struct StoredLoops {
  // Element i of run j, j < count, becomes to[j * stride + i] (rows), or to[i * stride + j]
  // (columns).
  using Read = bool (*)(const std::byte* from, int64_t step, int64_t depth, int64_t count,
                        float* to, int64_t stride);
  struct Of {
    Read rows, columns;
  };
  Of float32, float16, bfloat16;

  float (*largest)(const float* w, int64_t count);  // of the magnitudes
  // q[i]: w[i] / scale, rounded half to even, in [-127, 127].
  void (*round)(const float* w, float scale, int64_t count, int8_t* q);

  const Of& For(DType dtype) const {
    return dtype == DType::kFloat16 ? float16 : dtype == DType::kBfloat16 ? bfloat16 : float32;
  }
};
EVOQ_ISA_TABLE(StoredLoops)

// A matrix [K, N] of plain float32, float16 or bfloat16; or its transposed one, [N, K], as files of
// language models hold weights.
struct StoredMatrix {
  Tensor stored;
  bool transposed = false;

  int64_t depth() const { return stored.sizes()[transposed ? 1 : 0]; }
  int64_t columns() const { return stored.sizes()[transposed ? 0 : 1]; }
  Shape shape() const { return Shape{depth(), columns()}; }

  // Elements (k + i, n + j), i < rows, j < count, to tile[i * stride + j]. Whether all are finite.
  bool Read(const StoredLoops& loops, int64_t k, int64_t rows, int64_t n, int64_t count,
            float* tile, int64_t stride) const;
  // Asks memory for what Read of the same elements reads, beside other work. Elements that the
  // matrix has not are none.
  void Ask(int64_t k, int64_t rows, int64_t n, int64_t count) const;
};

// QuantizeWeight (quant/params.h) of what lies in the file by channels: a transposed matrix with a
// scale for each column, an other one with a scale for each row, or with one scale for all (axis
// -1). The result, of the matrix's own shape, does not depend on `threads`. Errors: kInvalidInput
// for a NaN or an infinity.
Result<Tensor> QuantizeStored(const StoredMatrix& weight, int axis, int threads);

// The error of both.
tl::unexpected<Error> NotFinite(const Shape& shape);

}  // namespace evoq
