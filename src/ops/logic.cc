// Comparisons, logic and bits of two values with broadcasting, and Where.
#include <functional>
#include <limits>

#include "ops/broadcast.h"
#include "ops/indexing.h"
#include "ops/op.h"

namespace evoq {
namespace {

template <typename F>
EvalResult EvaluateCompare(const EvalArgs& args) {
  const Tensor &a = args.inputs[0], &b = args.inputs[1];
  return DispatchElement(a.dtype(), [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    EVOQ_ASSIGN(Tensor y, (BroadcastMap<T, bool>(a, b, DType::kBool, F())));
    return One(std::move(y));
  });
}

InferResult InferLogic(const InferArgs& args) {
  EVOQ_TRY(CheckDType(args, 0, std::array{DType::kBool}));
  return BroadcastInputs(args);
}

template <typename F>
EvalResult EvaluateLogic(const EvalArgs& args) {
  EVOQ_ASSIGN(Tensor y, (BroadcastMap<uint8_t, uint8_t>(
                            args.inputs[0], args.inputs[1], DType::kBool, [](uint8_t a, uint8_t b) {
                              return static_cast<uint8_t>(F()(a != 0, b != 0));
                            })));
  return One(std::move(y));
}

InferResult InferBits(const InferArgs& args) {
  if (!IsInteger(args.inputs[0].dtype))
    return InvalidInput("input 0 is {}, expected an integer type", args.inputs[0].ToString());
  return BroadcastInputs(args);
}

template <typename F>
EvalResult EvaluateBits(const EvalArgs& args) {
  const Tensor& a = args.inputs[0];
  return DispatchInteger(a.dtype(), [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    EVOQ_ASSIGN(Tensor y, (BroadcastMap<T, T>(a, args.inputs[1], a.dtype(),
                                              [](T p, T q) { return static_cast<T>(F()(p, q)); })));
    return One(std::move(y));
  });
}

// ---- BitShift: x << n or x >> n, the sign kept by the right shift; 0 when n is the width or more
// or negative, but -1 for the right shift of a negative x.

InferResult InferBitShift(const InferArgs& args) {
  EVOQ_ASSIGN(const std::string direction, StringAttr(args.node, "direction", ""));
  if (direction != "LEFT" && direction != "RIGHT")
    return InvalidInput("direction is '{}', expected LEFT or RIGHT", direction);
  return InferBits(args);
}

EvalResult EvaluateBitShift(const EvalArgs& args) {
  const Tensor& a = args.inputs[0];
  const bool left = args.node.attrs.String("direction") == "LEFT";
  return DispatchInteger(a.dtype(), [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    EVOQ_ASSIGN(Tensor y, (BroadcastMap<T, T>(a, args.inputs[1], a.dtype(), [left](T x, T n) -> T {
                  constexpr int kBits = 8 * sizeof(T);
                  if (n < 0 || static_cast<uint64_t>(n) >= kBits)
                    return static_cast<T>(!left && x < 0 ? -1 : 0);
                  return static_cast<T>(left ? static_cast<uint64_t>(x) << n : x >> n);
                })));
    return One(std::move(y));
  });
}

// ---- Where(condition, x, y)

InferResult InferWhere(const InferArgs& args) {
  EVOQ_TRY(CheckDType(args, 0, std::array{DType::kBool}));
  EVOQ_TRY(CheckDType(args, 2, std::array{args.inputs[1].dtype}));
  EVOQ_ASSIGN(const Shape values, BroadcastShapes(args.inputs[1].shape, args.inputs[2].shape));
  EVOQ_ASSIGN(Shape shape, BroadcastShapes(args.inputs[0].shape, values));
  return std::vector<TensorType>{TensorType(args.inputs[1].dtype, std::move(shape))};
}

EvalResult EvaluateWhere(const EvalArgs& args) {
  EVOQ_ASSIGN(const std::vector<TensorType> types, InferFromValues(args, InferWhere));
  const Tensor &x = args.inputs[1], &y = args.inputs[2];
  return DispatchWidth(x.dtype(), [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    EVOQ_ASSIGN(Tensor out, AllocateOutput(types[0]));
    const std::vector<int64_t> sizes = out.sizes();
    const uint8_t* condition = args.inputs[0].data<uint8_t>();
    T* to = out.mutable_data<T>();
    ForEachIndex<3>(sizes,
                    {BroadcastStrides(args.inputs[0].sizes(), sizes),
                     BroadcastStrides(x.sizes(), sizes), BroadcastStrides(y.sizes(), sizes)},
                    [&](int64_t i, const auto& at) {
                      to[i] = condition[at[0]] != 0 ? x.data<T>()[at[1]] : y.data<T>()[at[2]];
                    });
    return One(std::move(out));
  });
}

using EvaluateFn = EvalResult (*)(const EvalArgs&);

constexpr OpDef CompareOp(const char* name, EvaluateFn evaluate) {
  return {.name = name,
          .min_inputs = 2,
          .max_inputs = 2,
          .elementwise = true,
          .strings = Strings::kRanks,
          .infer = BroadcastToBool,
          .evaluate = evaluate};
}
constexpr OpDef LogicOp(const char* name, EvaluateFn evaluate) {
  return {.name = name,
          .min_inputs = 2,
          .max_inputs = 2,
          .elementwise = true,
          .infer = InferLogic,
          .evaluate = evaluate};
}
constexpr OpDef BitsOp(const char* name, EvaluateFn evaluate) {
  return {.name = name,
          .min_inputs = 2,
          .max_inputs = 2,
          .elementwise = true,
          .infer = InferBits,
          .evaluate = evaluate};
}

}  // namespace

extern const OpDef kEqual = CompareOp("Equal", EvaluateCompare<std::equal_to<>>);
extern const OpDef kGreater = CompareOp("Greater", EvaluateCompare<std::greater<>>);
extern const OpDef kGreaterOrEqual =
    CompareOp("GreaterOrEqual", EvaluateCompare<std::greater_equal<>>);
extern const OpDef kLess = CompareOp("Less", EvaluateCompare<std::less<>>);
extern const OpDef kLessOrEqual = CompareOp("LessOrEqual", EvaluateCompare<std::less_equal<>>);
extern const OpDef kAnd = LogicOp("And", EvaluateLogic<std::logical_and<>>);
extern const OpDef kOr = LogicOp("Or", EvaluateLogic<std::logical_or<>>);
extern const OpDef kXor = LogicOp("Xor", EvaluateLogic<std::not_equal_to<>>);
extern const OpDef kBitwiseAnd = BitsOp("BitwiseAnd", EvaluateBits<std::bit_and<>>);
extern const OpDef kBitwiseOr = BitsOp("BitwiseOr", EvaluateBits<std::bit_or<>>);
extern const OpDef kBitwiseXor = BitsOp("BitwiseXor", EvaluateBits<std::bit_xor<>>);
extern const OpDef kBitShift = {.name = "BitShift",
                                .min_inputs = 2,
                                .max_inputs = 2,
                                .elementwise = true,
                                .infer = InferBitShift,
                                .evaluate = EvaluateBitShift};
extern const OpDef kWhere = {.name = "Where",
                             .min_inputs = 3,
                             .max_inputs = 3,
                             .elementwise = true,
                             .strings = Strings::kRanks,
                             .infer = InferWhere,
                             .evaluate = EvaluateWhere};

}  // namespace evoq
