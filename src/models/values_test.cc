// Numbers in a run's tensors that a model must not trust: indices, sizes, axes, lengths. A compiled
// model refuses them with the node's name, on any number of threads, and runs again afterwards.
#include <gtest/gtest.h>

#include "models/models.h"
#include "reference/reference.h"

namespace evoq {
namespace {

Tensor Ints(std::vector<int64_t> values) { return Tensor::FromValues(values); }
Tensor Ints(Shape shape, std::vector<int64_t> values) {
  return Tensor::FromValues<int64_t>(std::move(shape), values);
}
Tensor Counted(Shape shape) {
  Tensor t = Tensor::Allocate(TensorType(DType::kFloat32, std::move(shape)));
  for (int64_t i = 0; i < t.elements(); ++i) t.mutable_data<float>()[i] = static_cast<float>(i);
  return t;
}

struct ValueCase {
  const char* graph;
  std::vector<Tensor> good, bad;
  const char* error;
};

std::vector<ValueCase> Cases() {
  const Tensor x = Counted({3, 4}), one = Counted({1, 4});
  return {
      {"input %x: float32[3, 4]\ninput %i: int64[2]\nn: %y = Gather(%x, %i)\noutput %y\n",
       {x, Ints({0, -3})},
       {x, Ints({0, 3})},
       "index 3"},
      {"input %x: float32[3, 4]\ninput %i: int64[2]\nn: %y = Gather{axis=1}(%x, %i)\noutput %y\n",
       {x, Ints({3, -4})},
       {x, Ints({0, -5})},
       "index -5"},
      {"input %x: float32[3, 4]\ninput %i: int32[2]\nn: %y = Gather(%x, %i)\noutput %y\n",
       {x, Tensor::FromValues<int32_t>(Shape{2}, {0, 2})},
       {x, Tensor::FromValues<int32_t>(Shape{2}, {2, 2147483647})},
       "index 2147483647"},
      {"input %x: float32[3, 4]\ninput %i: int64[1, 4]\nn: %y = GatherElements(%x, %i)\noutput "
       "%y\n",
       {x, Ints({1, 4}, {0, 1, 2, -3})},
       {x, Ints({1, 4}, {0, 1, 2, -4})},
       "index -4"},
      {"input %x: float32[3, 4]\ninput %i: int64[1, 2]\nn: %y = GatherND(%x, %i)\noutput %y\n",
       {x, Ints({1, 2}, {2, 3})},
       {x, Ints({1, 2}, {2, 4})},
       "index 4"},
      {"input %x: float32[3, 4]\ninput %i: int64[1, 4]\ninput %u: float32[1, 4]\nn: %y = "
       "ScatterElements(%x, %i, %u)\noutput %y\n",
       {x, Ints({1, 4}, {0, 1, 2, 0}), one},
       {x, Ints({1, 4}, {0, 1, 2, 99}), one},
       "index 99"},
      {"input %x: float32[3, 4]\ninput %i: int64[1, 1]\ninput %u: float32[1, 4]\nn: %y = "
       "ScatterND(%x, %i, %u)\noutput %y\n",
       {x, Ints({1, 1}, {2}), one},
       {x, Ints({1, 1}, {3}), one},
       "index 3"},
      {"input %x: float32[3, 4]\ninput %k: int64[1]\nn: %y, %i = TopK(%x, %k)\noutput %y\n",
       {x, Ints({2})},
       {x, Ints({5})},
       "5"},
      {"input %x: float32[3, 4]\ninput %k: int64[1]\nn: %y, %i = TopK(%x, %k)\noutput %y\n",
       {x, Ints({0})},
       {x, Ints({-1})},
       "-1"},
      {"input %x: float32[3, 4]\ninput %s: int64[2]\nn: %y = Reshape(%x, %s)\noutput %y\n",
       {x, Ints({6, -1})},
       {x, Ints({5, -1})},
       "Reshape"},
      {"input %x: float32[3, 4]\ninput %s: int64[2]\nn: %y = Reshape(%x, %s)\noutput %y\n",
       {x, Ints({4, 3})},
       {x, Ints({4611686018427387904, 4})},
       "Reshape"},
      {"input %x: float32[1, 4]\ninput %s: int64[2]\nn: %y = Expand(%x, %s)\noutput %y\n",
       {one, Ints({3, 1})},
       {one, Ints({-2, 4})},
       "Expand"},
      {"input %x: float32[3, 4]\ninput %s: int64[2]\nn: %y = Tile(%x, %s)\noutput %y\n",
       {x, Ints({1, 2})},
       {x, Ints({1, -2})},
       "Tile"},
      {"input %x: float32[3, 4]\ninput %s: int64[2]\nn: %y = Tile(%x, %s)\noutput %y\n",
       {x, Ints({0, 2})},
       {x, Ints({4294967296, 4294967296})},
       "Tile"},
      {"input %x: float32[3, 4]\ninput %p: int64[4]\nn: %y = Pad(%x, %p)\noutput %y\n",
       {x, Ints({1, -1, 0, 2})},
       {x, Ints({-4, 0, 0, 0})},
       "Pad"},
      {"input %x: float32[3, 4]\ninput %p: int64[4]\nn: %y = Pad{mode=\"reflect\"}(%x, %p)\noutput "
       "%y\n",
       {x, Ints({1, 1, 0, 2})},
       {x, Ints({1099511627776, 0, 0, 0})},
       "Pad"},
      {"input %x: float32[3, 4]\ninput %a: int64[1]\ninput %b: int64[1]\ninput %c: int64[1]\nn: %y "
       "= Slice(%x, %a, %b, %c)\noutput %y\n",
       {x, Ints({-99}), Ints({99}), Ints({1})},
       {x, Ints({0}), Ints({1}), Ints({2})},
       "Slice"},
      {"input %x: float32[3, 4]\ninput %s: int64[2]\nn: %y, %z = Split(%x, %s)\noutput %y\noutput "
       "%z\n",
       {x, Ints({1, 2})},
       {x, Ints({1, 3})},
       "Split"},
      {"input %x: float32[3, 4]\ninput %s: int64[2]\nn: %y, %z = Split(%x, %s)\noutput %y\noutput "
       "%z\n",
       {x, Ints({0, 3})},
       {x, Ints({-1, 4})},
       "Split"},
      {"input %x: float32[3, 4]\ninput %a: int64[]\nn: %y = CumSum(%x, %a)\noutput %y\n",
       {x, Ints({}, {-2})},
       {x, Ints({}, {2})},
       "CumSum"},
      {"input %x: float32[3, 4]\ninput %a: int64[1]\nn: %y = ReduceSum(%x, %a)\noutput %y\n",
       {x, Ints({-1})},
       {x, Ints({-3})},
       "ReduceSum"},
      {"input %x: float32[3, 4]\ninput %a: int64[1]\nn: %y = Unsqueeze(%x, %a)\noutput %y\n",
       {x, Ints({2})},
       {x, Ints({3})},
       "Unsqueeze"},
      {"input %x: float32[3, 4]\ninput %l: int64[4]\nn: %y = ReverseSequence(%x, %l)\noutput %y\n",
       {x, Ints({0, 1, 2, 3})},
       {x, Ints({0, 1, 2, 4})},
       "ReverseSequence"},
      {"input %i: int64[2]\ninput %d: int64[]\nconst %v: float32[2] = [0, 1]\nn: %y = OneHot(%i, "
       "%d, %v)\noutput %y\n",
       {Ints({1, 9}), Ints({}, {3})},
       {Ints({1, 9}), Ints({}, {-3})},
       "OneHot"},
      {"input %a: int64[]\ninput %b: int64[]\ninput %c: int64[]\nn: %y = Range(%a, %b, %c)\noutput "
       "%y\n",
       {Ints({}, {0}), Ints({}, {3}), Ints({}, {1})},
       {Ints({}, {0}), Ints({}, {3}), Ints({}, {0})},
       "Range"},
      {"input %s: int64[2]\nn: %y = ConstantOfShape(%s)\noutput %y\n",
       {Ints({2, 0})},
       {Ints({2, -1})},
       "ConstantOfShape"},
      {"input %x: float32[1, 1, 3, 4]\ninput %s: int64[4]\nn: %y = Resize(%x, _, _, %s)\noutput "
       "%y\n",
       {Counted({1, 1, 3, 4}), Ints({1, 1, 6, 2})},
       {Counted({1, 1, 3, 4}), Ints({1, 1, -6, 2})},
       "Resize"},
      {"input %x: float32[3, 1, 2]\nconst %w: float32[1, 4, 2] = [0, 1, 2, 3, 4, 5, 6, 7]\nconst "
       "%r: float32[1, 4, 1] = [1, 2, 3, 4]\ninput %l: int32[1]\n"
       "n: %y = LSTM{hidden_size=1}(%x, %w, %r, _, %l)\noutput %y\n",
       {Counted({3, 1, 2}), Tensor::FromValues<int32_t>(Shape{1}, {2})},
       {Counted({3, 1, 2}), Tensor::FromValues<int32_t>(Shape{1}, {4})},
       "LSTM"},
  };
}

TEST(Values, CompiledModelsRefuseWhatTheyMustNotTrust) {
  for (const ValueCase& c : Cases()) {
    auto graph = ParseGraph(c.graph);
    ASSERT_TRUE(graph) << c.graph << graph.error().message();
    ASSERT_TRUE(InferTypes(*graph)) << c.graph;
    for (int threads : {1, 2}) {
      const auto engine = EngineFromGraph(*graph, {.threads = threads});
      ASSERT_TRUE(engine) << c.graph << engine.error().message();
      for (int round = 0; round < 2; ++round) {
        const auto wanted = EvaluateGraph(*graph, c.good), got = (*engine)->Run(c.good);
        ASSERT_TRUE(wanted && got) << c.graph << (wanted ? got : wanted).error().message();
        EXPECT_TRUE(BitEqual((*got)[0], (*wanted)[0])) << c.graph;
        const auto refused = (*engine)->Run(c.bad);
        EXPECT_FALSE(refused) << c.graph;
        if (refused) continue;
        const std::string& message = refused.error().message();
        EXPECT_NE(message.find("node n ("), std::string::npos) << c.graph << message;
        EXPECT_NE(message.find(c.error), std::string::npos) << c.graph << message;
      }
    }
  }
}

}  // namespace
}  // namespace evoq
