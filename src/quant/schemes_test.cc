// What the schemes leave alone, and what they say about it.
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/version.h"
#include "passes/match.h"
#include "passes/pass.h"
#include "passes/widen.h"
#include "quant/bf16.h"
#include "quant/equalize.h"
#include "quant/low_bits.h"
#include "quant/observer.h"
#include "quant/plan.h"
#include "quant/test_net.h"

namespace evoq {
namespace {

// ---- which inputs are quantized

TEST(RealInputs, ByOperator) {
  struct Case {
    const char* node;
    std::vector<size_t> wanted;
  };
  for (const Case& c : {
           Case{"Conv(%x, %w, %b, %x)", {0, 3}},
           Case{"MatMul(%x, %x)", {0, 1}},
           Case{"MatMul(%x, %m)", {0}},
           Case{"Add(%x, %k)", {0, 1}},
           Case{"Mul(%k, %x)", {0, 1}},
           Case{"Sub(%x, %k)", {0}},
           Case{"Concat{axis=1}(%x, %w, %x)", {0, 1, 2}},
           Case{"Clip(%x, _, %k)", {0}},
           Case{"Gather{axis=1}(%x, %i)", {0}},
           Case{"PRelu(%x, %k)", {0}},
           Case{"Add(%j, %j)", {}},
       }) {
    const Graph graph = MakeNet(
        fmt::format("graph g\ninput %x: float32[2, 2, 1, 1]\ninput %j: int64[2]\nconst %w: "
                    "float32[2, 2, 1, 1]\nconst %b: float32[2]\nconst %m: float32[1, 2]\nconst %k: "
                    "float32[] = [1.5]\nconst %i: int64[1] = [1]\nn: %y = {}\noutput %y\n",
                    c.node));
    EXPECT_EQ(RealInputs(graph, graph.node(graph.FindNode("n"))), c.wanted) << c.node;
  }
}

// ---- static int8

TEST(Static, ConstantsWithNaNsAreNamed) {
  Graph graph = MakeNet(
      "graph g\ninput %x: float32[1, 2, 3, 3]\nconst %w: float32[2, 2, 1, 1]\nc: %y = Conv(%x, "
      "%w)\nconst %k: float32[2, 1, 1]\nm: %z = Mul(%y, %k)\nd: %u = Conv(%z, %w)\noutput %u\n");
  graph.SetConstant(graph.FindValue("k"), Tensor::FromValues<float>(Shape{2, 1, 1}, {1, NAN}));
  const auto report =
      QuantizeStatic(graph, {{"x", {-1, 1}}, {"y", {-1, 1}}, {"z", {-1, 1}}, {"u", {-1, 1}}}, {});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().message(),
            "k: a constant of float32[2, 1, 1] holds a NaN or an infinity");
}

TEST(Static, SentencesOfWhatStaysFloat) {
  const auto reason = [](const std::string& inputs, const std::string& node,
                         const Ranges& ranges) -> std::string {
    Graph graph = MakeNet("graph g\n" + inputs + "n: %y = " + node + "\noutput %y\n");
    const auto report = QuantizeStatic(graph, ranges, {});
    EXPECT_TRUE(report) << report.error().message();
    EXPECT_EQ(report->nodes[Precision::kFloat32], report->float_reasons.size());
    EXPECT_EQ(report->nodes.Total(),
              report->nodes[Precision::kInt8] + report->nodes[Precision::kFloat32]);
    const auto found = report->float_reasons.find("n");
    return found == report->float_reasons.end() ? "" : found->second.ToString();
  };
  const std::string image = "input %x: float32[1, 2, 3, 3]\ninput %r: float32[1, 2, 3, 3]\n",
                    w = "const %w: float32[2, 2, 1, 1]\n";
  const Ranges x = {{"x", {-1, 1}}, {"y", {-1, 1}}};
  EXPECT_EQ(reason(image + w, "Conv(%x, %w)", x), "");
  EXPECT_EQ(reason(image + w, "Conv(%x, %w, _, %r)", x), "no-range: r was not calibrated");
  EXPECT_EQ(reason(image + w, "Conv(%w, %w)", x), "constant-input: the input is a constant");
  const std::string deep = "input %x: float32[1, 33001]\nconst %w: float32[33001, 2]\n";
  EXPECT_EQ(reason(deep, "MatMul(%x, %w)", x),
            "depth: sums of 33001 products may overflow int32, at most 33000");
  // Two computed operands: both need a range, and neither may be a constant.
  const std::string pair =
      "input %x: float32[2, 2]\ninput %r: float32[2, 2]\nconst %k: float32[2, "
      "2]\ninput %v: float32[2]\n";
  EXPECT_EQ(reason(pair, "MatMul(%x, %r)", x), "no-range: r was not calibrated");
  EXPECT_EQ(reason(pair, "MatMul(%r, %x)", x), "no-range: r was not calibrated");
  EXPECT_EQ(reason(pair, "MatMul(%k, %x)", x),
            "constant-input: the first operand is a constant: integer kernels take weights as the "
            "second one");
  EXPECT_EQ(reason(pair, "MatMul(%x, %x, _, %r)", x), "no-range: r was not calibrated");
  EXPECT_EQ(reason(pair, "MatMul(%x, %v)", x),
            "weights-not-constant: the weight is computed, but not as a matrix of float32");
  EXPECT_EQ(reason(pair, "Mul(%k, %k)", x), "types: no input is a float32 activation");
}

// ---- weights only

TEST(WeightsOnly, WhatStaysFloat) {
  const auto reason = [](const std::string& text) -> std::string {
    Graph graph = MakeNet("graph g\n" + text + "output %y\n");
    const auto report = QuantizeWeights(graph, {});
    EXPECT_TRUE(report) << report.error().message();
    const auto found = report->float_reasons.find("n");
    return fmt::format("{} {}", report->nodes.Total(),
                       found == report->float_reasons.end() ? "" : found->second.ToString());
  };
  EXPECT_EQ(reason("input %x: float32[1, 15]\nconst %w: float32[15, 17]\nn: %y = MatMul(%x, %w)\n"),
            "1 small: a weight of 255 elements");
  EXPECT_EQ(reason("input %x: float32[1, 16]\nconst %w: float32[16, 16]\nn: %y = MatMul(%x, %w)\n"),
            "1 ");
  EXPECT_EQ(reason("input %x: float32[1, 256]\nconst %w: float32[256]\nn: %y = MatMul(%x, %w)\n"),
            "1 small: a weight of 256 elements");
  // Tables are read by their rows; other operators have no weights.
  const std::string table = "input %i: int64[2]\nconst %w: float32[64, 8]\n";
  EXPECT_EQ(reason(table + "n: %y = Gather(%w, %i)\n"), "1 ");
  EXPECT_EQ(reason(table + "n: %y = Gather{axis=1}(%w, %i)\n"), "0 ");
  EXPECT_EQ(reason("input %x: float32[64, 8]\nconst %w: float32[64, 8]\nn: %y = Add(%w, %x)\n"),
            "0 ");
  EXPECT_EQ(reason("input %i: int64[2]\ninput %t: float32[64, 8]\nn: %y = Gather(%t, %i)\n"), "0 ");
}

TEST(WeightsOnly, WeightsWithNaNsAreNamed) {
  Result<QuantizeReport> (*const kAll[])(Graph&, const QuantizeOptions&) = {
      [](Graph& graph, const QuantizeOptions& options) { return QuantizeWeights(graph, options); },
      [](Graph& graph, const QuantizeOptions& options) { return QuantizeDynamic(graph, options); },
      [](Graph& graph, const QuantizeOptions& options) {
        return QuantizeDynamic(graph, options, {.data = 2, .weights = 2});
      }};
  for (const auto& quantize : kAll) {
    Graph graph = MakeNet(
        "graph g\ninput %x: float32[1, 16]\nconst %w: float32[16, 16]\nn: %y = MatMul(%x, "
        "%w)\noutput %y\n");
    Tensor w = graph.value(graph.FindValue("w")).constant.Clone();
    w.mutable_data<float>()[3] = INFINITY;
    graph.SetConstant(graph.FindValue("w"), w);
    const auto report = quantize(graph, {});
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().message(),
              "w: a constant of float32[16, 16] holds a NaN or an infinity");
  }
}

