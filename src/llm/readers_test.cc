// Files that are wrong, and what is said of them; files that are right, and what they hold.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <filesystem>

#include "base/file.h"
#include "llm/facts.h"
#include "llm/gguf.h"
#include "llm/gguf_model.h"
#include "llm/gguf_parts.h"
#include "llm/import.h"
#include "llm/llama2c.h"
#include "llm/rope.h"
#include "llm/safetensors.h"
#include "llm/test_files.h"

namespace evoq {
namespace {

// A folder of the test's own.
class Readers : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "evoq_llm_" + std::to_string(getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string Write(const std::string& name, const std::string& bytes) const {
    const std::string path = folder_ + "/" + name;
    EXPECT_TRUE(WriteFileAtomic(path, bytes));
    return path;
  }
  template <typename T>
  void ExpectError(const Result<T>& result, const std::string& wanted) {
    ASSERT_FALSE(result) << "read, expected: " << wanted;
    const std::string& message = result.error().message();
    EXPECT_NE(message.find(wanted), std::string::npos) << message;
    EXPECT_NE(message.find(folder_), std::string::npos) << "no file in: " << message;
    EXPECT_LT(message.size(), 700u);
  }
  std::string folder_;
};

std::string One(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"a": {"dtype": ")" + dtype + R"(", "shape": )" + shape + R"(, "data_offsets": )" +
         offsets + "}}";
}

TEST_F(Readers, SafetensorsThatAreWrong) {
  const struct {
    std::string bytes, wanted;
  } cases[] = {
      {"", "too short for a safetensors file"},
      {Little(3, 7), "7 bytes, too short"},
      {Little(100, 8) + "{}", "a header of 100 bytes in a file of 10"},
      {Little(UINT64_MAX, 8) + "{}", "a header of 18446744073709551615 bytes in a file of 10"},
      {SafetensorsBytes("{", ""), "header: not JSON"},
      {SafetensorsBytes("[]", ""), "the header is not a JSON object"},
      {SafetensorsBytes(std::string(200, '['), ""), "nested deeper than 64 levels"},
      {SafetensorsBytes(R"({"a": 3})", ""), "tensor a: not an object"},
      {SafetensorsBytes(One("F33", "[1]", "[0, 4]"), "1234"),
       "tensor a: dtype 'F33', expected one of F32 F16 BF16"},
      {SafetensorsBytes(One("F32", "7", "[0, 4]"), "1234"), "tensor a: shape is not a list"},
      {SafetensorsBytes(One("F32", "[-1]", "[0, 4]"), "1234"), "tensor a: shape holds -1"},
      {SafetensorsBytes(One("F32", "[1.5]", "[0, 4]"), "1234"), "tensor a: shape holds 1.5"},
      {SafetensorsBytes(One("F32", "[9223372036854775807, 8]", "[0, 4]"), "1234"), "is too large"},
      {SafetensorsBytes(One("F64", "[2305843009213693952]", "[0, 4]"), "1234"), "is too large"},
      {SafetensorsBytes(One("F32", "[1]", "[0]"), "1234"), "data_offsets are not two numbers"},
      {SafetensorsBytes(One("F32", "[1]", "[0, -4]"), "1234"), "data_offsets are not two numbers"},
      {SafetensorsBytes(One("F32", "[1]", "[4, 0]"), "1234"), "bytes 4 to 0 of data that has 4"},
      {SafetensorsBytes(One("F32", "[2]", "[0, 8]"), "1234"), "bytes 0 to 8 of data that has 4"},
      {SafetensorsBytes(One("F32", "[2]", "[0, 4]"), "1234"), "float32[2] in 4 bytes, expected 8"},
      {SafetensorsBytes(One("F32", "[1]", "[0, 4]"), "12345"), "the data has 5 bytes, expected 4"},
      {SafetensorsBytes(One("F32", "[1]", "[1, 5]"), "12345"),
       "bytes 0 to 1 of the data, before tensor a, belong to no tensor"},
      {SafetensorsBytes(R"({"a": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]},
                            "b": {"dtype": "U8", "shape": [2], "data_offsets": [2, 4]}})",
                        "1234"),
       "tensors a and b overlap at byte 2 of the data"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.wanted);
    ExpectError(ReadSafetensors(Write("x.safetensors", c.bytes)), c.wanted);
  }
}

