// Operators beside ONNX's own: what they need, and their values by hand.
#include <gtest/gtest.h>

#include "onnx/text_testing.h"

namespace evoq {
namespace {

using text::Constant, text::Evaluated, text::ExpectNear, text::Float, text::Sizes, text::Text,
    text::Import, text::Input, text::Int, text::Node, text::Output, text::Reals;

constexpr char kMicrosoft[] = "com.microsoft", kBrevitas[] = "onnx.brevitas";

// Each input in turn is omitted: those that the operator needs are missed by their number.
TEST(Microsoft, InputsThatAreNeeded) {
  struct Row {
    const char* op;
    size_t inputs;
    std::set<size_t> needed;
  };
  const Row rows[] = {{"FastGelu", 2, {0}},
                      {"BiasGelu", 2, {0}},
                      {"QuickGelu", 2, {0}},
                      {"FusedConv", 4, {0, 1}},
                      {"FusedGemm", 3, {0, 1}},
                      {"FusedMatMul", 3, {0, 1}},
                      {"GatherBlockQuantized", 4, {0, 1, 2}},
                      {"SimplifiedLayerNormalization", 3, {0, 1}},
                      {"SkipLayerNormalization", 5, {0, 1, 2}},
                      {"SkipSimplifiedLayerNormalization", 4, {0, 1, 2}},
                      {"EmbedLayerNormalization", 9, {0, 2, 3, 5, 6}},
                      {"MatMulIntegerToFloat", 7, {0, 1, 2, 3}},
                      {"DynamicQuantizeMatMul", 5, {0, 1, 2}},
                      {"MatMulNBits", 6, {0, 1, 2}},
                      {"Attention", 6, {0, 1}},
                      {"QAttention", 9, {0, 1, 2, 3, 4}},
                      {"GroupQueryAttention", 9, {0, 5, 6}},
                      {"RotaryEmbedding", 5, {0, 1, 2, 3}}};
  for (const Row& row : rows) {
    for (size_t omitted = 0; omitted < row.inputs; ++omitted) {
      text::Names inputs(row.inputs, "x");
      inputs[omitted] = "";
      const std::string error =
          text::ErrorOf(Import(17, Input("x", 1, {1, 2, 4}) +
                                       Node(row.op, inputs, {"y"}, "", kMicrosoft) + Output("y")));
      const std::string missing = fmt::format("::{}): input {} is missing", row.op, omitted);
      EXPECT_EQ(error.find(missing) != std::string::npos, row.needed.count(omitted) > 0)
          << omitted << ": " << error;
    }
  }
  // The angles of a rotation are needed where there is one.
  for (const size_t omitted : {7, 8}) {
    for (const int rotary : {0, 1}) {
      text::Names inputs = {"x", "x", "x", "", "", "n", "n", "c", "c"};
      inputs[omitted] = "";
      const auto graph = Import(
          17, Input("x", 1, {1, 2, 4}) + Constant("n", 6, {1}, {1}) + Input("c", 1, {9, 2}) +
                  Node("GroupQueryAttention", inputs, {"y"},
                       Int("num_heads", 1) + Int("kv_num_heads", 1) + Int("do_rotary", rotary),
                       kMicrosoft) +
                  Output("y"));
      const std::string missing = fmt::format("input {} is missing", omitted);
      EXPECT_EQ(text::ErrorOf(graph).find(missing) != std::string::npos, rotary == 1)
          << text::ErrorOf(graph);
    }
  }
}

// QLinear operators: every third input is a zero point, which may be omitted.
TEST(QLinear, InputsThatAreNeeded) {
  for (const auto& [op, domain] :
       {std::pair("QLinearMatMul", ""), {"QLinearConv", ""}, {"QLinearAdd", kMicrosoft}}) {
    for (size_t omitted = 0; omitted < 7; ++omitted) {
      text::Names inputs(8, "x");
      inputs[omitted] = "";
      const std::string error = text::ErrorOf(
          Import(17, Input("x", 1, {1, 2, 4}) + Node(op, inputs, {"y"}, "", domain) + Output("y")));
      const std::string missing = fmt::format("input {} is omitted, expected a value", omitted);
      EXPECT_EQ(error.find(missing) != std::string::npos, omitted % 3 != 2) << omitted << error;
    }
  }
  text::Names seven(7, "x");
  for (const char* op : {"QLinearMatMul", "QLinearConv"}) {
    EXPECT_NE(
        text::ErrorOf(Import(17, Input("x", 1, {1, 2, 4}) + Node(op, seven, {"y"}) + Output("y")))
            .find("7 inputs, expected at least 8"),
        std::string::npos);
  }
}

// y = (clamp(round(x / scale + zero), low, high) - zero) * scale, round half to even.
TEST(Qonnx, GridsOfAllWidths) {
  struct Row {
    double scale, zero, bits;
    std::string attrs;
    std::vector<float> x, y;
  };
  const std::string plain = Int("signed", 0), narrow = Int("narrow", 1);
  const Row rows[] = {
      {0.5, 0, 3, "", {-9, -0.25f, 0.75f, 9}, {-2, 0, 1, 1.5f}},        // -4 to 3
      {0.5, 0, 3, narrow, {-9, -1.5f, 0, 9}, {-1.5f, -1.5f, 0, 1.5f}},  // -3 to 3
      {0.5, 0, 3, plain, {-9, 0.5f, 3.5f, 9}, {0, 0.5f, 3.5f, 3.5f}},   // 0 to 7
      {0.5, 0, 3, plain + narrow, {-9, 3, 3.5f, 9}, {0, 3, 3, 3}},      // 0 to 6
      {1, 2, 3, "", {-9, -6, 1, 9}, {-6, -6, 1, 1}},                    // -4 - 2 to 3 - 2
      {1, 2, 3, plain, {-9, -2, 5, 9}, {-2, -2, 5, 5}},                 // 0 - 2 to 7 - 2
      {1, 0, 1, plain, {-9, 0, 1, 9}, {0, 0, 1, 1}},                    // 0 to 1
      {1, 0, 4, "", {-9, -8, 7, 9}, {-8, -8, 7, 7}},
      {1, 0, 8, "", {-200, -128, 127, 200}, {-128, -128, 127, 127}},
      {1, 0, 8, plain, {-1, 0, 255, 300}, {0, 0, 255, 255}},
      {1, 0, 9, "", {-300, -256, 255, 300}, {-256, -256, 255, 255}},
      {1, 3, 9, plain, {-9, -3, 508, 600}, {-3, -3, 508, 508}},
      {1, 0, 16, "", {-40000, -32768, 32767, 40000}, {-32768, -32768, 32767, 32767}},
      {1, 0, 16, plain, {-1, 0, 65535, 70000}, {0, 0, 65535, 65535}},
  };
  for (const Row& row : rows) {
    const std::string grid = Constant("s", 1, {}, {row.scale}) + Constant("z", 1, {}, {row.zero}) +
                             Constant("b", 1, {}, {row.bits}) +
                             Node("Quant", {"x", "s", "z", "b"}, {"q"}, row.attrs, kBrevitas);
    const std::vector<double> values(row.x.begin(), row.x.end());
    SCOPED_TRACE(fmt::format("{} bits, zero {} {}", row.bits, row.zero, row.attrs));
    const std::string add = Node("Add", {"q", "n"}, {"y"}) + Output("y");
    const auto given =
        Import(17, Input("x", 1, {4}) + Constant("n", 1, {4}, {0, 0, 0, 0}) + grid + add);
    EXPECT_EQ(Evaluated(given, {Reals({4}, row.x)}).at(0), row.y);
    // Of a constant, numbers of up to 4 bits are kept two to a byte.
    const auto constant =
        Import(17, Constant("x", 1, {4}, values) + Input("n", 1, {4}) + grid + add);
    EXPECT_EQ(Evaluated(constant, {Reals({4}, {0, 0, 0, 0})}).at(0), row.y);
    if (!constant) continue;
    const bool plain_type = row.attrs.find("signed") != std::string::npos;
    const std::string stored = (plain_type ? "uint" : "int") + std::to_string(row.bits <= 4   ? 4
                                                                              : row.bits <= 8 ? 8
                                                                                              : 16);
    EXPECT_NE(Print(*constant).find(stored + "[4]"), std::string::npos) << Print(*constant);
  }
}

// Scales 0.5 and 2 of the columns, of the last axis but one where they stand on it; 3 bits: -4
// to 3.
TEST(Qonnx, ScalesOfAnAxis) {
  const auto run = [](const text::Sizes& scale, const text::Sizes& x) {
    const auto graph =
        Import(17, Input("x", 1, x) + Constant("s", 1, scale, {0.5, 2}) +
                       Constant("z", 1, {}, {0}) + Constant("b", 1, {}, {3}) +
                       Node("Quant", {"x", "s", "z", "b"}, {"y"}, "", kBrevitas) + Output("y"));
    return Evaluated(graph, {Reals(x, {-9, -9, 9, 9})}).at(0);
  };
  EXPECT_EQ(run({2}, {2, 2}), (std::vector<float>{-2, -8, 1.5f, 6}));
  EXPECT_EQ(run({1, 2}, {2, 2}), (std::vector<float>{-2, -8, 1.5f, 6}));
  EXPECT_EQ(run({2, 1}, {2, 2}), (std::vector<float>{-2, -2, 6, 6}));
  EXPECT_EQ(run({2, 1}, {1, 2, 2}), (std::vector<float>{-2, -2, 6, 6}));
}

TEST(Qonnx, BipolarValues) {
  const auto graph =
      Import(17, Input("x", 1, {4}) + Constant("s", 1, {}, {0.5}) +
                     Node("BipolarQuant", {"x", "s"}, {"y"}, "", kBrevitas) + Output("y"));
  EXPECT_EQ(Evaluated(graph, {Reals({4}, {-3, -0.1f, 0, 7})}).at(0),
            (std::vector<float>{-0.5f, -0.5f, 0.5f, 0.5f}));
}

// Weights 0 to 3 of 2 bits, four to a byte from the low bits on: 0xe4 is 0, 1, 2, 3. Zero points of
// one block in a byte of their own: 1 for column 0, 2 for column 1. Without them they are 2.
TEST(MatMulNBits, TwoBits) {
  const std::vector<double> bytes(8, 0xe4);
  const auto run = [&](const std::string& zeros, const char* name,
                       std::vector<double> scales = {0.5, 2}) {
    std::vector<float> x(16, 0);
    x[0] = 1, x[3] = 10, x[5] = 100;  // weights 0, 3 and 1
    const auto graph =
        Import(17, Input("x", 1, {1, 16}) + Constant("w", 2, {2, 1, 4}, bytes) +
                       Constant("s", 1, {2}, scales) + zeros +
                       Node("MatMulNBits", {"x", "w", "s", name}, {"y"},
                            Int("K", 16) + Int("N", 2) + Int("block_size", 16) + Int("bits", 2),
                            kMicrosoft) +
                       Output("y"));
    return Evaluated(graph, {Reals({1, 16}, x)}).at(0);
  };
  // (0 - z) + 10 (3 - z) + 100 (1 - z) = 130 - 111 z
  EXPECT_EQ(run("", ""), (std::vector<float>{0.5f * -92, 2 * -92}));
  // As ONNX Runtime writes them, scales may be below 0, or 0.
  EXPECT_EQ(run("", "", {-0.5, 0}), (std::vector<float>{0.5f * 92, 0}));
  EXPECT_EQ(run(Constant("z", 2, {2, 1}, {1, 2}), "z", {-0.5, 2}),
            (std::vector<float>{-0.5f * 19, 2 * -92}));
  EXPECT_EQ(run(Constant("z", 2, {2, 1}, {1, 2}), "z"), (std::vector<float>{0.5f * 19, 2 * -92}));
  EXPECT_EQ(run(Constant("z", 1, {2}, {1.5, 2}), "z"),
            (std::vector<float>{0.5f * -36.5f, 2 * -92}));
}

// Rows of three blocks of two numbers, the second row first: in bytes of 4 bits and of 2 (0xe4 is
// 0, 1, 2, 3) from the low bits on, with the middle as zero point or those of packed bytes; of 8
// bits; as uint4, whose zero point is 0. Nothing of the domain need be imported.
TEST(GatherBlockQuantized, RowsOfPackedNumbers) {
  const auto run = [](int type, const std::vector<double>& data, int64_t columns, int bits,
                      const std::string& zeros) {
    const auto graph =
        Import(21, Constant("w", type, {2, columns}, data) + Input("i", 7, {1}) +
                       Constant("s", 1, {2, 3}, {1, 1, 1, 1, 10, -100}) + zeros +
                       Node("GatherBlockQuantized", {"w", "i", "s", zeros.empty() ? "" : "z"},
                            {"y"}, Int("block_size", 2) + Int("bits", bits), kMicrosoft) +
                       Output("y"));
    EXPECT_TRUE(graph) << text::ErrorOf(graph);
    return Evaluated(graph, {Tensor::FromValues<int64_t>(Shape{1}, std::vector<int64_t>{1})}).at(0);
  };
  const std::vector<double> nibbles = {0, 0, 0, 0x21, 0x43, 0x65};
  EXPECT_EQ(run(2, nibbles, 3, 4, ""), (std::vector<float>{-7, -6, -50, -40, 300, 200}));
  EXPECT_EQ(run(2, nibbles, 3, 4, Constant("z", 2, {2, 2}, {0, 0, 0x31, 5})),
            (std::vector<float>{0, 1, 0, 10, 0, -100}));
  EXPECT_EQ(run(21, nibbles, 6, 4, ""), (std::vector<float>{1, 2, 30, 40, -500, -600}));
  EXPECT_EQ(run(2, {0, 0, 0, 0, 0, 0, 127, 128, 129, 130, 131, 132}, 6, 8, ""),
            (std::vector<float>{-1, 0, 10, 20, -300, -400}));
}

TEST(GatherBlockQuantized, WhatDoesNotFit) {
  const auto error = [](const Sizes& data, const Sizes& scales, const std::string& attrs,
                        const Sizes& zeros = {}) {
    const auto constant = [](const char* name, int type, const Sizes& sizes) {
      int64_t count = 1;
      for (const int64_t size : sizes) count *= size;
      return Constant(name, type, sizes, std::vector<double>(static_cast<size_t>(count), 1));
    };
    return text::ErrorOf(
        Import(21, constant("w", 2, data) + Input("i", 7, {1}) + constant("s", 1, scales) +
                       (zeros.empty() ? "" : constant("z", 2, zeros)) +
                       Node("GatherBlockQuantized", {"w", "i", "s", zeros.empty() ? "" : "z"},
                            {"y"}, attrs, kMicrosoft) +
                       Output("y")));
  };
  EXPECT_EQ(error({2, 8}, {2, 1}, Int("block_size", 16)), "imported");
  EXPECT_EQ(error({2, 8}, {2, 1}, Int("block_size", 16), {2, 1}), "imported");
  for (const std::string& wrong :
       {error({2, 8}, {2, 2}, Int("block_size", 16)), error({2, 8}, {2}, Int("block_size", 16)),
        error({2, 8}, {2, 1}, Int("block_size", 16), {2, 2}),
        error({2, 8}, {2, 1}, Int("block_size", 16), {1, 1})})
    EXPECT_NE(wrong.find("of 4 bits in blocks of 16"), std::string::npos) << wrong;
  EXPECT_NE(error({2, 8}, {2, 1}, Int("bits", 3)).find("bits=3"), std::string::npos);
  EXPECT_NE(error({2, 8}, {2, 1}, Int("block_size", 0)).find("block_size=0"), std::string::npos);
  EXPECT_NE(error({2, 8}, {1, 8}, Int("quantize_axis", 0)).find("quantize_axis 0"),
            std::string::npos);
}

TEST(FusedGemm, TheActivationHasNumbersOfItsOwn) {
  const auto run = [](const std::string& attrs) {
    const auto graph =
        Import(17, Input("x", 1, {1, 2}) + Constant("w", 1, {2, 2}, {1, 0, 0, -1}) +
                       Constant("c", 1, {2}, {0.5, 0.5}) +
                       Node("FusedGemm", {"x", "w", "c"}, {"y"}, attrs, kMicrosoft) + Output("y"));
    if (!graph) return std::vector<float>();
    return Evaluated(graph, {Reals({1, 2}, {1, 2})}).at(0);
  };
  // Gemm: 2 (1, -2) + 3 (0.5, 0.5) = 3.5, -2.5
  const std::string gemm = Float("alpha", 2) + Float("beta", 3);
  EXPECT_EQ(run(gemm), (std::vector<float>{3.5f, -2.5f}));
  EXPECT_EQ(run(gemm + Text("activation", "Relu")), (std::vector<float>{3.5f, 0}));
  EXPECT_EQ(run(gemm + Text("activation", "LeakyRelu") + Float("activation_alpha", 0.5)),
            (std::vector<float>{3.5f, -1.25f}));
  EXPECT_TRUE(run(Text("activation", "Softmax")).empty());
  EXPECT_TRUE(run(Text("activation", "Nonsense")).empty());
}

TEST(QLinear, Where) {
  const auto graph = Import(
      17, Input("c", 9, {4}) + Input("a", 2, {4}) + Input("b", 2, {4}) +
              Constant("s", 1, {}, {0.5}) + Constant("t", 1, {}, {1}) + Constant("z", 2, {}, {10}) +
              Node("QLinearWhere", {"c", "a", "s", "z", "b", "t", "z", "t", "z"}, {"y"}, "",
                   kMicrosoft) +
              Output("y"));
  ASSERT_TRUE(graph) << text::ErrorOf(graph);
  const auto bytes = [&](size_t i, std::vector<uint8_t> values) {
    return Tensor::FromValues<uint8_t>(Shape{4}, values)
        .WithType(graph->value(graph->inputs()[i]).type);
  };
  Tensor which = Tensor::Allocate(TensorType(DType::kBool, Shape{4}));
  for (int i : {0, 2}) which.mutable_data<bool>()[i] = true;
  const auto y = EvaluateGraph(
      *graph, std::vector<Tensor>{which, bytes(1, {14, 14, 20, 20}), bytes(2, {14, 15, 16, 17})});
  ASSERT_TRUE(y) << y.error().message();
  EXPECT_EQ((*y)[0].values<uint8_t>()[0], 12);
  EXPECT_EQ((*y)[0].values<uint8_t>()[1], 15);
  EXPECT_EQ((*y)[0].values<uint8_t>()[2], 15);
  EXPECT_EQ((*y)[0].values<uint8_t>()[3], 17);
}

// Weights [N, K] two to a byte, the first in the high bits: 0x0f, 0x70 of NF4 are -1, 1, 0, -1; of
// FP4 (bits 3 are 1, 10 are -2/3) 0x3a, 0x30 are 1, -2/3, 1, 0. One scale to 4: blocks fill the
// columns where K is 4, and straddle them where it is 2.
TEST(MatMulBnb4, BothTypes) {
  const auto run = [](int k, int type, std::vector<double> bytes, std::vector<double> scales) {
    const auto graph = Import(
        17, Input("x", 1, {1, k}) + Constant("w", 2, {static_cast<int64_t>(bytes.size())}, bytes) +
                Constant("s", 1, {static_cast<int64_t>(scales.size())}, scales) +
                Node("MatMulBnb4", {"x", "w", "s"}, {"y"},
                     Int("K", k) + Int("N", 2) + Int("block_size", 4) + Int("quant_type", type),
                     kMicrosoft) +
                Output("y"));
    EXPECT_TRUE(graph) << text::ErrorOf(graph);
    if (graph)
      EXPECT_EQ(Print(*graph).find(": nf4[4, 2](2 scales on axis 0, block 4)") != std::string::npos,
                k == 4 && type == 1 && scales[1] >= 0)
          << Print(*graph);
    return Evaluated(graph, {Reals({1, k}, k == 4 ? std::vector<float>{1, 10, 100, 1000}
                                                  : std::vector<float>{1, 10})})
        .at(0);
  };
  EXPECT_EQ(run(4, 1, {0x0f, 0x70, 0xff, 0x77}, {0.5, 2}),
            (std::vector<float>{0.5f * (-1 + 10 - 1000), 2 * 11}));
  EXPECT_EQ(run(4, 1, {0x0f, 0x70, 0xff, 0x77}, {0.5, 0}), (std::vector<float>{-495.5f, 0}));
  EXPECT_EQ(run(4, 1, {0x0f, 0x70, 0xff, 0x77}, {0.5, -2}), (std::vector<float>{-495.5f, -22}));
  EXPECT_EQ(run(2, 1, {0x0f, 0x70}, {0.5}), (std::vector<float>{4.5f, -5}));
  ExpectNear(run(4, 0, {0x3a, 0x30, 0x00, 0x03}, {3, 6}), {3 - 20 + 300, 6000});
}

TEST(MatMulBnb4, SizesOfItsInputs) {
  const auto error = [](int bytes, int scales, int k, int block, int type) {
    return text::ErrorOf(Import(
        17, Input("x", 1, {1, k}) +
                Constant("w", 2, {bytes}, std::vector<double>(static_cast<size_t>(bytes), 1)) +
                Constant("s", 1, {scales}, std::vector<double>(static_cast<size_t>(scales), 1)) +
                Node("MatMulBnb4", {"x", "w", "s"}, {"y"},
                     Int("K", k) + Int("N", 3) + Int("block_size", block) + Int("quant_type", type),
                     kMicrosoft) +
                Output("y")));
  };
  struct Row {
    int bytes, scales, k, block, type;
    const char* error;
  };
  for (const Row& row :
       {Row{72, 9, 48, 16, 1, "imported"}, Row{23, 3, 15, 16, 1, "imported"},
        Row{71, 9, 48, 16, 1, "input 1 is uint8[71], expected 72 bytes"},
        Row{72, 8, 48, 16, 1, "input 2 is float32[8], expected 9 scales of float32"},
        Row{72, 9, 48, 16, 2, "quant_type=2, expected 0 or 1"},
        Row{72, 9, 48, 0, 1, "K=48, N=3, block_size=0"}}) {
    const std::string got = error(row.bytes, row.scales, row.k, row.block, row.type);
    EXPECT_TRUE(got.ends_with(row.error)) << got << ", expected " << row.error;
  }
}

// 3 columns of 48 weights of 4 bits: 3 blocks of 8 bytes each, 9 scales, 9 zero points of which the
// 3 of a column take 2 bytes.
TEST(MatMulNBits, SizesOfItsInputs) {
  const auto error = [](int bytes, int scales, const char* zeros, int type) {
    const auto values = [](const char* name, int dtype, int count) {
      return Constant(name, dtype, {count}, std::vector<double>(static_cast<size_t>(count), 1));
    };
    return text::ErrorOf(
        Import(17, Input("x", 1, {1, 48}) + values("w", 2, bytes) + values("s", 1, scales) +
                       values("n6", type, 6) + values("n9", type, 9) + values("n5", type, 5) +
                       Node("MatMulNBits", {"x", "w", "s", zeros}, {"y"},
                            Int("K", 48) + Int("N", 3) + Int("block_size", 16), kMicrosoft) +
                       Output("y")));
  };
  struct Row {
    int bytes, scales;
    const char* zeros;
    int type;  // of the zero points: 1 float32, 2 uint8
    const char* error;
  };
  for (const Row& row : {Row{72, 9, "", 2, "imported"},
                         {72, 9, "n6", 2, "imported"},
                         {72, 9, "n9", 1, "imported"},
                         {71, 9, "", 2, "input 1 is uint8[71], expected uint8[3, 3, 8]"},
                         {72, 6, "", 2, "input 2 is float32[6], expected 9 scales"},
                         {72, 9, "n9", 2, "input 3 is uint8[9], expected 6 bytes"},
                         {72, 9, "n5", 2, "input 3 is uint8[5], expected 6 bytes"},
                         {72, 9, "n6", 1, "input 3 is float32[6]"}}) {
    const std::string got = error(row.bytes, row.scales, row.zeros, row.type);
    EXPECT_TRUE(got.ends_with(row.error)) << got << ", expected " << row.error;
  }
}

// What an activation of FusedConv takes where it has no parameters: a slope of 0.01; 0.2 x + 0.5.
TEST(Microsoft, FusedConvDefaults) {
  const auto run = [](const char* activation) {
    const auto graph = Import(17, Input("x", 1, {1, 1, 3}) + Constant("w", 1, {1, 1, 1}, {1}) +
                                      Node("FusedConv", {"x", "w"}, {"y"},
                                           text::Text("activation", activation), kMicrosoft) +
                                      Output("y"));
    return Evaluated(graph, {Reals({1, 1, 3}, {-2, 1, 100})}).at(0);
  };
  ExpectNear(run("LeakyRelu"), {-0.02f, 1, 100});
  ExpectNear(run("HardSigmoid"), {0.1f, 0.7f, 1});
  EXPECT_EQ(run("Clip"), (std::vector<float>{-2, 1, 100}));
}

// What comes out of a Loop may have any rank.
TEST(Microsoft, FusedMatMulOfAnyRank) {
  const auto graph = Import(
      17, "input { name: 'x' type { tensor_type { elem_type: 1 } } } " +
              Constant("w", 1, {1, 2}, {1, 10}) +
              Node("FusedMatMul", {"w", "x"}, {"y"}, Int("transB", 1), kMicrosoft) + Output("y"));
  EXPECT_EQ(Evaluated(graph, {Reals({3, 2}, {1, 2, 3, 4, 5, 6})}).at(0),
            (std::vector<float>{21, 43, 65}));
  EXPECT_EQ(Evaluated(graph, {Reals({2, 1, 2}, {1, 2, 3, 4})}).at(0), (std::vector<float>{21, 43}));
}

// A vector has no transpose; the products of (1, 2) with the columns of [[1, 2], [3, 4]].
TEST(Microsoft, FusedMatMulOfAVector) {
  const auto graph = Import(17, Input("x", 1, {2}) + Constant("w", 1, {2, 2}, {1, 2, 3, 4}) +
                                    Node("FusedMatMul", {"x", "w"}, {"y"},
                                         Int("transA", 1) + Int("transBatchA", 1), kMicrosoft) +
                                    Output("y"));
  EXPECT_EQ(Evaluated(graph, {Reals({2}, {1, 2})}).at(0), (std::vector<float>{7, 10}));
}

// Attributes of what becomes ai.onnx Attention: is_causal is 1 or 0, a window of 3 keys are 2 and
// the query's own.
TEST(Microsoft, AttributesOfAttention) {
  const auto attrs = [](const char* op, const text::Names& inputs, const std::string& given) {
    const auto graph = Import(17, Input("x", 1, {1, 2, 4}) + Constant("n", 6, {1}, {1}) +
                                      Constant("t", 6, {1}, {2}) +
                                      Node(op, inputs, {"y"}, given, kMicrosoft) + Output("y"));
    EXPECT_TRUE(graph) << text::ErrorOf(graph);
    std::string found;
    for (NodeId id : graph ? graph->order() : std::vector<NodeId>()) {
      const evoq::Node& node = graph->node(id);
      if (node.op != "Attention") continue;
      found = fmt::format("{} {} {} {} {}", node.attrs.Int("q_num_heads"),
                          node.attrs.Int("kv_num_heads"), node.attrs.Int("is_causal", -9),
                          node.attrs.Float("scale", -9), node.attrs.Int("left_window_size", -9));
    }
    return found;
  };
  const text::Names grouped = {"x", "x", "x", "", "", "n", "t"}, plain = {"x", "x", "x"};
  const std::string two = Int("num_heads", 2), window = Int("local_window_size", 3);
  EXPECT_EQ(attrs("GroupQueryAttention", grouped, two + Int("kv_num_heads", 2) + window),
            "2 2 1 -9 2");
  EXPECT_EQ(attrs("MultiHeadAttention", plain, two), "2 2 0 -9 -9");
  EXPECT_EQ(attrs("MultiHeadAttention", plain,
                  two + window + Int("unidirectional", 1) + text::Float("scale", 0.5f)),
            "2 2 1 0.5 2");
}

// ONNX's Attention takes lengths as int64, com.microsoft's as int32.
TEST(Microsoft, LengthsOfAttention) {
  const auto graph = Import(17, Input("x", 1, {2, 3, 4}) + Input("n", 6, {2}) +
                                    Node("MultiHeadAttention", {"x", "x", "x", "", "n"}, {"y"},
                                         Int("num_heads", 2), kMicrosoft) +
                                    Output("y"));
  ASSERT_TRUE(graph) << text::ErrorOf(graph);
  int found = 0;
  for (NodeId id : graph->order()) {
    const evoq::Node& node = graph->node(id);
    if (node.op != "Attention") continue;
    ++found;
    EXPECT_EQ(graph->value(node.input(6)).type.ToString(), "int64[2]");
  }
  EXPECT_EQ(found, 1);
}

// Packed as [batch, length, heads, parts, size]: what the parts give one by one.
TEST(Microsoft, MultiHeadAttentionTakesPackedInputs) {
  constexpr int64_t kLength = 3, kHeads = 2, kSize = 4;
  std::vector<float> parts[3];
  std::vector<float> three, two;
  for (int64_t row = 0; row < kLength * kHeads; ++row) {
    for (int64_t part = 0; part < 3; ++part) {
      for (int64_t i = 0; i < kSize; ++i) {
        const float v = static_cast<float>((row * 7 + part * 5 + i * i * 3) % 11) / 4 - 1;
        parts[part].push_back(v);
        three.push_back(v);
        if (part > 0) two.push_back(v);
      }
    }
  }
  const text::Sizes flat = {1, kLength, kHeads * kSize};
  const auto run = [&](const text::Names& names, const std::vector<text::Sizes>& sizes,
                       const std::vector<std::vector<float>>& values) {
    std::string graph;
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < names.size(); ++i) {
      graph += Input(names[i], 1, sizes[i]);
      inputs.push_back(Reals(sizes[i], values[i]));
    }
    graph += Node("MultiHeadAttention", names, {"y"}, Int("num_heads", kHeads), kMicrosoft);
    return Evaluated(Import(17, graph + Output("y")), inputs);
  };
  const auto wanted = run({"q", "k", "v"}, {flat, flat, flat}, {parts[0], parts[1], parts[2]});
  ASSERT_EQ(wanted.size(), 1u);
  const auto all = run({"q"}, {{1, kLength, kHeads, 3, kSize}}, {three});
  ASSERT_EQ(all.size(), 1u);
  ExpectNear(all[0], wanted[0]);
  const auto keys = run({"q", "k"}, {flat, {1, kLength, kHeads, 2, kSize}}, {parts[0], two});
  ASSERT_EQ(keys.size(), 1u);
  ExpectNear(keys[0], wanted[0]);
}

// The bias of queries, keys and values lies in one vector, whose parts follow from the inputs.
TEST(Microsoft, MultiHeadAttentionHasABiasForFreeSizes) {
  const auto run = [](int64_t size, int64_t value_size) {
    const auto graph = Import(17, Input("q", 1, {1, 2, size}) + Input("k", 1, {1, 2, size}) +
                                      Input("v", 1, {1, 2, value_size}) +
                                      Constant("b", 1, {10}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}) +
                                      Node("MultiHeadAttention", {"q", "k", "v", "b"}, {"y"},
                                           Int("num_heads", 2), kMicrosoft) +
                                      Output("y"));
    EXPECT_TRUE(graph) << (graph ? "" : graph.error().message());
    const Tensor x = Reals({1, 2, 4}, {1, -1, 0.5f, 0.25f, 0, 1, 2, -3});
    return graph ? Evaluated(graph, {x, x, Reals({1, 2, 2}, {1, -2, 5, 0})})
                 : std::vector<std::vector<float>>();
  };
  const auto wanted = run(4, 2);
  ASSERT_EQ(wanted.size(), 1u);
  ASSERT_EQ(wanted[0].size(), 4u);
  for (const auto& [size, value_size] : {std::pair(-1, 2), {4, -1}, {-1, -1}}) {
    const auto got = run(size, value_size);
    ASSERT_EQ(got.size(), 1u);
    ExpectNear(got[0], wanted[0]);
  }
}