// The float32 weight is gone from the graph.
TEST(WeightsOnly, TheGraphHoldsTheIntegersOnly) {
  Graph graph = MakeNet(
      "graph g\ninput %x: float32[1, 16]\nconst %w: float32[16, 16]\nn: %y = MatMul(%x, "
      "%w)\noutput %y\n");
  ASSERT_TRUE(QuantizeWeights(graph, {}));
  EXPECT_FALSE(graph.FindValue("w").valid());
  EXPECT_TRUE(graph.FindValue("w.int8").valid());
  EXPECT_EQ(graph.value_count(), 3);
}

// ---- fewer than 8 bits

TEST(LowBits, MatricesOfProductsAndWhatTheirDataBecomes) {
  const char* const text =
      "graph g\ninput %x: float32[4, 40]\ninput %q: uint8[4, 40](scale 0.5, zero 3)\n"
      "input %i: int64[4]\ninput %p: float32[1, 16, 4, 4]\nconst %w: float32[40, 16]\n"
      "const %c: float32[16, 16, 3, 3]\nconst %t: float32[20, 40]\n"
      "a: %a = MatMul(%x, %w)\nb: %b = MatMul(%q, %w)\ng: %g = Gather(%t, %i)\n"
      "d: %d = MatMul(%g, %w)\nc: %y = Conv(%p, %c)\n"
      "output %a\noutput %b\noutput %d\noutput %y\n";
  const auto type = [](const Graph& graph, const char* node, size_t input) {
    return graph.value(graph.node(graph.FindNode(node)).input(input)).type;
  };
  for (const LowBits* low : AllLowBits()) {
    for (const auto& [rounds, block, equal] : {std::tuple(false, 32, false),
                                               {false, 0, true},
                                               {true, 32, false},
                                               {true, 0, false},
                                               {true, 32, true},
                                               {true, 0, true}}) {
      SCOPED_TRACE(low->name);
      if (rounds && !low->integers) continue;
      Graph graph = MakeNet(text);
      const auto report =
          QuantizeWeights(graph, {.exclude = {"d"}, .block = block, .equal_blocks = equal},
                          {.low_bits = low, .rounding = rounds});
      ASSERT_TRUE(report) << report.error().message();
      const TensorType w = type(graph, "a", 1);
      EXPECT_EQ(w.dtype, low->dtype);
      EXPECT_TRUE(ValidateQuant(w));
      EXPECT_EQ(w.quant->block, block);
      EXPECT_EQ(w.quant->scales.size(), block == 0 ? 16 : 32) << "40 are two blocks of 32";
      EXPECT_EQ(type(graph, "b", 1), w) << "shared";
      EXPECT_EQ(type(graph, "d", 1).dtype, DType::kFloat32);
      EXPECT_EQ(type(graph, "c", 1).dtype, DType::kInt8);
      EXPECT_EQ(type(graph, "g", 0).dtype, DType::kInt8);
      const auto data_block = [&](const char* node) {
        return graph.node(graph.FindNode(node)).attrs.Int("data_block", 0);
      };
      EXPECT_EQ(data_block("a"), !rounds ? 0 : equal && block > 0 ? block : 128);
      EXPECT_EQ(data_block("b"), 0) << "integers are not rounded again";
      EXPECT_EQ(data_block("d"), 0);
      EXPECT_EQ(report->low_bit_weights.at(low->name), rounds ? 1 : 2);
      EXPECT_EQ(report->int8_weights, 2);
      EXPECT_EQ(report->nodes[Precision::kInt8], rounds ? 1 : 0);
      EXPECT_EQ(report->nodes[Precision::kFloat32], rounds ? 4 : 5);
      EXPECT_EQ(report->float_reasons.at("d").code, "excluded");
      EXPECT_TRUE(report->warnings.empty());
    }
  }
  Graph graph = MakeNet("graph g\ninput %x: float32[2, 2]\nn: %y = Relu(%x)\noutput %y\n");
  const auto report = QuantizeWeights(graph, {}, {.low_bits = AllLowBits()[0]});
  ASSERT_TRUE(report);
  EXPECT_EQ(report->warnings,
            (std::vector<std::string>{"no weight became int4 or int8: the model is unchanged"}));
}

