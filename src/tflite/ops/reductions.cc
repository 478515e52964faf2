// Reductions over axes that input 1 names, ARG_MAX, ARG_MIN and CUMSUM.
#include <algorithm>

#include "tflite/translator.h"

namespace evoq::tflite {
namespace {

constexpr int64_t kPlanarAxis[] = {0, 2, 3, 1};

// Over height and width of a planar value: the mean that ends most networks needs no Transpose.
Status SetReduced(Translator& to, const char* op) {
  EVOQ_ASSIGN(const auto* o, to.Options<fb::ReducerOptions>());
  EVOQ_ASSIGN(std::vector<int64_t> axes, to.Ints(1));
  const int rank = to.input(0).rank();
  for (int64_t& axis : axes) {
    EVOQ_ASSIGN(axis, to.AxisOf(axis, rank));
  }
  const bool spatial = std::ranges::all_of(axes, [](int64_t a) { return a == 1 || a == 2; });
  const bool planar =
      rank == 4 && to.AllPlanar() && spatial && (o->keep_dims() || axes.size() == 2);
  if (planar) {
    for (int64_t& axis : axes) axis = kPlanarAxis[axis];
  }
  Attrs attrs;
  attrs.Set("keepdims", o->keep_dims() ? 1 : 0);
  if (axes.empty()) attrs.Set("noop_with_empty_axes", 1);
  const ValueId y =
      to.Apply(op, {planar ? to.Planar(0) : to.Real(0), to.Int64Constant(axes)}, std::move(attrs));
  return planar && o->keep_dims() ? to.SetPlanar(0, y) : to.Set(0, y);
}

Status Mean(Translator& to) { return SetReduced(to, "ReduceMean"); }
Status Sum(Translator& to) { return SetReduced(to, "ReduceSum"); }
Status Prod(Translator& to) { return SetReduced(to, "ReduceProd"); }
Status Max(Translator& to) { return SetReduced(to, "ReduceMax"); }
Status Min(Translator& to) { return SetReduced(to, "ReduceMin"); }

Status Any(Translator& to) { return SetReduced(to, "ReduceMax"); }
Status All(Translator& to) { return SetReduced(to, "ReduceMin"); }

Status ArgExtreme(Translator& to, const char* op) {
  EVOQ_ASSIGN(const int64_t given, to.Int(1));
  EVOQ_ASSIGN(const int64_t axis, to.AxisOf(given, to.input(0).rank()));
  Attrs attrs, cast;
  attrs.Set("axis", axis);
  attrs.Set("keepdims", 0);
  const ValueId y = to.Apply(op, {to.Real(0)}, std::move(attrs));
  if (to.output(0).dtype == DType::kInt64) return to.Set(0, y);
  cast.Set("to", static_cast<int>(to.output(0).dtype));
  return to.Set(0, to.Apply("Cast", {y}, std::move(cast)));
}
Status ArgMax(Translator& to) { return ArgExtreme(to, "ArgMax"); }
Status ArgMin(Translator& to) { return ArgExtreme(to, "ArgMin"); }

Status CumSum(Translator& to) {
  EVOQ_ASSIGN(const auto* o, to.Options<fb::CumsumOptions>());
  EVOQ_ASSIGN(const int64_t axis, to.Int(1));
  Attrs attrs;
  attrs.Set("exclusive", o->exclusive() ? 1 : 0);
  attrs.Set("reverse", o->reverse() ? 1 : 0);
  const ValueId at = to.Constant(Tensor::Scalar<int64_t>(axis));
  return to.Set(0, to.Apply("CumSum", {to.Real(0), at}, std::move(attrs)));
}

constexpr OpRow Row(const char* name, int number, Status (*translate)(Translator&)) {
  return {
      .name = name, .number = number, .least_inputs = 2, .most_inputs = 2, .translate = translate};
}

}  // namespace

extern const OpRow kMean = Row("MEAN", 40, Mean);
extern const OpRow kArgMax = Row("ARG_MAX", 56, ArgMax);
extern const OpRow kSum = Row("SUM", 74, Sum);
extern const OpRow kArgMin = Row("ARG_MIN", 79, ArgMin);
extern const OpRow kReduceProd = Row("REDUCE_PROD", 81, Prod);
extern const OpRow kReduceMax = Row("REDUCE_MAX", 82, Max);
extern const OpRow kReduceMin = Row("REDUCE_MIN", 89, Min);
extern const OpRow kReduceAny = Row("REDUCE_ANY", 91, Any);
extern const OpRow kReduceAll = Row("REDUCE_ALL", 140, All);
extern const OpRow kCumSum = Row("CUMSUM", 128, CumSum);

}  // namespace evoq::tflite
