// Sums of symbols, and what shape arithmetic on them says of types.
#include "ops/symbolic_sizes.h"

#include <gtest/gtest.h>

#include "ops/test_graph.h"

namespace evoq {
namespace {

Dim S(const char* name) { return Dim::Symbolic(name); }

TEST(SymbolicSizes, SumsNameTheirTermsInOrder) {
  struct Row {
    Dim a, b, sum;
  };
  const Row rows[] = {{2, 3, 5},
                      {S("b"), S("a"), S("a + b")},
                      {S("a"), 0, S("a")},
                      {S("a + 2"), S("b + a"), S("a + a + b + 2")},
                      {7, S("a + 1"), S("a + 8")},
                      {S("a"), Dim(), Dim()},
                      {S("a + b + c"), S("d + e"), Dim()}};
  for (const Row& row : rows) {
    EXPECT_EQ(SumOf(row.a, row.b), row.sum) << row.a.symbol << " and " << row.b.symbol;
    EXPECT_EQ(SumOf(row.b, row.a), row.sum);
  }
  EXPECT_EQ(SumOf(INT64_MAX, 1), Dim());
}

TEST(SymbolicSizes, DifferencesTakeTermsAway) {
  EXPECT_EQ(DifferenceOf(S("a + b"), S("a")), S("b"));
  EXPECT_EQ(DifferenceOf(S("a + b + 3"), S("b + 1")), S("a + 2"));
  EXPECT_EQ(DifferenceOf(S("a"), S("a")), Dim(0));
  EXPECT_EQ(DifferenceOf(S("a"), S("b")), Dim());
  EXPECT_EQ(DifferenceOf(S("a"), 1), Dim());
  EXPECT_EQ(DifferenceOf(2, 3), Dim());
}

// Types of values of a graph, inferred.
std::string TypeOf(const char* text, const char* value) {
  auto graph = ParseGraph(text);
  if (!graph) return graph.error().message();
  const Status inferred = InferTypes(*graph, kNoEvaluator);
  if (!inferred) return inferred.error().message();
  return graph->value(graph->FindValue(value)).type.ToString();
}

constexpr char kSizes[] = R"(
input %x: float32[B, S, 8]
input %past: float32[B, P, 8]
const %zero: int64[] = [0]
const %zeros: int64[1] = [0]
const %one: int64[] = [1]
const %ones: int64[1] = [1]
const %most: int64[1] = [-1]
all: %all = Concat{axis=1}(%past, %x)
sizes: %sizes = Shape(%all)
b: %b = Gather{axis=0}(%sizes, %zeros)
t: %t = Gather{axis=0}(%sizes, %ones)
)";

TEST(SymbolicSizes, TypesFollowComputedTargets) {
  struct Row {
    const char *lines, *type;
  };
  const Row rows[] = {
      {"output %all", "float32[B, P + S, 8]"},
      // A Reshape to computed sizes; a 0 copies, and -1 is left to inference.
      {"const %f: int64[2] = [2, 4]\nto: %to = Concat{axis=0}(%b, %t, %f)\n"
       "y: %y = Reshape(%all, %to)\noutput %y",
       "float32[B, P + S, 2, 4]"},
      {"to: %to = Concat{axis=0}(%zeros, %t, %most)\ny: %y = Reshape(%all, %to)\noutput %y",
       "float32[?, P + S, ?]"},
      {"to: %to = Concat{axis=0}(%b, %t, %ones, %most)\n"
       "y: %y = Reshape{allowzero=1}(%all, %to)\noutput %y",
       "float32[B, P + S, 1, ?]"},
      // An Expand from sizes of 1, and where they are as wide already.
      {"const %e: float32[1, 1, 8]\nto: %to = Concat{axis=0}(%b, %t, %ones)\n"
       "y: %y = Expand(%e, %to)\noutput %y",
       "float32[B, P + S, 8]"},
      // With the Where by which exporters resolve -1.
      {"to: %to = Concat{axis=0}(%b, %most, %most)\nconst %n: int64[3] = [-1, -1, -1]\n"
       "const %u: int64[3] = [1, 1, 1]\neq: %eq = Equal(%to, %n)\nw: %w = Where(%eq, %u, %to)\n"
       "const %e: float32[1, 6, 8]\ny: %y = Expand(%e, %w)\noutput %y",
       "float32[B, 6, 8]"},
      // A Range over the new places, and a Slice of everything.
      {"p: %p = Shape{start=1, end=2}(%past)\nps: %ps = Squeeze(%p)\nts: %ts = Squeeze(%t)\n"
       "y: %y = Range(%ps, %ts, %one)\noutput %y",
       "int64[S]"},
      {"y: %y = Slice(%all, %zeros, %t, %ones)\noutput %y", "float32[B, P + S, 8]"},
      {"y: %y = Slice(%all, %ones, %t, %ones)\noutput %y", "float32[B, ?, 8]"},
      {"y: %y = Slice(%all, %zeros, %b, %ones)\noutput %y", "float32[B, ?, 8]"},
  };
  for (const Row& row : rows) {
    const std::string text = std::string(kSizes) + row.lines;
    const char* value = std::string_view(row.lines).ends_with("%all") ? "all" : "y";
    EXPECT_EQ(TypeOf(text.c_str(), value), row.type) << row.lines;
  }
}

}  // namespace
}  // namespace evoq
