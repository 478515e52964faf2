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
extern const OpRow kGelu = {.name = "GELU", .number = 150, .translate = Gelu};

}  // namespace evoq::tflite
