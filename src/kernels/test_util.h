// Runs a kernel row on tensors, as the compiler and the executor would, with guard bytes around
// every output.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/kernel.h"

namespace evoq {

// Instruction sets of this machine, scalar first.
inline std::vector<Isa> TestIsas() {
  std::vector<Isa> isas;
  for (Isa isa : AllIsas()) {
    if (IsaSupported(isa)) isas.insert(isas.begin(), isa);
  }
  return isas;
}

// A call with its tensors: inputs[i] is undefined when omitted, constant where is_constant[i].
struct TestCall {
  std::string op;
  Attrs attrs;
  std::vector<Tensor> inputs;
  std::vector<bool> is_constant;
  std::vector<TensorType> outputs;
  std::string variant;  // BindOptions'

  std::vector<TensorType> InputTypes() const {
    std::vector<TensorType> types;
    for (const Tensor& t : inputs) types.push_back(t.defined() ? t.type() : TensorType());
    return types;
  }
  std::vector<const Tensor*> Constants(const std::vector<Tensor>& tensors) const {
    std::vector<const Tensor*> constants;
    for (size_t i = 0; i < tensors.size(); ++i) {
      constants.push_back(
          i < is_constant.size() && is_constant[i] && tensors[i].defined() ? &tensors[i] : nullptr);
    }
    return constants;
  }
};

inline std::optional<Reason> RejectOf(const KernelDef& kernel, const TestCall& test) {
  const auto types = test.InputTypes();
  const auto constants = test.Constants(test.inputs);
  return kernel.reject(KernelCall{test.op, test.attrs, types, test.outputs, constants});
}

// Everything a bound kernel needs, kept alive.
struct BoundTest {
  std::vector<Tensor> inputs;  // packed where the kernel packs
  BoundKernel bound;
  std::vector<std::byte> scratch_memory;
  std::byte* scratch = nullptr;
};

inline BoundTest Bind(const KernelDef& kernel, const TestCall& test, Isa isa, int threads) {
  BoundTest out;
  out.inputs = test.inputs;
  const auto types = test.InputTypes();
  const auto plain = test.Constants(test.inputs);
  const KernelCall call{test.op, test.attrs, types, test.outputs, plain};
  const auto rejection = kernel.reject(call);
  EVOQ_CHECK(!rejection, "{} rejects: {}", kernel.name, rejection ? rejection->sentence : "");
  for (size_t i = 0; kernel.pack != nullptr && i < plain.size(); ++i) {
    if (plain[i] == nullptr) continue;
    auto packed = kernel.pack(call, i);
    EVOQ_CHECK(packed.has_value(), "{}", packed ? "" : packed.error().message());
    if (packed->defined()) out.inputs[i] = *packed;
  }
  const auto packed = test.Constants(out.inputs);
  auto bound = kernel.bind(KernelCall{test.op, test.attrs, types, test.outputs, packed},
                           BindOptions{isa, threads, test.variant});
  EVOQ_CHECK(bound.has_value(), "{}: {}", kernel.name, bound ? "" : bound.error().message());
  out.bound = *bound;
  out.scratch_memory.resize(out.bound.scratch_bytes + 64);
  out.scratch = out.scratch_memory.data();
  while (reinterpret_cast<uintptr_t>(out.scratch) % 64 != 0) ++out.scratch;
  std::memset(out.scratch, 0xAB, out.bound.scratch_bytes);
  return out;
}

// Inputs are copied to the very end of their blocks, so that a sanitizer sees an over-read.
inline std::vector<Tensor> RunKernel(const KernelDef& kernel, const TestCall& test, Isa isa,
                                     int threads = 1) {
  constexpr size_t kGuard = 64;
  BoundTest b = Bind(kernel, test, isa, threads);
  std::vector<std::vector<std::byte>> copies;
  std::vector<const void*> in;
  for (const Tensor& t : b.inputs) {
    copies.emplace_back(t.defined() ? std::vector<std::byte>(t.raw(), t.raw() + t.bytes())
                                    : std::vector<std::byte>());
    in.push_back(!t.defined() ? nullptr : t.layout().empty() ? copies.back().data() : t.raw());
  }
  std::vector<std::vector<std::byte>> blocks;
  std::vector<void*> out;
  for (const TensorType& type : test.outputs) {
    blocks.emplace_back(static_cast<size_t>(type.bytes().value()) + 2 * kGuard, std::byte{0xA5});
    out.push_back(blocks.back().data() + kGuard);
  }
  // What lies behind the lists is no operand: an address that no memory has.
  in.push_back(reinterpret_cast<const void*>(0xA5A5A5A5A5A5A5A5));
  out.push_back(reinterpret_cast<void*>(0xA5A5A5A5A5A5A5A5));
  ThreadPool pool(threads);
  b.bound.run(b.bound.state.get(), in.data(), out.data(), RunContext{pool, b.scratch});
  std::vector<Tensor> results;
  for (size_t i = 0; i < test.outputs.size(); ++i) {
    Tensor t = Tensor::Allocate(test.outputs[i]);
    if (t.bytes() > 0) std::memcpy(t.mutable_raw(), out[i], t.bytes());
    for (size_t k = 0; k < kGuard; ++k) {
      if (blocks[i][k] != std::byte{0xA5} || blocks[i][kGuard + t.bytes() + k] != std::byte{0xA5}) {
        ADD_FAILURE() << kernel.name << " on " << IsaName(isa) << " writes outside output " << i
                      << " " << t.type().ToString();
        break;
      }
    }
    results.push_back(std::move(t));
  }
  return results;
}

// The first element where two tensors differ, as text; "" when they are bit-equal.
inline std::string FirstDifference(const Tensor& got, const Tensor& want) {
  if (BitEqual(got, want)) return "";
  if (!(got.type() == want.type()))
    return got.type().ToString() + " against " + want.type().ToString();
  const size_t size = static_cast<size_t>(DTypeBits(got.dtype())) / 8;
  for (int64_t i = 0; i < got.elements(); ++i) {
    if (std::memcmp(got.raw() + i * size, want.raw() + i * size, size) == 0) continue;
    const auto a = ToFloat32(got), b = ToFloat32(want);
    return fmt::format("element {}: got {}, want {} (real values)", i, a->data<float>()[i],
                       b->data<float>()[i]);
  }
  return "?";
}

// On every instruction set, and on the best one with three threads too where there is something to
// share.
inline void ExpectKernel(const KernelDef& kernel, const TestCall& test,
                         const std::vector<Tensor>& want, const std::string& label) {
  for (Isa isa : TestIsas()) {
    for (int threads : {1, 3}) {
      if (threads > 1 && (isa != TestIsas().back() || want[0].elements() < 256)) continue;
      const auto got = RunKernel(kernel, test, isa, threads);
      for (size_t i = 0; i < want.size(); ++i) {
        EXPECT_EQ(FirstDifference(got[i], want[i]), "")
            << kernel.name << " " << IsaName(isa) << " threads=" << threads << " output " << i
            << " " << label;
      }
    }
  }
}

// Uniform values: integers over the whole range of the type, floats in [-4, 4) with some exact
// zeros and integers.
inline Tensor RandomTensor(TensorType type, uint32_t seed) {
  Tensor t = Tensor::Allocate(std::move(type));
  std::mt19937 random(seed);
  if (t.dtype() == DType::kFloat32) {
    float* x = t.mutable_data<float>();
    for (int64_t i = 0; i < t.elements(); ++i) {
      x[i] = static_cast<float>(static_cast<int32_t>(random())) * 0x1p-29f;
      if (random() % 16 == 0) x[i] = static_cast<float>(static_cast<int>(x[i]));
    }
  } else if (t.dtype() == DType::kInt32) {
    for (int64_t i = 0; i < t.elements(); ++i)
      t.mutable_data<int32_t>()[i] = static_cast<int32_t>(random() % 20001) - 10000;
  } else {
    for (size_t i = 0; i < t.bytes(); ++i) t.mutable_raw()[i] = static_cast<std::byte>(random());
    if (t.dtype() == DType::kBool)
      for (size_t i = 0; i < t.bytes(); ++i) t.mutable_raw()[i] &= std::byte{1};
  }
  return t;
}

}  // namespace evoq
