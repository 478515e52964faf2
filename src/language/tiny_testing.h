// For tests: folders of small language models with random weights and a tokenizer.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "generate/translator_testing.h"
#include "llm/random_folder.h"

namespace evoq {

inline constexpr int64_t kTinyVocabulary = 96, kTinyContext = 64;

class TinyLanguageFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::temp_directory_path() /
              (std::string("evoq_") + test->name() + "_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string At(const std::string& name) const { return (folder_ / name).string(); }

  // A Llama of random weights; the same for the same seed and vocabulary.
  std::string Folder(uint32_t seed = 1, int64_t vocabulary = kTinyVocabulary,
                     bool tokenizer = true) const {
    const nlohmann::json config = {
        {"model_type", "llama"},    {"architectures", {"LlamaForCausalLM"}},
        {"vocab_size", vocabulary}, {"hidden_size", 32},
        {"num_hidden_layers", 2},   {"num_attention_heads", 4},
        {"num_key_value_heads", 2}, {"intermediate_size", 48},
        {"rms_norm_eps", 1e-5},     {"max_position_embeddings", kTinyContext},
        {"rope_theta", 10000.0},    {"tie_word_embeddings", false}};
    const std::string path = At("model" + std::to_string(seed));
    EXPECT_TRUE(WriteRandomFolder(config, {}, seed, path));
    if (tokenizer && vocabulary == kTinyVocabulary) WriteTokenizer(path);
    return path;
  }

  // A T5 of random weights with a tokenizer of words and languages: <pad> 0, </s> 1, __en__ 2,
  // __fr__ 3, __de__ 4, "w5" 5 to "w39" 39. A text is English, and ends with </s>.
  std::string Translator() const {
    const std::string path = At("translator");
    generate_test::WriteTinyT5(path);
    nlohmann::json vocabulary, added = nlohmann::json::array();
    const char* const special[] = {"<pad>", "</s>", "__en__", "__fr__", "__de__"};
    for (int i = 0; i < 40; ++i) {
      vocabulary[i < 5 ? special[i] : "w" + std::to_string(i)] = i;
      if (i < 5) added.push_back(Special(i, special[i]));
    }
    const nlohmann::json begin = {{"SpecialToken", {{"id", "__en__"}, {"type_id", 0}}}},
                         text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
                         end = {{"SpecialToken", {{"id", "</s>"}, {"type_id", 0}}}};
    const nlohmann::json around = {
        {"type", "TemplateProcessing"},
        {"single", {begin, text, end}},
        {"pair", {begin, text, end}},
        {"special_tokens",
         {{"__en__", {{"id", "__en__"}, {"ids", {2}}, {"tokens", {"__en__"}}}},
          {"</s>", {{"id", "</s>"}, {"ids", {1}}, {"tokens", {"</s>"}}}}}}};
    const nlohmann::json file = {
        {"version", "1.0"},
        {"added_tokens", added},
        {"normalizer", nullptr},
        {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
        {"post_processor", around},
        {"decoder", nullptr},
        {"model", {{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", "w5"}}}};
    std::ofstream(path + "/tokenizer.json") << file.dump();
    return path;
  }

 private:
  static nlohmann::json Special(int id, const char* piece) {
    return {{"id", id},
            {"content", piece},
            {"special", true},
            {"normalized", false},
            {"single_word", false},
            {"lstrip", false},
            {"rstrip", false}};
  }

  // Bytes as tokens: <unk> 0, <s> 1, </s> 2, a space 3, "a" 4 to "z" 29, and pieces without text.
  static void WriteTokenizer(const std::string& folder) {
    nlohmann::json vocabulary = {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}, {"\u0120", 3}};
    for (int i = 0; i < 26; ++i) vocabulary[std::string(1, static_cast<char>('a' + i))] = 4 + i;
    for (int i = 30; i < kTinyVocabulary; ++i)
      vocabulary[std::string("a") + static_cast<char>('a' + i % 26) + std::to_string(i)] = i;
    nlohmann::json added = nlohmann::json::array();
    for (int i = 0; i < 3; ++i)
      added.push_back(Special(i, i == 0 ? "<unk>" : i == 1 ? "<s>" : "</s>"));
    const nlohmann::json level = {{"type", "ByteLevel"},
                                  {"add_prefix_space", false},
                                  {"trim_offsets", true},
                                  {"use_regex", true}};
    const nlohmann::json begin = {{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
                         text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
    const nlohmann::json around = {
        {"type", "TemplateProcessing"},
        {"single", {begin, text}},
        {"pair", {begin, text}},
        {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {1}}, {"tokens", {"<s>"}}}}}}};
    const nlohmann::json file = {
        {"version", "1.0"},
        {"added_tokens", added},
        {"normalizer", nullptr},
        {"pre_tokenizer", level},
        {"post_processor", around},
        {"decoder", level},
        {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", nlohmann::json::array()}}}};
    const nlohmann::json config = {
        {"bos_token", "<s>"},
        {"eos_token", "</s>"},
        {"chat_template",
         "{% for t in tools or [] %}[{{ t }}]{% endfor %}{% if mood %}[{{ mood }}]{% endif %}"
         "{% for m in messages %}<s>{{ m.role }} {{ m.content }}</s>{% endfor %}"
         "{% if add_generation_prompt %}<s>assistant{% endif %}"}};
    std::ofstream(folder + "/tokenizer.json") << file.dump();
    std::ofstream(folder + "/tokenizer_config.json") << config.dump();
  }

  std::filesystem::path folder_;
};

}  // namespace evoq
