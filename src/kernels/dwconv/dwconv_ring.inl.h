// The walk's machine with VNNI: 64 lanes at a time. Included by dwconv_avx512.cc.
//
// A lane is a channel; where fewer than 64 channels are left, the lanes hold two or four output
// rows (DwRingBlock). Unpacking the bytes of four input rows gives the operands of the dot
// products: element e of vector j has
//   lane 16 (e / 4) + 4 j + e % 4,   rows 0 | 1 << 8 | 2 << 16 | 3 << 24
// which is the order that packs and packus undo at the end.
#include <immintrin.h>

#include "kernels/dwconv/dwconv_walk.inl.h"
#include "kernels/variants.h"

namespace evoq::avx512 {
namespace {

// What finishes sums: `plain` and `real` of DwInt8Args, or any epilogue.
enum class RingFinish { kAny, kPlain, kReal };

// kWide: whether weights have a second part; kAny asks that at run time.
template <int K, int S, int kPieces, bool kMasked, RingFinish kFinish, bool kWide>
struct Ring {
  using V = __m512i;
  static constexpr int kK = K, kS = S, kGroups = (K + 3) / 4, kAll = 4;
  struct RowPointers {
    const uint8_t* at[kPieces][K];
  };

  const DwInt8Args& args;
  const Epilogue epilogue;
  const __mmask64 mask;
  const int32_t* bias;
  const int8_t* weights;
  const int64_t part_bytes;
  const float *const multiplier, *const offsets;  // of the block
  const bool has_offset, has_residual, wide;
  float* const range;
  mutable __m512 least = _mm512_setzero_ps(), most = _mm512_setzero_ps();  // of what was stored

  Ring(const DwInt8Args& a, const RingWalk& walk)
      : args(a),
        epilogue(a),
        mask(walk.block.channels >= 64 ? ~__mmask64{0} : (__mmask64{1} << walk.block.channels) - 1),
        bias(a.ring_bias + walk.index * 64),
        weights(static_cast<const int8_t*>(a.ring) + walk.index * (K * kGroups * 256)),
        part_bytes((a.shape.channels + 63) / 64 * (K * kGroups * 256)),
        multiplier(a.multiplier + walk.block.channel),
        offsets(a.offset == nullptr ? nullptr : a.offset + walk.block.channel),
        has_offset(a.offset != nullptr),
        has_residual(a.has_residual),
        wide(walk.block.wide),
        range(a.range) {}
  ~Ring() {
    if (kFinish != RingFinish::kReal || range == nullptr) return;
    _mm512_storeu_ps(range, _mm512_min_ps(least, _mm512_loadu_ps(range)));
    _mm512_storeu_ps(range + 16, _mm512_max_ps(most, _mm512_loadu_ps(range + 16)));
  }

  static RowPointers Rows(const RingWalk& walk) {
    RowPointers rows;
    for (int piece = 0; piece < kPieces; ++piece) {
      for (int ky = 0; ky < K; ++ky) rows.at[piece][ky] = walk.rows[piece][ky];
    }
    return rows;
  }
  V Outside() const { return epilogue.outside; }
  V Bias(int j) const { return _mm512_loadu_si512(bias + 16 * j); }
  V Weights(int tap, int j) const { return _mm512_loadu_si512(weights + 256 * tap + 64 * j); }
  static V Dot(V acc, V x, V w) { return _mm512_dpbusd_epi32(acc, x, w); }
  V More(V acc, V x, int tap, int j) const {
    if (kFinish == RingFinish::kAny ? !wide : !kWide) return acc;
    return _mm512_dpbusd_epi32(acc, x,
                               _mm512_loadu_si512(weights + part_bytes + 256 * tap + 64 * j));
  }
  void Store(const RingWalk& walk, const V* acc, int64_t offset, const void* residual,
             void* y) const {
    if constexpr (kFinish == RingFinish::kPlain)
      return StorePlain(walk, acc, offset, static_cast<uint8_t*>(y));
    if constexpr (kFinish == RingFinish::kReal)
      return StoreReal(walk, acc, offset, static_cast<const float*>(residual),
                       static_cast<float*>(y));
    StoreAny(walk, acc, offset, residual, y);
  }

