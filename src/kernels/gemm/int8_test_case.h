// Tests of the integer linear kernels: the expected output from the formulas of kernels/requant.h
// on plain tensors, and kernels run between guard pages and guard bytes.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "base/aligned.h"
#include "kernels/conv/tap_sums.h"
#include "kernels/gemm/int8_problem.h"
#include "kernels/layout.h"
#include "kernels/requant.h"

namespace evoq::int8_test {

inline int64_t ReadInteger(const Tensor& t, int64_t i) {
  const std::byte byte = t.raw()[i];
  return t.dtype() == DType::kUint8 ? static_cast<uint8_t>(byte) : static_cast<int8_t>(byte);
}

// acc = sum (x - zero_x) (w - zero_w) of one output element, without bias.
inline int32_t Accumulate(const Problem& p, int64_t row, int64_t m) {
  const Case& c = p.c;
  const auto x_zero = static_cast<int32_t>(c.x_zero);
  int64_t w_zero = 0;
  if (c.w_zeros > 0 && c.integer()) {
    w_zero = ReadInteger(p.data[3], p.data[3].elements() == 1 ? 0 : m);
  } else if (c.w_zeros > 0) {
    const QuantParams& q = *p.inputs[1].quant;
    w_zero = q.zero_points[q.per_tensor() ? 0 : static_cast<size_t>(m)];
  }
  int64_t acc = 0;
  if (!c.conv()) {
    for (int64_t k = 0; k < c.w[0]; ++k)
      acc += (ReadInteger(p.data[0], row * c.w[0] + k) - x_zero) *
             (ReadInteger(p.data[1], k * c.w[1] + m) - w_zero);
    return static_cast<int32_t>(acc);
  }
  const size_t rank = c.x.size() - 2;
  Ints position(rank);
  int64_t rest = row;
  for (size_t i = rank; i-- > 0; rest /= p.out[i]) position[i] = rest % p.out[i];
  const int64_t channels = c.w[1], group = m / (c.w[0] / c.group);
  int64_t taps = 1;
  for (size_t i = 0; i < rank; ++i) taps *= c.w[i + 2];
  for (int64_t tap = 0; tap < taps; ++tap) {
    int64_t pixel = 0, t = tap;
    bool inside = true;
    Ints at(rank);
    for (size_t i = rank; i-- > 0; t /= c.w[i + 2]) {
      at[i] = position[i] * (c.strides.empty() ? 1 : c.strides[i]) -
              (c.pads.empty() ? 0 : c.pads[i]) +
              t % c.w[i + 2] * (c.dilations.empty() ? 1 : c.dilations[i]);
      inside = inside && at[i] >= 0 && at[i] < c.x[i + 1];
    }
    if (!inside) continue;
    pixel = rest;
    for (size_t i = 0; i < rank; ++i) pixel = pixel * c.x[i + 1] + at[i];
    const int32_t x_flip = c.x_type == DType::kInt8 ? 0x80 : 0,
                  w_flip = c.w_type == DType::kInt8 ? 0x80 : 0;
    const auto* x =
        reinterpret_cast<const uint8_t*>(p.data[0].raw()) + pixel * c.x.back() + group * channels;
    const auto* w = reinterpret_cast<const uint8_t*>(p.data[1].raw()) + m * channels * taps + tap;
    for (int64_t k = 0; k < channels; ++k)
      acc += ((x[k] ^ x_flip) - x_flip - x_zero) * ((w[k * taps] ^ w_flip) - w_flip - w_zero);
  }
  return static_cast<int32_t>(acc);
}

inline Tensor Expected(const Problem& p) {
  const TensorType& type = p.outputs[0];
  Tensor y = Tensor::Allocate(type);
  const int64_t columns = p.c.conv() ? p.c.w[0] : p.c.w[1];
  const QuantParams* quant = p.c.table ? p.inputs[4].quant.get() : type.quant.get();
  const float y_scale = quant != nullptr ? quant->scales[0] : 1;
  for (int64_t i = 0; i < y.elements(); ++i) {
    const int64_t m = i % columns;
    int32_t acc = Accumulate(p, i / columns, m);
    if (p.c.integer()) {
      y.mutable_data<int32_t>()[i] = acc;
      continue;
    }
    const QuantParams& w = *p.inputs[1].quant;
    if (p.c.dynamic()) {
      float v = static_cast<float>(acc) * (p.data[4].data<float>()[0] *
                                           w.scales[w.per_tensor() ? 0 : static_cast<size_t>(m)]);
      if (p.data[2].defined()) v = v + p.data[2].data<float>()[m];
      if (p.data[3].defined()) v = v + p.data[3].data<float>()[i];
      y.mutable_data<float>()[i] = Apply(p.c.activation, v);
      continue;
    }
    if (p.data[2].defined()) acc += p.data[2].data<int32_t>()[m];
    float v = static_cast<float>(acc) *
              LinearMultiplier(p.inputs[0].quant->scales[0],
                               w.scales[w.per_tensor() ? 0 : static_cast<size_t>(m)], y_scale);
    if (p.inputs.size() > 3 && p.data[3].defined()) {
      if (p.inputs[3].quantized()) {
        const auto q =
            static_cast<int32_t>(ReadInteger(p.data[3], i)) - p.inputs[3].quant->zero_points[0];
        v = v + static_cast<float>(q) * ScaleRatio(p.inputs[3].quant->scales[0], y_scale);
      } else {
        v = v + p.data[3].data<float>()[i];
      }
    }
    if (p.c.activation.kind == ActivationKind::kPRelu) v = v < 0 ? v * SlopeOf(m) : v;
    v = Apply(ScaledActivation(p.c.activation, y_scale), v);
    if (!type.quantized()) {
      y.mutable_data<float>()[i] = v;
    } else if (type.dtype == DType::kUint8) {
      y.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(RoundToInteger(v, p.c.y_zero, 0, 255));
    } else {
      y.mutable_data<int8_t>()[i] = static_cast<int8_t>(RoundToInteger(v, p.c.y_zero, -128, 127));
    }
    if (p.c.table) y.mutable_data<uint8_t>()[i] = p.data[4].data<uint8_t>()[y.data<uint8_t>()[i]];
  }
  return y;
}

// A copy of bytes that ends where a page without access begins.
class Guarded {
 public:
  explicit Guarded(const Tensor& t) {
    if (!t.defined()) return;
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    bytes_ = (t.bytes() + page - 1) / page * page + page;
    base_ = static_cast<std::byte*>(
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_ + bytes_ - page, page, PROT_NONE);
    data_ = base_ + bytes_ - page - t.bytes();
    std::memcpy(data_, t.raw(), t.bytes());
  }
  ~Guarded() {
    if (base_ != nullptr) munmap(base_, bytes_);
  }
  Guarded(const Guarded&) = delete;
  const std::byte* data() const { return data_; }

