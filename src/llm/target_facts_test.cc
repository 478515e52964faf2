#include "llm/target_facts.h"

#include <gtest/gtest.h>

#include "llm/distance_bias.h"

namespace evoq {
namespace {

constexpr int64_t kVocabulary = 40;

TEST(TargetFacts, AreReadAsTheyWereWritten) {
  TargetFacts f{.source_context = 12, .source_vocabulary = 9, .start = {3}, .forced_begin = {4}};
  f.forced_end = {5};
  f.suppressed = {6, 7};
  f.begin_suppressed = {8};
  f.no_repeat = 2;
  f.min_tokens = 3;
  f.length_penalty = -0.5;
  f.early_stopping = true;
  f.audio = {.bins = 80, .rate = 8000, .window = 200, .hop = 80, .names_language = false};
  Graph graph;
  SetTargetFacts(f, graph);
  const auto read = ReadTargetFacts(graph, kVocabulary);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_TRUE(read->reads() && read->hears());
  Graph again;
  SetTargetFacts(*read, again);
  EXPECT_EQ(graph.metadata, again.metadata);
  const auto none = ReadTargetFacts(Graph(), kVocabulary);
  ASSERT_TRUE(none);
  EXPECT_FALSE(none->reads() || none->hears());
}

TEST(TargetFacts, WrongOnesAreRefused) {
  const std::string good = R"("source_context": 4, "source_vocabulary": 4, "start": [1])";
  const auto read = [](const std::string& text) {
    Graph graph;
    graph.metadata["llm.target"] = text;
    return ReadTargetFacts(graph, kVocabulary);
  };
  ASSERT_TRUE(read("{" + good + "}"));
  const std::pair<std::string, const char*> wrong[] = {
      {"[]", "it is no object"},
      {"{", "llm.target"},
      {"{}", "source_context is missing"},
      {R"({"source_context": 0, "source_vocabulary": 4, "start": [1]})", "a source of 0 tokens"},
      {R"({"source_context": 4, "source_vocabulary": 4})", "decoder_start_token_id is missing"},
      {R"({"source_context": 1e9, "source_vocabulary": 4, "start": [1]})", "a whole number"},
      {"{" + good + R"(, "suppressed": [40]})", "token 40 of a vocabulary of 40"},
      {"{" + good + R"(, "forced_end": [-1]})", "expected tokens"},
      {"{" + good + R"(, "length_penalty": 1e300})", "length_penalty is"},
      {"{" + good + R"(, "no_repeat": -1})", "no_repeat is -1"},
      {"{" + good + R"(, "audio": {"bins": 80, "rate": 1, "window": 3, "hop": 1}})", "frames of 3"},
      {"{" + good + R"(, "audio": {"bins": 5000, "rate": 1, "window": 2, "hop": 1}})", "5000 bins"},
      {"{" + good + R"(, "audio": {"bins": 80, "rate": 1, "window": 2, "hop": 0}})", "one every 0"},
      {"{" + good + R"(, "audio": {"bins": 80, "rate": 1, "window": 4, "hop": 5}})",
       "frames of 4 samples, one every 5"}};
  for (const auto& [text, part] : wrong) {
    const auto found = read(text);
    ASSERT_FALSE(found) << text;
    EXPECT_NE(found.error().message().find(part), std::string::npos) << found.error().message();
  }
}

// Of T5: 32 buckets up to a distance of 128.
TEST(DistanceBuckets, AreThoseOfT5) {
  const DistanceBuckets both, past{.both_sides = false};
  const std::pair<int64_t, int64_t> of_both[] = {{0, 0},     {-1, 1},   {-7, 7},   {-8, 8},
                                                 {-15, 9},   {-16, 10}, {-90, 14}, {-91, 15},
                                                 {-999, 15}, {1, 17},   {8, 24},   {999, 31}};
  for (const auto& [distance, bucket] : of_both) EXPECT_EQ(both.Of(distance), bucket) << distance;
  const std::pair<int64_t, int64_t> of_past[] = {{5, 0},    {0, 0},     {-15, 15}, {-16, 16},
                                                 {-64, 26}, {-127, 31}, {-500, 31}};
  for (const auto& [distance, bucket] : of_past) EXPECT_EQ(past.Of(distance), bucket) << distance;
}

TEST(SlopesOf, AreThoseOfThePaper) {
  EXPECT_EQ(SlopesOf(4, 8), (std::vector<float>{0.25f, 0.0625f, 0.015625f, 0.00390625f}));
  EXPECT_EQ(SlopesOf(2, 2), (std::vector<float>{0.5f, 0.25f}));
  // Those of 4 heads, then every second one of 8.
  EXPECT_EQ(SlopesOf(6, 8),
            (std::vector<float>{0.25f, 0.0625f, 0.015625f, 0.00390625f, 0.5f, 0.125f}));
  EXPECT_EQ(SlopesOf(1, 8), (std::vector<float>{0.00390625f}));
}

}  // namespace
}  // namespace evoq
