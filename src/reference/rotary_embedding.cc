// RotaryEmbedding(x, cos_cache, sin_cache, position_ids?): the first `rotary_embedding_dim` (all
// when 0) values of each head are pairs (a, b), halves apart or interleaved, turned by their
// token's angles: (a cos - b sin, a sin + b cos).
#include "reference/definition.h"
#include "reference/real.h"
#include "reference/util.h"

namespace evoq {
namespace {

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

namespace reference {

extern const Definition kRotaryEmbedding = {.name = "RotaryEmbedding", .evaluate = Evaluate};

}  // namespace reference
}  // namespace evoq
