#include "kernels/pool/pool.h"
#include "kernels/vec.h"

namespace evoq::EVOQ_ISA {
namespace {

// The taps of one output position: [begin, end) in each dimension, and where the window starts in x.
struct Taps {
  int64_t d0, d1, h0, h1, w0, w1;
  int64_t inside() const { return (d1 - d0) * (h1 - h0) * (w1 - w0); }
};

// Calls visit(pointer to channel 0 of a tap) for each tap, in order.
template <typename T, typename Visit>
inline void ForEachTap(const PoolArgs& args, const T* image, const Taps& taps, int64_t od, int64_t oh, int64_t ow,
                       const Visit& visit) {
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
inline void ForEachPosition(const PoolArgs& args, const T* x, T* y, int64_t begin, int64_t end, const Body& body) {
  const int64_t image_size = args.d.in * args.h.in * args.w.in * args.channels;
  for (int64_t task = begin; task < end; ++task) {
    const int64_t row = task / args.groups(), group = task % args.groups();
    const int64_t oh = row % args.h.out, od = row / args.h.out % args.d.out, n = row / args.h.out / args.d.out;
    const int64_t c0 = group * kPoolGroup, c1 = c0 + kPoolGroup < args.channels ? c0 + kPoolGroup : args.channels;
    const int64_t padded_rows = args.d.PaddedTaps(od) * args.h.PaddedTaps(oh);
    Taps taps{args.d.TapBegin(od), args.d.TapEnd(od), args.h.TapBegin(oh), args.h.TapEnd(oh), 0, 0};
    for (int64_t ow = 0; ow < args.w.out; ++ow) {
      taps.w0 = args.w.TapBegin(ow);
      taps.w1 = args.w.TapEnd(ow);
      const int64_t taken = args.include_pad ? padded_rows * args.w.PaddedTaps(ow) : taps.inside();
      const int64_t count = taken > 0 ? taken : 1;
      const auto each_tap = [&](const auto& visit) { ForEachTap(args, x + n * image_size, taps, od, oh, ow, visit); };
      body(each_tap, taps.inside(), count, c0, c1, y + (row * args.w.out + ow) * args.channels);
    }
  }
}

// Calls chunk.template operator()<kN>(c) for pieces of 64, 16 and 1 channels.
template <typename Chunk>
inline void ForChunks(int64_t c, int64_t end, const Chunk& chunk) {
  for (; c + 64 <= end; c += 64) chunk.template operator()<64>(c);
  for (; c + 16 <= end; c += 16) chunk.template operator()<16>(c);
  for (; c < end; ++c) chunk.template operator()<1>(c);
}

template <typename T>
void MaxTasks(const PoolArgs& args, const void* x, void* y, int64_t begin, int64_t end) {
  constexpr T kLowest = static_cast<T>(sizeof(T) == 4 ? -__builtin_inff() : T(-1) < T(0) ? -128 : 0);
  const bool global = args.global;
  ForEachPosition(args, static_cast<const T*>(x), static_cast<T*>(y), begin, end,
                  [global](const auto& each_tap, int64_t, int64_t, int64_t c0, int64_t c1, T* out) {
                    ForChunks(c0, c1, [&]<int kN>(int64_t c) {
                      Vec<T, kN> m = Vec<T, kN>{} + kLowest;
                      each_tap([&](const T* p) {
                        const Vec<T, kN> v = LoadVec<T, kN>(p + c);
                        m = v > m ? v : m;
                      });
                      // Global pooling is MaxF of kernels/math/math.h: a zero is positive.
                      if (sizeof(T) == 4 && global) m = m + T(0);
                      StoreVec<T, kN>(out + c, m);
                    });
                  });
}

void AverageFloatTasks(const PoolArgs& args, const void* x, void* y, int64_t begin, int64_t end) {
  ForEachPosition(args, static_cast<const float*>(x), static_cast<float*>(y), begin, end,
                  [](const auto& each_tap, int64_t, int64_t count, int64_t c0, int64_t c1, float* out) {
                    ForChunks(c0, c1, [&]<int kN>(int64_t c) {
                      Vec<float, kN> sum = {};
                      each_tap([&](const float* p) { sum = sum + LoadVec<float, kN>(p + c); });
                      StoreVec<float, kN>(out + c, sum / static_cast<float>(count));
                    });
                  });
}

// Sums 256 taps at a time in 16 bits (256 * 255 fits), then in 32.
void AverageByteTasks(const PoolArgs& args, const void* x, void* y, int64_t begin, int64_t end) {
  ForEachPosition(args, static_cast<const uint8_t*>(x), static_cast<uint8_t*>(y), begin, end,
                  [&args](const auto& each_tap, int64_t inside, int64_t count, int64_t c0, int64_t c1, uint8_t* out) {
                    const float multiplier =
                        static_cast<float>(args.scale_x / (args.scale_y * static_cast<double>(count)));
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
                      const Vec<int32_t, kN> q = ToIntegers<kN>(args.bounds, Convert<float, kN>(sum) * multiplier);
                      StoreVec<uint8_t, kN>(out + c, Convert<uint8_t, kN>(q));
                    });
                  });
}

}  // namespace

extern const PoolTable kPoolTable = {MaxTasks<uint8_t>, MaxTasks<int8_t>, MaxTasks<float>, AverageByteTasks, AverageFloatTasks};

}  // namespace evoq::EVOQ_ISA
