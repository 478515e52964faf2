// QONNX's operators, which Brevitas and FINN write: what they compute as ONNX's operators, and a
// pair of QuantizeLinear and DequantizeLinear behind that, so that their values become quantized
// types. Quant and IntQuant, BipolarQuant, Trunc, FINN's MultiThreshold; and OpenVINO's
// FakeQuantize.
#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>

#include "onnx/upgrade.h"

namespace evoq {
namespace {

constexpr int64_t kMaxThresholds = 4095;

Result<float> ConstantScalar(Upgrade& u, size_t i, const char* what) {
  const Tensor* t = u.Constant(i);
  if (t == nullptr || t->elements() != 1) return Unsupported("{} must be a constant number", what);
  EVOQ_ASSIGN(const Tensor value, ToFloat32(*t));
  return value.data<float>()[0];
}

Result<int> ConstantBits(Upgrade& u, size_t i, int most) {
  EVOQ_ASSIGN(const float bits, ConstantScalar(u, i, "the bit width"));
  if (!(bits >= 1 && bits <= static_cast<float>(most)) || bits != std::floor(bits))
    return Unsupported("bit width {}, expected 1 to {}", bits, most);
  return static_cast<int>(bits);
}

Status NeedInputs(Upgrade& u, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (!u.HasInput(i)) return InvalidInput("input {} is missing", i);
  }
  return {};
}

// A rounding mode by ONNX's operators: of the number, or of its magnitude plus `shift`.
struct Rounding {
  const char* op = "Round";
  bool magnitude = false;
  float shift = 0;

