#include "kernels/math/math.inl.h"
#include "kernels/norm/norm.h"
#include "kernels/requant.h"

namespace evoq::EVOQ_ISA {
namespace {

constexpr int kColumns = 64;  // columns of a strided axis computed together

// `width` rows of at most kSmallRow floats, kRowsBeside beside each other; sums in the order of
// SumF.
constexpr int64_t kSmallRow = 8;
constexpr int kRowsBeside = 16;
constexpr int64_t kFewRows = 4;  // which are faster one by one
inline void SoftmaxSmallRows(const float* x, float* y, int width, int64_t n, bool log) {
  float v[kSmallRow][kRowsBeside], e[kSmallRow][kRowsBeside], max[kRowsBeside],
      sum[kSmallRow][kRowsBeside];
  for (int64_t k = 0; k < n; ++k) {
    for (int r = 0; r < width; ++r) v[k][r] = x[r * n + k];
    for (int r = width; r < kRowsBeside; ++r) v[k][r] = 0.0f;
  }
  for (int r = 0; r < kRowsBeside; ++r) max[r] = -kInfinity;
  for (int64_t k = 0; k < n; ++k) {
    for (int r = 0; r < kRowsBeside; ++r) max[r] = v[k][r] > max[r] ? v[k][r] : max[r];
  }
  for (int r = 0; r < kRowsBeside; ++r) max[r] = max[r] + 0.0f;
  for (int64_t k = 0; k < n; ++k) {
    EVOQ_ELEMENTWISE
    for (int r = 0; r < kRowsBeside; ++r) sum[k][r] = e[k][r] = ExpInline(v[k][r] - max[r]);
  }
  for (int64_t half = kSmallRow / 2; half > 0; half /= 2) {
    for (int64_t k = half; k < n && k < 2 * half; ++k) {
      for (int r = 0; r < kRowsBeside; ++r) sum[k - half][r] = sum[k - half][r] + sum[k][r];
    }
  }
  EVOQ_ELEMENTWISE
  for (int r = 0; r < kRowsBeside; ++r) sum[0][r] = log ? LogInline(sum[0][r]) : 1.0f / sum[0][r];
  for (int64_t k = 0; k < n; ++k) {
    for (int r = 0; r < kRowsBeside; ++r)
      e[k][r] = log ? (v[k][r] - max[r]) - sum[0][r] : e[k][r] * sum[0][r];
    for (int r = 0; r < width; ++r) y[r * n + k] = e[k][r];
  }
}

void SoftmaxRows(const float* x, float* y, int64_t rows, int64_t n, bool log) {
  for (; n <= kSmallRow && rows >= kFewRows;
       rows -= kRowsBeside, x += kRowsBeside * n, y += kRowsBeside * n)
    SoftmaxSmallRows(x, y, static_cast<int>(rows < kRowsBeside ? rows : kRowsBeside), n, log);
  for (int64_t r = 0; r < rows; ++r, x += n, y += n) {
    const float max = MaxInline(x, n);
    if (log) {
      const float log_sum =
          LogInline(SumTerms(n, [x, max](int64_t i) { return ExpInline(x[i] - max); }));
      EVOQ_ELEMENTWISE
      for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - max) - log_sum;
    } else {
      EVOQ_ELEMENTWISE
      for (int64_t i = 0; i < n; ++i) y[i] = ExpInline(x[i] - max);
      const float inverse = 1.0f / SumTerms(n, [y](int64_t i) { return y[i]; });
      EVOQ_ELEMENTWISE
      for (int64_t i = 0; i < n; ++i) y[i] = y[i] * inverse;
    }
  }
}

// kColumns columns.
inline void SoftmaxBlock(const float* x, float* y, int64_t n, int64_t inner, bool log) {
  float max[kColumns], sum[kColumns];
  for (int j = 0; j < kColumns; ++j) max[j] = -kInfinity, sum[j] = 0.0f;
  for (int64_t k = 0; k < n; ++k) {
    for (int j = 0; j < kColumns; ++j)
      max[j] = x[k * inner + j] > max[j] ? x[k * inner + j] : max[j];
  }
  for (int j = 0; j < kColumns; ++j) max[j] = max[j] + 0.0f;
  for (int64_t k = 0; k < n; ++k) {
    for (int j = 0; j < kColumns; ++j) {
      const float e = ExpInline(x[k * inner + j] - max[j]);
      sum[j] = sum[j] + e;
      if (!log) y[k * inner + j] = e;
    }
  }
  for (int j = 0; j < kColumns; ++j) sum[j] = log ? LogInline(sum[j]) : 1.0f / sum[j];
  for (int64_t k = 0; k < n; ++k) {
    for (int j = 0; j < kColumns; ++j) {
      const int64_t at = k * inner + j;
      y[at] = log ? (x[at] - max[j]) - sum[j] : y[at] * sum[j];
    }
  }
}

// sum[j] += v[j] of rows of `width` floats, one after the other; kWidth: known here, so that sums
// stay in registers.
template <int kWidth = 0>
inline void AddRows(const float* v, int rows, int width, float* sum) {
  if constexpr (kWidth == 0) {
    for (int r = 0; r < rows; ++r) {
      for (int j = 0; j < width; ++j) sum[j] = sum[j] + v[r * width + j];
    }
  } else {
    float sums[kWidth];
    for (int j = 0; j < kWidth; ++j) sums[j] = sum[j];
    for (int r = 0; r < rows; ++r) {
      for (int j = 0; j < kWidth; ++j) sums[j] = sums[j] + v[r * kWidth + j];
    }
    for (int j = 0; j < kWidth; ++j) sum[j] = sums[j];
  }
}

// `width` columns, less than kColumns, of as many rows beside each other as fill kColumns lanes;
// those behind them compute for nothing.
inline void SoftmaxNarrow(const float* x, float* y, int64_t n, int64_t inner, int width, bool log) {
  const int beside = kColumns / width;
  alignas(64) float v[kColumns], max[kColumns], sum[kColumns];
  // Calls run(first lane, place, lanes) for what lies together of the rows from k on: all of them,
  // where there are no other columns.
  const auto each_run = [&](int64_t k, const auto& run) {
    const int rows = static_cast<int>(n - k < beside ? n - k : beside);
    if (inner == width) return run(0, k * inner, rows * width);
    for (int r = 0; r < rows; ++r) run(r * width, (k + r) * inner, width);
  };
  const auto load = [&](int64_t k) {
    for (int i = 0; i < kColumns; ++i) v[i] = -kInfinity;
    each_run(k, [&](int lane, int64_t at, int lanes) {
      for (int i = 0; i < lanes; ++i) v[lane + i] = x[at + i];
    });
  };
  const auto add = width == 4   ? AddRows<4>
                   : width == 8 ? AddRows<8>
                   : width == 3 ? AddRows<3>
                   : width == 2 ? AddRows<2>
                                : AddRows<>;
  // Lanes behind the first row's hold what those have.
  const auto repeat = [&](float* values) {
    for (int i = width; i < kColumns; ++i) values[i] = values[i - width];
  };
  for (int i = 0; i < kColumns; ++i) max[i] = -kInfinity, sum[i] = 0.0f;
  for (int64_t k = 0; k < n; k += beside) {
    load(k);
    for (int i = 0; i < kColumns; ++i) max[i] = v[i] > max[i] ? v[i] : max[i];
  }
  for (int i = beside * width - 1; i >= width; --i)
    max[i - width] = max[i] > max[i - width] ? max[i] : max[i - width];
  repeat(max);
  for (int i = 0; i < kColumns; ++i) max[i] = max[i] + 0.0f;
  for (int64_t k = 0; k < n; k += beside) {
    load(k);
    EVOQ_ELEMENTWISE
    for (int i = 0; i < kColumns; ++i) v[i] = ExpInline(v[i] - max[i]);
    add(v, static_cast<int>(n - k < beside ? n - k : beside), width, sum);
    if (log) continue;
    each_run(k, [&](int lane, int64_t at, int lanes) {
      for (int i = 0; i < lanes; ++i) y[at + i] = v[lane + i];
    });
  }
  EVOQ_ELEMENTWISE
  for (int i = 0; i < kColumns; ++i) sum[i] = log ? LogInline(sum[i]) : 1.0f / sum[i];
  repeat(sum);
  for (int64_t k = 0; k < n; k += beside) {
    each_run(k, [&](int lane, int64_t at, int lanes) {
      EVOQ_ELEMENTWISE
      for (int i = 0; i < lanes; ++i)
        y[at + i] = log ? (x[at + i] - max[lane + i]) - sum[lane + i] : y[at + i] * sum[lane + i];
    });
  }
}

void SoftmaxColumns(const float* x, float* y, int64_t n, int64_t inner, int64_t begin, int64_t end,
                    bool log) {
  for (; begin + kColumns <= end; begin += kColumns)
    SoftmaxBlock(x + begin, y + begin, n, inner, log);
  if (begin < end)
    SoftmaxNarrow(x + begin, y + begin, n, inner, static_cast<int>(end - begin), log);
}

// map[d] = the output for a byte d below the row's largest one.
inline void SoftmaxOutputs(const ByteSoftmax& softmax, float sum, uint8_t* map) {
  const float m = SoftmaxMultiplier(sum, softmax.scale_y);
  const float low = static_cast<float>(-softmax.zero_y),
              high = static_cast<float>(255 - softmax.zero_y);
  const int32_t zero = softmax.zero_y - 0x4B400000;
  for (int d = 0; d < 256; ++d) {
    float v = softmax.e[d] * m;
    v = v > low ? v : low;
    v = v < high ? v : high;
    map[d] = static_cast<uint8_t>(static_cast<int32_t>(ToBits(v + kRoundMagic)) + zero);
  }
}

[[maybe_unused]] void SoftmaxBytes(const ByteSoftmax& softmax, const uint8_t* x, uint8_t* y,
                                   int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r, x += n, y += n) {
    uint8_t max = 0, map[256];
    for (int64_t i = 0; i < n; ++i) max = x[i] > max ? x[i] : max;
    const float* e = softmax.e;
    const auto term = [=](int64_t i) { return e[max - x[i]]; };
    SoftmaxOutputs(softmax, Interleaved<64>(n, 0.0f, term, [](float a, float b) { return a + b; }),
                   map);
    for (int64_t i = 0; i < n; ++i) y[i] = map[max - x[i]];
  }
}

