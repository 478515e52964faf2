// The text of bench, profile, compare, explain, eval, quantize and demo against their JSON and the
// files that they write.
#include <gtest/gtest.h>

#include <cmath>

#include "base/ms_text.h"
#include "cli/tiny_testing.h"

namespace evoq {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

class Figures : public TinyModels {
 protected:
  std::string Product(const std::string& name = "product.onnx") {
    return Model(name,
                 "graph g\ninput %x: float32[N, 32]\nconst %w: float32[32, 32]\n"
                 "m: %1: float32[N, 32] = MatMul(%x, %w)\n"
                 "s: %y: float32[N, 32] = Softmax(%1)\noutput %y\n");
  }
  std::string Places() {
    return Model("places.onnx",
                 "graph g\ninput %x: float32[N, 3]\np: %y: int64[2, ?] = NonZero(%x)\noutput %y\n");
  }
  static double Number(const json& value) { return value.get<double>(); }
  json File(const std::string& name) {
    return json::parse(ReadTextFile(At(name)).value_or("?"), nullptr, false);
  }
  // The lines of a text that begin so.
  static Words LinesWith(const std::string& text, const std::string& begin) {
    Words lines;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      if (text.compare(at, begin.size(), begin) == 0) lines.push_back(text.substr(at, end - at));
      at = end + 1;
    }
    return lines;
  }
};

TEST_F(Figures, Bench) {
  for (const std::string& streams : {"1", "2"}) {
    for (const bool regions : {false, true}) {
      if (regions && streams == "2") continue;
      const std::string model = regions ? Places() : Product();
      const Ran ran = Run({"bench", model, "--batch", "2", "--threads", "1", "--duration-s", "0.01",
                           "--warmup-ms", "0", "--iterations", "12", "--percentile", "25,100",
                           "--streams", streams});
      ASSERT_EQ(ran.code, 0) << ran.log;
      const json& b = ran.json;
      const auto n = [&](const char* field) { return Number(b[field]); };
      EXPECT_EQ(LinesWith(ran.out, model + ": " + b["isa"].get<std::string>() + " on ").size(), 1);
      EXPECT_NE(ran.out.find(fmt::format(", 1 thread, batch 2, {} stream{}\n", streams,
                                         streams == "1" ? "" : "s")),
                std::string::npos)
          << ran.out;
      EXPECT_EQ(LinesWith(ran.out, "  latency"),
                (Words{fmt::format("  latency  p50 {:.3f} ms  mean {:.3f}  min {:.3f}  p90 {:.3f}  "
                                   "p95 {:.3f}  p99 {:.3f}  ({} runs)",
                                   n("p50_ms"), n("mean_ms"), n("min_ms"), n("p90_ms"), n("p95_ms"),
                                   n("p99_ms"), b["runs"].get<int>())}));
      for (const char* p : {"25", "100"})
        EXPECT_EQ(LinesWith(ran.out, fmt::format("  p{} ", p)),
                  (Words{fmt::format("  p{} {:.3f} ms", p, Number(b["percentiles"][p]))}));
      EXPECT_EQ(
          LinesWith(ran.out, "  throughput"),
          (Words{fmt::format("  throughput {:.1f} per second; load {:.1f} ms, of it {:.1f} "
                             "ms to prepare these shapes; arena {:.2f} MB ({:.2f} MB of values), "
                             "weights {:.2f} MB",
                             n("per_second"), n("load_ms"), n("prepare_ms"), n("arena_bytes") / 1e6,
                             n("value_bytes") / 1e6, n("weight_bytes") / 1e6)}));
      EXPECT_GE(b["runs"], streams == "1" ? 12 : 24);
      EXPECT_GT(n("first_ms"), 0);
      EXPECT_LT(n("prepare_ms"), 10000);
      EXPECT_TRUE(b["disturbance"].is_object());
      EXPECT_TRUE(b["live_bytes"].is_number()) << b;
      // The warnings are those of the figures.
      const double first = regions ? n("first_ms") - n("prepare_ms") : n("first_ms"),
                   median = n("p50_ms"), load = n("load_ms");
      Words expected;
      if (first > 10 * median)
        expected.push_back(fmt::format(
            "warning: the first run took {:.2f} ms, {:.0f} times the median: a process that runs "
            "once sees that, not the median",
            first, first / median));
      EXPECT_EQ(LinesWith(ran.log, "warning: the first run"), expected);
      expected.clear();
      if (load > 1000 * median)
        expected.push_back(fmt::format("warning: loading took {:.0f} ms, as long as {:.0f} runs",
                                       load, load / median));
      EXPECT_EQ(LinesWith(ran.log, "warning: loading"), expected);
      const Words partitions = LinesWith(ran.out, "  in dynamic partitions: ");
      EXPECT_EQ(partitions.size(), regions ? 1u : 0u);
      if (regions)
        EXPECT_EQ(partitions[0], "  in dynamic partitions: " + b["regions"].get<std::string>());
    }
  }
  const std::string refused = Refused({"bench", Places(), "--streams", "2"}, kUsage);
  EXPECT_NE(refused.find("--streams 2: " + At("places.onnx") +
                         " runs in dynamic partitions, one stream at a time ("),
            std::string::npos)
      << refused;
  for (const char* verb : {"bench", "profile"}) {
    const std::string tuned = Refused({verb, Places(), "--tune"}, kUsage);
    EXPECT_NE(tuned.find("--tune: " + At("places.onnx") + " runs in dynamic partitions"),
              std::string::npos)
        << tuned;
  }
}

