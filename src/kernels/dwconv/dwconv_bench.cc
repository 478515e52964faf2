#include "kernels/bench_util.h"

namespace evoq {
extern const KernelDef kDwConvInt8, kDwConvFloat;
namespace {

struct Sizes {
  int64_t kh, kw, c, h, w, stride, dilation;
};

// Depthwise over channels, "same" padding.
void Depthwise(benchmark::State& state, const KernelDef& kernel, bool int8, const Sizes& s) {
  const int64_t c = s.c, out_h = (s.h - 1) / s.stride + 1, out_w = (s.w - 1) / s.stride + 1;
  TestCall t;
  t.op = "Conv";
  t.attrs.Set("channels_last", 1);
  t.attrs.Set("group", AttrValue(c));
  t.attrs.Set("strides", std::vector<int64_t>{s.stride, s.stride});
  t.attrs.Set("dilations", std::vector<int64_t>{s.dilation, s.dilation});
  const int64_t up = s.kh / 2 * s.dilation, left = s.kw / 2 * s.dilation;
  t.attrs.Set("pads", std::vector<int64_t>{up, left, (s.kh - 1) * s.dilation - up,
                                           (s.kw - 1) * s.dilation - left});
  t.attrs.Set("activation", "Relu");
  const Shape x{1, s.h, s.w, c}, w{c, 1, s.kh, s.kw}, y{1, out_h, out_w, c};
  if (int8) {
    t.inputs = {RandomTensor(TensorType(DType::kUint8, x, QuantParams::PerTensor(0.02f, 3)), 1),
                RandomTensor(TensorType(DType::kInt8, w, QuantParams::PerTensor(0.02f, 0)), 2),
                RandomTensor(TensorType(DType::kInt32, Shape{c}), 3)};
    t.outputs = {TensorType(DType::kUint8, y, QuantParams::PerTensor(0.3f, 0))};
  } else {
    t.inputs = {RandomTensor(TensorType(DType::kFloat32, x), 1),
                RandomTensor(TensorType(DType::kFloat32, w), 2),
                RandomTensor(TensorType(DType::kFloat32, Shape{c}), 3)};
    t.outputs = {TensorType(DType::kFloat32, y)};
  }
  t.is_constant = {false, true, true};
  RunBenchmark(state, kernel, t, 2.0 * static_cast<double>(s.kh * s.kw * c * out_h * out_w));
}

// k x k over size x size.
void DwConv(benchmark::State& state, const KernelDef& kernel, bool int8) {
  Depthwise(state, kernel, int8,
            {state.range(0), state.range(0), state.range(1), state.range(2), state.range(2),
             state.range(3), state.range(4)});
}
// kh x kw over h x w.
void DwLines(benchmark::State& state, const KernelDef& kernel, bool int8) {
  Depthwise(state, kernel, int8,
            {state.range(0), state.range(1), state.range(2), state.range(3), state.range(4),
             state.range(5), state.range(6)});
}

void Shapes(benchmark::internal::Benchmark* b) {
  for (const auto& [k, c, size, stride] : std::vector<std::array<int64_t, 4>>{{3, 32, 112, 1},
                                                                              {3, 96, 112, 2},
                                                                              {3, 144, 56, 1},
                                                                              {3, 192, 28, 1},
                                                                              {3, 384, 14, 1},
                                                                              {3, 960, 7, 1},
                                                                              {3, 6, 224, 1},
                                                                              {5, 240, 28, 1},
                                                                              {5, 672, 14, 1},
                                                                              {7, 96, 56, 1}}) {
    b->Args({k, c, size, stride, 1});
  }
  b->Args({3, 960, 33, 1, 4});
  b->ArgNames({"k", "c", "size", "stride", "dilation"})
      ->Unit(benchmark::kMicrosecond)
      ->UseRealTime();
}

void Lines(benchmark::internal::Benchmark* b) {
  for (const auto& [kh, kw, c, h, w, stride, dilation] :
       std::vector<std::array<int64_t, 7>>{{1, 3, 128, 1, 200, 1, 1},
                                           {1, 9, 128, 1, 200, 1, 1},
                                           {1, 31, 144, 1, 200, 1, 1},
                                           {1, 3, 128, 1, 200, 1, 16},
                                           {1, 8, 96, 1, 400, 4, 1},
                                           {1, 7, 128, 14, 14, 1, 1},
                                           {7, 1, 128, 14, 14, 1, 1},
                                           {3, 1, 128, 14, 14, 1, 1},
                                           {2, 2, 128, 14, 14, 2, 1},
                                           {9, 9, 128, 14, 14, 1, 1},
                                           {31, 31, 64, 28, 28, 1, 1}}) {
    b->Args({kh, kw, c, h, w, stride, dilation});
  }
  b->ArgNames({"kh", "kw", "c", "h", "w", "stride", "dilation"})
      ->Unit(benchmark::kMicrosecond)
      ->UseRealTime();
}
BENCHMARK_CAPTURE(DwLines, int8, kDwConvInt8, true)->Apply(Lines);
BENCHMARK_CAPTURE(DwLines, f32, kDwConvFloat, false)->Apply(Lines);
BENCHMARK_CAPTURE(DwConv, int8, kDwConvInt8, true)->Apply(Shapes);
BENCHMARK_CAPTURE(DwConv, f32, kDwConvFloat, false)->Apply(Shapes);

}  // namespace
}  // namespace evoq
