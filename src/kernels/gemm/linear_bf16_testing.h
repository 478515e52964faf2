// For tests of the bfloat16 linear kernels: a call, its exact result in double precision and the
// largest error that the kernels may make.
#pragma once

#include <cmath>

#include "kernels/gemm/linear_f32_testing.h"
#include "kernels/test_util.h"

namespace evoq {

struct LinearCaseBf16 {
  TestCall call;
  LinearCaseF32 exact;  // its expected values and bounds, in y's order
};

inline Tensor RandomBf16(const Shape& shape, std::mt19937& random) {
  Tensor t = Tensor::Allocate(TensorType(DType::kBfloat16, shape));
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (int64_t i = 0; i < t.elements(); ++i)
    t.mutable_data<uint16_t>()[i] = FloatToBfloat16(uniform(random));
  return t;
}

// The value at element i; 0 for an input that is not there.
inline double At(const Tensor& t, int64_t i) {
  if (!t.defined()) return 0;
  return t.dtype() == DType::kBfloat16 ? Bfloat16ToFloat(t.data<uint16_t>()[i])
                                       : t.data<float>()[i];
}

inline TensorType BfloatOrFloat(const Shape& shape, std::mt19937& random) {
  return TensorType(random() % 4 == 0 ? DType::kFloat32 : DType::kBfloat16, shape);
}

// Adds bias (when `bias`), residual (when `residual`) and a random activation to a call.
inline void AddExtras(const Shape& y, int64_t channels, std::mt19937& random, LinearCaseBf16& c) {
  c.call.outputs = {BfloatOrFloat(y, random)};
  c.call.inputs.resize(4);
  if (random() % 2 == 0) c.call.inputs[2] = RandomF32(Shape{channels}, random);
  if (random() % 3 == 0) {
    c.call.inputs[3] = BfloatOrFloat(y, random).dtype == DType::kFloat32 ? RandomF32(y, random)
                                                                         : RandomBf16(y, random);
  }
  ActivationToAttrs(RandomActivation(random), c.call.attrs);
}

// Element i of y is the activation of sum + bias[channel] + residual[i]; `magnitude` is the sum of
// the products' absolute values, k their number. vdpbf16ps flushes denormals: 2^-126 for each
// product.
inline void Expect(LinearCaseBf16& c, int64_t i, double sum, double magnitude, int64_t k,
                   int64_t channel) {
  const double bias = At(c.call.inputs[2], channel), residual = At(c.call.inputs[3], i);
  ExpectActivated(*ActivationFromAttrs(c.call.attrs), sum + bias + residual,
                  magnitude + std::fabs(bias) + std::fabs(residual), k, c.exact);
  double& bound = c.exact.bound.back();
  bound += static_cast<double>(k + 1) * 0x1p-126;
  // Rounding to 8 significant bits, of a value that may be off by the bound.
  if (c.call.outputs[0].dtype == DType::kBfloat16)
    bound += 0x1p-8 * (std::fabs(c.exact.expected.back()) + bound) + 0x1p-126;
}

inline void CheckLinearBf16(const KernelDef& kernel, const LinearCaseBf16& c,
                            const std::string& label) {
  const auto why = RejectOf(kernel, c.call);
  ASSERT_FALSE(why) << label << ": " << why->sentence;
  for (Isa isa : TestIsas()) {
    const Tensor y = RunKernel(kernel, c.call, isa)[0];
    ASSERT_EQ(y.elements(), static_cast<int64_t>(c.exact.expected.size())) << label;
    for (int64_t i = 0; i < y.elements(); ++i) {
      ASSERT_LE(std::fabs(At(y, i) - c.exact.expected[i]), c.exact.bound[i])
          << label << " on " << IsaName(isa) << ", element " << i << ": " << At(y, i)
          << ", expected " << c.exact.expected[i];
    }
    static int runs = 0;
    const int threads = 2 + runs++ % 2;
    ASSERT_EQ(FirstDifference(RunKernel(kernel, c.call, isa, threads)[0], y), "")
        << label << " on " << IsaName(isa) << " differs with " << threads << " threads";
  }
}

}  // namespace evoq