// ---- tied tables

// A table that is, transposed, the weight of a product becomes one constant of few bits, whether it
// was one of 16 bits under Cast and Transpose or another of the same floats; lowered, its columns
// are looked up. One that is no product's weight becomes int8.
TEST(Weights, TiedTables) {
  const char* const wide =
      "graph g\ninput %i: int64[3]\ninput %x: float32[4, 128]\nconst %t: float32[8192, 128]\n"
      "const %w: float32[128, 8192]\nconst %o: float32[8192, 128]\ng: %e = Gather(%t, %i)\n"
      "h: %f = Gather(%o, %i)\ny: %y = MatMul(%x, %w)\noutput %e\noutput %f\noutput %y\n";
  const char* const narrow =
      "graph g\ninput %i: int64[3]\ninput %x: float32[4, 128]\nconst %t: bfloat16[8192, 128]\n"
      "const %w: bfloat16[8192, 128]\nconst %o: float32[8192, 128]\ng: %e = Gather(%t, %i)\n"
      "h: %f = Gather(%o, %i)\nc: %c = Cast{to=1}(%w)\ns: %s = Transpose{perm=[1, 0]}(%c)\n"
      "y: %y = MatMul(%x, %s)\noutput %e\noutput %f\noutput %y\n";
  for (const LowBits* low : AllLowBits()) {
    for (const bool is_narrow : {false, true}) {
      for (const bool equal : {true, false}) {
        SCOPED_TRACE(fmt::format("{} {} {}", low->name, is_narrow, equal));
        Graph graph = MakeNet(is_narrow ? narrow : wide);
        Tensor table = graph.value(graph.FindValue("o")).constant.Clone();
        for (int64_t k = 0; k < table.elements(); ++k)
          table.mutable_data<float>()[k] = static_cast<float>(k * 37 % 64) / 64 - 0.25f;
        Tensor weight = Permuted(table, Permutation{1, 0});
        if (!equal) weight.mutable_data<float>()[8192 * 128 - 1] = 0.125f;
        if (is_narrow) {
          graph.SetConstant(graph.FindValue("t"), FromFloat32(table, DType::kBfloat16).value());
          graph.SetConstant(
              graph.FindValue("w"),
              FromFloat32(Permuted(weight, Permutation{1, 0}), DType::kBfloat16).value());
        } else {
          graph.SetConstant(graph.FindValue("t"), table);
          graph.SetConstant(graph.FindValue("w"), weight);
        }
        ASSERT_TRUE(InferTypes(graph));
        const auto report = QuantizeWeights(graph, {}, {.low_bits = low});
        ASSERT_TRUE(report) << report.error().message();
        EXPECT_EQ(report->low_bit_weights.at(low->name), equal ? 2 : 1);
        EXPECT_EQ(report->int8_weights, equal ? 1 : 2);
        ASSERT_TRUE(RunPasses(graph, Stage::kLower));
        const Node& lookup = graph.node(graph.FindNode("g"));
        const Node& product = graph.node(graph.FindNode("y"));
        EXPECT_EQ(lookup.op, equal ? "GatherColumns" : "Gather");
        EXPECT_EQ(lookup.input(0) == product.input(1), equal);
        EXPECT_EQ(graph.value(product.input(1)).type.dtype, low->dtype);
        EXPECT_EQ(graph.value(graph.node(graph.FindNode("h")).input(0)).type.dtype, DType::kInt8);
      }
    }
  }
}

