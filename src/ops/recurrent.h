// What inference and evaluation of RNN, GRU and LSTM share.
#pragma once

#include <string>
#include <vector>

#include "kernels/math/unary.h"
#include "ops/util.h"

namespace evoq {

// A function of kernels/math/unary.h, or Affine, alpha * x + beta, or ScaledTanh, alpha * tanh(beta
// * x).
struct GateFn {
  enum Form { kUnary, kAffine, kScaledTanh };
  Form form = kUnary;
  Unary unary;
};

// The attribute activations, `defaults` for each direction when it is missing; alphas and betas go
// to those that take them, in order.
Result<std::vector<GateFn>> GateFnsOf(const Attrs& attrs, const std::vector<std::string>& defaults,
                                      int64_t directions);

}  // namespace evoq
