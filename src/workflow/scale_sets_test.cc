// Quantizing with several scale sets, and following them over a data set.
#include "workflow/scale_sets.h"

#include <gtest/gtest.h>

#include <random>

#include "program/etm.h"
#include "workflow/adaptive_cost.h"
#include "workflow/evaluate.h"
#include "workflow/tiny_testing.h"
#include "workflow/to_measure.h"

namespace evoq {
namespace {

class ScaleSetJobs : public TinyFolder {
 protected:
  // Convolutions with random weights, whose results are as loud as their input.
  std::string Net() {
    Graph graph = Parsed(R"(graph g
input %x: float32[1, 3, 10, 10]
const %w: float32[16, 3, 3, 3]
c: %y: float32[1, 16, 8, 8] = Conv(%x, %w)
r: %r: float32[1, 16, 8, 8] = Relu(%y)
const %v: float32[16, 16, 3, 3]
d: %z: float32[1, 16, 6, 6] = Conv(%r, %v)
s: %s: float32[1, 16, 6, 6] = Relu(%z)
const %u: float32[4, 16, 3, 3]
e: %e: float32[1, 4, 4, 4] = Conv(%s, %u)
output %e)");
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0, 0.2f);
    for (const char* name : {"w", "v", "u"}) {
      const ValueId id = graph.FindValue(name);
      Tensor t = Tensor::Allocate(graph.value(id).type);
      for (int64_t i = 0; i < t.elements(); ++i) t.mutable_data<float>()[i] = normal(random);
      graph.SetConstant(id, t);
    }
    EXPECT_TRUE(ExportOnnx(graph, At("net.onnx")));
    return At("net.onnx");
  }

  // Frames of these levels.
  std::string Frames(const std::string& name, const std::vector<float>& levels, int seed = 2) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values;
    for (float level : levels) {
      for (int i = 0; i < 300; ++i) values.push_back(level * normal(random));
    }
    return Values(name, Shape{static_cast<int64_t>(levels.size()), 3, 10, 10}, values);
  }

  QuantizeJob Job(const std::vector<std::string>& sets) {
    QuantizeJob job{.model = Net(), .output = At("net.etm")};
    job.scale_sets = sets;
    job.threads = 1;
    return job;
  }

  std::string Why(QuantizeJob job) {
    const auto done = Quantize(job);
    EXPECT_FALSE(std::filesystem::exists(At("net.etm")));
    return done ? "" : done.error().message();
  }
};

std::vector<float> Levels(int loud, int quiet) {
  std::vector<float> levels(static_cast<size_t>(loud), 1.0f);
  levels.insert(levels.end(), static_cast<size_t>(quiet), 0.125f);
  return levels;
}

TEST_F(ScaleSetJobs, GroupsOfTheSamplesShareTheWeights) {
  QuantizeJob job = Job({"2"});
  job.calib = {Frames("calib.npy", Levels(6, 4))};
  const auto done = Quantize(job);
  ASSERT_TRUE(done) << done.error().message();
  ASSERT_EQ(done->sets.size(), 2u);
  EXPECT_EQ(done->sets[0].name, "set1");
  EXPECT_EQ(done->sets[0].samples, 6);
  EXPECT_EQ(done->sets[1].samples, 4);
  EXPECT_GT(done->sets[1].bytes, 0);
  const evoq::Model model = ReadEtm(At("net.etm")).value();
  ASSERT_EQ(model.sets.size(), 2u);
  for (const ScaleChange& change : model.sets[1].changes) {
    if (change.constant.defined())
      EXPECT_EQ(change.constant.dtype(), DType::kInt32) << change.value;
  }
  // The same job gives the same bytes.
  const std::string first = ReadTextFile(At("net.etm")).value();
  ASSERT_TRUE(Quantize(job));
  EXPECT_EQ(ReadTextFile(At("net.etm")).value(), first);
  EXPECT_EQ(Tell(*done).json["scale_sets"][1]["name"], "set2");
}

// Frames whose level falls by 8: one set keeps the loud ones' ranges, sets follow.
TEST_F(ScaleSetJobs, AdaptiveEvaluationKeepsQuietFramesAccurate) {
  QuantizeJob one = Job({});
  one.output = At("one.etm");
  one.calib = {Frames("calib.npy", Levels(6, 6))};
  ASSERT_TRUE(Quantize(one));
  QuantizeJob two = Job({"2"});
  two.calib = one.calib;
  ASSERT_TRUE(Quantize(two));
  EvalJob eval{.model = one.output, .data = {Frames("frames.npy", Levels(5, 40), 3)}};
  eval.reference = one.model;
  eval.threads = 1;
  const auto plain = Evaluate(eval);
  ASSERT_TRUE(plain) << plain.error().message();
  eval.model = two.output;
  const auto first = Evaluate(eval);
  eval.adaptive = AdaptiveOptions{.narrow_after = 2, .every = 1};
  const auto adaptive = Evaluate(eval);
  ASSERT_TRUE(adaptive) << adaptive.error().message();
  ASSERT_TRUE(adaptive->adaptive);
  EXPECT_EQ(adaptive->adaptive->switches, 1);
  EXPECT_GT(adaptive->sample_sqnr_db, plain->sample_sqnr_db + 8);
  EXPECT_NEAR(first->sample_sqnr_db, plain->sample_sqnr_db, 1.5);
  EXPECT_FALSE(first->adaptive);
}