 private:
  std::byte* base_ = nullptr;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

inline std::vector<Isa> SupportedIsas() {
  std::vector<Isa> isas;
  for (Isa isa : AllIsas()) {
    if (IsaSupported(isa)) isas.insert(isas.begin(), isa);
  }
  return isas;
}

// Runs `bound` and compares every byte, also those around output and scratch.
inline void RunOnce(const Problem& p, const BoundKernel& bound, const Tensor& expected,
                    ThreadPool& pool) {
  constexpr size_t kGuard = 64;
  std::vector<std::unique_ptr<Guarded>> copies;
  std::vector<const void*> in;
  for (const Tensor& t : p.data) {
    copies.push_back(std::make_unique<Guarded>(t));
    in.push_back(copies.back()->data());
  }
  std::vector<std::byte> y(expected.bytes() + 2 * kGuard, std::byte{0xa5});
  AlignedBuffer scratch(bound.scratch_bytes + 2 * kGuard);
  std::memset(scratch.data(), 0xa5, scratch.size());
  float range[2] = {1, -1};
  void* out[] = {y.data() + kGuard, range};
  bound.run(bound.state.get(), in.data(), out, RunContext{pool, scratch.data() + kGuard});
  const std::vector<std::byte> guard(kGuard, std::byte{0xa5});
  EXPECT_EQ(std::memcmp(y.data(), guard.data(), kGuard), 0) << "wrote before the output";
  EXPECT_EQ(std::memcmp(y.data() + y.size() - kGuard, guard.data(), kGuard), 0)
      << "wrote behind the output";
  EXPECT_EQ(std::memcmp(scratch.data(), guard.data(), kGuard), 0) << "wrote before the scratch";
  EXPECT_EQ(std::memcmp(scratch.data() + bound.scratch_bytes + kGuard, guard.data(), kGuard), 0)
      << "wrote behind the scratch";
  if (p.c.dynamic()) {
    float low = 0, high = 0;
    for (float v : expected.values<float>()) low = std::min(low, v), high = std::max(high, v);
    EXPECT_EQ(range[0], low);
    EXPECT_EQ(range[1], high);
  }
  for (size_t i = 0; i < expected.bytes(); ++i) {
    ASSERT_EQ(y[kGuard + i], expected.raw()[i]) << "byte " << i << " of " << expected.bytes();
  }
}

inline ThreadPool& Pool(int threads) {
  static ThreadPool one(1), two(2), three(3);
  return threads == 1 ? one : threads == 2 ? two : three;
}

// The kernel on every instruction set, cut for 1 to 3 threads, against the formula. Real threads
// run on every fourth case: where a machine has fewer cores they wait for one another.
inline void CheckProblem(const char* kernel_name, const Problem& p) {
  const Case& c = p.c;
  const KernelDef* kernel = FindKernel(kernel_name);
  ASSERT_NE(kernel, nullptr);
  SCOPED_TRACE(c.ToString());
  if (auto rejection = kernel->reject(p.call()))
    FAIL() << rejection->code << ": " << rejection->sentence;
  Problem packed = p;
  auto weights = kernel->pack(p.call(), 1);
  ASSERT_TRUE(weights) << weights.error().message();
  if (weights->defined()) {
    packed.data[1] = *weights;
    EXPECT_TRUE(BitEqual(*ToPlain(*weights), p.data[1]));
  }
  packed.constants = p.constants;
  for (size_t i = 0; i < packed.constants.size(); ++i) {
    if (packed.constants[i] != nullptr) packed.constants[i] = &packed.data[i];
  }
  const Tensor expected = Expected(p);
  for (Isa isa : SupportedIsas()) {
    for (int threads : {1, 2, 3}) {
      SCOPED_TRACE(fmt::format("{} {} threads", IsaName(isa), threads));
      // The kernel's own choice, then each way that may be measured.
      std::vector<std::string> variants = {"", "no such variant", kTapsBeside};
      if (kernel->variants != nullptr) {
        for (std::string& name : kernel->variants(packed.call(), BindOptions{isa, threads, {}}))
          variants.push_back(std::move(name));
      }
      for (const std::string& variant : variants) {
        SCOPED_TRACE("variant '" + variant + "'");
        auto bound = kernel->bind(packed.call(), BindOptions{isa, threads, variant});
        ASSERT_TRUE(bound) << bound.error().message();
        RunOnce(packed, *bound, expected, Pool(c.seed % 4 == 1 ? threads : 1));
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

inline void Check(const char* kernel_name, const Case& c) { CheckProblem(kernel_name, Build(c)); }

}  // namespace evoq::int8_test