void LayerNormRow(const float* x, const float* scale, const float* bias, float* y, int64_t n,
                  float epsilon, float* mean_out, float* inverse_out) {
  const float count = static_cast<float>(n);
  const float mean = SumTerms(n, [x](int64_t i) { return x[i]; }) / count;
  const float squares = SumTerms(n, [x, mean](int64_t i) { return (x[i] - mean) * (x[i] - mean); });
  const float inverse = 1.0f / __builtin_sqrtf(squares / count + epsilon);
  if (bias != nullptr) {
    EVOQ_ELEMENTWISE
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * inverse * scale[i] + bias[i];
  } else {
    EVOQ_ELEMENTWISE
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * inverse * scale[i];
  }
  if (mean_out != nullptr) *mean_out = mean;
  if (inverse_out != nullptr) *inverse_out = inverse;
}

[[maybe_unused]] void LayerNormRows(const float* x, const float* scale, const float* bias, float* y,
                                    int64_t rows, int64_t n, float epsilon, float* mean,
                                    float* inverse) {
  for (int64_t r = 0; r < rows; ++r)
    LayerNormRow(x + r * n, scale, bias, y + r * n, n, epsilon,
                 mean == nullptr ? nullptr : mean + r, inverse == nullptr ? nullptr : inverse + r);
}

