// Random values: Bernoulli, Multinomial, RandomNormal, RandomUniform and the -Like forms. The same
// node gives the same values in every run: they come from SplitMix64 (Steele, Lea, Flood 2014),
// started by the attribute seed or by the node's name.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "reference/definition.h"
#include "reference/indexing.h"
#include "reference/util.h"

namespace evoq {
namespace {

class Generator {
 public:
  explicit Generator(const Node& node) {
    if (node.attrs.Has("seed")) {
      state_ = __builtin_bit_cast(uint32_t, node.attrs.Float("seed"));
    } else {
      state_ = 0xcbf29ce484222325u;  // FNV-1a of the name
      for (char c : node.name) state_ = (state_ ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
    }
  }
  // Uniform in [0, 1).
  double Uniform() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
  }
  // Standard normal, by Box and Muller.
  double Normal() {
    const double radius = std::sqrt(-2 * std::log(1 - Uniform()));
    return radius * std::cos(2 * std::numbers::pi * Uniform());
  }

 private:
  uint64_t state_ = 0;
};

// Elements from `next`, as floats or integers of `type`.
template <typename Next>
EvalResult Filled(const TensorType& type, const Next& next) {
  EVOQ_ASSIGN(Tensor y, AllocateGrown(type));
  if (IsFloat(type.dtype) && type.dtype != DType::kFloat64) {
    Tensor wide = Tensor::Allocate(TensorType(DType::kFloat32, type.shape));
    for (int64_t i = 0; i < wide.elements(); ++i)
      wide.mutable_data<float>()[i] = static_cast<float>(next(i));
    EVOQ_ASSIGN(Tensor stored, FromFloat32(wide, type.dtype));
    return One(std::move(stored));
  }
  return DispatchElement(type.dtype, [&](auto tag) -> EvalResult {
    for (int64_t i = 0; i < y.elements(); ++i)
      y.mutable_data<decltype(tag)>()[i] = static_cast<decltype(tag)>(next(i));
    return One(std::move(y));
  });
}

EvalResult EvaluateNormal(const EvalArgs& args) {
  Generator random(args.node);
  const double mean = args.node.attrs.Float("mean", 0), scale = args.node.attrs.Float("scale", 1);
  return Filled(args.output_types[0], [&](int64_t) { return mean + scale * random.Normal(); });
}

EvalResult EvaluateUniform(const EvalArgs& args) {
  Generator random(args.node);
  const double low = args.node.attrs.Float("low", 0), high = args.node.attrs.Float("high", 1);
  return Filled(args.output_types[0],
                [&](int64_t) { return low + (high - low) * random.Uniform(); });
}

// y[i] = 1 with probability x[i].
EvalResult EvaluateBernoulli(const EvalArgs& args) {
  EVOQ_ASSIGN(const Tensor x, ToFloat32(args.inputs[0]));
  Generator random(args.node);
  return Filled(args.output_types[0], [&](int64_t i) {
    return random.Uniform() < static_cast<double>(x.data<float>()[i]) ? 1.0 : 0.0;
  });
}

// ---- Multinomial(x): per row of [batch, classes] unnormalized log-probabilities, `sample_size`
// classes.

EvalResult EvaluateMultinomial(const EvalArgs& args) {
  EVOQ_ASSIGN(const Tensor x, ToFloat32(args.inputs[0]));
  const int64_t classes = x.sizes()[1], samples = args.node.attrs.Int("sample_size", 1);
  if (classes == 0 && x.sizes()[0] * samples > 0)
    return InvalidInput("input 0 is {}, expected at least one class", x.type().ToString());
  Generator random(args.node);
  std::vector<double> sums(static_cast<size_t>(classes));
  int64_t row = -1;
  return Filled(args.output_types[0], [&](int64_t i) {
    if (i / samples != row) {
      row = i / samples;
      const float* v = x.data<float>() + row * classes;
      const double max = *std::max_element(v, v + classes);
      double sum = 0;
      for (int64_t c = 0; c < classes; ++c) sums[c] = sum += std::exp(v[c] - max);
    }
    const double at = random.Uniform() * sums.back();
    return static_cast<double>(std::min<int64_t>(
        std::upper_bound(sums.begin(), sums.end(), at) - sums.begin(), classes - 1));
  });
}

}  // namespace

namespace reference {

extern const Definition kBernoulli = {.name = "Bernoulli", .evaluate = EvaluateBernoulli};
extern const Definition kMultinomial = {.name = "Multinomial", .evaluate = EvaluateMultinomial};
extern const Definition kRandomNormal = {.name = "RandomNormal", .evaluate = EvaluateNormal};
extern const Definition kRandomNormalLike = {.name = "RandomNormalLike",
                                             .evaluate = EvaluateNormal};
extern const Definition kRandomUniform = {.name = "RandomUniform", .evaluate = EvaluateUniform};
extern const Definition kRandomUniformLike = {.name = "RandomUniformLike",
                                              .evaluate = EvaluateUniform};

}  // namespace reference
}  // namespace evoq
