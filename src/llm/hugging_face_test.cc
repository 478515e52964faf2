// Folders: settings that are wrong, tensors that do not fit, random ones that do.
#include "llm/hugging_face.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>

#include "base/file.h"
#include "llm/facts.h"
#include "llm/import.h"
#include "llm/random_folder.h"
#include "llm/test_files.h"

namespace evoq {
namespace {

using nlohmann::json;

json Tiny() {
  return {{"model_type", "llama"},    {"vocab_size", 10},
          {"hidden_size", 8},         {"num_hidden_layers", 2},
          {"num_attention_heads", 2}, {"num_key_value_heads", 1},
          {"intermediate_size", 12},  {"max_position_embeddings", 64}};
}

TEST(Config, ThatIsWrong) {
  const struct {
    json change;
    const char* wanted;
  } cases[] = {
      {{{"model_type", "mamba"}},
       "model_type is 'mamba', expected one of llama, mistral, ministral3"},
      {{{"model_type", 3}}, "model_type is ''"},
      {{{"vocab_size", nullptr}}, "vocab_size is missing"},
      {{{"vocab_size", -1}}, "vocab_size is -1, expected a whole number"},
      {{{"vocab_size", 1e30}}, "vocab_size is 1e+30, expected a whole number"},
      {{{"vocab_size", "ten"}}, "vocab_size is \"ten\""},
      {{{"hidden_size", 2.5}}, "hidden_size is 2.5"},
      {{{"num_attention_heads", 0}}, "num_attention_heads is 0"},
      {{{"num_key_value_heads", 0}}, "key heads is 0, expected 1"},
      {{{"num_key_value_heads", 3}}, "2 heads and 3 key heads, expected a multiple"},
      {{{"num_hidden_layers", 5000}}, "layers is 5000, expected 1 to 1024"},
      {{{"num_hidden_layers", 100000000000}}, "layers is 100000000000"},
      {{{"head_dim", 3}}, "3 rotated values of heads of 3"},
      {{{"partial_rotary_factor", 0}}, "partial_rotary_factor is 0"},
      {{{"hidden_act", "selu"}}, "hidden_act is \"selu\", expected one of silu, swish, gelu,"},
      {{{"rms_norm_eps", 0}}, "epsilon of norms is 0"},
      {{{"rms_norm_eps", true}}, "rms_norm_eps is true, expected a number"},
      {{{"rope_theta", -1}}, "rope theta is -1"},
      {{{"rope_scaling", {{"rope_type", "xpos"}}}},
       "rope_scaling of type \"xpos\", expected one of default, linear, dynamic"},
      {{{"rope_scaling", {{"type", "linear"}, {"factor", 0}}}}, "rope factor is 0"},
      {{{"rope_scaling", {{"type", "linear"}}}}, "rope_scaling has no factor"},
      {{{"rope_scaling", {{"type", "dynamic"}, {"alpha", 1000}}}},
       "dynamic with alpha 1000, expected none"},
      {{{"rope_scaling", {{"type", "yarn"}, {"factor", 0}}}}, "yarn of factor 0"},
      {{{"rope_scaling", {{"type", "yarn"}, {"factor", 1e30}}}}, "yarn of factor 1e+30"},
      {{{"rope_scaling", {{"type", "yarn"}, {"factor", 2}, {"beta_slow", -1}}}}, "beta_slow -1"},
      {{{"rope_scaling", {{"type", "yarn"}, {"factor", 2}, {"attention_factor", -1}}}},
       "rope attention factor is -1, expected a positive number"},
      {{{"rope_scaling", {{"type", "yarn"}, {"original_max_position_embeddings", 0.5}}}},
       "original_max_position_embeddings is 0.5, expected 1 or more"},
      {{{"rope_scaling", {{"type", "yarn"}, {"factor", 2}, {"llama_4_scaling_beta", -1}}}},
       "llama_4_scaling_beta is -1, expected 0 or more"},
      {{{"rope_scaling", {{"type", "longrope"}}}}, "rope_scaling has no short_factor"},
      {{{"rope_scaling", {{"type", "longrope"}, {"short_factor", {1, 2, 3}}}}},
       "short_factor is [1,2,3], expected 2 numbers"},
      {{{"rope_scaling", {{"type", "su"}, {"short_factor", {1, 2}}, {"long_factor", {1, "x"}}}}},
       "long_factor is [1,\"x\"], expected 2 numbers"},
      {{{"rope_scaling", {{"type", "su"}, {"short_factor", {1, 0}}, {"long_factor", {1, 1}}}}},
       "a factor of rope is not positive"},
      {{{"model_type", "smollm3"}, {"no_rope_layers", {1, 2}}},
       "no_rope_layers holds 2, expected 0 or 1"},
      {{{"model_type", "smollm3"}, {"no_rope_layers", {1}}},
       "rotary embeddings of 1 layers, expected 2"},
      {{{"model_type", "smollm3"}, {"no_rope_layer_interval", 0}}, "no_rope_layer_interval is 0"},
      {{{"model_type", "granite"}, {"logits_scaling", 0}}, "logits_scaling is 0, expected more"},
      {{{"model_type", "gpt_neox"}, {"use_parallel_residual", "no"}},
       "use_parallel_residual is \"no\", expected true or false"},
      {{{"num_local_experts", 8}},
       "num_local_experts is 8: mixtures of experts are read of mixtral,"},
      {{{"model_type", "qwen3"}, {"num_experts", 128}}, "granitemoehybrid, not of qwen3"},
      {{{"model_type", "deepseek_v3"}, {"n_routed_experts", 256}},
       "model_type is 'deepseek_v3', expected one of"},
      {{{"model_type", "gemma3"}, {"text_config", {{"model_type", "gemma3_text"}}}},
       "hidden_size is missing"},
      {{{"rope_scaling", {{"rope_type", "llama3"}, {"high_freq_factor", 0.5}}}},
       "low_freq_factor 1 and high_freq_factor 0.5"},
      {{{"head_dim", 1000000000000000}, {"rope_scaling", {{"rope_type", "llama3"}, {"factor", 8}}}},
       "head size is 1000000000000000, expected 1 to 16384"},
      {{{"model_type", "gemma2"}, {"num_hidden_layers", 1000000000000000}, {"sliding_window", 4}},
       "layers is 1000000000000000, expected 1 to 1024"},
      {{{"rope_scaling", json::array({1})}}, "rope_scaling is [1], expected an object"},
      {{{"rope_parameters", "x"}}, "rope_parameters is \"x\", expected an object"},
      {{{"rope_parameters", {{"full_attention", 3}}}}, "full_attention is 3, expected an object"},
      {{{"model_type", "gemma3_text"}, {"sliding_window_pattern", 0}},
       "sliding_window_pattern is 0, expected 1 or more"},
      {{{"tie_word_embeddings", 1}}, "tie_word_embeddings is 1, expected true or false"},
      {{{"eos_token_id", 10}}, "token 10 of a vocabulary of 10"},
      {{{"eos_token_id", json::array({1, "x"})}}, "eos_token_id is [1,\"x\"], expected tokens"},
      {{{"model_type", "gemma2"}, {"query_pre_attn_scalar", 0}}, "query_pre_attn_scalar is 0"},
      {{{"model_type", "gemma2"}, {"sliding_window", 4}, {"layer_types", {"full_attention"}}},
       "windows of 1 layers, expected 2"},
      {{{"model_type", "gpt2"}, {"scale_attn_by_inverse_layer_idx", true}},
       "scale_attn_by_inverse_layer_idx is true, expected false"},
      {{{"model_type", "gpt2"}, {"alibi", true}}, "alibi is true, expected false"},
      {{{"model_type", "bloom"}, {"alibi", false}}, "alibi is false, expected true"},
      {{{"model_type", "bloom"}, {"apply_residual_connection_post_layernorm", true}},
       "apply_residual_connection_post_layernorm is true, expected false"},
      {{{"model_type", "mpt"}, {"attn_config", {{"alibi", false}}}},
       "attn_config: alibi is false, expected true"},
      {{{"model_type", "mpt"}, {"attn_config", {{"qk_ln", true}}}},
       "attn_config: qk_ln is true, expected false"},
      {{{"model_type", "mpt"}, {"attn_config", {{"attn_type", "multiquery_attention"}}}},
       "attn_config: attn_type is 'multiquery_attention', expected multihead_attention"},
      {{{"model_type", "mpt"}, {"attn_config", {{"alibi_bias_max", 1e30}}}},
       "attn_config: alibi_bias_max is 1e+30, expected more than 0, at most 64"},
      {{{"model_type", "mpt"}, {"attn_config", 3}}, "attn_config is 3, expected an object"},
      {{{"model_type", "mpt"}, {"expansion_ratio", 1000000}},
       "expansion_ratio is 1000000, expected 1 to 1024"},
      {{{"model_type", "falcon"}, {"multi_query", 1}}, "multi_query is 1, expected true or false"},
      {{{"model_type", "opt"}, {"do_layer_norm_before", false}},
       "do_layer_norm_before is false, expected true"},
      {{{"model_type", "gptj"}, {"rotary_dim", 3}}, "3 rotated values of heads of 4"},
      {{{"model_type", "gpt_neo"}, {"attention_types", {{{"local", "x"}, 1}}}},
       "attention_types holds \"x\", expected \"global\" and \"local\""},
      {{{"model_type", "gpt_neo"}, {"attention_types", {{{"local"}, 1000000}}}},
       "attention_types holds [[\"local\"],1000000], expected types and how often they come"},
      {{{"model_type", "gpt_neo"}, {"attention_types", {{{"local"}, 1}}}},
       "windows of 1 layers, expected 2"},
      {{{"model_type", "granitemoehybrid"}}, "layer_types is missing, expected \"attention\""},
      {{{"model_type", "granitemoehybrid"}, {"layer_types", {"attention", "mamba"}}},
       "layer_types holds \"mamba\", expected \"attention\" alone"},
      {{{"model_type", "gemma2"}, {"sliding_window", 4}, {"layer_types", {"chunked", "x"}}},
       "layer_types holds \"chunked\", expected \"full_attention\" or \"sliding_attention\""},
  };
  for (const auto& c : cases) {
    json config = Tiny();
    config.update(c.change);
    const auto model = ReadConfig(config);
    ASSERT_FALSE(model) << c.wanted;
    EXPECT_NE(model.error().message().find(c.wanted), std::string::npos)
        << model.error().message() << "\nwanted: " << c.wanted;
  }
  EXPECT_FALSE(ReadConfig(json::array()));
  EXPECT_FALSE(ReadConfig(json(3)));
}

TEST(Config, Windows) {
  json config = Tiny();
  config.update({{"model_type", "qwen2"}, {"sliding_window", 4}, {"max_window_layers", 1}});
  EXPECT_TRUE(ReadConfig(config)->windowed.empty()) << "use_sliding_window is not there";
  config["use_sliding_window"] = true;
  EXPECT_EQ(ReadConfig(config)->windowed, (std::vector<bool>{false, true}));
  config["model_type"] = "llama";
  EXPECT_EQ(ReadConfig(config)->window, 0);
  config["model_type"] = "mistral";
  EXPECT_EQ(ReadConfig(config)->windowed, (std::vector<bool>{true, true}));
  config["model_type"] = "gemma2";
  EXPECT_EQ(ReadConfig(config)->windowed, (std::vector<bool>{true, false}));
  config.update({{"model_type", "gemma3_text"}, {"num_hidden_layers", 7}});
  const std::vector<bool> sixth = {true, true, true, true, true, false, true};
  EXPECT_EQ(ReadConfig(config)->windowed, sixth);
  config["sliding_window_pattern"] = 3;
  const std::vector<bool> third = {true, true, false, true, true, false, true};
  EXPECT_EQ(ReadConfig(config)->windowed, third);
}

TEST(Config, AnglesOfLayersWithAWindow) {
  const auto thetas = [](const json& change) {
    json config = Tiny();
    config.update({{"model_type", "gemma3_text"}, {"sliding_window", 4}});
    config.update(change);
    const LanguageModel model = ReadConfig(config).value();
    return std::pair(model.rope.theta, model.local_rope.value_or(model.rope).theta);
  };
  EXPECT_EQ(thetas({{"rope_theta", 1e6}}), std::pair(1e6, 1e4));
  EXPECT_EQ(thetas({{"rope_theta", 1e6}, {"rope_local_base_freq", 500}}), std::pair(1e6, 500.0));
  const json by_type = {{"full_attention", {{"rope_theta", 1e6}}},
                        {"sliding_attention", {{"rope_theta", 700}}}};
  EXPECT_EQ(thetas({{"rope_parameters", by_type}}), std::pair(1e6, 700.0));
  EXPECT_EQ(thetas({{"model_type", "gemma2"}, {"rope_theta", 1e6}}), std::pair(1e6, 1e6));
}

// What a folder leaves out is what transformers' class of the family has.
TEST(Config, MissingSettings) {
  const struct {
    const char* family;
    int64_t context, inner, kv_heads, head_size, window;
    double epsilon, theta, attention_softcap, logit_softcap;
  } cases[] = {
      {"llama", 2048, 11008, 32, 8, 0, 1e-6, 1e4, 0, 0},
      {"mistral", 131072, 14336, 8, 8, 4096, 1e-6, 1e4, 0, 0},
      {"qwen2", 32768, 22016, 32, 8, 4096, 1e-6, 1e4, 0, 0},
      {"qwen3", 32768, 22016, 32, 128, 4096, 1e-6, 1e4, 0, 0},
      {"gemma", 8192, 24576, 16, 256, 0, 1e-6, 1e4, 0, 0},
      {"gemma2", 8192, 9216, 4, 256, 4096, 1e-6, 1e4, 50, 30},
      {"gemma3_text", 131072, 9216, 4, 256, 4096, 1e-6, 1e6, 0, 0},
      {"phi3", 4096, 8192, 32, 8, 0, 1e-5, 1e4, 0, 0},
      {"gpt2", 1024, 1024, 32, 8, 0, 1e-5, 1e4, 0, 0},
      {"phi", 2048, 8192, 32, 8, 0, 1e-5, 1e4, 0, 0},
      {"gpt_neox", 2048, 24576, 32, 8, 0, 1e-5, 1e4, 0, 0},
      {"stablelm", 4096, 6912, 32, 8, 0, 1e-5, 1e4, 0, 0},
      {"granite", 2048, 11008, 32, 8, 0, 1e-6, 1e4, 0, 0},
      {"olmo2", 2048, 11008, 32, 8, 0, 1e-5, 1e4, 0, 0},
      {"olmo3", 2048, 11008, 32, 8, 4096, 1e-5, 5e5, 0, 0},
      {"smollm3", 32768, 11008, 4, 8, 0, 1e-6, 2e6, 0, 0},
      {"starcoder2", 4096, 12288, 2, 8, 0, 1e-5, 1e4, 0, 0},
      {"cohere", 8192, 22528, 32, 8, 0, 1e-5, 5e5, 0, 0},
      {"cohere2", 8192, 22528, 32, 8, 4096, 1e-5, 1e4, 0, 0},
      {"arcee", 4096, 18432, 32, 8, 0, 1e-5, 1e4, 0, 0},
      {"nemotron", 4096, 24576, 32, 8, 0, 1e-5, 1e4, 0, 0},
      {"ernie4_5", 131072, 3072, 2, 128, 0, 1e-5, 5e5, 0, 0},
      {"seed_oss", 524288, 27648, 8, 128, 0, 1e-6, 1e4, 0, 0},
      {"exaone4", 2048, 16384, 32, 8, 4096, 1e-5, 1e4, 0, 0},
      {"ministral3", 262144, 14336, 8, 128, 0, 1e-5, 1e6, 0, 0},
      {"glm4", 131072, 13696, 2, 128, 0, 1.5625e-7, 1e4, 0, 0},
      {"qwen2_5_vl_text", 32768, 29568, 8, 8, 4096, 1e-5, 1e6, 0, 0},
      {"qwen3_vl_text", 128000, 22016, 32, 128, 0, 1e-6, 5e5, 0, 0},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.family);
    const json config = {{"model_type", c.family},    {"vocab_size", 10},
                         {"hidden_size", 256},        {"num_hidden_layers", 30},
                         {"num_attention_heads", 32}, {"use_sliding_window", true}};
    const auto m = ReadConfig(config);
    ASSERT_TRUE(m) << m.error().message();
    EXPECT_EQ(m->context, c.context);
    EXPECT_EQ(m->inner, c.inner);
    EXPECT_EQ(m->kv_heads, c.kv_heads);
    EXPECT_EQ(m->head_size, c.head_size);
    EXPECT_EQ(m->window, c.window);
    EXPECT_EQ(m->epsilon, static_cast<float>(c.epsilon));
    EXPECT_EQ(m->rope.theta, c.theta);
    EXPECT_EQ(m->attention_softcap, static_cast<float>(c.attention_softcap));
    EXPECT_EQ(m->logit_softcap, static_cast<float>(c.logit_softcap));
    if (c.family == std::string_view("qwen2") || c.family == std::string_view("qwen3")) {
      EXPECT_EQ(std::ranges::count(m->windowed, true), 2);
      EXPECT_TRUE(m->windowed[28] && m->windowed[29]);
    }
  }
  // null is no default: none, or what follows from the sizes.
  json config = Tiny();
  config.update({{"model_type", "gemma2"},
                 {"final_logit_softcapping", nullptr},
                 {"attn_logit_softcapping", nullptr},
                 {"sliding_window", nullptr},
                 {"num_key_value_heads", nullptr},
                 {"head_dim", nullptr}});
  const auto m = ReadConfig(config);
  ASSERT_TRUE(m) << m.error().message();
  EXPECT_EQ(m->logit_softcap, 0);
  EXPECT_EQ(m->attention_softcap, 0);
  EXPECT_EQ(m->window, 0);
  EXPECT_EQ(m->kv_heads, 2);
  EXPECT_EQ(m->head_size, 4);
}

// Which layers turn, by the settings of each family that leaves some out.
TEST(Config, LayersWithoutRotaryEmbedding) {
  json config = Tiny();
  config.update({{"model_type", "smollm3"}, {"num_hidden_layers", 5}});
  EXPECT_EQ(ReadConfig(config)->unturned, (std::vector<bool>{false, false, false, true, false}));
  config["no_rope_layer_interval"] = 2;
  EXPECT_EQ(ReadConfig(config)->unturned, (std::vector<bool>{false, true, false, true, false}));
  config["no_rope_layers"] = {0, 1, 1, 1, 0};
  EXPECT_EQ(ReadConfig(config)->unturned, (std::vector<bool>{true, false, false, false, true}));
  config.update({{"use_sliding_window", true}, {"sliding_window", 4}});
  EXPECT_EQ(ReadConfig(config)->windowed, ReadConfig(config)->unturned);
  for (const char* family : {"cohere2", "exaone4"}) {
    config["model_type"] = family;
    EXPECT_EQ(ReadConfig(config)->unturned, (std::vector<bool>{false, false, false, true, false}));
  }
  config["sliding_window"] = nullptr;
  EXPECT_TRUE(ReadConfig(config)->unturned.empty());
  config["model_type"] = "llama";
  EXPECT_TRUE(ReadConfig(config)->unturned.empty());
}

// What Gemma 3's folders of models with pictures leave out, and what the whole says for its part.
TEST(Config, OfALargerModel) {
  const json part = {{"model_type", "gemma3_text"},
                     {"hidden_size", 64},
                     {"num_hidden_layers", 2},
                     {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8}}}};
  const auto m =
      ReadConfig({{"model_type", "gemma3"}, {"eos_token_id", {1, 106}}, {"text_config", part}});
  ASSERT_TRUE(m) << m.error().message();
  EXPECT_TRUE(m->wrapped);
  EXPECT_EQ(m->architecture, "gemma3_text");
  EXPECT_EQ(m->vocabulary, 262208);
  EXPECT_EQ(m->heads, 8);
  EXPECT_EQ(m->end, (std::vector<int64_t>{1, 106}));
  EXPECT_EQ(m->rope.divisor, 8);
  EXPECT_EQ(m->local_rope.value().divisor, 1);
  EXPECT_FALSE(ReadConfig(part)->wrapped);
}

