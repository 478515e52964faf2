// int8 depthwise rows with 16-bit multiply-add. Square kernels of 3, 5 and 7 take the walk, others
// lines of taps.
#define EVOQ_ISA avx2
#include "kernels/dwconv/dwconv_f32.inl.h"
#include "kernels/dwconv/dwconv_int8.inl.h"
#include "kernels/dwconv/dwconv_lines.inl.h"
#include "kernels/dwconv/dwconv_walk.inl.h"
#include "kernels/part_of_vector.inl.h"
#include "kernels/variants.h"

namespace evoq::avx2 {
namespace {

// Finishes n channels, from c on, of the output at `at`.
inline void FinishSums(const DwInt8Args& args, const __m256i* acc, int64_t c, int64_t n, int64_t at,
                       const void* residual, void* y) {
  if (!args.plain) {
    alignas(32) int32_t sums[kDwBlock];
    _mm256_store_si256(reinterpret_cast<__m256i*>(sums), acc[0]);
    _mm256_store_si256(reinterpret_cast<__m256i*>(sums) + 1, acc[1]);
    return FinishPixel(args, sums, c, n, at, residual, y);
  }
  __m256i q[2];
  for (int j = 0; j < 2; ++j) {
    __m256 v =
        _mm256_mul_ps(_mm256_cvtepi32_ps(acc[j]), _mm256_loadu_ps(args.multiplier + c + 8 * j));
    v = _mm256_min_ps(_mm256_set1_ps(args.bounds.high),
                      _mm256_max_ps(_mm256_set1_ps(args.bounds.low), v));
    q[j] = _mm256_add_epi32(_mm256_cvtps_epi32(v), _mm256_set1_epi32(args.bounds.zero));
  }
  const __m256i words = _mm256_packs_epi32(q[0], q[1]);
  const __m256i bytes = _mm256_packus_epi16(words, words);  // channels 0-3, 8-11 and 4-7, 12-15
  const __m128i all =
      _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
  uint8_t* to = static_cast<uint8_t*>(y) + at;
  if (n == kDwBlock) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), all);
  } else {
    StorePart(to, all, n);
  }
}

struct LineMachine {
  using V = __m256i;
  static constexpr int kTaps = 2, kVectors = 2;

  const DwInt8Args& args;

  void Operands(const uint8_t* const* pixels, int64_t step, int64_t c, int64_t n, V* x) const {
    __m128i p[2];
    for (int i = 0; i < 2; ++i) {
      const uint8_t* const from = pixels[i * step] + c;
      if (n == kDwBlock) {
        p[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
      } else {
        alignas(16) uint8_t part[kDwBlock] = {};
        std::memcpy(part, from, static_cast<size_t>(n));
        p[i] = _mm_load_si128(reinterpret_cast<const __m128i*>(part));
      }
    }
    Keep(x, _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(p[0], p[1])));
    Keep(x + 1, _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(p[0], p[1])));
  }
  V Bias(int64_t c, int j) const {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(args.bias + c) + j);
  }
  static V Load(const V* p) { return _mm256_load_si256(p); }
  static void Keep(V* p, V v) { _mm256_store_si256(p, v); }
  static V Dot(V acc, V x, V w) { return _mm256_add_epi32(acc, _mm256_madd_epi16(x, w)); }
  void Store(const V* acc, int64_t c, int64_t n, int64_t at, const void* residual, void* y) const {
    FinishSums(args, acc, c, n, at, residual, y);
  }
};

// The walk's machine: two vertical taps of 8 channels to a vector. The last block may have fewer
// than 16 channels: those of the next pixel lie behind them, but for the end of a row.
template <int K, int S>
struct Ring {
  using V = __m256i;
  static constexpr int kK = K, kS = S, kGroups = (K + 1) / 2, kAll = 2;
  struct RowPointers {
    const uint8_t* at[K];
  };

  const DwInt8Args& args;
  const int32_t* bias;
  const __m256i* weights;
  const V outside;
  const int64_t channels;    // of the block
  const int64_t last_whole;  // the last offset from which 16 bytes of a row may be read

