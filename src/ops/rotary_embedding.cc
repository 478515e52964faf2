// RotaryEmbedding(x, cos_cache, sin_cache, position_ids?): the first `rotary_embedding_dim` (all
// when 0) values of each head are pairs (a, b), halves apart or interleaved, turned by their
// token's angles: (a cos - b sin, a sin + b cos).
#include "base/math.h"
#include "ops/indexing.h"
#include "ops/real.h"
#include "ops/util.h"

namespace evoq {
namespace {

InferResult Infer(const InferArgs& args) {
  for (size_t i : {0, 1, 2}) EVOQ_TRY(CheckFloat(args, i));
  if (args.has(3)) EVOQ_TRY(CheckIndexType(args, 3));
  const Shape& x = args.inputs[0].shape;
  EVOQ_ASSIGN(const int64_t heads, IntAttr(args.node, "num_heads", 0));
  EVOQ_ASSIGN(const int64_t rotated, IntAttr(args.node, "rotary_embedding_dim", 0));
  if (rotated < 0 || rotated % 2 != 0)
    return InvalidInput("attribute rotary_embedding_dim is {}, expected an even number", rotated);
  if (!x.ranked()) return SameAsInput0(args);
  if (x.rank() != 3 && x.rank() != 4)
    return InvalidInput("input 0 is {}, expected rank 3 or 4", x.ToString());
  if (x.rank() == 3 && heads <= 0)
    return InvalidInput("attribute num_heads is {}, which an input of rank 3 needs", heads);
  if (x.rank() == 3 && x[2].known() && x[2].value % heads != 0)
    return InvalidInput("input 0 is {}, expected a multiple of {} heads", x.ToString(), heads);
  return SameAsInput0(args);
}

template <typename T>
EvalResult Rotated(const EvalArgs& args) {
  const Tensor &x = args.inputs[0], &cosines = args.inputs[1], &sines = args.inputs[2];
  const std::vector<int64_t> sizes = x.sizes();
  const bool flat = sizes.size() == 3;
  const int64_t batch = sizes[0], heads = flat ? args.node.attrs.Int("num_heads") : sizes[1],
                length = flat ? sizes[1] : sizes[2];
  const int64_t size = flat ? sizes[2] / heads : sizes[3];
  const int64_t asked = args.node.attrs.Int("rotary_embedding_dim"),
                rotated = asked == 0 ? size : asked, half = rotated / 2;
  if (rotated > size)
    return InvalidInput("attribute rotary_embedding_dim is {}, heads have {} values", rotated,
                        size);
  const int64_t rows = half == 0 ? 0 : cosines.elements() / half;
  const int cache_rank = cosines.shape().rank();
  if (cosines.shape() != sines.shape() || cache_rank == 0 || cosines.sizes().back() != half ||
      cache_rank != (args.has(3) ? 2 : 3))
    return InvalidInput("caches of {} and {}, expected {} values for each place",
                        cosines.type().ToString(), sines.type().ToString(), half);
  std::vector<int64_t> places;
  if (args.has(3)) {
    EVOQ_ASSIGN(places, ToInt64s(args.inputs[3]));
  } else {
    for (int64_t i = 0; i < batch * length; ++i) places.push_back(i);
  }
  if (static_cast<int64_t>(places.size()) != batch * length)
    return InvalidInput("{} positions for {} tokens", places.size(), batch * length);
  for (int64_t place : places) {
    if (half > 0 && (place < 0 || place >= rows))
      return InvalidInput("position {} of caches with {} rows", place, rows);
  }
  const bool interleaved = args.node.attrs.Int("interleaved") != 0;
  Tensor y = x.Clone();
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t t = 0; t < length; ++t) {
        T* v = y.mutable_data<T>() + (flat ? ((b * length + t) * heads + h) * size
                                           : ((b * heads + h) * length + t) * size);
        const int64_t row = places[b * length + t] * half;
        for (int64_t k = 0; k < half; ++k) {
          const T c = cosines.data<T>()[row + k], s = sines.data<T>()[row + k];
          T &first = v[interleaved ? 2 * k : k], &second = v[interleaved ? 2 * k + 1 : k + half];
          const T a = first, d = second;
          first = c * a - s * d;
          second = s * a + c * d;
        }
      }
    }
  }
  return One(std::move(y));
}

EvalResult Evaluate(const EvalArgs& args) {
  return EvaluateAsFloats(args, [&](auto tag) { return Rotated<decltype(tag)>(args); }, {3});
}

}  // namespace

extern const OpDef kRotaryEmbedding = {.name = "RotaryEmbedding",
                                       .min_inputs = 3,
                                       .max_inputs = 4,
                                       .infer = Infer,
                                       .evaluate = Evaluate};

}  // namespace evoq
