// The verbs from their command line: exit codes and the fields of the JSON that other programs
// read.
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "cli/verb.h"
#include "program/etm.h"
#include "report/explain_rule.h"
#include "tests/whole/models.h"

namespace evoq {
namespace {

class CliTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / fmt::format("evoq_cli_{}", ::getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string At(const std::string& name) const { return (folder_ / name).string(); }

  // Runs with --json and returns what it wrote; the exit code must be `code`.
  nlohmann::json Run(std::vector<std::string> words, int code = 0) {
    const std::string report = At("report.json");
    std::filesystem::remove(report);
    words.insert(words.begin(), "evoq");
    if (code == 0) words.insert(words.end(), {"--json", report});
    std::vector<const char*> argv;
    for (const std::string& w : words) argv.push_back(w.c_str());
    EXPECT_EQ(RunCommandLine(static_cast<int>(argv.size()), argv.data()), code) << words[1];
    std::ifstream file(report);
    return file ? nlohmann::json::parse(file, nullptr, false) : nlohmann::json();
  }

  static void ExpectFields(const nlohmann::json& value, std::initializer_list<const char*> fields) {
    for (const char* field : fields) EXPECT_TRUE(value.contains(field)) << field << " is missing";
  }

  std::filesystem::path folder_;
};

TEST_F(CliTest, FromZooToLedger) {
  const std::string onnx = At("lenet.onnx"), etm = At("lenet.etm"), qdq = At("lenet.qdq.onnx"),
                    optimized = At("lenet.opt.onnx");
  Run({"zoo", "lenet", "-o", onnx});
  const auto inspected = Run({"inspect", onnx});
  ExpectFields(inspected, {"model", "inputs", "outputs", "opset", "nodes", "operators",
                           "parameters", "macs", "weight_bytes", "precisions"});
  // As the ONNX file says it, and carried on in files made of it.
  const int opset = inspected["opset"];
  EXPECT_EQ(inspected["metadata"]["onnx.opset"], std::to_string(opset));
  EXPECT_GE(opset, 6);
  EXPECT_EQ(inspected["parameters"], 61706);
  EXPECT_EQ(inspected["macs"], 117600 + 240000 + 48000 + 10080 + 840);
  Run({"optimize", onnx, "-o", optimized});
  const auto quantized =
      Run({"quantize", onnx, "--calib-random", "4", "-o", etm, "--save-ranges", At("ranges.json")});
  ExpectFields(quantized,
               {"input_bytes", "output_bytes", "float_weight_bytes", "quantized_weight_bytes",
                "steps_total", "steps_int8", "steps_float", "samples_used", "seconds", "warnings"});
  EXPECT_EQ(Run({"inspect", etm})["opset"], opset);
  EXPECT_EQ(quantized["samples_used"], 4);
  EXPECT_EQ(quantized["float_weight_bytes"], 4 * 61706);
  EXPECT_EQ(quantized["output_bytes"], std::filesystem::file_size(etm));
  Run({"quantize", onnx, "--ranges", At("ranges.json"), "-o", qdq});
  const auto bench = Run(
      {"bench", etm, "--threads", "1", "--duration-s", "0.05", "--warmup-ms", "5", "--batch", "2"});
  ExpectFields(bench, {"model", "isa", "threads", "batch", "streams", "runs", "p50_ms", "mean_ms",
                       "min_ms", "p90_ms", "p95_ms", "p99_ms", "per_second", "load_ms",
                       "peak_rss_bytes", "arena_bytes", "weight_bytes"});
  EXPECT_EQ(bench["batch"], 2);
  const auto profile =
      Run({"profile", etm, "--threads", "1", "--duration-s", "0.05", "--trace", At("trace.json")});
  ExpectFields(profile, {"total_ms", "steps", "host_ms", "tax_ms"});
  std::ifstream trace_file(At("trace.json"));
  const auto trace = nlohmann::json::parse(trace_file, nullptr, false);
  std::map<int, double> row_end_us;
  size_t step_events = 0;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    double& end = row_end_us[event["tid"].get<int>()];
    EXPECT_GE(event["ts"].get<double>(), end - 1e-3)
        << event["name"] << " begins before its neighbour on the row ends";
    end = event["ts"].get<double>() + event["dur"].get<double>();
    step_events += event["tid"] == 1 && event["cat"] != "host";
  }
  EXPECT_GT(step_events, 0u);
  EXPECT_EQ(step_events % profile["steps"].size(), 0u) << "whole runs";
  ExpectFields(profile["steps"][0], {"name", "op", "kernel", "precision", "ms", "share", "macs",
                                     "bytes", "gops", "roofline_share"});
  const auto compared = Run({"compare", onnx, etm, "--threads", "1", "--duration-s", "0.05",
                             "--rounds", "3", "--warmup-ms", "5"});
  ExpectFields(compared, {"a", "b", "speedup", "speedup_low", "speedup_high", "verdict"});
  EXPECT_EQ(compared["b"]["model"], etm);
  EXPECT_LE(compared["speedup_low"], compared["speedup_high"]);
  // What bench exports in trtexec's layouts is read back as trtexec's.
  const std::string saved = At("saved");
  std::filesystem::create_directories(saved);
  const auto exported =
      Run({"bench", etm, "--threads", "1", "--duration", "0.05", "--warmUp", "5", "--exportTimes",
           saved + "/t.json", "--exportProfile", saved + "/p.json", "--exportLayerInfo",
           saved + "/l.json", "--profilingVerbosity", "detailed"});
  const auto read = Run({"explain", "--trtexec", saved, "--baseline", saved});
  EXPECT_NEAR(read["end_to_end_ms"], exported["p50_ms"], 1e-3 * exported["p50_ms"].get<double>());
  EXPECT_EQ(read["delta"]["layer_sum_ms"], 0);
  EXPECT_EQ(Run({"compare", saved + "/t.json", saved + "/t.json", "--fail-slower", "1"})["verdict"],
            "same");
  const auto explain =
      Run({"explain", etm, "--baseline", onnx, "--threads", "1", "--duration-s", "0.05"});
  ExpectFields(explain, {"time", "bytes", "decisions"});
  EXPECT_EQ(explain["bytes"]["unexplained_bytes"], 0);
  EXPECT_EQ(explain["bytes"]["actual_file"], std::filesystem::file_size(etm));
  double sum = explain["time"]["unexplained_ms"];
  for (const auto& cause : explain["time"]["causes"]) sum += cause["ms"].get<double>();
  EXPECT_NEAR(
      sum, explain["time"]["actual_ms"].get<double>() - explain["time"]["ideal_ms"].get<double>(),
      1e-9);
}

TEST_F(CliTest, CertificateFromQuantizeToVerify) {
  const std::string onnx = At("lenet.onnx"), etm = At("lenet.etm");
  Run({"zoo", "lenet", "-o", onnx});
  const std::vector<std::string> quantize = {"quantize",    onnx, "--calib-random", "8",
                                             "--threads",   "1",  "--search-s",     "0.5",
                                             "--measure-s", "0.1"};
  const auto with = [&](std::initializer_list<std::string> more) {
    std::vector<std::string> words = quantize;
    words.insert(words.end(), more);
    return words;
  };
  const auto made = Run(with({"--scheme", "auto", "--max-drop", "20", "-o", etm}));
  ExpectFields(made, {"certificate", "tried", "search", "why_float", "input_bytes", "output_bytes",
                      "steps_total", "steps_int8", "steps_float"});
  ExpectFields(made["certificate"], {"scheme", "machine", "threads", "speed", "accuracy", "layers",
                                     "never_slower", "is_float"});
  const auto& speed = made["certificate"]["speed"];
  ExpectFields(speed, {"float_p50_ms", "p50_ms", "ratio", "rested", "guaranteed", "rounds",
                       "disturbance", "not_promised"});
  EXPECT_EQ(speed["guaranteed"] == 0, speed["not_promised"] != "") << speed;
  EXPECT_DOUBLE_EQ(speed["ratio"]["value"].get<double>(),
                   speed["float_p50_ms"].get<double>() / speed["p50_ms"].get<double>());
  EXPECT_LE(made["certificate"]["accuracy"]["drop"]["value"], 20);
  // What time it takes is not for a test: only the rest of the file is held to its certificate.
  Model model = Must(ReadEtm(etm), etm);
  auto certificate = nlohmann::json::parse(model.certificate);
  certificate["speed"]["guaranteed"] = 0.01;
  certificate["is_float"] = false;
  model.certificate = certificate.dump();
  Must(WriteEtm(model, etm).map([] { return true; }), etm);
  const auto verified = Run({"verify", etm, "--measure-s", "0.05"});
  ExpectFields(verified, {"model", "holds", "lines", "float_p50_ms", "p50_ms", "ratio",
                          "guaranteed", "drop", "sqnr_db"});
  EXPECT_EQ(verified["holds"], true);
  EXPECT_DOUBLE_EQ(verified["ratio"]["value"].get<double>(),
                   verified["float_p50_ms"].get<double>() / verified["p50_ms"].get<double>());
  Run({"verify", etm, "--measure-s", "0.05", "--baseline", onnx});
  certificate["speed"]["guaranteed"] = 1000;
  model.certificate = certificate.dump();
  Must(WriteEtm(model, etm).map([] { return true; }), etm);
  Run({"verify", etm, "--measure-s", "0.05"}, 1);
  // Without certificate, without data, to ONNX, and a promise that a method cannot keep.
  Run({"quantize", onnx, "--calib-random", "4", "-o", etm});
  Run({"verify", etm}, 3);
  Run({"quantize", onnx, "--scheme", "auto", "-o", etm}, 2);
  Run(with({"--scheme", "auto", "-o", At("x.onnx")}), 2);
  Run(with({"--scheme", "int8", "--min-sqnr", "300", "-o", At("refused.etm")}), 1);
  EXPECT_FALSE(std::filesystem::exists(At("refused.etm")));
}

TEST_F(CliTest, Lists) {
  for (const char* what : {"ops", "kernels", "passes", "schemes", "methods", "observers", "verbs"})
    EXPECT_GT(Run({"list", what}).size(), 2u) << what;
  EXPECT_EQ(Run({"zoo"}).size(), 13u);
  std::set<std::pair<std::string, std::string>> listed;
  for (const auto& rule : Run({"list", "rules"})) {
    if (rule["tool"] == "evoq")
      listed.emplace(rule["code"].get<std::string>(), rule["ledger"].get<std::string>());
  }
  for (const ExplainRule* rule : AllExplainRules())
    EXPECT_TRUE(listed.count(std::pair<std::string, std::string>(
        rule->code, rule->ledger == LedgerKind::kTime ? "time" : "bytes")))
        << rule->code << " is not listed";
}

TEST_F(CliTest, ExitCodes) {
  Run({"frobnicate"}, 2);
  Run({"bench"}, 2);
  Run({"list", "nothing"}, 2);
  Run({"zoo", "nothing", "-o", At("x.onnx")}, 2);
  Run({"inspect", At("missing.onnx")}, 3);
  ASSERT_TRUE(WriteFileAtomic(At("text.onnx"), "this is no model"));
  Run({"bench", At("text.onnx")}, 3);
  Run({"zoo", "lenet", "-o", At("no/such/folder/x.onnx")}, 3);
}

}  // namespace
}  // namespace evoq