// Of a file that is loaded before anyone looks at the sizes too.
TEST_F(Figures, ShapesOfAnotherRankWithABatch) {
  Json({"compile", Product(), "-o", At("w.etm")});
  for (const auto& [verb, model] : {std::pair<const char*, std::string>{"predict", Product()},
                                    {"bench", Product()},
                                    {"bench", At("w.etm")},
                                    {"profile", At("w.etm")},
                                    {"explain", At("w.etm")}}) {
    const std::string refused = Refused({verb, model, "--shape", "x=", "--batch", "2"}, kUsage);
    EXPECT_NE(refused.find("input x: shape [] has rank 0, the model's is ["), std::string::npos)
        << verb << ": " << refused;
  }
}

// --hint throughput prints what it tried, and measures the best.
TEST_F(Figures, BenchForThroughput) {
  const Ran ran = Run({"bench", Product(), "--hint", "throughput", "--threads", "2", "--duration-s",
                       "0.01", "--warmup-ms", "0"});
  ASSERT_EQ(ran.code, 0) << ran.log;
  const json& trials = ran.json["trials"];
  ASSERT_GE(trials.size(), 4);
  const json* best = &trials[0];
  for (const json& trial : trials) {
    EXPECT_EQ(LinesWith(ran.out, fmt::format("  {:5}  {:7}  {:12}  {:10.1f}  {:7.3f}",
                                             trial["batch"].get<int>(), trial["streams"].get<int>(),
                                             trial["threads"].get<int>(),
                                             Number(trial["per_second"]), Number(trial["p50_ms"])))
                  .size(),
              1)
        << trial << ran.out;
    if (trial["per_second"] > (*best)["per_second"]) best = &trial;
  }
  for (const char* field : {"batch", "streams", "threads"})
    EXPECT_EQ(ran.json[field], (*best)[field]) << field;
  EXPECT_EQ(Run({"bench", Product(), "--hint", "fast"}).code, 2);
}