// Two lookups, as an encoder and a decoder have them, share the weight of the one product.
TEST(Weights, TiedTablesOfTwoLookups) {
  for (const bool narrow : {false, true}) {
    const std::string type = narrow ? "bfloat16" : "float32";
    Graph graph =
        MakeNet("graph g\ninput %i: int64[3]\ninput %x: float32[4, 128]\nconst %t: " + type +
                "[8192, 128]\na: %a = Gather(%t, %i)\nb: %b = Gather(%t, %i)\n" +
                (narrow ? "c: %c = Cast{to=1}(%t)\ns: %s = Transpose{perm=[1, 0]}(%c)\n"
                        : "s: %s = Transpose{perm=[1, 0]}(%t)\n") +
                "y: %y = MatMul(%x, %s)\noutput %a\noutput %b\noutput %y\n");
    ASSERT_TRUE(RunPasses(graph, Stage::kOptimize));
    const auto report = QuantizeWeights(graph, {}, {.low_bits = AllLowBits()[0]});
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_EQ(report->float_reasons.size(), 0u);
    EXPECT_EQ(report->low_bit_weights.at(AllLowBits()[0]->name), 3);
    ASSERT_TRUE(RunPasses(graph, Stage::kLower));
    const ValueId weight = graph.node(graph.FindNode("y")).input(1);
    for (const char* name : {"a", "b"}) {
      EXPECT_EQ(graph.node(graph.FindNode(name)).op, "GatherColumns");
      EXPECT_EQ(graph.node(graph.FindNode(name)).input(0), weight);
    }
  }
}