TEST_F(Readers, SafetensorsAreViewsOfTheFile) {
  const std::string header =
      R"({"__metadata__": {"format": "pt"}, "b": {"dtype": "BF16", "shape": [2, 1],
          "data_offsets": [4, 8]}, "a": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]},
          "none": {"dtype": "F16", "shape": [0, 5], "data_offsets": [8, 8]}})";
  const auto tensors = ReadSafetensors(Write(
      "x.safetensors", SafetensorsBytes(header, Little(0x40490fdb, 4) + Little(0x3f80bf00, 4))));
  ASSERT_TRUE(tensors) << tensors.error().message();
  ASSERT_EQ(tensors->size(), 3u);
  const StoredTensor& b = tensors->at("b");
  EXPECT_EQ(b.ToString(), "bfloat16[2, 1]");
  const auto plain = PlainTensor(b, {2});
  ASSERT_TRUE(plain);
  const auto real = ToFloat32(*plain);
  EXPECT_EQ(real->values<float>()[0], -0.5f);
  EXPECT_EQ(real->values<float>()[1], 1.0f);
}

TEST_F(Readers, ATensorThatIsNotAlignedIsCopied) {
  const std::string header = R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
      "b": {"dtype": "F32", "shape": [1], "data_offsets": [1, 5]}})";
  const auto tensors = ReadSafetensors(
      Write("x.safetensors", SafetensorsBytes(header, "x" + Little(0x3fc00000, 4))));
  ASSERT_TRUE(tensors) << tensors.error().message();
  const auto b = PlainTensor(tensors->at("b"), {1});
  ASSERT_TRUE(b);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b->raw()) % 4, 0u);
  EXPECT_EQ(b->values<float>()[0], 1.5f);
}

TEST_F(Readers, Shards) {
  const std::string index = "model.safetensors.index.json";
  ExpectError(ReadSafetensorsFolder(folder_), "neither model.safetensors nor");
  Write("one.safetensors", SafetensorsBytes(One("U8", "[2]", "[0, 2]"), "12"));
  const struct {
    std::string index, wanted;
  } cases[] = {
      {"[]", "no object weight_map"},
      {R"({"weight_map": {"a": "two.safetensors"}})", "two.safetensors"},
      {R"({"weight_map": {"b": "one.safetensors"}})", "tensor b is not in one.safetensors"},
      {R"({"weight_map": {"a": "../one.safetensors"}})", "expected the name of a file"},
      {R"({"weight_map": {"a": ".."}})", "expected the name of a file"},
      {R"({"weight_map": {"a": 3}})", "expected the name of a file"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.wanted);
    Write(index, c.index);
    ExpectError(ReadSafetensorsFolder(folder_), c.wanted);
  }
  Write(index, R"({"weight_map": {"a": "one.safetensors"}})");
  const auto tensors = ReadSafetensorsFolder(folder_);
  ASSERT_TRUE(tensors) << tensors.error().message();
  EXPECT_EQ(tensors->at("a").ToString(), "uint8[2]");
}

