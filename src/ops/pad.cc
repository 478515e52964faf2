// Pad(x, pads, value?, axes?): pads = the counts before each axis, then those after; negative
// counts crop.
#include "ops/pad.h"

#include <cstring>

#include "base/math.h"
#include "ops/indexing.h"
#include "ops/op.h"
#include "ops/util.h"

namespace evoq {

Result<PadMode> PadModeOf(const Node& node) {
  EVOQ_ASSIGN(const std::string mode, StringAttr(node, "mode", "constant"));
  if (mode == "constant") return PadMode::kConstant;
  if (mode == "edge") return PadMode::kEdge;
  if (mode == "reflect") return PadMode::kReflect;
  if (mode == "wrap") return PadMode::kWrap;
  return InvalidInput("mode is '{}', expected constant, edge, reflect or wrap", mode);
}

Result<Pads> MakePads(const std::vector<int64_t>& pads, const std::vector<int64_t>* axes,
                      int rank) {
  const size_t count = axes ? axes->size() : static_cast<size_t>(rank);
  if (pads.size() != 2 * count)
    return InvalidInput("input 1 (pads) has {} values, expected {}", pads.size(), 2 * count);
  Pads result{std::vector<int64_t>(rank, 0), std::vector<int64_t>(rank, 0)};
  std::vector<int> normal;
  if (axes) {
    EVOQ_ASSIGN(normal, NormalizeAxes(*axes, rank));
  } else {
    for (int i = 0; i < rank; ++i) normal.push_back(i);
  }
  for (int64_t pad : pads) {
    constexpr int64_t kLimit = int64_t{1} << 40;  // keeps the sums below far from overflow
    if (pad > kLimit || pad < -kLimit)
      return Fail(ErrorCode::kTooLarge, "input 1 (pads) has the value {}", pad);
  }
  for (size_t i = 0; i < count; ++i) {
    result.before[normal[i]] = pads[i];
    result.after[normal[i]] = pads[i + count];
  }
  return result;
}

namespace {

InferResult Infer(const InferArgs& args) {
  EVOQ_ASSIGN(const PadMode mode, PadModeOf(args.node));
  const TensorType& x = args.inputs[0];
  if (args.has(2)) EVOQ_TRY(CheckDType(args, 2, std::array{x.dtype}));
  if (!x.shape.ranked()) return std::vector<TensorType>{TensorType(x.dtype, x.shape)};
  EVOQ_ASSIGN(const auto pads, ConstantInts(args, 1));
  EVOQ_ASSIGN(const auto axes, ConstantInts(args, 3));
  std::vector<Dim> dims = x.shape.dims();
  if (pads && (axes || !args.has(3))) {
    EVOQ_ASSIGN(const Pads p, MakePads(*pads, axes ? &*axes : nullptr, x.shape.rank()));
    for (size_t i = 0; i < dims.size(); ++i) {
      if (p.before[i] == 0 && p.after[i] == 0) continue;
      if (!dims[i].known()) {
        dims[i] = Dim();
        continue;
      }
      const auto size = CheckedAdd(dims[i].value, p.before[i] + p.after[i]);
      if (!size || *size < 0)
        return InvalidInput("pads {} and {} on axis {} of {}", p.before[i], p.after[i], i,
                            x.shape.ToString());
      if (dims[i].value == 0 && *size > 0 && mode != PadMode::kConstant)
        return InvalidInput("axis {} is empty: only mode constant can pad it", i);
      dims[i] = Dim(*size);
    }
  } else if (axes) {
    EVOQ_ASSIGN(const std::vector<int> normal, NormalizeAxes(*axes, x.shape.rank()));
    for (int axis : normal) dims[axis] = Dim();
  } else {
    dims.assign(dims.size(), Dim());
  }
  return std::vector<TensorType>{TensorType(x.dtype, Shape(std::move(dims)))};
}

}  // namespace

// Quantized: the fill is the quantized `value`.
extern const OpDef kPad = {.name = "Pad",
                           .min_inputs = 2,
                           .max_inputs = 4,
                           .quant = QuantTrait::kMove,
                           .infer = Infer,
                           .roles = {Role::kData, Role::kParameter, Role::kFill, Role::kParameter},
                           .axes = AxisUse::kAllListed};

}  // namespace evoq