// Of 2^20 elements on both have few bits; smaller tables have 8.
TEST(Weights, TiedTablesThatAreSmall) {
  for (const int64_t rows : {8191, 8192}) {
    Graph graph =
        MakeNet(fmt::format("graph g\ninput %i: int64[3]\ninput %x: float32[4, 128]\n"
                            "const %t: float32[{}, 128]\ng: %e = Gather(%t, %i)\n"
                            "s: %s = Transpose{{perm=[1, 0]}}(%t)\ny: %y = MatMul(%x, %s)\n"
                            "output %e\noutput %y\n",
                            rows));
    ASSERT_TRUE(RunPasses(graph, Stage::kOptimize));
    const auto report = QuantizeWeights(graph, {}, {.low_bits = AllLowBits()[0]});
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_EQ(report->low_bit_weights.at(AllLowBits()[0]->name), rows == 8192 ? 2 : 1);
    EXPECT_EQ(report->int8_weights, rows == 8192 ? 0 : 1);
  }
}

// Where the table or the product is to stay float, the other is quantized alone.
TEST(Weights, TiedTablesThatAreKept) {
  for (const char* kept : {"g", "y"}) {
    Graph graph = MakeNet(
        "graph g\ninput %i: int64[3]\ninput %x: float32[4, 128]\nconst %t: float32[8192, 128]\n"
        "g: %e = Gather(%t, %i)\ns: %s = Transpose{perm=[1, 0]}(%t)\ny: %y = MatMul(%x, %s)\n"
        "output %e\noutput %y\n");
    QuantizeOptions options;
    options.exclude = {kept};
    ASSERT_TRUE(RunPasses(graph, Stage::kOptimize));
    const auto report = QuantizeWeights(graph, options, {.low_bits = AllLowBits()[0]});
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_EQ(graph.node(graph.FindNode("g")).op, "Gather");
    EXPECT_EQ(report->float_reasons.at(kept).code, "excluded");
    EXPECT_EQ(report->int8_weights + report->low_bit_weights.size(), 1u);
  }
}

// ---- weights of 16 bits

// Schemes that widen them give what they give of float32 weights.
TEST(Schemes, ThatWidenWeightsThemselves) {
  int widening = 0;
  for (const QuantScheme* scheme : AllSchemes()) {
    if (!scheme->widens) continue;
    SCOPED_TRACE(scheme->name);
    ++widening;
    Graph narrow = MakeNet(
        "graph g\ninput %x: float32[4, 40]\nconst %w: bfloat16[16, 40]\nconst %v: float16[16, 24]\n"
        "c: %c = Cast{to=1}(%w)\nt: %t = Transpose{perm=[1, 0]}(%c)\ny: %y = MatMul(%x, %t)\n"
        "d: %d = Cast{to=1}(%v)\nz: %z = MatMul(%y, %d)\noutput %z\n");
    const std::pair<const char*, uint16_t (*)(float)> weights[] = {{"w", FloatToBfloat16},
                                                                   {"v", FloatToHalf}};
    for (const auto& [name, as] : weights) {
      const ValueId id = narrow.FindValue(name);
      Tensor t = Tensor::Allocate(narrow.value(id).type);
      for (int64_t i = 0; i < t.elements(); ++i)
        t.mutable_data<uint16_t>()[i] = as(static_cast<float>(i * 37 % 101 - 50) / 64);
      narrow.SetConstant(id, std::move(t));
    }
    for (const bool per_channel : {true, false}) {
      QuantizeOptions options;
      options.per_channel = per_channel;
      Graph stored = narrow, wide = narrow;
      ASSERT_TRUE(WidenConstants(wide));
      for (Graph* graph : {&stored, &wide}) ASSERT_TRUE(scheme->run(*graph, {}, options));
      EXPECT_EQ(Print(stored), Print(wide));
      for (int i = 0; i < stored.value_count(); ++i) {
        const Value &a = stored.value(ValueId{i}), &b = wide.value(wide.FindValue(a.name));
        if (a.is_constant()) EXPECT_TRUE(BitEqual(a.constant, b.constant)) << a.name;
      }
      for (const char* node : {"y", "z"}) {
        const Tensor* w = stored.ConstantInput(stored.node(stored.FindNode(node)), 1);
        ASSERT_NE(w, nullptr);
        EXPECT_LE(DTypeBits(w->dtype()), 8);
      }
    }
  }
  EXPECT_EQ(widening, 15);
}

TEST(LowBits, BlocksOfTheDataBesideThem) {
  const std::pair<int64_t, int64_t> cases[] = {{0, 128},  {16, 128},  {32, 128},  {48, 144},
                                               {96, 192}, {128, 128}, {160, 160}, {256, 256}};
  for (const auto& [block, data] : cases) {
    EXPECT_EQ(DataBlockBeside(block, false), data) << block;
    EXPECT_EQ(DataBlockBeside(block, true), block == 0 ? 128 : block) << block;
  }
}