TEST_F(Readers, GgufThatIsWrong) {
  const auto tensor = [](std::vector<uint64_t> sizes, uint32_t type, uint64_t offset) {
    return GgufBytes().Tensor("t", sizes, type, offset).Data(std::string(64, 'x')).Bytes();
  };
  const auto fact = [](uint32_t type, const std::string& value) {
    return GgufBytes().Fact("k", type, value).Bytes();
  };
  const std::string head = "GGUF" + Little(3, 4);
  const struct {
    std::string bytes, wanted;
  } cases[] = {
      {"GGU", "does not begin with GGUF"},
      {"GGUF", "the file ends at byte 0"},
      {"GGUF" + Little(1, 4) + Little(0, 16), "GGUF version 1, expected 2 or 3"},
      {std::string("GGUF\0\0\0\3", 8) + Little(0, 16), "big-endian GGUF"},
      {head + Little(UINT64_MAX, 8) + Little(1, 8), "expected at most 1048576 and 65536"},
      {head + Little(100000, 8) + Little(1, 8), "100000 tensors and 1 facts in 24 bytes"},
      {head + Little(0, 8) + Little(1, 8) + Little(UINT64_MAX, 8) + "xxxx",
       "key 0: a text of 18446744073709551615 bytes"},
      {fact(13, ""), "fact k: the type 13, expected 0 to 12"},
      {fact(8, Little(1000, 8)), "fact k: a text of 1000 bytes"},
      {fact(9, Little(4, 4) + Little(uint64_t{1} << 62, 8)),
       "fact k: a list of 4611686018427387904"},
      {fact(9, Little(9, 4) + Little(1, 8)), "fact k: a list of lists"},
      {fact(9, Little(77, 4) + Little(1, 8)), "fact k: a list of the type 77"},
      {GgufBytes().Fact("k", 1).Fact("k", 2).Bytes(), "fact k is there twice"},
      {GgufBytes().Fact("general.alignment", 24).Bytes(), "general.alignment is no power of two"},
      {GgufBytes().Fact("general.alignment", 0).Bytes(), "general.alignment is no power of two"},
      {GgufBytes().Fact("general.alignment", std::string("x")).Bytes(), "is no power of two"},
      {tensor({}, 0, 0), "tensor t: rank 0, expected 1 to 4"},
      {tensor({1, 1, 1, 1, 1}, 0, 0), "tensor t: rank 5, expected 1 to 4"},
      {tensor({0}, 0, 0), "tensor t: size 0 on axis 0"},
      {tensor({UINT64_MAX}, 0, 0), "tensor t: size 18446744073709551615"},
      {tensor({uint64_t{1} << 62, 4}, 0, 0),
       "tensor t: float32[4, 4611686018427387904] is too large"},
      {tensor({4}, 15, 0),
       "tensor t: ggml's tensor type Q8_K is not supported, expected one of F32, "},
      {tensor({4}, 99, 0), "tensor t: ggml's tensor type 99 is not supported"},
      {tensor({33}, 2, 0), "tensor t: Q4_0[33]: rows are no multiple of 32"},
      {tensor({4}, 0, 8), "tensor t: offset 8 is no multiple of 32"},
      {tensor({4}, 0, 64), "tensor t: 16 bytes at 64 of data that has 64"},
      {tensor({4}, 0, uint64_t{1} << 63), "tensor t: 16 bytes at 9223372036854775808"},
      {tensor({17}, 0, 0), "tensor t: 68 bytes at 0 of data that has 64"},
      {GgufBytes()
           .Tensor("t", {16}, 0, 0)
           .Tensor("u", {1}, 0, 32)
           .Data(std::string(64, 'x'))
           .Bytes(),
       "tensors t and u overlap at byte 32 of the data"},
      {GgufBytes()
           .Tensor("t", {1}, 0, 0)
           .Tensor("t", {1}, 0, 32)
           .Data(std::string(64, 'x'))
           .Bytes(),
       "tensor t is there twice"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.wanted);
    ExpectError(ReadGguf(Write("x.gguf", c.bytes)), c.wanted);
  }
  const std::string whole = TinyGguf().Bytes();
  for (size_t size = 4; size < whole.size(); size += 41) {
    SCOPED_TRACE(size);
    EXPECT_FALSE(ImportLanguageModel(Write("cut.gguf", whole.substr(0, size))));
  }
}

// A scale of a whole tensor beside its blocks, which is no tensor of the model.
TEST_F(Readers, GgufScalesOfTensors) {
  const auto with = [&](const std::vector<uint64_t>& sizes, uint64_t scales, float scale) {
    std::string data(96, '\0');
    const auto bits = std::bit_cast<uint32_t>(scale);
    for (int i = 0; i < 4; ++i) data += Little(bits, 4);
    const std::string bytes = GgufBytes()
                                  .Tensor("t.weight", sizes, 2, 0)
                                  .Tensor("t.scale", {scales}, 0, 96)
                                  .Tensor("t.input_scale", {1}, 0, 128)
                                  .Data(data + std::string(32, '\0'))
                                  .Bytes();
    return ReadGguf(Write("x.gguf", bytes));
  };
  const auto one = with({32, 2}, 1, 0.5f), stack = with({32, 2, 2}, 2, 0.5f);
  ASSERT_TRUE(one) << one.error().message();
  EXPECT_EQ(one->tensors.size(), 1);
  EXPECT_EQ(one->tensors.at("t.weight").factors, std::vector<float>{0.5f});
  ASSERT_TRUE(stack) << stack.error().message();
  EXPECT_EQ(stack->tensors.at("t.weight").factors, (std::vector<float>{0.5f, 0.5f}));
  ExpectError(with({32, 2}, 2, 0.5f), "tensor t.scale is float32[2], expected float32[1]");
  ExpectError(with({32, 2}, 1, -0.5f), "tensor t.scale holds -0.5, expected positive numbers");
  ExpectError(with({32, 2}, 1, INFINITY), "tensor t.scale holds inf, expected positive numbers");
}