// A folder of the test's own.
class Folders : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "evoq_folder_" + std::to_string(getpid());
    ASSERT_TRUE(WriteRandomFolder(Tiny(), {.biased = true}, 1, folder_));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void Write(const std::string& name, const std::string& text) const {
    ASSERT_TRUE(WriteFileAtomic(folder_ + "/" + name, text));
  }
  std::string folder_;
};

TEST_F(Folders, RandomOnesFollowTheSeed) {
  const auto weights = [&] { return *ReadTextFile(folder_ + "/model.safetensors"); };
  const std::string one = weights();
  ASSERT_TRUE(WriteRandomFolder(Tiny(), {.biased = true}, 2, folder_));
  EXPECT_NE(one, weights());
  ASSERT_TRUE(WriteRandomFolder(Tiny(), {.biased = true}, 1, folder_));
  EXPECT_EQ(one, weights());
  ASSERT_TRUE(IsLanguageModelPath(folder_));
  const auto graph = ImportLanguageModel(folder_);
  ASSERT_TRUE(graph) << graph.error().message();
  EXPECT_TRUE(graph->Verify());
  const ValueId w = graph->FindValue("blk.1.ffn_down.weight");
  ASSERT_TRUE(w.valid());
  EXPECT_EQ(graph->value(w).type.ToString(), "bfloat16[8, 12]");
  const auto bytes = LanguageModelBytes(folder_);
  ASSERT_TRUE(bytes);
  EXPECT_EQ(*bytes, static_cast<int64_t>(one.size()));
}

