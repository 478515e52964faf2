// evoq::QuantizedAttention and the pass that writes it: the bits of the four operators that it
// stands for, on every instruction set.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>

#include "compile/compile.h"
#include "passes/pass.h"
#include "reference/reference.h"
#include "runtime/executor.h"

namespace evoq {
namespace {

struct Case {
  int64_t batch = 1, heads = 1, key_heads = 1, m = 1, n = 1, d = 1, e = 1;
  int mask = 0;  // 0: none; 1: of keys; 2: of queries and keys; 3: of all scores
  bool scaled = false, signed_keys = false, signed_values = false, real = false;
  int zero = 0;  // of the weights

  std::string Types() const {
    const auto bytes = [](bool is_signed, const std::string& sizes, const char* scale, int zero) {
      return fmt::format("{}[{}](scale {}, zero {})", is_signed ? "int8" : "uint8", sizes, scale,
                         zero);
    };
    std::string text =
        fmt::format("input %q: {}\ninput %k: {}\ninput %v: {}\n",
                    bytes(false, fmt::format("{}, {}, {}, {}", batch, heads, m, d), "0.021", 117),
                    bytes(signed_keys, fmt::format("{}, {}, {}, {}", batch, key_heads, d, n),
                          "0.017", signed_keys ? 0 : 131),
                    bytes(signed_values, fmt::format("{}, {}, {}, {}", batch, key_heads, n, e),
                          "0.013", signed_values ? -3 : 128));
    const char* masks[] = {"", "{0}, 1, 1, {3}", "{2}, {3}", "{0}, {1}, {2}, {3}"};
    if (mask > 0)
      text += "input %mask: float32[" + fmt::format(fmt::runtime(masks[mask]), batch, heads, m, n) +
              "]\n";
    return text;
  }
  std::string Y() const {
    const std::string sizes = fmt::format("[{}, {}, {}, {}]", batch, heads, m, e);
    return real ? "float32" + sizes : "uint8" + sizes + "(scale 0.009, zero 120)";
  }
  // As one operator.
  std::string Fused() const {
    return Types() + fmt::format(
                         "y: %y: {} = evoq::QuantizedAttention{{{}weights_scale=0.0039, "
                         "weights_zero_point={}}}(%q, %k, %v{})\noutput %y\n",
                         Y(), scaled ? "factor=0.25, " : "", zero, mask > 0 ? ", %mask" : "");
  }
  // As an importer leaves it.
  std::string Apart() const {
    const std::string scores = fmt::format("float32[{}, {}, {}, {}]", batch, heads, m, n);
    std::string text = Types() + "const %root: float32[] = [4.0]\n", last = "s";
    text += fmt::format("s: %s: {} = MatMul(%q, %k)\n", scores);
    if (scaled) text += fmt::format("d: %d: {} = Div(%s, %root)\n", scores), last = "d";
    if (mask > 0) text += fmt::format("a: %a: {} = Add(%{}, %mask)\n", scores, last), last = "a";
    text += fmt::format("p: %p: {} = Softmax(%{})\n", scores, last);
    text +=
        fmt::format("w: %w: uint8[{}, {}, {}, {}](scale 0.0039, zero {}) = QuantizeLinear(%p)\n",
                    batch, heads, m, n, zero);
    return text + fmt::format("y: %y: {} = MatMul(%w, %v)\noutput %y\n", Y());
  }
};

Graph GraphOf(const std::string& text) {
  auto graph = ParseGraph(text);
  EXPECT_TRUE(graph) << graph.error().message() << "\n" << text;
  const Status inferred = InferTypes(*graph);
  EXPECT_TRUE(inferred) << inferred.error().message() << "\n" << text;
  return std::move(*graph);
}

std::vector<Tensor> InputsOf(const Graph& graph, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Tensor> inputs;
  for (ValueId id : graph.inputs()) {
    Tensor t = Tensor::Allocate(graph.value(id).type);
    for (int64_t i = 0; i < t.elements(); ++i) {
      if (t.dtype() == DType::kFloat32) {
        t.mutable_data<float>()[i] = random() % 5 == 0
                                         ? -std::numeric_limits<float>::infinity()
                                         : static_cast<float>(random() % 1000) / 500 - 1;
      } else {
        t.mutable_raw()[i] = static_cast<std::byte>(random());
      }
    }
    inputs.push_back(std::move(t));
  }
  return inputs;
}

// The compiled graph computes its definition's bits by attention_pair_int8.
void Expect(const std::string& text, bool lower, uint32_t seed) {
  SCOPED_TRACE(text);
  Graph graph = GraphOf(text);
  const std::vector<Tensor> inputs = InputsOf(graph, seed);
  const auto wanted = EvaluateGraph(graph, inputs);
  ASSERT_TRUE(wanted) << wanted.error().message();
  if (lower) ASSERT_TRUE(RunPasses(graph, Stage::kLower));
  const auto model = PackModel(graph, kReference);
  ASSERT_TRUE(model) << model.error().message();
  auto compiled = Compile(*model, kReference);
  ASSERT_TRUE(compiled) << compiled.error().message();
  const auto program = std::make_shared<const Program>(std::move(*compiled));
  ASSERT_EQ(program->steps.size(), 1u);
  ASSERT_EQ(program->steps[0].decision.kernel, "attention_pair_int8");
  for (Isa isa : AllIsas()) {
    if (!IsaSupported(isa)) continue;
    for (int threads : {1, 2}) {
      SCOPED_TRACE(fmt::format("{} on {} threads", IsaName(isa), threads));
      const auto executor = Executor::Create(program, {.threads = threads, .isa = isa});
      ASSERT_TRUE(executor) << executor.error().message();
      std::vector<Tensor> outputs = {Tensor::Allocate((*executor)->output_types()[0])};
      const Status ran = (*executor)->Run(inputs, outputs);
      ASSERT_TRUE(ran) << ran.error().message();
      const size_t bytes = static_cast<size_t>(*outputs[0].type().bytes());
      ASSERT_EQ(std::memcmp(outputs[0].raw(), (*wanted)[0].raw(), bytes), 0);
    }
  }
}

// Of few keys a mask hides all from some queries.
TEST(QuantizedAttention, IsItsDefinition) {
  std::mt19937 random(5);
  for (uint32_t seed = 0; seed < 60; ++seed) {
    Case c;
    c.batch = 1 + random() % 2;
    c.heads = 1 + random() % 3;
    c.key_heads = random() % 3 == 0 ? 1 : c.heads;
    c.m = 1 + random() % 130;
    c.n = 1 + random() % (seed % 4 == 0 ? 3 : 150);
    c.d = 1 + random() % 40;
    c.e = 1 + random() % 40;
    c.mask = static_cast<int>(random() % 4);
    c.scaled = random() % 2;
    c.signed_keys = random() % 2;
    c.signed_values = random() % 2;
    c.real = random() % 3 == 0;
    c.zero = random() % 2 == 0 ? 0 : 9;
    Expect(c.Fused(), /*lower=*/false, seed);
  }
}

// Enough scores for several blocks of rows, the last one shorter.
TEST(QuantizedAttention, StandsForFourOperators) {
  for (int mask : {0, 1, 2, 3}) {
    for (bool scaled : {false, true}) {
      Case c{.heads = 2, .key_heads = 2, .m = 301, .n = 350 + mask, .d = 20, .e = 24};
      c.mask = mask;
      c.scaled = scaled;
      Expect(c.Apart(), /*lower=*/true, static_cast<uint32_t>(mask));
    }
  }
}

TEST(QuantizedAttention, RefusesWhatIsNone) {
  const auto error = [](const std::string& attributes, const std::string& mask) {
    auto graph = ParseGraph(
        "input %q: uint8[2, 3, 4](scale 0.1, zero 0)\ninput %k: uint8[2, 4, 5](scale 0.1, zero 0)\n"
        "input %v: uint8[2, 5, 6](scale 0.1, zero 0)\n" +
        mask + "y: %y = evoq::QuantizedAttention{" + attributes + "}(%q, %k, %v" +
        (mask.empty() ? "" : ", %mask") + ")\noutput %y\n");
    EXPECT_TRUE(graph) << graph.error().message();
    const Status inferred = InferTypes(*graph);
    return inferred ? std::string() : inferred.error().message();
  };
  const std::string scale = "weights_scale=0.004";
  EXPECT_EQ(error(scale, ""), "");
  EXPECT_EQ(error(scale, "input %mask: float32[1, 5]\n"), "");
  EXPECT_NE(error("weights_scale=0.0", "").find("attribute weights_scale is 0"), std::string::npos);
  EXPECT_NE(error(scale + ", factor=-1.0", "").find("attribute factor is -1"), std::string::npos);
  EXPECT_NE(error(scale + ", weights_zero_point=256", "").find("weights_zero_point is 256"),
            std::string::npos);
  EXPECT_NE(error(scale, "input %mask: float32[2, 3, 4, 5]\n").find("broadcast"),
            std::string::npos);
}

}  // namespace
}  // namespace evoq