void RmsNormRow(const float* x, const float* scale, float* y, int64_t n, float epsilon) {
  const float squares = SumTerms(n, [x](int64_t i) { return x[i] * x[i]; });
  const float inverse = 1.0f / __builtin_sqrtf(squares / static_cast<float>(n) + epsilon);
  EVOQ_ELEMENTWISE
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * inverse * scale[i];
}

void AffinePixels(const float* x, const float* a, const float* b, float* y, int64_t pixels,
                  int64_t channels) {
  for (int64_t p = 0; p < pixels; ++p, x += channels, y += channels) {
    EVOQ_ELEMENTWISE
    for (int64_t c = 0; c < channels; ++c) y[c] = x[c] * a[c] + b[c];
  }
}

void AffineRun(const float* x, float a, float b, float* y, int64_t n) {
  EVOQ_ELEMENTWISE
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * a + b;
}

// What is left of the mean where sums of values far from 0 have erred, and what values are
// multiplied by.
inline float InstanceFactor(float rest, float squares, float count, float scale, float epsilon,
                            float& mean) {
  const float off = rest / count, variance = squares / count - off * off;
  mean = mean + off;
  return scale / __builtin_sqrtf((variance > 0 ? variance : 0 * variance) + epsilon);
}

constexpr int64_t kInstanceChannels = 512;  // that are taken together

