// Operators that carry their scales as inputs become DequantizeLinear, the float operator,
// QuantizeLinear. Which of these values get quantized types is decided afterwards, for the whole
// graph (quantize.h).
#include <cmath>

#include "onnx/upgrade.h"

namespace evoq {
namespace {

ValueId Dequantize(Upgrade& u, std::string_view suffix, ValueId x, ValueId scale, ValueId zero,
                   int64_t axis) {
  Attrs attrs = Attrs::Of("axis", AttrValue(axis));
  std::vector<ValueId> inputs = {x, scale};
  if (zero.valid()) inputs.push_back(zero);
  return u.Apply("DequantizeLinear", suffix, std::move(inputs), std::move(attrs));
}

// The float operator, marked with what the file has: runtimes take an integer operator of the file
// as it is (src/foreign/forecasts).
ValueId ApplyFloat(Upgrade& u, const std::string& op, std::vector<ValueId> inputs,
                   Attrs attrs = {}) {
  attrs.Set("evoq.from", u.node().op);
  return u.Apply(op, "float", std::move(inputs), std::move(attrs));
}

ValueId Quantize(Upgrade& u, ValueId x, ValueId scale, ValueId zero) {
  std::vector<ValueId> inputs = {x, scale};
  if (zero.valid()) inputs.push_back(zero);
  return u.Apply("QuantizeLinear", "quantize", std::move(inputs));
}

// The int32 bias at scale s_x * s_w[c], as a real value.
ValueId DequantizeBias(Upgrade& u, ValueId bias, ValueId scale_x, ValueId scale_w) {
  const Graph& g = u.graph();
  const Tensor* sx = g.value(scale_x).is_constant() ? &g.value(scale_x).constant : nullptr;
  const Tensor* sw = g.value(scale_w).is_constant() ? &g.value(scale_w).constant : nullptr;
  if (sx && sw && sx->dtype() == DType::kFloat32 && sw->dtype() == DType::kFloat32 &&
      sx->elements() == 1) {
    Tensor scale = Tensor::Allocate(sw->type());
    for (int64_t i = 0; i < sw->elements(); ++i)
      scale.mutable_data<float>()[i] = sx->data<float>()[0] * sw->data<float>()[i];
    return Dequantize(u, "bias", bias, u.AddConstant("bias_scale", std::move(scale)), ValueId{}, 0);
  }
  const ValueId real =
      u.Apply("Cast", "bias_float", {bias}, Attrs::Of("to", static_cast<int>(DType::kFloat32)));
  const ValueId scale = u.Apply("Mul", "bias_scale", {scale_x, scale_w});
  return u.Apply("Mul", "bias", {real, scale});
}

Status NeedInputs(Upgrade& u, size_t least) {
  if (u.node().inputs.size() < least)
    return InvalidInput("{} inputs, expected at least {}", u.node().inputs.size(), least);
  for (size_t i = 0; i < least; ++i) {
    const bool zero_point = i > 0 && u.node().input(i - 1).valid() && i % 3 == 2;
    if (!u.HasInput(i) && !zero_point)
      return InvalidInput("input {} is omitted, expected a value", i);
  }
  return {};
}

// QLinearConv(x, s_x, z_x, w, s_w, z_w, s_y, z_y, bias?)
Status LinearConv(Upgrade& u) {
  EVOQ_TRY(NeedInputs(u, 8));
  const std::vector<ValueId> in = u.node().inputs;
  const ValueId x = Dequantize(u, "x", in[0], in[1], in[2], 0);
  const ValueId w = Dequantize(u, "w", in[3], in[4], in[5], 0);
  std::vector<ValueId> inputs = {x, w};
  if (in.size() > 8 && in[8].valid()) inputs.push_back(DequantizeBias(u, in[8], in[1], in[4]));
  const ValueId y = ApplyFloat(u, "Conv", std::move(inputs), u.attrs());
  u.ReplaceBy(Quantize(u, y, in[6], in[7]));
  return {};
}

// QLinearMatMul(a, s_a, z_a, b, s_b, z_b, s_y, z_y): a's scales are per row, b's per column.
Status LinearMatMul(Upgrade& u) {
  EVOQ_TRY(NeedInputs(u, 8));
  const std::vector<ValueId> in = u.node().inputs;
  const ValueId a = Dequantize(u, "a", in[0], in[1], in[2], -2);
  const ValueId b = Dequantize(u, "b", in[3], in[4], in[5], -1);
  u.ReplaceBy(Quantize(u, ApplyFloat(u, "MatMul", {a, b}), in[6], in[7]));
  return {};
}

// com.microsoft QLinear* of one or two values: (x, s_x, z_x, [b, s_b, z_b,] s_y, z_y).
Status LinearReal(Upgrade& u) {
  const std::vector<ValueId> in = u.node().inputs;
  const size_t values = in.size() > 5 ? 2 : 1;
  EVOQ_TRY(NeedInputs(u, values * 3 + 1));
  if (u.attrs().Int("channels_last", 0) != 0) return Unsupported("channels_last=1");
  const std::string op = u.node().op.substr(std::string_view("QLinear").size());
  std::vector<ValueId> real;
  for (size_t i = 0; i < values; ++i)
    real.push_back(Dequantize(u, i == 0 ? "a" : "b", in[3 * i], in[3 * i + 1], in[3 * i + 2], 0));
  Attrs attrs = u.attrs();
  attrs.Erase("channels_last");
  const ValueId y = ApplyFloat(u, op, std::move(real), std::move(attrs));
  u.ReplaceBy(Quantize(u, y, in[3 * values], u.node().input(3 * values + 1)));
  return {};
}

// com.microsoft QLinearWhere(condition, x, s_x, z_x, y, s_y, z_y, s_z, z_z).
Status LinearWhere(Upgrade& u) {
  const std::vector<ValueId> in = u.node().inputs;
  if (in.size() < 8) return InvalidInput("{} inputs, expected 9", in.size());
  for (size_t i : {0, 1, 2, 4, 5, 7}) {
    if (!in[i].valid()) return InvalidInput("input {} is omitted, expected a value", i);
  }
  const ValueId x = Dequantize(u, "x", in[1], in[2], in[3], 0),
                y = Dequantize(u, "y", in[4], in[5], in[6], 0);
  u.ReplaceBy(
      Quantize(u, ApplyFloat(u, "Where", {in[0], x, y}), in[7], in.size() > 8 ? in[8] : ValueId{}));
  return {};
}

// com.microsoft QLinearConcat(s_y, z_y, (x, s_x, z_x)...).
Status LinearConcat(Upgrade& u) {
  const std::vector<ValueId> in = u.node().inputs;
  if (in.size() < 5 || in.size() % 3 != 2)
    return InvalidInput("{} inputs, expected 2 and 3 for each part", in.size());
  std::vector<ValueId> parts;
  for (size_t i = 2; i + 2 < in.size(); i += 3) {
    parts.push_back(Dequantize(u, fmt::format("part_{}", i / 3), in[i], in[i + 1], in[i + 2], 0));
  }
  u.ReplaceBy(Quantize(u, ApplyFloat(u, "Concat", std::move(parts), u.attrs()), in[0], in[1]));
  return {};
}

// QLinearSoftmax(x, s_x, z_x, s_y, z_y) is that of the operator set in its attribute.
Status LinearSoftmax(Upgrade& u) {
  const Shape& x = u.InputType(0).shape;
  const int64_t opset = u.attrs().Int("opset", 13),
                axis = u.attrs().Int("axis", opset < 13 ? 1 : -1);
  if (opset < 13 && axis != -1 && (!x.ranked() || axis != x.rank() - 1))
    return Unsupported("axis {} of {} in operator set {}", axis, x.ToString(), opset);
  u.attrs().Erase("opset");
  u.attrs().Set("axis", axis);
  return LinearReal(u);
}

// QGemm(a, s_a, z_a, b, s_b, z_b, c?, s_y?, z_y?): alpha * s_a * s_b * (a' b' + c), quantized when
// s_y is there.
Status LinearGemm(Upgrade& u) {
  EVOQ_TRY(NeedInputs(u, 5));
  const std::vector<ValueId> in = u.node().inputs;
  const auto input = [&](size_t i) { return i < in.size() ? in[i] : ValueId{}; };
  const bool b_rows = u.attrs().Int("transB") != 0;
  std::vector<ValueId> inputs = {Dequantize(u, "a", in[0], in[1], in[2], 0),
                                 Dequantize(u, "b", in[3], in[4], input(5), b_rows ? 0 : 1)};
  if (input(6).valid()) inputs.push_back(DequantizeBias(u, in[6], in[1], in[4]));
  Attrs attrs = u.attrs();
  attrs.Set("beta", u.attrs().Float("alpha", 1));
  const ValueId y = ApplyFloat(u, "Gemm", std::move(inputs), std::move(attrs));
  u.ReplaceBy(input(7).valid() ? Quantize(u, y, in[7], input(8)) : y);
  return {};
}

// An operator of com.microsoft that ONNX has adopted with the same meaning.
Status SameInOnnx(Upgrade& u) {
  u.graph().SetOp(u.id(), u.node().op);
  return {};
}

constexpr UpgradeRule kRules[] = {
    {"QuantizeLinear", "com.microsoft", kAnyVersion, SameInOnnx},
    {"DequantizeLinear", "com.microsoft", kAnyVersion, SameInOnnx},
    {"QLinearConv", "", kAnyVersion, LinearConv},
    {"QLinearMatMul", "", kAnyVersion, LinearMatMul},
    {"QLinearAdd", "com.microsoft", kAnyVersion, LinearReal},
    {"QLinearMul", "com.microsoft", kAnyVersion, LinearReal},
    {"QLinearSigmoid", "com.microsoft", kAnyVersion, LinearReal},
    {"QLinearLeakyRelu", "com.microsoft", kAnyVersion, LinearReal},
    {"QLinearAveragePool", "com.microsoft", kAnyVersion, LinearReal},
    {"QLinearGlobalAveragePool", "com.microsoft", kAnyVersion, LinearReal},
    {"QLinearWhere", "com.microsoft", kAnyVersion, LinearWhere},
    {"QLinearConcat", "com.microsoft", kAnyVersion, LinearConcat},
    {"QLinearSoftmax", "com.microsoft", kAnyVersion, LinearSoftmax},
    {"QGemm", "com.microsoft", kAnyVersion, LinearGemm},
};

}  // namespace

std::span<const UpgradeRule> QuantizedRules() { return kRules; }

}  // namespace evoq
