// What tests of texts share: small language models of random weights, and tokens.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "generate/cached_model.h"
#include "llm/random_folder.h"

namespace evoq::generate_test {

inline constexpr int64_t kVocabulary = 96, kContext = 64;

class GenerateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() / ("evoq_generate_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string At(const std::string& name) const { return (folder_ / name).string(); }

  // A folder with a small Llama of random weights.
  std::string Folder(uint32_t seed, int64_t layers = 2, int64_t context = kContext) const {
    const nlohmann::json config = {
        {"model_type", "llama"},       {"architectures", {"LlamaForCausalLM"}},
        {"vocab_size", kVocabulary},   {"hidden_size", 32},
        {"num_hidden_layers", layers}, {"num_attention_heads", 4},
        {"num_key_value_heads", 2},    {"intermediate_size", 48},
        {"rms_norm_eps", 1e-5},        {"max_position_embeddings", context},
        {"rope_theta", 10000.0},       {"tie_word_embeddings", false}};
    const std::string path = At("model" + std::to_string(seed));
    EXPECT_TRUE(WriteRandomFolder(config, {}, seed, path));
    return path;
  }
  std::unique_ptr<CachedModel> Load(const std::string& path, CacheOptions options = {}) const {
    options.threads = 1;
    auto model = CachedModel::Load(path, options);
    EXPECT_TRUE(model) << model.error().message();
    return model ? std::move(*model) : nullptr;
  }
  std::filesystem::path folder_;
};

inline std::vector<int64_t> Tokens(int64_t count, int64_t first = 3) {
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back((first + i * i * 7 + 5 * i) % kVocabulary);
  return tokens;
}

inline void ExpectNear(std::span<const float> a, std::span<const float> b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-4) << i;
}

inline std::vector<float> Copy(Result<std::span<const float>> logits) {
  EXPECT_TRUE(logits) << logits.error().message();
  return logits ? std::vector<float>(logits->begin(), logits->end()) : std::vector<float>();
}

}  // namespace evoq::generate_test
