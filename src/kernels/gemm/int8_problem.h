// A random integer linear operator for tests and benchmarks.
#pragma once

#include <cmath>
#include <random>

#include "base/text.h"
#include "kernels/activation.h"
#include "kernels/kernel.h"

namespace evoq::int8_test {

using Ints = std::vector<int64_t>;

struct Case {
  std::string op = "Conv";  // Conv, MatMul, ConvInteger, MatMulInteger, DynamicConv, DynamicMatMul
  Ints x, w;                // channels-last x; ONNX w
  int64_t group = 1;
  Ints strides, dilations, pads;  // empty: defaults
  DType x_type = DType::kUint8, w_type = DType::kInt8, y_type = DType::kUint8;
  int32_t x_zero = 121, y_zero = 17;
  bool per_channel = true, bias = true, runtime_zero = false;
  int w_zeros = 0;  // 0: none (zero), 1: one nonzero, 2: one per channel
  DType residual = DType::kUndefined;
  Activation activation;
  float y_gain = 1;    // multiplies the output scale
  bool table = false;  // input 4, random: y_type is kUint8 then
  int extremes = 0;  // 1: x and w hold only their least and largest values; 2: the largest of x and
                     // the least of w
  bool w_small = false;  // seven of eight weights are a quarter of what they may be
  // Not 0: so many of 100 blocks of weights stay, of 4 output x 4 input channels or, `long_blocks`,
  // 1 x 16; the others are 0.
  int blocks = 0;
  bool long_blocks = false;
  uint32_t seed = 1;

  bool integer() const { return op.ends_with("Integer"); }
  bool dynamic() const { return op.starts_with("Dynamic"); }
  bool conv() const { return op.find("Conv") != std::string::npos; }
  std::string ToString() const {
    return fmt::format(
        "{} x{} w{} group {} strides {} dilations {} pads {} x:{} w:{} y:{} x_zero {} w_zeros {} "
        "act '{}' "
        "residual {} bias {} gain {} table {} extremes {} small {} blocks {}{}",
        op, Bracketed<int64_t>(x), Bracketed<int64_t>(w), group, Bracketed<int64_t>(strides),
        Bracketed<int64_t>(dilations), Bracketed<int64_t>(pads), DTypeName(x_type),
        DTypeName(w_type), DTypeName(y_type), x_zero, w_zeros, ActivationName(activation.kind),
        DTypeName(residual), bias, y_gain, table, extremes, w_small, blocks,
        long_blocks ? " long" : "");
  }
};

// Of PRelu: below 0, above 1 and 0 among them.
inline float SlopeOf(int64_t column) { return 0.3f * static_cast<float>((column * 5) % 9 - 2); }

// A built call: types, attributes and data.
struct Problem {
  Case c;
  Attrs attrs;
  std::vector<TensorType> inputs, outputs;
  std::vector<Tensor> data;
  std::vector<const Tensor*> constants;
  Ints out;  // spatial sizes

