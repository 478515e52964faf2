#define EVOQ_ISA avx512
#define EVOQ_OWN_SOFTMAX       // softmax of contiguous rows is here
#define EVOQ_OWN_SUMS_OF_ROWS  // of sixteen or more too
#include "kernels/bytes512.h"
#include "kernels/norm/norm.inl.h"

namespace evoq::avx512 {
namespace {

// p[j] += p[j + 8] for j < 8, then 4, 2, 1: the end of SumF.
inline float Tree16(__m512 p) {
  const __m256 a = _mm256_add_ps(_mm512_castps512_ps256(p), _mm512_extractf32x8_ps(p, 1));
  const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

inline __mmask16 FirstFloats(int64_t n) {
  return static_cast<__mmask16>(n >= 16 ? 0xffff : (1u << n) - 1);
}

// MaxF: a NaN in x loses against what m holds.
inline float Max512(const float* x, int64_t n) {
  const __m512 least = _mm512_set1_ps(-kInfinity);
  __m512 m[4] = {least, least, least, least};
  int64_t i = 0;
  for (; i + 64 <= n; i += 64) {
    for (int k = 0; k < 4; ++k) m[k] = _mm512_max_ps(_mm512_loadu_ps(x + i + 16 * k), m[k]);
  }
  for (; i < n; i += 16)
    m[0] = _mm512_max_ps(_mm512_mask_loadu_ps(least, FirstFloats(n - i), x + i), m[0]);
  return _mm512_reduce_max_ps(_mm512_max_ps(_mm512_max_ps(m[0], m[1]), _mm512_max_ps(m[2], m[3]))) +
         0.0f;
}

// Rows go through each phase together: those of one phase do not wait for one another.
constexpr int kRowsTogether = 8;
inline int RowsTogether(int64_t rows, int64_t n) {
  return static_cast<int>(rows < kRowsTogether || n > 1024 ? 1 : kRowsTogether);
}

// y = e^(x - max), unless kSumOnly; returns SumF(y).
template <bool kSumOnly>
inline float ExpRow(const float* x, float* y, int64_t n, float largest) {
  const __m512 max = _mm512_set1_ps(largest);
  __m512 sums = _mm512_setzero_ps();
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m512 e = ExpInline(Floats16(_mm512_sub_ps(_mm512_loadu_ps(x + i), max)));
    if constexpr (!kSumOnly) _mm512_storeu_ps(y + i, e);
    sums = _mm512_add_ps(sums, e);
  }
  if (i < n) {
    const __mmask16 rest = FirstFloats(n - i);
    const __m512 e = ExpInline(Floats16(_mm512_sub_ps(_mm512_maskz_loadu_ps(rest, x + i), max)));
    if constexpr (!kSumOnly) _mm512_mask_storeu_ps(y + i, rest, e);
    sums = _mm512_mask_add_ps(sums, rest, sums, e);
  }
  return Tree16(sums);
}

inline void ScaleRow(float* y, int64_t n, float factor) {
  const __m512 all = _mm512_set1_ps(factor);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) _mm512_storeu_ps(y + i, _mm512_mul_ps(_mm512_loadu_ps(y + i), all));
  if (i == n) return;
  const __mmask16 rest = FirstFloats(n - i);
  _mm512_mask_storeu_ps(y + i, rest, _mm512_mul_ps(_mm512_maskz_loadu_ps(rest, y + i), all));
}

// y = (x - max) - log_sum.
inline void SubtractRow(const float* x, float* y, int64_t n, float max, float log_sum) {
  const __m512 first = _mm512_set1_ps(max), second = _mm512_set1_ps(log_sum);
  for (int64_t i = 0; i < n; i += 16) {
    const __mmask16 part = FirstFloats(n - i);
    const __m512 v = _mm512_sub_ps(_mm512_maskz_loadu_ps(part, x + i), first);
    _mm512_mask_storeu_ps(y + i, part, _mm512_sub_ps(v, second));
  }
}

void SoftmaxRows512(const float* x, float* y, int64_t rows, int64_t n, bool log) {
  if (n <= kSmallRow && rows >= kFewRows) return SoftmaxRows(x, y, rows, n, log);
  float max[kRowsTogether], value[kRowsTogether];
  for (int step; rows > 0; rows -= step, x += step * n, y += step * n) {
    step = RowsTogether(rows, n);
    for (int r = 0; r < step; ++r) max[r] = Max512(x + r * n, n);
    if (log) {
      for (int r = 0; r < step; ++r) value[r] = ExpRow<true>(x + r * n, y + r * n, n, max[r]);
      for (int r = 0; r < step; ++r) value[r] = LogInline(value[r]);
      for (int r = 0; r < step; ++r) SubtractRow(x + r * n, y + r * n, n, max[r], value[r]);
      continue;
    }
    for (int r = 0; r < step; ++r) value[r] = ExpRow<false>(x + r * n, y + r * n, n, max[r]);
    for (int r = 0; r < step; ++r) ScaleRow(y + r * n, n, 1.0f / value[r]);
  }
}

// 256 bytes in registers.
struct Map {
  __m512i part[4];