// sums[j] += x[j] of kPixels pixels, one after the other.
template <int kPixels>
inline void AddPixels(const float* x, int64_t step, int64_t width, float* sums) {
  EVOQ_ELEMENTWISE
  for (int64_t j = 0; j < width; ++j) {
    float sum = sums[j];
    for (int i = 0; i < kPixels; ++i) sum = sum + x[i * step + j];
    sums[j] = sum;
  }
}
// The same of what is left of them without the mean, and of its squares.
template <int kPixels>
inline void AddRests(const float* x, const float* mean, int64_t step, int64_t width, float* sums,
                     float* squares) {
  EVOQ_ELEMENTWISE
  for (int64_t j = 0; j < width; ++j) {
    float sum = sums[j], square = squares[j];
    for (int i = 0; i < kPixels; ++i) {
      const float d = x[i * step + j] - mean[j];
      sum = sum + d;
      square = square + d * d;
    }
    sums[j] = sum, squares[j] = square;
  }
}

// Calls four(p) or one(p) for the pixels [begin, end).
template <typename Four, typename One>
inline void EachPixel(int64_t begin, int64_t end, const Four& four, const One& one) {
  int64_t p = begin;
  for (; p + 4 <= end; p += 4) four(p);
  for (; p < end; ++p) one(p);
}

// `width` channels whose values are `step` apart from pixel to pixel, as memory has them: pixel by
// pixel. A sum of many pixels is one of sums of few, which err less.
inline void InstanceBlock(const float* x, const float* scale, const float* bias, float* y,
                          int64_t pixels, int64_t step, int64_t width, float epsilon) {
  constexpr int64_t kPart = 256;
  float mean[kInstanceChannels] = {}, rest[kInstanceChannels] = {}, squares[kInstanceChannels] = {},
        factor[kInstanceChannels];
  const float count = static_cast<float>(pixels);
  for (int64_t begin = 0; begin < pixels; begin += kPart) {
    const int64_t end = begin + kPart < pixels ? begin + kPart : pixels;
    float part[kInstanceChannels] = {};
    EachPixel(
        begin, end, [&](int64_t p) { AddPixels<4>(x + p * step, step, width, part); },
        [&](int64_t p) { AddPixels<1>(x + p * step, step, width, part); });
    for (int64_t j = 0; j < width; ++j) mean[j] = mean[j] + part[j];
  }
  for (int64_t j = 0; j < width; ++j) mean[j] = mean[j] / count;
  for (int64_t begin = 0; begin < pixels; begin += kPart) {
    const int64_t end = begin + kPart < pixels ? begin + kPart : pixels;
    float part[kInstanceChannels] = {}, part_squares[kInstanceChannels] = {};
    EachPixel(
        begin, end,
        [&](int64_t p) { AddRests<4>(x + p * step, mean, step, width, part, part_squares); },
        [&](int64_t p) { AddRests<1>(x + p * step, mean, step, width, part, part_squares); });
    for (int64_t j = 0; j < width; ++j) {
      rest[j] = rest[j] + part[j];
      squares[j] = squares[j] + part_squares[j];
    }
  }
  for (int64_t j = 0; j < width; ++j)
    factor[j] = InstanceFactor(rest[j], squares[j], count, scale[j], epsilon, mean[j]);
  for (int64_t p = 0; p < pixels; ++p) {
    const float* const from = x + p * step;
    float* const to = y + p * step;
    EVOQ_ELEMENTWISE
    for (int64_t j = 0; j < width; ++j) to[j] = (from[j] - mean[j]) * factor[j] + bias[j];
  }
}

// One channel whose values lie together, in parts for the same reason.
void InstancePlane(const float* x, float scale, float bias, float* y, int64_t n, float epsilon) {
  constexpr int64_t kPart = 1 << 14;
  const float count = static_cast<float>(n);
  float mean = 0, rest = 0, squares = 0;
  for (int64_t i = 0; i < n; i += kPart) {
    const float* const p = x + i;
    mean = mean + SumTerms(n - i < kPart ? n - i : kPart, [p](int64_t k) { return p[k]; });
  }
  mean = mean / count;
  for (int64_t i = 0; i < n; i += kPart) {
    const float* const p = x + i;
    const int64_t part = n - i < kPart ? n - i : kPart;
    rest = rest + SumTerms(part, [p, mean](int64_t k) { return p[k] - mean; });
    squares =
        squares + SumTerms(part, [p, mean](int64_t k) { return (p[k] - mean) * (p[k] - mean); });
  }
  const float a = InstanceFactor(rest, squares, count, scale, epsilon, mean);
  EVOQ_ELEMENTWISE
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * a + bias;
}

