// What schemes make of LSTM, GRU and RNN.
#include <gtest/gtest.h>

#include "kernels/gemm/blocks/block_data.h"
#include "quant/low_bits.h"
#include "quant/recurrent_weights.h"
#include "quant/test_net.h"

namespace evoq {
namespace {

// A recurrent layer, 20 -> 64 for each direction, before a product of 64 or 128 by 16.
std::string Net(const std::string& op, int directions = 1, const std::string& attrs = "") {
  const int gates = op == "LSTM" ? 4 : op == "GRU" ? 3 : 1;
  return fmt::format(
      "graph g\ninput %x: float32[6, 1, 20]\nconst %w: float32[{0}, {1}, 20]\n"
      "const %r: float32[{0}, {1}, 64]\nconst %b: float32[{0}, {2}]\n"
      "cell: %y = {3}{{direction=\"{4}\", hidden_size=64{5}}}(%x, %w, %r, %b)\n"
      "const %shape: int64[3] = [6, 1, {6}]\n"
      "turn: %t = Transpose{{perm=[0, 2, 1, 3]}}(%y)\nflat: %f = Reshape(%t, %shape)\n"
      "const %v: float32[{6}, 16]\nout: %z = MatMul(%f, %v)\noutput %z\n",
      directions, gates * 64, gates * 128, op, directions == 2 ? "bidirectional" : "forward", attrs,
      64 * directions);
}

TensorType TypeOf(const Graph& graph, size_t input) {
  return graph.value(graph.node(graph.FindNode("cell")).input(input)).type;
}
int64_t DataBlockOf(const Graph& graph) {
  return graph.node(graph.FindNode("cell")).attrs.Int(kDataBlock, 0);
}
int64_t WeightBytes(const Graph& graph) {
  int64_t bytes = 0;
  for (int i = 0; i < graph.value_count(); ++i) {
    const Value& value = graph.value(ValueId{i});
    if (!value.is_constant()) continue;
    bytes += static_cast<int64_t>(value.constant.bytes());
    if (value.type.quantized()) bytes += 4 * static_cast<int64_t>(value.type.quant->scales.size());
  }
  return bytes;
}

TEST(RecurrentQuant, DynamicRoundsDataAndWeights) {
  for (const char* op : {"LSTM", "GRU", "RNN"}) {
    for (int directions : {1, 2}) {
      SCOPED_TRACE(fmt::format("{} {}", op, directions));
      const Graph net = MakeNet(Net(op, directions), 0.2f);
      Graph q = net;
      const auto report = QuantizeDynamic(q, {});
      ASSERT_TRUE(report) << report.error().message();
      EXPECT_EQ(report->nodes[Precision::kInt8], 2);
      EXPECT_EQ(report->nodes[Precision::kFloat32], 0);
      EXPECT_TRUE(report->float_reasons.empty());
      EXPECT_TRUE(report->warnings.empty());
      EXPECT_TRUE(report->used.contains("w") && report->used.contains("r"));
      EXPECT_EQ(DataBlockOf(q), 64) << "whole rows of the longer of both";
      for (size_t input : {1, 2}) {
        const TensorType type = TypeOf(q, input);
        EXPECT_EQ(type.dtype, DType::kInt8);
        EXPECT_TRUE(ValidateQuant(type));
        EXPECT_EQ(type.quant->scales.size(), type.shape[0].value * type.shape[1].value);
        EXPECT_EQ(type.quant->axis, directions == 1 ? 1 : 2);
        EXPECT_EQ(type.quant->block, directions == 1 ? 0 : type.shape[2].value);
      }
      EXPECT_GT(Sqnr(net, q), 30);
      EXPECT_LT(WeightBytes(q), 0.32 * static_cast<double>(WeightBytes(net)));
    }
  }
}

// Scales and numbers by the formula, computed here.
TEST(RecurrentQuant, RowsAreChannels) {
  const Graph net = MakeNet(Net("GRU", 2));
  Graph q = net;
  ASSERT_TRUE(QuantizeWeights(q, {}));
  EXPECT_EQ(DataBlockOf(q), 0);
  const Tensor real = net.value(net.FindValue("r")).constant,
               narrow = q.value(q.node(q.FindNode("cell")).input(2)).constant;
  ASSERT_EQ(narrow.shape(), real.shape());
  for (int64_t row = 0; row < 384; ++row) {
    float largest = 0;
    for (int64_t k = 0; k < 64; ++k)
      largest = std::max(largest, std::fabs(real.data<float>()[row * 64 + k]));
    const float scale = narrow.type().quant->scales[row];
    EXPECT_GE(scale * 127, largest);
    EXPECT_LE(scale * 127, largest * (1 + 1.0f / 2048));
    for (int64_t k = 0; k < 64; ++k)
      ASSERT_EQ(narrow.data<int8_t>()[row * 64 + k],
                std::nearbyint(real.data<float>()[row * 64 + k] / scale));
  }
  EXPECT_GT(Sqnr(net, q), 35);
  Graph one = net;
  ASSERT_TRUE(QuantizeWeights(one, {.per_channel = false}));
  EXPECT_TRUE(TypeOf(one, 1).quant->per_tensor());
}

TEST(RecurrentQuant, WeightsOnlyCountsTheLayer) {
  Graph q = MakeNet(Net("LSTM"));
  const auto report = QuantizeWeights(q, {});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->int8_weights, 2);
  EXPECT_EQ(report->nodes[Precision::kFloat32], 2);
  EXPECT_EQ(DataBlockOf(q), 0);
}

// Numbers of few bits are those that the same matrix of a product would have.
TEST(RecurrentQuant, FewBits) {
  const Graph net = MakeNet(Net("LSTM", 2), 0.2f);
  for (const LowBits* low : AllLowBits()) {
    for (int64_t block : {32, 0}) {
      SCOPED_TRACE(fmt::format("{} {}", low->name, block));
      Graph q = net;
      const auto report =
          QuantizeWeights(q, {.block = block}, {.low_bits = low, .rounding = low->integers});
      ASSERT_TRUE(report) << report.error().message();
      EXPECT_EQ(DataBlockOf(q), !low->integers ? 0 : 128);
      const Tensor got = q.value(q.node(q.FindNode("cell")).input(1)).constant;
      EXPECT_EQ(got.dtype(), low->dtype);
      EXPECT_TRUE(ValidateQuant(got.type()));
      const Tensor real = net.value(net.FindValue("w")).constant;
      Tensor second = Tensor::Allocate(TensorType(DType::kFloat32, Shape{256, 20}));
      std::copy_n(real.data<float>() + 256 * 20, 256 * 20, second.mutable_data<float>());
      const auto matrix = low->Quantize({second, true}, block, 1);
      ASSERT_TRUE(matrix);
      const auto wanted = ToFloat32(*matrix), all = ToFloat32(got);
      ASSERT_TRUE(wanted && all);
      for (int64_t n = 0; n < 256; ++n) {
        for (int64_t k = 0; k < 20; ++k)
          ASSERT_EQ(all->data<float>()[(256 + n) * 20 + k], wanted->data<float>()[k * 256 + n]);
      }
    }
  }
}

// Static int8 does what dynamic int8 does with recurrent layers, and narrows tables.
TEST(RecurrentQuant, StaticTakesThemToo) {
  const Graph net = MakeNet(Net("LSTM"), 0.2f);
  Graph q = net;
  const Ranges ranges = {{"f", {-1, 1}}, {"z", {-3, 3}}, {"t", {-1, 1}}, {"y", {-1, 1}}};
  const auto report = QuantizeStatic(q, ranges, {});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_FALSE(report->float_reasons.contains("cell"));
  EXPECT_EQ(report->nodes[Precision::kInt8], 2);
  EXPECT_EQ(DataBlockOf(q), 64);
  EXPECT_EQ(TypeOf(q, 1).dtype, DType::kInt8);
  EXPECT_FALSE(q.node(q.FindNode("cell")).attrs.Has("evoq.float_reason"));
  EXPECT_GT(Sqnr(net, q), 30);
  const auto again = QuantizeStatic(q, ranges, {});
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(again->nodes[Precision::kInt8], 2) << "it stays what it is";
  EXPECT_FALSE(again->float_reasons.contains("cell"));

  Graph alone = MakeNet(
      "graph g\ninput %x: float32[3, 1, 8]\nconst %w: float32[1, 64, 8]\nconst %r: float32[1, 64, "
      "16]\ncell: %y = LSTM{hidden_size=16}(%x, %w, %r)\noutput %y\n");
  const auto only = QuantizeStatic(alone, {}, {});
  ASSERT_TRUE(only);
  EXPECT_TRUE(only->warnings.empty()) << only->warnings[0];

  Graph table = MakeNet(
      "graph g\ninput %i: int64[3]\nconst %t: float32[64, 16]\ng: %e = Gather(%t, %i)\n"
      "const %w: float32[16, 16]\nm: %y = MatMul(%e, %w)\noutput %y\n");
  const auto narrowed = QuantizeStatic(table, {{"e", {-1, 1}}, {"y", {-3, 3}}}, {});
  ASSERT_TRUE(narrowed);
  EXPECT_EQ(table.value(table.node(table.FindNode("g")).input(0)).type.dtype, DType::kInt8);
  EXPECT_EQ(narrowed->int8_weights, 1);
  EXPECT_EQ(narrowed->nodes.Total(), 2);
  EXPECT_FALSE(narrowed->float_reasons.contains("g"));
}

TEST(RecurrentQuant, WhatStaysFloat) {
  const auto reason = [](const std::string& text, const QuantizeOptions& options = {}) {
    Graph graph = MakeNet(text);
    const auto report = QuantizeDynamic(graph, options);
    EXPECT_TRUE(report) << report.error().message();
    EXPECT_EQ(DataBlockOf(graph) == 0, report->float_reasons.contains("cell"));
    EXPECT_EQ(report->nodes.Total(), 1);
    return report->float_reasons.contains("cell") ? report->float_reasons.at("cell").ToString()
                                                  : "";
  };
  const auto cell = [](const char* w, const char* input, const char* batch = "1") {
    return fmt::format(
        "graph g\ninput %x: float32[3, {2}, {1}]\n{0} %w: float32[1, 112, {1}]\nconst %r: "
        "float32[1, "
        "112, 28]\ncell: %y = LSTM{{hidden_size=28}}(%x, %w, %r)\noutput %y\n",
        w, input, batch);
  };
  EXPECT_EQ(reason(cell("const", "4")), "") << "112 x 28 are 3136";
  EXPECT_EQ(reason(cell("const", "4", "N")), "");
  EXPECT_EQ(reason(cell("const", "4", "2")),
            "small: the state's 3136 weights are multiplied faster in float32");
  EXPECT_EQ(reason(cell("input", "4")), "weights-not-constant: weight 1 is computed at run time");
  EXPECT_EQ(reason(cell("const", "4"), {.exclude = {"ce*"}}),
            "excluded: the name matches the excluded pattern \"ce*\"");
  EXPECT_EQ(reason("graph g\ninput %x: float32[3, 1, 3]\nconst %w: float32[1, 16, 3]\nconst %r: "
                   "float32[1, 16, 4]\ncell: %y = LSTM{hidden_size=4}(%x, %w, %r)\noutput %y\n"),
            "small: weights of 112 elements");
}

TEST(RecurrentQuant, WeightsWithNaNsAreNamed) {
  Graph graph = MakeNet(Net("RNN"));
  Tensor r = graph.value(graph.FindValue("r")).constant.Clone();
  r.mutable_data<float>()[3] = NAN;
  graph.SetConstant(graph.FindValue("r"), r);
  const auto report = QuantizeDynamic(graph, {});
  ASSERT_FALSE(report);
  EXPECT_TRUE(report.error().message().starts_with("r: a constant of float32["))
      << report.error().message();
}

// What is too small for integer products is narrowed all the same.
TEST(RecurrentQuant, SmallStatesAreNarrowedOnly) {
  Graph q = MakeNet(
      "graph g\ninput %x: float32[3, 1, 8]\nconst %w: float32[1, 64, 8]\nconst %r: float32[1, 64, "
      "16]\ncell: %y = LSTM{hidden_size=16}(%x, %w, %r)\noutput %y\n");
  const auto report = QuantizeDynamic(q, {});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->float_reasons.at("cell").ToString(),
            "small: the state's 1024 weights are multiplied faster in float32");
  EXPECT_EQ(report->int8_weights, 1);
  EXPECT_EQ(report->nodes[Precision::kFloat32], 1);
  EXPECT_EQ(report->nodes.Total(), 1);
  EXPECT_EQ(DataBlockOf(q), 0);
  EXPECT_EQ(TypeOf(q, 1).dtype, DType::kInt8);
  EXPECT_EQ(TypeOf(q, 2).dtype, DType::kInt8);
  EXPECT_TRUE(report->warnings.empty());
}

