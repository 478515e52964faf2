// What passes ask of a graph: each answer at its limits.
#include "passes/match.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "reference/test_graph.h"
#include "reference/util.h"

namespace evoq {
namespace {

NodeId NodeNamed(const Graph& graph, std::string_view name) {
  for (NodeId id : graph.order()) {
    if (graph.node(id).name == name) return id;
  }
  return {};
}

const Dim kN = Dim::Symbolic("N"), kM = Dim::Symbolic("M"), kUnnamed;

Shape Of(std::vector<Dim> dims) { return Shape(std::move(dims)); }

TEST(Match, ShapesThatAreTheSameForCertain) {
  EXPECT_TRUE(SameDim(3, 3));
  EXPECT_FALSE(SameDim(3, 4));
  EXPECT_TRUE(SameDim(kN, kN));
  EXPECT_FALSE(SameDim(kN, kM));
  EXPECT_FALSE(SameDim(kUnnamed, kUnnamed)) << "each may be anything";
  EXPECT_FALSE(SameDim(3, kN));
  EXPECT_FALSE(SameDim(kN, 3));
  EXPECT_TRUE(SameShape(Of({2, kN}), Of({2, kN})));
  EXPECT_TRUE(SameShape(Of({}), Of({})));
  EXPECT_FALSE(SameShape(Of({2, kN}), Of({2, kM})));
  EXPECT_FALSE(SameShape(Of({2}), Of({2, 3})));
  EXPECT_FALSE(SameShape(Of({2, 3}), Of({2})));
  EXPECT_FALSE(SameShape(Shape::UnknownRank(), Shape::UnknownRank()));
  EXPECT_FALSE(SameShape(Of({}), Shape::UnknownRank()));
  EXPECT_FALSE(SameShape(Shape::UnknownRank(), Of({})));
}

TEST(Match, QuantizationThatIsTheSame) {
  const auto type = [](DType dtype, float scale, int zero) {
    return TensorType(dtype, Shape{2}, QuantParams::PerTensor(scale, zero));
  };
  const TensorType bytes = type(DType::kInt8, 0.5f, 1), plain(DType::kInt8, Shape{2});
  EXPECT_TRUE(
      SameQuant(bytes, TensorType(DType::kInt8, Shape{3}, QuantParams::PerTensor(0.5f, 1))));
  EXPECT_FALSE(SameQuant(bytes, type(DType::kUint8, 0.5f, 1)));
  EXPECT_FALSE(SameQuant(bytes, type(DType::kInt8, 0.25f, 1)));
  EXPECT_FALSE(SameQuant(bytes, type(DType::kInt8, 0.5f, 2)));
  EXPECT_FALSE(SameQuant(bytes, plain));
  EXPECT_FALSE(SameQuant(plain, bytes));
  EXPECT_FALSE(SameQuant(plain, plain));
  EXPECT_TRUE(IsByteQuantized(bytes));
  EXPECT_TRUE(IsByteQuantized(type(DType::kUint8, 0.5f, 1)));
  EXPECT_FALSE(IsByteQuantized(type(DType::kInt32, 0.5f, 0)));
  EXPECT_FALSE(IsByteQuantized(plain));
  EXPECT_FALSE(IsByteQuantized(
      TensorType(DType::kInt8, Shape{2}, QuantParams{{0.5f, 0.25f}, {0, 0}, 0, 0})));
}

TEST(Match, NumbersOfConstants) {
  const Graph graph = Parsed(
      "input %x: float32[1]\nconst %one: float32[1, 1] = [2]\nconst %same: float32[2] = [3, 3]\n"
      "const %two: float32[2] = [3, 4]\nconst %none: float32[0] = []\nconst %int: int32[1] = [5]\n"
      "const %byte: int8[1](scale 0.5, zero 0) = [5]\n"
      "a: %a = Identity(%x)\nb: %b = Identity(%one)\nc: %c = Identity(%same)\nd: %d = "
      "Identity(%two)\n"
      "e: %e = Identity(%none)\nf: %f = Identity(%int)\ng: %g = Identity(%byte)\n"
      "output %a\noutput %b\noutput %c\noutput %d\noutput %e\noutput %f\noutput %g\n");
  const auto value = [&](const char* node) { return graph.node(NodeNamed(graph, node)).input(0); };
  EXPECT_EQ(ScalarOf(graph, value("b")), 2.0f);
  EXPECT_EQ(UniformOf(graph, value("b")), 2.0f);
  EXPECT_EQ(UniformOf(graph, value("c")), 3.0f);
  for (const char* node : {"a", "c", "d", "e", "f", "g"})
    EXPECT_FALSE(ScalarOf(graph, value(node))) << node;
  for (const char* node : {"a", "d", "e", "f", "g"})
    EXPECT_FALSE(UniformOf(graph, value(node))) << node;
  EXPECT_EQ(IntsOf(graph, value("f")), std::vector<int64_t>{5});
  for (const char* node : {"a", "b", "g"}) EXPECT_FALSE(IntsOf(graph, value(node))) << node;
  EXPECT_FALSE(ScalarOf(graph, {}));
  EXPECT_FALSE(UniformOf(graph, {}));
  EXPECT_FALSE(IntsOf(graph, {}));
}

TEST(Match, IntegersOfAtMost4096Elements) {
  Graph graph;
  for (int64_t count : {0, 1, 4095, 4096, 4097}) {
    const auto ints = IntsOf(graph, AddInts(graph, "c", std::vector<int64_t>(count, 7)));
    EXPECT_EQ(ints.has_value(), count <= 4096) << count;
    if (ints) EXPECT_EQ(*ints, std::vector<int64_t>(count, 7));
  }
}

// A packed tensor's bytes are no rows of numbers.
TEST(Match, PackedConstantsAreNotRead) {
  Graph graph;
  const auto packed = [&](DType dtype) {
    return graph.AddConstant(
        "p", Tensor::Packed(TensorType(dtype, Shape{1}), "packed", std::vector<std::byte>(64)));
  };
  EXPECT_EQ(FloatConstant(graph, packed(DType::kFloat32)), nullptr);
  EXPECT_FALSE(IntsOf(graph, packed(DType::kInt64)));
  EXPECT_FALSE(CanPermute(graph.value(packed(DType::kFloat32)).constant));
  EXPECT_FALSE(CanPermute(Tensor::Allocate(TensorType(DType::kString, Shape{2}))));
  EXPECT_TRUE(CanPermute(Tensor::Allocate(TensorType(DType::kInt4, Shape{2}))));
  EXPECT_TRUE(CanPermute(Tensor::Allocate(TensorType(DType::kInt8, Shape{2}))));
}

TEST(Match, OperatorsAreNamedWithTheirDomain) {
  Graph graph = Parsed(
      "input %x: float32[1, 2]\nconst %w: float32[2, 2] = [1, 2, 3, 4]\n"
      "s: %s = evoq::Silu(%x)\nm: %m = MatMul(%s, %w)\noutput %m\n");
  const NodeId silu = NodeNamed(graph, "s"), matmul = NodeNamed(graph, "m");
  EXPECT_TRUE(IsOp(graph, silu, "Silu", "evoq"));
  EXPECT_FALSE(IsOp(graph, silu, "Silu"));
  EXPECT_FALSE(IsOp(graph, silu, "MatMul", "evoq"));
  EXPECT_FALSE(IsOp(graph, matmul, "MatMul", "evoq"));
  EXPECT_EQ(ProducedBy(graph, graph.node(matmul).input(0), "Silu", "evoq"), silu);
  EXPECT_FALSE(ProducedBy(graph, graph.node(matmul).input(0), "Silu").valid());
  EXPECT_FALSE(ProducedBy(graph, graph.node(matmul).input(1), "Silu", "evoq").valid());
  EXPECT_FALSE(ProducedBy(graph, {}, "Silu").valid());
  EXPECT_EQ(OnlyReader(graph, silu), matmul);
  EXPECT_FALSE(OnlyReader(graph, matmul).valid()) << "the model's output";
  Node other = graph.node(matmul);
  EXPECT_TRUE(IsLinear(other));
  other.domain = "com.example";
  EXPECT_FALSE(IsLinear(other));
  Node unread = graph.node(matmul);
  unread.outputs = {ValueId{}};
  const NodeId no_output = graph.AddNode(unread);
  EXPECT_FALSE(OnlyReader(graph, no_output).valid());
}

TEST(Match, ActivationsThatLinearOperatorsFuse) {
  Graph graph;
  const auto scalar = [&](float value) {
    return graph.AddConstant("c", Tensor::FromValues<float>(Shape{}, {value}));
  };
  const ValueId x = graph.AddValue("x", TensorType(DType::kFloat32, Shape{2}));
  const auto of = [&](std::string op, std::string domain, std::vector<ValueId> bounds) {
    Node node;
    node.op = std::move(op);
    node.domain = std::move(domain);
    node.inputs = {x};
    node.inputs.insert(node.inputs.end(), bounds.begin(), bounds.end());
    return ActivationOf(graph, node);
  };
  const auto kind = [&](std::string op, std::string domain = "") {
    const auto activation = of(std::move(op), std::move(domain), {});
    return activation ? activation->kind : ActivationKind::kNone;
  };
  EXPECT_EQ(kind("Relu"), ActivationKind::kRelu);
  EXPECT_EQ(kind("Tanh"), ActivationKind::kTanh);
  EXPECT_EQ(kind("Gelu"), ActivationKind::kGelu);
  EXPECT_EQ(kind("Silu", "evoq"), ActivationKind::kSilu);
  EXPECT_EQ(kind("Silu"), ActivationKind::kNone) << "ONNX has none of this name";
  EXPECT_EQ(kind("Relu", "evoq"), ActivationKind::kNone);
  EXPECT_EQ(kind("Relu", "com.example"), ActivationKind::kNone);
  EXPECT_EQ(kind("Softmax"), ActivationKind::kNone);
  EXPECT_FALSE(of("", "", {}));
  EXPECT_FALSE(of("Silu", "", {}));
  EXPECT_EQ(of("LeakyRelu", "", {})->alpha, 0.01f);  // ONNX's default
  Node gelu;
  gelu.op = "Gelu";
  gelu.inputs = {x};
  gelu.attrs.Set("approximate", std::string("tanh"));
  EXPECT_FALSE(ActivationOf(graph, gelu));
  gelu.attrs.Set("approximate", std::string("none"));
  EXPECT_TRUE(ActivationOf(graph, gelu));
  gelu.op = "Relu";
  gelu.attrs.Set("approximate", std::string("tanh"));
  EXPECT_TRUE(ActivationOf(graph, gelu)) << "an attribute of Gelu's only";

  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kLargest = std::numeric_limits<float>::max();
  const auto clip = of("Clip", "", {scalar(-1), scalar(6)});
  ASSERT_TRUE(clip);
  EXPECT_EQ(clip->kind, ActivationKind::kClip);
  EXPECT_EQ(clip->alpha, -1);
  EXPECT_EQ(clip->beta, 6);
  const auto open = of("Clip", "", {});
  ASSERT_TRUE(open);
  EXPECT_EQ(open->alpha, -kInfinity);
  EXPECT_EQ(open->beta, kInfinity);
  EXPECT_EQ(of("Clip", "", {scalar(0)})->kind, ActivationKind::kRelu);
  EXPECT_EQ(of("Clip", "", {scalar(0), scalar(kLargest)})->kind, ActivationKind::kRelu);
  EXPECT_EQ(of("Clip", "", {scalar(0), scalar(std::nextafter(kLargest, 0.0f))})->kind,
            ActivationKind::kClip);
  EXPECT_EQ(of("Clip", "", {ValueId{}, scalar(6)})->alpha, -kInfinity);
  EXPECT_FALSE(of("Clip", "", {scalar(NAN)}));
  EXPECT_FALSE(of("Clip", "", {scalar(0), scalar(NAN)}));
  EXPECT_FALSE(of("Clip", "", {x})) << "a computed bound";
  EXPECT_FALSE(of("Clip", "", {scalar(0), x}));
}

TEST(Match, TargetsOfReshapes) {
  using Target = std::optional<std::vector<int64_t>>;
  const Shape n3 = Of({kN, 3});
  EXPECT_EQ(ReshapeTarget(n3, Of({3, 4})), Target({3, 4}));
  EXPECT_EQ(ReshapeTarget(n3, Of({kN, 3})), Target({0, 3}));
  EXPECT_EQ(ReshapeTarget(n3, Of({kM, 3})), Target({-1, 3}));
  EXPECT_EQ(ReshapeTarget(n3, Of({3, kN})), Target({3, -1}));
  EXPECT_EQ(ReshapeTarget(n3, Of({kN, kM})), Target({0, -1}));
  EXPECT_EQ(ReshapeTarget(n3, Of({1, 3, kN})), Target({1, 3, -1})) << "beyond the input's axes";
  EXPECT_EQ(ReshapeTarget(Of({}), Of({kN})), Target({-1}));
  EXPECT_EQ(ReshapeTarget(n3, Of({})), Target(std::vector<int64_t>{}));
  EXPECT_EQ(ReshapeTarget(Shape::UnknownRank(), Of({kN, 3})), Target({-1, 3}));
  EXPECT_FALSE(ReshapeTarget(n3, Of({kM, kUnnamed}))) << "two are open";
  EXPECT_FALSE(ReshapeTarget(n3, Of({0, 3}))) << "0 would copy";
  EXPECT_FALSE(ReshapeTarget(n3, Shape::UnknownRank()));
}

TEST(Match, Products) {
  const Graph graph = Parsed(
      "input %x: float32[2]\ninput %y: float32[2]\ninput %q: int8[2](scale 0.5, zero 0)\n"
      "const %two: float32[] = [2]\nconst %eight: float32[] = [8]\nconst %zero: float32[] = [0]\n"
      "a: %a = Mul(%x, %two)\nb: %b = Mul(%eight, %y)\nc: %c = Mul(%a, %b)\nd: %d = Div(%c, "
      "%eight)\n"
      "e: %e = Div(%x, %zero)\nf: %f = Div(%two, %x)\ns: %s = Mul(%x, %y)\nt: %t = Mul(%s, %two)\n"
      "u: %u = Add(%s, %x)\nv: %v = Mul(%d, %two)\n"
      "g: %g = Mul(%two, %s)\nh: %h = Div(%s, %eight)\ni: %i = Mul(%h, %two)\nj: %j = Add(%h, %x)\n"
      "output %g\noutput %i\noutput %j\n"
      "output %v\noutput %e\noutput %f\noutput %t\noutput %u\n");
  const auto of = [&](const char* node) {
    return ProductOf(graph, graph.node(NodeNamed(graph, node)).outputs[0]);
  };
  const auto value = [&](const char* name) { return graph.FindValue(name); };
  const std::vector<ValueId> both{value("x"), value("y")};
  EXPECT_EQ(of("v").constant, 4);  // 2 * 8 / 8 * 2
  EXPECT_EQ(of("v").factors, both);
  EXPECT_EQ(of("e").constant, 1) << "a division by 0 is no product";
  EXPECT_EQ(of("e").factors, std::vector<ValueId>{value("e")});
  EXPECT_EQ(of("f").factors, std::vector<ValueId>{value("f")});
  EXPECT_EQ(of("s").factors, both) << "the value itself may have other readers";
  EXPECT_EQ(of("t").factors, std::vector<ValueId>{value("s")})
      << "a part that others read is not taken apart";
  EXPECT_EQ(of("g").factors, std::vector<ValueId>{value("s")}) << "on either side";
  EXPECT_EQ(of("h").factors, std::vector<ValueId>{value("s")}) << "nor one that is divided";
  EXPECT_EQ(of("h").constant, 0.125);
  EXPECT_EQ(of("i").factors, std::vector<ValueId>{value("h")}) << "nor a division";
  EXPECT_EQ(of("t").constant, 2);
}

TEST(Match, NearIsARelativeTenThousandth) {
  EXPECT_TRUE(Near(1.00009, 1));
  EXPECT_FALSE(Near(1.00011, 1));
  EXPECT_TRUE(Near(0.99991, 1));
  EXPECT_FALSE(Near(0.99989, 1));
  EXPECT_TRUE(Near(-200.019, -200));
  EXPECT_FALSE(Near(-200.021, -200));
  EXPECT_TRUE(Near(0, 0));
  EXPECT_FALSE(Near(1e-9, 0));
}

TEST(Match, OutputsKeepTheirNames) {
  const std::string start =
      "input %x: float32[2]\nconst %c: float32[2] = [1, 2]\na: %a = Relu(%x)\n";
  const struct {
    const char* rest;
    const char* value;
    bool replaced;
  } kRows[] = {
      {"b: %b = Neg(%a)\noutput %b\n", "a", true},
      {"b: %b = Neg(%a)\noutput %b\n", "x", false},
      {"b: %b = Neg(%a)\nd: %d = Add(%b, %c)\noutput %b\noutput %d\n", "c", false},
      {"b: %b = Neg(%a)\noutput %b\noutput %a\n", "a", false},
      {"b: %b = Neg(%a)\nd: %d = Relu(%b)\noutput %d\noutput %a\n", "a", true},
      {"b: %b = Neg(%a)\nd: %d = Relu(%b)\noutput %d\n", "x", true},
  };
  for (const auto& row : kRows) {
    Graph graph = Parsed(start + row.rest);
    EXPECT_EQ(ReplaceOutput(graph, NodeNamed(graph, "b"), graph.FindValue(row.value)), row.replaced)
        << row.rest << row.value;
  }
}

TEST(Match, Permutations) {
  // Of a cycle of three and its inverse, neither order gives the other's result.
  const Permutation cycle{1, 2, 0}, swap{1, 0, 2};
  EXPECT_EQ(Inverse(cycle), (Permutation{2, 0, 1}));
  EXPECT_EQ(Compose(cycle, swap), (Permutation{2, 1, 0}));
  EXPECT_EQ(Compose(swap, cycle), (Permutation{0, 2, 1}));
  EXPECT_TRUE(IsIdentity({}));
  EXPECT_TRUE(IsIdentity({0, 1}));
  EXPECT_FALSE(IsIdentity(swap));
  EXPECT_FALSE(IsIdentity({1}));
  EXPECT_EQ(ChannelsLast(3), (Permutation{0, 2, 1}));
  EXPECT_EQ(ChannelsLast(5), (Permutation{0, 2, 3, 4, 1}));
  EXPECT_TRUE(MovesNothing({2, 1, 3}, {1, 0, 2}));
  EXPECT_TRUE(MovesNothing({2, 1, 3}, {0, 2, 1}));
  EXPECT_FALSE(MovesNothing({2, 1, 3}, {2, 1, 0}));
  EXPECT_FALSE(MovesNothing({2, 3}, {1, 0}));
  EXPECT_TRUE(MovesNothing({2, 3}, {0, 1}));
  EXPECT_FALSE(MovesNothing(Of({kN, 3}), {1, 0})) << "what is not known may be more than 1";
  EXPECT_EQ(Permuted(Shape::UnknownRank(), cycle), Shape::UnknownRank());
}

TEST(Match, PermutationsOfTransposes) {
  using Result = std::optional<Permutation>;
  Graph graph;
  const auto of = [&](Shape shape, const Permutation& perm) {
    Node node;
    node.op = "Transpose";
    node.inputs = {graph.AddValue("x", TensorType(DType::kFloat32, std::move(shape)))};
    if (!perm.empty()) node.attrs.Set("perm", perm);
    return PermutationOf(graph, node);
  };
  EXPECT_EQ(of({2, 3, 4}, {1, 2, 0}), Result({1, 2, 0}));
  EXPECT_EQ(of({2, 3, 4}, {}), Result({2, 1, 0})) << "by default the axes are reversed";
  EXPECT_EQ(of({}, {}), Result(Permutation{}));
  EXPECT_FALSE(of(Shape::UnknownRank(), {1, 0}));
  EXPECT_FALSE(of(Shape::UnknownRank(), {}));
  EXPECT_FALSE(of({2, 3, 4}, {1, 0})) << "too few";
  EXPECT_FALSE(of({2}, {1, 0})) << "too many";
  EXPECT_FALSE(of({2, 3}, {1, 1})) << "an axis twice";
  EXPECT_FALSE(of({2, 3}, {1, 2})) << "no such axis";
}

}  // namespace
}  // namespace evoq