// The same weights in shards.
TEST_F(Folders, RandomShards) {
  const Graph whole = ImportLanguageModel(folder_).value();
  const std::string shards = folder_ + "/shards";
  ASSERT_TRUE(WriteRandomFolder(
      Tiny(), {.biased = true, .most_in_file = 100, .most_in_shard = 1000}, 1, shards));
  EXPECT_FALSE(std::filesystem::exists(shards + "/model.safetensors"));
  const auto index = json::parse(*ReadTextFile(shards + "/model.safetensors.index.json"));
  std::map<std::string, int> files;
  for (const auto& [tensor, file] : index["weight_map"].items()) ++files[file];
  EXPECT_GT(files.size(), 2u);
  uint64_t bytes = 0;
  for (const auto& [file, tensors] : files) {
    const auto size = std::filesystem::file_size(shards + "/" + file);
    EXPECT_TRUE(tensors == 1 || size < 1000 + 3000) << file << ": a header, and 1000 at most";
    bytes += size;
  }
  EXPECT_LT(index["metadata"]["total_size"].get<uint64_t>(), bytes);
  const auto graph = ImportLanguageModel(shards);
  ASSERT_TRUE(graph) << graph.error().message();
  ASSERT_EQ(graph->value_count(), whole.value_count());
  for (int i = 0; i < whole.value_count(); ++i) {
    if (!whole.value(ValueId{i}).is_constant()) continue;
    const ValueId id = graph->FindValue(whole.value(ValueId{i}).name);
    ASSERT_TRUE(id.valid());
    EXPECT_TRUE(BitEqual(graph->value(id).constant, whole.value(ValueId{i}).constant));
  }
}

