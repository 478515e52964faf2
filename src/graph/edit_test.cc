// What each change of a graph does to names, users, producers and order; what its text holds.
#include <gtest/gtest.h>

#include <cmath>

#include "graph/graph.h"
#include "graph/value_sets.h"
#include "tests/sanitized.h"

namespace evoq {
namespace {

using Values = std::vector<ValueId>;
using Nodes = std::vector<NodeId>;

const TensorType kFloat(DType::kFloat32, Shape{1});

Graph Parsed(const std::string& text) {
  auto graph = ParseGraph(text);
  EXPECT_TRUE(graph) << graph.error().message();
  return graph ? std::move(*graph) : Graph();
}

std::string Error(const std::string& text) {
  const auto graph = ParseGraph(text);
  return graph ? "" : graph.error().message();
}

// a = Relu(x), b = Add(a, w), c = Neg(a); outputs b and c.
Graph Small() {
  return Parsed(
      "graph small\n"
      "input %x: float32[1]\n"
      "const %w: float32[1] = [2.0]\n"
      "a: %a: float32[1] = Relu(%x)\n"
      "b: %b: float32[1] = Add(%a, %w)\n"
      "c: %c: float32[1] = Neg(%a, _)\n"
      "output %b\n"
      "output %c\n");
}

TEST(GraphEdit, Questions) {
  Graph g = Small();
  const ValueId x = g.FindValue("x"), a = g.FindValue("a"), b = g.FindValue("b");
  EXPECT_TRUE(g.IsInput(x) && !g.IsInput(a) && !g.IsInput(b));
  EXPECT_TRUE(g.IsOutput(b) && !g.IsOutput(a) && !g.IsOutput(x));
  EXPECT_FALSE(g.FindValue("none").valid());
  EXPECT_FALSE(g.FindNode("none").valid());
  const Node &add = g.node(g.FindNode("b")), &neg = g.node(g.FindNode("c"));
  EXPECT_EQ(g.ConstantInput(add, 0), nullptr) << "computed";
  EXPECT_EQ(g.ConstantInput(add, 1)->data<float>()[0], 2);
  EXPECT_EQ(g.ConstantInput(add, 2), nullptr) << "past the end";
  EXPECT_EQ(g.ConstantInput(neg, 1), nullptr) << "omitted";
  EXPECT_EQ(add.input(0), a);
  EXPECT_FALSE(add.input(2).valid());
  EXPECT_EQ(g.OnlyUser(x), g.FindNode("a"));
  EXPECT_FALSE(g.OnlyUser(a).valid()) << "two";
  EXPECT_FALSE(g.OnlyUser(b).valid()) << "an output";
  g.AddNode({.op = "Abs", .inputs = {b}, .outputs = {g.AddValue("d")}});
  EXPECT_FALSE(g.OnlyUser(b).valid()) << "an output that is read too";
  EXPECT_TRUE(g.alive(g.FindNode("a")));
  EXPECT_FALSE(g.alive(NodeId{}));
  EXPECT_TRUE(ValueId{0}.valid() && NodeId{0}.valid());
  EXPECT_EQ(ValueId{}.index, -1);
  EXPECT_EQ(NodeId{}.index, -1);
}

TEST(GraphEdit, ReplaceOutputMovesTheName) {
  Graph g = Small();
  const ValueId b = g.FindValue("b"), a = g.FindValue("a"), x = g.FindValue("x");
  g.ReplaceOutput(0, a);
  EXPECT_EQ(g.outputs()[0], a);
  EXPECT_EQ(g.outputs()[1], g.FindValue("c"));
  EXPECT_EQ(g.value(a).name, "b");
  EXPECT_EQ(g.value(b).name, "b_inner");
  EXPECT_EQ(g.FindValue("b"), a);
  // An input that is an output keeps its name, and gives it to nobody.
  g.MarkOutput(x);
  g.ReplaceOutput(2, b);
  EXPECT_EQ(g.value(x).name, "x");
  EXPECT_EQ(g.value(b).name, "b_inner");
  EXPECT_EQ(g.outputs()[2], b);
}

TEST(GraphEdit, ReplaceUses) {
  Graph g = Small();
  const ValueId a = g.FindValue("a"), x = g.FindValue("x"), c = g.FindValue("c");
  const NodeId na = g.FindNode("a"), nb = g.FindNode("b"), nc = g.FindNode("c");
  g.ReplaceUses(a, a);
  EXPECT_EQ(g.value(a).users, (Nodes{nb, nc}));
  EXPECT_EQ(g.value(a).name, "a");
  g.ReplaceUsesIn(nb, a, x);
  EXPECT_EQ(g.node(nb).inputs[0], x);
  EXPECT_EQ(g.node(nc).inputs[0], a);
  EXPECT_EQ(g.value(a).users, Nodes{nc});
  EXPECT_EQ(g.value(x).users, (Nodes{na, nb}));
  // No output: names stay.
  g.ReplaceUses(a, x);
  EXPECT_EQ(g.value(a).name, "a");
  EXPECT_TRUE(g.value(a).users.empty());
  EXPECT_EQ(g.value(x).users, (Nodes{na, nb, nc}));
  // An output: what is no input takes its name.
  g.ReplaceUses(c, a);
  EXPECT_EQ(g.outputs()[1], a);
  EXPECT_EQ(g.value(a).name, "c");
  EXPECT_EQ(g.value(c).name, "c_replaced");
  g.ReplaceUses(a, x);
  EXPECT_EQ(g.outputs()[1], x);
  EXPECT_EQ(g.value(x).name, "x");
  EXPECT_EQ(g.value(a).name, "c");
}

TEST(GraphEdit, InputsAndOutputsOfNodes) {
  Graph g = Small();
  const ValueId a = g.FindValue("a"), x = g.FindValue("x"), c = g.FindValue("c");
  const NodeId na = g.FindNode("a"), nc = g.FindNode("c");
  g.SetInput(nc, 3, x);
  EXPECT_EQ(g.node(nc).inputs, (Values{a, ValueId{}, ValueId{}, x}));
  EXPECT_EQ(g.value(x).users, (Nodes{na, nc}));
  g.SetInput(nc, 3, ValueId{});
  EXPECT_EQ(g.node(nc).inputs.size(), 4u);
  EXPECT_EQ(g.value(x).users, Nodes{na});
  const ValueId d = g.AddValue("d");
  g.SetOutput(nc, 0, d);
  EXPECT_EQ(g.node(nc).outputs, Values{d});
  EXPECT_EQ(g.value(d).producer, nc);
  EXPECT_FALSE(g.value(c).producer.valid());
  const Status lost = g.Verify();
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code(), ErrorCode::kInternal);
  EXPECT_EQ(lost.error().message(), "broken graph: output c is not computed");
  g.RemoveNode(nc);
  EXPECT_FALSE(g.value(d).producer.valid());
  EXPECT_FALSE(g.FindNode("c").valid());
  EXPECT_FALSE(g.alive(nc));
  EXPECT_EQ(g.order(), (Nodes{na, g.FindNode("b")}));
  EXPECT_EQ(g.value(a).users, Nodes{g.FindNode("b")});
}

TEST(GraphEdit, NamesTypesAndOperators) {
  Graph g = Small();
  const NodeId na = g.FindNode("a"), nb = g.FindNode("b");
  const ValueId w = g.FindValue("w"), x = g.FindValue("x");
  g.SetOp(na, "Thing", "evoq");
  EXPECT_EQ(g.node(na).op + " " + g.node(na).domain, "Thing evoq");
  g.SetOp(na, "Abs");
  EXPECT_EQ(g.node(na).domain, "");
  g.RenameNode(na, "a");
  EXPECT_EQ(g.FindNode("a"), na);
  g.RenameNode(na, "b");
  EXPECT_EQ(g.node(na).name, "b_1");
  EXPECT_EQ(g.FindNode("b_1"), na);
  EXPECT_EQ(g.FindNode("b"), nb);
  EXPECT_FALSE(g.FindNode("a").valid());
  g.Rename(x, "x");
  EXPECT_EQ(g.FindValue("x"), x);
  g.Rename(x, "w");
  EXPECT_EQ(g.value(x).name, "w_1");
  g.SetConstant(w, Tensor::FromValues<int64_t>(Shape{2}, {3, 4}));
  EXPECT_EQ(g.value(w).type.ToString(), "int64[2]");
  EXPECT_EQ(g.value(w).constant.data<int64_t>()[1], 4);
  g.SetType(x, TensorType(DType::kInt8, Shape{5}));
  EXPECT_EQ(g.value(x).type.ToString(), "int8[5]");
  Attrs attrs;
  attrs.Set("axis", 2);
  const ValueId y = g.Apply("Softmax", "soft", {x, ValueId{}, w}, attrs, kFloat);
  const Node& soft = g.node(g.value(y).producer);
  EXPECT_EQ(soft.op, "Softmax");
  EXPECT_EQ(soft.name, "soft");
  EXPECT_EQ(g.value(y).name, "soft");
  EXPECT_EQ(soft.attrs.Int("axis"), 2);
  EXPECT_EQ(soft.inputs, (Values{x, ValueId{}, w}));
  EXPECT_EQ(g.value(y).type.ToString(), "float32[1]");
  g.attrs(g.value(y).producer).Set("axis", 3);
  EXPECT_EQ(soft.attrs.Int("axis"), 3);
}

TEST(GraphEdit, VerifySaysWhatIsWrong) {
  Graph late = Small();
  const ValueId between = late.Apply("Abs", "between", {late.FindValue("x")});
  late.SetInput(late.FindNode("b"), 0, between);
  EXPECT_EQ(late.Verify().error().message(),
            "broken graph: node b reads between before it is computed");
  Graph dead = Small();
  dead.SetOp(dead.FindNode("b"), "");
  EXPECT_EQ(dead.Verify().error().message(), "broken graph: node 1 is dead but listed");
  Graph constant = Small();
  constant.MarkOutput(constant.FindValue("w"));
  constant.MarkOutput(constant.FindValue("x"));
  EXPECT_TRUE(constant.Verify());
}

// Dead are those that no output needs, also those that only dead ones read; what has several
// outputs lives by one of them.
TEST(GraphEdit, DeadNodes) {
  Graph g = Parsed(
      "input %x: float32[1]\n"
      "s: %s, %t = Split(%x)\n"
      "d: %d = Relu(%x)\n"
      "e: %e = Relu(%d)\n"
      "y: %y = Relu(%t)\n"
      "output %y\n");
  EXPECT_EQ(g.RemoveDeadNodes(), 2);
  EXPECT_EQ(g.order(), (Nodes{g.FindNode("s"), g.FindNode("y")}));
  EXPECT_EQ(g.RemoveDeadNodes(), 0);
}

// The order stays where it is valid: b stands before a, which does not need it.
TEST(GraphEdit, SortKeepsAValidOrder) {
  Graph g;
  const ValueId x = g.AddInput("x", kFloat);
  const ValueId b = g.Apply("Relu", "b", {x}), a = g.Apply("Neg", "a", {x});
  const ValueId c = g.Apply("Add", "c", {b, a}), d = g.Apply("Add", "d", {c, c});
  g.MarkOutput(d);
  const Nodes before = g.order();
  ASSERT_TRUE(g.Sort());
  EXPECT_EQ(g.order(), before);
  // c reads what comes last: everything else stays in its order.
  const ValueId late = g.Apply("Abs", "late", {x});
  g.SetInput(g.FindNode("c"), 1, late);
  ASSERT_TRUE(g.Sort());
  EXPECT_EQ(g.order(), (Nodes{g.FindNode("b"), g.FindNode("a"), g.FindNode("late"), g.FindNode("c"),
                              g.FindNode("d")}));
  // A cycle behind nodes that are in order: one of its own nodes is named.
  g.SetInput(g.FindNode("c"), 0, d);
  EXPECT_EQ(g.Sort().error().message(),
            "node c (Add) is part of a cycle, expected an acyclic graph");
}

TEST(GraphEdit, CompactedKeepsWhatIsUsed) {
  Graph g = Small();
  g.metadata["producer"] = "test";
  g.AddValue("nobody", kFloat);
  g.AddConstant("unused", Tensor::Scalar<float>(1));
  g.SetType(g.FindValue("w"), TensorType(DType::kFloat32, Shape(std::vector<Dim>{Dim()})));
  const ValueId free = g.AddConstant("free", Tensor::Scalar<float>(5));
  g.MarkOutput(free);
  auto body = std::make_shared<const Graph>();
  g.AddNode({.op = "If",
             .name = "if",
             .inputs = {ValueId{}, g.FindValue("a")},
             .outputs = {ValueId{}, g.AddValue("y")},
             .bodies = {nullptr}});
  g.SetBody(g.FindNode("if"), 0, body);
  const Graph to = g.Compacted();
  EXPECT_EQ(to.name, "small");
  EXPECT_EQ(to.metadata, g.metadata);
  EXPECT_EQ(to.value_count(), 7);  // x w a b c y free
  EXPECT_FALSE(to.FindValue("nobody").valid());
  EXPECT_FALSE(to.FindValue("unused").valid());
  EXPECT_EQ(to.value(to.FindValue("w")).type.ToString(), "float32[?]");
  EXPECT_EQ(to.value(to.FindValue("w")).constant.data<float>()[0], 2);
  EXPECT_EQ(to.value(to.outputs()[2]).constant.data<float>()[0], 5);
  const Node& copied = to.node(to.FindNode("if"));
  EXPECT_EQ(copied.inputs, (Values{ValueId{}, to.FindValue("a")}));
  EXPECT_EQ(copied.outputs, (Values{ValueId{}, to.FindValue("y")}));
  EXPECT_EQ(copied.bodies[0], body);
  EXPECT_TRUE(to.Verify());
}

TEST(ValueSets, JoinedSetsAreOne) {
  ValueSets sets(6);
  const auto same = [&](int a, int b) { return sets.Find(ValueId{a}) == sets.Find(ValueId{b}); };
  for (int i = 1; i < 6; ++i) EXPECT_FALSE(same(0, i)) << i;
  sets.Join(ValueId{0}, ValueId{1});
  sets.Join(ValueId{2}, ValueId{3});
  EXPECT_TRUE(same(0, 1) && same(2, 3) && !same(0, 2) && !same(4, 5));
  sets.Join(ValueId{1}, ValueId{3});
  sets.Join(ValueId{3}, ValueId{0});
  EXPECT_TRUE(same(0, 2) && same(1, 3) && !same(0, 4));
  // One that is not its set's own number takes its set along.
  const int last = sets.Find(ValueId{0}), other = last == 0 ? 1 : 0;
  sets.Join(ValueId{other}, ValueId{4});
  EXPECT_TRUE(same(0, 4) && same(1, 4) && same(3, 4));
  EXPECT_EQ(sets.Find(ValueId{5}), 5);
}

// ---- text

TEST(GraphTextValues, EveryTypeThatIsWritten) {
  const char* const lines[] = {
      "const %a: float32[4] = [1.0, -2.5, 1e+20, 3.0]",
      "const %b: int64[2] = [-5, 7]",
      "const %c: int32[2] = [-5, 7]",
      "const %d: int8[2] = [-128, 127]",
      "const %e: uint8[2] = [0, 255]",
      "const %f: bool[3] = [1, 0, 1]",
      "const %g: float32[8] = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]",
      "const %h: float32[9]",
      "const %i: int4[2, 4](4 scales on axis 1, block 2) = [0, 0, 0, 0, 0, 0, 0, 0]",
      "const %j: float32[2] = [inf, nan]"};
  std::string whole;
  for (const char* line : lines) {
    const std::string one = line;
    whole += one + "\noutput " + one.substr(6, 2) + "\n";
  }
  // int4 is printed and not read; all others come back as they were.
  const std::string four = " = [0, 0, 0, 0, 0, 0, 0, 0]\noutput %i";
  std::string read = whole;
  read.replace(read.find(four), four.size() - 10, "");
  const Graph g = Parsed(read);
  EXPECT_EQ(Print(g), whole);
  const auto value = [&](const char* name) { return g.value(g.FindValue(name)); };
  EXPECT_EQ(value("a").constant.data<float>()[1], -2.5f);
  EXPECT_EQ(value("d").constant.data<int8_t>()[0], -128);
  EXPECT_EQ(value("f").constant.data<bool>()[2], true);
  EXPECT_TRUE(std::isnan(value("j").constant.data<float>()[1]));
  const QuantParams& q = *value("i").type.quant;
  EXPECT_EQ(q, (QuantParams{{1, 1, 1, 1}, {0, 0, 0, 0}, 1, 2}));
}

TEST(GraphTextValues, AttributesOfEveryKind) {
  const std::string line =
      "n: %y: float32[1] = Op{a=1, b=1.0, c=1e+20, d=-2, e=\"x, y\", f=[1, 2], g=[1.0, 2.5], "
      "h=[\"s\", \"t\"], i=<int8[2, 2]>, j=[], k=inf}(%x)\n";
  const std::string text = "input %x: float32[1]\n" + line + "output %y\n";
  const Graph g = Parsed(text);
  EXPECT_EQ(Print(g), text);
  const Attrs& attrs = g.node(g.order()[0]).attrs;
  EXPECT_TRUE(attrs.KindIs<int64_t>("a") && attrs.KindIs<float>("b") && attrs.KindIs<float>("c"));
  EXPECT_TRUE(attrs.KindIs<std::vector<int64_t>>("j") && attrs.KindIs<float>("k"));
  EXPECT_EQ(attrs.Strings("h"), (std::vector<std::string>{"s", "t"}));
  EXPECT_EQ(attrs.TensorOr("i").elements(), 4);
  // One number with a point makes all of a list floats.
  const Graph mixed = Parsed("input %x: float32[1]\nn: %y = Op{f=[1, 2.5, 3]}(%x)\n");
  EXPECT_EQ(mixed.node(mixed.order()[0]).attrs.Floats("f"), (std::vector<float>{1, 2.5f, 3}));
}

TEST(GraphTextValues, NamesInQuotes) {
  const auto printed = [](const std::string& name) {
    Graph g;
    g.AddInput(name, kFloat);
    const std::string text = Print(g);
    EXPECT_EQ(Parsed(text).value(ValueId{0}).name, name);
    return text.substr(6, text.rfind(": float32") - 6);
  };
  EXPECT_EQ(printed("a_B.9/x:y-z"), "%a_B.9/x:y-z");
  EXPECT_EQ(printed("_"), "%\"_\"");
  EXPECT_EQ(printed("__"), "%__");
  EXPECT_EQ(printed("a:"), "%\"a:\"");
  EXPECT_EQ(printed("a b"), "%\"a b\"");
  EXPECT_EQ(printed("a\"b\\c"), "%\"a\\\"b\\\\c\"");
  EXPECT_EQ(printed("\x1f\x20\x7e\x7f"), "%\"\\x1f ~\\x7f\"");
  EXPECT_EQ(printed("\\xzz"), "%\"\\\\xzz\"");
}

// Constants stand before their first reader, once, also those that only the outputs name; packed
// ones tell their layout, strings no values.
TEST(GraphTextValues, ConstantsOnce) {
  Graph g;
  const ValueId w = g.AddConstant("w", Tensor::Scalar<int64_t>(3));
  const ValueId s = g.AddConstant("s", Tensor::FromValues<std::string>(Shape{1}, {"text"}));
  const ValueId p = g.AddConstant(
      "p", Tensor::Packed(TensorType(DType::kInt8, Shape{2}), "rows", std::vector<std::byte>(4)));
  g.MarkOutput(g.Apply("Add", "a", {w, w}));
  g.MarkOutput(g.Apply("Add", "b", {w, s}));
  g.MarkOutput(p);
  EXPECT_EQ(Print(g),
            "const %w: int64[] = [3]\na: %a = Add(%w, %w)\nconst %s: string[1]\n"
            "b: %b = Add(%w, %s)\noutput %a\noutput %b\nconst %p: int8[2] in rows\noutput %p\n");
}

TEST(GraphTextValues, LinesThatSayNothing) {
  const Graph g = Parsed("\n  # a comment\n   \ninput %x: float32[1]\n#\noutput %x");
  EXPECT_EQ(Print(g), "input %x: float32[1]\noutput %x\n");
  EXPECT_EQ(Error("\n# a comment\n\nwrong\n"),
            "graph text, line 4, column 6: expected ':', found ''");
  EXPECT_EQ(
      Error("input %x: float32[1] and more than four and twenty letters\n"),
      "graph text, line 1, column 22: expected the end of the line, found 'and more than four "
      "and t'");
  // Lines of subgraphs count.
  EXPECT_EQ(Error("input %c: bool[]\nif: %y = If(%c)\n| graph body\n| input %a: int8[1]\nwrong\n"),
            "graph text, line 5, column 6: expected ':', found ''");
  EXPECT_EQ(Parsed("input %c: bool[]\nif: %y = If(%c)\n| input %a: int8[1]")
                .node(NodeId{0})
                .bodies.size(),
            1u);
}

// Limits: 2^20 scales; 2^28 bytes of a constant and of an attribute.
TEST(GraphTextValues, Limits) {
  const auto scales = [](const char* count) {
    return Error(std::string("input %z: uint8[?](") + count + " scales on axis 0)");
  };
  EXPECT_EQ(scales("1"), "");
  EXPECT_EQ(scales("1048576"), "");
  EXPECT_NE(scales("1048577").find("expected 1 to 1048576 scales"), std::string::npos);
#ifndef EVOQ_SANITIZED  // which keep several times as much beside it
  EXPECT_EQ(Error("const %c: uint8[268435456]"), "");
  EXPECT_EQ(Error("n: %y = Op{a=<uint8[268435456]>}()"), "");
#endif
  EXPECT_NE(Error("const %c: uint8[268435457]").find("at most 256 MiB"), std::string::npos);
  EXPECT_NE(Error("n: %y = Op{a=<uint8[268435457]>}()").find("a small static type"),
            std::string::npos);
}

}  // namespace
}  // namespace evoq
