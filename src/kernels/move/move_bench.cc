#include "kernels/bench_util.h"

namespace evoq {
extern const KernelDef kTransposeKernel, kConcatKernel;
namespace {

void Transpose(benchmark::State& state, DType dtype, std::vector<int64_t> sizes, std::vector<int64_t> perm) {
  TestCall t;
  t.op = "Transpose";
  t.attrs.Set("perm", perm);
  std::vector<int64_t> out;
  for (int64_t p : perm) out.push_back(sizes[p]);
  t.inputs = {RandomTensor(TensorType(dtype, Shape(sizes)), 3)};
  t.outputs = {TensorType(dtype, Shape(out))};
  RunBenchmark(state, kTransposeKernel, t);
}

void Concat(benchmark::State& state, float second_scale) {
  TestCall t;
  t.op = "Concat";
  t.attrs.Set("axis", 3);
  for (float scale : {0.05f, second_scale}) {
    t.inputs.push_back(RandomTensor(TensorType(DType::kUint8, Shape{1, 55, 55, 64}, QuantParams::PerTensor(scale, 0)), 1));
  }
  t.outputs = {TensorType(DType::kUint8, Shape{1, 55, 55, 128}, QuantParams::PerTensor(0.05f, 0))};
  RunBenchmark(state, kConcatKernel, t);
}

#define EVOQ_CASE(function, ...) BENCHMARK_CAPTURE(function, __VA_ARGS__)->Unit(benchmark::kMicrosecond)->UseRealTime()
const std::vector<int64_t> kToLast = {0, 2, 3, 1}, kToFirst = {0, 3, 1, 2};
EVOQ_CASE(Transpose, image_f32_to_last, DType::kFloat32, {1, 3, 224, 224}, kToLast);
EVOQ_CASE(Transpose, image_u8_to_last, DType::kUint8, {1, 3, 224, 224}, kToLast);
EVOQ_CASE(Transpose, c64_56_u8_to_last, DType::kUint8, {1, 64, 56, 56}, kToLast);
EVOQ_CASE(Transpose, c64_56_u8_to_first, DType::kUint8, {1, 56, 56, 64}, kToFirst);
EVOQ_CASE(Transpose, c64_56_f32_to_last, DType::kFloat32, {1, 64, 56, 56}, kToLast);
EVOQ_CASE(Transpose, c64_56_f32_to_first, DType::kFloat32, {1, 56, 56, 64}, kToFirst);
EVOQ_CASE(Transpose, c144_56_f32_to_last, DType::kFloat32, {1, 144, 56, 56}, kToLast);
EVOQ_CASE(Transpose, c144_56_f32_to_first, DType::kFloat32, {1, 56, 56, 144}, kToFirst);
EVOQ_CASE(Transpose, c21_129_f32_to_first, DType::kFloat32, {1, 129, 129, 21}, kToFirst);
EVOQ_CASE(Transpose, heads_12x128x64_f32, DType::kFloat32, {1, 128, 12, 64}, {0, 2, 1, 3});
EVOQ_CASE(Transpose, keys_12x128x64_f32, DType::kFloat32, {1, 128, 12, 64}, {0, 2, 3, 1});
EVOQ_CASE(Concat, same, 0.05f);
EVOQ_CASE(Concat, requantized, 0.03f);

}  // namespace
}  // namespace evoq