  __m512i Load(const RowPointers& rows_of, int ky, int64_t offset) const {
    if constexpr (kPieces == 1) {
      const uint8_t* p = rows_of.at[0][ky] + offset;
      return kMasked ? _mm512_maskz_loadu_epi8(mask, p) : _mm512_loadu_si512(p);
    } else if constexpr (kPieces == 2) {
      const auto half = [&](int i) {
        const uint8_t* p = rows_of.at[i][ky] + offset;
        return kMasked ? _mm256_maskz_loadu_epi8(static_cast<__mmask32>(mask), p)
                       : _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
      };
      return _mm512_inserti64x4(_mm512_castsi256_si512(half(0)), half(1), 1);
    } else {
      const auto quarter = [&](int i) {
        const uint8_t* p = rows_of.at[i][ky] + offset;
        return kMasked ? _mm_maskz_loadu_epi8(static_cast<__mmask16>(mask), p)
                       : _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
      };
      const __m256i low =
          _mm256_inserti128_si256(_mm256_castsi128_si256(quarter(0)), quarter(1), 1);
      const __m256i high =
          _mm256_inserti128_si256(_mm256_castsi128_si256(quarter(2)), quarter(3), 1);
      return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
    }
  }

  // Vectors [kFirst, kFirst + kVectors) of the operands of one input column: x[kVectors * quad +
  // vector].
  template <int kFirst, int kVectors>
  void Column(const RowPointers& rows, int64_t offset, __m512i* x) const {
    const __m512i none = _mm512_setzero_si512();
#pragma GCC unroll 2
    for (int q = 0; q < kGroups; ++q, x += kVectors) {
      const int ky = 4 * q, taps = K - ky;
      const __m512i a = Load(rows, ky, offset), b = taps > 1 ? Load(rows, ky + 1, offset) : none;
      const __m512i c = taps > 2 ? Load(rows, ky + 2, offset) : none;
      const __m512i d = taps > 3 ? Load(rows, ky + 3, offset) : none;
      if (kFirst == 0) {
        const __m512i ab = _mm512_unpacklo_epi8(a, b), cd = _mm512_unpacklo_epi8(c, d);
        x[0] = _mm512_unpacklo_epi16(ab, cd);
        x[1] = _mm512_unpackhi_epi16(ab, cd);
      }
      if (kFirst + kVectors == 4) {
        const __m512i ab = _mm512_unpackhi_epi8(a, b), cd = _mm512_unpackhi_epi8(c, d);
        x[2 - kFirst] = _mm512_unpacklo_epi16(ab, cd);
        x[3 - kFirst] = _mm512_unpackhi_epi16(ab, cd);
      }
    }
  }

  void StorePlain(const RingWalk& walk, const __m512i* acc, int64_t offset, uint8_t* y) const {
    const float* multiplier = args.ring_multiplier + walk.index * 64;
    __m512i v[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j)
      v[j] = _mm512_cvtps_epi32(
          _mm512_mul_ps(_mm512_cvtepi32_ps(acc[j]), _mm512_loadu_ps(multiplier + 16 * j)));
    const __m512i low = _mm512_adds_epi16(_mm512_packs_epi32(v[0], v[1]), epilogue.zeros);
    const __m512i high = _mm512_adds_epi16(_mm512_packs_epi32(v[2], v[3]), epilogue.zeros);
    const __m512i bytes = _mm512_min_epu8(
        _mm512_max_epu8(_mm512_packus_epi16(low, high), epilogue.lowest), epilogue.highest);
    if constexpr (kPieces == 1) {
      uint8_t* to = y + walk.y[0] + offset;
      kMasked ? _mm512_mask_storeu_epi8(to, mask, bytes) : _mm512_storeu_si512(to, bytes);
    } else if constexpr (kPieces == 2) {
      const auto store = [&](int i, __m256i half) {
        uint8_t* to = y + walk.y[i] + offset;
        kMasked ? _mm256_mask_storeu_epi8(to, static_cast<__mmask32>(mask), half)
                : _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), half);
      };
      store(0, _mm512_castsi512_si256(bytes));
      if (walk.live > 1) store(1, _mm512_extracti64x4_epi64(bytes, 1));
    } else {
      const auto store = [&](int i, __m128i quarter) {
        uint8_t* to = y + walk.y[i] + offset;
        kMasked ? _mm_mask_storeu_epi8(to, static_cast<__mmask16>(mask), quarter)
                : _mm_storeu_si128(reinterpret_cast<__m128i*>(to), quarter);
      };
      store(0, _mm512_castsi512_si128(bytes));
      if (walk.live > 1) store(1, _mm512_extracti32x4_epi32(bytes, 1));
      if (walk.live > 2) store(2, _mm512_extracti32x4_epi32(bytes, 2));
      if (walk.live > 3) store(3, _mm512_extracti32x4_epi32(bytes, 3));
    }
  }

