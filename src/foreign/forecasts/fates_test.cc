// What runtimes make of each operator, condition by condition.
#include <gtest/gtest.h>

#include "foreign/forecasts/rule.h"
#include "foreign/forecasts/test_net.h"
#include "quant/unfuse.h"
#include "reference/reference.h"
#include "tensor/test_attrs.h"

namespace evoq {
namespace {

// "Conv integer, Relu absorbed": nodes with a fate, in order.
std::string FatesOf(const Graph& graph, const char* runtime) {
  const Fates fates = Examine(graph, *FindRuntime(runtime)).fates;
  std::string out;
  for (NodeId id : graph.order()) {
    if (fates.at(id) == Fate::kNone) continue;
    out += (out.empty() ? "" : ", ") + graph.node(id).op + " " + FateName(fates.at(id));
  }
  return out;
}
std::string OnCpu(const Graph& graph) { return FatesOf(graph, "ort-cpu"); }

TEST(Fates, NamesAndCounts) {
  const std::pair<Fate, const char*> names[] = {
      {Fate::kNone, "none"},         {Fate::kInteger, "integer"}, {Fate::kMoved, "moved"},
      {Fate::kAbsorbed, "absorbed"}, {Fate::kFloat, "float"},     {Fate::kHost, "host"},
      {Fate::kRefused, "refused"}};
  for (const auto& [fate, name] : names) {
    EXPECT_STREQ(FateName(fate), name);
    EXPECT_EQ(OnIntegers(fate),
              fate == Fate::kInteger || fate == Fate::kMoved || fate == Fate::kAbsorbed);
  }
  Fates fates;
  fates.nodes = {Fate::kFloat, Fate::kInteger, Fate::kFloat};
  EXPECT_EQ(fates.Count(Fate::kFloat), 2);
  EXPECT_EQ(fates.Count(Fate::kHost), 0);
  EXPECT_EQ(fates.at(NodeId{1}), Fate::kInteger);
  EXPECT_EQ(fates.at(NodeId{3}), Fate::kNone) << "a node that came later";
}

// `quantize --target` and `explain --target` take each other's names.
TEST(Fates, NamesOfTargets) {
  EXPECT_STREQ(FindRuntime("ort")->name, "ort-cpu");
  EXPECT_STREQ(FindQdqTarget("ort-cpu")->name, "ort");
  for (const QdqTarget& target : AllQdqTargets()) {
    EXPECT_EQ(FindQdqTarget(target.name), &target);
    if (*target.runtime) EXPECT_EQ(FindRuntime(target.name), FindRuntime(target.runtime));
  }
  for (const char* name : {"", "evoq", "onnxruntime"}) EXPECT_EQ(FindRuntime(name), nullptr);
  for (const char* name : {"", "ort-cuda"}) EXPECT_EQ(FindQdqTarget(name), nullptr) << name;
}

TEST(OrtCpu, Convolutions) {
  // The fate of a convolution of a uint8 activation, with these weights and bias, quantized behind.
  const auto conv = [](const std::function<ValueId(Net&)>& weights,
                       const std::function<ValueId(Net&)>& bias = nullptr, bool quantized = true) {
    Net n;
    const ValueId x = n.Pair(n.x, 0.02f, 128);
    const ValueId w = weights(n);
    const ValueId y = n.Conv(x, w, bias ? bias(n) : ValueId());
    return OnCpu(n.Done({quantized ? n.Pair(y, 0.05f, 128) : y}));
  };
  const std::vector<int64_t> shape = {8, 8, 3, 3};
  const auto stored = [&](int axis, DType dtype = DType::kInt8) {
    return [=](Net& n) { return n.Stored(shape, axis, dtype); };
  };
  const auto floats = [&](Net& n) {
    return n.Floats(Shape{8, 8, 3, 3}, std::vector<float>(576, 0.5f));
  };
  EXPECT_EQ(conv(stored(0)), "Conv integer");
  EXPECT_EQ(conv(stored(-1)), "Conv integer");
  EXPECT_EQ(conv(stored(-1, DType::kUint8)), "Conv integer");
  EXPECT_EQ(conv(stored(1)), "Conv float") << "scales of another axis";
  EXPECT_EQ(conv(stored(-1, DType::kInt32)), "Conv float");
  EXPECT_EQ(conv(stored(0), nullptr, false), "Conv float") << "the result has to be quantized";
  EXPECT_EQ(conv(floats), "Conv integer") << "it quantizes constants itself";
  // Biases: floats, or int32 at s_x * s_w = 0.02 * 0.001.
  const auto vector = [](Net& n) { return n.Floats(Shape{8}, std::vector<float>(8, 0.5f)); };
  const auto bias = [](DType dtype, float scale) {
    return [=](Net& n) { return n.Stored({8}, -1, dtype, 0, scale); };
  };
  EXPECT_EQ(conv(stored(0), vector), "Conv integer");
  EXPECT_EQ(conv(floats, vector), "Conv integer");
  EXPECT_EQ(conv(stored(-1), bias(DType::kInt32, 2e-5f)), "Conv integer");
  EXPECT_EQ(conv(stored(-1), bias(DType::kInt8, 2e-5f)), "Conv float");
  EXPECT_EQ(conv(stored(-1), bias(DType::kInt32, 3e-5f)), "Conv float");
  EXPECT_EQ(conv(floats, bias(DType::kInt32, 2e-5f)), "Conv float")
      << "nobody knows the scale of its weights";
  EXPECT_EQ(conv(stored(-1),
                 [](Net& n) {
                   const TensorType type(DType::kFloat32, Shape{8});
                   return n.graph.AddInput("bias", type);
                 }),
            "Conv float");
}

TEST(OrtCpu, ConvolutionsOfOtherActivations) {
  // int8 becomes uint8 where one DequantizeLinear reads it, and stays where several do.
  const auto fates = [](bool once) {
    Net n;
    const ValueId q = n.Quantize(n.x, 0.02f, 0, DType::kInt8), a = n.Dequantize(q);
    const ValueId y = n.Pair(n.Conv(a), 0.05f, 0, DType::kInt8);
    return OnCpu(once ? n.Done({y}) : n.Done({y, n.Pair(n.Conv(n.Dequantize(q)), 0.05f, 128)}));
  };
  EXPECT_EQ(fates(true), "Conv integer");
  EXPECT_EQ(fates(false), "Conv float, Conv float");
  Net n;
  EXPECT_EQ(OnCpu(n.Done({n.Pair(n.Conv(n.x), 0.05f, 128)})), "Conv float");
}

// A clamp goes where rounding does the same: a Relu where the type begins at 0, a Clip where the
// type ends within it, too. Otherwise it keeps the operator before it from its quantizer.
TEST(OrtCpu, Clamps) {
  const auto relu = [](int zero) {
    Net n;
    return OnCpu(n.Done({n.Pair(n.Op("Relu", {n.Conv(n.Pair(n.x, 0.02f, 128))}), 0.02f, zero)}));
  };
  EXPECT_EQ(relu(0), "Conv integer, Relu absorbed");
  EXPECT_EQ(relu(1), "Conv float, Relu float");
  // 0 to 6: in steps of 6 / 255 the type ends at 6; in steps of 0.03 at 7.65, in steps of 0.02
  // at 5.1.
  const auto clip = [](float scale, int zero) {
    Net n;
    const ValueId low = n.Floats(Shape{}, {0}), high = n.Floats(Shape{}, {6});
    const ValueId y = n.Op("Clip", {n.Conv(n.Pair(n.x, 0.02f, 128)), low, high});
    return OnCpu(n.Done({n.Pair(y, scale, zero)}));
  };
  EXPECT_EQ(clip(6.0f / 255, 0), "Conv integer, Clip absorbed");
  EXPECT_EQ(clip(0.02f, 0), "Conv integer, Clip absorbed");
  EXPECT_EQ(clip(0.03f, 0), "Conv float, Clip float");
  EXPECT_EQ(clip(0.02f, 1), "Conv float, Clip float");
}

TEST(OrtCpu, MatrixProducts) {
  // 36 rows of 8 by 8 x 10; `behind` makes what is an output of the product.
  const auto product = [](const char* op, const std::function<ValueId(Net&)>& weights,
                          const std::function<ValueId(Net&, ValueId)>& behind,
                          const Attrs& attrs = {}, bool quantized = true) {
    Net n({36, 8});
    const ValueId x = quantized ? n.Pair(n.x, 0.02f, 128) : n.x;
    const ValueId w = weights(n);
    return OnCpu(n.Done({behind(n, n.Op(op, {x, w}, attrs))}));
  };
  const auto stored = [](int axis, DType dtype = DType::kInt8) {
    return [=](Net& n) { return n.Stored({8, 10}, axis, dtype); };
  };
  const auto nothing = [](Net&, ValueId y) { return y; };
  const auto pair = [](Net& n, ValueId y) { return n.Pair(y, 0.05f, 128); };
  const auto twice = [](Net& n, ValueId y) { return n.Op("Sub", {y, n.Pair(y, 0.05f, 128)}); };
  for (const char* op : {"Gemm", "MatMul"}) {
    EXPECT_EQ(product(op, stored(1), pair), std::string(op) + " integer");
    EXPECT_EQ(product(op, stored(1), nothing), std::string(op) + " integer")
        << "a float result will do";
    EXPECT_EQ(product(op, stored(1), twice), std::string(op) + " float, Sub float")
        << "not a result of both kinds";
    EXPECT_EQ(product(op, stored(-1, DType::kInt32), pair), std::string(op) + " float");
    EXPECT_EQ(product(op, stored(-1, DType::kUint8), pair), std::string(op) + " integer");
  }
  EXPECT_EQ(product("Gemm", stored(1), pair, With("beta", 0.5f)), "Gemm float");
  EXPECT_EQ(product("Gemm", stored(1), pair, With("beta", 1.0f)), "Gemm integer");
  const auto turned = [](Net& n) { return n.Stored({36, 10}, 1); };
  EXPECT_EQ(product("Gemm", turned, pair, With("transA", int64_t{1})), "Gemm float");
  // Float activations with integer weights, per column or with one scale.
  EXPECT_EQ(product("MatMul", stored(1), nothing, {}, false), "MatMul integer");
  EXPECT_EQ(product("MatMul", stored(-1), nothing, {}, false), "MatMul integer");
  EXPECT_EQ(product("MatMul", stored(0), nothing, {}, false), "MatMul float");
  EXPECT_EQ(product("MatMul", stored(1), pair, {}, false), "MatMul float");
  EXPECT_EQ(product("Gemm", stored(1), nothing, {}, false), "Gemm integer");
  for (const char* name : {"transA", "transB"}) {
    const auto turned_twice = [&](Net& n) {
      return std::string_view(name) == "transA" ? n.Stored({36, 10}, 1) : n.Stored({10, 8}, 1);
    };
    EXPECT_EQ(product("Gemm", turned_twice, nothing, With(name, int64_t{1}), false), "Gemm float");
  }
  EXPECT_EQ(product("Gemm", stored(1), nothing, With("alpha", 0.5f), false), "Gemm float");
}

// Pairs of 16 bits are none to matrix products and to what computes; what only moves values moves
// such integers, but for the operators with kernels for 8 bits only.
TEST(OrtCpu, SixteenBits) {
  constexpr DType kWide = DType::kUint16;
  const auto product = [](const char* op, DType before, DType behind) {
    Net n({36, 8});
    const ValueId y = n.Op(op, {n.Pair(n.x, 0.02f, 128, before), n.Stored({8, 10}, 1)});
    return OnCpu(n.Done({n.Pair(y, 0.05f, 128, behind)}));
  };
  for (const std::string op : {"MatMul", "Gemm"}) {
    EXPECT_EQ(product(op.c_str(), kWide, kWide), op + " integer") << "weights of 8 bits alone";
    EXPECT_EQ(product(op.c_str(), kWide, DType::kUint8), op + " float");
    EXPECT_EQ(product(op.c_str(), DType::kUint8, kWide), op + " float");
  }
  const auto between = [](const char* op, const Attrs& attrs = {}) {
    Net n;
    const ValueId y = n.Op(op, {n.Pair(n.Op("Exp", {n.x}), 0.1f, 0, kWide)}, attrs);
    return OnCpu(n.Done({n.Op("Exp", {n.Pair(y, 0.1f, 0, kWide)})}));
  };
  EXPECT_EQ(between("Transpose"), "Exp float, Transpose moved, Exp float");
  EXPECT_EQ(between("Sigmoid"), "Exp float, Sigmoid float, Exp float");
  EXPECT_EQ(between("MaxPool", With("kernel_shape", std::vector<int64_t>{2, 2})),
            "Exp float, MaxPool float, Exp float");
}

// A pair for each reader (ONNX Runtime's DedicatedQDQPair) is one pair: int8 that several read
// stays int8, and nothing computes on it and on uint8.
TEST(OrtCpu, PairsForEachReader) {
  const auto silu = [](bool dedicated, DType dtype) {
    Net n;
    const ValueId y = n.Op("Exp", {n.x});
    const ValueId a = n.Pair(y, 0.05f, 0, dtype), b = dedicated ? n.Pair(y, 0.05f, 0, dtype) : a;
    const ValueId gate = n.Pair(n.Op("Sigmoid", {a}), 0.01f, 0, dtype);
    return OnCpu(n.Done({n.Pair(n.Op("Mul", {b, gate}), 0.05f, 0, dtype)}));
  };
  for (const bool dedicated : {false, true}) {
    EXPECT_EQ(silu(dedicated, DType::kInt8), "Exp float, Sigmoid float, Mul float");
    EXPECT_EQ(silu(dedicated, DType::kUint8), "Exp float, Sigmoid integer, Mul integer");
  }
}

// Weights with a pair of their own, as ONNX Runtime's AddQDQPairToWeight writes them: the runtime
// folds the QuantizeLinear.
TEST(Fates, QuantizedConstantsAreFolded) {
  Net n;
  const ValueId w = n.Floats(Shape{8, 8, 3, 3}, std::vector<float>(576, 0.26f));
  const ValueId y = n.Conv(n.Pair(n.x, 0.02f, 128), n.Pair(w, 0.1f, 0, DType::kInt8));
  Graph graph = n.Done({n.Pair(y, 0.05f, 128)});
  FoldQuantizedConstants(graph);
  ASSERT_TRUE(graph.Verify());
  EXPECT_EQ(OnCpu(graph), "Conv integer");
  EXPECT_TRUE(Examine(graph, *FindRuntime("ort-cpu")).findings.empty());
  const auto convolution = std::find_if(graph.order().begin(), graph.order().end(),
                                        [&](NodeId id) { return graph.node(id).op == "Conv"; });
  const Tensor real = RealConstant(graph, graph.node(*convolution).input(1));
  ASSERT_TRUE(real.defined());
  EXPECT_NEAR(real.data<float>()[0], 0.3f, 1e-6) << "rounded";
}

// Only values that are there can be chosen from integers.
TEST(Fates, Resizes) {
  const auto resize = [](const char* runtime, const char* mode) {
    Net n;
    const ValueId x = n.Pair(n.Op("Exp", {n.x}), 0.1f);
    const ValueId scales = n.Floats(Shape{4}, {1, 1, 2, 2});
    const ValueId y = n.Op("Resize", {x, ValueId(), scales}, With("mode", std::string(mode)));
    return FatesOf(n.Done({n.Pair(y, 0.1f)}), runtime);
  };
  for (const char* runtime : {"ort-cpu", "openvino"}) {
    EXPECT_EQ(resize(runtime, "nearest"), "Exp float, Resize moved") << runtime;
    EXPECT_EQ(resize(runtime, "linear"), "Exp float, Resize float") << runtime;
  }
}

// Blocks along the depth, of at least 16 and a power of two.
TEST(OrtCpu, ProductsOfBlocks) {
  const auto product = [](int block, int axis) {
    Net n({4, 96});
    QuantParams params = QuantParams::PerTensor(0.01f, 0);
    params.axis = axis, params.block = block;
    const int64_t blocks = 96 / block * 96;
    params.scales.assign(static_cast<size_t>(blocks), 0.01f);
    params.zero_points.assign(static_cast<size_t>(blocks), 0);
    Tensor w = Tensor::Allocate(TensorType(DType::kInt8, Shape{96, 96}, params));
    const ValueId real = n.Dequantize(n.graph.AddConstant("w", w));
    return OnCpu(n.Done({n.Op("MatMul", {n.x, real})}));
  };
  EXPECT_EQ(product(16, 0), "MatMul integer");
  EXPECT_EQ(product(32, 0), "MatMul integer");
  EXPECT_EQ(product(8, 0), "MatMul float");
  EXPECT_EQ(product(24, 0), "MatMul float");
  EXPECT_EQ(product(16, 1), "MatMul float");
}

// A product of matrices with a vector behind it is a Gemm.
TEST(OrtCpu, BiasesBehindProducts) {
  const auto sum = [](std::vector<int64_t> x_shape, Shape bias, bool first, bool quantized = true,
                      const char* op = "Add") {
    const int64_t depth = x_shape.back();
    Net n(std::move(x_shape));
    const ValueId w = n.Stored({depth, 10}, 1);
    const ValueId y = n.Op("MatMul", {quantized ? n.Pair(n.x, 0.02f, 128) : n.x, w});
    const int64_t size = bias.elements().value_or(0);
    const ValueId b = n.Floats(bias, std::vector<float>(static_cast<size_t>(size), 0.5f));
    const ValueId added = first ? n.Op(op, {b, y}) : n.Op(op, {y, b});
    return OnCpu(n.Done({n.Pair(added, 0.05f, 128)}));
  };
  EXPECT_EQ(sum({36, 8}, Shape{10}, false), "MatMul integer, Add absorbed");
  EXPECT_EQ(sum({36, 8}, Shape{10}, true), "MatMul integer, Add absorbed");
  EXPECT_EQ(sum({36, 8}, Shape{1, 10}, false), "MatMul integer, Add float") << "no vector";
  EXPECT_EQ(sum({2, 36, 8}, Shape{10}, false), "MatMul integer, Add float") << "no matrix";
  EXPECT_EQ(sum({36, 8}, Shape{10}, false, true, "Sub"), "MatMul integer, Sub float");
}

TEST(OrtCpu, OperatorsOnEveryInput) {
  const auto add = [](bool left, bool right, bool result, DType dtype = DType::kUint8) {
    Net n;
    const ValueId a = n.Op("Exp", {n.x}), b = n.Op("Tanh", {n.x});
    const ValueId y =
        n.Op("Add", {left ? n.Pair(a, 0.1f) : a, right ? n.Pair(b, 0.01f, 128, dtype) : b});
    const std::string fates = OnCpu(n.Done({result ? n.Pair(y, 0.1f) : y}));
    return fates.substr(fates.find("Add"));
  };
  EXPECT_EQ(add(true, true, true), "Add integer");
  EXPECT_EQ(add(false, true, true), "Add float");
  EXPECT_EQ(add(true, false, true), "Add float");
  EXPECT_EQ(add(true, true, false), "Add float");
  // What chooses between two values is no number; both values and the result are.
  const auto where = [](bool left, bool right) {
    Net n;
    const ValueId c = n.graph.AddInput("c", TensorType(DType::kBool, Shape{1, 8, 6, 6}));
    const ValueId a = n.Op("Exp", {n.x}), b = n.Op("Tanh", {n.x});
    const ValueId y = n.Op("Where", {c, left ? n.Pair(a, 0.1f) : a, right ? n.Pair(b, 0.1f) : b});
    const std::string fates = OnCpu(n.Done({n.Pair(y, 0.1f)}));
    return fates.substr(fates.find("Where"));
  };
  EXPECT_EQ(where(true, true), "Where integer");
  EXPECT_EQ(where(false, true), "Where float");
  EXPECT_EQ(where(true, false), "Where float");
}

TEST(OrtCpu, OperatorsThatMoveIntegers) {
  const auto move = [](float before, float after) {
    Net n;
    const ValueId y = n.Op("MaxPool", {n.Pair(n.Op("Exp", {n.x}), before)},
                           With("kernel_shape", std::vector<int64_t>{2, 2}));
    return OnCpu(n.Done({after > 0 ? n.Pair(y, after) : y}));
  };
  EXPECT_EQ(move(0.1f, 0.1f), "Exp float, MaxPool moved");
  EXPECT_EQ(move(0.1f, 0.2f), "Exp float, MaxPool float") << "another scale";
  // Both halves of a Split in its own scale.
  const auto split = [](float first, float second) {
    Net n;
    Node node{.op = "Split", .name = "split", .inputs = {n.Pair(n.Op("Exp", {n.x}), 0.1f)}};
    for (const char* name : {"a", "b"}) node.outputs.push_back(n.graph.AddValue(name));
    node.attrs.Set("axis", int64_t{1});
    node.attrs.Set("num_outputs", int64_t{2});
    const std::vector<ValueId> parts = node.outputs;
    n.graph.AddNode(std::move(node));
    EXPECT_TRUE(InferTypes(n.graph));
    return OnCpu(n.Done({n.Pair(parts[0], first), n.Pair(parts[1], second)}));
  };
  EXPECT_EQ(split(0.1f, 0.1f), "Exp float, Split moved");
  EXPECT_EQ(split(0.1f, 0.2f), "Exp float, Split float");
  EXPECT_EQ(split(0.2f, 0.1f), "Exp float, Split float");
  // Which is the largest can be read of integers.
  const auto largest = [](bool quantized) {
    Net n;
    const ValueId y = n.Op("Exp", {n.x});
    return OnCpu(n.Done({n.Op("ArgMax", {quantized ? n.Pair(y, 0.1f) : y})}));
  };
  EXPECT_EQ(largest(true), "Exp float, ArgMax moved");
  EXPECT_EQ(largest(false), "Exp float, ArgMax float");
}

// Pairs are repeated behind Reshape, Transpose and the like, and before them; behind MaxPool from
// operator set 12 on.
TEST(OrtCpu, PairsPassOperatorsThatMove) {
  const auto pooled = [](const char* opset) {
    Net n;
    const ValueId y = n.Op("MaxPool", {n.Pair(n.Op("Exp", {n.x}), 0.1f)},
                           With("kernel_shape", std::vector<int64_t>{2, 2}));
    if (*opset) n.graph.metadata["onnx.opset"] = opset;
    return OnCpu(n.Done({n.Pair(n.Conv(y), 0.05f, 128)}));
  };
  EXPECT_EQ(pooled("12"), "Exp float, MaxPool moved, Conv integer");
  EXPECT_EQ(pooled(""), "Exp float, MaxPool moved, Conv integer");
  EXPECT_EQ(pooled("11"), "Exp float, MaxPool float, Conv float");
  const auto before = [](const char* op, bool read_twice) {
    Net n;
    const ValueId real = n.Op("Exp", {n.x}), turned = n.Op(op, {real});
    const ValueId y = n.Pair(n.Conv(n.Pair(turned, 0.1f)), 0.05f, 128);
    return OnCpu(read_twice ? n.Done({y, n.Op("Tanh", {turned})}) : n.Done({y}));
  };
  EXPECT_EQ(before("Transpose", false), "Exp float, Transpose moved, Conv integer");
  EXPECT_EQ(before("Transpose", true), "Exp float, Transpose float, Conv integer, Tanh float");
  EXPECT_EQ(before("Tanh", false), "Exp float, Tanh float, Conv integer");
}

// Integer operators as the file has them, and what lies between quantized inputs and outputs.
TEST(OrtCpu, IntegersInTheFile) {
  Net n;
  const ValueId y = n.Conv(n.Pair(n.x, 0.02f, 128));
  n.graph.attrs(n.graph.value(y).producer).Set("evoq.from", "QLinearConv");
  EXPECT_EQ(OnCpu(n.Done({y})), "Conv integer") << "whatever stands behind it";
  Net m;
  const ValueId stored = m.Quantize(m.x, 0.1f);
  const ValueId pooled =
      m.graph.Apply("MaxPool", "pool", {stored}, With("kernel_shape", std::vector<int64_t>{1, 1}),
                    m.graph.value(stored).type);
  EXPECT_EQ(OnCpu(m.Done({m.Dequantize(pooled)})), "MaxPool moved");
}

// The conversions that run: at the borders, and around what computes in float.
TEST(Fates, ConversionsThatRun) {
  struct Counts {
    size_t conversions, weights;
    bool operator==(const Counts&) const = default;
  };
  const auto counts = [](const char* runtime, bool quantized_result) {
    Net n;
    const DType dtype = std::string_view(runtime) == "tensorrt" ? DType::kInt8 : DType::kUint8;
    const int zero = dtype == DType::kInt8 ? 0 : 128;
    const ValueId y = n.Conv(n.Pair(n.x, 0.02f, zero, dtype));
    const ValueId z = n.Op("Exp", {quantized_result ? n.Pair(y, 0.05f, zero, dtype) : y});
    const Fates fates = Examine(n.Done({z}), *FindRuntime(runtime)).fates;
    return Counts{fates.conversions.size(), fates.weights.size()};
  };
  // The input's QuantizeLinear and the result's DequantizeLinear; where the operator is a float
  // one, both of the input and that of the weights.
  EXPECT_EQ(counts("ort-cpu", true), (Counts{2, 0}));
  EXPECT_EQ(counts("ort-cpu", false), (Counts{2, 1}));
  EXPECT_EQ(counts("tensorrt", true), (Counts{2, 0}));
  EXPECT_EQ(counts("tensorrt", false), (Counts{1, 0})) << "it writes floats itself";
  EXPECT_EQ(counts("openvino", true), (Counts{2, 0}));
  EXPECT_EQ(counts("ort-cuda", true), (Counts{4, 1})) << "its kernels are float ones";
}

// A scale for each channel of the activations: OpenVINO takes it into depthwise convolutions.
TEST(Openvino, ScalesOfChannels) {
  const auto fate = [](bool depthwise, int32_t second_zero) {
    Net n;
    QuantParams quant{std::vector<float>(8, 0.02f), std::vector<int32_t>(8, 3), 1, 0};
    quant.scales[2] = 0.01f;
    quant.zero_points[1] = second_zero;
    const ValueId stored =
        n.graph.Apply("QuantizeLinear", "q", {n.x}, {},
                      TensorType(DType::kUint8, n.graph.value(n.x).type.shape, std::move(quant)));
    const ValueId x = n.Dequantize(stored);
    if (!depthwise) return FatesOf(n.Done({n.Conv(x)}), "openvino");
    Attrs attrs = Attrs::Of("group", int64_t{8});
    return FatesOf(n.Done({n.Op("Conv", {x, n.Stored({8, 1, 3, 3}, 0)}, attrs)}), "openvino");
  };
  EXPECT_EQ(fate(true, 3), "Conv integer");
  EXPECT_EQ(fate(true, 4), "Conv float");
  EXPECT_EQ(fate(false, 3), "Conv float");
}

// What TensorRT and OpenVINO take for the activations and weights of a convolution.
TEST(Fates, TypesOfConvolutions) {
  struct Types {
    DType x;
    int zero;
    DType w;
    int w_zero;
    const char *tensorrt, *openvino;
  };
  const DType i = DType::kInt8, u = DType::kUint8;
  for (const Types& t :
       {Types{i, 0, i, 0, "integer", "integer"}, Types{i, 3, i, 0, "float", "integer"},
        Types{u, 0, i, 0, "float", "integer"}, Types{i, 0, i, 1, "float", "float"},
        Types{i, 0, u, 0, "float", "float"}}) {
    for (const char* runtime : {"tensorrt", "openvino"}) {
      Net n;
      const ValueId w = n.Stored({8, 8, 3, 3}, -1, t.w, t.w_zero);
      const Graph graph = n.Done({n.Conv(n.Pair(n.x, 0.02f, t.zero, t.x), w)});
      const char* fate = std::string_view(runtime) == "tensorrt" ? t.tensorrt : t.openvino;
      EXPECT_EQ(FatesOf(graph, runtime), std::string("Conv ") + fate)
          << runtime << ", zeros " << t.zero << " and " << t.w_zero;
    }
  }
}

// Of runtimes that move pairs themselves.
TEST(Fates, ByTheTable) {
  for (const char* runtime : {"tensorrt", "openvino"}) {
    const auto fates = [&](const std::function<std::vector<ValueId>(Net&, ValueId pair)>& make) {
      Net n;
      const ValueId pair = n.Pair(n.x, 0.02f, 0, DType::kInt8);
      const std::vector<ValueId> outputs = make(n, pair);
      return FatesOf(n.Done(outputs), runtime);
    };
    const auto pair = [](Net& n, ValueId v) { return n.Pair(v, 0.02f, 0, DType::kInt8); };
    using Values = std::vector<ValueId>;
    // Activations, and constants that are added, are part of the operator that they alone read.
    EXPECT_EQ(fates([](Net& n, ValueId x) { return Values{n.Op("Relu", {n.Conv(x)})}; }),
              "Conv integer, Relu absorbed");
    EXPECT_EQ(fates([](Net& n, ValueId x) {
                const ValueId y = n.Conv(x);
                return Values{n.Op("Relu", {y}), n.Op("Exp", {y})};
              }),
              "Conv integer, Relu float, Exp float");
    EXPECT_EQ(fates([](Net& n, ValueId) { return Values{n.Op("Relu", {n.Op("Exp", {n.x})})}; }),
              "Exp float, Relu float");
    for (const bool first : {false, true}) {
      EXPECT_EQ(fates([&](Net& n, ValueId x) {
                  const ValueId y = n.Conv(x), c = n.Floats(Shape{1}, {2});
                  return Values{first ? n.Op("Add", {c, y}) : n.Op("Add", {y, c})};
                }),
                "Conv integer, Add absorbed");
      // A residual: one addend from the convolution itself, the other dequantized.
      EXPECT_EQ(fates([&](Net& n, ValueId x) {
                  const ValueId y = n.Conv(x);
                  return Values{first ? n.Op("Add", {x, y}) : n.Op("Add", {y, x})};
                }),
                "Conv integer, Add absorbed");
    }
    EXPECT_EQ(fates([](Net& n, ValueId x) { return Values{n.Op("Add", {n.Conv(x), n.Conv(x)})}; }),
              "Conv integer, Conv integer, Add float")
        << "it takes in one";
    EXPECT_EQ(fates([](Net& n, ValueId x) {
                return Values{n.Op("Mul", {n.Conv(x), n.Floats(Shape{1}, {2})})};
              }),
              "Conv integer, Mul float");
    // Of operators on all their inputs the result is quantized, too.
    EXPECT_EQ(fates([&](Net& n, ValueId x) { return Values{pair(n, n.Op("Mul", {x, x}))}; }),
              "Mul integer");
    EXPECT_EQ(fates([](Net& n, ValueId x) { return Values{n.Op("Mul", {x, x})}; }), "Mul float");
    EXPECT_EQ(fates([&](Net& n, ValueId x) { return Values{pair(n, n.Op("Add", {x, x}))}; }),
              "Add integer");
    EXPECT_EQ(fates([&](Net& n, ValueId x) {
                return Values{pair(n, n.Op("Mul", {x, n.Op("Exp", {n.x})}))};
              }),
              "Exp float, Mul float");
    // Integers pass where one side has them.
    EXPECT_EQ(fates([](Net& n, ValueId x) { return Values{n.Op("Transpose", {x})}; }),
              "Transpose moved");
    EXPECT_EQ(fates([&](Net& n, ValueId) { return Values{pair(n, n.Op("Transpose", {n.x}))}; }),
              "Transpose moved");
    EXPECT_EQ(fates([](Net& n, ValueId) { return Values{n.Op("Transpose", {n.x})}; }),
              "Transpose float");
    // A Concat's parts may have several scales: none holds behind it.
    EXPECT_EQ(fates([](Net& n, ValueId x) {
                return Values{n.Conv(n.Op("Concat", {x, x}, With("axis", int64_t{1})))};
              }),
              "Concat moved, Conv float");
    EXPECT_EQ(fates([](Net& n, ValueId x) {
                return Values{n.Conv(n.Op("Transpose", {x}), n.Stored({8, 6, 3, 3}, 0))};
              }),
              "Transpose moved, Conv integer");
    EXPECT_EQ(fates([](Net& n, ValueId x) { return Values{n.Op("Erf", {x})}; }), "Erf float")
        << "no row";
  }
}

// Integers of other than 8 bits are none to OpenVINO and TensorRT.
TEST(Fates, SixteenBitsByTheTable) {
  for (const char* runtime : {"tensorrt", "openvino"}) {
    for (const char* op : {"Transpose", "AveragePool", "MaxPool"}) {
      Net n;
      const Attrs attrs = std::string_view(op) == "Transpose"
                              ? Attrs()
                              : With("kernel_shape", std::vector<int64_t>{2, 2});
      const ValueId y = n.Op(op, {n.Pair(n.x, 0.02f, 0, DType::kInt16)}, attrs);
      EXPECT_EQ(FatesOf(n.Done({n.Pair(y, 0.02f, 0, DType::kInt16)}), runtime),
                std::string(op) + " float")
          << runtime;
    }
  }
}

TEST(Openvino, WhatHasNoIntegerKernelAndWhatHas) {
  Net n;
  const ValueId x = n.Pair(n.x, 0.02f, 128);
  const ValueId y = n.Op("ConvTranspose", {x, n.Stored({8, 4, 2, 2}, 1)});
  EXPECT_EQ(FatesOf(n.Done({n.Pair(y, 0.05f, 128)}), "openvino"), "ConvTranspose float");
  // Functions of one value between pairs, and beside two equal ones.
  for (const std::string op : {"Sigmoid", "LeakyRelu", "HardSwish", "Relu"}) {
    Net m;
    const ValueId z = m.Op(op, {m.Pair(m.Op("Exp", {m.x}), 0.05f, 128)});
    const ValueId a = m.Pair(z, 0.02f), b = m.Pair(z, 0.02f);
    EXPECT_EQ(FatesOf(m.Done({m.Pair(m.Op("Mul", {a, b}), 0.02f)}), "openvino"),
              "Exp float, " + op + " integer, Mul integer");
  }
}

// x Sigmoid(x) is taken in where nothing else reads x.
TEST(Openvino, SwishBehindConvolutions) {
  const auto fates = [](const char* runtime, bool read_twice) {
    Net n;
    const ValueId x = n.Conv(n.Pair(n.x, 0.02f, 0, DType::kInt8));
    const ValueId y = n.Op("Mul", {x, n.Op("Sigmoid", {x})});
    return FatesOf(read_twice ? n.Done({y, n.Op("Exp", {x})}) : n.Done({y}), runtime);
  };
  EXPECT_EQ(fates("openvino", false), "Conv integer, Sigmoid absorbed, Mul absorbed");
  EXPECT_EQ(fates("openvino", true), "Conv integer, Sigmoid float, Mul float, Exp float");
  Net n({1, 8, 8});
  const ValueId product =
      n.Op("MatMul", {n.Pair(n.x, 0.02f, 0, DType::kInt8), n.Stored({8, 8}, 1)});
  const ValueId x = n.Op("Add", {product, n.Floats(Shape{8}, std::vector<float>(8, 0.5f))});
  EXPECT_EQ(FatesOf(n.Done({n.Op("Mul", {n.Op("Sigmoid", {x}), x})}), "openvino"),
            "MatMul integer, Add absorbed, Sigmoid absorbed, Mul absorbed")
      << "behind its bias";
  EXPECT_EQ(fates("tensorrt", false), "Conv integer, Sigmoid float, Mul float");
}

// Files that do not load: what they hold beside that says nothing.
TEST(Fates, OperatorsThatAreRefused) {
  const auto named = [](const char* runtime, const char* op, int axis) {
    Net n({36, 8});
    const ValueId y =
        n.Op("MatMul", {n.Pair(n.x, 0.02f, 0, DType::kInt8), n.Stored({8, 10}, axis)});
    n.graph.attrs(n.graph.value(y).producer).Set("evoq.from", op);
    const Graph graph = n.Done({n.Pair(y, 0.05f, 0, DType::kInt8)});
    const Examination e = Examine(graph, *FindRuntime(runtime));
    const bool found =
        !e.findings.empty() && std::string_view(e.findings[0].rule->code) == "qlinear-operators";
    return FatesOf(graph, runtime) + (found ? ", named" : "");
  };
  EXPECT_EQ(named("tensorrt", "QLinearMatMul", -1), "MatMul refused, named");
  EXPECT_EQ(named("openvino", "QLinearMatMul", -1), "MatMul integer");
  EXPECT_EQ(named("openvino", "QLinearMatMul", 1), "MatMul refused, named") << "per column";
  EXPECT_EQ(named("openvino", "QGemm", -1), "MatMul refused, named");
  EXPECT_EQ(named("openvino", "QLinearGlobalAveragePool", -1), "MatMul refused, named");
}

// TensorRT reads no operator of dynamic quantization; OpenVINO computes them in float.
TEST(Fates, DynamicQuantizationThatIsRefused) {
  const auto fates = [](const char* runtime, const char* product) {
    Net n({4, 8});
    Node quantize{.op = "DynamicQuantizeLinear", .name = "q", .inputs = {n.x}, .outputs = {}};
    for (const char* out : {"xq", "xs", "xz"}) quantize.outputs.push_back(n.graph.AddValue(out));
    const NodeId q = n.graph.AddNode(std::move(quantize));
    const ValueId w =
        n.graph.AddConstant("w", Tensor::FromValues(Shape{8, 3}, std::vector<int8_t>(24, 1)));
    const std::vector<ValueId> out = n.graph.node(q).outputs;
    return FatesOf(n.Done({n.Op(product, {out[0], w, out[2]})}), runtime);
  };
  EXPECT_EQ(fates("tensorrt", "MatMulInteger"),
            "DynamicQuantizeLinear refused, MatMulInteger refused");
  EXPECT_EQ(fates("openvino", "MatMulInteger"), "DynamicQuantizeLinear float, MatMulInteger float");
}

}  // namespace
}  // namespace evoq
