// The byte ledger of sections made up by hand.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/text.h"
#include "graph/float_reason.h"
#include "report/ledger.h"

namespace evoq {
namespace {

// A convolution that the compiler left in float, one that the quantizer did, a bias, and a product
// that says nothing.
Model MadeModel() {
  auto graph = ParseGraph(R"(graph g
input %x: float32[1, 4, 8, 8]
const %w1: float16[4, 4, 1, 1]
const %w2: float32[4, 4, 1, 1]
const %b2: float32[4]
const %w3: float64[8, 8]
c1: %a: float32[1, 4, 8, 8] = Conv(%x, %w1)
c2: %b: float32[1, 4, 8, 8] = Conv(%a, %w2, %b2)
c3: %y: float32[1, 4, 8, 8] = MatMul(%b, %w3)
output %y
)");
  EVOQ_CHECK(graph.has_value(), "{}", graph ? "" : graph.error().message());
  Model model;
  graph->attrs(graph->FindNode("c2")).Set(kFloatReason, "excluded");
  model.graph = std::move(*graph);
  model.plans.resize(1);
  model.plans[0].decisions["c1"] = {.kernel = "conv_f32",
                                    .precision = Precision::kFloat32,
                                    .float_reason = {"types", "weights are float16"}};
  return model;
}

// Every kind of bytes in one file of 10,000, 12 of which no section has.
const EtmSection kSections[] = {
    {"header", "header and directory", 0, 64},
    {"directory", "header and directory", 64, 400},
    {"graph", "graph", 464, 1000},
    {"strings", "strings", 1464, 500},
    {"plans", "plans", 1964, 300},
    {"certificate", "certificate", 2264, 200},
    {"attributes", "attributes", 2464, 50},
    {"weights/q", "int8 weights", 2514, 3000},
    {"weights/r", "int4 weights", 5514, 900},
    {"weights/q2", "int8 weights", 6414, 100},
    {"weights/w1", "float16 weights", 6514, 700},
    {"weights/w2", "float32 weights", 7214, 640},
    {"weights/b2", "float32 weights", 7854, 16},
    {"weights/w3", "float64 weights", 7870, 512},
    {"weights/bias", "int32 bias", 8382, 400},
    {"weights/s", "scales", 8782, 256},
    {"weights/z", "zero points", 9038, 64},
    {"weights/shape", "shape constants", 9102, 16},
    {"weights/w1", "duplicates", 9118, 300},
    {"weights/padding", "packing padding", 9418, 200},
    {"weights/padding", "alignment", 9618, 370},
};

TEST(ByteLedger, EverySectionByHand) {
  const ByteLedger ledger = BuildByteLedger(kSections, 10000, 40000, MadeModel());
  EXPECT_EQ(ledger.float_weights, 40000);
  EXPECT_EQ(ledger.ideal_file, 10000);
  EXPECT_EQ(ledger.actual_file, 10000);
  EXPECT_EQ(ledger.unexplained_bytes, 12);
  // Bytes, and what the fix saves: three quarters of floats, all of duplicates and of zero points.
  const std::map<std::string, std::pair<int64_t, int64_t>> expected = {
      {"quantized-weights", {4000, 0}},
      {"left-float", {1868, 1401}},
      {"graph", {1000, 0}},
      {"strings", {500, 0}},
      {"header", {464, 0}},
      {"bias", {400, 0}},
      {"alignment", {370, 0}},
      {"duplicates", {300, 300}},
      {"plans", {300, 0}},
      {"scales", {256, 0}},
      {"certificate", {200, 0}},
      {"packing", {200, 0}},
      {"zero-points", {64, 64}},
      {"attributes", {50, 0}},
      {"shape-constants", {16, 0}}};
  ASSERT_EQ(ledger.causes.size(), expected.size());
  for (size_t i = 0; i < ledger.causes.size(); ++i) {
    const ByteCause& c = ledger.causes[i];
    ASSERT_TRUE(expected.count(c.code)) << c.code;
    EXPECT_EQ(c.bytes, expected.at(c.code).first) << c.code;
    EXPECT_EQ(c.gain_bytes, expected.at(c.code).second) << c.code;
    EXPECT_FALSE(c.sentence.empty()) << c.code;
    if (i > 0) {
      const ByteCause& before = ledger.causes[i - 1];
      EXPECT_TRUE(before.bytes > c.bytes || (before.bytes == c.bytes && before.code < c.code))
          << "largest first, then by name: " << c.code;
    }
  }
  EXPECT_EQ(ledger.causes[7].code, "duplicates") << "before plans, which takes as much";
}

// The names of values hold slashes, those of sets do not.
TEST(ByteLedger, ScaleSetsBySet) {
  const EtmSection sections[] = {{"weights/night/block/conv.b", "scale sets", 0, 40},
                                 {"scale-sets/day", "scale sets", 40, 2},
                                 {"scale-sets/night", "scale sets", 42, 10}};
  const ByteLedger ledger = BuildByteLedger(sections, 52, 400, MadeModel());
  ASSERT_EQ(ledger.causes.size(), 1u);
  EXPECT_EQ(ledger.causes[0].code, "scale-sets");
  EXPECT_EQ(ledger.causes[0].gain_bytes, 52);
  EXPECT_FALSE(ledger.causes[0].sentence.empty());
  ASSERT_EQ(ledger.causes[0].parts.size(), 2u);
  EXPECT_EQ(ledger.causes[0].parts[0].name, "night");
  EXPECT_EQ(ledger.causes[0].parts[0].bytes, 50);
  EXPECT_EQ(ledger.causes[0].parts[1].name, "day");
}

TEST(ByteLedger, PartsByHand) {
  const ByteLedger ledger = BuildByteLedger(kSections, 10000, 40000, MadeModel());
  const auto parts = [&](const char* code) {
    for (const ByteCause& c : ledger.causes) {
      if (c.code == code) return c.parts;
    }
    return std::vector<BytePart>();
  };
  const auto payload = parts("quantized-weights");
  ASSERT_EQ(payload.size(), 2u) << "by element type";
  EXPECT_EQ(payload[0].name, "int8 weights");
  EXPECT_EQ(payload[0].bytes, 3100);
  EXPECT_EQ(payload[1].name, "int4 weights");
  EXPECT_EQ(payload[1].bytes, 900);
  const auto floats = parts("left-float");
  ASSERT_EQ(floats.size(), 4u);
  const std::tuple<const char*, int64_t, const char*> expected[] = {
      {"w1", 700, "c1 (types): weights are float16"},
      {"w2", 640, "c2 (excluded)"},
      {"w3", 512, "c3: MatMul computes in float32"},
      {"b2", 16, "c2 (excluded)"}};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(floats[i].name, std::get<0>(expected[i]));
    EXPECT_EQ(floats[i].bytes, std::get<1>(expected[i]));
    EXPECT_EQ(floats[i].why, std::get<2>(expected[i]));
  }
  ASSERT_EQ(parts("duplicates").size(), 1u);
  EXPECT_EQ(parts("duplicates")[0].name, "w1");
  EXPECT_EQ(parts("duplicates")[0].why, "") << "of floats alone is asked why they are there";
  for (const char* code : {"graph", "scales", "bias"}) EXPECT_TRUE(parts(code).empty()) << code;
  // Of a bias whose reader says nothing.
  Model model = MadeModel();
  model.graph.attrs(model.graph.FindNode("c2")).Set(kFloatReason, "");
  const EtmSection bias[] = {{"weights/b2", "float32 weights", 0, 16},
                             {"weights/gone", "float32 weights", 16, 4}};
  const ByteLedger small = BuildByteLedger(bias, 20, 0, model);
  ASSERT_EQ(small.causes[0].parts.size(), 2u);
  EXPECT_EQ(small.causes[0].parts[0].why, "c2: a bias, added in float32");
  EXPECT_EQ(small.causes[0].parts[1].why, "");
}

TEST(ByteLedger, BiasOfARecurrentLayer) {
  Model model;
  auto graph = ParseGraph(
      "graph g\ninput %x: float32[3, 1, 2]\nconst %w: float32[1, 4, 2]\nconst %r: float32[1, 4, "
      "1]\n"
      "const %b: float32[1, 8]\ncell: %y = LSTM{hidden_size=1}(%x, %w, %r, %b)\noutput %y\n");
  ASSERT_TRUE(graph) << graph.error().message();
  model.graph = std::move(*graph);
  const EtmSection sections[] = {{"weights/b", "float32 weights", 0, 32},
                                 {"weights/r", "float32 weights", 32, 16}};
  const ByteLedger ledger = BuildByteLedger(sections, 48, 0, model);
  ASSERT_EQ(ledger.causes[0].parts.size(), 2u);
  EXPECT_EQ(ledger.causes[0].parts[0].why, "cell: a bias, added in float32");
  EXPECT_EQ(ledger.causes[0].parts[1].why, "cell: LSTM computes in float32");
}

TEST(ByteLedger, WhatPruningLeft) {
  ByteLedger ledger = BuildByteLedger(kSections, 10000, 40000, MadeModel());
  EXPECT_EQ(ToText(ledger).find("pruned"), std::string::npos);
  ledger.unpruned_weights = 160000;
  EXPECT_NE(ToText(ledger).find(
                "pruned channels: of 160.0 kB of float32 weights 40.0 kB were left, 0.250\n"),
            std::string::npos)
      << ToText(ledger);
  EXPECT_EQ(ToJson(ledger)["unpruned_float_file"], 160000);
}

TEST(ByteLedger, TextAndJsonSayTheSame) {
  const ByteLedger ledger = BuildByteLedger(kSections, 10000, 40000, MadeModel());
  const std::string text = ToText(ledger);
  const nlohmann::json out = ToJson(ledger);
  EXPECT_EQ(out["float_file"], 40000);
  EXPECT_EQ(out["ideal_file"], 10000);
  EXPECT_EQ(out["actual_file"], 10000);
  EXPECT_EQ(out["unexplained_bytes"], 12);
  EXPECT_EQ(
      text.rfind("bytes: file 10.0 kB (10000 bytes), 0.250 of the float32 weights' 40.0 kB\n", 0),
      0u)
      << text;
  const auto line = [&](const std::string& word) {
    const size_t at = text.find(word);
    return at == std::string::npos ? ""
                                   : text.substr(text.rfind('\n', at) + 1,
                                                 text.find('\n', at) - text.rfind('\n', at) - 1);
  };
  for (const nlohmann::json& c : out["causes"]) {
    const std::string found = line("  " + c["code"].get<std::string>() + "  ");
    EXPECT_NE(found.find(fmt::format("{}  {}", c["bytes"].get<int64_t>(), "")), std::string::npos)
        << c["code"] << text;
    EXPECT_NE(found.find(fmt::format("{:.1f}%", c["bytes"].get<double>() / 100)), std::string::npos)
        << found;
    EXPECT_EQ(
        found.find(fmt::format("({} bytes)", c["gain_bytes"].get<int64_t>())) != std::string::npos,
        c["gain_bytes"] > 0)
        << found;
  }
  EXPECT_NE(line("w1").find("700 w1: c1 (types): weights are float16"), std::string::npos) << text;
  EXPECT_EQ(text.find("16 b2"), std::string::npos) << "three of four parts are shown";
  EXPECT_NE(text.find("... 1 more"), std::string::npos) << text;
  EXPECT_NE(line("unexplained").find("12"), std::string::npos) << text;
  const nlohmann::json unknown = ToJson(BuildByteLedger(kSections, 10000, 0, MadeModel()));
  EXPECT_TRUE(unknown["float_file"].is_null());
  EXPECT_TRUE(unknown["ideal_file"].is_null());
}

}  // namespace
}  // namespace evoq
