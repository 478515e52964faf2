// What is measured: sizes, contents and the same inputs for all models.
#include "workflow/to_measure.h"

#include <gtest/gtest.h>

#include "workflow/bench_json.h"
#include "workflow/tiny_testing.h"

namespace evoq {
namespace {

class ToMeasure : public TinyFolder {
 protected:
  template <typename T>
  static void ExpectRefused(const Result<T>& result, ErrorCode code, const std::string& message) {
    ASSERT_FALSE(result) << message;
    EXPECT_EQ(result.error().message(), message);
    EXPECT_EQ(result.error().code(), code);
  }
  // A model of one product, of one program; and one whose sizes depend on data.
  std::string Product() {
    return Model("product.onnx",
                 "graph g\ninput %x: float32[N, 3]\nconst %w: float32[3, 2] = [1, 2, 3, 4, 5, 6]\n"
                 "m: %y: float32[N, 2] = MatMul(%x, %w)\noutput %y\n");
  }
  std::string Places() {
    return Model("places.onnx",
                 "graph g\ninput %x: float32[N, 3]\np: %y: int64[2, ?] = NonZero(%x)\noutput %y\n");
  }
  std::vector<std::unique_ptr<Engine>> engines_;  // of the runnables
};

TEST_F(ToMeasure, SizesAndContents) {
  const Graph graph =
      Parsed("graph g\ninput %x: float32[N, 3]\ninput %i: int64[2]\na: %z = Abs(%x)\noutput %z\n");
  const InputFiles x = {{"x", Values("x.npy", Shape{2, 3}, {1, 2, 3, 4, 5, 6})}};
  EXPECT_EQ(*ShapesToMeasure(graph, {}, {}), (InputShapes{{"x", {1, 3}}, {"i", {2}}}));
  EXPECT_EQ(*ShapesToMeasure(graph, {{"x", {7, 3}}}, {}), (InputShapes{{"x", {7, 3}}, {"i", {2}}}));
  const auto given = ReadInputs(graph, x);
  ASSERT_TRUE(given) << given.error().message();
  EXPECT_EQ(*ShapesToMeasure(graph, {{"x", {7, 3}}}, *given),
            (InputShapes{{"x", {2, 3}}, {"i", {2}}}));
  const auto inputs = InputsToMeasure(graph, {{"x", {2, 3}}, {"i", {2}}}, *given);
  ASSERT_TRUE(inputs) << inputs.error().message();
  ASSERT_EQ(inputs->size(), 2);
  EXPECT_TRUE(BitEqual((*inputs)[0], Tensor::FromValues<float>(Shape{2, 3}, {1, 2, 3, 4, 5, 6})));
  EXPECT_EQ((*inputs)[1].type(), TensorType(DType::kInt64, Shape{2}));
  const auto made = InputsToMeasure(graph, {{"x", {4, 3}}, {"i", {2}}}, {});
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_EQ((*made)[0].sizes(), (std::vector<int64_t>{4, 3}));

  const std::string file = Values("f.npy", Shape{2}, {1, 2});
  for (const char* name : {"z", "q"}) {
    ExpectRefused(
        ReadInputs(graph, {{name, file}}), ErrorCode::kUsage,
        fmt::format("--input {}: the model has no input of that name; it has x, i", name));
  }
  ExpectRefused(ReadInputs(graph, {{"i", file}}), ErrorCode::kInvalidInput,
                file + ": elements are float32, expected int64 for input i");
  ExpectRefused(ReadInputs(graph, {{"x", file}}), ErrorCode::kInvalidInput,
                file + ": float32[2], expected [N, 3] for input x");
  EXPECT_FALSE(ReadInputs(graph, {{"x", At("none.npy")}}));
}

TEST_F(ToMeasure, SizesThatNobodyNames) {
  const Graph wide =
      Parsed("graph g\ninput %x: float32[N, W]\na: %z: float32[N, W] = Abs(%x)\noutput %z\n");
  ExpectRefused(ShapesToMeasure(wide, {}, {}), ErrorCode::kUsage,
                "input x is float32[N, W]: name its sizes with --shape x=...");
  EXPECT_EQ(*ShapesToMeasure(wide, {{"x", {2, 5}}}, {}), (InputShapes{{"x", {2, 5}}}));
  const Graph unranked =
      Parsed("graph g\ninput %x: float32[...]\na: %z: float32[...] = Abs(%x)\noutput %z\n");
  ExpectRefused(ShapesToMeasure(unranked, {}, {}), ErrorCode::kUsage,
                "input x is float32[...]: it has no content to measure with");
  const Graph strings =
      Parsed("graph g\ninput %x: string[2]\na: %z: string[2] = Identity(%x)\noutput %z\n");
  ExpectRefused(InputsToMeasure(strings, {{"x", {2}}}, {}), ErrorCode::kUsage,
                "input x is string[2]: it has no content to measure with");
  // 2^36 bytes at most.
  const Graph bytes =
      Parsed("graph g\ninput %x: float32[N, M]\na: %z: float32[N, M] = Abs(%x)\noutput %z\n");
  ExpectRefused(InputsToMeasure(bytes, {{"x", {(int64_t{1} << 34) + 1, 1}}}, {}), ErrorCode::kUsage,
                "input x is float32[17179869185, 1]: it has no content to measure with");
  ExpectRefused(InputsToMeasure(bytes, {{"x", {int64_t{1} << 62, 8}}}, {}), ErrorCode::kUsage,
                "input x is float32[4611686018427387904, 8]: it has no content to measure with");
}

TEST_F(ToMeasure, Loading) {
  const InputFiles x = {{"x", Values("x.npy", Shape{2, 3}, {1, 0, 3, 0, 0, 6})}};
  struct Row {
    std::string model;
    WhatToMeasure what;
    bool in_partitions;
    InputShapes shapes;
  };
  // Where it runs in partitions, or files are given, the shapes are those of all inputs.
  const Row rows[] = {{Product(), {}, false, {}},
                      {Product(), {{{"x", {4, 3}}}, {}, 0, true}, false, {{"x", {4, 3}}}},
                      {Product(), {{}, {}, 5, true}, false, {{"x", {5, 3}}}},
                      {Product(), {{}, x, 0, true}, false, {{"x", {2, 3}}}},
                      {Places(), {}, true, {{"x", {1, 3}}}},
                      {Places(), {{}, x, 0, true}, true, {{"x", {2, 3}}}},
                      {Places(), {{{"x", {4, 3}}}, {}, 0, true}, true, {{"x", {4, 3}}}}};
  for (size_t i = 0; i < std::size(rows); ++i) {
    const Row& row = rows[i];
    const auto m = LoadToMeasure(row.model, 1, row.what);
    ASSERT_TRUE(m) << m.error().message();
    EXPECT_EQ(m->in_partitions, row.in_partitions) << i;
    EXPECT_EQ(m->shapes, row.shapes) << i;
    EXPECT_EQ(m->engine->threads(), 1);
    const auto runnable = RunnableOf(*m);
    ASSERT_TRUE(runnable) << runnable.error().message();
    EXPECT_EQ((*runnable)->sample().empty(), !row.in_partitions && row.what.inputs.empty()) << i;
    if (!row.what.inputs.empty()) {
      EXPECT_EQ((*runnable)->sample()[0].values<float>()[2], 3) << i;
    }
  }
  EXPECT_FALSE(LoadToMeasure(Product(), 1, {{{"x", {0, 3}}}, {}, 0, true}));
  EXPECT_FALSE(LoadToMeasure(At("none.onnx"), 1, {}));
  ExpectRefused(LoadToMeasure(Product(), 1, {{}, {{"z", At("x.npy")}}, 0, true}), ErrorCode::kUsage,
                "--input z: the model has no input of that name; it has x");
  const std::string wide = Model(
      "wide.onnx", "graph g\ninput %x: float32[N, W]\na: %z: float32[N, W] = Abs(%x)\noutput %z\n");
  EXPECT_TRUE(LoadToMeasure(wide, 1, {})) << "sizes that nobody names are reported when it runs";
}

// Of partitions the run prepares, and what runs them is measured as a program is.
TEST_F(ToMeasure, AfterAFirstRun) {
  for (const bool partitions : {false, true}) {
    const auto m =
        LoadToMeasure(partitions ? Places() : Product(), 1, {{{"x", {4, 3}}}, {}, 0, true});
    ASSERT_TRUE(m) << m.error().message();
    ASSERT_EQ(m->in_partitions, partitions);
    auto ready = RunFirst(*m);
    ASSERT_TRUE(ready) << ready.error().message();
    EXPECT_GT(ready->first_ms, partitions ? ready->ready_ms : 0);
    EXPECT_GT(ready->ready_ms, 0);
    EXPECT_GT(m->engine->prepared().count, 0);
    EXPECT_EQ(BatchOf(*ready->runnable), 4);
    if (partitions)
      EXPECT_EQ(ready->runnable->arena_bytes(), m->engine->partitions()->arena_bytes());
    EXPECT_TRUE(ready->runnable->Run(ready->buffers.inputs, ready->buffers.outputs));
    const auto tuned = TuneToMeasure(*m, "m.onnx");
    EXPECT_EQ(tuned.has_value(), !partitions);
    if (partitions)
      ExpectRefused(tuned, ErrorCode::kUsage,
                    "--tune: m.onnx runs in dynamic partitions, which have no plan (" +
                        m->engine->in_regions() + ")");
  }
}

TEST_F(ToMeasure, AllOnTheSameInputs) {
  const InputFiles files = {{"x", Values("x.npy", Shape{2, 3}, {1, 2, 3, 4, 5, 6})}};
  const auto load = [&](const std::string& path, int batch, bool with_files) {
    WhatToMeasure what;
    what.batch = batch;
    if (with_files) what.inputs = files;
    auto m = LoadToMeasure(path, 1, what);
    EXPECT_TRUE(m) << m.error().message();
    auto runnable = RunnableOf(*m);
    EXPECT_TRUE(runnable) << runnable.error().message();
    engines_.push_back(std::move(m->engine));
    return *runnable;
  };
  const std::string names[] = {"a.onnx", "b.onnx"};
  const auto plain = load(Product(), 2, false), sampled = load(Product(), 0, true),
             narrow = load(Product(), 1, false);
  const auto alike = [&](Runnable& a, Runnable& b) {
    Runnable* const both[] = {&a, &b};
    return MeasureAlike(both, names);
  };
  EXPECT_TRUE(alike(*plain, *narrow));
  EXPECT_TRUE(plain->sample().empty()) << "none has inputs whose content counts";
  for (const auto& [a, b] : {std::pair(plain.get(), sampled.get()), {sampled.get(), plain.get()}}) {
    plain->UseSample({});
    ASSERT_TRUE(alike(*a, *b));
    ASSERT_EQ(plain->sample().size(), 1);
    EXPECT_EQ(plain->sample()[0].values<float>()[5], 6);
  }
  const auto refused = [&](Runnable& a, Runnable& b, const std::string& which) {
    const Status status = alike(a, b);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), ErrorCode::kUsage);
    EXPECT_EQ(status.error().message(),
              which +
                  ": both models are measured on the same inputs, and this one does not take "
                  "them");
  };
  refused(*sampled, *narrow, "b.onnx: input 0 is float32[1, 3]");
  refused(*narrow, *sampled, "a.onnx: input 0 is float32[1, 3]");
  const auto two = load(Model("two.onnx",
                              "graph g\ninput %x: float32[2, 3]\ninput %s: float32[2, 3]\n"
                              "a: %y: float32[2, 3] = Add(%x, %s)\noutput %y\n"),
                        0, false);
  refused(*sampled, *two, "b.onnx: input 0 is float32[2, 3]");
}

}  // namespace
}  // namespace evoq
