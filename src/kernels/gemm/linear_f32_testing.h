// For tests of the float32 linear kernels: runs one kernel on tensors, on every instruction set,
// with 1, 2 and 3 threads and guard bytes around the output.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/aligned.h"
#include "base/isa.h"
#include "kernels/activation.h"
#include "kernels/kernel.h"

namespace evoq {

struct LinearCaseF32 {
  std::string name;
  const KernelDef* kernel = nullptr;
  Attrs attrs;
  std::vector<Tensor> inputs;  // undefined: omitted
  std::vector<bool> constant;  // per input
  TensorType output;
  std::string variant;  // BindOptions::variant
  const CpuModel* cpu = &CpuModelHere();
  // The exact result and the largest error that float32 arithmetic may make.
  std::vector<double> expected, bound;
};

// Unit roundoff of float32.
inline constexpr double kUnitF32 = 0x1p-24;

// Activation of an exact pre-activation v whose float32 computation over k products errs by at most
// (k + 4) u * magnitude; magnitude is the sum of the absolute values of all terms. Every activation
// has a slope of at most 1.2; its own computation errs by a few units in the last place of the
// intermediate values.
inline void ExpectActivated(const Activation& activation, double v, double magnitude, int64_t k,
                            LinearCaseF32& c) {
  double y = v;
  switch (activation.kind) {
    case ActivationKind::kNone: break;
    case ActivationKind::kRelu: y = std::max(v, 0.0); break;
    case ActivationKind::kClip:
      y = std::min<double>(std::max<double>(v, activation.alpha), activation.beta);
      break;
    case ActivationKind::kLeakyRelu: y = v < 0 ? v * activation.alpha : v; break;
    case ActivationKind::kHardSwish: y = v * std::clamp(v / 6 + 0.5, 0.0, 1.0); break;
    case ActivationKind::kSilu: y = v / (1 + std::exp(-v)); break;
    case ActivationKind::kSigmoid: y = 1 / (1 + std::exp(-v)); break;
    case ActivationKind::kTanh: y = std::tanh(v); break;
    case ActivationKind::kPRelu: ADD_FAILURE() << "a slope for each channel"; break;
    case ActivationKind::kGelu: y = 0.5 * v * (1 + std::erf(v / std::sqrt(2.0))); break;
  }
  c.expected.push_back(y);
  const double own =
      activation.kind == ActivationKind::kNone ? 0 : 8 * kUnitF32 * std::max(1.0, std::fabs(v));
  c.bound.push_back(1.2 * static_cast<double>(k + 4) * kUnitF32 * magnitude + own);
}

inline Tensor RandomF32(const Shape& shape, std::mt19937& random) {
  Tensor t = Tensor::Allocate(TensorType(DType::kFloat32, shape));
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (int64_t i = 0; i < t.elements(); ++i) t.mutable_data<float>()[i] = uniform(random);
  return t;
}

inline Activation RandomActivation(std::mt19937& random) {
  Activation a;
  a.kind = static_cast<ActivationKind>(random() % 9);
  if (a.kind == ActivationKind::kClip) a.alpha = -0.5f, a.beta = 0.75f;
  if (a.kind == ActivationKind::kLeakyRelu) a.alpha = 0.125f;
  return a;
}

// The output for one instruction set and number of threads; empty (and a test failure) when the
// kernel fails.
inline std::vector<float> RunLinearF32(const LinearCaseF32& c, Isa isa, int threads) {
  std::vector<TensorType> types;
  std::vector<const Tensor*> constants;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    types.push_back(c.inputs[i].type());
    constants.push_back(c.constant[i] && c.inputs[i].defined() ? &c.inputs[i] : nullptr);
  }
  const KernelCall plain{c.kernel->op, c.attrs, types, {&c.output, 1}, constants};
  if (const auto why = c.kernel->reject(plain)) {
    ADD_FAILURE() << c.name << ": rejected, " << why->code << ": " << why->sentence;
    return {};
  }
  std::vector<Tensor> packed(c.inputs.size());
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    if (constants[i] == nullptr) continue;
    auto result = c.kernel->pack(plain, i);
    EXPECT_TRUE(result) << c.name << ": " << (result ? "" : result.error().message());
    packed[i] = result && result->defined() ? *result : c.inputs[i];
  }
  for (size_t i = 0; i < constants.size(); ++i) {
    if (constants[i] != nullptr) constants[i] = &packed[i];
  }
  auto bound = c.kernel->bind(KernelCall{c.kernel->op, c.attrs, types, {&c.output, 1}, constants},
                              {isa, threads, c.variant, c.cpu});
  if (!bound) {
    ADD_FAILURE() << c.name << ": " << bound.error().message();
    return {};
  }
  constexpr size_t kGuard = 256;
  const size_t bytes = static_cast<size_t>(*c.output.bytes());
  AlignedBuffer scratch(bound->scratch_bytes + kGuard), output(bytes + 2 * kGuard);
  std::memset(scratch.data(), 0xcd, bound->scratch_bytes + kGuard);
  std::memset(output.data(), 0xcd, bytes + 2 * kGuard);
  std::vector<const void*> in;
  for (const Tensor& t : c.inputs) in.push_back(t.defined() ? t.raw() : nullptr);
  void* out = output.data() + kGuard;
  // One pool for all cases: starting threads takes longer than the cases do.
  static std::map<int, ThreadPool> pools;
  ThreadPool& pool = pools.try_emplace(threads, threads).first->second;
  bound->run(bound->state.get(), in.data(), &out, RunContext{pool, scratch.data()});
  for (size_t i = 0; i < kGuard; ++i) {
    if (output.data()[i] != std::byte{0xcd} ||
        output.data()[kGuard + bytes + i] != std::byte{0xcd} ||
        scratch.data()[bound->scratch_bytes + i] != std::byte{0xcd}) {
      ADD_FAILURE() << c.name << ": wrote outside its output or scratch";
      break;
    }
  }
  std::vector<float> y(bytes / sizeof(float));
  if (bytes > 0) std::memcpy(y.data(), out, bytes);
  return y;
}

inline void CheckLinearF32(const LinearCaseF32& c) {
  for (Isa isa : AllIsas()) {
    if (!IsaSupported(isa)) continue;
    const std::vector<float> y = RunLinearF32(c, isa, 1);
    ASSERT_EQ(y.size(), c.expected.size()) << c.name << " on " << IsaName(isa);
    for (size_t i = 0; i < y.size(); ++i) {
      ASSERT_LE(std::fabs(y[i] - c.expected[i]), c.bound[i])
          << c.name << " on " << IsaName(isa) << ", element " << i << ": " << y[i] << ", expected "
          << c.expected[i];
    }
    // 2 and 3 in turn: waking threads takes most of a case's time.
    static int runs = 0;
    const int threads = 2 + runs++ % 2;
    const std::vector<float> other = RunLinearF32(c, isa, threads);
    ASSERT_EQ(other.size(), y.size());
    ASSERT_TRUE(y.empty() || std::memcmp(y.data(), other.data(), y.size() * sizeof(float)) == 0)
        << c.name << " on " << IsaName(isa) << " differs with " << threads << " threads";
  }
}

}  // namespace evoq
