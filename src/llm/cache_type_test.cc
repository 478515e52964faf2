// Caches of other types: how a graph changes, and what it refuses.
#include "llm/cache_type.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "llm/phase.h"
#include "reference/reference.h"

namespace evoq {
namespace {

// One layer: two heads that read one key head of 40 elements.
constexpr char kModel[] = R"(input %input_ids: int64[batch, sequence]
input %position: int64[batch]
input %logits_at: int64[batch, wanted]
input %past_key.0: float32[batch, 1, context, 40]
input %past_value.0: float32[batch, 1, context, 40]
const %q: float32[1, 2, 1, 40]
const %k: float32[1, 1, 1, 40]
const %length: int64[1] = [1]
keys: %present_key.0: float32[1, 1, context, 40] = TensorScatter{axis=2}(%past_key.0, %k, %position)
values: %present_value.0 = TensorScatter{axis=2}(%past_value.0, %k, %position)
attend: %logits = Attention{is_causal=1}(%q, %present_key.0, %present_value.0, _, _, _, %length)
output %logits
output %present_key.0
output %present_value.0
)";

Graph Parsed(std::string text) {
  auto graph = ParseGraph(text);
  EXPECT_TRUE(graph) << graph.error().message();
  const Status inferred = InferTypes(*graph);
  EXPECT_TRUE(inferred) << inferred.error().message();
  return std::move(*graph);
}

std::string TypeOf(const Graph& graph, const char* name) {
  const ValueId id = graph.FindValue(name);
  return id.valid() ? graph.value(id).type.ToString() : "none";
}

std::string Refused(Graph graph, DType type) {
  const Status changed = SetCacheType(graph, type);
  return changed ? "taken" : changed.error().message();
}

TEST(CacheType, Names) {
  EXPECT_EQ(*ParseCacheType(""), DType::kUndefined);
  for (const char* name : {"float16", "fp16", "f16"})
    EXPECT_EQ(*ParseCacheType(name), DType::kFloat16) << name;
  for (const char* name : {"int8", "q8_0"}) EXPECT_EQ(*ParseCacheType(name), DType::kInt8) << name;
  for (const char* name : {"float32", "f32"})
    EXPECT_EQ(*ParseCacheType(name), DType::kFloat32) << name;
  EXPECT_EQ(ParseCacheType("int4").error().message(),
            "a cache of 'int4', expected float32, float16 or int8");
}

TEST(CacheType, HalvesAreCastAsTheyCome) {
  Graph graph = Parsed(kModel);
  EXPECT_TRUE(HasCaches(graph, DType::kFloat32));
  ASSERT_TRUE(SetCacheType(graph, DType::kFloat16));
  EXPECT_TRUE(HasCaches(graph, DType::kFloat16));
  EXPECT_EQ(TypeOf(graph, "past_key.0"), "float16[batch, 1, context, 40]");
  EXPECT_EQ(TypeOf(graph, "present_value.0"), "float16[batch, 1, context, 40]");
  EXPECT_EQ(TypeOf(graph, "logits"), "float32[1, 2, 1, 40]");
  EXPECT_EQ(graph.inputs().size(), 5u);
  EXPECT_TRUE(graph.Verify());
}

TEST(CacheType, BytesHaveScalesBesideThem) {
  Graph graph = Parsed(kModel);
  ASSERT_TRUE(SetCacheType(graph, DType::kInt8));
  EXPECT_TRUE(HasCaches(graph, DType::kInt8));
  EXPECT_FALSE(HasCaches(graph, DType::kFloat16)) << "not all of them";
  EXPECT_EQ(TypeOf(graph, "past_key.0"), "int8[batch, 1, context, 40]");
  EXPECT_EQ(TypeOf(graph, "past_key_scale.0"), "float16[batch, 1, context, 2]");
  EXPECT_EQ(TypeOf(graph, "present_value_scale.0"), "float16[batch, 1, context, 2]");
  ASSERT_EQ(graph.outputs().size(), 5u);
  EXPECT_TRUE(graph.Verify());
  // Keys' scales are for keys.
  const Node& attend = graph.node(graph.FindNode("attend"));
  ASSERT_EQ(attend.inputs.size(), 9u);
  EXPECT_EQ(graph.value(attend.inputs[7]).name, "present_key_scale.0");
  EXPECT_EQ(graph.value(attend.inputs[8]).name, "present_value_scale.0");
  const auto inputs = FindCacheInputs(graph);
  ASSERT_TRUE(inputs);
  EXPECT_EQ(inputs->caches.size(), 4u);
  // Again, and as it is: nothing changes.
  const std::string before = Print(graph);
  for (DType same : {DType::kInt8, DType::kUndefined}) {
    ASSERT_TRUE(SetCacheType(graph, same));
    EXPECT_EQ(Print(graph), before);
  }
}

std::string With(const char* from, const char* to) {
  std::string text = kModel;
  text.replace(text.find(from), std::string(from).size(), to);
  return text;
}

// Rotary factors that depend on the caches' size ask for it.
TEST(CacheType, SizesMayBeRead) {
  Graph graph =
      Parsed(With("output %logits", "size: %n: int64[4] = Shape(%past_key.0)\noutput %n"));
  const auto changed = SetCacheType(graph, DType::kInt8);
  ASSERT_TRUE(changed) << changed.error().message();
  EXPECT_EQ(graph.value(graph.FindValue("past_key.0")).type.dtype, DType::kInt8);
}

TEST(CacheType, RefusesWhatItDoesNotKnow) {
  Graph narrow = Parsed(kModel);
  ASSERT_TRUE(SetCacheType(narrow, DType::kFloat16));
  EXPECT_EQ(Refused(narrow, DType::kInt8),
            "its caches are float16 already: int8 needs the model as it was before");
  EXPECT_EQ(Refused(narrow, DType::kFloat32),
            "its caches are float16 already: float32 needs the model as it was before");
  EXPECT_EQ(Refused(Parsed("input %x: float32[2]\nrelu: %y: float32[2] = Relu(%x)\noutput %y\n"),
                    DType::kInt8),
            "no language model with caches (docs/llm.md)");
  EXPECT_EQ(Refused(Parsed(With("output %logits",
                                "more: %z: float32[1, 1, context, 40] = "
                                "Relu(%present_key.0)\noutput %z")),
                    DType::kInt8),
            "node more (Relu) reads the cache past_key.0, expected attention alone");
  EXPECT_EQ(Refused(Parsed(With("output %logits",
                                "more: %z: float32[batch, 1, context, 40] = "
                                "Relu(%past_value.0)\noutput %z")),
                    DType::kFloat16),
            "node more (Relu) reads the cache past_value.0 in a way that is not known");
  EXPECT_EQ(Refused(Parsed(With("output %present_key.0\n", "")), DType::kInt8),
            "the cache past_key.0 is no output");
}

}  // namespace
}  // namespace evoq
