// RotaryEmbedding turns pairs of each head's values by their token's angles, so that dx is dy
// turned back.
#include <algorithm>

#include "ops/util.h"
#include "train/gradient.h"

namespace evoq {
namespace {

struct Turns {
  std::vector<float> cosines, sines;  // [samples * tokens, pairs]
  int64_t samples, heads, tokens, size, pairs;
  bool flat, interleaved;

  // f(first, second, cosine, sine) for the elements of each pair.
  template <typename F>
  void ForEach(const F& f) const {
    for (int64_t b = 0; b < samples; ++b) {
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t t = 0; t < tokens; ++t) {
          const int64_t at =
              flat ? ((b * tokens + t) * heads + h) * size : ((b * heads + h) * tokens + t) * size;
          for (int64_t k = 0; k < pairs; ++k) {
            const auto row = static_cast<size_t>((b * tokens + t) * pairs + k);
            f(at + (interleaved ? 2 * k : k), at + (interleaved ? 2 * k + 1 : k + pairs),
              cosines[row], sines[row]);
          }
        }
      }
    }
  }
};

// The angles of each token, from tables that positions index or that have a row for each.
Status ReadAngles(const GradientArgs& args, Turns& t) {
  std::vector<int64_t> places;
  const bool listed = args.x.size() > 3 && args.x[3].dtype != DType::kUndefined;
  for (size_t i = 1; i < (listed ? 4u : 3u); ++i) {
    if (args.constants[i] == nullptr)
      return Unsupported("input {} depends on data, expected what is known before", i);
  }
  if (listed) {
    EVOQ_ASSIGN(places, ToInt64s(*args.constants[3]));
  } else {
    for (int64_t i = 0; i < t.samples * t.tokens; ++i) places.push_back(i);
  }
  EVOQ_ASSIGN(const Tensor cosines, ToFloat32(*args.constants[1]));
  EVOQ_ASSIGN(const Tensor sines, ToFloat32(*args.constants[2]));
  const int64_t rows = t.pairs == 0 ? 0 : cosines.elements() / t.pairs;
  if (cosines.shape() != sines.shape() ||
      static_cast<int64_t>(places.size()) != t.samples * t.tokens)
    return InvalidInput("tables {} and {} with {} positions for {} tokens",
                        cosines.shape().ToString(), sines.shape().ToString(), places.size(),
                        t.samples * t.tokens);
  for (const int64_t place : places) {
    if (t.pairs > 0 && (place < 0 || place >= rows))
      return InvalidInput("position {} of tables with {} rows", place, rows);
    for (int64_t k = 0; k < t.pairs; ++k) {
      t.cosines.push_back(cosines.data<float>()[place * t.pairs + k]);
      t.sines.push_back(sines.data<float>()[place * t.pairs + k]);
    }
  }
  return {};
}

Result<BoundGradient> BindRotary(const GradientArgs& args) {
  const std::vector<int64_t> x = args.x[0].shape.sizes();
  const Attrs& attrs = args.node.attrs;
  Turns t{};
  t.flat = x.size() == 3;
  t.samples = x[0];
  t.heads = t.flat ? attrs.Int("num_heads") : x[1];
  t.tokens = t.flat ? x[1] : x[2];
  t.size = t.flat ? x[2] / t.heads : x[3];
  const int64_t asked = attrs.Int("rotary_embedding_dim");
  t.pairs = (asked == 0 ? t.size : asked) / 2;
  t.interleaved = attrs.Int("interleaved") != 0;
  if (2 * t.pairs > t.size)
    return InvalidInput("attribute rotary_embedding_dim is {}, heads have {} values", asked,
                        t.size);
  EVOQ_TRY(ReadAngles(args, t));
  const int64_t n = *args.x[0].shape.elements();
  const auto forward = [t, n](const GradientRun& run) {
    std::copy_n(run.x[0], n, run.y[0]);
    t.ForEach([&](int64_t i, int64_t j, float c, float s) {
      const float a = run.x[0][i], b = run.x[0][j];
      run.y[0][i] = c * a - s * b;
      run.y[0][j] = s * a + c * b;
    });
  };
  const auto backward = [t, n](const GradientRun& run) {
    float* const turned = run.Scratch(n);
    std::copy_n(run.dy[0], n, turned);
    t.ForEach([&](int64_t i, int64_t j, float c, float s) {
      const float a = run.dy[0][i], b = run.dy[0][j];
      turned[i] = c * a + s * b;
      turned[j] = c * b - s * a;
    });
    for (int64_t i = 0; i < n; ++i) run.dx[0][i] += turned[i];
  };
  return BoundGradient{.forward = forward, .backward = backward};
}

}  // namespace

extern const GradientDef kGradientRotaryEmbedding;
const GradientDef kGradientRotaryEmbedding = {.op = "RotaryEmbedding", .bind = BindRotary};

}  // namespace evoq