TEST_F(Readers, GgufFacts) {
  GgufBytes bytes;
  bytes.Fact("i", 5, Little(static_cast<uint32_t>(-7), 4))
      .Fact("u", 10, Little(UINT64_MAX, 8))
      .Fact("f", 6, Little(0x3fc00000, 4))
      .Fact("b", 7, "\1")
      .Fact("s", std::string("text"))
      .Fact("n", 9, Little(0, 4) + Little(2, 8) + "\1\2")
      .Fact("tokenizer.t", 9,
            Little(8, 4) + Little(2, 8) + GgufBytes::Text("x") + GgufBytes::Text(""));
  const auto file = ReadGguf(Write("x.gguf", bytes.Bytes(2)));
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_EQ(file->Int("i"), -7);
  EXPECT_EQ(file->Int("u"), std::nullopt);
  EXPECT_EQ(file->Real("f"), 1.5);
  EXPECT_EQ(file->Real("i"), -7.0);
  EXPECT_EQ(file->Truth("b"), true);
  EXPECT_EQ(file->Text("s"), "text");
  EXPECT_EQ(file->Text("i"), "");
  EXPECT_EQ(*file->Numbers("n"), (std::vector<double>{1, 2}));
  EXPECT_EQ(*file->Texts("tokenizer.t"), (std::vector<std::string_view>{"x", ""}));
  const auto again = ReadGguf(Write("y.gguf", TokenizerGguf(*file)));
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(again->facts.size(), 1u);
  EXPECT_EQ(again->Texts("tokenizer.t")->size(), 2u);
}

TEST_F(Readers, GgufModelsThatAreWrong) {
  const auto with = [](auto change) {
    GgufBytes file = TinyGguf();
    change(file);
    return file.Bytes();
  };
  const struct {
    std::string bytes, wanted;
  } cases[] = {
      {GgufBytes().Bytes(), "general.architecture is '', expected one of llama"},
      {GgufBytes().Fact("general.architecture", std::string("rwkv")).Bytes(), "is 'rwkv'"},
      {GgufBytes().Fact("general.architecture", std::string("llama")).Bytes(),
       "fact llama.embedding_length is missing"},
      {with([](GgufBytes& f) { f.Fact("llama.rope.scaling.type", std::string("xpos")); }),
       "rope.scaling.type is 'xpos', expected linear, yarn, longrope or none"},
      {with([](GgufBytes& f) { f.Fact("llama.attention.value_length", 2); }),
       "keys of 4 elements and values of 2, expected as many"},
      {with([](GgufBytes& f) { f.Fact("llama.rope.dimension_count", 3); }), "3 rotated values"},
      {with([](GgufBytes& f) {
         f.Tensor("rope_freqs.weight", {2}, 30, f.DataBytes()).Data(std::string(32, '\0'));
       }),
       "tensor rope_freqs.weight: a factor of rope is not positive"},
      {with([](GgufBytes& f) { f.Floats("blk.0.router.weight", {8}); }),
       "tensor blk.0.router.weight (float32[8]) has no place in this architecture"},
      {with([](GgufBytes& f) { f.Floats("blk.0.attn_q.bias", {7}); }),
       "tensor blk.0.attn_q.bias is float32[7], expected sizes [8]"},
      {with([](GgufBytes& f) { f.Floats("blk.0.attn_qkv.weight", {8, 16}); }),
       "tensor blk.0.attn_k.weight (float32[4, 8]) has no place"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.wanted);
    ExpectError(ImportLanguageModel(Write("x.gguf", c.bytes)), c.wanted);
  }
}