json TinyMixture() {
  json config = Tiny();
  config.update({{"model_type", "qwen2_moe"},
                 {"num_experts", 3},
                 {"num_experts_per_tok", 2},
                 {"moe_intermediate_size", 6},
                 {"shared_expert_intermediate_size", 10},
                 {"mlp_only_layers", {0}}});
  return config;
}

TEST_F(Folders, MixturesOfExperts) {
  const std::string folder = folder_ + "/mixture";
  ASSERT_TRUE(WriteRandomFolder(TinyMixture(), {.biased = true}, 1, folder));
  const auto error = [&](const json& change) {
    json config = TinyMixture();
    config.update(change);
    EXPECT_TRUE(WriteFileAtomic(folder + "/config.json", config.dump()));
    const auto graph = ImportLanguageModel(folder);
    return graph ? "" : graph.error().message();
  };
  EXPECT_EQ(error(json::object()), "");
  const struct {
    json change;
    const char* wanted;
  } cases[] = {
      {{{"num_experts", 4}}, "tensor mlp.gate.weight of layer 1 is bfloat16[3, 8], expected sizes"},
      {{{"num_experts", 2}}, "expected sizes [2, 8]"},
      {{{"num_experts", -3}}, "num_experts is -3, expected a whole number"},
      {{{"num_experts", 100000}}, "100000 experts in each of 2 layers, expected at most 1024"},
      {{{"num_experts_per_tok", 4}}, "4 of 3 experts are used, expected 1 to 3"},
      {{{"num_experts_per_tok", 0}}, "0 of 3 experts are used"},
      {{{"moe_intermediate_size", 0}}, "inner width of experts is 0"},
      {{{"moe_intermediate_size", 7}}, "tensor mlp.experts.0.gate_proj.weight of layer 1 is"},
      {{{"decoder_sparse_step", 0}}, "decoder_sparse_step is 0, expected 1 or more"},
      {{{"mlp_only_layers", {2}}}, "mlp_only_layers holds 2, expected layers of 2"},
      {{{"mlp_only_layers", json::array()}}, "tensor mlp.gate.weight of layer 0 is missing"},
      {{{"norm_topk_prob", 3}}, "norm_topk_prob is 3, expected true or false"},
      {{{"clip_qkv", -8.0}}, "a scale or cap is -8"},
      {{{"model_type", "llama"}},
       "num_experts is 3: mixtures of experts are read of mixtral, qwen2_moe, qwen3_moe, olmoe, "
       "granitemoe, granitemoeshared, gpt_oss, granitemoehybrid, not of llama"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.wanted);
    EXPECT_NE(error(c.change).find(c.wanted), std::string::npos) << error(c.change);
  }
}

