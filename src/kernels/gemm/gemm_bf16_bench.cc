// The bfloat16 linear kernels. Counters: GFLOPS, and `peak`, the share of what a register loop of
// the micro-kernel reaches on operands in the L1 cache, in the same process with as many threads.
#include "kernels/bench_util.h"
#include "kernels/gemm/gemm_bf16.h"
#include "kernels/gemm/peak_bench.h"

namespace evoq {
namespace {

double PeakGflops(const GemmKernels& kernels, int threads) {
  return TilePeakGflops(kernels, 4, threads, [](PeakOperands& o) {
    GemmTile tile = {};
    tile.rows = o.rows, tile.taps = o.taps.data(), tile.tap_count = PeakOperands::kTaps,
    tile.depth = PeakOperands::kDepth;
    tile.b = tile.ahead = o.b, tile.panel_stride = PeakOperands::kDepth * kPanelF32;
    tile.sums = o.sums, tile.sums_step = PeakOperands::kRowStep, tile.row_offset = o.row_offset;
    return tile;
  });
}

void Run(benchmark::State& state, const char* kernel, const TestCall& call, double macs) {
  RunBenchmark(state, *FindKernel(kernel), call, 2 * macs);
  static const double peak = PeakGflops(*RowFor(kGemmRowsBf16, *SelectIsa()).table, BenchThreads());
  state.counters["peak"] = benchmark::Counter(
      2e-9 * macs * static_cast<double>(state.iterations()) / peak, benchmark::Counter::kIsRate);
}

// Finite values of ordinary size.
Tensor Bf16(const Shape& shape) {
  Tensor t = Tensor::Allocate(TensorType(DType::kBfloat16, shape));
  std::mt19937 random(1);
  for (int64_t i = 0; i < t.elements(); ++i)
    t.mutable_data<uint16_t>()[i] =
        FloatToBfloat16(static_cast<float>(static_cast<int32_t>(random())) * 0x1p-31f);
  return t;
}

void MatMul(benchmark::State& state, int64_t batch, int64_t m, int64_t k, int64_t n,
            bool constant) {
  TestCall call;
  call.op = "MatMul";
  call.inputs = {Bf16(Shape{batch, m, k}), Bf16(constant ? Shape{k, n} : Shape{batch, k, n})};
  call.is_constant = {false, constant};
  call.outputs = {TensorType(DType::kBfloat16, Shape{batch, m, n})};
  Run(state, "matmul_bf16", call, 1.0 * batch * m * k * n);
}

struct Image {
  const char* name;
  int64_t size, channels_in, channels_out, kernel, stride;
};

constexpr Image kImages[] = {
    {"resnet50/stem7x7s2", 224, 3, 64, 7, 2},
    {"resnet50/1x1_c64_256_56", 56, 64, 256, 1, 1},
    {"resnet50/1x1_c256_64_56", 56, 256, 64, 1, 1},
    {"resnet50/3x3_c64_56", 56, 64, 64, 3, 1},
    {"resnet50/3x3_c128_28", 28, 128, 128, 3, 1},
    {"resnet50/1x1_c128_512_28", 28, 128, 512, 1, 1},
    {"resnet50/1x1s2_c256_512_56", 56, 256, 512, 1, 2},
    {"resnet50/3x3_c256_14", 14, 256, 256, 3, 1},
    {"resnet50/1x1_c256_1024_14", 14, 256, 1024, 1, 1},
    {"resnet50/1x1_c1024_256_14", 14, 1024, 256, 1, 1},
    {"resnet50/3x3_c512_7", 7, 512, 512, 3, 1},
    {"resnet50/1x1_c512_2048_7", 7, 512, 2048, 1, 1},
    {"resnet50/1x1_c2048_512_7", 7, 2048, 512, 1, 1},
    {"mobilenetv2/stem3x3s2", 224, 3, 32, 3, 2},
    {"mobilenetv2/1x1_c16_96_112", 112, 16, 96, 1, 1},
    {"mobilenetv2/1x1_c384_64_14", 14, 384, 64, 1, 1},
    {"mobilenetv2/1x1_c160_960_7", 7, 160, 960, 1, 1},
};

void Conv(benchmark::State& state, const Image& s) {
  const int64_t pad = s.kernel / 2, out = (s.size + 2 * pad - s.kernel) / s.stride + 1;
  TestCall call;
  call.op = "Conv";
  call.attrs.Set("channels_last", 1);
  call.attrs.Set("strides", std::vector<int64_t>{s.stride, s.stride});
  call.attrs.Set("pads", std::vector<int64_t>{pad, pad, pad, pad});
  call.attrs.Set("activation", "Relu");
  call.inputs = {Bf16(Shape{1, s.size, s.size, s.channels_in}),
                 Bf16(Shape{s.channels_out, s.channels_in, s.kernel, s.kernel}),
                 RandomTensor(TensorType(DType::kFloat32, Shape{s.channels_out}), 1)};
  call.is_constant = {false, true, true};
  call.outputs = {TensorType(DType::kBfloat16, Shape{1, out, out, s.channels_out})};
  Run(state, "conv_bf16", call,
      1.0 * out * out * s.channels_out * s.channels_in * s.kernel * s.kernel);
}

const int kRegistered = [] {
  static constexpr struct {
    int64_t batch, m, k, n;
    bool constant;
  } kSizes[] = {{1, 1024, 1024, 1024, true}, {1, 3136, 576, 64, true},  {1, 128, 768, 768, true},
                {1, 128, 768, 3072, true},   {1, 128, 3072, 768, true}, {1, 128, 4096, 4096, true},
                {1, 2048, 2048, 2048, true}, {1, 1, 4096, 4096, true},  {1, 8, 4096, 4096, true},
                {12, 128, 64, 128, false},   {12, 128, 128, 64, false}};
  for (const auto& s : kSizes) {
    const auto name = fmt::format("matmul_bf16/{}x{}x{}x{}{}", s.batch, s.m, s.k, s.n,
                                  s.constant ? "" : "_computed_b");
    benchmark::RegisterBenchmark(name.c_str(), [&s](benchmark::State& state) {
      MatMul(state, s.batch, s.m, s.k, s.n, s.constant);
    })->UseRealTime();
  }
  for (const Image& s : kImages) {
    benchmark::RegisterBenchmark(fmt::format("conv_bf16/{}", s.name).c_str(),
                                 [&s](benchmark::State& state) { Conv(state, s); })
        ->UseRealTime();
  }
  return 0;
}();

}  // namespace
}  // namespace evoq