void InstanceNorm(const float* x, const float* scale, const float* bias, float* y, int64_t pixels,
                  int64_t channels, bool channels_last, int64_t begin, int64_t end, float epsilon) {
  int64_t c = begin;
  if (channels_last && channels > 1) {
    for (int64_t width; c < end; c += width) {
      width = end - c < kInstanceChannels ? end - c : kInstanceChannels;
      InstanceBlock(x + c, scale + c, bias + c, y + c, pixels, channels, width, epsilon);
    }
  } else {
    for (; c < end; ++c)
      InstancePlane(x + c * pixels, scale[c], bias[c], y + c * pixels, pixels, epsilon);
  }
}

// Joins p pixels of kWidth channels to the means and squares of the n pixels before them.
template <int kWidth>
inline void JoinPart(const float* x, int64_t step, int64_t n, int64_t p, float* means,
                     float* squares) {
  const float count = static_cast<float>(p), all = static_cast<float>(n + p), share = count / all,
              both = static_cast<float>(n) * count / all;
  float m[kWidth] = {}, q[kWidth] = {};
  for (int64_t i = 0; i < p; ++i) {
    for (int j = 0; j < kWidth; ++j) m[j] = m[j] + x[i * step + j];
  }
  for (int j = 0; j < kWidth; ++j) m[j] = m[j] / count;
  for (int64_t i = 0; i < p; ++i) {
    for (int j = 0; j < kWidth; ++j)
      q[j] = q[j] + (x[i * step + j] - m[j]) * (x[i * step + j] - m[j]);
  }
  for (int j = 0; j < kWidth; ++j) {
    const float d = n == 0 ? m[j] : m[j] - means[j];
    means[j] = n == 0 ? m[j] : means[j] + d * share;
    squares[j] = n == 0 ? q[j] : squares[j] + (q[j] + d * d * both);
  }
}

// Channels last: the means of channels [begin, end) become those of their groups, and factors what
// values less these are multiplied by.
inline void GroupFactors(const float* scale, int64_t pixels, int64_t size, int64_t begin,
                         int64_t end, float epsilon, float* means, float* factors) {
  for (int64_t first = begin; first < end; first += size) {
    float mean = 0, squares = 0;
    for (int64_t c = first; c < first + size; ++c) mean = mean + means[c];
    mean = mean / static_cast<float>(size);
    for (int64_t c = first; c < first + size; ++c) {
      const float d = means[c] - mean;
      squares = squares + (factors[c] + static_cast<float>(pixels) * (d * d));
    }
    const float inverse =
        1.0f / __builtin_sqrtf(squares / static_cast<float>(pixels * size) + epsilon);
    for (int64_t c = first; c < first + size; ++c) {
      means[c] = mean;
      factors[c] = inverse * scale[c];
    }
  }
}

void GroupNorm(const float* x, const float* scale, const float* bias, float* y, int64_t pixels,
               int64_t channels, int64_t size, bool channels_last, int64_t begin, int64_t end,
               float epsilon, float* means, float* factors) {
  if (!channels_last) {
    for (int64_t first = begin; first < end; first += size) {
      const float* const from = x + first * pixels;
      const int64_t n = size * pixels;
      const float count = static_cast<float>(n);
      const float mean = SumTerms(n, [from](int64_t i) { return from[i]; }) / count;
      const float squares =
          SumTerms(n, [from, mean](int64_t i) { return (from[i] - mean) * (from[i] - mean); });
      const float inverse = 1.0f / __builtin_sqrtf(squares / count + epsilon);
      for (int64_t c = first; c < first + size; ++c) {
        const float* const plane = x + c * pixels;
        float* const to = y + c * pixels;
        const float by = scale[c], and_then = bias[c];
        EVOQ_ELEMENTWISE
        for (int64_t i = 0; i < pixels; ++i) to[i] = (plane[i] - mean) * inverse * by + and_then;
      }
    }
    return;
  }
  constexpr int64_t kPart = 64;
  for (int64_t n = 0; n < pixels; n += kPart) {
    const int64_t p = pixels - n < kPart ? pixels - n : kPart;
    const float* const part = x + n * channels;
    int64_t c = begin;
    for (; c + 16 <= end; c += 16) JoinPart<16>(part + c, channels, n, p, means + c, factors + c);
    for (; c + 4 <= end; c += 4) JoinPart<4>(part + c, channels, n, p, means + c, factors + c);
    for (; c < end; ++c) JoinPart<1>(part + c, channels, n, p, means + c, factors + c);
  }
  GroupFactors(scale, pixels, size, begin, end, epsilon, means, factors);
  for (int64_t n = 0; n < pixels; ++n) {
    const float* const from = x + n * channels;
    float* const to = y + n * channels;
    EVOQ_ELEMENTWISE
    for (int64_t c = begin; c < end; ++c) to[c] = (from[c] - means[c]) * factors[c] + bias[c];
  }
}