// Sums of the mask: of each row, 0 where there is no mask.
TEST(Microsoft, EmbeddingsSumTheirMask) {
  const auto sums = [](const char* mask) {
    std::string graph = Input("i", 6, {2, 2});
    if (*mask != 0) graph += Constant("m", 6, {2, 2}, {1, 0, 1, 1});
    const auto imported =
        Import(17, graph + Constant("w", 1, {3, 4}, std::vector<double>(12, 1)) +
                       Constant("g", 1, {4}, {1, 1, 1, 1}) +
                       Node("EmbedLayerNormalization", {"i", "", "w", "w", "", "g", "g", mask},
                            {"y", "s"}, "", kMicrosoft) +
                       Output("s"));
    EXPECT_TRUE(imported) << (imported ? "" : imported.error().message());
    const std::vector<int32_t> ids = {0, 1, 2, 0};
    const auto y =
        EvaluateGraph(*imported, std::vector{Tensor::FromValues<int32_t>(Shape{2, 2}, ids)});
    EXPECT_TRUE(y) << (y ? "" : y.error().message());
    const auto values = y->at(0).values<int32_t>();
    return std::vector<int32_t>(values.begin(), values.end());
  };
  EXPECT_EQ(sums("m"), (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(sums(""), (std::vector<int32_t>{0, 0}));
}

TEST(Microsoft, MultiHeadAttentionRefuses) {
  const auto error = [](const text::Names& inputs, const text::Names& outputs) {
    std::string graph = Input("x", 1, {1, 6, 4}) + Node("MultiHeadAttention", inputs, outputs,
                                                        Int("num_heads", 2), kMicrosoft);
    for (const std::string& out : outputs) graph += out.empty() ? "" : Output(out);
    return text::ErrorOf(Import(17, graph));
  };
  for (const text::Names& inputs : {text::Names{"x"}, {"x", "x"}, {"x", "", "x"}, {"", "x", "x"}})
    EXPECT_NE(error(inputs, {"y"}).find("expected queries, keys and values"), std::string::npos);
  EXPECT_NE(error({"x", "x", "x"}, {"y", "", "", "q"}).find("output 3 (the scores) is read"),
            std::string::npos);
  EXPECT_EQ(error({"x", "x", "x"}, {"y"}), "imported");
}

// The last axis where it says nothing since 13, the first behind the batch before.
TEST(QLinear, SoftmaxAxes) {
  const auto axis = [](const text::Sizes& x, const std::string& attrs) {
    const auto graph =
        Import(17, Input("x", 2, x) + Constant("s", 1, {}, {0.5}) + Constant("z", 2, {}, {3}) +
                       Node("QLinearSoftmax", {"x", "s", "z", "s", "z"}, {"y"}, attrs, kMicrosoft) +
                       Output("y"));
    if (!graph) return graph.error().message();
    for (NodeId id : graph->order()) {
      const evoq::Node& node = graph->node(id);
      if (node.op == "Softmax")
        return fmt::format("{}{}", node.attrs.Int("axis", -9), node.attrs.Has("opset"));
    }
    return std::string("no Softmax");
  };
  EXPECT_EQ(axis({2, 3, 4}, ""), "-1false");
  EXPECT_EQ(axis({2, 3, 4}, Int("opset", 13) + Int("axis", 1)), "1false");
  EXPECT_EQ(axis({2, 4}, Int("opset", 12)), "1false");
  EXPECT_NE(axis({2, 3, 4}, Int("opset", 12)).find("axis 1 of [2, 3, 4] in operator set 12"),
            std::string::npos);
}

}  // namespace
}  // namespace evoq
