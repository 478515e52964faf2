// How a quantized model is told in one line.
#include <gtest/gtest.h>

#include "workflow/quantize.h"

namespace evoq {
namespace {

TEST(QuantizeTold, EachPrecisionThatThereIs) {
  struct Row {
    int int8, bf16, floats, moves, weights;
    std::string why, text;
  };
  const Row rows[] = {{55, 0, 0, 1, 0, "", "55 of 56 steps int8, 0 float"},
                      {50, 1, 3, 0, 0, "", "50 of 54 steps int8, 1 bf16, 3 float"},
                      {0, 4, 2, 0, 0, "", "4 of 6 steps bf16, 2 float"},
                      {0, 0, 7, 0, 5, "",
                       "7 of 7 steps float, 5 layers with int8 weights (they compute in float32)"},
                      {0, 0, 6, 0, 0, "because", "6 of 6 nodes float"},
                      {0, 0, 0, 2, 0, "", "2 steps"}};
  for (const Row& row : rows) {
    Quantized done{.model = "m.onnx", .output = "m.etm"};
    done.steps.Add(Precision::kInt8, row.int8);
    done.steps.Add(Precision::kBf16, row.bf16);
    done.steps.Add(Precision::kFloat32, row.floats);
    done.steps.Add(Precision::kAny, row.moves);
    done.int8_weights = row.weights;
    done.steps_why = row.why;
    const Told told = Tell(done);
    EXPECT_NE(told.text.find("of the float32 weights), " + row.text + ", 0.0 s\n"),
              std::string::npos)
        << told.text;
    EXPECT_EQ(told.json.value("steps_why", ""), row.why);
    EXPECT_EQ(told.json["int8_weights"], row.weights);
  }
}

}  // namespace
}  // namespace evoq