template <ReduceKind kKind>
struct ReduceFn;
#define EVOQ_REDUCE(op, start, term, combine, result)                                           \
  template <>                                                                                   \
  struct ReduceFn<ReduceKind::k##op> {                                                          \
    static constexpr float kStart = start;                                                      \
    static EVOQ_INLINE float Term(float x) { return term; }                                     \
    static EVOQ_INLINE float Combine(float acc, float t) { return combine; }                    \
    static EVOQ_INLINE float Result(float acc, [[maybe_unused]] float count) { return result; } \
  };
EVOQ_REDUCE_LIST
#undef EVOQ_REDUCE

// Interleaved<16> of one to four elements, without the lanes that stay at the start: those change
// nothing.
template <typename F>
inline float ReduceFew(const float* x, int64_t n) {
  const auto lane = [x](int64_t i) { return F::Combine(F::kStart, F::Term(x[i])); };
  if (n == 1) return lane(0);
  if (n == 2) return F::Combine(lane(0), lane(1));
  const float even = F::Combine(lane(0), lane(2));
  return F::Combine(even, n == 3 ? lane(1) : F::Combine(lane(1), lane(3)));
}

// The same of up to fifteen, which vectors would leave to its end.
template <typename F>
inline float ReduceSome(const float* x, int64_t n) {
  float v[16];
#pragma GCC unroll 1
  for (int64_t i = 0; i < n; ++i) v[i] = F::Combine(F::kStart, F::Term(x[i]));
#pragma GCC unroll 1
  for (int64_t half = 8; half > 0; half /= 2) {
#pragma GCC unroll 1
    for (int64_t i = half; i < n && i < 2 * half; ++i) v[i - half] = F::Combine(v[i - half], v[i]);
  }
  return v[0];
}

template <ReduceKind kKind>
inline float ReduceContiguous(const float* x, int64_t n) {
  using F = ReduceFn<kKind>;
  if (n > 0 && n <= 4 && kKind != ReduceKind::kReduceProd) return ReduceFew<F>(x, n);
  if (n > 4 && n < 16 && kKind != ReduceKind::kReduceProd) return ReduceSome<F>(x, n);
  if constexpr (kKind == ReduceKind::kReduceProd) {
    float product = 1.0f;
    for (int64_t i = 0; i < n; ++i) product = product * x[i];
    return product;
  } else {
    return Interleaved<16>(n, F::kStart, [x](int64_t i) { return F::Term(x[i]); }, F::Combine);
  }
}

// `width` columns, at most kColumns, in registers.
template <ReduceKind kKind>
inline void ReduceColumns(const float* x, const ReduceRow& r, int width, float* y) {
  using F = ReduceFn<kKind>;
  float acc[kColumns];
  for (int j = 0; j < width; ++j) acc[j] = F::kStart;
  for (int64_t i = 0; i < r.places; ++i) {
    const float* const p = x + r.offsets[i];
    for (int j = 0; j < width; ++j) acc[j] = F::Combine(acc[j], F::Term(p[j]));
  }
  for (int j = 0; j < width; ++j) y[j] = F::Result(acc[j], r.count);
}

template <ReduceKind kKind>
[[gnu::noinline]] void ReduceOne(const float* x, const ReduceRow& r, float* y) {
  using F = ReduceFn<kKind>;
  if (r.row_reduced) {
    float acc = F::kStart;
    for (int64_t i = 0; i < r.places; ++i)
      acc = F::Combine(acc, ReduceContiguous<kKind>(x + r.offsets[i], r.row));
    *y = F::Result(acc, r.count);
    return;
  }
  int64_t k = 0;
  for (; k + kColumns <= r.row; k += kColumns) ReduceColumns<kKind>(x + k, r, kColumns, y + k);
  if (k < r.row) ReduceColumns<kKind>(x + k, r, static_cast<int>(r.row - k), y + k);
}

