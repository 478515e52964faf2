// int8 depthwise rows for kernels of any size, on the vectors of an instruction set. Included by
// dwconv_ISA.cc, behind dwconv_f32.inl.h.
//
// Products of bytes are added up as float32, which is exact below 2^24: DwInt8Args::exact_rows rows
// of the kernel at a time stay below that. So they take the way of float32 (LinePixels).
namespace evoq::EVOQ_ISA {
namespace {

// A machine M has a type V of kLanes sums, and
//   Integers(v), Add(a, b)              of a Vec of integers; the sums of both
//   Bias(c)                             of channels c to c + kLanes - 1
//   Store(sums, c, n, at, residual, y)  finishes the n channels of an output
template <typename M>
class ByteLine : LinePixels<uint8_t> {
 public:
  static constexpr int kOutputs = 7;
  static constexpr int kVectors = kDwBlock / kLanes;

  ByteLine(const M& machine, const DwInt8Args& args)
      : LinePixels<uint8_t>(args.shape, args.padding, kOutputs), machine_(machine), args_(args) {}

  bool fits() const { return args_.exact_rows > 0 && LinePixels<uint8_t>::fits(); }

  // Output rows [begin, end) of batch * OH.
  void Rows(const uint8_t* x, const void* residual, void* y, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const uint8_t* image = x + row / h_.out * h_.in * w_.in * channels_;
      for (int64_t k = 0; k < classes_ && k < w_.out; ++k) {
        for (int64_t ox = k; ox < w_.out; ox += kOutputs * classes_) {
          for (int64_t i = 0; i < h_.kernel; ++i) Point(image, i, row % h_.out, ox);
          const int64_t rest = (w_.out - 1 - ox) / classes_ + 1;
          const int count = static_cast<int>(rest < kOutputs ? rest : kOutputs);
          for (int64_t c = 0; c < channels_; c += kDwBlock)
            Tile(residual, y, (row * w_.out + ox) * channels_ + c, count, c);
        }
      }
    }
  }

 private:
  using V = typename M::V;

  // A block of channels of a tile's outputs, the first of which is at `at` of y.
  void Tile(const void* residual, void* y, int64_t at, int count, int64_t c) const {
    const int64_t left = channels_ - c < kDwBlock ? channels_ - c : kDwBlock;
    V sums[kOutputs][kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const int64_t n = left - v * kLanes;
      for (int t = 0; t < kOutputs; ++t) sums[t][v] = machine_.Bias(c + v * kLanes);
      if (n >= kLanes) {
        AddTaps<false>(sums, v, c + v * kLanes, kLanes);
      } else if (n > 0) {
        AddTaps<true>(sums, v, c + v * kLanes, static_cast<int>(n));
      }
    }
    for (int t = 0; t < count; ++t)
      machine_.Store(sums[t], c, left, at + t * classes_ * channels_, residual, y);
  }

  template <bool kTail>
  void AddTaps(V (&sums)[kOutputs][kVectors], int v, int64_t c, int n) const {
    const int64_t padded = args_.shape.blocks() * kDwBlock;
    for (int64_t first = 0; first < h_.kernel; first += args_.exact_rows) {
      Vec acc[kOutputs] = {};
      for (int64_t i = first; i < h_.kernel && i < first + args_.exact_rows; ++i)
        AddRow<kOutputs, kTail>(i, args_.float_taps + i * w_.kernel * padded + c, padded, c, n,
                                acc);
#pragma GCC unroll 8
      for (int t = 0; t < kOutputs; ++t) sums[t][v] = M::Add(sums[t][v], M::Integers(acc[t]));
    }
  }

  const M& machine_;
  const DwInt8Args& args_;
};

}  // namespace
}  // namespace evoq::EVOQ_ISA
