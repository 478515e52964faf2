// What products of float32 rows by constant weights share, however the weights are stored: the
// types of the other operands, and what follows the sums.
#pragma once

#include <optional>

#include "base/isa.h"
#include "base/reason.h"
#include "base/result.h"
#include "kernels/kernel.h"
#include "kernels/math/unary.h"

namespace evoq {

// Why a call is not data, bias and residual (inputs 0, 2, 3) to one output, all plain float32, with
// some input 1. `operands`: the names of data, weights and output, "a, b and y".
std::optional<Reason> RejectFloatOperands(const KernelCall& call, const char* operands);

// Of a product of `rows` rows.
struct FloatRows {
  int64_t rows = 0;
  bool has_bias = false, has_residual = false;
  std::optional<Unary> activation;
  Isa isa = Isa::kScalar;

  const float* bias(const void* const* in) const {
    return has_bias ? static_cast<const float*>(in[2]) : nullptr;
  }
  const float* residual(const void* const* in) const {
    return has_residual ? static_cast<const float*>(in[3]) : nullptr;
  }

  // Replaces `count` values of each row [begin, end) by their activation. `y`: the first of them in
  // row 0; rows are `step` apart.
  void Activate(float* y, int64_t step, int64_t begin, int64_t end, int64_t count) const;
};

// Errors: kInvalidInput for an unknown activation.
Result<FloatRows> FloatRowsOf(const KernelCall& call, int64_t rows, Isa isa);

}  // namespace evoq
