#include "kernels/bench_util.h"

namespace evoq {
namespace {

TensorType TypeOf(bool bytes, Shape shape) {
  return bytes ? TensorType(DType::kUint8, std::move(shape), QuantParams::PerTensor(0.05f, 100))
               : TensorType(DType::kFloat32, std::move(shape));
}

void Binary(benchmark::State& state, const char* op, const char* name, bool bytes, Shape a,
            Shape b) {
  TestCall t;
  t.op = op;
  t.inputs = {RandomTensor(TypeOf(bytes, a), 1), RandomTensor(TypeOf(bytes, b), 2)};
  t.outputs = {TypeOf(bytes, a)};
  RunBenchmark(state, *FindKernel(name), t);
}

void Unary(benchmark::State& state, const char* op, const char* name, bool bytes) {
  TestCall t;
  t.op = op;
  t.inputs = {RandomTensor(TypeOf(bytes, Shape{100000}), 1)};
  t.outputs = {t.inputs[0].type()};
  RunBenchmark(state, *FindKernel(name), t);
}

#define EVOQ_CASE(function, ...) \
  BENCHMARK_CAPTURE(function, __VA_ARGS__)->Unit(benchmark::kMicrosecond)->UseRealTime()
EVOQ_CASE(Binary, add_u8_256x56x56, "Add", "add_u8", true, Shape{1, 56, 56, 256},
          Shape{1, 56, 56, 256});
EVOQ_CASE(Binary, add_f32_256x56x56, "Add", "add_f32", false, Shape{1, 56, 56, 256},
          Shape{1, 56, 56, 256});
EVOQ_CASE(Binary, add_u8_64x14x14, "Add", "add_u8", true, Shape{1, 14, 14, 64},
          Shape{1, 14, 14, 64});
EVOQ_CASE(Binary, mul_u8_se_240x14x14, "Mul", "mul_u8", true, Shape{1, 14, 14, 240},
          Shape{1, 1, 1, 240});
EVOQ_CASE(Unary, sigmoid_u8_100k, "Sigmoid", "Sigmoid_u8", true);
EVOQ_CASE(Unary, sigmoid_f32_100k, "Sigmoid", "Sigmoid_f32", false);
EVOQ_CASE(Unary, silu_f32_100k, "Silu", "Silu_f32", false);
EVOQ_CASE(Unary, gelu_f32_100k, "Gelu", "Gelu_f32", false);
EVOQ_CASE(Unary, tanh_f32_100k, "Tanh", "Tanh_f32", false);
EVOQ_CASE(Unary, exp_f32_100k, "Exp", "Exp_f32", false);

}  // namespace
}  // namespace evoq