TEST_F(ScaleSetJobs, WhatAdaptingCostsIsToldByTheRun) {
  QuantizeJob job = Job({"2"});
  job.calib = {Frames("calib.npy", Levels(6, 4))};
  ASSERT_TRUE(Quantize(job));
  AdaptiveOptions looks;
  looks.every = 64;
  const auto measured = [&](std::optional<AdaptiveOptions> adaptive) {
    auto engine = LoadEngine(job.output, {.threads = 1, .adaptive = adaptive});
    EXPECT_TRUE(engine);
    auto m = ToMeasure(std::move(*engine), {});
    EXPECT_TRUE(m);
    return std::move(*m);
  };
  const ModelToMeasure plain = measured({}), adaptive = measured(looks);
  auto first = RunFirst(plain), second = RunFirst(adaptive);
  ASSERT_TRUE(first && second);
  const auto executor = adaptive.engine->At(adaptive.shapes);
  ASSERT_TRUE(executor);
  const auto cost = MeasureAdaptiveCost(*first->runnable, first->buffers, **executor,
                                        second->buffers, {.warmup_ms = 0, .duration_s = 0.02});
  ASSERT_TRUE(cost) << cost.error().message();
  EXPECT_EQ(cost->look_every, 64);
  EXPECT_EQ(cost->runs % 64, 0);
  EXPECT_GT(cost->plain_ms, 0);
  // Not by turns of 64 runs.
  EXPECT_LT(cost->adaptive_ms, 10 * cost->plain_ms);
  EXPECT_GT(cost->adaptive_ms, cost->plain_ms / 10);
}

TEST_F(ScaleSetJobs, NamedSetsHaveSamplesOfTheirOwn) {
  const std::string day = Frames("day.npy", Levels(5, 0)),
                    night = Frames("night.npy", Levels(0, 3));
  const auto done = Quantize(Job({"day=" + day, "night=" + night}));
  ASSERT_TRUE(done) << done.error().message();
  ASSERT_EQ(done->sets.size(), 2u);
  EXPECT_EQ(done->sets[0].name, "day");
  EXPECT_EQ(done->sets[0].samples, 5);
  EXPECT_EQ(done->sets[1].name, "night");
  EXPECT_EQ(done->sets[1].samples, 3);
  EXPECT_EQ(done->samples_used, 8);
}

TEST_F(ScaleSetJobs, RefusesWhatDoesNotFit) {
  const std::string calib = Frames("calib.npy", Levels(2, 1));
  const auto with = [&](
                        const std::vector<std::string>& sets,
                        const std::function<void(QuantizeJob&)>& change = [](QuantizeJob&) {}) {
    QuantizeJob job = Job(sets);
    job.calib = {calib};
    change(job);
    return Why(job);
  };
  EXPECT_EQ(with({"1"}),
            "--scale-sets: 1, expected a number from 2 to 16, or NAME=PATH for each set");
  EXPECT_EQ(with({"17"}),
            "--scale-sets: 17, expected a number from 2 to 16, or NAME=PATH for each set");
  EXPECT_EQ(with({"night"}),
            "--scale-sets: night, expected a number from 2 to 16, or NAME=PATH for each set");
  EXPECT_NE(with({"4"}).find("--scale-sets 4: 3 calibration samples, expected at least as many as "
                             "the 4 scale sets"),
            std::string::npos);
  EXPECT_EQ(with({"a=" + calib, "b"}), "--scale-sets: b, expected NAME=PATH");
  EXPECT_EQ(with({"a=" + calib, "a=" + calib}), "--scale-sets: two sets are named a");
  EXPECT_EQ(with({"a=" + calib, "b=" + calib}),
            "--scale-sets: sets with data of their own leave no use for other calibration data");
  EXPECT_EQ(with({"2"}, [](QuantizeJob& j) { j.scheme = "int8-dynamic"; }),
            "--scale-sets: --scheme int8-dynamic has no calibrated ranges, int8 has");
  EXPECT_EQ(with({"2"}, [](QuantizeJob& j) { j.scheme = "int16x8"; }),
            "--scale-sets: --scheme int16x8 gives float32 to its layers, int8 gives integers by "
            "scales that change");
  EXPECT_EQ(with({"2"}, [](QuantizeJob& j) { j.ranges_in = "ranges.json"; }),
            "--scale-sets: ranges and encodings in files are of one set: sets are calibrated");
  EXPECT_EQ(with({"2"}, [&](QuantizeJob& j) { j.output = At("net2.onnx"); }),
            "--scale-sets: " + At("net2.onnx") + ": only an .etm holds them");
  EXPECT_EQ(with({"2"},
                 [&](QuantizeJob& j) {
                   j.promise.max_drop = 1;
                   j.data = {calib};
                 }),
            "--scale-sets: a certificate is of one set");
}

TEST_F(ScaleSetJobs, AdaptiveRunsNeedSets) {
  QuantizeJob job = Job({});
  job.calib = {Frames("calib.npy", Levels(3, 0))};
  ASSERT_TRUE(Quantize(job));
  EvalJob eval{.model = job.output, .data = job.calib};
  eval.adaptive = AdaptiveOptions();
  EXPECT_EQ(Evaluate(eval).error().message(),
            job.output + ": it has one set of scales: `evoq quantize --scale-sets K` makes more");
}

}  // namespace
}  // namespace evoq
