#include <gtest/gtest.h>

#include "report/html.h"
#include "report/ledger.h"
#include "report/table.h"
#include "report/test_program.h"

namespace evoq {
namespace {

TEST(TextTable, AlignsColumns) {
  TextTable table({"name", ">count"});
  table.Row({"a", "1"});
  table.Row({"longer", "100"});
  EXPECT_EQ(table.ToString(), "name    count\na           1\nlonger    100\n");
}

TEST(ByteLedger, AddsUp) {
  const EtmSection sections[] = {{"header", "header and directory", 0, 32},
                                 {"w", "int8 weights", 32, 100},
                                 {"v", "int8 weights", 132, 50}};
  const ByteLedger ledger = BuildByteLedger(sections, 182, 600, {});
  EXPECT_EQ(ledger.unexplained_bytes, 0);
  EXPECT_EQ(ledger.ideal_file, 150);
  ASSERT_EQ(ledger.causes.size(), 2u);
  EXPECT_EQ(ledger.causes[0].code, "quantized-weights");
  EXPECT_EQ(ledger.causes[0].bytes, 150);
  EXPECT_EQ(BuildByteLedger(sections, 190, 600, {}).unexplained_bytes, 8) << "a gap shows";
}

TEST(LiveBytes, AViewKeepsItsInputAlive) {
  EXPECT_EQ(LiveBytes(ProgramWithAView()), (std::vector<int64_t>{128, 256, 256, 128}));
}

// The arena's bytes by hand: a step that works in place holds its bytes once, a part of a value
// counts with the whole, and a value lives until its last reader has run, in whatever order readers
// are listed.
TEST(LiveBytes, PiecesOfTheArena) {
  const Program program = ProgramOf(
      R"(graph g
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
)",
      {"one", "two", "three", "all", "soon", "late",
       "view"},       // "late", d's first reader, is behind
      {{"a", 0},      // 256 bytes, until "view" has read its part
       {"v", 192},    // 64 of them
       {"b", 64},     // 32 bytes within
       {"c", 200},    // 100 bytes, of which 44 are beyond
       {"d", 512}});  // 256 bytes, until "late"
  EXPECT_EQ(LiveBytes(program),
            (std::vector<int64_t>{256, 256, 300, 300 + 256, 256 + 256, 256 + 256, 256}));
}

}  // namespace
}  // namespace evoq