  KernelCall call() const { return {c.op, attrs, inputs, outputs, constants}; }
};

inline Tensor Random(TensorType type, std::mt19937& rng) {
  Tensor t = Tensor::Allocate(std::move(type));
  if (t.dtype() == DType::kFloat32) {
    std::normal_distribution<float> normal(0, 1);
    for (int64_t i = 0; i < t.elements(); ++i) t.mutable_data<float>()[i] = normal(rng);
  } else if (t.dtype() == DType::kInt32) {
    for (int64_t i = 0; i < t.elements(); ++i)
      t.mutable_data<int32_t>()[i] = static_cast<int32_t>(rng() % 20001) - 10000;
  } else {
    for (size_t i = 0; i < t.bytes(); ++i) t.mutable_raw()[i] = static_cast<std::byte>(rng() >> 8);
  }
  return t;
}

// Makes every byte the least or the largest of its type: by its lowest bit, or all alike.
inline void ToExtremes(Tensor& t, int extremes, bool largest) {
  const auto least = static_cast<uint8_t>(t.dtype() == DType::kInt8 ? 0x80 : 0);
  for (size_t i = 0; i < t.bytes(); ++i) {
    const bool high = extremes == 1 ? (t.raw()[i] & std::byte{1}) != std::byte{0} : largest;
    t.mutable_raw()[i] = static_cast<std::byte>(high ? least ^ 0xff : least);
  }
}

// Sets the weights of blocks that are drawn to 0.
inline void ToBlocks(Tensor& w, const Case& c, std::mt19937& rng) {
  const int64_t taps = c.conv() ? w.elements() / (c.w[0] * c.w[1]) : 1,
                outputs = c.conv() ? c.w[0] : c.w[1], inputs = c.conv() ? c.w[1] : c.w[0];
  const int64_t columns = c.long_blocks ? 1 : 4, depth = c.long_blocks ? 16 : 4;
  const std::byte zero{c.w_type == DType::kUint8 ? uint8_t{128} : uint8_t{0}};
  for (int64_t m = 0; m < outputs; m += columns) {
    for (int64_t i = 0; i < inputs; i += depth) {
      for (int64_t tap = 0; tap < taps; ++tap) {
        if (static_cast<int>(rng() % 100) < c.blocks) continue;
        for (int64_t n = m; n < std::min(m + columns, outputs); ++n) {
          for (int64_t k = i; k < std::min(i + depth, inputs); ++k)
            w.mutable_raw()[c.conv() ? (n * inputs + k) * taps + tap : k * outputs + n] = zero;
        }
      }
    }
  }
}

inline Problem Build(const Case& c) {
  std::mt19937 rng(c.seed);
  Problem p;
  p.c = c;
  const size_t rank = c.conv() ? c.x.size() - 2 : 0;
  Ints y = c.x;
  const int64_t columns = c.conv() ? c.w[0] : c.w[1];
  for (size_t i = 0; i < rank; ++i) {
    const int64_t stride = c.strides.empty() ? 1 : c.strides[i],
                  dilation = c.dilations.empty() ? 1 : c.dilations[i];
    const int64_t pad = c.pads.empty() ? 0 : c.pads[i] + c.pads[rank + i];
    const int64_t room = c.x[i + 1] + pad - dilation * (c.w[i + 2] - 1) - 1;
    y[i + 1] = room < 0 ? 0 : room / stride + 1;
    p.out.push_back(y[i + 1]);
  }
  y.back() = columns;
  if (c.conv()) {
    p.attrs.Set("channels_last", 1);
    p.attrs.Set("group", AttrValue(c.group));
    if (!c.strides.empty()) p.attrs.Set("strides", c.strides);
    if (!c.dilations.empty()) p.attrs.Set("dilations", c.dilations);
    if (!c.pads.empty()) p.attrs.Set("pads", c.pads);
  }
  ProductActivation activation{c.activation};
  for (int64_t n = 0; c.activation.kind == ActivationKind::kPRelu && n < columns; ++n)
    activation.slopes.push_back(SlopeOf(n));
  ProductActivationToAttrs(activation, p.attrs);

  const size_t zeros = c.w_zeros == 2 ? static_cast<size_t>(columns) : 1;
  const size_t scales = c.per_channel || c.w_zeros == 2 ? static_cast<size_t>(columns) : 1;
  std::vector<int32_t> w_zero(scales, 0);
  for (size_t i = 0; i < scales; ++i) {
    if (c.w_zeros > 0)
      w_zero[i] = zeros == 1 && i > 0
                      ? w_zero[0]
                      : static_cast<int32_t>(rng() % 256) - (c.w_type == DType::kInt8 ? 128 : 0);
  }
  TensorType x(c.x_type, Shape(c.x)), w(c.w_type, Shape(c.w)), out(DType::kInt32, Shape(y));
  int64_t k = 1;
  for (size_t i = c.conv() ? 1 : 0; i < c.w.size(); ++i) k *= c.conv() || i == 0 ? c.w[i] : 1;
  if (!c.integer()) {
    const float x_scale = 0.023f;
    QuantParams wq{{}, w_zero, scales == 1 ? -1 : c.conv() ? 0 : 1, 0};
    for (size_t i = 0; i < scales; ++i)
      wq.scales.push_back(0.004f + 0.0001f * static_cast<float>(rng() % 100));
    const float y_scale =
        c.y_gain * x_scale * 0.009f * 74 * 74 * std::sqrt(static_cast<float>(k)) / 100;
    x = TensorType(c.x_type, Shape(c.x), QuantParams::PerTensor(x_scale, c.x_zero));
    w = TensorType(c.w_type, Shape(c.w), wq);
    out = c.y_type == DType::kFloat32
              ? TensorType(c.y_type, Shape(y))
              : TensorType(c.y_type, Shape(y), QuantParams::PerTensor(y_scale, c.y_zero));
    p.inputs = {x, w};
    p.inputs.push_back(c.bias ? TensorType(DType::kInt32, Shape{columns}) : TensorType());
    if (c.residual == DType::kFloat32) p.inputs.push_back(TensorType(DType::kFloat32, Shape(y)));
    if (c.residual == DType::kUint8)
      p.inputs.emplace_back(DType::kUint8, Shape(y), QuantParams::PerTensor(y_scale * 0.7f, 99));
    if (c.residual == DType::kInt8)
      p.inputs.emplace_back(DType::kInt8, Shape(y), QuantParams::PerTensor(y_scale * 1.3f, -7));
  } else {
    p.inputs = {x, w, TensorType(c.x_type, Shape{})};
    if (c.w_zeros > 0) p.inputs.emplace_back(c.w_type, zeros == 1 ? Shape{} : Shape{columns});
  }
  if (c.table) {  // of the values before it; the output's own parameters are arbitrary
    p.inputs.resize(5);
    p.inputs[4] = TensorType(DType::kUint8, Shape{256}, *out.quant);
    out.quant = std::make_shared<QuantParams>(QuantParams::PerTensor(0.4f, 3));
  }
  p.outputs = {out};
  if (c.dynamic()) {  // float32 around a plain x: x_scale and x_zero_point are inputs
    p.inputs.resize(6);
    p.inputs[0].quant = nullptr;
    if (c.bias) p.inputs[2].dtype = DType::kFloat32;
    p.inputs[4] = TensorType(DType::kFloat32, Shape{});
    p.inputs[5] = TensorType(c.x_type, Shape{1});
    p.outputs = {out, TensorType(DType::kFloat32, Shape{2})};
  }
  for (const TensorType& type : p.inputs)
    p.data.push_back(type.dtype == DType::kUndefined ? Tensor() : Random(type, rng));
  for (size_t i = 0; c.w_small && i < p.data[1].bytes(); ++i) {
    const int flip = c.w_type == DType::kUint8 ? 0x80 : 0;
    std::byte& b = p.data[1].mutable_raw()[i];
    if (rng() % 8 != 0)
      b = static_cast<std::byte>((static_cast<int8_t>(std::to_integer<int>(b) ^ flip) / 4) ^ flip);
  }
  if (c.extremes != 0) {
    ToExtremes(p.data[0], c.extremes, true);
    ToExtremes(p.data[1], c.extremes, false);
  }
  if (c.blocks != 0) ToBlocks(p.data[1], c, rng);
  if (c.integer()) {
    p.data[2].mutable_raw()[0] = static_cast<std::byte>(c.x_zero);
    for (size_t i = 0; c.w_zeros > 0 && i < zeros; ++i)
      p.data[3].mutable_raw()[i] = static_cast<std::byte>(w_zero[i]);
  }
  p.constants.assign(p.inputs.size(), nullptr);
  p.constants[1] = &p.data[1];
  if (p.data[2].defined() && !(c.integer() && c.runtime_zero)) p.constants[2] = &p.data[2];
  if (c.integer() && c.w_zeros > 0) p.constants[3] = &p.data[3];
  if (c.table) p.constants[4] = &p.data[4];
  if (c.dynamic()) {
    p.data[4].mutable_data<float>()[0] = 0.023f;
    p.data[5].mutable_raw()[0] = static_cast<std::byte>(c.x_zero);
  }
  return p;
}

}  // namespace evoq::int8_test
