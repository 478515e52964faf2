// What list, zoo, inspect, optimize and compile print, in full.
#include <gtest/gtest.h>

#include <set>

#include "cli/tiny_testing.h"

namespace evoq {
namespace {

using nlohmann::json;

class Lists : public TinyModels {};

// Columns of the JSON that stand in the text, with what stands for "" and the heading.
TEST_F(Lists, TextAndJsonSayTheSame) {
  struct Kind {
    std::string name, heading;
    std::vector<std::string> columns;
  };
  const std::vector<Kind> kinds = {
      {"ops", "domain operator quantized", {"domain", "name", "quantized"}},
      {"kernels", "kernel operator precision", {"name", "op", "precision"}},
      {"passes", "pass stage level what it does", {"name", "stage", "level", "doc"}},
      {"schemes", "scheme needs what it does", {"name", "needs_calibration", "doc"}},
      {"methods",
       "method stage needs what it does paper",
       {"name", "stage", "needs_samples", "doc", "paper"}},
      {"observers", "observer what it does", {"name", "doc"}},
      {"gradients", "operator gradients of", {"op", "gradients"}},
      {"layers", "layer options what it does", {"name", "options", "doc"}},
      {"verbs", "verb what it does", {"name", "doc"}}};
  for (const Kind& kind : kinds) {
    const Ran ran = Run({"list", kind.name});
    ASSERT_EQ(ran.code, 0) << ran.log;
    std::string expected = kind.heading + "\n";
    for (const json& row : ran.json) {
      std::string line;
      for (const std::string& column : kind.columns) {
        std::string cell = column == "needs_calibration"
                               ? (row[column].get<bool>() ? "calibrated" : "")
                           : column == "needs_samples" ? (row[column].get<bool>() ? "samples" : "")
                           : row[column].is_number()   ? row[column].dump()
                                                       : row[column].get<std::string>();
        if (column == "domain" && cell.empty()) cell = "ai.onnx";
        line += (line.empty() || cell.empty() ? "" : " ") + cell;
      }
      expected += line + "\n";
    }
    const std::string text = Squeezed(ran.out);
    // What the table draws below its heading is no row.
    EXPECT_EQ(text, Squeezed(expected)) << kind.name;
    EXPECT_GE(ran.json.size(), 2) << kind.name;
  }
}

TEST_F(Lists, RowsByHand) {
  const auto row = [&](const std::string& kind, const std::string& field, const std::string& name) {
    for (const json& r : Json({"list", kind})) {
      if (r[field] == name) return r;
    }
    return json();
  };
  const std::pair<const char*, const char*> traits[] = {{"Conv", "integer arithmetic"},
                                                        {"Reshape", "keeps integers"},
                                                        {"AveragePool", "own scale"},
                                                        {"Sigmoid", "table"},
                                                        {"NonZero", "float only"}};
  for (const auto& [op, trait] : traits) EXPECT_EQ(row("ops", "name", op)["quantized"], trait);
  EXPECT_EQ(row("passes", "name", "fuse-batch-norm")["stage"], "optimize");
  EXPECT_EQ(row("passes", "name", "channels-last")["stage"], "lower");
  EXPECT_EQ(row("schemes", "name", "int8")["needs_calibration"], true);
  EXPECT_EQ(row("schemes", "name", "bf16")["needs_calibration"], false);
  EXPECT_EQ(
      row("verbs", "name", "list")["doc"],
      "Lists what this evoq has: operators, kernels, passes, quantization schemes and methods.");
  EXPECT_EQ(row("rules", "code", "host-time")["ledger"], "time");
  EXPECT_EQ(row("rules", "code", "alignment")["ledger"], "bytes");
  const Ran rules = Run({"list", "rules"});
  std::set<std::string> tools, ledgers;
  const std::string text = Squeezed(rules.out);
  EXPECT_EQ(text.substr(0, text.find('\n')), "rule judges what it finds");
  for (const json& r : rules.json) {
    const std::string code = r["code"], tool = r["tool"], sentence = r["sentence"];
    const bool advises = r.contains("ledger") && r["ledger"] == "deployment";
    const std::string judges = advises                ? "evoq, deployments"
                               : r.contains("ledger") ? "evoq, " + r["ledger"].get<std::string>()
                                                      : (tool.empty() ? "every runtime" : tool);
    const bool told =
        text.find(Squeezed("\n" + code + " " + judges + " " + sentence + "\n")) !=
            std::string::npos ||
        text.find(Squeezed("\n" + code + " graphs for " + tool + " " + sentence + "\n")) !=
            std::string::npos;
    EXPECT_TRUE(told) << code;
    EXPECT_TRUE(r.contains("fix") && r.contains("source")) << code;
    if (r.contains("ledger")) {
      EXPECT_EQ(tool, "evoq");
      EXPECT_EQ(r["source"], advises ? "docs/tuning.md" : "docs/explain.md");
      ledgers.insert(r["ledger"]);
    }
    tools.insert(tool);
  }
  EXPECT_EQ(ledgers, (std::set<std::string>{"bytes", "deployment", "time"}));
  EXPECT_TRUE(tools.count("evoq"));
  EXPECT_GE(tools.size(), 4);
}

TEST_F(Lists, Architectures) {
  const Ran ran = Run({"zoo"});
  ASSERT_EQ(ran.code, 0) << ran.log;
  std::string expected = "name what\n";
  for (const json& row : ran.json)
    expected += row["name"].get<std::string>() + " " + row["doc"].get<std::string>() + "\n";
  EXPECT_EQ(Squeezed(ran.out), Squeezed(expected));
  EXPECT_GT(ran.json.size(), 3);
  EXPECT_EQ(Refused({"zoo", "none"}, kUsage), "evoq: zoo none: not one of `evoq zoo`\n");
  EXPECT_EQ(Refused({"zoo", "lenet"}, kUsage), "evoq: zoo lenet: -o OUT is missing\n");
  const Ran written = Run({"zoo", "lenet", "-o", At("lenet.onnx")});
  ASSERT_EQ(written.code, 0) << written.log;
  EXPECT_EQ(written.json, (json{{"name", "lenet"}, {"output_bytes", SizeOf("lenet.onnx")}}));
  EXPECT_EQ(written.out, fmt::format("lenet -> {}: {:.1f} kB\n", At("lenet.onnx"),
                                     static_cast<double>(SizeOf("lenet.onnx")) / 1e3));
  EXPECT_EQ(Json({"inspect", At("lenet.onnx")})["outputs"][0]["shape"], (json{"N", 10}));
}

// Rows of 3 times [3, 2]: 6 multiply-accumulates; 6 parameters and 2 of the bias, of 4 bytes, and
// an int64, which is no parameter.
TEST_F(Lists, WhatInspectPrints) {
  const std::string text =
      "graph g\ninput %x: float32[N, H, 3]\nconst %w: float32[3, 2] = [1, 2, 3, 4, 5, 6]\n"
      "const %b: float32[2] = [1, 2]\nconst %s: int64[1] = [-1]\n"
      "m: %1: float32[N, H, 2] = MatMul(%x, %w)\na: %2: float32[N, H, 2] = Add(%1, %b)\n"
      "r: %y: float32[?] = Reshape(%2, %s)\noutput %y\n";
  const std::string model = Model("rows.onnx", text);
  const std::string table = "operator count\nAdd 1\nMatMul 1\nReshape 1\n";
  const std::string head = fmt::format(
      "{}\ninput x: float32[N, H, 3]\noutput y: float32[?]\n3 nodes, 0.00 M parameters, 40 B of "
      "weights",
      model);
  const Ran free = Run({"inspect", model});
  ASSERT_EQ(free.code, 0) << free.log;
  EXPECT_EQ(Squeezed(free.out), head + "\n" + table);
  EXPECT_TRUE(free.json["macs"].is_null());
  EXPECT_FALSE(free.json.contains("traffic_bytes"));
  EXPECT_EQ(free.json["inputs"][0]["shape"], (json{"N", "H", 3}));
  EXPECT_EQ(free.json["outputs"][0]["shape"], (json{"?"}));
  EXPECT_EQ(free.json["parameters"], 8);
  EXPECT_EQ(free.json["weight_bytes"], 40);
  EXPECT_EQ(free.json["precisions"], (json{{"float32", 8}}));
  const Ran bound = Run({"inspect", model, "--shape", "x=1x1x3"});
  ASSERT_EQ(bound.code, 0) << bound.log;
  EXPECT_EQ(Squeezed(bound.out), head + ", 0.0 M multiply-accumulates\n" + table);
  EXPECT_EQ(bound.json["macs"], 6);
  // What each node reads and writes: 12 + 24 + 8, 8 + 8 + 8, and 8 + 8 + 8.
  EXPECT_EQ(bound.json["traffic_bytes"], 92);
  EXPECT_NE(Refused({"inspect", model, "--shape", "x=1x1x4"}, kUsage).find("fixed to 3"),
            std::string::npos);
  EXPECT_NE(Refused({"inspect", model, "--shape", "x"}, kUsage).find("expected NAME="),
            std::string::npos);
  const Ran dump = Run({"inspect", model, "--dump"});
  EXPECT_EQ(dump.json, json::object());
  EXPECT_NE(dump.out.find("input %x: float32[N, H, 3]\n"), std::string::npos) << dump.out;
  EXPECT_NE(dump.out.find("= MatMul(%x, %w)"), std::string::npos) << dump.out;
  Json({"compile", model, "-o", At("rows.etm")});
  const Ran etm = Run({"inspect", At("rows.etm"), "--dump"});
  EXPECT_EQ(etm.json, json::object());
  EXPECT_NE(etm.out, dump.out);
  EXPECT_NE(etm.out.find("MatMul"), std::string::npos) << etm.out;
  // A million parameters, and as many multiply-accumulates per row.
  const std::string wide =
      Model("wide.onnx",
            "graph g\ninput %x: float32[2, 1000]\nconst %w: float32[1000, 1500]\n"
            "m: %y: float32[2, 1500] = MatMul(%x, %w)\noutput %y\n");
  EXPECT_EQ(Squeezed(Run({"inspect", wide}).out),
            wide +
                "\ninput x: float32[2, 1000]\noutput y: float32[2, 1500]\n1 nodes, 1.50 M "
                "parameters, 6.00 MB of weights, 3.0 M multiply-accumulates\n"
                "operator count\nMatMul 1\n");
}

TEST_F(Lists, WhatOptimizePrints) {
  const std::string model =
      Model("twice.onnx",
            "graph g\ninput %x: float32[2]\na: %a: float32[2] = Identity(%x)\n"
            "b: %b: float32[2] = Relu(%a)\noutput %b\n");
  const Ran ran = Run({"optimize", model, "-o", At("out.onnx"), "--log-passes"});
  ASSERT_EQ(ran.code, 0) << ran.log;
  EXPECT_EQ(ran.out, fmt::format("{}: 2 nodes -> 1 -> {}\n", model, At("out.onnx")));
  EXPECT_EQ(ran.json["passes"],
            (json{{{"pass", "remove-identity"}, {"changes", 1}, {"nodes", 1}}}));
  EXPECT_EQ(ran.log, "remove-identity             1 changes, 1 nodes\n");
  EXPECT_EQ(Run({"optimize", model, "-o", At("out.onnx")}).log, "");
  EXPECT_EQ(Json({"optimize", model, "-o", At("out.onnx"), "--stop-after", "0"})["nodes_after"], 2);
  EXPECT_EQ(Json({"optimize", model, "-o", At("out.onnx"), "--disable", "remove-*"})["nodes_after"],
            2);
  EXPECT_NE(Refused({"optimize", model, "-o", At("no/out.onnx")}, kBadInput).find("no/out.onnx"),
            std::string::npos);
}

TEST_F(Lists, WhatCompilePrints) {
  const std::string model = Model("sum.onnx", kSumModel), etm = At("sum.etm");
  const Ran ran = Run({"compile", model, "-o", etm});
  ASSERT_EQ(ran.code, 0) << ran.log;
  EXPECT_EQ(ran.json, (json{{"output_bytes", SizeOf("sum.etm")},
                            {"float_weight_bytes", 0},
                            {"steps_total", 1},
                            {"plans", 1}}));
  EXPECT_EQ(ran.out.substr(0, model.size() + etm.size() + 6), model + " -> " + etm + ": ");
  EXPECT_EQ(ran.out.substr(ran.out.size() - 10), ", 1 steps\n");
  const std::string free = Model("free.onnx",
                                 "graph g\ninput %x: float32[N, M]\nconst %c: float32[1] = [2]\n"
                                 "a: %y: float32[N, M] = Mul(%x, %c)\noutput %y\n");
  const Ran unnamed = Run({"compile", free, "-o", etm});
  EXPECT_NE(unnamed.out.find(", no plan: the first run brings its sizes; --shape names some to "
                             "plan for\n"),
            std::string::npos)
      << unnamed.out;
  EXPECT_EQ(unnamed.json["steps_total"], 0);
  EXPECT_EQ(unnamed.json["float_weight_bytes"], 4);
  EXPECT_EQ(Json({"compile", free, "-o", etm, "--shape", "x=2x3"})["steps_total"], 1);
  const std::string places =
      Model("places.onnx",
            "graph g\ninput %x: float32[4]\na: %y: int64[1, ?] = NonZero(%x)\noutput %y\n");
  const Ran data = Run({"compile", places, "-o", At("places.etm")});
  EXPECT_NE(data.out.find(", no plan: its sizes depend on data, or it has other values than "
                          "tensors of numbers; it runs in dynamic partitions (docs/dynamic.md)\n"),
            std::string::npos)
      << data.out;
  const std::string some = Model(
      "some.onnx", "graph g\ninput %x: float32[N]\na: %y: int64[1, ?] = NonZero(%x)\noutput %y\n");
  const Ran named = Run({"compile", some, "-o", At("some.etm"), "--shape", "x=4"});
  EXPECT_NE(named.out.find(", no plan: its sizes depend on data"), std::string::npos) << named.out;
  EXPECT_EQ(Refused({"compile", etm, "-o", At("b.etm")}, kUsage),
            fmt::format("evoq: {} is compiled already; --tune adds what is fastest on this "
                        "machine\n",
                        etm));
  EXPECT_EQ(Refused({"compile", etm, "-o", At("b.etm"), "--no-tune"}, kUsage),
            fmt::format("evoq: {} is compiled already; --tune adds what is fastest on this "
                        "machine\n",
                        etm));
  EXPECT_EQ(Refused({"compile", etm, "-o", At("b.etm"), "--tune", "--fix-shape", "x=1x2"}, kUsage),
            fmt::format("evoq: --fix-shape: {} is compiled already; compile the .onnx\n", etm));
  EXPECT_NE(Refused({"compile", model, "-o", At("no/b.etm")}, kBadInput).find("no/b.etm"),
            std::string::npos);
}

}  // namespace
}  // namespace evoq
