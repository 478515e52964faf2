// What `quantize --target` writes, seen by the forecast of that runtime.
#include <gtest/gtest.h>

#include "foreign/forecasts/forecast_text.h"
#include "foreign/forecasts/rule.h"
#include "models/models.h"
#include "quant/unfuse.h"
#include "workflow/quantize.h"
#include "workflow/tiny_testing.h"

namespace evoq {
namespace {

class QuantizeTarget : public TinyFolder {};

// The feed-forward part of a transformer's layer: a product before an activation that runtimes
// compute in float, a sum that only a normalization reads, biases beside batches of matrices.
constexpr char kLayer[] = R"(graph g
input %x: float32[1, 6, 16]
const %w: float32[16, 32]
const %b: float32[32]
const %v: float32[32, 16]
const %c: float32[16]
const %u: float32[16, 24]
const %g: float32[16]
up: %h = MatMul(%x, %w)
up_bias: %hb = Add(%h, %b)
gelu: %a = Gelu(%hb)
down: %d = MatMul(%a, %v)
down_bias: %db = Add(%d, %c)
sum: %s = Add(%x, %db)
norm: %n = LayerNormalization(%s, %g)
head: %y = MatMul(%n, %u)
output %y
)";

TEST_F(QuantizeTarget, NothingThatItWritesCanBeRepaired) {
  const std::string model = Model("layer.onnx", kLayer);
  int targets = 0;
  for (const QdqTarget& target : AllQdqTargets()) {
    const Runtime* const runtime = FindRuntime(target.runtime);
    if (runtime == nullptr) continue;
    ++targets;
    SCOPED_TRACE(target.name);
    QuantizeJob job{.model = model, .output = At("q.onnx"), .target = target.name};
    job.calib_random = 4;
    const auto done = Quantize(job);
    ASSERT_TRUE(done) << done.error().message();
    const auto graph = ImportModel(job.output);
    ASSERT_TRUE(graph);
    const Examination seen = Examine(*graph, *runtime);
    EXPECT_EQ(seen.repairable(), 0) << ToText(*graph, seen);
    EXPECT_EQ(ToText(*graph, seen).find("residual-not-quantized"), std::string::npos);
    EXPECT_NE(ToText(*graph, seen).find("at every inference: 0"), std::string::npos)
        << ToText(*graph, seen);
  }
  EXPECT_EQ(targets, 3);
}

}  // namespace
}  // namespace evoq