// gpt-oss's stacks of gates and ups in turn, plain and in MXFP4.
TEST_F(Folders, ExpertsInTurn) {
  json config = Tiny();
  config.update({{"model_type", "gpt_oss"},
                 {"hidden_size", 32},
                 {"head_dim", 16},
                 {"intermediate_size", 64},
                 {"num_hidden_layers", 1},
                 {"tie_word_embeddings", true},
                 {"num_local_experts", 2},
                 {"num_experts_per_tok", 1}});
  using Sizes = std::vector<int64_t>;
  const std::string experts = "model.layers.0.mlp.experts.";
  const std::map<std::string, Sizes> others = {
      {"model.embed_tokens.weight", {10, 32}},
      {"model.norm.weight", {32}},
      {"model.layers.0.input_layernorm.weight", {32}},
      {"model.layers.0.post_attention_layernorm.weight", {32}},
      {"model.layers.0.self_attn.q_proj.weight", {32, 32}},
      {"model.layers.0.self_attn.k_proj.weight", {16, 32}},
      {"model.layers.0.self_attn.v_proj.weight", {16, 32}},
      {"model.layers.0.self_attn.o_proj.weight", {32, 32}},
      {"model.layers.0.self_attn.sinks", {2}},
      {"model.layers.0.mlp.router.weight", {2, 32}},
      {experts + "gate_up_proj_bias", {2, 128}},
      {experts + "down_proj_bias", {2, 32}}};
  const std::map<std::string, Sizes> plain = {{experts + "gate_up_proj", {2, 32, 128}},
                                              {experts + "down_proj", {2, 64, 32}}},
                                     blocks = {{experts + "gate_up_proj_blocks", {2, 128, 1, 16}},
                                               {experts + "gate_up_proj_scales", {2, 128, 1}},
                                               {experts + "down_proj_blocks", {2, 32, 2, 16}},
                                               {experts + "down_proj_scales", {2, 32, 2}}};
  // Bytes count up; floats are 1, 2, ...
  const auto read = [&](std::map<std::string, Sizes> tensors,
                        const std::function<void(std::map<std::string, Sizes>&)>& change) {
    tensors.insert(others.begin(), others.end());
    change(tensors);
    json header = json::object();
    std::string data;
    for (const auto& [name, sizes] : tensors) {
      const bool bytes = name.ends_with("_blocks") || name.ends_with("_scales");
      const size_t begin = data.size();
      int64_t count = 1;
      for (const int64_t size : sizes) count *= size;
      for (int64_t i = 0; i < count; ++i) {
        if (bytes) {
          data += static_cast<char>(i % 250);
          continue;
        }
        const float value = static_cast<float>(i + 1);
        data.append(reinterpret_cast<const char*>(&value), sizeof(value));
      }
      header[name] = {{"dtype", bytes ? "U8" : "F32"},
                      {"shape", sizes},
                      {"data_offsets", {begin, data.size()}}};
    }
    const std::string folder = folder_ + "/turn";
    EXPECT_TRUE(MakeDirectories(folder));
    json settings = config;
    if (tensors.contains(experts + "gate_up_proj_blocks"))
      settings["quantization_config"] = {{"quant_method", "mxfp4"}};
    EXPECT_TRUE(WriteFileAtomic(folder + "/config.json", settings.dump()));
    EXPECT_TRUE(
        WriteFileAtomic(folder + "/model.safetensors", SafetensorsBytes(header.dump(), data)));
    return ImportLanguageModel(folder);
  };
  const auto same = [](std::map<std::string, Sizes>&) {};
  const auto constant = [](const Graph& graph, const char* name) {
    const ValueId id = graph.FindValue(name);
    EXPECT_TRUE(id.valid()) << name;
    return id.valid() ? graph.value(id).constant : Tensor();
  };
  const auto real = read(plain, same);
  ASSERT_TRUE(real) << real.error().message();
  // Expert 1, input 3, up 5: element 1 * 32 * 128 + 3 * 128 + 11.
  const Tensor up = constant(*real, "blk.0.ffn_up.1.weight");
  ASSERT_EQ(up.type(), TensorType(DType::kFloat32, Shape{32, 64}));
  EXPECT_EQ(up.data<float>()[3 * 64 + 5], 4096 + 384 + 11 + 1);
  EXPECT_EQ(constant(*real, "blk.0.ffn_gate.1.bias").data<float>()[5], 128 + 10 + 1);
  EXPECT_EQ(constant(*real, "blk.0.ffn_down.1.weight").data<float>()[3 * 32 + 5], 2048 + 96 + 6);
  const auto packed = read(blocks, same);
  ASSERT_TRUE(packed) << packed.error().message();
  // Expert 1, up 5 is row 1 * 128 + 11; input 3 the upper half of its byte 1.
  const Tensor few = constant(*packed, "blk.0.ffn_up.1.weight");
  ASSERT_EQ(few.dtype(), DType::kFloat4E2M1);
  const int byte = (139 * 16 + 1) % 250;
  const float value = ToFloat32(few)->data<float>()[3 * 64 + 5];
  EXPECT_EQ(value, std::ldexp(TinyFloatToFloat(DType::kFloat4E2M1, static_cast<uint8_t>(byte >> 4)),
                              139 - 127));
  const auto error = [&](const std::map<std::string, Sizes>& tensors, const auto& change) {
    const auto graph = read(tensors, change);
    return graph ? std::string() : graph.error().message();
  };
  const auto expect = [&](const std::string& message, const char* wanted) {
    EXPECT_NE(message.find(wanted), std::string::npos) << message;
  };
  expect(
      error(plain, [&](auto& t) { t[experts + "gate_up_proj"] = {2, 32, 127}; }),
      "ffn_pair_exps.weight is float32[2, 32, 127], expected real elements of sizes [2, 32, 128]");
  expect(error(plain, [&](auto& t) { t[experts + "down_proj_bias"] = {3, 32}; }),
         "ffn_last_bias.weight is float32[3, 32]");
  expect(error(plain, [&](auto& t) { t.erase(experts + "down_proj"); }),
         "tensor blk.0.ffn_down.0.weight is missing");
  expect(error(blocks, [&](auto& t) { t.erase(experts + "down_proj_scales"); }),
         "tensors blk.0.ffn_last_*: blocks of 32 inputs with their scales");
  expect(error(blocks, [&](auto& t) { t[experts + "gate_up_proj"] = {2, 32, 128}; }),
         "tensors blk.0.ffn_pair_*: blocks of 32 inputs");
  expect(error(blocks, [&](auto& t) { t[experts + "gate_up_proj_blocks"] = {2, 128, 1, 15}; }),
         "expected uint8 elements of sizes [2, 128, 1, 16]");
}

