#include "kernels/bench_util.h"

namespace evoq {
extern const KernelDef kQuantizeKernel, kDequantizeKernel, kDynamicQuantizeKernel;
namespace {

void Convert(benchmark::State& state, const KernelDef& kernel, TensorType x, TensorType y) {
  TestCall t;
  t.op = kernel.op;
  x.shape = y.shape = Shape{state.range(0)};
  t.inputs = {RandomTensor(x, 1)};
  t.outputs = {y};
  if (&kernel == &kDynamicQuantizeKernel) {
    t.outputs.push_back(TensorType(DType::kFloat32, Shape{}));
    t.outputs.push_back(TensorType(DType::kUint8, Shape{}));
  }
  RunBenchmark(state, kernel, t);
}

const TensorType kFloat(DType::kFloat32, Shape{}), kPlainByte(DType::kUint8, Shape{}),
    kByte(DType::kUint8, Shape{}, QuantParams::PerTensor(0.02f, 128)),
    kOther(DType::kUint8, Shape{}, QuantParams::PerTensor(0.03f, 7));
BENCHMARK_CAPTURE(Convert, quantize, kQuantizeKernel, kFloat, kByte)
    ->Arg(150528)
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(Convert, requantize, kQuantizeKernel, kOther, kByte)
    ->Arg(150528)
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(Convert, dequantize, kDequantizeKernel, kByte, kFloat)
    ->Arg(150528)
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(Convert, dynamic, kDynamicQuantizeKernel, kFloat, kPlainByte)
    ->Arg(98304)
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();

// A table of 256 bytes.
void LookUp(benchmark::State& state) {
  TestCall t;
  t.op = "Lookup";
  TensorType type = kByte;
  type.shape = Shape{state.range(0)};
  t.inputs = {RandomTensor(type, 1), RandomTensor(TensorType(DType::kUint8, Shape{256}), 2)};
  t.outputs = {type};
  RunBenchmark(state, *FindKernel("lookup_u8"), t);
}
BENCHMARK(LookUp)->Arg(64)->Arg(150528)->Unit(benchmark::kMicrosecond)->UseRealTime();

}  // namespace
}  // namespace evoq
