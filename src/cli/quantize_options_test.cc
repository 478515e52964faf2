// Options of quantize, on the command line and in a file, and what it, eval, demo and explain
// print.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "cli/tiny_testing.h"
#include "quant/quant.h"
#include "workflow/config.h"

namespace evoq {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

class QuantizeOptionsTest : public TinyModels {
 protected:
  // Five products of 16 x 16, named p0 to p4, and a bias.
  std::string Chain() {
    std::string text = "graph g\ninput %x: float32[1, 16]\n";
    std::vector<float> weights(256);
    std::string last = "x";
    for (int i = 0; i < 5; ++i) {
      for (size_t k = 0; k < weights.size(); ++k)
        weights[k] = std::round(100 * std::sin(static_cast<float>(k) + 0.1f * i)) / 100;
      text += fmt::format(
          "const %w{0}: float32[16, 16] = [{1}]\np{0}: %v{0}: float32[1, 16] = "
          "MatMul(%{2}, %w{0})\n",
          i, fmt::join(weights, ", "), last);
      last = fmt::format("v{}", i);
    }
    return Model("chain.onnx", text + "output %" + last + "\n");
  }
  std::string Samples(int count) {
    std::vector<float> values(static_cast<size_t>(count) * 16);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = std::cos(static_cast<float>(3 * i)) * (i % 16 == 5 ? 9.0f : 1.0f);
    return Values("samples.npy", Shape{count, 16}, values);
  }
};

// The same file and the same figures, however an option is given; and another file than without.
TEST_F(QuantizeOptionsTest, InAFileAreThoseOfTheCommandLine) {
  const std::string model = Chain(), samples = Samples(8);
  const auto written = [&](const Words& options) {
    Words words = {"quantize", model, "-o", At("q.onnx")};
    words.insert(words.end(), options.begin(), options.end());
    json out = Json(words);
    out.erase("seconds");
    return std::pair(out, ReadTextFile(At("q.onnx")).value_or(""));
  };
  struct Row {
    json config;
    Words options;
  };
  const std::vector<Row> rows = {
      {{{"scheme", "int8-dynamic"}}, {"--scheme", "int8-dynamic"}},
      {{{"method", "none"}}, {"--method", "none"}},
      {{{"observer", "moving-average"}}, {"--observer", "moving-average"}},
      {{{"observer", "percentile"}, {"percentile", 60}},
       {"--observer", "percentile", "--percentile", "60"}},
      {{{"per_tensor", true}}, {"--per-tensor"}},
      {{{"scheme", "int4-weights"}, {"block", "64"}},
       {"--scheme", "int4-weights", "--block", "64"}},
      {{{"signed", true}}, {"--signed"}},
      {{{"symmetric", true}}, {"--symmetric"}},
      {{{"calib_limit", 1}}, {"--calib-limit", "1"}},
      {{{"samples", "2"}, {"calib_limit", 0}}, {"--samples", "2", "--calib-limit", "0"}},
      {{{"exclude", {"p1", "p3"}}}, {"--exclude", "p1", "--exclude", "p3"}}};
  const Words data = {"--calib", samples};
  const auto plain = written(data);
  EXPECT_EQ(plain.first["samples_used"], 8);
  EXPECT_EQ(written({"--config", Text("none.json", "{}"), "--calib", samples}), plain);
  EXPECT_EQ(written({"--config", Text("calib.json", json{{"calib", samples}}.dump())}), plain);
  EXPECT_EQ(written({"--config", Text("calib.json", json{{"calib", {samples}}}.dump())}), plain);
  for (const int all : {0, 8, 1000000000})
    EXPECT_EQ(written({"--config", Text("all.json", json{{"calib_limit", all}}.dump()), "--calib",
                       samples}),
              plain)
        << all;
  for (const Row& row : rows) {
    Words words = row.options;
    words.insert(words.end(), data.begin(), data.end());
    const auto by_options = written(words);
    json config = row.config;
    const auto by_file = written({"--config", Text("c.json", config.dump()), "--calib", samples});
    EXPECT_EQ(by_file.first, by_options.first) << config;
    EXPECT_TRUE(by_file.second == by_options.second) << config;
    EXPECT_FALSE(by_options.second == plain.second) << config << " changes nothing";
    // What the command line says wins over the file.
    if (config.size() > 1 || row.options.size() != 2 || config.begin()->is_array()) continue;
    const bool number = config.begin()->is_number();
    config.begin().value() = number ? json(3) : config.contains("scheme") ? "bf16" : "mse";
    words.insert(words.end(), {"--config", Text("c.json", config.dump())});
    EXPECT_TRUE(written(words).second == by_options.second) << config;
  }
  EXPECT_EQ(written({"--config", Text("c.json", R"({"exclude": ["p1"]})"), "--exclude", "p3",
                     "--calib", samples})
                    .second == plain.second,
            false);
  const std::string missing =
      Refused({"quantize", model, "-o", At("q.etm"), "--config",
               Text("c.json", R"({"preprocess": "no.json"})"), "--calib", samples},
              kBadInput);
  EXPECT_NE(missing.find("no.json"), std::string::npos) << missing;
}

// Methods round weights of few bits, but not signs.
TEST_F(QuantizeOptionsTest, FewBitsAndMethods) {
  const std::string model = Chain(), samples = Samples(4), etm = At("q.etm");
  const Words common = {"quantize", model, "--calib", samples, "-o", etm, "--weight-bits"};
  const auto with = [&](const Words& more) {
    Words words = common;
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const Ran rounded = Run(with({"4", "--method", "gptq"}));
  ASSERT_EQ(rounded.code, 0) << rounded.log;
  const Ran nearest = Run(with({"4"}));
  ASSERT_EQ(nearest.code, 0) << nearest.log;
  EXPECT_EQ(rounded.json["quantized_weight_bytes"], nearest.json["quantized_weight_bytes"]);
  // What the file holds of the five products of 16 x 16, and of two of them in 2 bits.
  EXPECT_EQ(nearest.json["quantized_weight_bytes"], 5 * 128);
  EXPECT_EQ(nearest.json["weight_bits"].size(), 5u);
  EXPECT_NE(nearest.out.find(", 5 layers with weights of 4 bits, "), std::string::npos);
  for (const char* output : {"q.etm", "q.onnx"}) {
    Words words = with({"p1=2", "--weight-bits", "p3=2"});
    words[5] = At(output);
    const Ran two = Run(words);
    ASSERT_EQ(two.code, 0) << two.log;
    EXPECT_EQ(two.json["quantized_weight_bytes"], 3 * 256 + 2 * 64) << output;
    EXPECT_EQ(two.json["weight_bits"], json({{"p1", 2}, {"p3", 2}})) << output;
  }
  EXPECT_TRUE(Run({"quantize", model, "--calib", samples, "-o", etm}).json["weight_bits"].empty());
  // A promise, and several scale sets, do not cost the bits.
  for (const Words& more : {Words{"--min-sqnr", "0.001", "--data", samples, "--measure-s", "0.1"},
                            Words{"--scale-sets", "2"}}) {
    Words words = with({"4"});
    words.insert(words.end(), more.begin(), more.end());
    const Ran ran = Run(words);
    ASSERT_EQ(ran.code, 0) << ran.log;
    EXPECT_EQ(ran.json["weight_bits"].size(), 5u) << more[0];
    EXPECT_EQ(ran.json["quantized_weight_bytes"], 5 * 128) << more[0];
    const int64_t few = ran.json["output_bytes"];
    words[words.size() - more.size() - 1] = "8";
    EXPECT_GT(Run(words).json["output_bytes"].get<int64_t>(), few + 5 * 100) << more[0];
  }
  const std::string refused = Refused(with({"p1=1", "--method", "gptq"}), kUsage);
  EXPECT_NE(refused.find("--method gptq: not with weights of 1 bit"), std::string::npos) << refused;
}

TEST_F(QuantizeOptionsTest, WhatItPrints) {
  const std::string model = Chain(), samples = Samples(4), etm = At("q.etm");
  for (const std::string& scheme : {"int8", "bf16"}) {
    const Ran ran =
        Run({"quantize", model, "--scheme", scheme, "--calib", samples, "-o", etm, "--exclude",
             "p0", "--exclude", "p1", "--exclude", "p2", "--exclude", "p3"});
    ASSERT_EQ(ran.code, 0) << ran.log;
    const json& q = ran.json;
    const auto kb = [&](const char* field) {
      return fmt::format("{:.1f} kB", q[field].get<double>() / 1e3);
    };
    const std::string head = fmt::format(
        "{} -> {}: {} -> {} ({:.3f} of the float32 weights), {} of {} steps {}, {} float, {:.1f} "
        "s\n",
        model, etm, kb("input_bytes"), kb("output_bytes"),
        q["output_bytes"].get<double>() / (5 * 256 * 4), q["steps_" + scheme].get<int>(),
        q["steps_total"].get<int>(), scheme, q["steps_float"].get<int>(),
        q["seconds"].get<double>());
    EXPECT_EQ(ran.out.substr(0, head.size()), head);
    EXPECT_EQ(q["steps_" + scheme].get<int>() > 0, true);
    // The four have reasons of their own, by the pattern that excludes each.
    for (const char* name : {"p0", "p1", "p2", "p3"})
      EXPECT_NE(ran.out.find(fmt::format("  float:   1 ({0}): excluded: the name matches the "
                                         "excluded pattern \"{0}\"\n",
                                         name)),
                std::string::npos)
          << ran.out;
  }
  // The commonest reason first, with three names.
  const Ran ran =
      Run({"quantize", model, "--calib", samples, "-o", etm, "--exclude", "p0", "--exclude", "p?"});
  const std::string most =
                        "  float:   4 (p1, p2, p3, ...): excluded: the name matches the excluded "
                        "pattern \"p?\"\n",
                    one =
                        "  float:   1 (p0): excluded: the name matches the excluded pattern "
                        "\"p0\"\n";
  ASSERT_NE(ran.out.find(most), std::string::npos) << ran.out;
  EXPECT_EQ(ran.out.find(most) + most.size(), ran.out.find(one)) << ran.out;
  const Ran three = Run({"quantize", model, "--calib", samples, "-o", etm, "--exclude", "p0",
                         "--exclude", "p1", "--exclude", "p?"});
  EXPECT_NE(three.out.find("  float:   3 (p2, p3, p4): "), std::string::npos) << three.out;
}

// Ranges of 16 bits are whole where no observer is named.
TEST_F(QuantizeOptionsTest, ASchemeHasAnObserver) {
  const std::string model = Chain(), samples = Samples(4);
  const auto observer = [&](const Words& more) {
    Words words = {"quantize", model,       "--calib",       samples,
                   "-o",       At("q.etm"), "--save-ranges", At("ranges.json")};
    words.insert(words.end(), more.begin(), more.end());
    const Ran ran = Run(words);
    EXPECT_EQ(ran.code, 0) << ran.log;
    return nlohmann::json::parse(ReadTextFile(At("ranges.json")).value())["observer"];
  };
  EXPECT_EQ(observer({"--scheme", "int16x8"}), "minmax");
  EXPECT_EQ(observer({"--scheme", "int16"}), "minmax");
  EXPECT_EQ(observer({"--scheme", "int16x8", "--observer", "entropy"}), "entropy");
  EXPECT_EQ(observer({}), "sqnr");
}

// A step's precision is what it computes in, whichever file is written: weights alone in int8 leave
// it float32 and are told apart. In an .onnx nodes are counted, and it says so.
TEST_F(QuantizeOptionsTest, EachSchemeTellsTheSameOfBothOutputs) {
  const std::string model = Chain(), samples = Samples(4);
  for (const QuantScheme* row : AllSchemes()) {
    const std::string scheme = row->name;
    for (const char* file : {"q.etm", "q.onnx"}) {
      const bool nodes = std::string(file) == "q.onnx";
      const std::string where = scheme + " -> " + file;
      const Ran ran =
          Run({"quantize", model, "--scheme", scheme, "--calib", samples, "-o", At(file)});
      if (nodes && (scheme == "mxfp4-dynamic" || scheme == "nvfp4-dynamic")) {
        EXPECT_NE(ran.log.find("ONNX files hold such products of integer weights"),
                  std::string::npos)
            << ran.log;
        continue;
      }
      ASSERT_EQ(ran.code, 0) << where << ran.log;
      const auto n = [&](const char* field) { return ran.json[field].get<int>(); };
      const bool integers =
          scheme == "int8" || scheme.starts_with("int16") || scheme.ends_with("-dynamic");
      EXPECT_EQ(n("steps_int8") > 0, integers) << where;
      EXPECT_EQ(n("steps_bf16") > 0, scheme == "bf16") << where;
      EXPECT_EQ(n("int8_weights"), scheme == "int8-weights" ? 5 : 0) << where;
      const std::string type = scheme.substr(0, scheme.rfind('-'));
      const bool low_bits = scheme.ends_with("-weights") && type != "int8";
      EXPECT_EQ(ran.json["low_bit_weights"].value(type, 0), low_bits ? 5 : 0) << where;
      EXPECT_EQ(ran.json.contains("steps_why"), nodes) << where;
      EXPECT_EQ(ran.json.contains("gain"), scheme == "bf16" && !nodes) << where;
      EXPECT_EQ(ran.out.find("x [") != std::string::npos, scheme == "bf16" && !nodes) << ran.out;
      EXPECT_EQ(ran.out.find("nodes are counted") != std::string::npos, nodes) << ran.out;
      const bool weights = scheme.ends_with("-weights"), plain = weights || scheme == "float32";
      EXPECT_EQ(ran.out.find(fmt::format(", 5 layers with {} weights (they compute in float32), ",
                                         type)) != std::string::npos,
                weights)
          << ran.out;
      const char* const what = nodes ? "nodes" : "steps";
      if (plain)
        EXPECT_NE(ran.out.find(fmt::format("), {0} of {0} {1} float, ", n("steps_total"), what)),
                  std::string::npos)
            << ran.out;
      else
        EXPECT_NE(ran.out.find(fmt::format(" {} {}, {} float, ", what,
                                           scheme == "bf16" ? "bf16" : "int8", n("steps_float"))),
                  std::string::npos)
            << ran.out;
    }
  }
}

// Every field is taken, and is an option of its name.
TEST_F(QuantizeOptionsTest, FieldsOfAFile) {
  const std::string model = Chain(), samples = Samples(4);
  const json all = {{"scheme", "int8"},
                    {"calib", samples},
                    {"calib_random", 0},
                    {"calib_limit", 2},
                    {"preprocess", ""},
                    {"observer", "percentile"},
                    {"percentile", 99},
                    {"per_tensor", false},
                    {"block", "64"},
                    {"signed", false},
                    {"symmetric", false},
                    {"target", "ort"},
                    {"exclude", {"p1"}},
                    {"scale_sets", json::array()},
                    {"ranges", ""},
                    {"save_ranges", At("ranges.json")},
                    {"max_drop", 100},
                    {"min_sqnr", 0.5},
                    {"never_slower", false},
                    {"data", {samples}},
                    {"labels", ""},
                    {"data_limit", 3},
                    {"search_s", 0.5},
                    {"measure_s", 0.25},
                    {"tune", false},
                    {"encodings", ""},
                    {"encodings_out", At("used.encodings")},
                    {"encodings_version", "2.0.0"},
                    {"calib_cache", ""},
                    {"calib_cache_out", At("used.cache")},
                    {"opset", 0},
                    {"method", "none"},
                    {"samples", "2"},
                    {"disable", {"share-tables"}},
                    {"opt_level", 3}};
  // Of language models alone (language_certificate_test).
  const json language = {
      {"max_perplexity_growth", 1.5}, {"text", "t.txt"}, {"tokenizer", "t.json"}, {"window", 64}};
  std::set<std::string> keys;
  for (const ConfigField& field : QuantizeFields()) keys.insert(field.key);
  for (const json& part : {all, language}) {
    for (const auto& [key, value] : part.items()) EXPECT_EQ(keys.erase(key), 1) << key;
  }
  EXPECT_TRUE(keys.empty()) << *keys.begin();
  QuantizeJob job, command_line;
  ASSERT_TRUE(ReadConfig(Text("all.json", all.dump()), job));
  command_line.scheme = "bf16";
  command_line.exclude = {"p3"};
  TakeFrom(job, command_line, [](const char* key) { return std::string(key) == "scheme"; });
  EXPECT_EQ(command_line.scheme, "bf16") << "given";
  EXPECT_EQ(command_line.exclude, (std::vector<std::string>{"p3", "p1"}));
  EXPECT_EQ(command_line.data, std::vector<std::string>{samples});
  EXPECT_EQ(command_line.promise.max_drop, 100);
  EXPECT_EQ(command_line.promise.min_sqnr_db, 0.5);
  EXPECT_EQ(command_line.measure_s, 0.25);
  QuantizeJob text_job;
  ASSERT_TRUE(ReadConfig(Text("language.json", language.dump()), text_job));
  EXPECT_EQ(text_job.promise.max_growth, 1.5);
  EXPECT_EQ(text_job.text, "t.txt");
  EXPECT_EQ(text_job.tokenizer, "t.json");
  EXPECT_EQ(text_job.window, 64);
  EXPECT_EQ(command_line.ranges_out, At("ranges.json"));
  // As options do: the ranges are written, and the promise makes a certificate.
  const Ran ran = Run({"quantize", model, "-o", At("q.etm"), "--config", At("all.json")});
  ASSERT_EQ(ran.code, 0) << ran.log;
  EXPECT_EQ(ran.json["samples_used"], 2);
  EXPECT_TRUE(ran.json.contains("certificate")) << ran.json;
  for (const char* written : {"ranges.json", "used.encodings", "used.cache"})
    EXPECT_TRUE(std::filesystem::exists(At(written))) << written;
  EXPECT_EQ(ran.json["float_reasons"].count("p1"), 1);
  // As of the command line.
  EXPECT_NE(Refused({"quantize", model, "-o", At("q.onnx"), "--calib", samples, "--config",
                     Text("c.json", R"({"target": "nowhere"})")},
                    kUsage)
                .find("--target nowhere"),
            std::string::npos);
}

// A model that does not run at the batch of 1 that nobody asked for: the samples name its sizes,
// and without samples the first run of the file does.
TEST_F(QuantizeOptionsTest, SizesThatABatchOfOneDoesNotFit) {
  const std::string model =
      Model("two.onnx",
            "graph g\ninput %x: float32[N, 8]\nconst %s: int64[2] = [1, 16]\n"
            "const %w: float32[16, 16]\nr: %r: float32[1, 16] = Reshape(%x, %s)\n"
            "m: %y: float32[1, 16] = MatMul(%r, %w)\noutput %y\n");
  const std::string samples = Values("pairs.npy", Shape{3, 2, 8}, std::vector<float>(48, 0.5f));
  const json sampled = Json({"quantize", model, "--calib", "x=" + samples, "-o", At("q.etm")});
  EXPECT_EQ(sampled["samples_used"], 3);
  EXPECT_FALSE(sampled.contains("steps_why")) << sampled;
  EXPECT_GE(sampled["steps_int8"], 1);
  const json unnamed = Json({"quantize", model, "--scheme", "bf16", "-o", At("q.etm")});
  EXPECT_TRUE(unnamed.contains("steps_why")) << unnamed;
  EXPECT_NE(Refused({"quantize", model, "--scheme", "bf16", "--shape", "x=3x8", "-o", At("q.etm")},
                    kBadInput)
                .find("cannot reshape [3, 8] to [1, 16]"),
            std::string::npos);
}

TEST_F(QuantizeOptionsTest, NamesOfFilesOfOtherKinds) {
  const std::pair<Words, std::string> rows[] = {
      {{"quantize", "--scheme", "int8-weights", "-o", At("q.tflite")},
       ": evoq reads .tflite files and writes .etm and .onnx"},
      {{"compile", "-o", At("q.onnx")},
       ": what is written is an .etm file; `evoq optimize` writes .onnx"},
      {{"optimize", "-o", At("q.om")},
       ": what is written is an .onnx file; `evoq compile` writes .etm"},
  };
  for (const auto& [words, error] : rows) {
    Words all = words;
    all.insert(all.begin() + 1, Chain());
    EXPECT_EQ(Refused(all, kUsage), "evoq: -o " + words.back() + error + "\n");
  }
}

TEST_F(QuantizeOptionsTest, Refusals) {
  const std::string model = Chain(), etm = At("q.etm"), samples = Samples(2);
  Json({"compile", model, "-o", At("c.etm")});
  const std::pair<Words, std::string> rows[] = {
      {{model, "--scheme", "int3"},
       "--scheme int3: not one of `evoq list schemes`; the nearest is int8"},
      {{model, "--scheme", "w4a16"},
       "--scheme w4a16: not one of `evoq list schemes`; here it is int4-weights"},
      {{model, "--method", "sharpen"},
       "--method sharpen: \"sharpen\" is not one of `evoq list methods`"},
      {{model, "--scheme", "int4-weights", "--method", "equalize"},
       "--method equalize does not go with --scheme int4-weights: it widens channels of integer "
       "activations"},
      {{model, "--scheme", "auto", "--method", "none"},
       "--method none: --scheme auto chooses by measuring plain schemes"},
      {{At("c.etm")}, At("c.etm") + " is compiled already; quantize the .onnx"},
      {{model, "--observer", "max"}, "--observer max: not one of `evoq list observers`"},
      {{model}, "--scheme int8 needs data: --calib DIR, --calib-random N or --ranges F"},
      {{model, "--scheme", "auto"},
       "--scheme auto, --max-drop, --min-sqnr and --never-slower need data to measure on: --data "
       "DIR or --calib-random N"},
      {{model, "--min-sqnr", "9", "--calib", samples},
       "--scheme auto, --max-drop, --min-sqnr and --never-slower need data to measure on: --data "
       "DIR or --calib-random N"},
      {{model, "--max-drop", "1", "--tune", "--calib-random", "2"},
       fmt::format("--tune: the certificate is about the defaults; `evoq compile {} --tune` adds "
                   "to them",
                   etm)}};
  for (const auto& [words, error] : rows) {
    Words all = {"quantize", "-o", etm};
    all.insert(all.end(), words.begin(), words.end());
    EXPECT_EQ(Refused(all, kUsage), "evoq: " + error + "\n");
    EXPECT_FALSE(std::filesystem::exists(etm));
  }
  EXPECT_EQ(
      Refused({"quantize", model, "--never-slower", "--calib-random", "2", "-o", At("q.onnx")},
              kUsage),
      fmt::format("evoq: {}: promises are kept in an .etm\n", At("q.onnx")));
  EXPECT_NE(Refused({"quantize", model, "--calib", samples, "-o", At("no/q.etm")}, kBadInput)
                .find("no/q.etm"),
            std::string::npos);
  EXPECT_NE(
      Refused({"quantize", model, "--calib", samples, "-o", etm, "--save-ranges", At("no/r.json")},
              kBadInput)
          .find("no/r.json"),
      std::string::npos);
}

// Samples from memory: at most so many, evenly spread.
TEST_F(QuantizeOptionsTest, SamplesOfACallerInThisProcess) {
  const std::string model = Model("one.onnx",
                                  "graph g\ninput %x: float32[1, 16]\nconst %w: float32[16, 16]\n"
                                  "m: %y: float32[1, 16] = MatMul(%x, %w)\noutput %y\n");
  std::vector<std::vector<Tensor>> samples;
  for (int i = 0; i < 6; ++i)
    samples.push_back({Tensor::FromValues<float>(
        Shape{1, 16}, std::vector<float>(16, static_cast<float>(i + 1)))});
  CommonOptions common;
  common.samples = samples;
  const auto highest = [&](const char* limit) {
    const auto ran = RunVerb(
        "quantize",
        {model, "-o", At("q.etm"), "--calib-limit", limit, "--save-ranges", At("r.json")}, common);
    EXPECT_TRUE(ran) << ran.error().message();
    const auto text = ReadTextFile(At("r.json")).value_or("");
    const json ranges = json::parse(text, nullptr, false);
    return std::pair(
        ran->json["samples_used"].get<int>(),
        ranges["ranges"]["x"].is_array() ? ranges["ranges"]["x"][1].get<double>() : -1.0);
  };
  // Of six, 0 and 3 of two; 0, 2 and 4 of three.
  EXPECT_EQ(highest("0"), std::pair(6, 6.0));
  EXPECT_EQ(highest("1"), std::pair(1, 1.0));
  EXPECT_EQ(highest("2"), std::pair(2, 4.0));
  EXPECT_EQ(highest("3"), std::pair(3, 5.0));
  EXPECT_EQ(highest("100"), std::pair(6, 6.0));
  const auto both = RunVerb("quantize", {model, "-o", At("q.etm"), "--calib-random", "2"}, common);
  ASSERT_FALSE(both);
  EXPECT_EQ(both.error().message(),
            "calibration samples from memory and --calib exclude each other");
}

TEST_F(QuantizeOptionsTest, WhatEvalPrints) {
  const std::string model = Model("id.onnx",
                                  "graph g\ninput %x: float32[1, 2]\na: %y: float32[1, 2] = "
                                  "Relu(%x)\noutput %y\n"),
                    rows = Values("rows.npy", Shape{4, 2}, {1, 2, 2, 1, 3, 1, 0, 5});
  ASSERT_TRUE(WriteNpy(Tensor::FromValues<int64_t>(Shape{4}, {1, 1, 0, 1}), At("l.npy")));
  const Ran ran =
      Run({"eval", model, "--data", rows, "--labels", At("l.npy"), "--reference", model});
  ASSERT_EQ(ran.code, 0) << ran.log;
  const std::string first = fmt::format("{}: 4 samples, {:.3f} ms per sample\n", model,
                                        ran.json["ms_per_sample"].get<double>());
  EXPECT_EQ(ran.out, first + "  top-1 0.7500  top-5 1.0000  (3 of 4 right)\n" +
                         fmt::format("  top-1 class equal to {} on 1.0000 (4 of 4), outputs' "
                                     "signal to noise inf dB\n",
                                     model));
  EXPECT_EQ(ran.log, "");
  EXPECT_FALSE(ran.json.contains("sqnr_db")) << "infinite";
  EXPECT_EQ(ran.json["outputs"].size(), 1);
  const Ran alone = Run({"eval", model, "--data", rows});
  EXPECT_EQ(alone.log,
            "note: without --labels, --targets or --reference only the time is measured\n");
  EXPECT_TRUE(alone.json["agreement"].is_null());
  EXPECT_EQ(Run({"eval", model, "--data", rows, "--labels", At("l.npy")}).log, "");
  EXPECT_EQ(Run({"eval", model, "--data", rows, "--reference", model}).log, "");
  EXPECT_EQ(Refused({"eval", model}, kUsage), "evoq: expected --data, or --text and --tokenizer\n");
  EXPECT_EQ(Json({"eval", model, "--data", rows, "--limit", "9"})["samples"], 4);
  EXPECT_EQ(Run({"eval", model, "--data", rows, "--predictions", At("no/p.tsv")}).code, 3);
}

TEST_F(QuantizeOptionsTest, DrawnDigits) {
  const Ran ran = Run({"demo", "--draw-digits", "3", "--seed", "5", "-o", At("digits")});
  ASSERT_EQ(ran.code, 0) << ran.log;
  EXPECT_EQ(ran.out, fmt::format("wrote 3 drawn digits to {}\n", At("digits")));
  EXPECT_EQ(ran.json, (json{{"samples", 3}}));
  EXPECT_EQ(ReadNpy(At("digits/images.npy"))->sizes(), (std::vector<int64_t>{3, 1, 28, 28}));
  EXPECT_EQ(ReadNpy(At("digits/labels.npy"))->sizes(), (std::vector<int64_t>{3}));
  const std::string images = ReadTextFile(At("digits/images.npy")).value_or("");
  Json({"demo", "--draw-digits", "3", "--seed", "6", "-o", At("digits")});
  EXPECT_FALSE(ReadTextFile(At("digits/images.npy")).value_or("") == images);
}

// A file in which nothing is to be repaired: what is written is no other model, and says so.
TEST_F(QuantizeOptionsTest, RepairsOfNothing) {
  const Ran ran = Run({"explain", Chain(), "--target", "ort-cpu", "--fix", "-o", At("fixed.onnx")});
  ASSERT_EQ(ran.code, 0) << ran.log;
  EXPECT_TRUE(ran.out.ends_with(
      fmt::format("\nnothing to repair\n\nnothing was repaired: wrote {}, a copy of the model\n",
                  At("fixed.onnx"))))
      << ran.out;
  EXPECT_EQ(ran.json["repaired"], false);
  EXPECT_TRUE(std::filesystem::exists(At("fixed.onnx")));
}

// What is no model is asked what it is.
TEST_F(QuantizeOptionsTest, ProfilesWithoutAnOption) {
  ASSERT_TRUE(WriteFileAtomic(
      At("g.xml"), R"(<layer id="0" name="a" type="Add"><data execTimeMcs="2000"/></layer>)"));
  const json explained = Json({"explain", At("g.xml")});
  EXPECT_EQ(explained["tool"], "openvino");
  EXPECT_EQ(explained["layer_sum_ms"], 2);
  ASSERT_TRUE(WriteFileAtomic(At("g.xml"), std::string("<net/>")));
  EXPECT_NE(Run({"explain", At("g.xml")}).code, 0) << "no model and no profile";
}

// A table of four choices that exclude each other, and what each needs.
TEST_F(QuantizeOptionsTest, WhatExplainRefuses) {
  const std::string model = Chain();
  const std::pair<Words, std::string> rows[] = {
      {{},
       "explain what? Give a MODEL, or another runtime's files with --trtexec or --ort-profile or "
       "--benchmark-app or --openvino or --tflite or "
       "--msprof or --torch-trace"},
      {{"--trtexec", "d", "--ort-profile", "f"}, "--trtexec and --ort-profile exclude each other"},
      {{"--ort-profile", "f", "--benchmark-app", "g"},
       "--ort-profile and --benchmark-app exclude each other"},
      {{"--trtexec", "d", "--target", "ort-cpu"}, "--trtexec and --target exclude each other"},
      {{model, "--accept-changes"},
       "--accept-changes, --data and --preprocess are for --target NAME --fix"},
      {{model, "--data", "d"},
       "--accept-changes, --data and --preprocess are for --target NAME --fix"},
      {{model, "--preprocess", "p"},
       "--accept-changes, --data and --preprocess are for --target NAME --fix"},
      {{model, "--fix"}, "--fix needs the runtime to repair for: --target NAME"},
      {{model, "-o", "o.onnx"}, "--fix needs the runtime to repair for: --target NAME"},
      {{model, "--ort-profile", "f"},
       "--ort-profile explains another runtime's files: it takes no MODEL"},
      {{model, "--target", "none"},
       "--target none: expected ort-cpu, ort-cuda, tensorrt, openvino"},
      {{model, "--target", "evoq"},
       "--target evoq: what evoq makes of a model is measured, without --target; expected "
       "ort-cpu, ort-cuda, tensorrt, openvino"},
      {{"m.etm", "--target", "ort"}, "m.etm: --target takes an .onnx file"},
      {{"m.etm", "--target", "ort-cpu"}, "m.etm: --target takes an .onnx file"},
      {{model, "--target", "ort-cpu", "--fix"}, "--fix and -o go together: --fix -o FIXED.onnx"},
      {{model, "--target", "ort-cpu", "-o", "o.onnx"},
       "--fix and -o go together: --fix -o FIXED.onnx"},
      {{model, "--target", "ort-cpu", "--accept-changes"},
       "--accept-changes, --data and --preprocess are for --fix"},
      {{model, "--target", "ort-cpu", "--data", "d"},
       "--accept-changes, --data and --preprocess are for --fix"},
      {{model, "--target", "ort-cpu", "--preprocess", "p"},
       "--accept-changes, --data and --preprocess are for --fix"},
      {{model, "--target", "ort-cpu", "--fix", "-o", "o.etm"}, "-o o.etm: expected an .onnx file"}};
  for (const auto& [words, error] : rows) {
    Words all = {"explain"};
    all.insert(all.end(), words.begin(), words.end());
    EXPECT_EQ(Refused(all, kUsage), "evoq: " + error + "\n");
  }
  EXPECT_NE(Refused({"explain", model, "--report", At("no/r.html")}, kBadInput).find("no/r.html"),
            std::string::npos);
  EXPECT_NE(
      Refused({"explain", model, "--target", "ort-cpu", "--fix", "-o", At("no/o.onnx")}, kBadInput)
          .find("no/o.onnx"),
      std::string::npos);
}

}  // namespace
}  // namespace evoq