// Weights that the model's file has in few bits stay as they are; data is rounded beside them.
TEST(LowBits, WeightsThatAreNarrowAlready) {
  const std::string text =
      "graph g\ninput %x: float32[4, 64]\nconst %w: uint4[64, 8](16 scales on axis 0, block 32)\n"
      "const %v: int8[8, 3](3 scales on axis 1)\n"
      "n: %h = MatMul(%x, %w)\nm: %y = MatMul(%h, %v)\noutput %y\n";
  const auto run = [&](const char* scheme, const QuantizeOptions& options) {
    Graph graph = MakeNet(text);
    const Tensor before = graph.value(graph.FindValue("w")).constant;
    auto report = FindScheme(scheme)->run(graph, {}, options);
    EXPECT_TRUE(report) << report.error().message();
    EXPECT_TRUE(report->warnings.empty());
    EXPECT_TRUE(BitEqual(*graph.ConstantInput(graph.node(graph.FindNode("n")), 1), before));
    const auto block = [&](const char* node) {
      return graph.node(graph.FindNode(node)).attrs.Int("data_block", 0);
    };
    return std::tuple(block("n"), block("m"), report->nodes[Precision::kInt8],
                      report->low_bit_weights["uint4"], report->int8_weights);
  };
  // A column of 8 weights is one block.
  EXPECT_EQ(run("int4-dynamic", {}), std::tuple(128, 128, 2, 0, 0));
  EXPECT_EQ(run("int4-dynamic", {.equal_blocks = true}), std::tuple(32, 128, 2, 0, 0));
  EXPECT_EQ(run("int4-weights", {}), std::tuple(0, 0, 0, 1, 1));
  EXPECT_EQ(run("int8-weights", {}), std::tuple(0, 0, 0, 1, 1));
  QuantizeOptions kept;
  kept.exclude = {"n"};
  EXPECT_EQ(run("int4-dynamic", kept), std::tuple(0, 128, 1, 0, 0));
}

// ---- dynamic int8

TEST(Dynamic, WhatStaysFloat) {
  const auto run = [](const std::string& text, std::string* reason) {
    Graph graph = MakeNet("graph g\n" + text + "output %y\n");
    const auto report = QuantizeDynamic(graph, {});
    EXPECT_TRUE(report) << report.error().message();
    const auto found = report->float_reasons.find("n");
    *reason = found == report->float_reasons.end() ? "" : found->second.ToString();
    return report->warnings;
  };
  std::string reason;
  EXPECT_TRUE(run("input %x: float32[1, 2]\nconst %w: float32[2, 2]\nconst %b: float32[2]\nn: %y = "
                  "MatMul(%x, %w, %b)\n",
                  &reason)
                  .empty());
  EXPECT_EQ(reason, "");
  const std::vector<std::string> unchanged = {"no weight became int8: the model is unchanged"};
  EXPECT_EQ(run("input %x: float32[1, 2]\nconst %w: float32[2, 2]\ninput %b: float32[2]\nn: %y = "
                "MatMul(%x, %w, %b)\n",
                &reason),
            unchanged);
  EXPECT_EQ(reason, "small: a weight of 4 elements") << "said by the step for the weights alone";
  EXPECT_EQ(run("input %x: float32[2, 2]\nn: %y = MatMul(%x, %x)\n", &reason), unchanged);
  EXPECT_EQ(reason, "weights-not-constant: the weight is computed at run time");
  EXPECT_EQ(
      run("input %x: float64[2, 2]\nconst %w: float64[2, 2]\nn: %y = MatMul(%x, %w)\n", &reason),
      unchanged);
  EXPECT_EQ(reason, "types: the weight is float64[2, 2], expected plain float32");
  // 256 weights, so that the step for the weights alone has nothing to say.
  const std::string integers = "input %x: uint8[1, 16](scale 0.5, zero 3)\n";
  EXPECT_TRUE(
      run(integers + "const %w: float32[16, 16]\nn: %y = MatMul(%x, %w)\n", &reason).empty());
  EXPECT_EQ(reason, "types: the input is uint8[1, 16](scale 0.5, zero 3), expected float32");
  EXPECT_TRUE(run("input %x: float32[1, 16]\nconst %w: float32[16, 16]\ninput %b: float32[16]\nn: "
                  "%y = MatMul(%x, %w, %b)\n",
                  &reason)
                  .empty());
  EXPECT_EQ(reason, "types: the bias is no float32 constant");
  EXPECT_TRUE(run("input %x: float32[1, 16, 1, 1]\nconst %w: float32[16, 16, 1, 1]\nn: %y = "
                  "ConvTranspose(%x, %w)\n",
                  &reason)
                  .empty());
  EXPECT_EQ(reason, "no-int8-kernel: ConvTranspose has no dynamic form");
}