  // As QuantizeLinear does.
  bool is_quantize() const { return op == std::string_view("Round"); }
};

Result<Rounding> RoundingOf(Upgrade& u, const char* fallback) {
  const std::string written = u.attrs().String("rounding_mode", fallback);
  std::string mode = written;
  std::ranges::transform(mode, mode.begin(), [](unsigned char c) { return std::toupper(c); });
  if (mode == "ROUND" || mode == "HALF_EVEN") return Rounding{"Round"};
  if (mode == "CEIL") return Rounding{"Ceil"};
  if (mode == "FLOOR") return Rounding{"Floor"};
  if (mode == "UP") return Rounding{"Ceil", true};
  if (mode == "DOWN" || mode == "ROUND_TO_ZERO") return Rounding{"Floor", true};
  if (mode == "HALF_UP") return Rounding{"Floor", true, 0.5f};
  if (mode == "HALF_DOWN") return Rounding{"Ceil", true, -0.5f};
  return Unsupported(
      "rounding_mode {}, expected ROUND, HALF_EVEN, CEIL, FLOOR, UP, DOWN, HALF_UP or HALF_DOWN",
      written);
}

// Integers from low to high, (q - zero) * scale.
struct Integers {
  Tensor scale;  // float32, [] or [channels]
  float zero = 0;
  int64_t low = 0, high = 0, axis = 0;
  bool is_signed = true;
  int bits = 8;
};

void SetBits(Upgrade& u, int bits, Integers& q) {
  q.bits = bits;
  q.is_signed = u.attrs().Int("signed", 1) != 0;
  const int64_t narrow = u.attrs().Int("narrow", 0) != 0 ? 1 : 0;
  q.low = q.is_signed ? -(int64_t{1} << (bits - 1)) + narrow : 0;
  q.high = q.is_signed ? (int64_t{1} << (bits - 1)) - 1 : (int64_t{1} << bits) - 1 - narrow;
}

// A number, or one per index of an axis of the node's input 0.
Status SetScale(Upgrade& u, const Tensor* scale, Integers& q) {
  if (scale == nullptr || scale->dtype() != DType::kFloat32)
    return Unsupported("the scale must be a float constant");
  if (scale->elements() == 1) {
    q.scale = scale->WithType(TensorType(DType::kFloat32, Shape{}));
    return {};
  }
  const Shape& x = u.InputType(0).shape;
  for (int i = 0; i < scale->shape().rank(); ++i) {
    if (scale->shape()[i].value != scale->elements()) continue;
    if (!x.ranked() || x.rank() < scale->shape().rank()) break;
    q.axis = i + x.rank() - scale->shape().rank();
    if (x[static_cast<int>(q.axis)].value != scale->elements()) break;
    q.scale = scale->WithType(TensorType(DType::kFloat32, Shape{scale->elements()}));
    return {};
  }
  return Unsupported(
      "a scale of shape {} for a value of shape {}, expected one number or one per index of an "
      "axis",
      scale->shape().ToString(), x.ToString());
}

Status SetZero(Upgrade& u, Integers& q) {
  EVOQ_ASSIGN(q.zero, ConstantScalar(u, 2, "the zero point"));
  if (!(std::fabs(q.zero) <= 65535.0f) || q.zero != std::floor(q.zero))
    return Unsupported("zero point {}, expected an integer", q.zero);
  return {};
}

DType StorageType(const Integers& q, bool constant) {
  const int bits = q.bits <= 4 && constant ? 4 : q.bits <= 8 ? 8 : 16;
  if (bits == 4) return q.is_signed ? DType::kInt4 : DType::kUint4;
  if (bits == 8) return q.is_signed ? DType::kInt8 : DType::kUint8;
  return q.is_signed ? DType::kInt16 : DType::kUint16;
}

// The bound `q` of integers as real numbers, in a shape that broadcasts to input 0.
Tensor RealBound(Upgrade& u, const Integers& grid, int64_t q) {
  Tensor bound = Tensor::Allocate(grid.scale.type());
  for (int64_t i = 0; i < bound.elements(); ++i)
    bound.mutable_data<float>()[i] =
        (static_cast<float>(q) - grid.zero) * grid.scale.data<float>()[i];
  if (bound.elements() == 1) return bound;
  std::vector<int64_t> sizes(u.InputType(0).shape.rank(), 1);
  sizes[grid.axis] = bound.elements();
  return bound.WithType(TensorType(DType::kFloat32, Shape(sizes)));
}

// Puts QuantizeLinear and DequantizeLinear behind `x` and both in the node's place.
Status ReplaceByPair(Upgrade& u, ValueId x, const Integers& grid, DType dtype) {
  const ValueId scale = u.AddConstant("scale", grid.scale);
  Tensor zeros = Tensor::Allocate(TensorType(dtype, grid.scale.shape()));
  if (grid.zero != 0) {
    const TensorType unit(dtype, grid.scale.shape(), QuantParams::PerTensor(1.0f, 0));
    Tensor real = Tensor::Allocate(grid.scale.type());
    for (int64_t i = 0; i < real.elements(); ++i) real.mutable_data<float>()[i] = grid.zero;
    EVOQ_ASSIGN(const Tensor stored, QuantizeTensor(real, unit));
    zeros = stored.WithType(zeros.type());
  }
  const ValueId zero = u.AddConstant("zero", std::move(zeros));
  Attrs axis;
  axis.Set("axis", AttrValue(grid.axis));
  const ValueId q = u.Apply("QuantizeLinear", "quantize", {x, scale, zero}, axis);
  u.ReplaceBy(u.Apply("DequantizeLinear", "", {q, scale, zero}, std::move(axis)));
  return {};
}

bool Holds(DType dtype, float zero) {
  return zero >= static_cast<float>(IntegerMin(dtype)) &&
         zero <= static_cast<float>(IntegerMax(dtype));
}

ValueId Number(Upgrade& u, std::string_view suffix, float value) {
  return u.AddConstant(suffix, Tensor::Scalar(value));
}

// x / scale + zero.
ValueId Scaled(Upgrade& u, float zero) {
  const ValueId y = u.Apply("Div", "scaled", {u.node().input(0), u.node().input(1)});
  return zero == 0 ? y : u.Apply("Add", "shifted", {y, Number(u, "offset", zero)});
}

// (y - zero) * scale.
ValueId Real(Upgrade& u, ValueId y, float zero, ValueId scale) {
  if (zero != 0) y = u.Apply("Sub", "centred", {y, Number(u, "centre", zero)});
  return u.Apply("Mul", "real", {y, scale});
}

// 1 where y >= 0, else -1.
ValueId Sign(Upgrade& u, ValueId y) {
  const ValueId positive = u.Apply("GreaterOrEqual", "positive", {y, Number(u, "nothing", 0)});
  return u.Apply("Where", "sign", {positive, Number(u, "one", 1), Number(u, "minus_one", -1)});
}

ValueId RoundBy(Upgrade& u, const Rounding& rounding, ValueId y) {
  if (!rounding.magnitude) return u.Apply(rounding.op, "rounded", {y});
  ValueId size = u.Apply("Abs", "magnitude", {y});
  if (rounding.shift != 0)
    size = u.Apply("Add", "moved", {size, Number(u, "half", rounding.shift)});
  size = u.Apply(rounding.op, "whole", {size});
  return u.Apply("Mul", "rounded", {size, u.Apply("Sign", "direction", {y})});
}

// (f(clamp(x / scale + zero, low, high)) - zero) * scale, f the rounding.
ValueId Rounded(Upgrade& u, const Integers& grid, const Rounding& rounding) {
  const ValueId low = Number(u, "low", static_cast<float>(grid.low)),
                high = Number(u, "high", static_cast<float>(grid.high));
  const ValueId y = u.Apply("Clip", "range", {Scaled(u, grid.zero), low, high});
  return Real(u, RoundBy(u, rounding, y), grid.zero, u.node().input(1));
}

// The node's input 0 on the grid: what `rounding` leaves, and the pair behind it.
Status QuantizeOn(Upgrade& u, const Integers& grid, const Rounding& rounding) {
  const DType dtype = StorageType(grid, u.Constant(0) != nullptr);
  if (!Holds(dtype, grid.zero))
    return Unsupported("zero point {} outside {}", grid.zero, DTypeName(dtype));
  ValueId x = u.node().input(0);
  if (grid.bits == 1 && grid.is_signed) {
    x = Real(u, Sign(u, Scaled(u, grid.zero)), grid.zero, u.node().input(1));
  } else if (!rounding.is_quantize()) {
    x = Rounded(u, grid, rounding);
  } else if (grid.low != IntegerMin(dtype) || grid.high != IntegerMax(dtype)) {
    const ValueId low = u.AddConstant("low", RealBound(u, grid, grid.low)),
                  high = u.AddConstant("high", RealBound(u, grid, grid.high));
    if (grid.scale.elements() == 1) {
      x = u.Apply("Clip", "range", {x, low, high});
    } else {
      x = u.Apply("Max", "at_least", {x, low});
      x = u.Apply("Min", "at_most", {x, high});
    }
  }
  return ReplaceByPair(u, x, grid, dtype);
}

// Quant(x, scale, zero, bits): y = (round(clamp(x / scale + zero, low, high)) - zero) * scale; of
// one bit with a sign the integers are -1 and 1. Where it rounds as QuantizeLinear, a range
// narrower than the storage type is clipped on the real values, whose bounds the division by the
// scale gives back exactly; else the pair behind what was rounded finds the same integers again.
// More than 16 bits, as Brevitas gives biases, are real numbers: import-qdq makes a bias int32.
Status Quant(Upgrade& u) {
  EVOQ_TRY(NeedInputs(u, 4));
  EVOQ_ASSIGN(const Rounding rounding, RoundingOf(u, "ROUND"));
  EVOQ_ASSIGN(const int bits, ConstantBits(u, 3, 32));
  Integers grid;
  EVOQ_TRY(SetZero(u, grid));
  SetBits(u, bits, grid);
  if (bits > 16) {
    u.ReplaceBy(Rounded(u, grid, rounding));
    return {};
  }
  EVOQ_TRY(SetScale(u, u.Constant(1), grid));
  return QuantizeOn(u, grid, rounding);
}

// BipolarQuant(x, scale): scale where x >= 0, else -scale.
Status Bipolar(Upgrade& u) {
  EVOQ_TRY(NeedInputs(u, 2));
  const ValueId scale = u.node().input(1);
  const ValueId y = u.Apply("Mul", "real", {Sign(u, u.node().input(0)), scale});
  Integers grid;
  grid.bits = 2;
  // A computed scale, or one of another shape, has no quantized type.
  if (!SetScale(u, u.Constant(1), grid)) {
    u.ReplaceBy(y);
    return {};
  }
  return ReplaceByPair(u, y, grid, StorageType(grid, u.Constant(0) != nullptr));
}

// Trunc(x, scale, zero, bits, out_bits): q = round(x / scale + zero), the lowest bits - out_bits of
// which are cut off: y = (f(q / 2^(bits - out_bits)) - zero) * scale.
// Since 2025 Trunc(x, scale, zero, bits, out_scale, out_bits), or out_zero in front of out_bits,
// with t = out_scale / scale rounded to a power of two: y = (f(clamp(q / t)) - zero / t) *
// out_scale.
Status Trunc(Upgrade& u) {
  const size_t count = std::clamp<size_t>(u.node().inputs.size(), 5, 7);
  const bool rescales = count > 5;
  EVOQ_TRY(NeedInputs(u, count));
  EVOQ_ASSIGN(const Rounding rounding, RoundingOf(u, "FLOOR"));
  EVOQ_ASSIGN(const int bits, ConstantBits(u, 3, 32));
  EVOQ_ASSIGN(const int out_bits, ConstantBits(u, count - 1, rescales ? 16 : 32));
  EVOQ_ASSIGN(const float zero, ConstantScalar(u, 2, "the zero point"));
  ValueId y = u.Apply("Round", "integers", {Scaled(u, zero)});
  if (!rescales) {
    y = u.Apply("Div", "cut", {y, Number(u, "power", std::ldexp(1.0f, bits - out_bits))});
    u.ReplaceBy(Real(u, RoundBy(u, rounding, y), zero, u.node().input(1)));
    return {};
  }
  EVOQ_ASSIGN(const float scale, ConstantScalar(u, 1, "the scale"));
  EVOQ_ASSIGN(const float out_scale, ConstantScalar(u, 4, "the output's scale"));
  if (!(scale > 0) || !(out_scale > 0))
    return Unsupported("scales {} and {}, expected numbers above 0", scale, out_scale);
  const float power = std::exp2(std::nearbyint(std::log2(out_scale / scale)));
  Integers grid;
  SetBits(u, out_bits, grid);
  EVOQ_TRY(SetScale(u, u.Constant(4), grid));
  grid.zero = zero / power;
  y = u.Apply("Div", "cut", {y, Number(u, "power", power)});
  y = u.Apply("Clip", "range",
              {y, Number(u, "low", static_cast<float>(grid.low)),
               Number(u, "high", static_cast<float>(grid.high))});
  y = Real(u, RoundBy(u, rounding, y), grid.zero, u.node().input(4));
  const DType dtype = StorageType(grid, u.Constant(0) != nullptr);
  if (grid.zero == std::floor(grid.zero) && Holds(dtype, grid.zero))
    return ReplaceByPair(u, y, grid, dtype);
  u.ReplaceBy(y);
  return {};
}

// MultiThreshold(x, thresholds [C or 1, T]): out_scale * (how many of its channel's thresholds x is
// at least) + out_bias. Channels are axis 1 of NCHW with 2 or 4 dimensions, else the last.
Status MultiThreshold(Upgrade& u) {
  EVOQ_TRY(NeedInputs(u, 2));
  const Shape& x = u.InputType(0).shape;
  const Tensor* t = u.Constant(1);
  if (t == nullptr || t->shape().rank() != 2)
    return Unsupported("the thresholds must be a constant matrix");
  if (!x.ranked() || x.rank() < 2)
    return Unsupported("x is {}, expected a rank of 2 or more", x.ToString());
  const int rank = x.rank();
  const std::string layout = u.attrs().String("data_layout", "NCHW");
  const int axis = layout == "NCHW" && (rank == 2 || rank == 4) ? 1 : rank - 1;
  const int64_t channels = t->shape()[0].value, count = t->shape()[1].value;
  if (channels != 1 && x[axis].known() && x[axis].value != channels)
    return InvalidInput("thresholds of {} channels for {} of x", channels, x[axis].value);
  if (count < 1 || count > kMaxThresholds)
    return Unsupported("{} thresholds, expected 1 to {}", count, kMaxThresholds);
  EVOQ_ASSIGN(const Tensor real, ToFloat32(*t));
  std::vector<int64_t> sizes(static_cast<size_t>(rank - axis), 1);
  sizes[0] = channels;
  sizes.push_back(count);
  const ValueId thresholds =
      u.AddConstant("thresholds", real.WithType(TensorType(DType::kFloat32, Shape(sizes))));
  const ValueId last =
      u.AddConstant("last", Tensor::FromValues<int64_t>(Shape{1}, std::vector<int64_t>{rank}));
  Attrs to_float, reduce;
  to_float.Set("to", static_cast<int>(DType::kFloat32));
  reduce.Set("keepdims", 0);
  ValueId y = u.Apply("Unsqueeze", "column", {u.node().input(0), last});
  y = u.Apply("GreaterOrEqual", "reached", {y, thresholds});
  y = u.Apply("Cast", "reached_float", {y}, std::move(to_float));
  y = u.Apply("ReduceSum", "count", {y, last}, std::move(reduce));
  const float scale = u.attrs().Float("out_scale", 1), bias = u.attrs().Float("out_bias", 0);
  if (scale != 1) y = u.Apply("Mul", "scaled", {y, Number(u, "scale", scale)});
  if (bias != 0) y = u.Apply("Add", "shifted", {y, Number(u, "bias", bias)});
  Integers grid;
  grid.is_signed = false;
  grid.scale = Tensor::Scalar(scale);
  grid.zero = -bias / scale;
  const bool fits = scale > 0 && std::isfinite(scale) && count <= 255 &&
                    grid.zero == std::floor(grid.zero) && Holds(DType::kUint8, grid.zero);
  if (fits) return ReplaceByPair(u, y, grid, DType::kUint8);
  u.ReplaceBy(y);
  return {};
}

// The grid of FakeQuantize between `low` and `high`, where 0 is on it: without a zero point where
// the integers fit their bits so, else unsigned.
std::optional<Integers> GridBetween(const Tensor& low, const Tensor& high, int64_t levels) {
  constexpr double kOff = 1e-3;  // of a step: bounds are float32 numbers
  Integers grid;
  grid.scale = Tensor::Allocate(low.type());
  for (int64_t i = 0; i < low.elements(); ++i) {
    const double l = low.data<float>()[i], h = high.data<float>()[i];
    const double step = (h - l) / static_cast<double>(levels - 1);
    const double first = std::nearbyint(l / step);
    if (!(step > 0) || !(std::fabs(first) <= 65536) || std::fabs(l / step - first) > kOff)
      return std::nullopt;
    if (i > 0 && static_cast<int64_t>(first) != grid.low) return std::nullopt;
    grid.low = static_cast<int64_t>(first);
    grid.scale.mutable_data<float>()[i] = static_cast<float>(step);
  }
  grid.high = grid.low + levels - 1;
  if (grid.low > 0 || grid.high < 0) return std::nullopt;
  grid.bits = std::max(2, static_cast<int>(std::bit_width(static_cast<uint64_t>(levels - 1))));
  const int64_t half = int64_t{1} << (grid.bits - 1);
  grid.is_signed = grid.low < 0 && grid.low >= -half && grid.high < half;
  if (grid.is_signed || grid.low == 0) return grid;
  grid.zero = static_cast<float>(-grid.low);
  grid.low = 0, grid.high = levels - 1;
  return grid;
}

// FakeQuantize(x, low, high, out_low, out_high) of OpenVINO, which NNCF writes into ONNX files:
//   y = round((clamp(x, low, high) - low) / (high - low) * n) / n * (out_high - out_low) + out_low
// with n = levels - 1; of equal bounds, whose grid has 0, QuantizeLinear and DequantizeLinear.
Status FakeQuantize(Upgrade& u) {
  EVOQ_TRY(NeedInputs(u, 5));
  const int64_t levels = u.attrs().Int("levels", 256);
  if (levels < 2 || levels > 65536) return InvalidInput("levels={}, expected 2 to 65536", levels);
  const Tensor *low = u.Constant(1), *high = u.Constant(2), *out_low = u.Constant(3),
               *out_high = u.Constant(4);
  const bool known = low != nullptr && high != nullptr && out_low != nullptr && out_high != nullptr;
  if (known && low->dtype() == DType::kFloat32 && low->type() == high->type() &&
      BitEqual(*low, *out_low) && BitEqual(*high, *out_high)) {
    auto grid = GridBetween(*low, *high, levels);
    const Tensor scale = grid ? grid->scale : Tensor();
    if (grid && SetScale(u, &scale, *grid)) return QuantizeOn(u, *grid, Rounding());
  }
  const std::vector<ValueId> in = u.node().inputs;
  const auto n = static_cast<float>(levels - 1);
  const ValueId above = u.Apply("Max", "at_least", {in[0], in[1]});
  const ValueId clamped = u.Apply("Min", "at_most", {above, in[2]});
  const ValueId offset = u.Apply("Sub", "offset", {clamped, in[1]});
  const ValueId width = u.Apply("Sub", "width", {in[2], in[1]});
  const ValueId share = u.Apply("Div", "share", {offset, width});
  const ValueId level =
      u.Apply("Round", "level", {u.Apply("Mul", "levels", {share, Number(u, "n", n)})});
  const ValueId part = u.Apply("Div", "part", {level, Number(u, "most", n)});
  const ValueId out_width = u.Apply("Sub", "out_width", {in[4], in[3]});
  u.ReplaceBy(u.Apply("Add", "", {u.Apply("Mul", "real", {part, out_width}), in[3]}));
  return {};
}

constexpr UpgradeRule kRules[] = {
    {"FakeQuantize", "org.openvinotoolkit", kAnyVersion, FakeQuantize},
    {"Quant", "onnx.brevitas", kAnyVersion, Quant},
    {"Quant", "qonnx.custom_op.general", kAnyVersion, Quant},
    {"Quant", "finn.custom_op.general", kAnyVersion, Quant},
    {"IntQuant", "qonnx.custom_op.general", kAnyVersion, Quant},
    {"IntQuant", "finn.custom_op.general", kAnyVersion, Quant},
    {"BipolarQuant", "onnx.brevitas", kAnyVersion, Bipolar},
    {"BipolarQuant", "qonnx.custom_op.general", kAnyVersion, Bipolar},
    {"BipolarQuant", "finn.custom_op.general", kAnyVersion, Bipolar},
    {"Trunc", "onnx.brevitas", kAnyVersion, Trunc},
    {"Trunc", "qonnx.custom_op.general", kAnyVersion, Trunc},
    {"Trunc", "finn.custom_op.general", kAnyVersion, Trunc},
    {"MultiThreshold", "qonnx.custom_op.general", kAnyVersion, MultiThreshold},
    {"MultiThreshold", "finn.custom_op.general", kAnyVersion, MultiThreshold},
};

}  // namespace

std::span<const UpgradeRule> QonnxRules() { return kRules; }

}  // namespace evoq
