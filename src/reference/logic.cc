// Comparisons, logic and bits of two values with broadcasting, and Where.
#include <functional>

#include "reference/broadcast.h"
#include "reference/definition.h"
#include "reference/util.h"

namespace evoq {
namespace {

template <typename F>
EvalResult EvaluateCompare(const EvalArgs& args) {
  const Tensor &a = args.inputs[0], &b = args.inputs[1];
  EVOQ_ASSIGN(Tensor y, AllocateBroadcast(a, b, DType::kBool));
  EVOQ_TRY(DispatchElement(a.dtype(), [&](auto tag) -> Status {
    BroadcastInto<decltype(tag), bool>(a, b, y, F());
    return {};
  }));
  return One(std::move(y));
}

template <typename F>
EvalResult EvaluateLogic(const EvalArgs& args) {
  EVOQ_ASSIGN(Tensor y, (BroadcastMap<uint8_t, uint8_t>(
                            args.inputs[0], args.inputs[1], DType::kBool, [](uint8_t a, uint8_t b) {
                              return static_cast<uint8_t>(F()(a != 0, b != 0));
                            })));
  return One(std::move(y));
}

// Of integers, whose bits do not depend on their sign.
template <typename F>
EvalResult EvaluateBits(const EvalArgs& args) {
  const Tensor &a = args.inputs[0], &b = args.inputs[1];
  EVOQ_ASSIGN(Tensor y, AllocateBroadcast(a, b, a.dtype()));
  EVOQ_TRY(DispatchWidth(a.dtype(), [&](auto tag) -> Status {
    using T = decltype(tag);
    BroadcastInto<T, T>(a, b, y, [](T p, T q) { return static_cast<T>(F()(p, q)); });
    return {};
  }));
  return One(std::move(y));
}

// ---- BitShift: x << n or x >> n, the sign kept by the right shift; 0 when n is the width or more
// or negative, but -1 for the right shift of a negative x.

EvalResult EvaluateBitShift(const EvalArgs& args) {
  const Tensor& a = args.inputs[0];
  const bool left = args.node.attrs.String("direction") == "LEFT";
  EVOQ_ASSIGN(Tensor y, AllocateBroadcast(a, args.inputs[1], a.dtype()));
  EVOQ_TRY(DispatchInteger(a.dtype(), [&](auto tag) -> Status {
    using T = decltype(tag);
    BroadcastInto<T, T>(a, args.inputs[1], y, [left](T x, T n) -> T {
      constexpr int kBits = 8 * sizeof(T);
      if (n < 0 || static_cast<uint64_t>(n) >= kBits)
        return static_cast<T>(!left && x < 0 ? -1 : 0);
      return static_cast<T>(left ? static_cast<uint64_t>(x) << n : x >> n);
    });
    return {};
  }));
  return One(std::move(y));
}

// ---- Where(condition, x, y)

EvalResult EvaluateWhere(const EvalArgs& args) {
  EVOQ_ASSIGN(const std::vector<TensorType> types, InferFromValues(args));
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

}  // namespace

namespace reference {

extern const Definition kEqual = {.name = "Equal", .evaluate = EvaluateCompare<std::equal_to<>>};
extern const Definition kGreater = {.name = "Greater", .evaluate = EvaluateCompare<std::greater<>>};
extern const Definition kGreaterOrEqual = {.name = "GreaterOrEqual",
                                           .evaluate = EvaluateCompare<std::greater_equal<>>};
extern const Definition kLess = {.name = "Less", .evaluate = EvaluateCompare<std::less<>>};
extern const Definition kLessOrEqual = {.name = "LessOrEqual",
                                        .evaluate = EvaluateCompare<std::less_equal<>>};
extern const Definition kAnd = {.name = "And", .evaluate = EvaluateLogic<std::logical_and<>>};
extern const Definition kOr = {.name = "Or", .evaluate = EvaluateLogic<std::logical_or<>>};
extern const Definition kXor = {.name = "Xor", .evaluate = EvaluateLogic<std::not_equal_to<>>};
extern const Definition kBitwiseAnd = {.name = "BitwiseAnd",
                                       .evaluate = EvaluateBits<std::bit_and<>>};
extern const Definition kBitwiseOr = {.name = "BitwiseOr", .evaluate = EvaluateBits<std::bit_or<>>};
extern const Definition kBitwiseXor = {.name = "BitwiseXor",
                                       .evaluate = EvaluateBits<std::bit_xor<>>};
extern const Definition kBitShift = {.name = "BitShift", .evaluate = EvaluateBitShift};
extern const Definition kWhere = {.name = "Where", .evaluate = EvaluateWhere};

}  // namespace reference
}  // namespace evoq