// A mixture of experts as llama.cpp's converter writes it: two of three, 6 wide.
GgufBytes MixtureFacts(const std::string& architecture = "llama") {
  GgufBytes file;
  const std::string a = architecture + ".";
  file.Fact("general.architecture", architecture)
      .Fact(a + "embedding_length", 8)
      .Fact(a + "block_count", 1)
      .Fact(a + "attention.head_count", 2)
      .Fact(a + "attention.head_count_kv", 1)
      .Fact(a + "feed_forward_length", 6)
      .Fact(a + "context_length", 16)
      .Fact(a + "expert_used_count", 2);
  file.Floats("token_embd.weight", {8, 5}).Floats("output_norm.weight", {8});
  const std::pair<const char*, std::vector<uint64_t>> tensors[] = {
      {"attn_norm", {8}},      {"attn_q", {8, 8}}, {"attn_k", {8, 4}},      {"attn_v", {8, 4}},
      {"attn_output", {8, 8}}, {"ffn_norm", {8}},  {"ffn_gate_inp", {8, 3}}};
  for (const auto& [name, sizes] : tensors)
    file.Floats(std::string("blk.0.") + name + ".weight", sizes);
  return file;
}
GgufBytes Stacks(GgufBytes file, uint64_t experts = 3) {
  return file.Floats("blk.0.ffn_gate_exps.weight", {8, 6, experts})
      .Floats("blk.0.ffn_up_exps.weight", {8, 6, experts})
      .Floats("blk.0.ffn_down_exps.weight", {6, 8, experts});
}

TEST_F(Readers, GgufMixturesOfExperts) {
  const auto count = [](GgufBytes file, uint32_t experts) {
    return file.Fact("llama.expert_count", experts);
  };
  const auto graph = ImportLanguageModel(Write("x.gguf", count(Stacks(MixtureFacts()), 3).Bytes()));
  ASSERT_TRUE(graph) << graph.error().message();
  // The second expert's matrix, a view of the stack's second third.
  const ValueId first = graph->FindValue("blk.0.ffn_down.0.weight"),
                second = graph->FindValue("blk.0.ffn_down.1.weight");
  ASSERT_TRUE(first.valid() && second.valid());
  EXPECT_EQ(graph->value(second).constant.raw() - graph->value(first).constant.raw(), 8 * 6 * 4);
  // Each by itself, as files until 2024.
  GgufBytes old = count(MixtureFacts(), 3);
  for (int e = 0; e < 3; ++e) {
    old.Floats(fmt::format("blk.0.ffn_gate.{}.weight", e), {8, 6})
        .Floats(fmt::format("blk.0.ffn_up.{}.weight", e), {8, 6})
        .Floats(fmt::format("blk.0.ffn_down.{}.weight", e), {6, 8});
  }
  EXPECT_TRUE(ImportLanguageModel(Write("x.gguf", old.Bytes())));
  const struct {
    GgufBytes bytes;
    const char* wanted;
  } cases[] = {
      {count(Stacks(MixtureFacts(), 2), 3),
       "tensor blk.0.ffn_down_exps.weight is float32[2, 8, 6], expected a stack of 3 experts"},
      {count(MixtureFacts(), 3), "tensor blk.0.ffn_gate.0.weight is missing"},
      {count(Stacks(MixtureFacts()), 1), "tensor blk.0.ffn_"},
      {count(Stacks(MixtureFacts()), 100000),
       "100000 experts in each of 1 layers, expected at most"},
      {count(Stacks(MixtureFacts()), UINT32_MAX), "4294967295 experts in each of 1 layers"},
      {count(Stacks(MixtureFacts()), 3).Fact("llama.expert_gating_func", 2),
       "llama.expert_gating_func is 2, expected 1, softmax"},
      {count(Stacks(MixtureFacts()), 3).Floats("blk.0.ffn_up.1.weight", {8, 6}),
       "tensor blk.0.ffn_up.1.weight is there beside the stack blk.0.ffn_up_exps.weight"},
      {count(Stacks(MixtureFacts()), 3).Fact("llama.expert_feed_forward_length", 1 << 23),
       "inner width of experts is 8388608"},
      {Stacks(MixtureFacts()), "tensor blk.0.ffn_"},  // without a count
      {Stacks(MixtureFacts("gemma")).Fact("gemma.expert_count", 3),
       "gemma.expert_count is 3: mixtures of experts are read of mixtral, qwen2_moe"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.wanted);
    ExpectError(ImportLanguageModel(Write("y.gguf", c.bytes.Bytes())), c.wanted);
  }
}