// ---- bfloat16

TEST(Bf16, FollowersAndWarnings) {
  const auto narrow = [](const std::string& text, const QuantizeOptions& options,
                         const char* node) {
    Graph graph = MakeNet("graph g\n" + text);
    const auto report = ConvertToBf16(graph, options);
    EXPECT_TRUE(report) << report.error().message();
    EXPECT_EQ(report->warnings.size(), report->nodes[Precision::kBf16] == 0 ? 1 : 0);
    const NodeId id = graph.FindNode(node);
    return graph.value(graph.node(id).outputs[0]).type.dtype == DType::kBfloat16;
  };
  const std::string net =
      "input %x: float32[1, 2, 6, 6]\nconst %w: float32[2, 2, 1, 1]\na: %a = Conv(%x, %w)\np: %p = "
      "MaxPool{kernel_shape=[2, 2]}(%a)\nb: %b = Conv(%p, %w)\noutput %b\n";
  EXPECT_TRUE(narrow(net, {}, "p"));
  EXPECT_FALSE(narrow(net, {.exclude = {"p"}}, "p"));
  const std::string indices =
      "input %x: float32[1, 2, 6, 6]\nconst %w: float32[2, 2, 1, 1]\na: %a = Conv(%x, %w)\np: %p, "
      "%i = MaxPool{kernel_shape=[2, 2]}(%a)\nb: %b = Conv(%p, %w)\nn: %n = Neg(%i)\noutput "
      "%b\noutput %n\n";
  EXPECT_FALSE(narrow(indices, {}, "p")) << "the kernel does not give indices";
  // Rows of a constant table start a run of bfloat16 values, rows of a computed one do not.
  const std::string rows =
      "input %i: int64[1]\n{} %t: float32[4, 4]\nconst %w: float32[4, 4]\ng: "
      "%g = Gather(%t, %i)\nm: %m = MatMul(%g, %w)\noutput %m\n";
  EXPECT_TRUE(narrow(fmt::format(fmt::runtime(rows), "const"), {}, "g"));
  EXPECT_FALSE(narrow(fmt::format(fmt::runtime(rows), "input"), {}, "g"));
  EXPECT_FALSE(narrow("input %x: float32[2]\nr: %y = Relu(%x)\noutput %y\n", {}, "r"));
  // The second operand of a product counts as the first does.
  Graph pair = MakeNet(
      "graph g\ninput %x: float32[2, 2]\nconst %w: int8[2, 2](scale 0.5, zero "
      "0) = [1, 2, 3, 4]\nn: %y = MatMul(%x, %w)\noutput %y\n");
  const auto report = ConvertToBf16(pair, {});
  ASSERT_TRUE(report);
  EXPECT_EQ(report->float_reasons.at("n"),
            (Reason{"types", "input 1 is int8[2, 2](scale 0.5, zero 0), expected float32"}));
  EXPECT_EQ(pair.node(pair.FindNode("n")).attrs.String("evoq.float_reason"),
            report->float_reasons.at("n").ToString());
  Graph computed = MakeNet(
      "graph g\ninput %x: float32[1, 2, 3, 3]\ninput %w: float32[2, 2, 1, "
      "1]\nn: %y = Conv(%x, %w)\noutput %y\n");
  const auto other = ConvertToBf16(computed, {});
  ASSERT_TRUE(other);
  EXPECT_EQ(other->float_reasons.at("n"),
            (Reason{"weights-not-constant", "the weight is computed"}));
}

// ---- equalization of products

