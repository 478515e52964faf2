// evoq::ExpertMatMul and evoq::ChooseExpert: the types that come out, what is refused, the values.
#include "ops/experts.h"

#include "reference/test_call.h"

namespace evoq {
namespace {

const std::string kProduct = "evoq::ExpertMatMul", kChoose = "evoq::ChooseExpert";

TEST(Experts, InferTheirRows) {
  CheckInferred({
      {{kProduct + "{experts=2}",
        {"float32[B, 5, 1, 4]", "int64[B, 5, 3]", "float32[4, 6]", "float32[4, 6]"}},
       "float32[B, 5, 3, 6]"},
      {{kProduct + "{experts=1}",
        {"float32[5, 3, 4]", "int32[5, 3]", "float32[4, 6]", "float32[6]"}},
       "float32[5, 3, 6]"},
      {{kProduct + "{experts=1}", {"float32[...]", "int64[5]", "float32[4, 6]"}}, "float32[...]"},
      {{kProduct + "{experts=2}", {"float32[1, 4]", "int64[3]", "float32[4, 6]"}},
       "attribute experts is 2 for 1 inputs behind the indices, expected one or two for each "
       "expert"},
      {{kProduct, {"float32[1, 4]", "int64[3]", "float32[4, 6]"}},
       "attribute experts is 0 for 1 inputs behind the indices, expected one or two for each "
       "expert"},
      {{kProduct + "{experts=1}", {"float32[2, 4]", "int64[3]", "float32[4, 6]"}},
       "data [2, 4] for indices [3], expected [.., 1 or J, N] for [.., J]"},
      {{kProduct + "{experts=1}", {"float32[7, 1, 4]", "int64[5, 3]", "float32[4, 6]"}},
       "data [7, 1, 4] for indices [5, 3], expected [.., 1 or J, N] for [.., J]"},
      {{kProduct + "{experts=1}", {"float32[4]", "int64[3]", "float32[4, 6]"}},
       "data [4] for indices [3], expected [.., 1 or J, N] for [.., J]"},
      {{kProduct + "{experts=1}", {"float32[1, 5]", "int64[3]", "float32[4, 6]"}},
       "[1, 5] by [4, 6]: 5 columns, expected 4"},
      {{kProduct + "{experts=2}", {"float32[1, 4]", "int64[3]", "float32[4, 6]", "float32[4, 5]"}},
       "input 3 is float32[4, 5] beside [4, 6] of the first expert"},
      {{kProduct + "{experts=1}", {"float32[1, 4]", "int64[3]", "float32[4, 6]", "float32[5]"}},
       "input 3 is float32[5] beside [4, 6] of the first expert"},
      {{kProduct + "{experts=1}", {"float32[1, 4]", "int64[3]", "int8[4, 6]"}},
       "input 2 is int8[4, 6], expected float32 as input 0"},
      {{kProduct + "{experts=1}", {"float32[1, 4]", "float32[3]", "float32[4, 6]"}},
       "input 1 is float32[3], expected int32 or int64"},
      {{kProduct + "{experts=1, data_block=-1}", {"float32[1, 4]", "int64[3]", "float32[4, 6]"}},
       "attribute data_block is -1, expected 0 or more"},
      {{kChoose, {"int64[5, 3]", "float32[5, 1, 4]", "float32[5, 1, 4]"}}, "float32[5, 3, 4]"},
      {{kChoose, {"int64[5, 3]", "float32[5, 1, 4]", "float32[5, 1, 5]"}},
       "input 2 is float32[5, 1, 5], expected the shape of input 1, [5, 1, 4]"},
      {{kChoose, {"int64[5, 3]", "float32[5, 1, 4]", "int64[5, 1, 4]"}},
       "input 2 is int64[5, 1, 4], expected float32 as input 1"},
  });
}

TEST(Experts, ComputeWhatRowsChoose) {
  CheckEvaluated({
      // Two tokens, two experts each, of the same data.
      {{kProduct + "{experts=2}",
        {"float32[2, 1, 2] = [1, 2, 3, 4]", "int64[2, 2] = [1, 0, 1, 1]", "float32[2, 1] = [1, 10]",
         "float32[2, 1] = [100, 1000]"}},
       "float32[2, 2, 1] = [2100.0, 21.0, 4300.0, 4300.0]"},
      // Each of its own data, with biases.
      {{kProduct + "{experts=2}",
        {"float32[1, 2, 2] = [1, 2, 3, 4]", "int32[1, 2] = [1, 0]", "float32[2, 1] = [1, 10]",
         "float32[2, 1] = [100, 1000]", "float32[1] = [0.5]", "float32[1] = [0.25]"}},
       "float32[1, 2, 1] = [2100.25, 43.5]"},
      {{kProduct + "{experts=1}", {"float32[1, 1] = [1]", "int64[1] = [1]", "float32[1, 1] = [1]"}},
       "index 0 is 1, expected one of 1 experts"},
      {{kProduct + "{experts=1}",
        {"float32[1, 1] = [1]", "int64[2] = [0, -1]", "float32[1, 1] = [1]"}},
       "index 1 is -1, expected one of 1 experts"},
      {{kChoose,
        {"int64[2, 2] = [1, 0, 0, 1]", "float32[2, 1, 1] = [1, 2]", "float32[2, 1, 1] = [3, 4]"}},
       "float32[2, 2, 1] = [3.0, 1.0, 2.0, 4.0]"},
      {{kChoose, {"int32[2] = [1, 0]", "int8[2, 2] = [1, 2, 3, 4]", "int8[2, 2] = [5, 6, 7, 8]"}},
       "int8[2, 2] = [5, 6, 3, 4]"},
      {{kChoose, {"int64[1] = [2]", "float32[1, 1] = [1]", "float32[1, 1] = [1]"}},
       "index 0 is 2, expected one of 2 experts"},
  });
}

TEST(Experts, OnlyThoseThatCanBeChosenAreRead) {
  auto graph = ParseGraph(
      "input %x: float32[1, 1, 4]\ninput %ids: int64[1, 2]\n"
      "const %a: float32[4, 6]\nconst %b: float32[4, 6]\nconst %c: float32[4, 6]\n"
      "n: %y = evoq::ExpertMatMul{experts=3}(%x, %ids, %a, %b, %c)\noutput %y\n");
  ASSERT_TRUE(graph) << graph.error().message();
  ASSERT_TRUE(InferTypes(*graph));
  const Node& node = graph->node(graph->order()[0]);
  const Cost cost = NodeCost(*graph, node);
  EXPECT_EQ(cost.macs, 2 * 6 * 4);
  EXPECT_EQ(cost.bytes, 4 * 4 + 2 * 8 + 2 * 24 * 4 + 2 * 6 * 4);
}

}  // namespace
}  // namespace evoq
