// The functions of the gates of RNN, GRU and LSTM.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "kernels/math/unary_loops.h"
#include "tensor/attrs.h"

namespace evoq {

// A function of kernels/math/unary.h, or Affine, alpha * x + beta, or ScaledTanh, alpha * tanh(beta
// * x).
struct GateFn {
  enum Form { kUnary, kAffine, kScaledTanh };
  Form form = kUnary;
  Unary unary;
};

// The attribute activations, `defaults` for each direction when it is missing; alphas and betas go
// to those that take them, in order. Errors: kInvalidInput for another number of names, or a name
// that ONNX does not have.
Result<std::vector<GateFn>> GateFnsOf(const Attrs& attrs, const std::vector<std::string>& defaults,
                                      int64_t directions);

// y[i] = fn(y[i]) for i < n, the same bits on every instruction set.
void ApplyGate(const GateFn& fn, const UnaryTable& table, float* y, int64_t n);

}  // namespace evoq