  Ring(const DwInt8Args& a, const RingWalk& walk)
      : args(a),
        bias(a.bias + walk.block.channel),
        weights(static_cast<const __m256i*>(a.ring) + walk.index * (K * kGroups * 2)),
        outside(_mm256_set1_epi16(a.padding[0])),
        channels(walk.block.channels),
        last_whole(a.shape.w.in * a.shape.channels - walk.block.channel - kDwBlock) {}

  static RowPointers Rows(const RingWalk& walk) {
    RowPointers rows;
    for (int ky = 0; ky < K; ++ky) rows.at[ky] = walk.rows[0][ky];
    return rows;
  }
  V Outside() const { return outside; }
  V Bias(int j) const { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bias) + j); }
  V Weights(int tap, int j) const { return _mm256_load_si256(weights + 2 * tap + j); }
  static V Dot(V acc, V x, V w) { return _mm256_add_epi32(acc, _mm256_madd_epi16(x, w)); }
  V More(V acc, V, int, int) const { return acc; }

  template <int kFirst, int kVectors>
  void Column(const RowPointers& rows, int64_t offset, V* x) const {
    offset > last_whole ? Part<kFirst, kVectors>(rows, offset, x)
                        : Whole<kFirst, kVectors>(rows, offset, x);
  }

  template <int kFirst, int kVectors>
  [[gnu::noinline]] void Part(const RowPointers& rows, int64_t offset, V* x) const {
    alignas(16) uint8_t part[K][kDwBlock] = {};
    RowPointers copies;
    for (int ky = 0; ky < K; ++ky) {
      for (int64_t c = 0; c < channels; ++c) part[ky][c] = rows.at[ky][offset + c];
      copies.at[ky] = part[ky];
    }
    Whole<kFirst, kVectors>(copies, 0, x);
  }

  template <int kFirst, int kVectors>
  static void Whole(const RowPointers& rows, int64_t offset, V* x) {
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g, x += kVectors) {
      const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows.at[2 * g] + offset));
      const __m128i b = 2 * g + 1 < K ? _mm_loadu_si128(reinterpret_cast<const __m128i*>(
                                            rows.at[2 * g + (2 * g + 1 < K)] + offset))
                                      : _mm_setzero_si128();
      if (kFirst == 0) x[0] = _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(a, b));
      if (kFirst + kVectors == 2) x[1 - kFirst] = _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(a, b));
    }
  }

  void Store(const RingWalk& walk, const V* acc, int64_t offset, const void* residual,
             void* y) const {
    FinishSums(args, acc, walk.block.channel, channels, walk.y[0] + offset, residual, y);
  }
};

RingFn RingFor(const DwInt8Args& args) {
  const int64_t k = args.shape.w.kernel, s = args.shape.w.stride;
  if constexpr (HasDepthwiseVariant(5)) {
    if (k == 5) return s == 1 ? WalkRow<Ring<5, 1>> : WalkRow<Ring<5, 2>>;
    if (k == 7) return s == 1 ? WalkRow<Ring<7, 1>> : WalkRow<Ring<7, 2>>;
  }
  return s == 1 ? WalkRow<Ring<3, 1>> : WalkRow<Ring<3, 2>>;
}

void Int8Rows(const DwInt8Args& args, const uint8_t* x, const void* residual, void* y,
              int64_t begin, int64_t end) {
  const DwShape& shape = args.shape;
  if (args.ring != nullptr) {
    const RingFn run = RingFor(args);
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t block = 0; block < shape.blocks(); ++block)
        RingRows(args, run, block, x, residual, y, row, row + 1);
    }
    return;
  }
  const LineMachine machine{args};
  Lines<LineMachine> lines(machine, args, x, residual, y);
  if (!lines.fits()) return Int8RowsPlain(args, x, residual, y, begin, end);
  lines.Rows(begin, end);
}

}  // namespace

extern const DwTable kDwTable = {
    .int8_rows = Int8Rows, .float_rows = RowsOf<float>, .ring_lanes = 16, .pair_lines = true};

}  // namespace evoq::avx2