  Map() = default;
  explicit Map(const uint8_t* p)
      : part{_mm512_loadu_si512(p), _mm512_loadu_si512(p + 64), _mm512_loadu_si512(p + 128),
             _mm512_loadu_si512(p + 192)} {}
  __attribute__((target("avx512vbmi"))) __m512i operator()(__m512i index, __mmask64 high) const {
    return _mm512_mask_blend_epi8(high, _mm512_permutex2var_epi8(part[0], index, part[1]),
                                  _mm512_permutex2var_epi8(part[2], index, part[3]));
  }
};

// Sum64F of the exponentials. The four sums hold partial sums j = 16 lane + 4 part + place: folding
// by 32 and 16 adds 128-bit lanes, by 8 and 4 parts, by 2 and 1 places.
__attribute__((target("avx512vbmi"))) inline float SumOfExps(const Map (&e)[4], __m512i max,
                                                             const uint8_t* x, int64_t n) {
  __m512 sums[4] = {};
  for (int64_t i = 0; i < n; i += 64) {
    const __mmask64 mask = FirstBytes(n - i);
    const __m512i d = _mm512_sub_epi8(max, _mm512_maskz_loadu_epi8(mask, x + i));
    const __mmask64 high = _mm512_movepi8_mask(d);
    __m512i b[4];
    for (int k = 0; k < 4; ++k) b[k] = _mm512_maskz_mov_epi8(mask, e[k](d, high));
    const __m512i low0 = _mm512_unpacklo_epi8(b[0], b[1]), high0 = _mm512_unpackhi_epi8(b[0], b[1]);
    const __m512i low1 = _mm512_unpacklo_epi8(b[2], b[3]), high1 = _mm512_unpackhi_epi8(b[2], b[3]);
    sums[0] = _mm512_add_ps(sums[0], _mm512_castsi512_ps(_mm512_unpacklo_epi16(low0, low1)));
    sums[1] = _mm512_add_ps(sums[1], _mm512_castsi512_ps(_mm512_unpackhi_epi16(low0, low1)));
    sums[2] = _mm512_add_ps(sums[2], _mm512_castsi512_ps(_mm512_unpacklo_epi16(high0, high1)));
    sums[3] = _mm512_add_ps(sums[3], _mm512_castsi512_ps(_mm512_unpackhi_epi16(high0, high1)));
  }
  __m128 lanes[4];
  for (int k = 0; k < 4; ++k) {
    const __m256 by32 =
        _mm256_add_ps(_mm512_castps512_ps256(sums[k]), _mm512_extractf32x8_ps(sums[k], 1));
    lanes[k] = _mm_add_ps(_mm256_castps256_ps128(by32), _mm256_extractf128_ps(by32, 1));
  }
  const __m128 by4 = _mm_add_ps(_mm_add_ps(lanes[0], lanes[2]), _mm_add_ps(lanes[1], lanes[3]));
  const __m128 by2 = _mm_add_ps(by4, _mm_movehl_ps(by4, by4));
  return _mm_cvtss_f32(_mm_add_ss(by2, _mm_movehdup_ps(by2)));
}

inline uint8_t MaxByte(const uint8_t* x, int64_t n) {
  __m512i m = _mm512_setzero_si512();
  for (int64_t i = 0; i < n; i += 64)
    m = _mm512_max_epu8(m, _mm512_maskz_loadu_epi8(FirstBytes(n - i), x + i));
  const __m256i a = _mm256_max_epu8(_mm512_castsi512_si256(m), _mm512_extracti64x4_epi64(m, 1));
  const __m128i b = _mm_max_epu8(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  const __m128i words = _mm_max_epi16(_mm_and_si128(b, _mm_set1_epi16(0xff)), _mm_srli_epi16(b, 8));
  return static_cast<uint8_t>(
      255 - _mm_cvtsi128_si32(_mm_minpos_epu16(_mm_sub_epi16(_mm_set1_epi16(255), words))));
}

// y = saturate(round(e[max - x] * multiplier) + zero), from a table of all 256 distances.
__attribute__((target("avx512vbmi"))) inline void OutputBytes(const ByteSoftmax& softmax,
                                                              uint8_t largest, float multiplier,
                                                              __m512i zero, const uint8_t* x,
                                                              uint8_t* y, int64_t n) {
  const __m512i max = _mm512_set1_epi8(static_cast<char>(largest));
  const __m512 m = _mm512_set1_ps(multiplier);
  Map outputs;
  for (int c = 0; c < 4; ++c) {
    Floats v;
    for (int g = 0; g < 4; ++g) v.part[g] = _mm512_mul_ps(_mm512_load_ps(softmax.e_lanes[c][g]), m);
    outputs.part[c] = NarrowUnsigned(v, zero);
  }
  Span{n}.ForEach([&](int64_t i, const auto& load, const auto& store)
                      __attribute__((target("avx512vbmi"))) {
                        const __m512i d = _mm512_sub_epi8(max, load(x + i));
                        store(y + i, outputs(d, _mm512_movepi8_mask(d)));
                      });
}

__attribute__((target("avx512vbmi"))) void SoftmaxBytesVbmi(const ByteSoftmax& softmax,
                                                            const uint8_t* x, uint8_t* y,
                                                            int64_t rows, int64_t n) {
  const Map e[4] = {Map(softmax.e_bytes[0]), Map(softmax.e_bytes[1]), Map(softmax.e_bytes[2]),
                    Map(softmax.e_bytes[3])};
  const __m512i zero = _mm512_set1_epi16(static_cast<int16_t>(softmax.zero_y));
  uint8_t max[kRowsTogether];
  float value[kRowsTogether];
  for (int step; rows > 0; rows -= step, x += step * n, y += step * n) {
    step = RowsTogether(rows, n);
    for (int r = 0; r < step; ++r) max[r] = MaxByte(x + r * n, n);
    for (int r = 0; r < step; ++r)
      value[r] = SumOfExps(e, _mm512_set1_epi8(static_cast<char>(max[r])), x + r * n, n);
    for (int r = 0; r < step; ++r) value[r] = SoftmaxMultiplier(value[r], softmax.scale_y);
    for (int r = 0; r < step; ++r)
      OutputBytes(softmax, max[r], value[r], zero, x + r * n, y + r * n, n);
  }
}

void SoftmaxBytes512(const ByteSoftmax& softmax, const uint8_t* x, uint8_t* y, int64_t rows,
                     int64_t n) {
  static const bool has_vbmi = __builtin_cpu_supports("avx512vbmi");
  const bool small = softmax.scale_y > 1e-9f;  // products stay below 2^31
  return has_vbmi && small ? SoftmaxBytesVbmi(softmax, x, y, rows, n)
                           : SoftmaxBytes(softmax, x, y, rows, n);
}

// The extreme value first, then where it stands; rows with a NaN one element after the other.
template <bool kMax>
void ArgRowsOf512(const float* x, int64_t* y, int64_t rows, int64_t n, bool last) {
  const __m512 least = _mm512_set1_ps(kMax ? -kInfinity : kInfinity);
  for (int64_t r = 0; r < rows; ++r, x += n) {
    __m512 m = least;
    __mmask16 nan = 0;
    for (int64_t i = 0; i < n; i += 16) {
      const __m512 v = _mm512_mask_loadu_ps(least, FirstFloats(n - i), x + i);
      nan |= _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
      m = kMax ? _mm512_max_ps(v, m) : _mm512_min_ps(v, m);
    }
    if (nan != 0) {
      ArgColumns(x, y + r, n, 1, 1, kMax, last);
      continue;
    }
    const __m512 found = _mm512_set1_ps(kMax ? _mm512_reduce_max_ps(m) : _mm512_reduce_min_ps(m));
    int64_t best = 0;
    for (int64_t i = 0; i < n; i += 16) {
      const __mmask16 mask = FirstFloats(n - i);
      const uint32_t equal =
          _mm512_mask_cmp_ps_mask(mask, _mm512_maskz_loadu_ps(mask, x + i), found, _CMP_EQ_OQ);
      if (equal == 0) continue;
      best = i + (last ? 31 - __builtin_clz(equal) : __builtin_ctz(equal));
      if (!last) break;
    }
    y[r] = best;
  }
}

void ArgRows512(const float* x, int64_t* y, int64_t rows, int64_t n, bool max, bool last) {
  max ? ArgRowsOf512<true>(x, y, rows, n, last) : ArgRowsOf512<false>(x, y, rows, n, last);
}

// LayerNormRow of four rows together: the sums of one do not wait for those of another.
template <bool kBias>
void LayerNormFourRows(const float* x, const float* scale, const float* bias, float* y, int64_t n,
                       float epsilon, float* means, float* inverses) {
  const __mmask16 rest = FirstFloats(n % 16);
  const int64_t whole = n / 16 * 16;
  const float count = static_cast<float>(n);
  // use(v, mask, i, k): the values of row k from i on; 0 where the row is at its end.
  const auto each = [&](const auto& use) {
    for (int64_t i = 0; i < whole; i += 16) {
      for (int k = 0; k < 4; ++k) use(_mm512_loadu_ps(x + k * n + i), __mmask16{0xffff}, i, k);
    }
    if (whole == n) return;
    for (int k = 0; k < 4; ++k) use(_mm512_maskz_loadu_ps(rest, x + k * n + whole), rest, whole, k);
  };
  __m512 p[4], mean[4], inverse[4];
  for (__m512& lanes : p) lanes = _mm512_setzero_ps();
  each([&](__m512 v, __mmask16, int64_t, int k) { p[k] = _mm512_add_ps(p[k], v); });
  for (int k = 0; k < 4; ++k) {
    means[k] = Tree16(p[k]) / count;
    mean[k] = _mm512_set1_ps(means[k]);
    p[k] = _mm512_setzero_ps();
  }
  each([&](__m512 v, __mmask16 mask, int64_t, int k) {
    const __m512 d = _mm512_sub_ps(v, mean[k]);
    p[k] = _mm512_mask_add_ps(p[k], mask, p[k], _mm512_mul_ps(d, d));
  });
  for (int k = 0; k < 4; ++k) {
    inverses[k] = 1.0f / __builtin_sqrtf(Tree16(p[k]) / count + epsilon);
    inverse[k] = _mm512_set1_ps(inverses[k]);
  }
  each([&](__m512 v, __mmask16 mask, int64_t i, int k) {
    const __m512 by = _mm512_maskz_loadu_ps(mask, scale + i);
    __m512 z = _mm512_mul_ps(_mm512_mul_ps(_mm512_sub_ps(v, mean[k]), inverse[k]), by);
    if constexpr (kBias) z = _mm512_add_ps(z, _mm512_maskz_loadu_ps(mask, bias + i));
    _mm512_mask_storeu_ps(y + k * n + i, mask, z);
  });
}

void LayerNormRows512(const float* x, const float* scale, const float* bias, float* y, int64_t rows,
                      int64_t n, float epsilon, float* mean, float* inverse) {
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    float means[4], inverses[4];
    const auto four = bias != nullptr ? LayerNormFourRows<true> : LayerNormFourRows<false>;
    four(x + r * n, scale, bias, y + r * n, n, epsilon, means, inverses);
    if (mean != nullptr) std::copy_n(means, 4, mean + r);
    if (inverse != nullptr) std::copy_n(inverses, 4, inverse + r);
  }
  LayerNormRows(x + r * n, scale, bias, y + r * n, rows - r, n, epsilon,
                mean == nullptr ? nullptr : mean + r, inverse == nullptr ? nullptr : inverse + r);
}

// SumF of term(x) of each of 16 rows; term(0) is 0.
template <typename Term>
inline __m512 SumSixteenRows(const float* x, int64_t n, const Term& term) {
  __m512 fours[4];  // of rows q, q + 4, q + 8, q + 12: a block of four lanes each
  const __mmask16 rest = FirstFloats(n % 16);
#pragma GCC unroll 1
  for (int q = 0; q < 4; ++q) {
    __m512 p[4];
    for (__m512& lanes : p) lanes = _mm512_setzero_ps();
    const float* row = x + q * n;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
      for (int k = 0; k < 4; ++k)
        p[k] = _mm512_add_ps(p[k], term(_mm512_loadu_ps(row + 4 * k * n + i)));
    }
    if (i < n) {
      for (int k = 0; k < 4; ++k)
        p[k] = _mm512_add_ps(p[k], term(_mm512_maskz_loadu_ps(rest, row + 4 * k * n + i)));
    }
    // Lane j and lane j + 8, then j + 4.
    for (int k = 0; k < 4; k += 2)
      p[k] = _mm512_add_ps(_mm512_shuffle_f32x4(p[k], p[k + 1], 0x44),
                           _mm512_shuffle_f32x4(p[k], p[k + 1], 0xEE));
    fours[q] = _mm512_add_ps(_mm512_shuffle_f32x4(p[0], p[2], 0x88),
                             _mm512_shuffle_f32x4(p[0], p[2], 0xDD));
  }
  // Then j + 2 and j + 1.
  for (int q = 0; q < 4; q += 2)
    fours[q] = _mm512_add_ps(_mm512_shuffle_ps(fours[q], fours[q + 1], 0x44),
                             _mm512_shuffle_ps(fours[q], fours[q + 1], 0xEE));
  return _mm512_add_ps(_mm512_shuffle_ps(fours[0], fours[2], 0x88),
                       _mm512_shuffle_ps(fours[0], fours[2], 0xDD));
}

