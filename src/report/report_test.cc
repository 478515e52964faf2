#include <gtest/gtest.h>

#include "graph/graph.h"
#include "report/html.h"
#include "report/ledger.h"
#include "report/table.h"

namespace evoq {
namespace {

TEST(TextTable, AlignsColumns) {
  TextTable table({"name", ">count"});
  table.Row({"a", "1"});
  table.Row({"longer", "100"});
  EXPECT_EQ(table.ToString(), "name    count\na           1\nlonger    100\n");
}

TEST(ByteLedger, AddsUp) {
  const EtmSection sections[] = {{"header", "header and directory", 0, 32}, {"w", "int8 weights", 32, 100}, {"v", "int8 weights", 132, 50}};
  const ByteLedger ledger = BuildByteLedger(sections, 182, 600, {});
  EXPECT_EQ(ledger.unexplained_bytes, 0);
  EXPECT_EQ(ledger.ideal_file, 150);
  ASSERT_EQ(ledger.causes.size(), 2u);
  EXPECT_EQ(ledger.causes[0].code, "quantized-weights");
  EXPECT_EQ(ledger.causes[0].bytes, 150);
  EXPECT_EQ(BuildByteLedger(sections, 190, 600, {}).unexplained_bytes, 8) << "a gap shows";
}

TEST(LiveBytes, AViewKeepsItsInputAlive) {
  auto graph = ParseGraph(R"(graph g
input %x: float32[4, 8]
first: %a: float32[4, 8] = Relu(%x)
view: %v: float32[32] = Flatten(%a)
second: %b: float32[4, 8] = Neg(%x)
third: %c: float32[32] = Abs(%v)
last: %d: float32[4, 8] = Relu(%b)
output %c
output %d
)");
  ASSERT_TRUE(graph) << graph.error().message();
  Program program;
  for (const char* name : {"first", "second", "third", "last"}) {
    Step step;
    step.node = graph->FindNode(name);
    program.steps.push_back(step);
  }
  program.placements.resize(graph->value_count());
  const auto place = [&](const char* name, int64_t offset) {
    program.placements[graph->FindValue(name).index] = {Placement::Kind::kArena, offset};
  };
  place("a", 0);
  place("v", 0);
  place("b", 128);
  program.graph = std::make_shared<const Graph>(std::move(*graph));
  EXPECT_EQ(LiveBytes(program), (std::vector<int64_t>{128, 256, 256, 128}));
}

// The arena's bytes by hand: a step that works in place holds its bytes once, a part of a value
// counts with the whole, and a value lives until its last reader has run, in whatever order readers
// are listed.
TEST(LiveBytes, PiecesOfTheArena) {
  auto graph = ParseGraph(R"(graph g
input %x: float32[64]
one: %a: float32[64] = Relu(%x)
part: %v: float32[16] = Flatten(%a)
two: %b: float32[8] = Neg(%x)
three: %c: float32[25] = Neg(%x)
all: %d: float32[64] = Sum(%a, %b, %c)
late: %e: float32[64] = Abs(%d)
soon: %f: float32[64] = Exp(%d)
view: %g: float32[16] = Tanh(%v)
output %e
output %f
output %g
)");
  ASSERT_TRUE(graph) << graph.error().message();
  Program program;
  for (const char* name : {"one", "two", "three", "all", "soon", "late",
                           "view"}) {  // "late" is d's first reader, and runs last
    Step step;
    step.node = graph->FindNode(name);
    program.steps.push_back(step);
  }
  program.placements.resize(graph->value_count());
  const auto place = [&](const char* name, int64_t offset) {
    program.placements[graph->FindValue(name).index] = {Placement::Kind::kArena, offset};
  };
  place("a", 0);    // 256 bytes, until "view" has read its part
  place("v", 192);  // 64 of them
  place("b", 64);   // 32 bytes within
  place("c", 200);  // 100 bytes, of which 44 are beyond
  place("d", 512);  // 256 bytes, until "late"
  program.graph = std::make_shared<const Graph>(std::move(*graph));
  EXPECT_EQ(LiveBytes(program),
            (std::vector<int64_t>{256, 256, 300, 300 + 256, 256 + 256, 256 + 256, 256}));
}

}  // namespace
}  // namespace evoq
