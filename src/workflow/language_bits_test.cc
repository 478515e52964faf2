// Of language models whose products are of integers, a token's logits are the same bits however the
// prompt is cut and whatever other sequences run beside it.
#include <gtest/gtest.h>

#include <cstring>

#include "generate/cached_model.h"
#include "llm/random_folder.h"
#include "workflow/quantize.h"
#include "workflow/tiny_testing.h"

namespace evoq {
namespace {

constexpr int64_t kVocabulary = 96, kContext = 640;

class LanguageBits : public TinyFolder {
 protected:
  // Seven queries of a key head: pieces of prompts have few rows and many.
  std::unique_ptr<CachedModel> Load(const std::string& scheme, const std::string& cache) const {
    const nlohmann::json config = {
        {"model_type", "llama"},     {"architectures", {"LlamaForCausalLM"}},
        {"vocab_size", kVocabulary}, {"hidden_size", 224},
        {"num_hidden_layers", 2},    {"num_attention_heads", 7},
        {"num_key_value_heads", 1},  {"intermediate_size", 256},
        {"rms_norm_eps", 1e-5},      {"max_position_embeddings", kContext},
        {"rope_theta", 10000.0},     {"tie_word_embeddings", false}};
    EXPECT_TRUE(WriteRandomFolder(config, {}, 3, At("llama")));
    const QuantizeJob job{
        .model = At("llama"), .output = At(scheme + ".etm"), .scheme = scheme, .kv_cache = cache};
    const auto done = Quantize(job);
    EXPECT_TRUE(done) << done.error().message();
    auto model = CachedModel::Load(job.output, {.threads = 2, .slots = 3});
    EXPECT_TRUE(model) << model.error().message();
    return model ? std::move(*model) : nullptr;
  }
};

TEST_F(LanguageBits, ATokenIsItsOwn) {
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < 600; ++i) tokens.push_back((7 * i * i + 5 * i + i / 11) % kVocabulary);
  const std::span<const int64_t> all = tokens;
  const struct {
    const char *scheme, *cache;
  } kCases[] = {{"int4-dynamic", "float32"}, {"int8-dynamic", "float16"}, {"int2-dynamic", "int8"}};
  for (const auto& [scheme, cache] : kCases) {
    SCOPED_TRACE(scheme);
    const auto model = Load(scheme, cache);
    ASSERT_NE(model, nullptr);
    constexpr int64_t kWanted = 90;
    const auto whole = model->Append(0, all, kWanted);
    ASSERT_TRUE(whole);
    const std::vector<float> wanted(whole->begin(), whole->end());
    const auto expect = [&](int64_t last, int64_t count, std::span<const float> got) {
      ASSERT_EQ(static_cast<int64_t>(got.size()), count * kVocabulary);
      const int64_t at = (kWanted - (600 - last) - count) * kVocabulary;
      EXPECT_EQ(std::memcmp(got.data(), wanted.data() + at, got.size_bytes()), 0)
          << count << " tokens up to " << last;
    };
    // In pieces of many sizes, beside the first sequence.
    int64_t place = 510;
    ASSERT_TRUE(model->Append(1, all.first(place)));
    for (const int64_t count : {1, 1, 3, 7, 9, 17, 33, 1, 18}) {
      const auto piece = model->Append(1, all.subspan(place, count), count);
      ASSERT_TRUE(piece);
      place += count;
      expect(place, count, *piece);
    }
    // One token each of three sequences at a time.
    ASSERT_TRUE(model->Append(2, all.first(100)));
    model->Truncate(0, 599);
    model->Truncate(1, 599);
    const std::vector<int64_t> next = {tokens[599], tokens[599], 5};
    const auto step = model->Step(0, next);
    ASSERT_TRUE(step) << step.error().message();
    for (const size_t slot : {0u, 1u})
      expect(600, 1, step->subspan(slot * kVocabulary, kVocabulary));
  }
}

}  // namespace
}  // namespace evoq
