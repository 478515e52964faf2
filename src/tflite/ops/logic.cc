// Comparisons, logic, and the choice between two values.
#include "tflite/elementwise.h"

namespace evoq::tflite {
namespace {

using Operands = std::vector<ValueId>;

Status Less(Translator& to) { return SetApplied(to, "Less"); }
Status Greater(Translator& to) { return SetApplied(to, "Greater"); }
Status GreaterEqual(Translator& to) { return SetApplied(to, "GreaterOrEqual"); }
Status LessEqual(Translator& to) { return SetApplied(to, "LessOrEqual"); }
Status Equal(Translator& to) { return SetApplied(to, "Equal"); }
Status NotEqual(Translator& to) {
  return SetElementwise(to, [&](const Operands& x) -> Result<ValueId> {
    return to.Apply("Not", {to.Apply("Equal", x)});
  });
}
Status And(Translator& to) { return SetApplied(to, "And"); }
Status Or(Translator& to) { return SetApplied(to, "Or"); }
Status Not(Translator& to) { return SetApplied(to, "Not"); }

// A condition of rank 1 chooses whole slices of axis 0.
Status Select(Translator& to) {
  const int rank = to.input(1).rank();
  if (to.input(0).rank() == 1 && rank > 1) {
    std::vector<int64_t> shape(static_cast<size_t>(rank), 1);
    shape[0] = -1;
    const ValueId condition = to.Apply("Reshape", {to.Real(0), to.Int64Constant(shape)});
    return to.Set(0, to.Apply("Where", {condition, to.Real(1), to.Real(2)}));
  }
  return SetApplied(to, "Where");
}

Status SelectV2(Translator& to) { return SetApplied(to, "Where"); }

// The indices of what is true, one in a row.
Status Where(Translator& to) {
  const ValueId x = to.Real(0);
  return to.Set(0, to.Transposed(to.Apply("NonZero", {x}), {1, 0}));
}

constexpr OpRow Row(const char* name, int number, int inputs, Status (*translate)(Translator&)) {
  return {.name = name,
          .number = number,
          .least_inputs = inputs,
          .most_inputs = inputs,
          .translate = translate};
}

}  // namespace

extern const OpRow kLess = Row("LESS", 58, 2, Less);
extern const OpRow kGreater = Row("GREATER", 61, 2, Greater);
extern const OpRow kGreaterEqual = Row("GREATER_EQUAL", 62, 2, GreaterEqual);
extern const OpRow kLessEqual = Row("LESS_EQUAL", 63, 2, LessEqual);
extern const OpRow kSelect = Row("SELECT", 64, 3, Select);
extern const OpRow kEqual = Row("EQUAL", 71, 2, Equal);
extern const OpRow kNotEqual = Row("NOT_EQUAL", 72, 2, NotEqual);
extern const OpRow kLogicalOr = Row("LOGICAL_OR", 84, 2, Or);
extern const OpRow kLogicalAnd = Row("LOGICAL_AND", 86, 2, And);
extern const OpRow kLogicalNot = Row("LOGICAL_NOT", 87, 1, Not);
extern const OpRow kWhere = Row("WHERE", 109, 1, Where);
extern const OpRow kSelectV2 = Row("SELECT_V2", 123, 3, SelectV2);

}  // namespace evoq::tflite