// What trtexec's options write, of one program and of partitions.
TEST_F(Figures, BenchLikeTrtexec) {
  for (const std::string& model : {Product(), Places()}) {
    const Words bench = {"bench",        model,  "--threads",   "1",
                         "--duration-s", "0.01", "--warmup-ms", "0"};
    const auto with = [&](Words more) {
      more.insert(more.begin(), bench.begin(), bench.end());
      return Run(more);
    };
    Ran ran = with({"--exportTimes", At("t.json"), "--exportProfile", At("p.json"),
                    "--exportLayerInfo", At("l.json")});
    ASSERT_EQ(ran.code, 0) << ran.log;
    EXPECT_EQ(File("t.json").size(), ran.json["runs"]);
    EXPECT_TRUE(File("p.json")[0].contains("count"));
    EXPECT_EQ(File("p.json").size() - 1, File("l.json")["Layers"].size());
    EXPECT_TRUE(File("l.json")["Layers"][0].is_string());
    const std::string heading = "  Median(ms)  ";
    EXPECT_EQ(ran.out.find(heading), std::string::npos) << ran.out;
    ran = with(
        {"--exportLayerInfo", At("d.json"), "--profilingVerbosity", "detailed", "--dumpLayerInfo"});
    EXPECT_TRUE(File("d.json")["Layers"][0].is_object());
    const size_t at = ran.out.find("{\n");
    ASSERT_NE(at, std::string::npos) << ran.out;
    EXPECT_EQ(json::parse(ran.out.substr(at), nullptr, false), File("d.json"));
    ran = with(
        {"--exportLayerInfo", At("n.json"), "--profilingVerbosity", "none", "--dumpLayerInfo"});
    EXPECT_FALSE(std::filesystem::exists(At("n.json")));
    EXPECT_EQ(ran.out.find("{\n"), std::string::npos) << ran.out;
    ran = with({"--dumpProfile"});
    EXPECT_NE(ran.out.find(heading), std::string::npos) << ran.out;
    EXPECT_EQ(with({"--exportTimes", At("no/t.json")}).code, 3);
    EXPECT_EQ(with({"--exportProfile", At("no/t.json")}).code, 3);
    EXPECT_EQ(with({"--exportLayerInfo", At("no/t.json")}).code, 3);
  }
}

// A trace holds whole runs on one row and, for those with step timing, the host and the steps one
// after the other on the other.
TEST_F(Figures, ProfileAndItsTrace) {
  for (const std::string& model : {Product(), Places()}) {
    const bool regions = model == At("places.onnx");
    const Ran ran = Run({"profile", model, "--threads", "1", "--duration-s", "0.02", "--warmup-ms",
                         "1", "--trace", At("trace.json"), "--layer-info", At("layers.json")});
    ASSERT_EQ(ran.code, 0) << ran.log;
    const json& p = ran.json;
    const auto n = [&](const char* field) { return Number(p[field]); };
    EXPECT_EQ(File("layers.json").size(), p["steps"].size());
    EXPECT_EQ(File("layers.json")[0]["step"], p["steps"][0]["name"]);
    EXPECT_EQ(p.contains("stages"), regions);
    const Words told = LinesWith(ran.out, "in dynamic partitions (");
    EXPECT_EQ(told.size(), regions ? 1u : 0u);
    if (regions) {
      const std::string end =
          fmt::format("; {} prepared in {:.1f} ms", p["stages"].get<int>(), n("prepare_ms"));
      EXPECT_EQ(told[0].substr(told[0].size() - end.size()), end);
    }
    const double total = n("total_ms"), first = n("first_ms");
    const std::pair<std::string, bool> warnings[] = {
        {fmt::format("warning: half of the time a run took {:.0f}% longer than in the calm blocks",
                     100 * n("busy")),
         n("busy") > 0.1},
        {fmt::format("warning: the first run took {:.2f} ms, {:.0f} times the others: ", first,
                     first / total),
         first > 10 * total},
        {fmt::format("warning: a run takes {:.3f} ms outside its steps and {:.3f} ms in them: ",
                     n("host_ms"), n("steps_ms")),
         n("host_ms") > n("steps_ms")},
        {fmt::format("warning: timing the steps adds {:.0f}% to a run: ",
                     100 * n("tax_ms") / total),
         n("tax_ms") > 0.1 * total}};
    size_t count = 0;
    for (const auto& [text, holds] : warnings) {
      EXPECT_EQ(LinesWith(ran.log, text).size(), holds ? 1 : 0) << text << "\n" << ran.log;
      count += holds;
    }
    EXPECT_EQ(LinesWith(ran.log, "warning:").size(), count) << ran.log;

    const json trace = File("trace.json");
    EXPECT_EQ(trace["displayTimeUnit"], "ns");
    const json& events = trace["traceEvents"];
    const auto row = [](int tid, const char* name) {
      return json{{"name", "thread_name"},
                  {"ph", "M"},
                  {"pid", 1},
                  {"tid", tid},
                  {"args", {{"name", name}}}};
    };
    ASSERT_GT(events.size(), 4);
    EXPECT_EQ(events[0], row(0, "runs"));
    EXPECT_EQ(events[1], row(1, "steps"));
    size_t timed = 0;
    double last = -1;
    for (size_t e = 2; e < events.size();) {
      const json& run = events[e++];
      EXPECT_EQ(run["ph"], "X");
      EXPECT_EQ(run["pid"], 1);
      EXPECT_EQ(run["tid"], 0);
      EXPECT_EQ(run["cat"], "run");
      EXPECT_EQ(run["args"], json::object());
      EXPECT_GT(Number(run["ts"]), last);
      last = Number(run["ts"]);
      if (run["name"] == "run") continue;
      ASSERT_EQ(run["name"], "run, steps timed");
      ++timed;
      double at = Number(run["ts"]), sum = 0;
      for (size_t s = 0; s <= p["steps"].size(); ++s) {
        const json& part = events[e++];
        EXPECT_EQ(part["tid"], 1);
        EXPECT_NEAR(Number(part["ts"]), at, 1e-6 + 1e-9 * at);
        EXPECT_GE(Number(part["dur"]), 0);
        at += Number(part["dur"]);
        sum += Number(part["dur"]);
        if (s == 0) {
          EXPECT_EQ(part["name"], "host");
          EXPECT_EQ(part["cat"], "host");
          continue;
        }
        const json& step = p["steps"][s - 1];
        EXPECT_EQ(part["name"], step["name"]);
        EXPECT_EQ(part["cat"], step["op"]);
        EXPECT_EQ(part["args"], (json{{"kernel", step["kernel"]},
                                      {"precision", step["precision"]},
                                      {"shape", step["shape"]}}));
      }
      EXPECT_GE(sum, Number(run["dur"]) - 1e-6);
    }
    EXPECT_GT(timed, 1);
    // Times are in microseconds: a run of the profile is as long as those of the trace.
    EXPECT_GT(last, total) << "microseconds";
    EXPECT_LT(last, 60e6);
  }
  EXPECT_EQ(Run({"profile", Product(), "--duration-s", "0.01", "--trace", At("no/t.json")}).code,
            3);
  EXPECT_EQ(
      Run({"profile", Product(), "--duration-s", "0.01", "--layer-info", At("no/t.json")}).code, 3);
}

