// Models that read one text and write another, and beams.
#include <algorithm>
#include <cmath>
#include <set>

#include "base/guarded.h"
#include "generate/beams.h"
#include "generate/generate_testing.h"
#include "generate/sequences.h"
#include "generate/translator_testing.h"
#include "generate/work.h"
#include "models/models.h"

namespace evoq {
namespace {

using namespace generate_test;

class TranslatorTest : public GenerateTest {
 protected:
  std::string T5(const std::string& name = "t5") const {
    WriteTinyT5(At(name));
    return At(name);
  }
};

std::vector<int64_t> Source(int64_t count, int64_t first) {
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(2 + (first + i * i * 7 + 5 * i) % 38);
  return tokens;
}

TEST_F(TranslatorTest, ManyAtATimeAreThoseOfEach) {
  const auto many = Load(T5(), {.slots = 3, .context = 32}), one = Load(T5(), {.context = 32});
  ASSERT_NE(many, nullptr);
  ASSERT_TRUE(many->reads());
  std::vector<Request> requests;
  for (int64_t i = 0; i < 7; ++i)
    requests.push_back({Source(1 + 5 * i % 11, i), {.max_tokens = 1 + 4 * i % 9}});
  requests[5].options.max_tokens = 500;  // to the end of the context
  requests[5].options.ignore_end = true;
  const auto texts = GenerateMany(*many, std::nullopt, {}, requests);
  ASSERT_TRUE(texts) << texts.error().message();
  Writer writer(*one, std::nullopt, {});
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto text = writer.Write(requests[i].prompt, requests[i].options);
    ASSERT_TRUE(text) << text.error().message();
    EXPECT_EQ((*texts)[i].tokens, text->tokens) << i;
    EXPECT_EQ(text->prompt_tokens, std::ssize(requests[i].prompt));
  }
  EXPECT_EQ((*texts)[5].ended, Ended::kContext);
}

TEST_F(TranslatorTest, ASourceIsReadOnce) {
  const auto model = Load(T5(), {.context = 32});
  ASSERT_NE(model, nullptr);
  Writer writer(*model, std::nullopt, {});
  const std::vector<int64_t> source = Source(9, 1), other = Source(9, 2);
  const auto first = writer.Write(source, {.max_tokens = 8}),
             again = writer.Write(source, {.max_tokens = 8}),
             others = writer.Write(other, {.max_tokens = 8}),
             last = writer.Write(source, {.max_tokens = 8});
  ASSERT_TRUE(first && again && others && last);
  EXPECT_EQ(first->prompt_tokens, 9);
  EXPECT_EQ(again->prompt_tokens, 0);
  EXPECT_EQ(others->prompt_tokens, 9);
  EXPECT_EQ(again->tokens, first->tokens);
  EXPECT_EQ(last->tokens, first->tokens);
  EXPECT_NE(others->tokens, first->tokens);
  // A text in the middle of which the model began another one.
  auto writing = writer.Begin(other, {.max_tokens = 8});
  ASSERT_TRUE(writing && writing->Advance());
  EXPECT_EQ(writer.Write(source, {.max_tokens = 8})->tokens, first->tokens);
  EXPECT_FALSE(writing->Advance());
}

TEST_F(TranslatorTest, WhatDoesNotFitIsRefused) {
  const auto model = Load(T5(), {.context = 16});
  ASSERT_NE(model, nullptr);
  Writer writer(*model, std::nullopt, {});
  const auto refused = [&](const auto& result, const char* part) {
    ASSERT_FALSE(result);
    EXPECT_NE(result.error().message().find(part), std::string::npos) << result.error().message();
  };
  refused(writer.Write({}, {}), "a text of no tokens");
  refused(writer.Write(Source(17, 0), {}), "a text of 17 tokens to read, expected at most 16");
  refused(writer.Write(std::vector<int64_t>{40}, {}), "token 40, expected 0 to 39");
  refused(writer.Write(Source(3, 0), {.score_prompt = true}), "says nothing of its tokens");
  refused(writer.Write(Source(3, 0), {.beams = 2}), "2 beams, expected 1 to the 1 sequences");
  refused(writer.Logits(Source(3, 0), 1), "says nothing of its tokens");
  refused(writer.Save(At("cache")), "no prompt is kept");
  refused(writer.Restore(At("cache")), "no prompt is kept");
  const auto other = Load(T5(), {.context = 16});
  Writer drafting(*model, std::nullopt, {}, other.get());
  refused(drafting.Write(Source(3, 0), {}), "takes a draft");
  refused(
      GenerateMany(*model, std::nullopt, {}, std::vector<Request>{{Source(3, 0), {.beams = 2}}}),
      "2 beams of one of several texts");
  const auto llama = Load(Folder(1), {.slots = 2});
  Writer plain(*llama, std::nullopt, {});
  refused(plain.Write(Tokens(3), {.begin = {5}}), "a language of the text");
  refused(plain.Write(Tokens(3), {.sampling = {.temperature = 1}, .beams = 2}), "no temperature");
  refused(plain.Write(Tokens(3), {.sampling = {.logit_bias = {{1, 2.0}}}, .beams = 2}), "no bias");
  refused(plain.Write(Tokens(3), {.beams = 2, .length_penalty = NAN}), "a length penalty of nan");
}

TEST_F(TranslatorTest, HostileFoldersAreRefused) {
  const auto error_of = [&](const char* name, const nlohmann::json& changes,
                            const std::string& without = "") {
    nlohmann::json config = TinyT5Config();
    if (changes.is_object()) config.update(changes);
    WriteTinyT5(At(name), config, without);
    const auto model = CachedModel::Load(At(name), {});
    return model ? std::string() : SentenceOf(model.error());
  };
  const auto expect = [](const std::string& error, const char* part) {
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  expect(error_of("a", {}, "decoder.block.1.layer.1.EncDecAttention.k"),
         "tensor decoder.block.1.layer.1.EncDecAttention.k.weight is missing");
  expect(error_of("b", {}, "shared"), "tensor shared.weight is missing");
  expect(error_of("c", {{"d_ff", 25}}), "DenseReluDense.wi.weight is float32[24, 16], expected");
  expect(error_of("d", {{"num_layers", 0}}), "layers is 0, expected 1 to 1024");
  expect(error_of("e", {{"d_kv", "8"}}), "d_kv is \"8\", expected a whole number");
  expect(error_of("f", {{"num_heads", 1 << 20}}), "heads is 1048576, expected 1 to 16384");
  expect(error_of("g", {{"decoder_start_token_id", 40}}), "token 40 of a vocabulary of 40");
  expect(error_of("h", {{"eos_token_id", -1}}), "eos_token_id is -1, expected tokens");
  expect(error_of("i", {{"feed_forward_proj", "gated-sine"}}), "\"sine\", expected one of");
  expect(error_of("j", {{"relative_attention_num_buckets", 6}}), "expected a multiple of 4");
  expect(error_of("k", {{"relative_attention_max_distance", 1 << 30}}),
         "relative_attention_max_distance is 1073741824, expected 32 to 65536");
  expect(error_of("l", {{"quantization_config", {{"bits", 4}}}}), "quantization_config is there");
  expect(error_of("m", {{"bad_words_ids", {{1, 2}}}}), "bad_words_ids holds [1,2]");
  expect(error_of("n", {{"num_decoder_layers", 1}}), "has no place in this architecture");
  expect(error_of("o", {{"length_penalty", 1e9}}), "length_penalty is 1000000000");
  EXPECT_EQ(error_of("p", {}), "");
}

// Slots get what their parents had, whatever copies and rings that takes.
TEST_F(TranslatorTest, ReorderedSlotsHaveTheirParentsTokens) {
  const auto model = Load(Folder(1), {.slots = 5}), single = Load(Folder(1));
  const std::vector<std::vector<int64_t>> orders = {
      {0, 1, 2, 3, 4}, {1, 0, 3, 4, 2}, {0, 0, 0, 0, 0}, {4, 4, 1, 2, 3}, {2, 0, 1, 1, 3}};
  for (const std::vector<int64_t>& order : orders) {
    for (int64_t slot = 0; slot < 5; ++slot) {
      model->Truncate(slot, 0);
      ASSERT_TRUE(model->Append(slot, Tokens(6, slot)));
    }
    model->Reorder(order);
    const std::vector<float> got = Copy(model->Step(0, std::vector<int64_t>{9, 9, 9, 9, 9}));
    for (size_t slot = 0; slot < 5; ++slot) {
      single->Truncate(0, 0);
      ASSERT_TRUE(single->Append(0, Tokens(6, order[slot])));
      ExpectNear(Copy(single->Append(0, std::vector<int64_t>{9})),
                 std::span(got).subspan(slot * kVocabulary, kVocabulary));
    }
  }
}

// With a beam for each text that is not whole yet, the best one of all texts is found.
TEST_F(TranslatorTest, ManyBeamsFindTheLikeliestTextOfAll) {
  const auto model = Load(T5(), {.slots = 40, .context = 32}), single = Load(T5(), {.context = 32});
  ASSERT_NE(model, nullptr);
  const std::vector<int64_t> source = Source(5, 3);
  constexpr int64_t kEnd = 1, kTokens = 40;
  for (const double penalty : {0.0, 1.0, 2.0}) {
    double best = -INFINITY;
    std::vector<int64_t> likeliest;
    const auto logprobs = [&](const std::vector<int64_t>& text) {
      std::vector<int64_t> tokens = {0};
      tokens.insert(tokens.end(), text.begin(), text.end());
      single->Truncate(0, 0);
      std::vector<float> logits = Copy(single->Append(0, tokens));
      double sum = 0;
      for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
      for (float& logit : logits) logit -= static_cast<float>(std::log(sum));
      return logits;
    };
    const auto consider = [&](std::vector<int64_t> text, double sum, double length) {
      if (const double score = sum / std::pow(length, penalty); score > best) {
        best = score;
        likeliest = std::move(text);
      }
    };
    ASSERT_TRUE(single->Encode(0, {source, nullptr}));
    const std::vector<float> first = logprobs({});
    consider({}, first[kEnd], 1);
    for (int64_t a = 0; a < kTokens; ++a) {
      if (a == kEnd) continue;
      const std::vector<float> second = logprobs({a});
      consider({a}, first[a] + second[kEnd], 2);
      for (int64_t b = 0; b < kTokens; ++b)
        if (b != kEnd) consider({a, b}, first[a] + second[b], 2);
    }
    Writer writer(*model, std::nullopt, {kEnd});
    const auto text =
        writer.Write(source, {.max_tokens = 2, .beams = 40, .length_penalty = penalty});
    ASSERT_TRUE(text) << text.error().message();
    EXPECT_EQ(text->tokens, likeliest) << penalty;
  }
}

// Caches that are copied and exchanged from step to step give what texts give that are run anew.
TEST_F(TranslatorTest, BeamsAreThoseOfASearchWithoutCaches) {
  const auto model = Load(T5(), {.slots = 5, .context = 32}), single = Load(T5(), {.context = 32});
  ASSERT_NE(model, nullptr);
  struct Text {
    std::vector<int64_t> tokens;
    double sum = 0;
  };
  for (const size_t beams : {2, 3, 5}) {
    const std::vector<int64_t> source = Source(4 + static_cast<int64_t>(beams), 2);
    ASSERT_TRUE(single->Encode(0, {source, nullptr}));
    std::vector<Text> texts = {{}};
    constexpr int64_t kMost = 20;
    for (int64_t step = 0; step < kMost; ++step) {
      std::vector<Text> next;
      for (const Text& text : texts) {
        std::vector<int64_t> tokens = {0};
        tokens.insert(tokens.end(), text.tokens.begin(), text.tokens.end());
        single->Truncate(0, 0);
        const std::vector<float> logits = Copy(single->Append(0, tokens));
        double all = 0;
        for (const float logit : logits) all += std::exp(static_cast<double>(logit));
        for (size_t id = 0; id < logits.size(); ++id) {
          next.push_back(text);
          next.back().tokens.push_back(static_cast<int64_t>(id));
          next.back().sum += logits[id] - std::log(all);
        }
      }
      std::ranges::sort(next, std::greater(), &Text::sum);
      next.resize(beams);
      texts = std::move(next);
    }
    Writer writer(*model, std::nullopt, {});
    const auto text =
        writer.Write(source, {.max_tokens = kMost, .beams = static_cast<int64_t>(beams)});
    ASSERT_TRUE(text) << text.error().message();
    EXPECT_EQ(text->tokens, texts[0].tokens) << beams;
  }
}

TEST_F(TranslatorTest, BeamsMayBeLeftAndFollowedByOthers) {
  const auto model = Load(T5(), {.slots = 4, .context = 32});
  Writer writer(*model, std::nullopt, {1});
  const GenerateOptions greedy{.max_tokens = 9}, beams{.max_tokens = 9, .beams = 4};
  const auto plain = writer.Write(Source(5, 1), greedy), wide = writer.Write(Source(5, 1), beams);
  ASSERT_TRUE(plain && wide);
  auto left = writer.Begin(Source(7, 2), beams);
  ASSERT_TRUE(left && left->Advance());
  const auto cut = left->Finish();
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->ended, Ended::kCaller);
  EXPECT_EQ(writer.Write(Source(5, 1), greedy)->tokens, plain->tokens);
  EXPECT_EQ(writer.Write(Source(5, 1), beams)->tokens, wide->tokens);
  EXPECT_EQ(writer.Write(Source(5, 1), greedy)->prompt_tokens, 5);
}

// The encoder, the decoder and the head read one table.
TEST_F(TranslatorTest, ATableOfBothIsOneConstant) {
  auto engine = LoadEngine(T5(), {.threads = 1});
  ASSERT_TRUE(engine) << engine.error().message();
  const Graph& graph = (*engine)->model().graph;
  std::set<int32_t> tables;
  int lookups = 0;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op != "Gather" || !node.name.ends_with("token_embd")) continue;
    ++lookups;
    tables.insert(node.input(0).index);
  }
  EXPECT_EQ(lookups, 2);
  EXPECT_EQ(tables.size(), 1u);
}

