// The walk of int8 depthwise rows for square kernels of 3, 5 or 7, on the vectors of an instruction
// set. Included by dwconv_ISA.cc.
//
// Some input rows of one column make the operands of dot products, vertical taps beside each other;
// a column is prepared once for all outputs whose windows hold it. Accumulator i belongs to the
// output that began i steps ago, where a step is the S columns by which the windows of neighbouring
// outputs differ.
#include "kernels/dwconv/dwconv.h"

namespace evoq::EVOQ_ISA {
namespace {

// One walk along a row: outputs first, first + dilation, ... of `pieces` rows.
struct RingWalk {
  const uint8_t* rows[4][7];  // [piece][ky]: column 0, the block's first channel
  int64_t y[4];  // [piece]: where column 0 of the output row, the block's first channel, lies in y
  int live;      // pieces that exist
  int64_t first;
  DwRingBlock block;
  int64_t index;  // of the block
};

// A machine M has constants kK, kS, kGroups (operands per column and kernel column), kAll (vectors
// of a block) and
//   Column<kFirst, kVectors>(rows, offset, x)   x[kVectors * group + j]: vectors kFirst + j of a
//   column's operands Outside()                                   an operand of a column outside x
//   Bias(j), Weights(tap, j)                    of vector j; tap = kx * kGroups + group
//   Dot(acc, x, w), More(acc, x, tap, j)        acc plus the dot product; plus that of weights in a
//   second part Store(walk, sums, offset, residual, y)      finishes the kAll vectors of an output
// This is outputs [begin, begin + count), vectors [kFirst, kFirst + kVectors): the first half
// leaves its sums to the second.
template <int kFirst, int kVectors, typename M>
void WalkColumns(const M& machine, const DwShape& shape, const RingWalk& walk, int64_t begin,
                 int64_t count, typename M::V (*sums)[M::kAll], const void* residual, void* y) {
  using V = typename M::V;
  constexpr int kGroups = M::kGroups, kSlots = (M::kK - 1) / M::kS + 1,
                kLastPhase = (M::kK - 1) % M::kS;
  const int64_t step_columns = shape.w.dilation, width = shape.w.in, channels = shape.channels;
  const auto rows = machine.Rows(walk);
  V taps[M::kK * kGroups][kVectors];  // those of small kernels stay in registers
  for (int i = 0; i < M::kK * kGroups; ++i) {
    for (int j = 0; j < kVectors; ++j) taps[i][j] = machine.Weights(i, kFirst + j);
  }
  V acc[kSlots][kVectors] = {};
  int64_t ix = walk.first + begin * M::kS * step_columns - shape.w.pad;
  for (int64_t step = 0; step < count + kSlots - 1; ++step) {
#pragma GCC unroll 2
    for (int phase = 0; phase < M::kS; ++phase, ix += step_columns) {
      V x[kGroups * kVectors];
      if (ix >= 0 && ix < width) {
        machine.template Column<kFirst, kVectors>(rows, ix * channels, x);
      } else {
        for (V& v : x) v = machine.Outside();
      }
#pragma GCC unroll 8
      for (int i = 0; i < kSlots; ++i) {
        const int kx = i * M::kS + phase;
        if (kx >= M::kK) continue;
#pragma GCC unroll 4
        for (int g = 0; g < kGroups; ++g) {
#pragma GCC unroll 4
          for (int j = 0; j < kVectors; ++j) {
            const int tap = kx * kGroups + g;
            acc[i][j] = M::Dot(tap == 0 ? machine.Bias(kFirst + j) : acc[i][j], x[g * kVectors + j],
                               taps[tap][j]);
            acc[i][j] = machine.More(acc[i][j], x[g * kVectors + j], tap, kFirst + j);
          }
        }
      }
      if (phase != kLastPhase || step < kSlots - 1) continue;
      const int64_t output = step - kSlots + 1;
      const V* done = acc[kSlots - 1];
      if (kFirst + kVectors < M::kAll) {
        for (int j = 0; j < kVectors; ++j) sums[output][kFirst + j] = done[j];
        continue;
      }
      V all[M::kAll];
#pragma GCC unroll 4
      for (int j = 0; j < M::kAll; ++j)
        all[j] = j < kFirst ? sums[output][j] : done[j < kFirst ? 0 : j - kFirst];
      machine.Store(walk, all, (walk.first + (begin + output) * step_columns) * channels, residual,
                    y);
    }
#pragma GCC unroll 8
    for (int i = kSlots - 1; i > 0; --i) {
      for (int j = 0; j < kVectors; ++j) acc[i][j] = acc[i - 1][j];
    }
  }
}

// Large kernels take their vectors in two halves, so that the accumulators stay in registers.
template <typename M>
void WalkRow(const DwInt8Args& args, const RingWalk& walk, const void* residual, void* y) {
  const DwShape& shape = args.shape;
  const M machine(args, walk);
  const int64_t count = (shape.w.out - walk.first + shape.w.dilation - 1) / shape.w.dilation;
  if constexpr ((M::kK - 1) / M::kS < 3) {
    WalkColumns<0, M::kAll>(machine, shape, walk, 0, count, nullptr, residual, y);
  } else {
    constexpr int64_t kOutputs = 32;
    typename M::V sums[kOutputs][M::kAll];
    for (int64_t begin = 0; begin < count; begin += kOutputs) {
      const int64_t n = count - begin < kOutputs ? count - begin : kOutputs;
      WalkColumns<0, M::kAll / 2>(machine, shape, walk, begin, n, sums, residual, y);
      WalkColumns<M::kAll / 2, M::kAll - M::kAll / 2>(machine, shape, walk, begin, n, sums,
                                                      residual, y);
    }
  }
}

using RingFn = void (*)(const DwInt8Args&, const RingWalk&, const void*, void*);

// Output rows [begin, end) of batch * OH, of one block.
void RingRows(const DwInt8Args& args, RingFn run, int64_t index, const uint8_t* x,
              const void* residual, void* y, int64_t begin, int64_t end) {
  const DwShape& shape = args.shape;
  RingWalk walk;
  walk.index = index;
  walk.block = args.block(index);
  const int64_t in_row = shape.w.in * shape.channels, c = walk.block.channel;
  for (int64_t group = begin; group < end; group += walk.block.pieces) {
    walk.live = static_cast<int>(end - group < walk.block.pieces ? end - group : walk.block.pieces);
    for (int piece = 0; piece < walk.block.pieces; ++piece) {
      const int64_t row = group + (piece < walk.live ? piece : 0);
      const int64_t top = row % shape.h.out * shape.h.stride - shape.h.pad;
      const uint8_t* image = x + row / shape.h.out * shape.h.in * in_row;
      for (int64_t ky = 0; ky < shape.h.kernel; ++ky) {
        const int64_t iy = top + ky * shape.h.dilation;
        walk.rows[piece][ky] =
            (iy >= 0 && iy < shape.h.in ? image + iy * in_row : args.padding_row) + c;
      }
      walk.y[piece] = row * shape.w.out * shape.channels + c;
    }
    for (walk.first = 0; walk.first < shape.w.dilation && walk.first < shape.w.out; ++walk.first)
      run(args, walk, residual, y);
  }
}

}  // namespace
}  // namespace evoq::EVOQ_ISA
