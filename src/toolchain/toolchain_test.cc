// The toolchain as its users call it: files and arrays in, files and figures out.
#include "evoq/toolchain.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "llm/random_folder.h"
#include "llm/tiny_llama.h"
#include "passes/choice.h"
#include "program/etm.h"
#include "workflow/tiny_testing.h"

namespace evoq {
namespace {

namespace tc = toolchain;

class Toolchain : public TinyFolder {
 protected:
  void SetUp() override {
    TinyFolder::SetUp();
    model_ = Model("model.onnx",
                   "graph g\ninput %x: float32[N, 3]\n"
                   "const %w: float32[3, 2] = [1, 2, 3, 4, 5, 6]\n"
                   "m: %y: float32[N, 2] = MatMul(%x, %w)\noutput %y\n");
    rows_ = Values("rows.npy", Shape{4, 3}, kRows);
  }
  static nlohmann::json Parsed(const tc::Report& report) {
    return nlohmann::json::parse(report.json, nullptr, false);
  }

  const std::vector<float> kRows = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3};
  std::string model_, rows_, error_;
};

TEST_F(Toolchain, QuantizesOnFilesAndOnArrays) {
  tc::QuantizeOptions options;
  options.threads = 1;
  options.calibration = {rows_};
  const auto files = tc::Quantize(model_, At("files.etm"), options, {}, &error_);
  ASSERT_TRUE(files) << error_;
  EXPECT_EQ(files->samples_used, 4);
  EXPECT_EQ(files->steps_int8, files->steps);
  EXPECT_EQ(files->input_bytes, SizeOf("model.onnx"));
  EXPECT_EQ(files->output_bytes, SizeOf("files.etm"));
  EXPECT_NE(files->report.text.find("files.etm"), std::string::npos);
  EXPECT_EQ(Parsed(files->report)["samples_used"], 4);
  options.calibration.clear();
  for (size_t i = 0; i < 4; ++i) {
    Array row = Array::Zeros(ElementType::kFloat32, {1, 3});
    std::memcpy(row.bytes.data(), &kRows[3 * i], row.bytes.size());
    options.arrays.push_back({row});
  }
  const auto arrays = tc::Quantize(model_, At("arrays.etm"), options, {}, &error_);
  ASSERT_TRUE(arrays) << error_;
  EXPECT_EQ(ReadTextFile(At("arrays.etm")).value(), ReadTextFile(At("files.etm")).value());
  EXPECT_EQ(arrays->steps_why, "");
  const auto nodes = tc::Quantize(model_, At("arrays.onnx"), options, {}, &error_);
  ASSERT_TRUE(nodes) << error_;
  EXPECT_NE(nodes->steps_why.find("nodes are counted"), std::string::npos) << nodes->steps_why;
  EXPECT_EQ(nodes->int8_weights, 0);
  options.arrays[2][0].bytes.pop_back();
  EXPECT_FALSE(tc::Quantize(model_, At("arrays.etm"), options, {}, &error_));
  EXPECT_EQ(error_, "sample 2: 11 bytes, expected 12");
}

TEST_F(Toolchain, CompilesAndRuns) {
  tc::CompileOptions options;
  options.shapes = {{"x", {2, 3}}};
  const auto compiled = tc::Compile(model_, At("out.etm"), options, {}, &error_);
  ASSERT_TRUE(compiled) << error_;
  EXPECT_EQ(compiled->output_bytes, SizeOf("out.etm"));
  EXPECT_GT(compiled->steps, 0);
  EXPECT_EQ(compiled->why_no_plan, "");
  auto session = Session::Load(At("out.etm"), {1}, &error_);
  ASSERT_TRUE(session) << error_;
}

// The choice goes from an .onnx that is written into what is made of it.
TEST_F(Toolchain, WritesNarrowCachesOfLanguageModels) {
  ASSERT_TRUE(WriteRandomFolder(TinyLlamaConfig(), {}, 1, At("llama")));
  const auto caches = [&](const std::string& path) {
    std::set<DType> types;
    const auto read = ReadEtm(path);
    if (!read) return types;
    for (const ValueId input : read->graph.inputs()) {
      const Value& value = read->graph.value(input);
      if (value.name.starts_with("past_")) types.insert(value.type.dtype);
    }
    return types;
  };
  tc::CompileOptions compile;
  tc::QuantizeOptions quantize;
  quantize.scheme = "int8-weights";
  for (const char* type : {"", "int8"}) {
    compile.kv_cache = quantize.kv_cache = type;
    ASSERT_TRUE(tc::Compile(At("llama"), At("c.etm"), compile, {}, &error_)) << error_;
    ASSERT_TRUE(tc::Quantize(At("llama"), At("q.etm"), quantize, {}, &error_)) << error_;
    const std::set<DType> wanted =
        *type == 0 ? std::set{DType::kFloat32} : std::set{DType::kInt8, DType::kFloat16};
    EXPECT_EQ(caches(At("c.etm")), wanted);
    EXPECT_EQ(caches(At("q.etm")), wanted);
  }
  compile.kv_cache = quantize.kv_cache = "int5";
  const std::string refused = "a cache of 'int5', expected float32, float16 or int8";
  EXPECT_FALSE(tc::Compile(At("llama"), At("c.etm"), compile, {}, &error_));
  EXPECT_EQ(error_, refused);
  EXPECT_FALSE(tc::Quantize(At("llama"), At("q.etm"), quantize, {}, &error_));
  EXPECT_EQ(error_, refused);
}

TEST_F(Toolchain, OptimizesByChosenPasses) {
  const std::string model = Model("twice.onnx",
                                  "graph g\ninput %x: float32[2]\na: %a: float32[2] = Neg(%x)\n"
                                  "b: %b: float32[2] = Identity(%a)\n"
                                  "c: %y: float32[2] = Relu(%b)\noutput %y\n");
  const auto all = tc::Optimize(model, At("all.onnx"), {}, {}, &error_);
  ASSERT_TRUE(all) << error_;
  EXPECT_EQ(all->nodes_before, 3);
  EXPECT_EQ(all->nodes_after, 2);
  ASSERT_EQ(all->passes.size(), 1);
  EXPECT_EQ(all->passes[0].pass, "remove-identity");
  tc::OptimizeOptions options;
  options.passes.disable = {"remove-identity@b"};
  const auto kept = tc::Optimize(model, At("kept.onnx"), options, {}, &error_);
  ASSERT_TRUE(kept) << error_;
  EXPECT_EQ(kept->nodes_after, 3);
  const auto again = tc::Optimize(At("kept.onnx"), At("again.onnx"), {}, {}, &error_);
  ASSERT_TRUE(again) << error_;
  EXPECT_EQ(again->nodes_after, 3);

  tc::CompileOptions compile;
  compile.passes.opt_level = 0;
  ASSERT_TRUE(tc::Compile(model, At("a.etm"), compile, {}, &error_)) << error_;
  tc::QuantizeOptions quantize;
  quantize.scheme = "int8-weights";
  quantize.passes.opt_level = 0;
  ASSERT_TRUE(tc::Quantize(model, At("b.etm"), quantize, {}, &error_)) << error_;
  for (const char* file : {"a.etm", "b.etm"}) {
    const auto read = ReadEtm(At(file));
    ASSERT_TRUE(read) << read.error().message();
    EXPECT_TRUE(read->graph.FindNode("b").valid()) << file;
    EXPECT_EQ(read->graph.metadata.at(kPassChoice), R"({"opt_level":0})");
  }
  compile.passes = {};
  compile.passes.disable = {"remove-identiy"};
  EXPECT_FALSE(tc::Compile(model, At("c.etm"), compile, {}, &error_));
  EXPECT_EQ(error_,
            "--disable remove-identiy: there is no pass 'remove-identiy'; the nearest is "
            "remove-identity (`evoq list passes`)");
  compile.passes.disable = {"remove-identity"};
  compile.tune = true;
  EXPECT_FALSE(tc::Compile(At("a.etm"), At("c.etm"), compile, {}, &error_));
  EXPECT_NE(error_.find("compiled already"), std::string::npos) << error_;
}

TEST_F(Toolchain, ExplainsAndCompares) {
  ASSERT_TRUE(tc::Compile(model_, At("a.etm"), {}, {}, &error_)) << error_;
  tc::ExplainOptions explain;
  explain.baseline = model_;
  explain.threads = 1;
  explain.duration_s = 0.01;
  const auto e = tc::Explain(At("a.etm"), explain, {}, &error_);
  ASSERT_TRUE(e) << error_;
  EXPECT_GT(e->ms, 0);
  EXPECT_GT(e->baseline_ms, 0);
  ASSERT_EQ(e->steps.size(), 1u);
  EXPECT_EQ(e->steps[0].name, "m");
  EXPECT_EQ(e->steps[0].precision, "float32");
  EXPECT_NEAR(e->steps[0].share, 1, 1e-9);
  EXPECT_EQ(Parsed(e->report)["time"]["causes"].size(), e->causes.size());
  tc::CompareOptions compare;
  compare.threads = 1;
  compare.duration_s = 0.05;
  compare.warmup_ms = 1;
  compare.rounds = 3;
  const auto c = tc::Compare(model_, At("a.etm"), compare, {}, &error_);
  ASSERT_TRUE(c) << error_;
  EXPECT_EQ(Parsed(c->report)["verdict"], c->verdict);
  EXPECT_LE(c->low, c->speedup);
  EXPECT_GE(c->high, c->speedup);
  compare.rounds = 2;
  EXPECT_FALSE(tc::Compare(model_, model_, compare, {}, &error_));
}

TEST_F(Toolchain, EvaluatesAndPredicts) {
  tc::EvaluateOptions evaluate;
  evaluate.data = {rows_};
  evaluate.reference = model_;
  evaluate.limit = 3;
  const auto e = tc::Evaluate(model_, evaluate, {}, &error_);
  ASSERT_TRUE(e) << error_;
  EXPECT_EQ(e->samples, 3);
  EXPECT_EQ(e->agreement, 1.0);
  EXPECT_TRUE(e->sqnr_db);
  EXPECT_FALSE(e->top1);
  evaluate.reference.clear();
  const auto alone = tc::Evaluate(model_, evaluate, {}, &error_);
  ASSERT_TRUE(alone) << error_;
  EXPECT_FALSE(alone->agreement);
  EXPECT_EQ(alone->report.warnings.size(), 1u) << "a note that only the time is measured";
  tc::PredictOptions predict;
  predict.schemes = {"int8"};
  predict.threads = 1;
  const auto p = tc::Predict(model_, predict, {}, &error_);
  ASSERT_TRUE(p) << error_;
  ASSERT_EQ(p->schemes.size(), 2u);
  EXPECT_EQ(p->schemes[0].scheme, "float32");
  EXPECT_EQ(p->schemes[1].scheme, "int8");
  EXPECT_GT(p->schemes[1].file_bytes, 0);
}

TEST_F(Toolchain, SaysWhereModelsPart) {
  tc::QuantizeOptions quantize;
  quantize.calibration = {rows_};
  ASSERT_TRUE(tc::Quantize(model_, At("q.etm"), quantize, {}, &error_)) << error_;
  tc::DiffOptions options;
  options.samples.data = {rows_};
  options.samples.limit = 3;
  options.keep = At("worst.npz");
  options.threads = 1;
  const auto d = tc::Diff(model_, At("q.etm"), options, {}, &error_);
  ASSERT_TRUE(d) << error_;
  EXPECT_EQ(d->samples, 3);
  ASSERT_FALSE(d->values.empty());
  EXPECT_TRUE(d->values.back().output);
  EXPECT_EQ(d->values.back().sqnr_db, d->sqnr_db);
  EXPECT_GT(d->sqnr_db, 20);
  EXPECT_EQ(Parsed(d->report)["worst_sample"]["name"], d->worst_sample);
  EXPECT_GT(SizeOf("worst.npz"), 0);
  options.bad_db = 200;
  const auto strict = tc::Diff(model_, At("q.etm"), options, {}, &error_);
  ASSERT_TRUE(strict) << error_;
  EXPECT_EQ(strict->first_bad, 0);
  options.samples.data.clear();
  EXPECT_FALSE(tc::Diff(model_, At("q.etm"), options, {}, &error_));
  EXPECT_NE(error_.find("expected samples"), std::string::npos) << error_;
}

TEST_F(Toolchain, SensitivityRanksLayers) {
  tc::SensitivityOptions options;
  options.samples.data = {rows_};
  options.min_sqnr_db = 200;
  options.html_report = At("s.html");
  options.threads = 1;
  const auto found = tc::Sensitivity(model_, options, {}, &error_);
  ASSERT_TRUE(found) << error_;
  ASSERT_FALSE(found->layers.empty());
  const auto json = nlohmann::json::parse(found->report.json);
  ASSERT_EQ(json["layers"].size(), found->layers.size());
  EXPECT_EQ(json["samples"], found->samples);
  std::set<int> alone, spared;
  for (const tc::LayerSensitivity& layer : found->layers) {
    EXPECT_TRUE(alone.insert(layer.rank_alone).second && spared.insert(layer.rank_spared).second);
    EXPECT_GT(layer.alone.sqnr_db, 0) << layer.name;
  }
  EXPECT_FALSE(found->tensors.empty());
  ASSERT_TRUE(found->exclude);
  EXPECT_EQ(found->exclude->size(), found->layers.size());  // 200 dB are float32
  EXPECT_GE(found->excluded.sqnr_db, 200);
  EXPECT_TRUE(std::filesystem::exists(At("s.html")));
  options.scheme = "auto";
  EXPECT_FALSE(tc::Sensitivity(model_, options, {}, &error_));
  EXPECT_NE(error_.find("expected one scheme"), std::string::npos) << error_;
}

TEST_F(Toolchain, TunesAndValidates) {
  tc::TuneOptions options;
  options.shapes = {{"x", {2, 3}}};
  options.samples.data = {rows_};
  options.duration_s = 0.5;
  options.threads = 1;
  options.html_report = At("t.html");
  const auto tuned = tc::Tune(model_, At("t.etm"), options, {}, &error_);
  ASSERT_TRUE(tuned) << error_;
  EXPECT_GE(tuned->steps_before, tuned->steps_after);
  EXPECT_GT(tuned->steps_after, 0);
  EXPECT_GT(tuned->sqnr_db, 60);
  EXPECT_GT(tuned->whole.b_ms, 0);
  EXPECT_LE(tuned->whole.low, tuned->whole.speedup);
  EXPECT_GE(tuned->whole.high, tuned->whole.speedup);
  const auto json = nlohmann::json::parse(tuned->report.json);
  EXPECT_EQ(json["compare"]["speedup"], tuned->whole.speedup);
  ASSERT_EQ(json["advice"].size(), tuned->advice.size());
  EXPECT_TRUE(Session::Load(At("t.etm"), {1}, &error_)) << error_;
  EXPECT_TRUE(std::filesystem::exists(At("t.html")));
  options.strategy = "slowest";
  EXPECT_FALSE(tc::Tune(model_, At("never.etm"), options, {}, &error_));
  EXPECT_NE(error_.find("slowest"), std::string::npos) << error_;
  EXPECT_FALSE(std::filesystem::exists(At("never.etm")));
}

TEST_F(Toolchain, Prunes) {
  tc::PruneOptions options;
  options.pattern = "unstructured";
  options.sparsity = 0.5;
  const auto pruned = tc::Prune(model_, At("p.onnx"), options, {}, &error_);
  ASSERT_TRUE(pruned) << error_;
  const auto json = nlohmann::json::parse(pruned->report.json);
  ASSERT_EQ(pruned->layers.size(), json["layers"].size());
  ASSERT_FALSE(pruned->layers.empty());
  for (size_t i = 0; i < pruned->layers.size(); ++i) {
    const tc::PrunedLayer& l = pruned->layers[i];
    EXPECT_EQ(json["layers"][i]["node"], l.node);
    EXPECT_NEAR(static_cast<double>(l.weights), static_cast<double>(l.weights_before) / 2, 1);
  }
  options.score = "sqares";
  EXPECT_FALSE(tc::Prune(model_, At("never.onnx"), options, {}, &error_));
  EXPECT_NE(error_.find("squares"), std::string::npos) << error_;
  EXPECT_FALSE(std::filesystem::exists(At("never.onnx")));
}

// Each option of a recipe arrives: what is trained with is what was set.
TEST_F(Toolchain, Trains) {
  const std::string net =
      Model("net.onnx",
            "graph g\ninput %x: float32[N, 16]\nconst %w: float32[16, 32]\n"
            "const %v: float32[32, 4]\nh: %h: float32[N, 32] = MatMul(%x, %w)\n"
            "r: %r: float32[N, 32] = Relu(%h)\ny: %y: float32[N, 4] = MatMul(%r, %v)\n"
            "output %y\n");
  std::vector<float> rows;
  std::vector<int64_t> labels;
  for (int i = 0; i < 32; ++i) {
    labels.push_back(i % 4);
    for (int k = 0; k < 16; ++k) rows.push_back(static_cast<float>((i * 7 + k * 3) % 11) - 5);
  }
  tc::TrainOptions options;
  options.data = Values("data.npy", Shape{32, 16}, rows);
  options.labels = At("labels.npy");
  ASSERT_TRUE(WriteNpy(Tensor::FromValues<int64_t>(Shape{32}, labels), options.labels));
  options.threads = 1;
  options.epochs = 2;
  options.batch = 16;
  options.shard = 8;
  options.lr = 0.002;
  options.scheme = "int4-weights";
  options.block = "64";
  options.exclude = {"none*"};
  options.teacher = net;
  options.distill = 3;
  options.distill_share = 0.5;
  options.distill_features = {"r", "h=h"};
  options.distill_features_weight = 0.25;
  options.recompute = true;
  options.prune = "unstructured";
  options.sparsity = 0.25;
  options.seed = 9;
  const auto trained = tc::Train(net, At("t.onnx"), options, {}, &error_);
  ASSERT_TRUE(trained) << error_;
  EXPECT_EQ(trained->epochs.size(), 2u);
  EXPECT_EQ(trained->parameters, 16 * 32 + 32 * 4);
  const nlohmann::json json = Parsed(trained->report), recipe = json["recipe"];
  const nlohmann::json wanted = {{"epochs", 2},
                                 {"batch", 16},
                                 {"shard", 8},
                                 {"lr", 0.002},
                                 {"scheme", "int4-weights"},
                                 {"block", "64"},
                                 {"exclude", {"none*"}},
                                 {"teacher", "net.onnx"},
                                 {"distill", 3.0},
                                 {"distill_share", 0.5},
                                 {"distill_features", {"r", "h=h"}},
                                 {"distill_features_weight", 0.25},
                                 {"prune", "unstructured"},
                                 {"sparsity", 0.25},
                                 {"seed", 9}};
  for (const auto& [name, value] : wanted.items()) EXPECT_EQ(recipe[name], value) << name;
  options.recompute = false;
  const auto again = tc::Train(net, At("u.onnx"), options, {}, &error_);
  ASSERT_TRUE(again) << error_;
  EXPECT_EQ(ReadTextFile(At("t.onnx")).value(), ReadTextFile(At("u.onnx")).value());
  EXPECT_LT(json["memory_bytes"], Parsed(again->report)["memory_bytes"]);
  options.teacher = "";
  EXPECT_FALSE(tc::Train(net, At("never.onnx"), options, {}, &error_));
  EXPECT_NE(error_.find("expected the model that has them as --teacher"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(At("never.onnx")));
}

TEST_F(Toolchain, TrainsAndEvaluatesOnTargets) {
  const std::string net = Model("lin.onnx",
                                "graph g\ninput %x: float32[N, 2]\nconst %w: float32[2, 1]\n"
                                "y: %y: float32[N, 1] = MatMul(%x, %w)\noutput %y\n");
  tc::TrainOptions options;
  options.data = Values("lx.npy", Shape{4, 2}, {1, 0, 0, 1, 1, 1, 2, 1});
  options.targets = Values("ly.npy", Shape{4, 1}, {1, 2, 3, 4});
  options.test = options.data, options.test_targets = options.targets;
  options.threads = 1;
  options.epochs = 3;
  options.batch = options.shard = 4;
  options.lr = 0.1;
  const auto trained = tc::Train(net, At("lt.onnx"), options, {}, &error_);
  ASSERT_TRUE(trained) << error_;
  EXPECT_EQ(Parsed(trained->report)["recipe"]["loss"], "mse");
  ASSERT_EQ(trained->epochs.size(), 3u);
  EXPECT_FALSE(trained->epochs.back().test_accuracy);
  ASSERT_TRUE(trained->epochs.back().test_mse);
  tc::EvaluateOptions evaluation;
  evaluation.data = {options.data};
  evaluation.targets = {options.targets};
  evaluation.threads = 1;
  const auto found = tc::Evaluate(At("lt.onnx"), evaluation, {}, &error_);
  ASSERT_TRUE(found) << error_;
  EXPECT_NEAR(Parsed(found->report)["targets"][0]["mse"].get<double>(),
              *trained->epochs.back().test_mse, 1e-9);
}

TEST_F(Toolchain, WhoFollowsIsCalledOnTheThreadOfTheTask) {
  std::map<std::string, std::set<std::thread::id>> threads;
  tc::Follow follow;
  std::string task;
  const auto note = [&] { threads[task].insert(std::this_thread::get_id()); };
  follow.progress = [&](const std::string&, double) { note(); };
  follow.cancelled = [&] {
    note();
    return false;
  };
  tc::QuantizeOptions quantize;
  quantize.calibration = {rows_};
  quantize.threads = 2;
  task = "quantize";
  EXPECT_TRUE(tc::Quantize(model_, At("q.etm"), quantize, follow, &error_)) << error_;
  task = "compile";
  EXPECT_TRUE(tc::Compile(model_, At("c.etm"), {}, follow, &error_)) << error_;
  tc::ExplainOptions explain;
  explain.threads = 2;
  explain.duration_s = 0.02;
  task = "explain";
  EXPECT_TRUE(tc::Explain(At("q.etm"), explain, follow, &error_)) << error_;
  tc::EvaluateOptions evaluate;
  evaluate.data = {rows_};
  evaluate.reference = model_;
  evaluate.threads = 2;
  task = "evaluate";
  EXPECT_TRUE(tc::Evaluate(At("q.etm"), evaluate, follow, &error_)) << error_;
  tc::PredictOptions predict;
  predict.threads = 2;
  task = "predict";
  EXPECT_TRUE(tc::Predict(model_, predict, follow, &error_)) << error_;
  tc::CompareOptions compare;
  compare.threads = 2;
  compare.duration_s = 0.02;
  task = "compare";
  EXPECT_TRUE(tc::Compare(model_, At("q.etm"), compare, follow, &error_)) << error_;
  tc::CalibrateOptions calibrate;
  calibrate.calibration = {rows_};
  calibrate.threads = 2;
  task = "calibrate";
  EXPECT_TRUE(tc::Calibrate(model_, At("ranges.json"), calibrate, follow, &error_)) << error_;
  tc::DiffOptions diff;
  diff.samples.data = {rows_};
  diff.threads = 2;
  task = "diff";
  EXPECT_TRUE(tc::Diff(model_, At("q.etm"), diff, follow, &error_)) << error_;
  tc::SensitivityOptions sensitivity;
  sensitivity.samples.data = {rows_};
  sensitivity.threads = 2;
  task = "sensitivity";
  EXPECT_TRUE(tc::Sensitivity(model_, sensitivity, follow, &error_)) << error_;
  EXPECT_EQ(threads.size(), 9u);
  for (const auto& [name, ids] : threads)
    EXPECT_EQ(ids, std::set<std::thread::id>{std::this_thread::get_id()}) << name;
}

TEST_F(Toolchain, CalibratesInPartsToTheBytesOfOne) {
  tc::QuantizeOptions quantize;
  quantize.calibration = {rows_};
  quantize.save_ranges = At("saved.json");
  ASSERT_TRUE(tc::Quantize(model_, At("q.etm"), quantize, {}, &error_)) << error_;
  const std::string wanted = ReadTextFile(At("saved.json")).value();
  tc::CalibrateOptions options;
  options.calibration = {rows_};
  auto done = tc::Calibrate(model_, At("ranges.json"), options, {}, &error_);
  ASSERT_TRUE(done) << error_;
  EXPECT_TRUE(done->complete);
  EXPECT_EQ(done->samples, 4);
  EXPECT_EQ(ReadTextFile(At("ranges.json")).value(), wanted);
  const auto pass = [&](const std::string& after) {
    tc::CalibrateOptions merge;
    for (const char* part : {"1/2", "2/2"}) {
      options.part = part;
      options.after = after;
      merge.merge.push_back(At(std::string("part") + part[0]));
      done = tc::Calibrate(model_, merge.merge.back(), options, {}, &error_);
      ASSERT_TRUE(done) << error_;
      EXPECT_FALSE(done->complete);
      EXPECT_EQ(done->samples, 2);
    }
    done = tc::Calibrate(model_, At("merged.json"), merge, {}, &error_);
    ASSERT_TRUE(done) << error_;
    EXPECT_EQ(done->samples, 4);
  };
  pass("");
  EXPECT_TRUE(done->needs_second_pass);
  EXPECT_FALSE(done->complete);
  std::filesystem::rename(At("merged.json"), At("first.json"));
  pass(At("first.json"));
  EXPECT_TRUE(done->complete);
  EXPECT_EQ(ReadTextFile(At("merged.json")).value(), wanted);
}

TEST_F(Toolchain, EvaluatesInPartsToTheNumbersOfOne) {
  tc::QuantizeOptions quantize;
  quantize.calibration = {rows_};
  ASSERT_TRUE(tc::Quantize(model_, At("q.etm"), quantize, {}, &error_)) << error_;
  tc::EvaluateOptions options, merge;
  options.data = {rows_};
  options.reference = model_;
  const auto whole = tc::Evaluate(At("q.etm"), options, {}, &error_);
  ASSERT_TRUE(whole) << error_;
  for (const char* part : {"1/3", "2/3", "3/3"}) {
    options.part = part;
    options.save_part = At(std::string("part") + part[0]);
    merge.merge.push_back(options.save_part);
    ASSERT_TRUE(tc::Evaluate(At("q.etm"), options, {}, &error_)) << error_;
  }
  merge.reference = model_;
  const auto merged = tc::Evaluate(At("q.etm"), merge, {}, &error_);
  ASSERT_TRUE(merged) << error_;
  nlohmann::json a = Parsed(whole->report), b = Parsed(merged->report);
  a.erase("ms_per_sample");
  b.erase("ms_per_sample");
  EXPECT_EQ(a, b);
  EXPECT_EQ(merged->samples, 4);
  merge.merge.pop_back();
  EXPECT_FALSE(tc::Evaluate(At("q.etm"), merge, {}, &error_));
  EXPECT_NE(error_.find("part 3 of 3 is missing beside"), std::string::npos) << error_;
}

TEST_F(Toolchain, FailuresSayWhyAndLeaveNothing) {
  EXPECT_FALSE(tc::Compile(At("none.onnx"), At("out.etm"), {}, {}, &error_));
  EXPECT_NE(error_.find("none.onnx"), std::string::npos) << error_;
  EXPECT_FALSE(tc::Compile(At("none.onnx"), At("out.etm"))) << "nobody asks why";
  tc::QuantizeOptions options;
  EXPECT_FALSE(tc::Quantize(model_, At("out.etm"), options, {}, &error_));
  EXPECT_NE(error_.find("needs data"), std::string::npos) << error_;
  options.calibration = {rows_};
  tc::Follow follow;
  std::vector<std::string> stages;
  follow.progress = [&](const std::string& stage, double) { stages.push_back(stage); };
  follow.cancelled = [&] { return stages.size() == 3; };
  EXPECT_FALSE(tc::Quantize(model_, At("out.etm"), options, follow, &error_));
  EXPECT_EQ(stages, (std::vector<std::string>{"loading", "calibrating", "calibrating"}));
  EXPECT_NE(error_.find("cancelled while calibrating"), std::string::npos) << error_;
  EXPECT_FALSE(std::filesystem::exists(At("out.etm")));
  tc::PredictOptions predict;
  predict.shapes = {{"x", {}}};
  predict.batch = 2;
  EXPECT_FALSE(tc::Predict(model_, predict, {}, &error_));
  EXPECT_NE(error_.find("input x: shape [] has rank 0"), std::string::npos) << error_;
}

}  // namespace
}  // namespace evoq
