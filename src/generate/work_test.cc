// The runs that language models are measured in, and what those have to do.
#include "generate/work.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "generate/cached_form.h"
#include "llm/part_weights.h"
#include "llm/parts.h"
#include "llm/phase.h"
#include "llm/random_folder.h"
#include "llm/tiny_llama.h"
#include "models/models.h"
#include "runtime/buffers.h"

namespace evoq {
namespace {

class PhaseTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / fmt::format("evoq_phase_{}", ::getpid());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<Engine> Load(const nlohmann::json& config) const {
    EXPECT_TRUE(WriteRandomFolder(config, {}, 1, folder_.string()));
    auto engine = LoadEngine(folder_.string(), {.threads = 1});
    EXPECT_TRUE(engine) << engine.error().message();
    return std::move(*engine);
  }
  static PhaseInputs InputsAt(const Graph& graph, const Phase& phase, int64_t room = 0) {
    const auto inputs = FindCacheInputs(graph);
    EXPECT_TRUE(inputs.has_value());
    auto at = InputsOf(graph, *inputs, phase, room);
    EXPECT_TRUE(at) << at.error().message();
    return at ? *at : PhaseInputs();
  }
  static std::map<std::string, Work> WorkAt(Engine& engine, const Phase& phase) {
    const auto executor = engine.At(InputsAt(engine.model().graph, phase).shapes);
    EXPECT_TRUE(executor) << executor.error().message();
    std::map<std::string, Work> by_part;
    for (const PartWork& part : WorkOf((*executor)->program(), phase))
      by_part[part.part] = part.work;
    return by_part;
  }
  std::filesystem::path folder_;
};

constexpr size_t kFloat = static_cast<size_t>(Peak::kFloat32);

TEST_F(PhaseTest, AllInputsFollowFromThePhase) {
  const auto engine = Load(TinyLlamaConfig());
  const Graph& graph = engine->model().graph;
  EXPECT_EQ(MostTokens(graph), 64);
  EXPECT_EQ(VocabularyOf(graph), 96);
  const PhaseInputs at = InputsAt(graph, {3, 10, 2});
  EXPECT_EQ(at.shapes.size(), graph.inputs().size());
  EXPECT_EQ(at.shapes.at("input_ids"), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(at.shapes.at("past_value.1"), (std::vector<int64_t>{3, 2, 12, 8}));
  EXPECT_EQ(InputsAt(graph, {3, 10, 2}, 40).shapes.at("past_key.0")[2], 40);
  for (const int64_t place : at.contents.at("position").values<int64_t>()) EXPECT_EQ(place, 10);
  for (const int64_t wanted : at.contents.at("logits_at").values<int64_t>()) EXPECT_EQ(wanted, 1);
  std::set<int64_t> tokens;
  for (const int64_t token : at.contents.at("input_ids").values<int64_t>()) {
    EXPECT_GE(token, 0);
    EXPECT_LT(token, 96);
    tokens.insert(token);
  }
  EXPECT_EQ(tokens.size(), 6u);
}

// Of experts what one token's, or all, can choose.
TEST_F(PhaseTest, OnlyExpertsInUseAreRead) {
  nlohmann::json config = TinyLlamaConfig();
  config.update({{"model_type", "mixtral"}, {"num_local_experts", 16}, {"num_experts_per_tok", 2}});
  const auto engine = Load(config);
  const int64_t width = config["hidden_size"], inner = config["intermediate_size"],
                layers = config["num_hidden_layers"], matrices = 3 * width * inner * layers;
  const auto bytes = [&](int64_t tokens) {
    return WorkAt(*engine, {1, 4, tokens})["feed-forward"];
  };
  const int64_t router = 16 * width * layers;
  const Work one = bytes(1), three = bytes(3), all = bytes(9);
  // Sizes of Reshapes and axes, a few bytes each, count too.
  EXPECT_NEAR(one.weight_bytes, 4 * (2 * matrices + router), 100 * layers);
  EXPECT_NEAR(three.weight_bytes, 4 * (6 * matrices + router), 100 * layers);
  EXPECT_NEAR(all.weight_bytes, 4 * (16 * matrices + router), 100 * layers);
  EXPECT_EQ(one.all_macs(), 2 * matrices + router + 2 * width * layers);
  EXPECT_EQ(three.all_macs(), 3 * one.all_macs());
}

TEST_F(PhaseTest, WhatAModelDoesNotHoldIsRefused) {
  const auto engine = Load(TinyLlamaConfig());
  const Graph& graph = engine->model().graph;
  const auto refused = [&](const Phase& phase) {
    const auto at = InputsOf(graph, *FindCacheInputs(graph), phase);
    return at ? std::string() : at.error().message();
  };
  EXPECT_EQ(refused({1, 63, 1}), "");
  EXPECT_EQ(refused({1, 64, 1}), "1 tokens behind 64: the model holds at most 64");
  EXPECT_NE(refused({0, 0, 1}), "");
  EXPECT_NE(refused({1, -1, 1}), "");
  EXPECT_NE(refused({int64_t{1} << 22, 0, 64}), "");
  auto other =
      ParseGraph("graph g\ninput %x: float32[2]\nr: %y: float32[2] = Relu(%x)\noutput %y\n");
  ASSERT_TRUE(other);
  EXPECT_FALSE(FindCacheInputs(*other).has_value());
}

TEST(Phases, DefaultsFollowFromTheModel) {
  const auto is = [](const Phase& phase, int64_t sequences, int64_t context, int64_t tokens) {
    return phase.sequences == sequences && phase.context == context && phase.tokens == tokens;
  };
  EXPECT_TRUE(is(kPromptPhase.of({}, 4096), 1, 0, 512));
  EXPECT_TRUE(is(kPromptPhase.of({}, 64), 1, 0, 64));
  EXPECT_TRUE(is(kPromptPhase.of({.prompt_length = 7, .context = 5}, 64), 1, 5, 7));
  EXPECT_TRUE(is(kDecodePhase.of({}, 4096), 1, 512, 1));
  EXPECT_TRUE(is(kDecodePhase.of({}, 64), 1, 63, 1));
  EXPECT_TRUE(is(kDecodePhase.of({.context = 0, .sequences = 4}, 64), 4, 0, 1));
  EXPECT_EQ(FindPhase("decode"), &kDecodePhase);
  EXPECT_EQ(FindPhase("prefill"), nullptr);
  EXPECT_EQ(AllPhases().size(), 2u);
}

TEST_F(PhaseTest, WorkIsWhatTheTokensNeed) {
  const auto engine = Load(TinyLlamaConfig());
  std::map<std::string, Work> one = WorkAt(*engine, {1, 10, 1});
  EXPECT_EQ(one["attention"].macs[kFloat], 2 * (32 * 32 + 2 * 32 * 16 + 32 * 32));
  EXPECT_EQ(one["feed-forward"].macs[kFloat], 2 * 3 * 32 * 48);
  EXPECT_EQ(one["feed-forward"].weight_bytes, 2 * 3 * 32 * 48 * 4);
  EXPECT_EQ(one["head"].macs[kFloat], 32 * 96);
  EXPECT_EQ(one["head"].weight_bytes, 32 * 96 * 4);
  EXPECT_EQ(one["embedding"].weight_bytes, 32 * 2) << "one row of the table, in bfloat16";
  EXPECT_EQ(one["norms"].weight_bytes, 32 * 4) << "all alike, so that they are stored once";
  EXPECT_EQ(one["cache"].macs[kFloat], 2 * 11 * 4 * 16);
  // 11 keys and values are read, one of each is written.
  EXPECT_EQ(one["cache"].cache_bytes, 2 * 12 * 2 * 16 * 4);
  // Of int8 a row's bytes and its scale.
  auto narrow = InCachedForm(Load(TinyLlamaConfig()), "", "int8");
  ASSERT_TRUE(narrow) << narrow.error().message();
  EXPECT_EQ(WorkAt(**narrow, {1, 10, 1})["cache"].cache_bytes, 2 * 12 * 2 * (16 + 4));
  // Three sequences of five tokens behind three; of each the last one's logits.
  std::map<std::string, Work> many = WorkAt(*engine, {3, 3, 5});
  EXPECT_EQ(many["feed-forward"].macs[kFloat], 15 * one["feed-forward"].macs[kFloat]);
  EXPECT_EQ(many["feed-forward"].weight_bytes, one["feed-forward"].weight_bytes);
  EXPECT_EQ(many["head"].macs[kFloat], 3 * one["head"].macs[kFloat]);
  EXPECT_EQ(many["cache"].macs[kFloat], 2 * 3 * (4 + 5 + 6 + 7 + 8) * 4 * 16);
}

TEST_F(PhaseTest, AWindowEndsWhatIsSeen) {
  nlohmann::json config = TinyLlamaConfig();
  config["model_type"] = "mistral";
  config["architectures"] = {"MistralForCausalLM"};
  config["sliding_window"] = 5;
  const auto engine = Load(config);
  std::map<std::string, Work> one = WorkAt(*engine, {1, 10, 1});
  EXPECT_EQ(one["cache"].macs[kFloat], 2 * 5 * 4 * 16);
  EXPECT_EQ(one["cache"].cache_bytes, 2 * (5 + 1) * 2 * 16 * 4);
}

// A measured run repeats on the caches that it extends.
TEST_F(PhaseTest, CachesAreExtendedInPlaceWhereARunRepeats) {
  const auto engine = Load(TinyLlamaConfig());
  const Graph& graph = engine->model().graph;
  const PhaseInputs at = InputsAt(graph, {1, 6, 1});
  const auto executor = engine->At(at.shapes);
  ASSERT_TRUE(executor);
  std::vector<Tensor> sample;
  for (const ValueId id : graph.inputs()) {
    const std::string& name = graph.value(id).name;
    const auto content = at.contents.find(name);
    sample.push_back(
        content != at.contents.end()
            ? content->second
            : Tensor::Allocate(TensorType(DType::kFloat32, Shape(at.shapes.at(name)))));
  }
  const auto shared = [&](const RunBuffers& buffers) {
    int count = 0;
    for (size_t o = 0; o < buffers.outputs.size(); ++o) {
      const int input = (*executor)->shared_input(o);
      count += input >= 0 && buffers.outputs[o].raw() == buffers.inputs[input].raw();
    }
    return count;
  };
  (*executor)->UseSample(sample);
  EXPECT_EQ(shared(MakeBuffers(**executor)), 0);
  (*executor)->UseSample(sample, /*repeats_in_place=*/true);
  RunBuffers buffers = MakeBuffers(**executor);
  EXPECT_EQ(shared(buffers), 4);
  ASSERT_TRUE((*executor)->Run(buffers.inputs, buffers.outputs));
  const std::vector<float> first(buffers.outputs[0].values<float>().begin(),
                                 buffers.outputs[0].values<float>().end());
  ASSERT_TRUE((*executor)->Run(buffers.inputs, buffers.outputs));
  EXPECT_TRUE(std::ranges::equal(first, buffers.outputs[0].values<float>()));
  for (const Tensor& tensor : sample) {
    if (tensor.dtype() != DType::kFloat32) continue;
    for (const float x : tensor.values<float>()) ASSERT_EQ(x, 0) << "the sample was written";
  }
  const auto fresh = (*executor)->Fresh();
  ASSERT_TRUE(fresh);
  EXPECT_TRUE((*fresh)->repeats_in_place());
}

TEST_F(PhaseTest, WeightsByPartAddUp) {
  EXPECT_TRUE(WriteRandomFolder(TinyLlamaConfig(), {}, 1, folder_.string()));
  const auto graph = ImportModel(folder_.string());
  ASSERT_TRUE(graph);
  std::map<std::string, int64_t> parameters;
  for (const PartWeights& w : WeightsByPart(*graph)) parameters[w.part] = w.parameters;
  const std::map<std::string, int64_t> expected = {
      {"attention", 2 * (32 * 32 + 2 * 32 * 16 + 32 * 32)},
      {"feed-forward", 2 * 3 * 32 * 48},
      {"norms", 5 * 32},
      {"positions", 2 * 64 * 4},
      {"embedding", 32 * 96},
      {"head", 32 * 96}};
  EXPECT_EQ(parameters, expected);
}

// The parameters of a tied head, and its bytes where it lies in the file as the embedding does, are
// the embedding's.
TEST_F(PhaseTest, ATiedHeadCountsOnce) {
  nlohmann::json config = TinyLlamaConfig();
  config["tie_word_embeddings"] = true;
  EXPECT_TRUE(WriteRandomFolder(config, {}, 1, folder_.string()));
  const auto graph = ImportModel(folder_.string());
  ASSERT_TRUE(graph);
  int64_t parameters = 0, bytes = 0;
  for (const PartWeights& w : WeightsByPart(*graph)) {
    if (w.part == "positions") continue;
    parameters += w.parameters;
    bytes += w.bytes;
    if (w.part == "head") EXPECT_EQ(w.precisions.count("bfloat16"), 1u);
  }
  const int64_t layer = 32 * 32 + 2 * 32 * 16 + 32 * 32 + 3 * 32 * 48, norms = 5 * 32;
  EXPECT_EQ(parameters, 2 * layer + norms + 32 * 96);
  // Norms are widened when they are read, and so is a small table.
  EXPECT_LE(bytes, 4 * parameters);
}

// A table that is looked up and multiplied with is of both parts.
TEST(Parts, OfAConstantAreThoseOfItsReaders) {
  auto graph = ParseGraph(
      "graph g\ninput %i: int64[1]\ninput %x: float32[1, 2]\n"
      "const %w: float32[2, 2] = [1, 2, 3, 4]\nconst %b: float32[2] = [1, 2]\n"
      "token_embd: %e: float32[1, 2] = Gather(%w, %i)\n"
      "w.transposed: %t: float32[2, 2] = Transpose(%w)\n"
      "output: %y: float32[1, 2] = MatMul(%x, %t)\n"
      "blk.0.attended: %z: float32[1, 2] = Add(%y, %b)\noutput %e\noutput %z\n");
  ASSERT_TRUE(graph) << graph.error().message();
  EXPECT_EQ(PartOf(*graph, graph->FindValue("w")), "embedding + head");
  EXPECT_EQ(PartOf(*graph, graph->FindValue("b")), "other");
}

TEST(Parts, AreToldByTheNamesOfExporters) {
  const auto part = [](const char* name, const char* op = "MatMul") {
    Node node{.op = op, .name = name};
    return std::string(PartOf(node));
  };
  EXPECT_EQ(part("/model/layers.0/self_attn/q_proj/MatMul"), "attention");
  EXPECT_EQ(part("/model/layers.0/mlp/gate_proj/MatMul"), "feed-forward");
  EXPECT_EQ(part("/model/layers.0/input_layernorm/Mul", "Mul"), "norms");
  EXPECT_EQ(part("/model/embed_tokens/Gather", "Gather"), "embedding");
  EXPECT_EQ(part("/lm_head/MatMul"), "head");
  EXPECT_EQ(part("output"), "head");
  EXPECT_EQ(part("output_norm", "RMSNormalization"), "norms");
  EXPECT_EQ(part("blk.3.attn_q.turned", "RotaryEmbedding"), "positions");
  EXPECT_EQ(part("blk.3.attention", "Attention"), "cache");
  EXPECT_EQ(part("blk.3.cache_key", "TensorScatter"), "cache");
  EXPECT_EQ(part("blk.3.attended", "Add"), "other");
}

}  // namespace
}  // namespace evoq
