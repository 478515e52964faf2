// What the kernels of transformers refuse, and calls of which they compute next to nothing. What
// they compute is compared with the definitions in src/models/transformer_test.cc.
#include <numeric>

#include "kernels/reject_testing.h"

namespace evoq {
extern const KernelDef kAttentionFloat;
namespace {

constexpr DType kHalf = DType::kFloat16;

TensorType I64(Shape shape) { return TensorType(kI64, std::move(shape)); }
TensorType Half(Shape shape) { return TensorType(kHalf, std::move(shape)); }

TEST(Attention, Rejects) {
  const Shape cache{2, 3, 9, 8}, past{2, 3, 4, 8};
  const Call flat =
      Call{"Attention", {}, {F({2, 5, 48}), F({2, 9, 24}), F({2, 9, 24})}, {F({2, 5, 48})}, {}}
          .Attr("q_num_heads", int64_t{6})
          .Attr("kv_num_heads", int64_t{3});
  Expect("attention_f32", flat,
         {{"shape: input 0 is float32[2, 5, 48]", With("q_num_heads", int64_t{7})},
          {"shape: input 1 is float32[2, 9, 24]", With("kv_num_heads", int64_t{5})},
          {"shape: output [2, 5, 40], expected [2, 5, 48]", Output(0, F({2, 5, 40}))}});
  Expect(
      "attention_f32",
      Call{"Attention", {}, {F({2, 6, 5, 8}), F(cache), F(cache)}, {F({2, 6, 5, 8})}, {}},
      {{"types: float16[2, 6, 5, 8] -> float32[2, 6, 5, 8], expected float32",
        Input(0, Half({2, 6, 5, 8}))},
       {"types: input 1 is int64[2, 3, 9, 8], expected float32 or float16", Input(1, I64(cache))},
       {"types: input 2 is uint8[2, 3, 9, 8](scale 0.5, zero 3), expected float32 or float16",
        Input(2, Q(cache))},
       {"shape: queries float32[2, 6, 5, 8], keys float32[2, 4, 9, 8], values float32[2, 3, 9, "
        "8]",
        Input(1, F({2, 4, 9, 8}))},
       {"types: input 3 is int64[5, 9], expected bool or float32",
        [](Call& c) { c.inputs.push_back(I64({5, 9})); }},
       {"shape: a mask of [4, 9] for scores of [2, 6, 5, 9]",
        [](Call& c) { c.inputs.push_back(F({4, 9})); }},
       {"shape: a mask of [5, 10] for scores of [2, 6, 5, 9]",
        [](Call& c) { c.inputs.push_back(F({5, 10})); }},
       {"types: input 4 is float16[2, 3, 4, 8], expected float32",
        [&](Call& c) {
          c.inputs.resize(6);
          c.inputs[4] = c.inputs[5] = Half(past);
        }},
       {"shape: input 4 is float32[2, 1, 4, 8] before float32[2, 3, 9, 8]",
        [&](Call& c) {
          c.inputs.resize(6);
          c.inputs[4] = F({2, 1, 4, 8}), c.inputs[5] = F(past);
        }},
       {"shape: 3 lengths for a batch of 2 with a past of 0",
        [](Call& c) {
          c.inputs.resize(7);
          c.inputs[6] = I64({3});
        }},
       {"types: input 6 is float32[2], expected int32 or int64",
        [](Call& c) {
          c.inputs.resize(7);
          c.inputs[6] = F({2});
        }},
       {"shape: sinks float32[5] of 6 heads",
        [](Call& c) {
          c.inputs.resize(10);
          c.inputs[9] = F({5});
        }},
       {"types: input 9 is float16[6], expected float32",
        [](Call& c) {
          c.inputs.resize(10);
          c.inputs[9] = Half({6});
        }},
       {"attribute: output 3 (scores) is read",
        [](Call& c) {
          c.outputs.resize(4);
          c.outputs[3] = F({2, 6, 5, 9});
        }},
       {"shape: output 1 is [2, 3, 8, 8], expected [2, 3, 9, 8]",
        [](Call& c) { c.outputs.push_back(F({2, 3, 8, 8})); }}});
}

TEST(Attention, RejectsScales) {
  const TensorType bytes(DType::kInt8, Shape{2, 3, 9, 40}), scales = Half({2, 3, 9, 2});
  const Call call{"Attention",
                  {},
                  {F({2, 6, 5, 40}), bytes, bytes, {}, {}, {}, {}, scales, scales},
                  {F({2, 6, 5, 40})},
                  {}};
  Expect("attention_f32", call,
         {{"types: input 1 is float16[2, 3, 9, 40], expected int8, for it has scales",
           Input(1, Half({2, 3, 9, 40}))},
          {"types: input 2 is int8[2, 3, 9, 40], expected float32 or float16",
           [](Call& c) { c.inputs.resize(8); }},
          {"types: input 8 is float32[2, 3, 9, 2], expected float16", Input(8, F({2, 3, 9, 2}))},
          {"shape: scales [2, 3, 9, 2] of [2, 3, 9, 40] in blocks of 16",
           With("cache_block_size", int64_t{16})},
          {"shape: scales [2, 3, 8, 2] of [2, 3, 9, 40] in blocks of 32",
           Input(7, Half({2, 3, 8, 2}))},
          {"shape: scales [2, 3, 9, 2] of [2, 3, 9, 40] in blocks of 0",
           With("cache_block_size", int64_t{0})}});
}

TEST(Attention, RejectsWhatAreNoIntegers) {
  const auto bytes = [](int64_t size) { return TensorType(DType::kInt8, Shape{2, 3, 9, size}); };
  const auto call = [&](int64_t size, int64_t block) {
    const TensorType scales = Half({2, 3, 9, (size + block - 1) / block});
    return Call{"Attention",
                {},
                {F({2, 6, 5, size}), bytes(size), bytes(size), {}, {}, {}, {}, scales, scales},
                {F({2, 6, 5, size})},
                {}}
        .Attr("cache_block_size", block);
  };
  const auto other = [](const Call& given) { return [given](Call& c) { c = given; }; };
  Call floats = call(64, 32);
  floats.inputs = {F({2, 6, 5, 64}), F({2, 3, 9, 64}), F({2, 3, 9, 64})};
#define EVOQ_NO_INTEGERS(rows)            \
  "types: keys " rows " and values " rows \
  ", expected int8 in rows and blocks of multiples of 16 and blocks of up to 512"
  Expect("attention_int8", call(64, 32),
         {{EVOQ_NO_INTEGERS("int8[2, 3, 9, 40]"), other(call(40, 32))},
          {EVOQ_NO_INTEGERS("int8[2, 3, 9, 64]"), other(call(64, 8))},
          {EVOQ_NO_INTEGERS("int8[2, 3, 9, 1024]"), other(call(1024, 1024))},
          {EVOQ_NO_INTEGERS("float32[2, 3, 9, 64]"), other(floats)}});
#undef EVOQ_NO_INTEGERS
}

TEST(DynamicQuantizeBlocks, Rejects) {
  const TensorType bytes(DType::kInt8, Shape{3, 40});
  Expect("quantize_blocks",
         Call{"DynamicQuantizeBlocks", {}, {F({3, 40})}, {bytes, Half({3, 2})}, {}}.Attr(
             "block_size", int64_t{32}),
         {{"types: input 0 is float16[3, 40], expected float32", Input(0, Half({3, 40}))},
          {"types: expected two outputs that are read, int8 and float16",
           [](Call& c) { c.outputs[1] = {}; }}});
}

// The caches are outputs too, so that the step runs without queries, of a length or of heads.
TEST(Attention, WithoutQueriesTheCachesGrow) {
  const auto numbers = [](const Shape& shape) {
    Tensor t = Tensor::Allocate(F(shape));
    std::iota(t.mutable_data<float>(), t.mutable_data<float>() + t.elements(), 1.0f);
    return t;
  };
  for (const Shape& none : {Shape{1, 2, 0, 8}, Shape{1, 0, 4, 8}}) {
    for (const int64_t past : {4, 700}) {
      const Shape before{1, 2, past, 8}, grown{1, 2, past + 3, 8};
      TestCall call;
      call.op = "Attention";
      call.inputs = {Zeros(F(none)), numbers({1, 2, 3, 8}), numbers({1, 2, 3, 8}),
                     Tensor(),       numbers(before),       numbers(before)};
      call.outputs = {F(none), F(grown), F(grown)};
      for (Isa isa : TestIsas()) {
        const std::vector<Tensor> got = RunKernel(kAttentionFloat, call, isa);
        for (size_t i : {1, 2}) {
          const float *const y = got[i].data<float>(), *const old = call.inputs[4].data<float>();
          for (int64_t head = 0; head < 2; ++head) {
            const float* const of = y + head * (past + 3) * 8;
            EXPECT_TRUE(std::equal(of, of + past * 8, old + head * past * 8)) << IsaName(isa);
            for (int64_t k = 0; k < 24; ++k)
              ASSERT_EQ(of[past * 8 + k], static_cast<float>(head * 24 + k + 1)) << IsaName(isa);
          }
        }
      }
    }
  }
}

// Keys without elements are all alike, values without elements give none.
TEST(Attention, HeadsOfNoElements) {
  for (const int64_t rows : {1, 7, 40}) {
    for (const int64_t keys : {3, 700}) {
      for (const auto& [size, value_size] : {std::pair{0, 8}, {16, 0}, {0, 0}}) {
        TestCall call;
        call.op = "Attention";
        call.attrs.Set("scale", 1.0f);
        Tensor values = Zeros(F({1, 2, keys, value_size}));
        std::fill_n(values.mutable_data<float>(), values.elements(), 3.0f);
        call.inputs = {Zeros(F({1, 2, rows, size})), Zeros(F({1, 2, keys, size})), values};
        call.outputs = {F({1, 2, rows, value_size})};
        for (Isa isa : TestIsas()) {
          const Tensor got = RunKernel(kAttentionFloat, call, isa)[0];
          for (int64_t i = 0; i < got.elements(); ++i)
            ASSERT_NEAR(got.data<float>()[i], 3, 1e-5) << IsaName(isa);
        }
      }
    }
  }
}

TEST(RotaryEmbedding, Rejects) {
  Expect("rotary_embedding_f32",
         Call{"RotaryEmbedding",
              {},
              {F({2, 3, 4, 8}), F({9, 4}), F({9, 4}), I64({2, 4})},
              {F({2, 3, 4, 8})},
              {}},
         {{"types: input 0 is float16[2, 3, 4, 8], expected float32", Input(0, Half({2, 3, 4, 8}))},
          {"types: input 3 is float32[2, 4], expected int32 or int64", Input(3, F({2, 4}))},
          {"attribute: 10 turned values of heads of 8", With("rotary_embedding_dim", int64_t{10})},
          {"shape: caches of [9, 3] and [9, 4], expected 4 values for each place",
           Input(1, F({9, 3}))},
          {"shape: caches of [9, 4] and [9, 4], expected 4 values for each place",
           [](Call& c) { c.inputs.pop_back(); }},
          {"shape: 3 positions for 8 tokens", Input(3, I64({3}))},
          {"shape: [2, 3, 4, 8] -> [2, 3, 4, 6] with 0 heads", Output(0, F({2, 3, 4, 6}))}});
}

TEST(TensorScatter, Rejects) {
  Expect(
      "tensor_scatter",
      Call{
          "TensorScatter", {}, {F({2, 3, 9, 8}), F({2, 3, 4, 8}), I64({2})}, {F({2, 3, 9, 8})}, {}},
      {{"types: input 1 is float16[2, 3, 4, 8], output float32[2, 3, 9, 8]: moving elements "
        "needs the same type of whole bytes",
        Input(1, Half({2, 3, 4, 8}))},
       {"shape: an update of [2, 3, 10, 8] for a cache of [2, 3, 9, 8]",
        Input(1, F({2, 3, 10, 8}))},
       {"shape: an update of [2, 3, 4, 7] for a cache of [2, 3, 9, 8]", Input(1, F({2, 3, 4, 7}))},
       {"shape: attribute axis is 0, the batch", With("axis", int64_t{0})},
       {"shape: 3 write indices for a batch of 2", Input(2, I64({3}))},
       {"types: input 2 is float32[2], expected int32 or int64", Input(2, F({2}))},
       {"shape: [2, 3, 9, 8] -> [2, 3, 8, 8]", Output(0, F({2, 3, 8, 8}))}});
}

TEST(SwiGlu, Rejects) {
  Expect("swiglu_f32", Call{"SwiGLU", {}, {F({2, 3}), F({2, 3})}, {F({2, 3})}, {}},
         {{"types: input 1 is float16[2, 3], expected float32", Input(1, Half({2, 3}))},
          {"shape: [2, 3] and [3] to [2, 3], expected equal shapes", Input(1, F({3}))}});
}

}  // namespace
}  // namespace evoq