// As llama.cpp reads it: what names no type is linear, also by the factor's old name; 0 is none.
TEST_F(Readers, GgufScalingOfPositions) {
  const auto divisor = [&](auto change) {
    GgufBytes file = TinyGguf();
    change(file);
    const auto read = ReadGguf(Write("x.gguf", file.Bytes()));
    return ReadGgufModel(*read)->rope.divisor;
  };
  const auto type = [](GgufBytes& f, const std::string& name) {
    f.Fact("llama.rope.scaling.type", name);
  };
  const auto factor = [](GgufBytes& f, const char* key, float value) {
    f.Fact(std::string("llama.rope.") + key, 6, Little(std::bit_cast<uint32_t>(value), 4));
  };
  EXPECT_EQ(divisor([&](GgufBytes& f) { factor(f, "scaling.factor", 4); }), 4);
  EXPECT_EQ(divisor([&](GgufBytes& f) { factor(f, "scale_linear", 4); }), 4);
  EXPECT_EQ(divisor([&](GgufBytes& f) {
              factor(f, "scale_linear", 4);
              factor(f, "scaling.factor", 2);
              type(f, "linear");
            }),
            2);
  EXPECT_EQ(divisor([&](GgufBytes& f) {
              factor(f, "scaling.factor", 4);
              type(f, "none");
            }),
            1);
  EXPECT_EQ(divisor([&](GgufBytes& f) { factor(f, "scaling.factor", 0); }), 1);
  EXPECT_EQ(divisor([](GgufBytes&) {}), 1);
}

// The yarn of a GGUF file is that of a folder's settings.
TEST_F(Readers, GgufYarn) {
  const auto real = [](float value) { return Little(std::bit_cast<uint32_t>(value), 4); };
  GgufBytes file = TinyGguf();
  file.Fact("llama.rope.scaling.type", std::string("yarn"))
      .Fact("llama.rope.scaling.factor", 6, real(4))
      .Fact("llama.rope.scaling.original_context_length", 1500)
      .Fact("llama.attention.key_length", 8)
      .Fact("llama.rope.freq_base", 6, real(10000));
  const auto model = ReadGgufModel(*ReadGguf(Write("x.gguf", file.Bytes())));
  ASSERT_TRUE(model) << model.error().message();
  Rope rope;
  ASSERT_TRUE(
      ReadRope({{"rope_type", "yarn"}, {"factor", 4}, {"original_max_position_embeddings", 1500}},
               {.rotated = 8, .context = 16}, rope));
  EXPECT_EQ(model->rope.slow, rope.slow);
  EXPECT_NEAR(model->rope.magnitude, rope.magnitude, 1e-6);
  EXPECT_NE(std::ranges::count(rope.slow, 1), 4) << "it changes frequencies";
  file.Fact("llama.rope.scaling.yarn_beta_fast", 6, real(8))
      .Fact("llama.rope.scaling.attn_factor", 6, real(0.5));
  const auto other = ReadGgufModel(*ReadGguf(Write("x.gguf", file.Bytes())));
  ASSERT_TRUE(other) << other.error().message();
  EXPECT_NE(other->rope.slow, rope.slow);
  EXPECT_NEAR(other->rope.magnitude, rope.magnitude / 2, 1e-6);
}

// What no fact says, or says otherwise than config.json does.
TEST_F(Readers, GgufScales) {
  const auto read = [&](const std::string& architecture, uint32_t layers, float logits) {
    GgufBytes file;
    const std::string a = architecture + ".";
    file.Fact("general.architecture", architecture)
        .Fact(a + "embedding_length", 8)
        .Fact(a + "block_count", layers)
        .Fact(a + "attention.head_count", 2)
        .Fact(a + "attention.key_length", 16)
        .Fact(a + "attention.value_length", 16)
        .Fact(a + "feed_forward_length", 12)
        .Fact(a + "context_length", 16)
        .Fact(a + "logit_scale", 6, Little(std::bit_cast<uint32_t>(logits), 4));
    file.Floats("token_embd.weight", {8, 5});
    const auto model = ReadGgufModel(*ReadGguf(Write("x.gguf", file.Bytes())));
    EXPECT_TRUE(model) << model.error().message();
    return *model;
  };
  // Granite's files have the divisor, Command R's the factor.
  EXPECT_EQ(read("granite", 2, 8).logit_scale, 0.125f);
  EXPECT_EQ(read("command-r", 2, 0.25f).logit_scale, 0.25f);
  // The largest Gemmas scale attention by width / heads, the others by the size of a head.
  for (const auto& [architecture, layers] : {std::pair("gemma2", 46u), std::pair("gemma3", 62u)}) {
    EXPECT_EQ(read(architecture, layers, 1).attention_scale, 0.5f) << architecture;
    EXPECT_NE(read(architecture, layers - 4, 1).attention_scale, 0.5f) << architecture;
  }
}

