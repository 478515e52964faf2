#include "kernels/bench_util.h"

namespace evoq {
extern const KernelDef kTransposeKernel, kConcatKernel, kGatherKernel, kPadKernel;
namespace {

void Transpose(benchmark::State& state, DType dtype, std::vector<int64_t> sizes,
               std::vector<int64_t> perm) {
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
    t.inputs.push_back(RandomTensor(
        TensorType(DType::kUint8, Shape{1, 55, 55, 64}, QuantParams::PerTensor(scale, 0)), 1));
  }
  t.outputs = {TensorType(DType::kUint8, Shape{1, 55, 55, 128}, QuantParams::PerTensor(0.05f, 0))};
  RunBenchmark(state, kConcatKernel, t);
}

// Pixels of few channels, as the skips of a U-Net.
void ConcatPixels(benchmark::State& state, std::vector<int64_t> channels) {
  TestCall t;
  t.op = "Concat";
  t.attrs.Set("axis", 3);
  int64_t all = 0;
  for (int64_t c : channels) {
    t.inputs.push_back(RandomTensor(TensorType(DType::kFloat32, Shape{1, 64, 64, c}), 1));
    all += c;
  }
  t.outputs = {TensorType(DType::kFloat32, Shape{1, 64, 64, all})};
  RunBenchmark(state, kConcatKernel, t);
}

// A shuffle of channels.
void Gather(benchmark::State& state, DType dtype) {
  TestCall t;
  t.op = "Gather";
  t.attrs.Set("axis", 3);
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < 24; ++i) indices.push_back(2 * i);
  t.inputs = {RandomTensor(TensorType(dtype, Shape{1, 44, 44, 48}), 1),
              Tensor::FromValues<int64_t>(Shape{24}, indices)};
  t.is_constant = {false, true};
  t.outputs = {TensorType(dtype, Shape{1, 44, 44, 24})};
  RunBenchmark(state, kGatherKernel, t);
}

// Channels are added, as in a shortcut of a residual network.
void Pad(benchmark::State& state, DType dtype) {
  TestCall t;
  t.op = "Pad";
  t.inputs = {RandomTensor(TensorType(dtype, Shape{1, 16, 16, 16}), 1),
              Tensor::FromValues<int64_t>(Shape{8}, {0, 0, 0, 8, 0, 0, 0, 8})};
  t.is_constant = {false, true};
  t.outputs = {TensorType(dtype, Shape{1, 16, 16, 32})};
  RunBenchmark(state, kPadKernel, t);
}

#define EVOQ_CASE(function, ...) \
  BENCHMARK_CAPTURE(function, __VA_ARGS__)->Unit(benchmark::kMicrosecond)->UseRealTime()
const std::vector<int64_t> kToLast = {0, 2, 3, 1}, kToFirst = {0, 3, 1, 2};
EVOQ_CASE(Transpose, image_f32_to_last, DType::kFloat32, {1, 3, 224, 224}, kToLast);
EVOQ_CASE(Transpose, image_u8_to_last, DType::kUint8, {1, 3, 224, 224}, kToLast);
EVOQ_CASE(Transpose, c64_56_u8_to_last, DType::kUint8, {1, 64, 56, 56}, kToLast);
EVOQ_CASE(Transpose, c64_56_u8_to_first, DType::kUint8, {1, 56, 56, 64}, kToFirst);
EVOQ_CASE(Transpose, c64_56_f32_to_last, DType::kFloat32, {1, 64, 56, 56}, kToLast);
EVOQ_CASE(Transpose, c64_56_f32_to_first, DType::kFloat32, {1, 56, 56, 64}, kToFirst);
EVOQ_CASE(Transpose, c64_56_bf16_to_last, DType::kBfloat16, {1, 64, 56, 56}, kToLast);
EVOQ_CASE(Transpose, c64_56_bf16_to_first, DType::kBfloat16, {1, 56, 56, 64}, kToFirst);
EVOQ_CASE(Transpose, c64_224_bf16_to_last, DType::kBfloat16, {1, 64, 224, 224}, kToLast);
EVOQ_CASE(Transpose, image_bf16_to_last, DType::kBfloat16, {1, 3, 224, 224}, kToLast);
EVOQ_CASE(Transpose, c144_56_f32_to_last, DType::kFloat32, {1, 144, 56, 56}, kToLast);
EVOQ_CASE(Transpose, c144_56_f32_to_first, DType::kFloat32, {1, 56, 56, 144}, kToFirst);
EVOQ_CASE(Transpose, c21_129_f32_to_first, DType::kFloat32, {1, 129, 129, 21}, kToFirst);
EVOQ_CASE(Transpose, c21_513_f32_to_first, DType::kFloat32, {1, 513, 513, 21}, kToFirst);
EVOQ_CASE(Transpose, heads_12x128x64_f32, DType::kFloat32, {1, 128, 12, 64}, {0, 2, 1, 3});
EVOQ_CASE(Transpose, keys_12x128x64_f32, DType::kFloat32, {1, 128, 12, 64}, {0, 2, 3, 1});
EVOQ_CASE(Concat, same, 0.05f);
EVOQ_CASE(Concat, requantized, 0.03f);
EVOQ_CASE(ConcatPixels, c8_8_f32, {8, 8});
EVOQ_CASE(ConcatPixels, c32_16_f32, {32, 16});
EVOQ_CASE(ConcatPixels, c64_64_f32, {64, 64});
EVOQ_CASE(Gather, shuffle_u8, DType::kUint8);
EVOQ_CASE(Gather, shuffle_f32, DType::kFloat32);
EVOQ_CASE(Pad, channels_u8, DType::kUint8);
EVOQ_CASE(Pad, channels_f32, DType::kFloat32);

}  // namespace
}  // namespace evoq
