#include <algorithm>
#include <limits>
#include <numeric>

#include "reference/reference.h"
#include "train/gradients/moves.h"

namespace evoq {
namespace {

// `places`: one more than where each element of an output lies, 0 for what is not data.
Moves MovesFrom(std::span<const int64_t> places) {
  const auto n = static_cast<int64_t>(places.size());
  const auto goes_on = [&](int64_t i) {
    return places[i] == (places[i - 1] == 0 ? 0 : places[i - 1] + 1);
  };
  int64_t length = n;  // what divides the beginnings of all runs
  for (int64_t i = 1; i < n; ++i) {
    if (!goes_on(i)) length = std::gcd(length, i);
  }
  std::vector<int32_t> from;
  for (int64_t i = 0; i < n; i += length) from.push_back(static_cast<int32_t>(places[i] - 1));
  return {std::max<int64_t>(length, 1),
          std::make_shared<const std::vector<int32_t>>(std::move(from))};
}

void Forward(const Moves& moves, float fill, const float* x, float* y) {
  const std::vector<int32_t>& from = *moves.from;
  const int64_t length = moves.length;
  if (length == 1) {
    for (size_t i = 0; i < from.size(); ++i) y[i] = from[i] < 0 ? fill : x[from[i]];
    return;
  }
  for (const int32_t begin : from) {
    if (begin < 0) {
      std::fill_n(y, length, fill);
    } else {
      std::copy_n(x + begin, length, y);
    }
    y += length;
  }
}

void Backward(const Moves& moves, const float* dy, float* dx) {
  const int64_t length = moves.length;
  for (const int32_t begin : *moves.from) {
    for (int64_t j = 0; j < length && begin >= 0; ++j) dx[begin + j] += dy[j];
    dy += length;
  }
}

}  // namespace

Result<std::vector<Moves>> MovesOf(const GradientArgs& args) {
  const int64_t n = *args.x[0].shape.elements();
  if (n >= std::numeric_limits<int32_t>::max()) return Unsupported("{} elements", n);
  Tensor numbers = Tensor::Allocate(TensorType(DType::kInt64, args.x[0].shape));
  std::iota(numbers.mutable_data<int64_t>(), numbers.mutable_data<int64_t>() + n, int64_t{1});
  std::vector<Tensor> inputs = {std::move(numbers)};
  for (size_t i = 1; i < args.x.size(); ++i) {
    const bool given = args.x[i].dtype != DType::kUndefined;
    if (given && args.constants[i] == nullptr) return Unsupported("input {} that is not known", i);
    const bool real = given && args.x[i].dtype == DType::kFloat32;
    inputs.push_back(real ? Tensor::Scalar(int64_t{0}) : given ? *args.constants[i] : Tensor());
  }
  std::vector<TensorType> types;
  for (const TensorType& y : args.y) {
    types.push_back(y);
    if (y.dtype != DType::kUndefined) types.back().dtype = DType::kInt64;
  }
  EVOQ_ASSIGN(const std::vector<Tensor> places,
              EvaluateAhead(kReference, args.node, inputs, types));
  std::vector<Moves> out;
  for (size_t i = 0; i < args.y.size(); ++i)
    out.push_back(MovesFrom(places.at(i).values<int64_t>()));
  return out;
}

BoundGradient MovedBy(const std::vector<Moves>& outputs, float fill) {
  return BoundGradient{.forward =
                           [outputs, fill](const GradientRun& run) {
                             for (size_t i = 0; i < outputs.size(); ++i) {
                               if (run.y[i] != nullptr)
                                 Forward(outputs[i], fill, run.x[0], run.y[i]);
                             }
                           },
                       .backward =
                           [outputs](const GradientRun& run) {
                             for (size_t i = 0; i < outputs.size(); ++i) {
                               if (run.dy[i] != nullptr) Backward(outputs[i], run.dy[i], run.dx[0]);
                             }
                           }};
}

}  // namespace evoq
