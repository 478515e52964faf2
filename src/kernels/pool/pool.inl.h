#include <type_traits>

#include "kernels/bf16/bf16_vec.h"
#include "kernels/pool/pool.h"
#include "kernels/vec.h"

namespace evoq::EVOQ_ISA {
namespace {

#ifdef EVOQ_OWN_AVERAGE
// to[i] = saturate(round((sum[i] + start) * multiplier) + zero) for 64 sums of `taps` bytes, or
// false when it takes other code.
inline bool AverageOf64(const OutputBounds& bounds, const Vec<uint16_t, 64>& sum, int32_t start,
                        int64_t taps, float multiplier, uint8_t* to);
#endif

// The taps of one output position: [begin, end) in each dimension, and where the window starts in
// x.
struct Taps {
  int64_t d0, d1, h0, h1, w0, w1;
  int64_t inside() const { return (d1 - d0) * (h1 - h0) * (w1 - w0); }
};

// Calls visit(pointer to channel 0 of a tap) for each tap, in order.
template <typename T, typename Visit>
inline void ForEachTap(const PoolArgs& args, const T* image, const Taps& taps, int64_t od,
                       int64_t oh, int64_t ow, const Visit& visit) {
  const int64_t step = args.w.dilation * args.channels;
  for (int64_t i = taps.d0; i < taps.d1; ++i) {
    const int64_t z = od * args.d.stride - args.d.pad + i * args.d.dilation;
    for (int64_t j = taps.h0; j < taps.h1; ++j) {
      const int64_t y = oh * args.h.stride - args.h.pad + j * args.h.dilation;
      const int64_t x = ow * args.w.stride - args.w.pad + taps.w0 * args.w.dilation;
      const T* p = image + ((z * args.h.in + y) * args.w.in + x) * args.channels;
      for (int64_t k = taps.w0; k < taps.w1; ++k, p += step) visit(p);
    }
  }
}

// Walks tasks; body(image, position, taps, count, first channel, end channel, output of channel 0).
template <typename T, typename Body>
inline void ForEachPosition(const PoolArgs& args, const T* x, T* y, int64_t begin, int64_t end,
                            const Body& body) {
  const int64_t image_size = args.d.in * args.h.in * args.w.in * args.channels;
  for (int64_t task = begin; task < end; ++task) {
    const int64_t row = task / args.groups(), group = task % args.groups();
    const int64_t oh = row % args.h.out, od = row / args.h.out % args.d.out,
                  n = row / args.h.out / args.d.out;
    const int64_t c0 = group * kPoolGroup,
                  c1 = c0 + kPoolGroup < args.channels ? c0 + kPoolGroup : args.channels;
    const int64_t padded_rows = args.d.PaddedTaps(od) * args.h.PaddedTaps(oh);
    Taps taps{args.d.TapBegin(od), args.d.TapEnd(od), args.h.TapBegin(oh), args.h.TapEnd(oh), 0, 0};
    for (int64_t ow = 0; ow < args.w.out; ++ow) {
      taps.w0 = args.w.TapBegin(ow);
      taps.w1 = args.w.TapEnd(ow);
      const int64_t taken = args.include_pad ? padded_rows * args.w.PaddedTaps(ow) : taps.inside();
      const int64_t count = taken > 0 ? taken : 1;
      const auto each_tap = [&](const auto& visit) {
        ForEachTap(args, x + n * image_size, taps, od, oh, ow, visit);
      };
      body(each_tap, taps.inside(), count, c0, c1, y + (row * args.w.out + ow) * args.channels);
    }
  }
}

// Where the pixels from one output to the next have so few elements, pooling at each of them and
// keeping each stride-th output takes fewer vectors than going from output to output.
constexpr int64_t kFewElements = 64;

// The first pixels of KeepEach, kPieces vectors of 16 bytes each: the end of a pixel's last piece
// is written again by the next pixel. Returns how many.
template <int kPieces, typename T>
inline int64_t KeepWhole(const T* from, int64_t stride, int64_t channels, int64_t count, T* to) {
  constexpr int64_t kPiece = 16 / sizeof(T);
  const int64_t spare = kPieces * kPiece - channels,
                whole = count - (spare + channels - 1) / channels;
  for (int64_t i = 0; i < whole; ++i, from += stride * channels, to += channels) {
#pragma GCC unroll 4
    for (int k = 0; k < kPieces; ++k) __builtin_memcpy(to + k * kPiece, from + k * kPiece, 16);
  }
  return whole > 0 ? whole : 0;
}

// to[i] = from[i * stride] for `count` pixels.
template <typename T>
inline void KeepEach(const T* from, int64_t stride, int64_t channels, int64_t count, T* to) {
  const int64_t bytes = channels * static_cast<int64_t>(sizeof(T));
  int64_t i = 0;
  if (bytes <= 16) {
    i = KeepWhole<1>(from, stride, channels, count, to);
  } else if (bytes <= 32) {
    i = KeepWhole<2>(from, stride, channels, count, to);
  } else if (bytes <= 64) {
    i = KeepWhole<4>(from, stride, channels, count, to);
  }
  for (; i < count; ++i) {
    for (int64_t c = 0; c < channels; ++c) to[i * channels + c] = from[i * stride * channels + c];
  }
}

// A run: n neighbouring elements of y whose taps lie at the same distances. Element i is pooled
// from x[offsets[t] + i].
constexpr int64_t kListedTaps = 256;  // a window of more taps goes position by position

// Calls run(x, offsets, taps, count, n, y) for whole rows of y where neighbours read neighbours,
// else for positions.
template <typename T, typename Run>
inline void ForEachRun(const PoolArgs& args, const T* x, T* y, int64_t begin, int64_t end,
                       const Run& run) {
  const WindowDim& w = args.w;
  const int64_t channels = args.channels, image_size = args.d.in * args.h.in * w.in * channels;
  int64_t offsets[kListedTaps], first = 0,
                                last;  // outputs [first, last) have all their taps inside
  while (first < w.out && w.TapBegin(first) > 0) ++first;
  for (last = first; last < w.out && w.TapEnd(last) == w.kernel;) ++last;
  // Columns go down all rows in bands, so that the lines of a window stay in the L1 cache.
  constexpr int64_t kBandBytes = 24 << 10;
  alignas(64) T every[kBandBytes / sizeof(T) +
                      kFewElements];  // what a band's outputs would be with a stride of 1
  const int64_t line_bytes =
      (args.h.kernel * w.stride + 1) * channels * static_cast<int64_t>(sizeof(T));
  const int64_t band = kBandBytes / line_bytes > 4 ? kBandBytes / line_bytes : 4;
  for (int64_t left = 0; left < w.out; left += band) {
    const int64_t right = left + band < w.out ? left + band : w.out;
    const int64_t inside_left = first > left ? first : left,
                  inside_right = last < right ? last : right;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t row = task / args.groups(), group = task % args.groups();
      const int64_t oh = row % args.h.out, od = row / args.h.out % args.d.out;
      const int64_t c0 = group * kPoolGroup,
                    width = (c0 + kPoolGroup < channels ? kPoolGroup : channels - c0);
      const int64_t padded_rows = args.d.PaddedTaps(od) * args.h.PaddedTaps(oh);
      const T* image = x + row / args.h.out / args.d.out * image_size + c0;
      T* to = y + row * w.out * channels + c0;
      int64_t taps = 0;
      // The taps [k0, k1) of each line of the window of output ow.
      const auto list = [&](int64_t ow, int64_t k0, int64_t k1) {
        taps = 0;
        for (int64_t i = args.d.TapBegin(od); i < args.d.TapEnd(od); ++i) {
          const int64_t z = od * args.d.stride - args.d.pad + i * args.d.dilation;
          for (int64_t j = args.h.TapBegin(oh); j < args.h.TapEnd(oh); ++j) {
            const int64_t line =
                (z * args.h.in + oh * args.h.stride - args.h.pad + j * args.h.dilation) * w.in +
                ow * w.stride - w.pad;
            for (int64_t k = k0; k < k1; ++k) offsets[taps++] = (line + k * w.dilation) * channels;
          }
        }
      };
      const auto count = [&](int64_t ow) {
        const int64_t taken = args.include_pad ? padded_rows * w.PaddedTaps(ow) : taps;
        return taken > 0 ? taken : 1;
      };
      const auto pool = [&](int64_t ow, int64_t shift, int64_t n) {
        run(image + shift, offsets, taps, count(ow), n, to + ow * channels);
      };
      for (int64_t ow = left; ow < right; ++ow) {
        if (ow >= first && ow < last) continue;
        list(ow, w.TapBegin(ow), w.TapEnd(ow));
        pool(ow, 0, width);
      }
      if (inside_left >= inside_right) continue;
      list(inside_left, 0, w.kernel);
      if (w.stride == 1 && width == channels) {
        pool(inside_left, 0, (inside_right - inside_left) * channels);
      } else if (w.stride * channels <= kFewElements) {
        const int64_t all = ((inside_right - inside_left - 1) * w.stride + 1) * channels;
        run(image, offsets, taps, count(inside_left), all, every);
        KeepEach(every, w.stride, channels, inside_right - inside_left,
                 to + inside_left * channels);
      } else {
        for (int64_t ow = inside_left; ow < inside_right; ++ow)
          pool(ow, (ow - inside_left) * w.stride * channels, width);
      }
    }
  }
}

inline bool IsListed(const PoolArgs& args) {
  return !args.global && args.d.kernel <= kListedTaps && args.h.kernel <= kListedTaps &&
         args.w.kernel <= kListedTaps &&
         args.d.kernel * args.h.kernel * args.w.kernel <= kListedTaps;
}

// Calls chunk.template operator()<n>(c) for pieces of kN elements, a power of two, or of the next
// smaller one where there are fewer.
template <int kN, typename Chunk>
inline void ForFew(int64_t c, int64_t end, const Chunk& chunk) {
  if constexpr (kN > 1) {
    if (end - c < kN) return ForFew<kN / 2>(c, end, chunk);
  }
  chunk.template operator()<kN>(c);
  if (end - c > kN) chunk.template operator()<kN>(end - kN);
}

// Calls chunk.template operator()<kN>(c) for pieces of kMost, 64, 16 and fewer elements; the last
// piece may overlap the one before.
template <int kMost = 64, typename Chunk>
inline void ForChunks(int64_t c, int64_t end, const Chunk& chunk) {
  if (c >= end) return;
  if (end - c < 16) return ForFew<8>(c, end, chunk);
  if constexpr (kMost > 64) {
    for (; c + kMost <= end; c += kMost) chunk.template operator()<kMost>(c);
  }
  for (; c + 64 <= end; c += 64) chunk.template operator()<64>(c);
  for (; c + 16 <= end; c += 16) chunk.template operator()<16>(c);
  if (c < end) chunk.template operator()<16>(end - 16);
}

// The same with kTaps taps, which stay in registers. A visitor that takes two taps gets them in
// pairs.
template <int kTaps, int kMost, typename T, typename Body>
inline void ForFixedTaps(const T* from, const int64_t* offsets, int64_t n, const Body& body) {
  const T* p[kTaps];
  for (int t = 0; t < kTaps; ++t) p[t] = from + offsets[t];
  ForChunks<kMost>(0, n, [&]<int kN>(int64_t c) {
    body.template operator()<kN>(c, [&](const auto& visit) {
      if constexpr (std::is_invocable_v<decltype(visit), const T*, const T*>) {
#pragma GCC unroll 4
        for (int t = 0; t + 1 < kTaps; t += 2) visit(p[t] + c, p[t + 1] + c);
        if constexpr (kTaps % 2 != 0) visit(p[kTaps - 1] + c);
      } else {
#pragma GCC unroll 9
        for (int t = 0; t < kTaps; ++t) visit(p[t] + c);
      }
    });
  });
}

// body.operator()<kN>(c, taps) for the chunks of a run's n elements, where taps(visit) calls
// visit(element c of a tap) for each tap in order.
template <int kMost, typename T, typename Body>
inline void ForTapChunks(const T* from, const int64_t* offsets, int64_t taps, int64_t n,
                         const Body& body) {
  if (taps == 4) return ForFixedTaps<4, kMost>(from, offsets, n, body);  // windows of 2 x 2
  if (taps == 9) return ForFixedTaps<9, kMost>(from, offsets, n, body);  // and of 3 x 3
  ForChunks<kMost>(0, n, [&]<int kN>(int64_t c) {
    body.template operator()<kN>(c, [&](const auto& visit) {
      for (int64_t t = 0; t < taps; ++t) visit(from + offsets[t] + c);
    });
  });
}

// The largest of some vectors, element by element; NaN where one is NaN. One comparison tells of
// two vectors whether they have a NaN.
template <typename T, int kN>
struct MaxOf {
  static constexpr bool kReal = std::is_same_v<T, float>;
  static constexpr T kLowest = static_cast<T>(kReal ? -__builtin_inff() : T(-1) < T(0) ? -128 : 0);