// Sums, sixteen rows at a time.
void ReduceRows512(ReduceKind kind, const float* x, int64_t rows, int64_t n, float* y) {
  const auto sixteens = [&](const auto& term, const auto& result) {
    int64_t r = 0;
    for (; r + 16 <= rows; r += 16)
      _mm512_storeu_ps(y + r, result(SumSixteenRows(x + r * n, n, term)));
    if (r < rows) ReduceRows(kind, x + r * n, rows - r, n, y + r);
  };
  const auto itself = [](__m512 v) { return v; };
  const auto square = [](__m512 v) { return _mm512_mul_ps(v, v); };
  switch (kind) {
    case ReduceKind::kReduceSum: return sixteens(itself, itself);
    case ReduceKind::kReduceMean: {
      const __m512 count = _mm512_set1_ps(static_cast<float>(n));
      return sixteens(itself, [count](__m512 v) { return _mm512_div_ps(v, count); });
    }
    case ReduceKind::kReduceSumSquare: return sixteens(square, itself);
    case ReduceKind::kReduceL1: return sixteens([](__m512 v) { return _mm512_abs_ps(v); }, itself);
    case ReduceKind::kReduceL2: return sixteens(square, [](__m512 v) { return _mm512_sqrt_ps(v); });
    default: return ReduceRows(kind, x, rows, n, y);
  }
}

}  // namespace

extern const NormTable kNormTable = {
    .softmax_rows = SoftmaxRows512,
    .softmax_columns = SoftmaxColumns,
    .softmax_bytes = SoftmaxBytes512,
    .layer_norm_rows = LayerNormRows512,
    .rms_norm_row = RmsNormRow,
    .affine_pixels = AffinePixels,
    .affine_run = AffineRun,
    .instance_norm = InstanceNorm,
    .group_norm = GroupNorm,
    .reduce = Reduce,
    .reduce_rows = ReduceRows512,
    .arg_rows = ArgRows512,
    .arg_columns = ArgColumns,
    .mean_bytes = MeanBytes,
};

}  // namespace evoq::avx512
