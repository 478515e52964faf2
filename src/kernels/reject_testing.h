// Calls that kernels refuse: a call that one takes, then the same with one thing changed, and the
// code and the sentence that the change gives.
#pragma once

#include <functional>
#include <map>

#include "kernels/test_util.h"

namespace evoq {

constexpr DType kF = DType::kFloat32, kB = DType::kBfloat16, kU = DType::kUint8, kI8 = DType::kInt8,
                kI32 = DType::kInt32, kI64 = DType::kInt64;
using Sizes = std::vector<int64_t>;

inline TensorType F(Shape shape) { return TensorType(kF, std::move(shape)); }
inline TensorType Q(Shape shape, DType dtype = DType::kUint8) {
  return TensorType(dtype, std::move(shape), QuantParams::PerTensor(0.5f, 3));
}
inline TensorType PerAxis(Shape shape, int axis, DType dtype = DType::kUint8) {
  QuantParams q;
  q.axis = axis;
  q.scales.assign(static_cast<size_t>(shape[axis].value), 0.5f);
  q.zero_points.assign(q.scales.size(), 0);
  return TensorType(dtype, std::move(shape), q);
}
inline Tensor Zeros(TensorType type) { return Tensor::Allocate(std::move(type)); }
inline Tensor Ints(std::vector<int64_t> values) {
  const Shape shape{static_cast<int64_t>(values.size())};
  return Tensor::FromValues<int64_t>(shape, values);
}

// Types, with data for the constants.
struct Call {
  std::string op;
  Attrs attrs;
  std::vector<TensorType> inputs, outputs;
  std::map<size_t, Tensor> data;

  Call& Constant(size_t i, Tensor tensor) {
    if (inputs.size() <= i) inputs.resize(i + 1);
    inputs[i] = tensor.type();
    data[i] = std::move(tensor);
    return *this;
  }
  Call& Attr(const char* name, AttrValue value) {
    attrs.Set(name, std::move(value));
    return *this;
  }
};

using Change = std::function<void(Call&)>;

inline Change Input(size_t i, TensorType type) {
  return [i, type = std::move(type)](Call& c) { c.inputs[i] = type; };
}
inline Change Output(size_t i, TensorType type) {
  return [i, type = std::move(type)](Call& c) { c.outputs[i] = type; };
}
inline Change With(const char* attribute, AttrValue value) {
  return [attribute, value = std::move(value)](Call& c) { c.Attr(attribute, value); };
}

// The base is taken; each change gives its code and its sentence, "" where it is taken too. A first
// input and an output of unknown sizes are named.
inline void Expect(const char* kernel, const Call& base,
                   const std::vector<std::pair<const char*, Change>>& changes) {
  const KernelDef* def = FindKernel(kernel);
  ASSERT_NE(def, nullptr) << kernel;
  const auto code = [&](const Call& c) -> std::string {
    std::vector<const Tensor*> constants(c.inputs.size(), nullptr);
    for (const auto& [i, tensor] : c.data) {
      if (i < constants.size()) constants[i] = &tensor;
    }
    const auto why = def->reject(KernelCall{c.op, c.attrs, c.inputs, c.outputs, constants});
    if (!why) return "";
    return fmt::format("{}: {}", why->code, why->sentence);
  };
  EXPECT_EQ(code(base), "") << kernel << " does not take the call that the others are made of";
  for (const bool output : {false, true}) {
    Call unknown = base;
    TensorType& type = output ? unknown.outputs[0] : unknown.inputs[0];
    if (type.shape.rank() == 0) continue;
    type.shape[0] = Dim::Symbolic("N");
    const std::string why = code(unknown), text = type.ToString();
    const std::string place = output ? "output 0" : "input 0";
    if (why != fmt::format("shape: {} is not static", text))
      EXPECT_EQ(why, fmt::format("shape: {} is {}, expected a static shape", place, text))
          << kernel;
  }
  int number = 0;
  for (const auto& [want, change] : changes) {
    Call changed = base;
    change(changed);
    EXPECT_EQ(code(changed), want) << kernel << ", change " << number;
    ++number;
  }
}

inline TensorType B(Shape shape) { return TensorType(kB, std::move(shape)); }
inline Change Reshaped(size_t input, Shape shape) {
  return [input, shape = std::move(shape)](Call& c) { c.inputs[input].shape = shape; };
}
inline Change Computed(size_t input) {
  return [input](Call& c) { c.data.erase(input); };
}
inline Change Blocked(size_t input) {  // scales of blocks of two along the first axis
  return [input](Call& c) {
    QuantParams q = *PerAxis({4}, 0).quant;
    q.block = 2;
    c.inputs[input] = TensorType(c.inputs[input].dtype, c.inputs[input].shape, q);
  };
}

inline Change Extra(size_t input, TensorType type) {
  return [input, type = std::move(type)](Call& c) {
    c.inputs.resize(std::max(c.inputs.size(), input + 1)), c.inputs[input] = type;
  };
}
// A channels-last convolution of 8 x 8 pixels to 6 x 6 by 3 x 3 taps, or back, by constant weights.
inline Call Windows(const char* op, TensorType x, TensorType w, TensorType y) {
  return Call{op, {}, {std::move(x)}, {std::move(y)}, {}}
      .Constant(1, Zeros(std::move(w)))
      .Attr("channels_last", 1);
}

inline Attrs WithAxis(int64_t axis) {
  Attrs attrs;
  attrs.Set("axis", AttrValue(axis));
  return attrs;
}

inline Shape Unknown() { return Shape(std::vector<Dim>{Dim::Symbolic("N"), Dim(3)}); }

}  // namespace evoq
