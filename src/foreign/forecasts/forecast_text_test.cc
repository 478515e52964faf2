// What is said of a forecast and of repairs that are made up by hand: text and JSON, figure by
// figure.
#include "foreign/forecasts/forecast_text.h"

#include <gtest/gtest.h>

#include <limits>

namespace evoq {
namespace {

using nlohmann::json;

constexpr double kInf = std::numeric_limits<double>::infinity();

const PlacementRule kFirst = {
    .code = "first-fault",
    .runtimes = "a b",
    .sentence = "What is wrong.",
    .fix = "What helps.",
    .source = "a guide",
    .find = nullptr,
};
const PlacementRule kSecond = {
    .code = "second-fault",
    .runtimes = "a",
    .sentence = "Wrong too.",
    .fix = "Helps too.",
    .source = "issue 7",
    .find = nullptr,
};
const Runtime kRuntime = {
    .name = "some-runtime",
    .doc = "A runtime.",
    .source = "its tables, 1.0",
    .placement = "",
    .forecast = nullptr,
};

Graph MadeGraph() {
  auto graph = ParseGraph(R"(graph g
input %x: float32[4]
a: %a: float32[4] = Relu(%x)
b: %b: float32[4] = Neg(%a)
c: %c: float32[4] = Relu(%b)
d: %d: float32[4] = Abs(%c)
e: %e: float32[4] = Exp(%d)
f: %f: float32[4] = Tanh(%e)
output %f
)");
  EXPECT_TRUE(graph) << graph.error().message();
  return std::move(*graph);
}

Examination Examined(const Graph& graph) {
  Examination e;
  e.runtime = &kRuntime;
  e.fates.nodes.assign(6, Fate::kNone);
  const auto node = [&](const char* name) { return graph.FindNode(name); };
  for (const char* name : {"a", "b", "c"}) e.fates.nodes[node(name).index] = Fate::kInteger;
  e.fates.nodes[node("d").index] = Fate::kFloat;
  e.fates.nodes[node("e").index] = Fate::kHost;
  e.fates.conversions = {node("d"), node("f")};
  e.fates.weights = {node("e")};
  e.fates.copies = {
      {graph.FindValue("d"), true}, {graph.FindValue("e"), false}, {graph.FindValue("a"), true}};
  PlacementFinding many{&kFirst, {}, 4};
  for (const char* name : {"a", "b", "c", "d", "e"}) many.faults.push_back({node(name), "", true});
  many.faults[1].detail = "why";
  many.faults[4].repairable = false;
  e.findings = {many, {&kSecond, {{node("f"), "", false}}, 0}};
  return e;
}

TEST(ForecastText, AForecastByHand) {
  const Graph graph = MadeGraph();
  EXPECT_EQ(ToText(graph, Examined(graph)),
            "some-runtime: A runtime.\n"
            "nodes  that                       operators\n"
            "    3  compute on integers        Relu 2, Neg 1\n"
            "    1  compute in floating point  Abs 1\n"
            "    1  run on the CPU             Exp 1\n"
            "conversions between them that run: 2; weights dequantized at every inference: 1; "
            "Memcpy nodes: 3 (2 to the host)\n"
            "\n"
            "places  repairable  cause         where\n"
            "     5           4  first-fault   a, b (why), c, d and 1 more\n"
            "     1           0  second-fault  f\n"
            "\nfirst-fault: What is wrong.\n  fix: What helps.\n  source: a guide\n"
            "\nsecond-fault: Wrong too.\n  fix: Helps too.\n  source: issue 7\n");
  const json out = ToJson(graph, Examined(graph));
  EXPECT_EQ(out["target"], "some-runtime");
  EXPECT_EQ(out["source"], "its tables, 1.0");
  EXPECT_EQ(out["fates"], (json{{"integer", 3},
                                {"moved", 0},
                                {"absorbed", 0},
                                {"float", 1},
                                {"host", 1},
                                {"refused", 0}}));
  ASSERT_EQ(out["nodes"].size(), 5u) << "f has nothing to say";
  EXPECT_EQ(out["nodes"][4], (json{{"name", "e"}, {"op", "Exp"}, {"fate", "host"}}));
  EXPECT_EQ(out["conversions"], (json{"d", "f"}));
  EXPECT_EQ(out["weights_dequantized"], (json{"e"}));
  EXPECT_EQ(out["copies"], (json{{{"value", "d"}, {"to", "host"}},
                                 {{"value", "e"}, {"to", "device"}},
                                 {{"value", "a"}, {"to", "host"}}}));
  ASSERT_EQ(out["findings"].size(), 2u);
  const json& first = out["findings"][0];
  EXPECT_EQ(first["code"], "first-fault");
  EXPECT_EQ(first["repairable"], 4);
  ASSERT_EQ(first["places"].size(), 5u);
  EXPECT_EQ(first["places"][1], (json{{"name", "b"}, {"detail", "why"}, {"repairable", true}}));
  EXPECT_EQ(first["places"][4]["repairable"], false);
  EXPECT_EQ(first["sentence"], "What is wrong.");
  EXPECT_EQ(first["fix"], "What helps.");
  EXPECT_EQ(first["source"], "a guide");
}

TEST(ForecastText, EightOperatorsAreNamed) {
  std::string text = "graph g\ninput %x: float32[4]\n";
  std::string from = "x";
  for (const char* op :
       {"Relu", "Relu", "Abs", "Exp", "Tanh", "Neg", "Sqrt", "Ceil", "Floor", "Sign", "Erf"}) {
    const std::string to = from + "y";
    text += fmt::format("{0}: %{0}: float32[4] = {1}(%{2})\n", to, op, from);
    from = to;
  }
  const auto graph = ParseGraph(text + "output %" + from + "\n");
  ASSERT_TRUE(graph) << graph.error().message();
  Examination e;
  e.runtime = &kRuntime;
  e.fates.nodes.assign(11, Fate::kFloat);
  const std::string told = ToText(*graph, e);
  EXPECT_NE(told.find("   11  compute in floating point  Relu 2, Abs 1, Ceil 1, Erf 1, Exp 1, "
                      "Floor 1, Neg 1, Sign 1 and 2 more\n"),
            std::string::npos)
      << told;
}

TEST(ForecastText, NoFaultIsSaid) {
  const Graph graph = MadeGraph();
  Examination e = Examined(graph);
  e.findings.clear();
  e.fates.copies.clear();
  const std::string text = ToText(graph, e);
  EXPECT_NE(text.find("every inference: 1\nno known fault of Q/DQ placement\n"), std::string::npos)
      << text;
  EXPECT_EQ(text.find("nothing of it runs"), std::string::npos);
  EXPECT_EQ(ToText(Repairs(), "4 random samples"), "nothing to repair\n");
  e.fates.nodes[graph.order()[0].index] = Fate::kRefused;
  EXPECT_NE(ToText(graph, e).find("are refused: the file is not loaded"), std::string::npos);
  EXPECT_NE(ToText(graph, e).find("\nnothing of it runs as it is: "), std::string::npos);
}

// One repair that keeps the outputs to the bit, one that rounds them (1e-6 of 2 is below 1e-5 of
// it), one that was left because it changes them, one whose output has no signal.
TEST(ForecastText, RepairsByHand) {
  Repairs repairs;
  repairs.repairs = {{&kFirst, 3, true, OutputChange{"y", kInf, 0, 2}},
                     {&kSecond, 1, true, OutputChange{"y", 118.25, 1e-6, 2}},
                     {&kFirst, 12, false, OutputChange{"z", 21.34, 0.5, 2}},
                     {&kSecond, 1, false, OutputChange{"z", -kInf, kInf, 0}}};
  repairs.changes = {{"y", 118.25, 1e-6, 2}, {"z", kInf, 0, 2}};
  EXPECT_EQ(ToText(repairs, "4 random samples"),
            "places  cause         repaired  change of the outputs\n"
            "     3  first-fault   yes       none\n"
            "     1  second-fault  yes       rounding of y: signal to noise 118.2 dB, at most "
            "1e-06 of 2\n"
            "    12  first-fault   no        z: signal to noise 21.3 dB, at most 0.5 of 2\n"
            "     1  second-fault  no        z: signal to noise -, at most inf of 0\n"
            "compared on 4 random samples, by the reference evaluator\n"
            "what changes the outputs is not repaired: it may cost accuracy. --accept-changes "
            "repairs it; compare with `evoq eval --reference` then\n");
  const json out = ToJson(repairs.repairs);
  ASSERT_EQ(out.size(), 4u);
  EXPECT_EQ(out[0], (json{{"code", "first-fault"},
                          {"places", 3},
                          {"made", true},
                          {"change",
                           {{"output", "y"},
                            {"exact", true},
                            {"snr_db", nullptr},
                            {"max_difference", 0.0},
                            {"largest", 2.0}}}}));
  EXPECT_EQ(out[1]["change"]["exact"], true);
  EXPECT_EQ(out[2]["made"], false);
  EXPECT_EQ(out[2]["change"]["exact"], false);
  EXPECT_EQ(out[2]["change"]["snr_db"], 21.34);
  EXPECT_TRUE(out[3]["change"]["snr_db"].is_null());
  EXPECT_TRUE(out[3]["change"]["max_difference"].is_null());
  EXPECT_EQ(ToJson(repairs.changes)[1]["output"], "z");
}

// All are made and outputs change: that is said of each output that does, and nothing is left.
TEST(ForecastText, AcceptedAndNotCompared) {
  Repairs repairs;
  repairs.repairs = {{&kFirst, 1, true, OutputChange{"z", 20, 0.5, 2}}};
  repairs.changes = {{"y", kInf, 0, 2}, {"z", 20, 0.5, 2}};
  const std::string text = ToText(repairs, "3 of the data's 9 samples");
  EXPECT_NE(text.find("all repairs together change z: signal to noise 20.0 dB, at most 0.5 of 2\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("change y"), std::string::npos) << text;
  EXPECT_EQ(text.find("--accept-changes"), std::string::npos) << text;
  // Without a comparison nothing is said of outputs.
  repairs.repairs[0].change.reset();
  repairs.changes.clear();
  EXPECT_EQ(ToText(repairs, ""),
            "places  cause        repaired  change of the outputs\n"
            "     1  first-fault  yes       not compared\n");
  EXPECT_TRUE(ToJson(repairs.repairs)[0]["change"].is_null());
}

}  // namespace
}  // namespace evoq