TEST_F(Readers, GgufEndsOfTexts) {
  GgufBytes file = TinyGguf();
  file.Fact("tokenizer.ggml.eos_token_id", 2);
  EXPECT_EQ(ReadGgufModel(*ReadGguf(Write("x.gguf", file.Bytes())))->end, std::vector<int64_t>{2});
  file.Fact("tokenizer.ggml.eot_token_id", 4);
  EXPECT_EQ(ReadGgufModel(*ReadGguf(Write("x.gguf", file.Bytes())))->end,
            (std::vector<int64_t>{2, 4}));
}

TEST_F(Readers, AGgufModel) {
  const std::string path = Write("x.gguf", TinyGguf().Bytes());
  EXPECT_TRUE(IsLanguageModelPath(path));
  const auto graph = ImportLanguageModel(path);
  ASSERT_TRUE(graph) << graph.error().message();
  EXPECT_EQ(graph->inputs().size(), 5u);
  EXPECT_EQ(graph->outputs().size(), 3u);
  const auto facts = ReadFacts(*graph);
  ASSERT_TRUE(facts) << facts.error().message();
  EXPECT_EQ(facts->architecture, "llama");
  EXPECT_EQ(facts->context, 16);
  EXPECT_EQ(facts->vocabulary, 5);
  EXPECT_EQ(facts->begin, (std::vector<int64_t>{1}));
  const auto tokenizer = ReadGguf(Write("t.gguf", facts->files.at("tokenizer.gguf")));
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  EXPECT_EQ(tokenizer->Texts("tokenizer.ggml.tokens")->at(0), "a");
}

// The tensors of TinyGguf() in three files: none, the first four, the rest.
TEST_F(Readers, GgufInParts) {
  const auto part = [](uint32_t number, uint32_t count, bool facts, size_t begin, size_t end) {
    const std::pair<const char*, std::vector<uint64_t>> tensors[] = {
        {"token_embd", {8, 5}},        {"output_norm", {8}},       {"blk.0.attn_norm", {8}},
        {"blk.0.attn_q", {8, 8}},      {"blk.0.attn_k", {8, 4}},   {"blk.0.attn_v", {8, 4}},
        {"blk.0.attn_output", {8, 8}}, {"blk.0.ffn_norm", {8}},    {"blk.0.ffn_up", {8, 12}},
        {"blk.0.ffn_gate", {8, 12}},   {"blk.0.ffn_down", {12, 8}}};
    GgufBytes file = facts ? TinyFacts() : GgufBytes();
    file.Fact("split.no", 2, Little(number, 2)).Fact("split.count", 2, Little(count, 2));
    if (facts) file.Fact("split.tensors.count", 5, Little(11, 4));
    for (size_t i = begin; i < std::min(end, std::size(tensors)); ++i)
      file.Floats(std::string(tensors[i].first) + ".weight", tensors[i].second);
    return file.Bytes();
  };
  const std::string first = Write("m-00001-of-00003.gguf", part(0, 3, true, 0, 0)),
                    second = Write("m-00002-of-00003.gguf", part(1, 3, false, 0, 4));
  ExpectError(ImportLanguageModel(first), "m-00003-of-00003.gguf");  // is not there
  Write("m-00003-of-00003.gguf", part(2, 3, false, 4, 99));
  const auto graph = ImportLanguageModel(first);
  ASSERT_TRUE(graph) << graph.error().message();
  EXPECT_EQ(ReadFacts(*graph)->vocabulary, 5);
  EXPECT_EQ(LanguageModelBytes(first).value(),
            static_cast<int64_t>(part(0, 3, true, 0, 0).size() + part(1, 3, false, 0, 4).size() +
                                 part(2, 3, false, 4, 99).size()));
  ExpectError(ImportLanguageModel(second), "part 2 of 3, expected the first, -00001-of-00003.gguf");
  ExpectError(ImportLanguageModel(Write("x.gguf", part(0, 3, true, 0, 0))),
              "the first of 3 parts, expected a name that ends in -00001-of-00003.gguf");
  Write("m-00003-of-00003.gguf", part(2, 3, false, 3, 99));
  ExpectError(ImportLanguageModel(first), "tensor blk.0.attn_q.weight is in another part too");
  Write("m-00003-of-00003.gguf", part(2, 3, false, 5, 99));
  ExpectError(ImportLanguageModel(first), "10 tensors in 3 parts, expected 11");
  Write("m-00003-of-00003.gguf", part(1, 3, false, 4, 99));
  ExpectError(ImportLanguageModel(first), "split.no 1 and split.count 3, expected 2 and 3");
  Write("m-00003-of-00003.gguf", "GGUF");
  ExpectError(ImportLanguageModel(first), "m-00003-of-00003.gguf: the file ends at byte 0");
  EXPECT_EQ(GgufPartPaths("a-00001-of-00002.gguf"),
            (std::vector<std::string>{"a-00001-of-00002.gguf", "a-00002-of-00002.gguf"}));
  for (const char* alone : {"a.gguf", "-00001-of-00002.gguf", "a-00002-of-00002.gguf",
                            "a-00001-of-0000x.gguf", "a-00001-of-00000.gguf"})
    EXPECT_EQ(GgufPartPaths(alone), std::vector<std::string>{alone});
}