TEST_F(Folders, TensorsThatDoNotFit) {
  const auto error = [&](const json& change) {
    json config = Tiny();
    config.update(change);
    Write("config.json", config.dump());
    const auto graph = ImportLanguageModel(folder_);
    return graph ? "" : graph.error().message();
  };
  EXPECT_EQ(error(json::object()), "");
  EXPECT_NE(error({{"num_hidden_layers", 1}})
                .find("tensor self_attn.k_proj.bias of layer 1 (bfloat16[4]) has no place"),
            std::string::npos);
  EXPECT_NE(
      error({{"num_hidden_layers", 3}}).find("tensor input_layernorm.weight of layer 2 is missing"),
      std::string::npos);
  EXPECT_NE(
      error({{"intermediate_size", 13}})
          .find(
              "tensor mlp.gate_proj.weight of layer 0 is bfloat16[12, 8], expected sizes [13, 8]"),
      std::string::npos);
  EXPECT_EQ(error({{"tie_word_embeddings", true}}), "") << "a head that is tied is not read";
}

// longrope: rows for short caches stand before those for long ones.
TEST_F(Folders, RotaryFactorsByTheCaches) {
  const auto rows = [&](int64_t context, int64_t original = 20) {
    json config = Tiny();
    config.update({{"original_max_position_embeddings", original},
                   {"max_position_embeddings", context},
                   {"rope_scaling",
                    {{"type", "longrope"}, {"short_factor", {1, 2}}, {"long_factor", {3, 4}}}}});
    Write("config.json", config.dump());
    const Graph graph = ImportLanguageModel(folder_).value();
    const Tensor& sines = graph.value(graph.FindValue("rope.sin")).constant;
    const double over = static_cast<double>(context) / static_cast<double>(original);
    const double magnitude =
        over > 1 ? std::sqrt(1 + std::log(over) / std::log(static_cast<double>(original))) : 1;
    EXPECT_NEAR(sines.values<float>()[2], std::sin(1.0) * magnitude, 1e-6);
    const int64_t second = 2 * (original + 1);  // of the long ones
    if (sines.sizes()[0] > second)
      EXPECT_NEAR(sines.values<float>()[second], std::sin(1.0 / 3) * magnitude, 1e-6);
    return sines.sizes()[0];
  };
  EXPECT_EQ(rows(10), 10);
  EXPECT_EQ(rows(20), 20);
  EXPECT_EQ(rows(64), 84);
  EXPECT_EQ(rows(100000), 20 + kMostPositions);
  EXPECT_EQ(rows(100000, 50000), kMostPositions) << "the model is no longer than the short ones";
}