// What a run of each phase computes: the encoder's attention and products where a text is read, the
// decoder's alone where a token is written.
TEST_F(TranslatorTest, WorkIsThatOfTheTextThatIsReadOrWritten) {
  auto engine = LoadEngine(T5(), {.threads = 1});
  ASSERT_TRUE(engine) << engine.error().message();
  const Graph& graph = (*engine)->model().graph;
  const auto inputs = FindCacheInputs(graph);
  ASSERT_TRUE(inputs && inputs->reads());
  const auto work = [&](const Phase& phase) {
    const auto at = InputsOf(graph, *inputs, phase);
    EXPECT_TRUE(at) << at.error().message();
    const auto executor = (*engine)->At(at->shapes);
    EXPECT_TRUE(executor) << executor.error().message();
    return Sum(WorkOf((*executor)->program(), phase));
  };
  constexpr int64_t kWidth = 16, kInner = 24, kLayers = 2, kWords = 40;
  constexpr int64_t kAttention = 4 * kWidth * kWidth, kFeed = 2 * kWidth * kInner;
  // q and the output of both attentions, keys and values of its own.
  const int64_t token = kLayers * (kAttention + 2 * kWidth * kWidth + kFeed) + kWidth * kWords;
  const auto seen = [&](int64_t keys) { return kLayers * keys * 2 * kWidth; };
  EXPECT_EQ(work({1, 9, 1, 20}).all_macs(), token + seen(10) + seen(20));
  EXPECT_EQ(work({3, 9, 1, 20}).all_macs(), 3 * (token + seen(10) + seen(20)));
  const int64_t read = kLayers * (kAttention + kFeed + 2 * kWidth * kWidth);
  EXPECT_EQ(work({1, 0, 20}).all_macs(), 20 * (read + seen(20)) + token + seen(1) + seen(20));
  // No weight of the encoder is read where a token is written: beside the decoder's there are
  // biases of distances and sizes.
  constexpr int64_t kWeights =
      4 * (kLayers * (kAttention + 2 * kWidth * kWidth + kFeed + 3 * kWidth) + kWidth +
           kWidth * kWords + kWidth);
  EXPECT_GE(work({1, 9, 1, 20}).weight_bytes, kWeights);
  EXPECT_LT(work({1, 9, 1, 20}).weight_bytes, kWeights + 2048);
  const auto at = InputsOf(graph, *inputs, {1, 9, 1, 20});
  const auto executor = (*engine)->At(at->shapes);
  ASSERT_TRUE(executor);
  for (const Step& step : (*executor)->program().steps)
    if ((*executor)->program().graph->node(step.node).name.starts_with("enc."))
      EXPECT_EQ(step.bytes, 0) << (*executor)->program().graph->node(step.node).name;
  // Keys and values of both texts, and what is added.
  EXPECT_EQ(work({1, 9, 1, 20}).cache_bytes, kLayers * 2 * kWidth * 4 * (10 + 1 + 20));
  EXPECT_EQ(work({3, 9, 1, 20}).cache_bytes, 3 * kLayers * 2 * kWidth * 4 * (10 + 1 + 20));
}

}  // namespace
}  // namespace evoq
