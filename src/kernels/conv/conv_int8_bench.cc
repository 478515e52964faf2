// Integer convolutions and matrix products. Counters: GOPS (2 operations per multiply-accumulate,
// the shape's own, without padding) of all runs together, `best` of the fastest run alone (what
// counts on a busy machine), and `peak`, the share of best in what a register tile on the L1 cache
// reaches on this machine with as many threads.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>

#include "base/aligned.h"
#include "base/check.h"
#include "kernels/gemm/int8_linear.h"
#include "kernels/gemm/int8_peak_bench.h"
#include "kernels/gemm/int8_problem.h"

namespace evoq::int8_test {
namespace {

// `cold`: the weights of each run come from memory, as in a network larger than the caches.
void Run(benchmark::State& state, const Case& c, int threads, bool cold, const char* variant) {
  Problem p = Build(c);
  const KernelDef* kernel = FindKernel(c.conv() ? (c.integer() ? "conv_integer" : "conv_int8")
                                                : (c.integer() ? "matmul_integer" : "matmul_int8"));
  const Tensor packed = *kernel->pack(p.call(), 1);
  std::vector<Tensor> weights;
  std::vector<BoundKernel> kernels;
  const size_t copies = cold ? (128 << 20) / packed.bytes() + 1 : 1;
  for (size_t i = 0; i < copies; ++i) {
    weights.push_back(packed.defined() ? packed.Clone() : p.data[1]);
    p.constants[1] = &weights.back();
    auto bound = kernel->bind(p.call(), BindOptions{*SelectIsa(), threads, variant});
    EVOQ_CHECK(bound.has_value(), "{}: {}", c.ToString(), bound.error().message());
    kernels.push_back(*std::move(bound));
  }
  ThreadPool pool(threads);
  AlignedBuffer scratch(kernels[0].scratch_bytes);
  Tensor y = Tensor::Allocate(p.outputs[0]);
  std::vector<const void*> in;
  for (const Tensor& t : p.data) in.push_back(t.raw());
  void* out[] = {y.mutable_raw()};
  double best_seconds = 1e9;
  size_t next = 0;
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    const BoundKernel& bound = kernels[next++ % copies];
    bound.run(bound.state.get(), in.data(), out, RunContext{pool, scratch.data()});
    best_seconds =
        std::min(best_seconds,
                 std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }

  const int64_t columns = y.sizes().back();
  const double macs = static_cast<double>(y.elements()) *
                      static_cast<double>(p.data[1].elements()) / static_cast<double>(columns);
  const double giga_ops = 2e-9 * macs;
  state.counters["GOPS"] = benchmark::Counter(giga_ops * static_cast<double>(state.iterations()),
                                              benchmark::Counter::kIsRate);
  state.counters["best"] = giga_ops / best_seconds;
  state.counters["best_us"] = 1e6 * best_seconds;
  state.counters["peak"] = giga_ops / best_seconds / Int8PeakGops(threads);
  state.SetLabel(kernels[0].plan.ToString());
}

// NAME: KxK, input channels -> output channels, input size, stride.
struct ConvShape {
  int64_t kernel, in, out, size, stride, group;
};

Case MakeConv(const ConvShape& s, bool residual) {
  Case c;
  c.x = {1, s.size, s.size, s.in};
  c.w = {s.out, s.in / s.group, s.kernel, s.kernel};
  c.group = s.group;
  c.strides = {s.stride, s.stride};
  const int64_t pad = s.kernel / 2;
  c.pads = {pad, pad, pad, pad};
  c.y_zero = 0;
  c.activation = {ActivationKind::kRelu};
  if (residual) c.residual = DType::kUint8;
  return c;
}

Case MakeProduct(int64_t m, int64_t k, int64_t n, bool integer) {
  Case c;
  c.op = integer ? "MatMulInteger" : "MatMul";
  c.x = {m, k};
  c.w = {k, n};
  return c;
}

void Register(const std::string& name, const Case& c, bool cold = false, const char* variant = "") {
  for (int threads : {1, 2}) {
    benchmark::RegisterBenchmark(
        fmt::format("{}/t{}", name, threads).c_str(),
        [=](benchmark::State& state) { Run(state, c, threads, cold, variant); })
        ->UseRealTime()
        ->Unit(benchmark::kMicrosecond);
  }
}

const bool kRegistered = [] {
  const ConvShape resnet50[] = {
      {7, 3, 64, 224, 2, 1},    {1, 64, 64, 56, 1, 1},    {3, 64, 64, 56, 1, 1},
      {1, 64, 256, 56, 1, 1},   {1, 256, 64, 56, 1, 1},   {1, 256, 128, 56, 1, 1},
      {3, 128, 128, 56, 2, 1},  {1, 128, 512, 28, 1, 1},  {1, 256, 512, 56, 2, 1},
      {1, 512, 128, 28, 1, 1},  {3, 128, 128, 28, 1, 1},  {1, 512, 256, 28, 1, 1},
      {3, 256, 256, 28, 2, 1},  {1, 256, 1024, 14, 1, 1}, {1, 512, 1024, 28, 2, 1},
      {1, 1024, 256, 14, 1, 1}, {3, 256, 256, 14, 1, 1},  {1, 1024, 512, 14, 1, 1},
      {3, 512, 512, 14, 2, 1},  {1, 512, 2048, 7, 1, 1},  {1, 1024, 2048, 14, 2, 1},
      {1, 2048, 512, 7, 1, 1},  {3, 512, 512, 7, 1, 1}};
  const ConvShape mobilenetv2[] = {
      {3, 3, 32, 224, 2, 1},  {1, 32, 16, 112, 1, 1}, {1, 16, 96, 112, 1, 1},
      {1, 96, 24, 56, 1, 1},  {1, 24, 144, 56, 1, 1}, {1, 144, 24, 56, 1, 1},
      {1, 144, 32, 28, 1, 1}, {1, 32, 192, 28, 1, 1}, {1, 192, 32, 28, 1, 1},
      {1, 192, 64, 14, 1, 1}, {1, 64, 384, 14, 1, 1}, {1, 384, 64, 14, 1, 1},
      {1, 384, 96, 14, 1, 1}, {1, 96, 576, 14, 1, 1}, {1, 576, 96, 14, 1, 1},
      {1, 576, 160, 7, 1, 1}, {1, 160, 960, 7, 1, 1}, {1, 960, 160, 7, 1, 1},
      {1, 960, 320, 7, 1, 1}, {1, 320, 1280, 7, 1, 1}};
  const ConvShape others[] = {{1, 256, 256, 14, 1, 1},  {3, 128, 128, 56, 1, 32},
                              {3, 256, 256, 28, 1, 32}, {3, 16, 16, 112, 1, 1},
                              {3, 8, 8, 112, 1, 1},     {3, 3, 16, 224, 1, 1}};
  const auto conv = [](const char* net, const ConvShape& s, bool residual) {
    Register(fmt::format("{}/{}x{}_c{}_m{}_{}_s{}{}{}", net, s.kernel, s.kernel, s.in, s.out,
                         s.size, s.stride, s.group > 1 ? fmt::format("_g{}", s.group) : "",
                         residual ? "_residual" : ""),
             MakeConv(s, residual));
  };
  for (const ConvShape& s : resnet50) conv("resnet50", s, false);
  conv("resnet50", {1, 64, 256, 56, 1, 1}, true);
  conv("resnet50", {1, 256, 1024, 14, 1, 1}, true);
  for (const ConvShape& s : mobilenetv2) conv("mobilenetv2", s, false);
  for (const ConvShape& s : others) conv("other", s, false);
  // Few output channels, also by a product for each tap. The last one is a vocoder's, of one axis.
  Case line = MakeConv({7, 32, 1, 40000, 1, 1}, false);
  line.x = {1, 40000, 32}, line.w = {1, 32, 7}, line.strides = {1}, line.pads = {3, 3};
  const std::pair<const char*, Case> last[] = {
      {"last/3x3_c64_m1_224", MakeConv({3, 64, 1, 224, 1, 1}, false)},
      {"last/3x3_c32_m3_256", MakeConv({3, 32, 3, 256, 1, 1}, false)},
      {"last/7_c32_m1_40000", line}};
  for (const auto& [name, c] : last) {
    Register(name, c);
    Register(fmt::format("{}/direct", name), c, false, "direct");
  }
  Register("cold/3x3_c512_m512_7_s1", MakeConv({3, 512, 512, 7, 1, 1}, false), true);
  Register("cold/1x1_c512_m2048_7_s1", MakeConv({1, 512, 2048, 7, 1, 1}, false), true);
  Register("cold/128x768x3072", MakeProduct(128, 768, 3072, false), true);
  Register("cold/128x3072x768", MakeProduct(128, 3072, 768, false), true);
  const ConvShape integers[] = {
      {3, 64, 64, 80, 1, 1}, {3, 96, 96, 112, 2, 96}, {3, 384, 384, 14, 1, 384}};
  for (const ConvShape& s : integers) {
    Case c = MakeConv(s, false);
    c.op = "ConvInteger";
    c.runtime_zero = true;
    Register(fmt::format("conv_integer/{}x{}_c{}_{}_s{}_g{}", s.kernel, s.kernel, s.in, s.size,
                         s.stride, s.group),
             c);
  }
  const int64_t products[][3] = {{1024, 1024, 1024}, {1, 4096, 4096},    {8, 4096, 4096},
                                 {4, 4096, 11008},   {8, 4096, 11008},   {128, 768, 768},
                                 {128, 768, 3072},   {128, 3072, 768},   {128, 4096, 4096},
                                 {3136, 576, 64},    {4096, 4096, 4096}, {1, 2048, 1000}};
  for (const auto& [m, k, n] : products) {
    Register(fmt::format("matmul/{}x{}x{}", m, k, n), MakeProduct(m, k, n, false));
    Register(fmt::format("matmul_integer/{}x{}x{}", m, k, n), MakeProduct(m, k, n, true));
  }
  return true;
}();

}  // namespace
}  // namespace evoq::int8_test