TEST_F(Readers, Llama2cCheckpoints) {
  const std::string good = TinyLlama2c();
  const std::string path = Write("x.bin", good);
  EXPECT_TRUE(IsLanguageModelPath(path));
  ASSERT_TRUE(ImportLanguageModel(path));
  EXPECT_FALSE(IsLanguageModelPath(Write("y.bin", good + "x")));
  EXPECT_FALSE(IsLanguageModelPath(Write("y.bin", good.substr(0, 20))));
  ExpectError(ReadLlama2c(Write("y.bin", good.substr(0, 20))), "too short for a header");
  ExpectError(ReadLlama2c(Write("y.bin", good + "x")), "bytes, expected");
  std::string bytes = good;
  bytes.replace(8, 4, Little(INT32_MAX, 4));
  ExpectError(ReadLlama2c(Write("y.bin", bytes)), "layers is 2147483647, expected 1 to 1024");
  bytes = good;
  bytes.replace(20, 4, Little(uint32_t{1} << 31, 4));
  ExpectError(ReadLlama2c(Write("y.bin", bytes)), "vocabulary is -2147483648");
  bytes = good;
  bytes.replace(12, 4, Little(0, 4));
  ExpectError(ReadLlama2c(Write("y.bin", bytes)), "heads is 0, expected 1");
  const std::string second = Little(0x616b3432, 4) + Little(2, 4) + std::string(300, '\0');
  ExpectError(ImportLanguageModel(Write("y.bin", second)), "version 2 of llama2.c's format");
}

// Version 1 holds the same numbers in another order, and no tables of angles.
TEST_F(Readers, Llama2cVersion1) {
  const std::string old = TinyLlama2c();
  const auto floats = [&](size_t from, size_t n) { return old.substr(28 + 4 * from, 4 * n); };
  std::string bytes = Little(0x616b3432, 4) + Little(1, 4) + old.substr(4 * 0, 28) + '\1';
  bytes.resize(256);
  const size_t table = 0, norm1 = 20, q = 24, norm2 = q + 16 + 8 + 8 + 16, feed = norm2 + 4,
               norm3 = feed + 72;
  bytes += floats(norm1, 4) + floats(norm2, 4) + floats(norm3, 4) + floats(table, 20) +
           floats(q, 48) + floats(feed, 72);
  const auto one = ReadLlama2c(Write("one.bin", bytes)), zero = ReadLlama2c(Write("zero.bin", old));
  ASSERT_TRUE(one) << one.error().message();
  ASSERT_TRUE(zero) << zero.error().message();
  ASSERT_EQ(one->tensors.size(), zero->tensors.size());
  for (const auto& [name, tensor] : zero->tensors) {
    ASSERT_TRUE(one->tensors.contains(name)) << name;
    EXPECT_TRUE(std::ranges::equal(tensor.bytes, one->tensors.at(name).bytes)) << name;
  }
}

}  // namespace
}  // namespace evoq