  // store(sums, piece, channel, mask): the sums of 16 neighbouring channels of a piece at a time.
  template <typename Store16>
  inline __attribute__((always_inline)) void By16(const RingWalk& walk, const __m512i* acc,
                                                  const Store16& store) const {
    const __m512i even01 = _mm512_shuffle_i32x4(acc[0], acc[1], 0x88),
                  odd01 = _mm512_shuffle_i32x4(acc[0], acc[1], 0xdd);
    const __m512i even23 = _mm512_shuffle_i32x4(acc[2], acc[3], 0x88),
                  odd23 = _mm512_shuffle_i32x4(acc[2], acc[3], 0xdd);
    const __m512i lanes[4] = {
        _mm512_shuffle_i32x4(even01, even23, 0x88), _mm512_shuffle_i32x4(odd01, odd23, 0x88),
        _mm512_shuffle_i32x4(even01, even23, 0xdd), _mm512_shuffle_i32x4(odd01, odd23, 0xdd)};
    constexpr int kLanes = 4 / kPieces;  // of 16 channels in a piece
#pragma GCC unroll 4
    for (int l = 0; l < 4; ++l) {
      const int piece = l / kLanes, channel = 16 * (l % kLanes);
      const auto some = static_cast<__mmask16>(mask >> channel);
      if ((kPieces > 1 && piece >= walk.live) || (kMasked && some == 0)) continue;
      store(lanes[l], piece, channel, some);
    }
  }

  void StoreReal(const RingWalk& walk, const __m512i* acc, int64_t offset, const float* residual,
                 float* y) const {
    By16(walk, acc, [&](__m512i sums, int piece, int channel, __mmask16 some) {
      const int64_t at = walk.y[piece] + offset + channel;
      __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(sums), _mm512_loadu_ps(multiplier + channel));
      if (has_offset) v = _mm512_add_ps(v, _mm512_loadu_ps(offsets + channel));
      if (has_residual)
        v = _mm512_add_ps(v, kMasked ? _mm512_maskz_loadu_ps(some, residual + at)
                                     : _mm512_loadu_ps(residual + at));
      v = _mm512_min_ps(epilogue.high, _mm512_max_ps(epilogue.low, v));
      // Where v is NaN, both leave what there was. Lanes without a channel hold 0, clamped like the
      // others.
      least = _mm512_min_ps(v, least);
      most = _mm512_max_ps(v, most);
      kMasked ? _mm512_mask_storeu_ps(y + at, some, v) : _mm512_storeu_ps(y + at, v);
    });
  }

  // Any epilogue, 16 lanes at a time.
  void StoreAny(const RingWalk& walk, const __m512i* acc, int64_t offset, const void* residual,
                void* y) const {
    By16(walk, acc, [&](__m512i sums, int piece, int channel, __mmask16 some) {
      epilogue.Store(sums, walk.block.channel + channel, walk.y[piece] + offset + channel, some,
                     residual, y);
    });
  }
};

template <int K, int S, bool kMasked, RingFinish kFinish, bool kWide>
RingFn RingOf(int64_t pieces) {
  return pieces == 1   ? WalkRow<Ring<K, S, 1, kMasked, kFinish, kWide>>
         : pieces == 2 ? WalkRow<Ring<K, S, 2, kMasked, kFinish, kWide>>
                       : WalkRow<Ring<K, S, 4, kMasked, kFinish, kWide>>;
}
// Wide blocks are few: a mask costs them little, and a version less is compiled.
template <int K, int S, RingFinish kFinish>
RingFn RingOf(const DwRingBlock& block) {
  if (block.wide) return RingOf<K, S, true, kFinish, true>(block.pieces);
  return block.channels < block.lanes() ? RingOf<K, S, true, kFinish, false>(block.pieces)
                                        : RingOf<K, S, false, kFinish, false>(block.pieces);
}
template <int K, int S>
RingFn RingFor(const DwRingBlock& block, const DwInt8Args& args) {
  if constexpr (kFewVariants) {
    if (args.plain && !block.wide)
      return RingOf<K, S, true, RingFinish::kPlain, false>(block.pieces);
    if (args.real)
      return block.wide ? RingOf<K, S, true, RingFinish::kReal, true>(block.pieces)
                        : RingOf<K, S, true, RingFinish::kReal, false>(block.pieces);
  } else {
    if (args.plain) return RingOf<K, S, RingFinish::kPlain>(block);
    if (args.real) return RingOf<K, S, RingFinish::kReal>(block);
  }
  return RingOf<K, S, true, RingFinish::kAny, false>(block.pieces);
}
RingFn RingFor(const DwInt8Args& args, const DwRingBlock& block) {
  const int64_t k = args.shape.w.kernel, s = args.shape.w.stride;
  if constexpr (HasDepthwiseVariant(5)) {
    if (k == 5) return s == 1 ? RingFor<5, 1>(block, args) : RingFor<5, 2>(block, args);
    if (k == 7) return s == 1 ? RingFor<7, 1>(block, args) : RingFor<7, 2>(block, args);
  }
  return s == 1 ? RingFor<3, 1>(block, args) : RingFor<3, 2>(block, args);
}

}  // namespace
}  // namespace evoq::avx512
