// Operators of two operands that broadcast, and ADD_N.
#include "tflite/elementwise.h"

namespace evoq::tflite {
namespace {

using Operands = std::vector<ValueId>;

Status Add(Translator& to) {
  EVOQ_ASSIGN(const auto* o, to.Options<fb::AddOptions>());
  Attrs attrs;
  EVOQ_TRY(to.AddActivation(o->activation(), attrs));
  return SetApplied(to, "Add", std::move(attrs));
}

template <typename Options>
Status Activating(Translator& to, const char* op) {
  EVOQ_ASSIGN(const auto* o, to.Options<Options>());
  return SetElementwise(to, [&](const Operands& operands) {
    return to.Activated(to.Apply(op, operands), o->activation());
  });
}

Status Sub(Translator& to) { return Activating<fb::SubOptions>(to, "Sub"); }
Status Mul(Translator& to) { return Activating<fb::MulOptions>(to, "Mul"); }
Status Div(Translator& to) { return Activating<fb::DivOptions>(to, "Div"); }
Status Maximum(Translator& to) { return SetApplied(to, "Max"); }
Status Minimum(Translator& to) { return SetApplied(to, "Min"); }
Status Pow(Translator& to) { return SetApplied(to, "Pow"); }
Status AddN(Translator& to) { return SetApplied(to, "Sum"); }

Status SquaredDifference(Translator& to) {
  return SetElementwise(to, [&](const Operands& x) -> Result<ValueId> {
    const ValueId d = to.Apply("Sub", x);
    return to.Apply("Mul", {d, d});
  });
}

bool IsReal(Translator& to) { return to.input(0).dtype == DType::kFloat32 || to.input(0).quant; }

// floor(a / b); of integers (a - (a mod b)) / b with the remainder of b's sign.
Status FloorDiv(Translator& to) {
  return SetElementwise(to, [&](const Operands& x) -> Result<ValueId> {
    if (IsReal(to)) return to.Apply("Floor", {to.Apply("Div", x)});
    const ValueId rest = to.Apply("Mod", x);
    return to.Apply("Div", {to.Apply("Sub", {x[0], rest}), x[1]});
  });
}

// a - floor(a / b) b: the remainder of b's sign.
Status FloorMod(Translator& to) {
  return SetElementwise(to, [&](const Operands& x) -> Result<ValueId> {
    if (!IsReal(to)) return to.Apply("Mod", x);
    const ValueId floor = to.Apply("Floor", {to.Apply("Div", x)});
    return to.Apply("Sub", {x[0], to.Apply("Mul", {floor, x[1]})});
  });
}

constexpr OpRow Binary(const char* name, int number, Status (*translate)(Translator&),
                       Sizes (*sizes)(const Translator&) = nullptr) {
  return {.name = name,
          .number = number,
          .least_inputs = 2,
          .most_inputs = 2,
          .translate = translate,
          .sizes = sizes};
}

}  // namespace

extern const OpRow kAdd = Binary("ADD", 0, Add, SizesOfSum);
extern const OpRow kMul = Binary("MUL", 18, Mul, SizesOfProduct);
extern const OpRow kSub = Binary("SUB", 41, Sub, SizesOfDifference);
extern const OpRow kDiv = Binary("DIV", 42, Div);
extern const OpRow kMaximum = Binary("MAXIMUM", 55, Maximum);
extern const OpRow kMinimum = Binary("MINIMUM", 57, Minimum);
extern const OpRow kPow = Binary("POW", 78, Pow);
extern const OpRow kFloorDiv = Binary("FLOOR_DIV", 90, FloorDiv);
extern const OpRow kFloorMod = Binary("FLOOR_MOD", 95, FloorMod);
extern const OpRow kSquaredDifference = Binary("SQUARED_DIFFERENCE", 99, SquaredDifference);
extern const OpRow kAddN = {
    .name = "ADD_N", .number = 106, .least_inputs = 1, .most_inputs = -1, .translate = AddN};

}  // namespace evoq::tflite
