#include <gtest/gtest.h>

#include "compile/compile.h"
#include "engine/engine.h"

namespace evoq {
namespace {

Program Planned(std::string_view text) {
  Model model = LowerAndPack(ParseGraph(text).value()).value();
  return Compile(model).value();
}

// x -> sum (in place over x's successor) -> product: the memory of a value that dies goes to the one that takes its place.
TEST(InPlace, ElementwiseStepsOverwriteTheirInput) {
  const Program program = Planned(R"(
input %x: float32[1, 1024]
const %c: float32[1024]
a: %a: float32[1, 1024] = Mul(%x, %c)
b: %b: float32[1, 1024] = Add(%a, %c)
c: %d: float32[1, 1024] = Sqrt(%b)
d: %e: float32[1, 1024] = Mul(%d, %c)
output %e
)");
  ASSERT_EQ(program.steps.size(), 4u);
  EXPECT_EQ(program.arena_bytes, 4096) << Print(program);
}

TEST(InPlace, NotWhenTheInputIsReadLater) {
  // %a is read by the last step too.
  EXPECT_EQ(Planned(R"(
input %x: float32[1, 1024]
const %c: float32[1024]
a: %a: float32[1, 1024] = Mul(%x, %c)
b: %b: float32[1, 1024] = Add(%a, %c)
c: %d: float32[1, 1024] = Mul(%b, %a)
d: %e: float32[1, 1024] = Add(%d, %c)
output %e
)").arena_bytes, 2 * 4096);
}

}  // namespace
}  // namespace evoq