void Reduce(ReduceKind kind, const float* x, const ReduceRow& row, float* y) {
  switch (kind) {
#define EVOQ_REDUCE(op, start, term, combine, result) \
  case ReduceKind::k##op: return ReduceOne<ReduceKind::k##op>(x, row, y);
    EVOQ_REDUCE_LIST
#undef EVOQ_REDUCE
  }
}

// Sixteen rows of n elements, a row in each lane.
[[gnu::noinline]] void TurnSixteenRows(const float* x, int64_t n, float (*v)[16]) {
#pragma GCC unroll 1
  for (int64_t r = 0; r < 16; ++r) {
#pragma GCC unroll 1
    for (int64_t i = 0; i < n; ++i) v[i][r] = x[r * n + i];
  }
}

// Sixteen rows of fewer than sixteen elements: what ReduceOne makes of each.
template <ReduceKind kKind>
[[gnu::noinline]] void ReduceShortRows(const float* x, int64_t n, float count, float* y) {
  using F = ReduceFn<kKind>;
  alignas(64) float v[16][16];
  TurnSixteenRows(x, n, v);
#pragma GCC unroll 1
  for (int64_t i = 0; i < n; ++i) {
    for (int r = 0; r < 16; ++r) v[i][r] = F::Combine(F::kStart, F::Term(v[i][r]));
  }
  const auto join = [&v](int64_t to, int64_t from) {
    for (int r = 0; r < 16; ++r) v[to][r] = F::Combine(v[to][r], v[from][r]);
  };
  if constexpr (kKind == ReduceKind::kReduceProd) {
#pragma GCC unroll 1
    for (int64_t i = 1; i < n; ++i) join(0, i);
  } else {
#pragma GCC unroll 1
    for (int64_t half = 8; half > 0; half /= 2) {
#pragma GCC unroll 1
      for (int64_t i = half; i < n && i < 2 * half; ++i) join(i - half, i);
    }
  }
  for (int r = 0; r < 16; ++r) y[r] = F::Result(F::Combine(F::kStart, v[0][r]), count);
}

template <ReduceKind kKind>
void ReduceRowsOf(const float* x, int64_t rows, int64_t n, float* y) {
  const int64_t here = 0;
  const ReduceRow row{&here, 1, n, true, static_cast<float>(n)};
  int64_t r = 0;
#ifdef EVOQ_OWN_SUMS_OF_ROWS
  constexpr bool kOwn = AddsTerms(kKind);
#else
  constexpr bool kOwn = false;
#endif
  if constexpr (!kOwn) {
    for (; n > 4 && n < 16 && r + 16 <= rows; r += 16)
      ReduceShortRows<kKind>(x + r * n, n, row.count, y + r);
  }
  for (; r < rows; ++r) ReduceOne<kKind>(x + r * n, row, y + r);
}

[[maybe_unused]] void ReduceRows(ReduceKind kind, const float* x, int64_t rows, int64_t n,
                                 float* y) {
  switch (kind) {
#define EVOQ_REDUCE(op, start, term, combine, result) \
  case ReduceKind::k##op: return ReduceRowsOf<ReduceKind::k##op>(x, rows, n, y);
    EVOQ_REDUCE_LIST
#undef EVOQ_REDUCE
  }
}

// Within the bounds first, so that the sum's last mantissa bits are the rounded integer.
inline uint8_t MeanOf(const ByteMean& mean, int32_t sum) {
  const float low = static_cast<float>(-mean.zero), high = static_cast<float>(255 - mean.zero);
  float v = static_cast<float>(sum - mean.zero_sum) * mean.multiplier;
  v = v > low ? v : low;
  v = v < high ? v : high;
  return static_cast<uint8_t>(static_cast<int32_t>(ToBits(v + kRoundMagic)) - 0x4B400000 +
                              mean.zero);
}

// `width` columns, at most kColumns, in registers.
inline void MeanColumns(const ByteMean& mean, const uint8_t* x, const ReduceRow& r, int width,
                        uint8_t* y) {
  int32_t sums[kColumns] = {};
  for (int64_t i = 0; i < r.places; ++i) {
    const uint8_t* const p = x + r.offsets[i];
    for (int j = 0; j < width; ++j) sums[j] += p[j];
  }
  for (int j = 0; j < width; ++j) y[j] = MeanOf(mean, sums[j]);
}

