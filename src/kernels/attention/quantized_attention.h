// What inference, evaluation, the pass and the kernel of evoq::QuantizedAttention share.
//
//   evoq::QuantizedAttention(q, keys, values, mask?) -> y
//     q [..., m, d], keys [..., d, n], values [..., n, e], bytes with one scale each; mask:
//     float32, broadcasts to the scores [..., m, n], its last size is n; y [..., m, e]
//   scores = MatMul(factor q, keys), float32 [+ mask]   q with scale float32(scale_q * factor)
//   weights = QuantizeLinear(Softmax(scores), weights_scale, weights_zero_point), uint8
//   y = MatMul(weights, values)
//
// Each as defined for itself (kernels/requant.h): what stands for the four operators computes their
// bits. Attributes: factor (1), weights_scale, weights_zero_point (0).
#pragma once

#include "base/result.h"
#include "tensor/attrs.h"
#include "tensor/type.h"

namespace evoq {

struct AttentionWeights {
  float factor = 1;
  float scale = 1;
  int32_t zero_point = 0;

  // Errors: kInvalidInput for a factor or a scale that is not positive and finite, a zero point
  // that is no uint8.
  static Result<AttentionWeights> Of(const Attrs& attrs);
  // The weights as a value of this shape.
  TensorType Type(Shape shape) const;
  // q as it is multiplied.
  TensorType Scaled(const TensorType& q) const;
};

}  // namespace evoq