// B has a product more than A.
TEST_F(Figures, CompareTwoModels) {
  const std::string a = Product(),
                    b = Model("longer.onnx",
                              "graph g\ninput %x: float32[N, 32]\nconst %w: float32[32, 3000]\n"
                              "const %v: float32[3000, 32]\n"
                              "m: %1: float32[N, 3000] = MatMul(%x, %w)\n"
                              "l: %2: float32[N, 32] = MatMul(%1, %v)\n"
                              "s: %y: float32[N, 32] = Softmax(%2)\noutput %y\n");
  const Ran ran = Run({"compare", a, b, "--threads", "1", "--duration-s", "0.2", "--warmup-ms", "1",
                       "--rounds", "5", "--report", At("page.html")});
  ASSERT_EQ(ran.code, 0) << ran.log;
  const json& c = ran.json;
  const double a_ms = Number(c["a_ms"]), b_ms = Number(c["b_ms"]);
  EXPECT_EQ(c["a"]["model"], a);
  EXPECT_EQ(c["b"]["model"], b);
  EXPECT_EQ(c["a"]["batch"], 1);
  EXPECT_LT(Number(c["a"]["weight_bytes"]), Number(c["b"]["weight_bytes"]));
  const std::string verdict = c["verdict"];
  const std::string head = fmt::format(
      "A {}: {} ms\nB {}: {} ms\n{}{:.3f}x of A's speed, 95% interval {:.3f} to {:.3f}\n", a,
      MsText(a_ms), b, MsText(b_ms),
      verdict == "same" ? "same: B runs at " : "B is " + verdict + ": ", Number(c["speedup"]),
      Number(c["speedup_low"]), Number(c["speedup_high"]));
  EXPECT_EQ(ran.out.substr(0, head.size()), head);
  EXPECT_EQ(c.contains("steps"), verdict != "same");
  // Each model's steps are parts of its compared time.
  const json steps = c.value("steps", json::array());
  const Words told = LinesWith(ran.out, "  step ");
  EXPECT_EQ(told.size(), std::min<size_t>(steps.size(), 3));
  for (size_t i = 0; i < told.size(); ++i) {
    const double in_a = Number(steps[i]["a_ms"]), in_b = Number(steps[i]["b_ms"]);
    EXPECT_EQ(told[i], fmt::format("  step {}: {} ms in A, {} ms in B ({:+.1f}% of A's run)",
                                   steps[i]["name"].get<std::string>(), MsText(in_a), MsText(in_b),
                                   100 * (in_b - in_a) / a_ms));
  }
  EXPECT_EQ(LinesWith(ran.out, "wrote "), (Words{"wrote " + At("page.html")}));
  const std::string page = ReadTextFile(At("page.html")).value_or("");
  const std::string begin = R"(<script id="data" type="application/json">)";
  const size_t at = page.find(begin);
  ASSERT_NE(at, std::string::npos);
  const json data =
      json::parse(page.substr(at + begin.size(), page.find("</script>", at) - at - begin.size()),
                  nullptr, false);
  EXPECT_EQ(data["compare"]["a_ms"], c["a_ms"]);
  EXPECT_EQ(data["compare"]["verdict"], verdict);
  EXPECT_EQ(data["models"][0]["name"], "longer.onnx");
  EXPECT_EQ(data["models"][1]["name"], "product.onnx");
  EXPECT_NE(Refused({"compare", a, b, "--report", At("no/page.html")}, kBadInput).find("no/page"),
            std::string::npos);
}

