#include <gtest/gtest.h>

#include "compile/compile.h"
#include "models/models.h"
#include "reference/reference.h"

namespace evoq {
namespace {

Program Planned(std::string_view text) {
  Model model = LowerAndPack(ParseGraph(text).value()).value();
  return Compile(model, kReference).value();
}

// x -> sum (in place over x's successor) -> product: the memory of a value that dies goes to the
// one that takes its place.
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
  EXPECT_EQ(program.arena_bytes(), 4096) << Print(program);
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
)")
                .arena_bytes(),
            2 * 4096);
}

// The placements of input i and of the output of the step named `name`.
std::pair<Placement, Placement> PlacesOf(const Program& program, std::string_view name, size_t i) {
  for (const Step& step : program.steps) {
    const Node& node = program.graph->node(step.node);
    if (node.name == name)
      return {program.placements[node.input(i).index], program.placements[node.outputs[0].index]};
  }
  ADD_FAILURE() << "no step " << name << " in\n" << Print(program);
  return {};
}

// A convolution may write over a residual that dies with it, element by element, but not where the
// residual is what it convolves: its windows read what earlier outputs would have overwritten.
TEST(InPlace, NotOverAResidualThatTheConvolutionReads) {
  const Program program = Planned(R"(
input %x: uint8[1, 16, 8, 8](scale 0.02, zero 3)
const %w: int8[16, 16, 3, 3](scale 0.01, zero 0)
a: %a: uint8[1, 16, 8, 8](scale 0.02, zero 3) = Conv{pads=[1, 1, 1, 1]}(%x, %w)
own: %b: uint8[1, 16, 8, 8](scale 0.02, zero 3) = Conv{pads=[1, 1, 1, 1]}(%a, %w, _, %a)
c: %c: uint8[1, 16, 8, 8](scale 0.02, zero 3) = Conv{pads=[1, 1, 1, 1]}(%b, %w)
other: %d: uint8[1, 16, 8, 8](scale 0.02, zero 3) = Conv{pads=[1, 1, 1, 1]}(%c, %w, _, %b)
e: %e: uint8[1, 16, 8, 8](scale 0.02, zero 3) = Conv{pads=[1, 1, 1, 1]}(%d, %w)
output %e
)");
  const auto [own, over_own] = PlacesOf(program, "own", 3);
  ASSERT_EQ(own.kind, Placement::Kind::kArena);
  ASSERT_EQ(over_own.kind, Placement::Kind::kArena);
  EXPECT_GE(std::abs(own.offset - over_own.offset), 16 * 8 * 8) << Print(program);
  const auto [other, over_other] = PlacesOf(program, "other", 3);
  EXPECT_EQ(other.kind, Placement::Kind::kArena);
  EXPECT_EQ(other.offset, over_other.offset)
      << "a residual that nothing else reads is overwritten\n"
      << Print(program);
}

}  // namespace
}  // namespace evoq