  inline void Take(Vec<T, kN> v) {
    if constexpr (kReal) numbers = numbers & (v == v);
    m = v > m ? v : m;  // a NaN leaves m
  }
  inline void Take(Vec<T, kN> v, Vec<T, kN> w) {
    if constexpr (kReal) numbers = numbers & ((v == v) & (w == w));
    m = v > m ? v : m;
    m = w > m ? w : m;
  }
  inline Vec<T, kN> Result() const {
    if constexpr (kReal) return numbers ? m : Vec<T, kN>{} + __builtin_nanf("");
    return m;
  }

  Vec<T, kN> m = Vec<T, kN>{} + kLowest;
  using Mask = Vec<int32_t, kReal ? kN : 1>;
  Mask numbers = Mask{} - 1;  // -1 where there was no NaN
};

template <typename T>
void MaxTasks(const PoolArgs& args, const void* x, void* y, int64_t begin, int64_t end) {
  if (IsListed(args)) {
    return ForEachRun(
        args, static_cast<const T*>(x), static_cast<T*>(y), begin, end,
        [](const T* from, const int64_t* offsets, int64_t taps, int64_t, int64_t n, T* to) {
          ForTapChunks<256 / sizeof(T)>(
              from, offsets, taps, n, [&]<int kN>(int64_t c, const auto& each_tap) {
                constexpr int kPart = std::is_same_v<T, float> && kN > 16 ? 16 : kN;  // registers
                for (int i = 0; i < kN; i += kPart) {
                  MaxOf<T, kPart> max;
                  each_tap([&](auto... p) { max.Take(LoadVec<T, kPart>(p + i)...); });
                  StoreVec<T, kPart>(to + c + i, max.Result());
                }
              });
        });
  }
  const bool global = args.global;
  ForEachPosition(args, static_cast<const T*>(x), static_cast<T*>(y), begin, end,
                  [global](const auto& each_tap, int64_t, int64_t, int64_t c0, int64_t c1, T* out) {
                    ForChunks(c0, c1, [&]<int kN>(int64_t c) {
                      MaxOf<T, kN> max;
                      each_tap([&](const T* p) { max.Take(LoadVec<T, kN>(p + c)); });
                      Vec<T, kN> m = max.Result();
                      if (sizeof(T) == 4 && global) m = m + T(0);  // a zero is positive
                      StoreVec<T, kN>(out + c, m);
                    });
                  });
}

void AverageFloatTasks(const PoolArgs& args, const void* x, void* y, int64_t begin, int64_t end) {
  if (IsListed(args)) {
    return ForEachRun(args, static_cast<const float*>(x), static_cast<float*>(y), begin, end,
                      [](const float* from, const int64_t* offsets, int64_t taps, int64_t count,
                         int64_t n, float* to) {
                        ForTapChunks<64>(
                            from, offsets, taps, n, [&]<int kN>(int64_t c, const auto& each_tap) {
                              Vec<float, kN> sum = {};
                              each_tap([&](const float* p) { sum = sum + LoadVec<float, kN>(p); });
                              StoreVec<float, kN>(to + c, sum / static_cast<float>(count));
                            });
                      });
  }
  ForEachPosition(
      args, static_cast<const float*>(x), static_cast<float*>(y), begin, end,
      [](const auto& each_tap, int64_t, int64_t count, int64_t c0, int64_t c1, float* out) {
        ForChunks(c0, c1, [&]<int kN>(int64_t c) {
          Vec<float, kN> sum = {};
          each_tap([&](const float* p) { sum = sum + LoadVec<float, kN>(p + c); });
          StoreVec<float, kN>(out + c, sum / static_cast<float>(count));
        });
      });
}

void MaxBf16Tasks(const PoolArgs& args, const void* x, void* y, int64_t begin, int64_t end) {
  const bool global = args.global;
  ForEachPosition(
      args, static_cast<const uint16_t*>(x), static_cast<uint16_t*>(y), begin, end,
      [global](const auto& each_tap, int64_t, int64_t, int64_t c0, int64_t c1, uint16_t* out) {
        ForChunks(c0, c1, [&]<int kN>(int64_t c) {
          MaxOf<float, kN> max;
          each_tap([&](const uint16_t* p) { max.Take(LoadBf16<kN>(p + c)); });
          Vec<float, kN> m = max.Result();
          if (global) m = m + 0.0f;
          StoreBf16<kN>(out + c, m);
        });
      });
}

void AverageBf16Tasks(const PoolArgs& args, const void* x, void* y, int64_t begin, int64_t end) {
  ForEachPosition(
      args, static_cast<const uint16_t*>(x), static_cast<uint16_t*>(y), begin, end,
      [](const auto& each_tap, int64_t, int64_t count, int64_t c0, int64_t c1, uint16_t* out) {
        ForChunks(c0, c1, [&]<int kN>(int64_t c) {
          Vec<float, kN> sum = {};
          each_tap([&](const uint16_t* p) { sum = sum + LoadBf16<kN>(p + c); });
          StoreBf16<kN>(out + c, sum / static_cast<float>(count));
        });
      });
}

// Sums 256 taps at a time in 16 bits (256 * 255 fits), then in 32.
void AverageByteTasks(const PoolArgs& args, const void* x, void* y, int64_t begin, int64_t end) {
  if (IsListed(args)) {
    return ForEachRun(
        args, static_cast<const uint8_t*>(x), static_cast<uint8_t*>(y), begin, end,
        [&args](const uint8_t* from, const int64_t* offsets, int64_t taps, int64_t count, int64_t n,
                uint8_t* to) {
          const float multiplier =
              static_cast<float>(args.scale_x / (args.scale_y * static_cast<double>(count)));
          const int32_t start = -args.zero_x * static_cast<int32_t>(taps);
          const OutputBounds bounds = args.bounds;
          ForTapChunks<64>(from, offsets, taps, n, [&]<int kN>(int64_t c, const auto& each_tap) {
            Vec<uint16_t, kN> sum = {};  // kListedTaps * 255 fits
            each_tap([&](const uint8_t* p) {
              sum = sum + Convert<uint16_t, kN>(LoadVec<uint8_t, kN>(p));
            });
#ifdef EVOQ_OWN_AVERAGE
            if constexpr (kN == 64) {
              if (AverageOf64(bounds, sum, start, taps, multiplier, to + c)) return;
            }
#endif
            const Vec<int32_t, kN> total = Convert<int32_t, kN>(sum) + start;
            const Vec<int32_t, kN> q =
                ToIntegers<kN>(bounds, Convert<float, kN>(total) * multiplier);
            StoreVec<uint8_t, kN>(to + c, Convert<uint8_t, kN>(q));
          });
        });
  }
  ForEachPosition(args, static_cast<const uint8_t*>(x), static_cast<uint8_t*>(y), begin, end,
                  [&args](const auto& each_tap, int64_t inside, int64_t count, int64_t c0,
                          int64_t c1, uint8_t* out) {
                    const float multiplier = static_cast<float>(
                        args.scale_x / (args.scale_y * static_cast<double>(count)));
                    const int32_t start = -args.zero_x * static_cast<int32_t>(inside);
                    ForChunks(c0, c1, [&]<int kN>(int64_t c) {
                      Vec<int32_t, kN> sum = Vec<int32_t, kN>{} + start;
                      Vec<uint16_t, kN> part = {};
                      int room = 256;
                      each_tap([&](const uint8_t* p) {
                        part = part + Convert<uint16_t, kN>(LoadVec<uint8_t, kN>(p + c));
                        if (--room == 0) {
                          sum = sum + Convert<int32_t, kN>(part);
                          part = Vec<uint16_t, kN>{};
                          room = 256;
                        }
                      });
                      sum = sum + Convert<int32_t, kN>(part);
                      const Vec<int32_t, kN> q =
                          ToIntegers<kN>(args.bounds, Convert<float, kN>(sum) * multiplier);
                      StoreVec<uint8_t, kN>(out + c, Convert<uint8_t, kN>(q));
                    });
                  });
}

}  // namespace

extern const PoolTable kPoolTable = {
    .max_u8 = MaxTasks<uint8_t>,
    .max_i8 = MaxTasks<int8_t>,
    .max_f32 = MaxTasks<float>,
    .max_bf16 = MaxBf16Tasks,
    .average_u8 = AverageByteTasks,
    .average_f32 = AverageFloatTasks,
    .average_bf16 = AverageBf16Tasks,
};

}  // namespace evoq::EVOQ_ISA