TEST_F(Folders, WhatGeneratingNeeds) {
  const std::string binary = "\x80\xff\x01 a model \xc3";
  Write("tokenizer.model", binary);
  Write("tokenizer_config.json", R"({"chat_template": [{"name": "tools", "template": "no"},
                                     {"name": "default", "template": "{{ m }}"}]})");
  Write("added_tokens.json", R"({"<|user|>": 5})");
  Write("special_tokens_map.json", "{}");
  Write("generation_config.json", R"({"eos_token_id": [2, 9, 400]})");
  json config = Tiny();
  config["eos_token_id"] = 2;
  config["bos_token_id"] = 1;
  Write("config.json", config.dump());
  auto graph = ImportLanguageModel(folder_);
  ASSERT_TRUE(graph) << graph.error().message();
  auto facts = ReadFacts(*graph);
  ASSERT_TRUE(facts) << facts.error().message();
  EXPECT_EQ(facts->begin, (std::vector<int64_t>{1}));
  EXPECT_EQ(facts->end, (std::vector<int64_t>{2, 9})) << "400 is no token";
  EXPECT_EQ(facts->chat_template, "{{ m }}");
  EXPECT_EQ(facts->files.at("tokenizer.model"), binary);
  EXPECT_EQ(facts->files.at("added_tokens.json"), R"({"<|user|>": 5})");
  EXPECT_EQ(facts->files.size(), 4u);
  EXPECT_EQ(graph->metadata.count("llm.base64.tokenizer.model"), 1u) << "facts are UTF-8";

  Write("tokenizer.json", "{}");
  Write("chat_template.jinja", "new");
  facts = ReadFacts(*ImportLanguageModel(folder_));
  EXPECT_EQ(facts->files.at("tokenizer.json"), "{}");
  EXPECT_EQ(facts->files.count("tokenizer.model"), 0u);
  EXPECT_EQ(facts->files.count("added_tokens.json"), 0u) << "tokenizer.json has them";
  EXPECT_EQ(facts->chat_template, "new");
  EXPECT_EQ(facts->files.at("chat_template.jinja"), "new");

  graph->metadata["llm.base64.tokenizer.model"] = "abc";
  EXPECT_FALSE(ReadFacts(*graph));
  graph->metadata["llm.base64.tokenizer.model"] = "ab=c";
  EXPECT_FALSE(ReadFacts(*graph));
  graph->metadata.erase("llm.base64.tokenizer.model");
  graph->metadata["llm.end"] = "1;2";
  EXPECT_FALSE(ReadFacts(*graph));
  graph->metadata.erase("llm.architecture");
  EXPECT_FALSE(ReadFacts(*graph));
}

TEST(Facts, BytesOfEverySizeComeBack) {
  LanguageModel model;
  model.architecture = "llama";
  for (size_t n = 0; n < 9; ++n) model.files[std::to_string(n)] = std::string(n, '\xfe');
  Graph graph;
  SetFacts(model, graph);
  const auto facts = ReadFacts(graph);
  ASSERT_TRUE(facts) << facts.error().message();
  EXPECT_EQ(facts->files, model.files);
}

}  // namespace
}  // namespace evoq