TEST_F(Figures, SavedRunsThatAreRefused) {
  const std::string good = Text("good.json", R"([{"latencyMs": 1.5}, {"latencyMs": 2.5}])"),
                    model = Product();
  const std::pair<std::string, std::string> rows[] = {
      {"[]", ": no runs; expected what `evoq bench --export-times F` or trtexec --exportTimes"},
      {"{}", ": no runs; expected what"},
      {"[1]", ": run 0 has no positive latencyMs"},
      {"[{}]", ": run 0 has no positive latencyMs"},
      {R"([{"latencyMs": 1}, {"latencyMs": "1"}])", ": run 1 has no positive latencyMs"},
      {R"([{"latencyMs": 0}])", ": run 0 has no positive latencyMs"},
      {R"([{"latencyMs": -1}])", ": run 0 has no positive latencyMs"}};
  for (const auto& [text, error] : rows) {
    const std::string bad = Text("bad.json", text);
    for (const Words& words : {Words{"compare", bad, good}, Words{"compare", good, bad}}) {
      const std::string log = Refused(words, kBadInput);
      EXPECT_NE(log.find(bad + error), std::string::npos) << log;
    }
  }
  for (const Words& words : {Words{"compare", good, model}, Words{"compare", model, good}})
    EXPECT_EQ(Refused(words, kUsage),
              "evoq: compare two models, or two files of `bench --export-times`, not one of "
              "each\n");
  EXPECT_EQ(Refused({"compare", good, good, "--report", At("r.html")}, kUsage),
            "evoq: --report needs two models: saved times have no steps\n");
  const Ran same = Run({"compare", good, good});
  EXPECT_EQ(same.out,
            fmt::format("A {0}: {1} ms\nB {0}: {1} ms\nsame: B runs at 1.000x of A's "
                        "speed, 95% interval {2:.3f} to {3:.3f}\n",
                        good, MsText(Number(same.json["a_ms"])), Number(same.json["speedup_low"]),
                        Number(same.json["speedup_high"])));
  EXPECT_EQ(same.json["a"]["min_ms"], 1.5);
  EXPECT_EQ(same.json["a"]["runs"], 2);
}

TEST_F(Figures, LimitsOfEachInstructionSet) {
  const Ran ran = Run({"limits", "--threads", "1"});
  ASSERT_EQ(ran.code, 0) << ran.log;
  const auto text = [](const json& rate) {
    return Number(rate) > 0 ? fmt::format("{:.1f}", Number(rate)) : std::string("-");
  };
  EXPECT_EQ(LinesWith(ran.out, "instruction set ").size(), 1);
  for (const json& set : ran.json["sets"]) {
    const Words lines = LinesWith(ran.out, set["isa"].get<std::string>() + " ");
    ASSERT_EQ(lines.size(), 1) << ran.out;
    EXPECT_EQ(Squeezed(lines[0]),
              fmt::format("{} {} {} {}", set["isa"].get<std::string>(), text(set["int8_gops"]),
                          text(set["bf16_gflops"]), text(set["fp32_gflops"])));
  }
  EXPECT_EQ(ran.json["sets"].back()["isa"], "SCALAR");
}

}  // namespace
}  // namespace evoq
