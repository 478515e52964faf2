// Functions of one value, activations among them.
#include "tflite/elementwise.h"

namespace evoq::tflite {
namespace {

using Operands = std::vector<ValueId>;

// The row of a function that ONNX has by the name `op`.
struct Text {
  char text[16] = {};
  consteval Text(const char* from) {  // not explicit: rows write Function<"Exp">
    for (int i = 0; from[i] != 0; ++i) text[i] = from[i];
  }
};
template <Text kOp>
constexpr OpRow Function(const char* name, int number) {
  return {.name = name, .number = number, .translate = [](Translator& to) {
            return SetApplied(to, kOp.text);
          }};
}

Status Clipped(Translator& to, float low, float high) {
  return SetElementwise(to, [&](const Operands& x) -> Result<ValueId> {
    return to.Apply("Clip", {x[0], to.FloatConstant(low), to.FloatConstant(high)});
  });
}
Status Relu6(Translator& to) { return Clipped(to, 0, 6); }
Status ReluN1To1(Translator& to) { return Clipped(to, -1, 1); }
Status Relu0To1(Translator& to) { return Clipped(to, 0, 1); }

Status LeakyRelu(Translator& to) {
  EVOQ_ASSIGN(const auto* o, to.Options<fb::LeakyReluOptions>());
  return SetApplied(to, "LeakyRelu", Attrs::Of("alpha", o->alpha()));
}

Status Gelu(Translator& to) {
  EVOQ_ASSIGN(const auto* o, to.Options<fb::GeluOptions>());
  Attrs attrs;
  if (o->approximate()) attrs.Set("approximate", "tanh");
  return SetApplied(to, "Gelu", std::move(attrs));
}

// max(x, 0) + slope min(x, 0), the slope of any shape that broadcasts.
Status PRelu(Translator& to) { return SetApplied(to, "PRelu"); }

Status Rsqrt(Translator& to) {
  return SetElementwise(to, [&](const Operands& x) -> Result<ValueId> {
    return to.Apply("Reciprocal", {to.Apply("Sqrt", x)});
  });
}

Status Square(Translator& to) {
  return SetElementwise(
      to, [&](const Operands& x) -> Result<ValueId> { return to.Apply("Mul", {x[0], x[0]}); });
}

// atan(y / x), half a turn further where x is below 0; of 0 and 0 it is 0.
Status Atan2(Translator& to) {
  return SetElementwise(to, [&](const Operands& in) -> Result<ValueId> {
    constexpr float kHalfTurn = 3.14159265358979f;
    const ValueId y = in[0], x = in[1], zero = to.FloatConstant(0);
    const ValueId below = to.Apply("Less", {y, zero});
    const ValueId turn =
        to.Apply("Where", {below, to.FloatConstant(-kHalfTurn), to.FloatConstant(kHalfTurn)});
    const ValueId left = to.Apply("Where", {to.Apply("Less", {x, zero}), turn, zero});
    const ValueId none =
        to.Apply("And", {to.Apply("Equal", {y, zero}), to.Apply("Equal", {x, zero})});
    const ValueId angle = to.Apply("Atan", {to.Apply("Div", {y, x})});
    return to.Apply("Where", {none, zero, to.Apply("Add", {angle, left})});
  });
}

Status BitwiseXor(Translator& to) { return SetApplied(to, "BitwiseXor"); }

// floor(x / 2^n), of integers with a sign too.
Status RightShift(Translator& to) {
  const ValueId x = to.Int64s(0), two = to.Constant(Tensor::Scalar<int64_t>(2));
  const ValueId power = to.Apply("Pow", {two, to.Int64s(1)});
  const ValueId whole = to.Apply("Sub", {x, to.Apply("Mod", {x, power})});
  return to.Set(0, to.Apply("Cast", {to.Apply("Div", {whole, power})},
                            Attrs::Of("to", static_cast<int>(to.output(0).dtype))));
}

}  // namespace

extern const OpRow kFloor = Function<"Floor">("FLOOR", 8);
extern const OpRow kLogistic = Function<"Sigmoid">("LOGISTIC", 14);
extern const OpRow kRelu = Function<"Relu">("RELU", 19);
extern const OpRow kTanh = Function<"Tanh">("TANH", 28);
extern const OpRow kExp = Function<"Exp">("EXP", 47);
extern const OpRow kNeg = Function<"Neg">("NEG", 59);
extern const OpRow kSin = Function<"Sin">("SIN", 66);
extern const OpRow kLog = Function<"Log">("LOG", 73);
extern const OpRow kSqrt = Function<"Sqrt">("SQRT", 75);
extern const OpRow kAbs = Function<"Abs">("ABS", 101);
extern const OpRow kCeil = Function<"Ceil">("CEIL", 104);
extern const OpRow kCos = Function<"Cos">("COS", 108);
extern const OpRow kElu = Function<"Elu">("ELU", 111);
extern const OpRow kRound = Function<"Round">("ROUND", 116);
extern const OpRow kHardSwish = Function<"HardSwish">("HARD_SWISH", 117);
extern const OpRow kSign = Function<"Sign">("SIGN", 158);
extern const OpRow kReluN1To1 = {.name = "RELU_N1_TO_1", .number = 20, .translate = ReluN1To1};
extern const OpRow kRelu6 = {.name = "RELU6", .number = 21, .translate = Relu6};
extern const OpRow kRelu0To1 = {.name = "RELU_0_TO_1", .number = 152, .translate = Relu0To1};
extern const OpRow kPRelu = {
    .name = "PRELU", .number = 54, .least_inputs = 2, .most_inputs = 2, .translate = PRelu};
extern const OpRow kRsqrt = {.name = "RSQRT", .number = 76, .translate = Rsqrt};
extern const OpRow kSquare = {.name = "SQUARE", .number = 92, .translate = Square};
extern const OpRow kLeakyRelu = {.name = "LEAKY_RELU", .number = 98, .translate = LeakyRelu};
extern const OpRow kAtan2 = {
    .name = "ATAN2", .number = 156, .least_inputs = 2, .most_inputs = 2, .translate = Atan2};
extern const OpRow kBitwiseXor = {.name = "BITWISE_XOR",
                                  .number = 160,
                                  .least_inputs = 2,
                                  .most_inputs = 2,
                                  .translate = BitwiseXor};
extern const OpRow kRightShift = {.name = "RIGHT_SHIFT",
                                  .number = 161,
                                  .least_inputs = 2,
                                  .most_inputs = 2,
                                  .translate = RightShift};
extern const OpRow kGelu = {.name = "GELU", .number = 150, .translate = Gelu};

}  // namespace evoq::tflite