// v = Relu(x w): channels reach 4 and 1 of a range of 4. The reader is dense, three outputs:
// t[1] <= sqrt(r / 255 * sqrt(squares / readers) / (scale * size)), with squares 3 * 2^2, readers
// 3, scale the mean of 2 / 127 and size sqrt(mean * max) = sqrt(0.25 * 1): sqrt(4 / 255 * 2 / (2 /
// 127 * 0.5)) = 1.996075.
TEST(Equalize, ProductsHaveTheirChannelsOnTheOtherAxis) {
  Graph net = MakeNet(
      "graph g\ninput %x: float32[1, 1]\nconst %w: float32[1, 2]\na: %v = "
      "MatMul{activation=\"Relu\"}(%x, %w)\nconst %u: float32[2, 3]\nb: %y = MatMul(%v, "
      "%u)\noutput %y\n");
  net.SetConstant(net.FindValue("w"), Tensor::FromValues<float>(Shape{1, 2}, {4, 8}));
  net.SetConstant(net.FindValue("u"), Tensor::FromValues<float>(Shape{2, 3}, {1, 1, 1, 2, 2, 2}));
  Ranges ranges = {{"x", {-1, 1}}, {"v", {0, 4, {2, 0.25f}, {4, 1}}}, {"y", {-9, 9}}};
  const std::set<NodeId> all(net.order().begin(), net.order().end());
  EXPECT_EQ(EqualizeChannels(net, all, ranges), 1);
  const auto constant = [&](const char* node) {
    return net.ConstantInput(net.node(net.FindNode(node)), 1)->values<float>();
  };
  EXPECT_EQ(constant("a")[0], 4);
  EXPECT_NEAR(constant("a")[1], 8 * 1.996075, 1e-4);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(constant("b")[i], 1);
    EXPECT_NEAR(constant("b")[3 + i], 2 / 1.996075, 1e-5);
  }
}

// ---- ranges.json, as docs/ranges.md has it

TEST(RangesFile, IsWrittenAsDocumented) {
  const std::string path = testing::TempDir() + "/evoq_ranges_text.json";
  const Ranges ranges = {{"conv", {0, 5.4375f}}, {"input é", {-2.5f, 2, {0.25f, -4}, {3, 4}}}};
  const auto text = [&](const CalibrationOptions& options, int samples) {
    EXPECT_TRUE(SaveRanges(ranges, options, path, samples));
    return ReadTextFile(path).value_or("");
  };
  const std::string end = R"(
  "ranges": {
    "conv": [0, 5.4375],
    "input é": [-2.5, 2]
  },
  "channel_means": {
    "input é": [0.25, -4]
  },
  "channel_max": {
    "input é": [3, 4]
  }
}
)";
  const std::string begin = fmt::format(
      "{{\n  \"format\": \"evoq-ranges\",\n  \"version\": 1,\n  \"evoq\": \"{}\",\n", EVOQ_VERSION);
  EXPECT_EQ(text({}, 3),
            begin + "  \"observer\": \"sqnr\",\n  \"bins\": 2048,\n  \"samples\": 3," + end);
  EXPECT_EQ(text({.observer = FindObserver("minmax")}, 3),
            begin + "  \"observer\": \"minmax\",\n  \"samples\": 3," + end);
  EXPECT_EQ(text({.observer = FindObserver("percentile"), .percentile = 99.5, .bins = 512}, 100),
            begin +
                "  \"observer\": \"percentile\",\n  \"percentile\": 99.5,\n  \"bins\": 512,\n  "
                "\"samples\": 100," +
                end);
  EXPECT_EQ(text({.observer = FindObserver("mse")}, 1),
            begin + "  \"observer\": \"mse\",\n  \"bins\": 2048,\n  \"samples\": 1," + end);
}

TEST(RangesFile, EveryPartIsChecked) {
  const std::string path = testing::TempDir() + "/evoq_ranges_parts.json";
  struct Case {
    const char *ranges, *more, *error;
  };
  for (const Case& c : {
           Case{"[0, 1, 2]", "", "range of a is [0,1,2], expected [min, max]"},
           Case{"[\"x\", 1]", "", "range of a is [\"x\",1], expected [min, max]"},
           Case{"[0, \"y\"]", "", "range of a is [0,\"y\"], expected [min, max]"},
           Case{"[-1e99, 0]", "", "range of a is [-1e+99,0], expected [min, max]"},
           Case{"[0, 1]", ", \"channel_max\": [1]",
                "\"channel_max\" is not an object of value: [number, ...]"},
           Case{"[0, 1]", ", \"channel_means\": {\"a\": 1}", "\"channel_means\" of a is no array"},
       }) {
    ASSERT_TRUE(WriteFileAtomic(
        path, fmt::format(R"({{"format": "evoq-ranges", "version": 1, "ranges": {{"a": {}}}{}}})",
                          c.ranges, c.more)));
    const auto loaded = LoadRanges(path);
    ASSERT_FALSE(loaded) << c.error;
    EXPECT_NE(loaded.error().message().find(c.error), std::string::npos)
        << loaded.error().message() << "\nwanted " << c.error;
  }
}

}  // namespace
}  // namespace evoq
