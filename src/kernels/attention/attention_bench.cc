// Attention of a prompt and of single tokens behind a cache, causal where the name says so;
// `cached`: the prompt's keys are in a cache. `GOP/s` counts the products with keys that queries
// see; a decoded token reads all of the cache.
#include "kernels/attention/attention_inputs.h"
#include "kernels/bench_util.h"
#include "tensor/half.h"

namespace evoq {
extern const KernelDef kAttentionFloat, kAttentionInt8;
namespace {

struct Heads {
  int64_t queries, heads, cached_heads, size, keys;
};

Tensor RandomCache(DType dtype, const Shape& shape, uint32_t seed) {
  if (dtype == DType::kInt8) {
    Tensor bytes = Tensor::Allocate(TensorType(dtype, shape));
    for (int64_t i = 0; i < bytes.elements(); ++i)
      bytes.mutable_data<int8_t>()[i] =
          static_cast<int8_t>((seed = seed * 1664525 + 1013904223) >> 24);
    return bytes;
  }
  Tensor floats = RandomTensor(TensorType(DType::kFloat32, shape), seed);
  if (dtype == DType::kFloat32) return floats;
  Tensor halves = Tensor::Allocate(TensorType(dtype, shape));
  auto* const to = reinterpret_cast<uint16_t*>(halves.mutable_raw());
  for (int64_t i = 0; i < floats.elements(); ++i) to[i] = FloatToHalf(floats.data<float>()[i]);
  return halves;
}

void Attention(benchmark::State& state, const Heads& h, bool causal, DType cache,
               bool cached = false) {
  TestCall t;
  t.op = "Attention";
  t.attrs.Set("is_causal", int64_t{causal});
  const Shape keys{1, h.cached_heads, h.keys, h.size};
  t.inputs = {RandomTensor(TensorType(DType::kFloat32, Shape{1, h.heads, h.queries, h.size}), 1),
              RandomCache(cache, keys, 2), RandomCache(cache, keys, 3)};
  if (cached) {
    t.inputs.resize(kLengths);
    t.inputs.push_back(Tensor::Allocate(TensorType(DType::kInt64, Shape{1})));
    t.inputs.back().mutable_data<int64_t>()[0] = h.keys;
  }
  if (cache == DType::kInt8) {
    t.inputs.resize(kKeyScale);
    for (int i = 0; i < 2; ++i)
      t.inputs.push_back(
          RandomCache(DType::kFloat16, {1, h.cached_heads, h.keys, h.size / kCacheBlock}, 4));
  }
  t.outputs = {t.inputs[0].type()};
  // Query i sees keys up to i where as many keys as queries are new.
  const double seen = causal ? static_cast<double>(h.queries * (h.queries + 1) / 2)
                             : static_cast<double>(h.queries * h.keys);
  RunBenchmark(state, cache == DType::kInt8 ? kAttentionInt8 : kAttentionFloat, t,
               4 * seen * static_cast<double>(h.heads * h.size));
}

constexpr DType kFloat = DType::kFloat32, kHalf = DType::kFloat16, kBytes = DType::kInt8;
constexpr Heads kQwenPrompt = {512, 14, 2, 64, 512}, kLlamaPrompt = {512, 32, 8, 128, 512},
                kBert = {128, 12, 12, 64, 128}, kQwenToken = {1, 14, 2, 64, 4096},
                kLlamaToken = {1, 32, 8, 128, 4096}, kGpt2Token = {1, 12, 12, 64, 1024};
BENCHMARK_CAPTURE(Attention, causal_512x14x64_kv2, kQwenPrompt, true, kFloat)->UseRealTime();
BENCHMARK_CAPTURE(Attention, causal_512x32x128_kv8, kLlamaPrompt, true, kFloat)->UseRealTime();
BENCHMARK_CAPTURE(Attention, cached_512x14x64_kv2, kQwenPrompt, true, kFloat, true)->UseRealTime();
BENCHMARK_CAPTURE(Attention, cached_512x14x64_kv2_f16, kQwenPrompt, true, kHalf, true)
    ->UseRealTime();
BENCHMARK_CAPTURE(Attention, cached_512x14x64_kv2_int8, kQwenPrompt, true, kBytes, true)
    ->UseRealTime();
BENCHMARK_CAPTURE(Attention, cached_512x32x128_kv8_int8, kLlamaPrompt, true, kBytes, true)
    ->UseRealTime();
BENCHMARK_CAPTURE(Attention, cached_512x32x128_kv8, kLlamaPrompt, true, kFloat, true)
    ->UseRealTime();
BENCHMARK_CAPTURE(Attention, 128x12x64, kBert, false, kFloat)->UseRealTime();
BENCHMARK_CAPTURE(Attention, token_14x64_kv2_4096, kQwenToken, false, kFloat)->UseRealTime();
BENCHMARK_CAPTURE(Attention, token_14x64_kv2_4096_f16, kQwenToken, false, kHalf)->UseRealTime();
BENCHMARK_CAPTURE(Attention, token_14x64_kv2_4096_int8, kQwenToken, false, kBytes)->UseRealTime();
BENCHMARK_CAPTURE(Attention, token_32x128_kv8_4096_int8, kLlamaToken, false, kBytes)->UseRealTime();
BENCHMARK_CAPTURE(Attention, token_32x128_kv8_4096, kLlamaToken, false, kFloat)->UseRealTime();
BENCHMARK_CAPTURE(Attention, token_32x128_kv8_4096_f16, kLlamaToken, false, kHalf)->UseRealTime();

BENCHMARK_CAPTURE(Attention, token_12x64_kv12_1024, kGpt2Token, false, kFloat)->UseRealTime();
BENCHMARK_CAPTURE(Attention, token_12x64_kv12_1024_f16, kGpt2Token, false, kHalf)->UseRealTime();
BENCHMARK_CAPTURE(Attention, token_12x64_kv12_1024_int8, kGpt2Token, false, kBytes)->UseRealTime();

}  // namespace
}  // namespace evoq