// A branch's layer is quantized like one outside; a product where weights are stored
// without calibration.
TEST(RecurrentQuant, InSubgraphs) {
  const char* const text =
      "graph g\ninput %x: float32[3, 1, 20]\ninput %c: bool[]\n"
      "if: %y = If{captured=1}(%c, %x)\n| graph \"then\"\n| input %a: float32[3, 1, 20]\n"
      "| const %w: float32[1, 256, 20]\n| const %r: float32[1, 256, 64]\n"
      "| cell: %b = LSTM{hidden_size=64}(%a, %w, %r)\n| output %b\n| graph \"else\"\n"
      "| input %a: float32[3, 1, 20]\n| const %v: float32[20, 64]\n"
      "| product: %b = MatMul(%a, %v)\n| output %b\noutput %y\n";
  const auto weight = [](const Graph& graph, size_t body, const char* node) {
    const Graph& inner = *graph.node(graph.FindNode("if")).bodies[body];
    return inner.value(inner.node(inner.FindNode(node)).input(1)).type;
  };
  const auto schemes = {
      +[](Graph& q) { return QuantizeDynamic(q, {}); },
      +[](Graph& q) { return QuantizeStatic(q, {}, {}); },
      +[](Graph& q) { return QuantizeWeights(q, {}); },
  };
  int i = 0;
  for (const auto scheme : schemes) {
    Graph q = MakeNet(text);
    const auto report = scheme(q);
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_EQ(weight(q, 0, "cell").dtype, DType::kInt8) << i;
    EXPECT_EQ(weight(q, 1, "product").dtype, i == 1 ? DType::kFloat32 : DType::kInt8) << i;
    EXPECT_EQ(report->nodes[Precision::kInt8], i == 2 ? 0 : 1) << i;
    EXPECT_EQ(report->int8_weights, (std::array{1, 0, 2}[i])) << i;
    EXPECT_TRUE(report->used.contains("w")) << i;
    EXPECT_EQ(report->used.contains("v"), i != 1) << i;
    EXPECT_TRUE(report->warnings.empty()) << report->warnings[0];
    ++i;
  }
  Graph q = MakeNet(text);
  const auto kept = QuantizeDynamic(q, {.exclude = {"cell"}});
  ASSERT_TRUE(kept) << kept.error().message();
  EXPECT_EQ(kept->float_reasons.at("if/cell").code, "excluded");
}

// Weights that were given in a type keep it, and the layer computes in float32.
TEST(RecurrentQuant, GivenWeights) {
  Graph q = MakeNet(Net("LSTM"));
  QuantizeOptions options;
  options.given["w"] = {.dtype = DType::kInt8, .params = QuantParams::PerTensor(0.01f, 0)};
  const auto report = QuantizeDynamic(q, options);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(DataBlockOf(q), 0);
  EXPECT_EQ(TypeOf(q, 1).quant->scales, std::vector<float>{0.01f});
  EXPECT_FALSE(TypeOf(q, 2).quantized());
  EXPECT_EQ(report->int8_weights, 1);
}

}  // namespace
}  // namespace evoq