void MeanBytes(const ByteMean& mean, const uint8_t* x, const ReduceRow& r, uint8_t* y) {
  if (r.row_reduced) {
    uint32_t sum = 0;
    for (int64_t i = 0; i < r.places; ++i) {
      for (int64_t k = 0; k < r.row; ++k) sum += x[r.offsets[i] + k];
    }
    *y = MeanOf(mean, static_cast<int32_t>(sum));
    return;
  }
  int64_t k = 0;
  for (; k + kColumns <= r.row; k += kColumns) MeanColumns(mean, x + k, r, kColumns, y + k);
  if (k < r.row) MeanColumns(mean, x + k, r, static_cast<int>(r.row - k), y + k);
}

// The smallest is the largest of what is turned over: `sign` is 1 or -1.
template <bool kLast>
inline bool IsBetter(float v, float found) {
  if (kLast) return v != v || (found == found && v >= found);
  return found == found && !(v <= found);
}

template <bool kLast>
void ArgRowsOf(const float* x, int64_t* y, int64_t rows, int64_t n, float sign) {
  for (int64_t r = 0; r < rows; ++r, x += n) {
    int64_t best = 0;
    float found = sign * x[0];
    for (int64_t k = 1; k < n; ++k) {
      const float v = sign * x[k];
      const bool better = IsBetter<kLast>(v, found);
      found = better ? v : found;
      best = better ? k : best;
    }
    y[r] = best;
  }
}

[[maybe_unused]] void ArgRows(const float* x, int64_t* y, int64_t rows, int64_t n, bool max,
                              bool last) {
  const float sign = max ? 1.0f : -1.0f;
  last ? ArgRowsOf<true>(x, y, rows, n, sign) : ArgRowsOf<false>(x, y, rows, n, sign);
}

// Pieces of rows that are long enough for memory, the next ones asked for beside them: rows may
// lie far apart.
constexpr int kArgColumns = 2048;

template <bool kLast>
void ArgColumnsOf(const float* x, int64_t* y, int64_t n, int64_t stride, int64_t width,
                  float sign) {
  for (int64_t first = 0; first < width; first += kArgColumns) {
    const int count = static_cast<int>(width - first < kArgColumns ? width - first : kArgColumns);
    float found[kArgColumns];
    int32_t best[kArgColumns];
    for (int j = 0; j < count; ++j) found[j] = sign * x[first + j], best[j] = 0;
    for (int64_t k = 1; k < n; ++k) {
      const float* row = x + k * stride + first;
      for (int from = 0; from < count; from += kColumns) {
        const int to = from + kColumns < count ? from + kColumns : count;
        for (int j = from; j < to; j += 16) __builtin_prefetch(row + kArgColumns + j, 0, 2);
        for (int j = from; j < to; ++j) {
          const float v = sign * row[j];
          const bool better = IsBetter<kLast>(v, found[j]);
          found[j] = better ? v : found[j];
          best[j] = better ? static_cast<int32_t>(k) : best[j];
        }
      }
    }
    for (int j = 0; j < count; ++j) y[first + j] = best[j];
  }
}

void ArgColumns(const float* x, int64_t* y, int64_t n, int64_t stride, int64_t width, bool max,
                bool last) {
  const float sign = max ? 1.0f : -1.0f;
  last ? ArgColumnsOf<true>(x, y, n, stride, width, sign)
       : ArgColumnsOf<false>(x, y, n, stride, width, sign);
}

}  // namespace

#ifndef EVOQ_OWN_SOFTMAX
extern const NormTable kNormTable = {
    .softmax_rows = SoftmaxRows,
    .softmax_columns = SoftmaxColumns,
    .softmax_bytes = SoftmaxBytes,
    .layer_norm_rows = LayerNormRows,
    .rms_norm_row = RmsNormRow,
    .affine_pixels = AffinePixels,
    .affine_run = AffineRun,
    .instance_norm = InstanceNorm,
    .group_norm = GroupNorm,
    .reduce = Reduce,
    .reduce_rows = ReduceRows,
    .arg_rows = ArgRows,
    .arg_columns = ArgColumns,
    .mean_bytes = MeanBytes,
};
#endif

}  // namespace evoq::EVOQ_ISA
