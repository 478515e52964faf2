// Operators that passes write out, of random shapes and of values that are special: what takes
// their place gives what they gave.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "passes/pass.h"
#include "reference/reference.h"

namespace evoq {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

const PassDef& Pass(std::string_view name) {
  return **std::find_if(AllPasses().begin(), AllPasses().end(),
                        [&](const PassDef* pass) { return pass->name == name; });
}

struct Case {
  const char* pass;
  std::string text;  // the graph
  std::map<std::string, std::vector<int64_t>> sizes = {};
  bool special = false;  // NaNs, infinities, zeros of both signs and ties among the inputs
  float tolerance = 0;
};

class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}
  int64_t Within(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  bool Coin() { return random_() % 2 == 0; }
  Tensor Values(const TensorType& type, bool special) {
    Tensor tensor = Tensor::Allocate(type);
    std::uniform_real_distribution<float> real(-2, 2);
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      if (type.dtype == DType::kBool)
        tensor.mutable_data<bool>()[i] = Coin();
      else if (type.dtype == DType::kInt64)
        tensor.mutable_data<int64_t>()[i] = Within(-1000, 1000);
      else
        tensor.mutable_data<float>()[i] = special ? Special() : real(random_);
    }
    return tensor;
  }

 private:
  float Special() {
    constexpr float kValues[] = {std::numeric_limits<float>::quiet_NaN(),
                                 kInfinity,
                                 -kInfinity,
                                 0.0f,
                                 -0.0f,
                                 1.0f,
                                 1.0f,
                                 -1e30f,
                                 3e38f,
                                 1e-40f};
    return Within(0, 5) == 0 ? kValues[Within(0, 9)] : static_cast<float>(Within(-8, 8)) / 4;
  }

  std::mt19937 random_;
};

void ExpectSame(const Tensor& want, const Tensor& got, float tolerance) {
  ASSERT_EQ(want.type().ToString(), got.type().ToString());
  if (want.dtype() != DType::kFloat32) {
    EXPECT_TRUE(BitEqual(want, got));
    return;
  }
  for (int64_t i = 0; i < want.elements(); ++i) {
    const float a = want.data<float>()[i], b = got.data<float>()[i];
    if (std::isnan(a) || std::isinf(a) || tolerance == 0) {
      ASSERT_TRUE(a == b || (std::isnan(a) && std::isnan(b))) << i << ": " << a << ", " << b;
    } else {
      ASSERT_NEAR(a, b, tolerance * std::max(1.0f, std::fabs(a))) << i;
    }
  }
}

// How many changes the pass made.
int Check(const Case& c, Draw& draw) {
  SCOPED_TRACE(c.text);
  auto before = ParseGraph("graph g\n" + c.text);
  if (!before) ADD_FAILURE() << before.error().message();
  if (!before) return 0;
  for (int v = 0; v < before->value_count(); ++v) {
    const Value& value = before->value(ValueId{v});
    const bool listed =
        value.type.shape.rank() == 1 && (std::string_view(c.pass) == "resize-last-axes" ||
                                         std::string_view(c.pass) == "lower-normalization");
    if (value.is_constant() && value.type.dtype == DType::kFloat32 &&
        value.constant.elements() > 1 && !listed)
      before->SetConstant(ValueId{v}, draw.Values(value.type, false));
  }
  EXPECT_TRUE(InferTypes(*before));
  Graph after = *before;
  const auto changes = RunPass(after, Pass(c.pass));
  if (!changes) ADD_FAILURE() << changes.error().message();
  EXPECT_TRUE(BindShapes(*before, c.sizes));
  const Status bound = BindShapes(after, c.sizes);
  EXPECT_TRUE(bound) << bound.error().message();
  std::vector<Tensor> inputs;
  for (ValueId id : before->inputs())
    inputs.push_back(draw.Values(before->value(id).type, c.special));
  const auto want = EvaluateGraph(*before, inputs), got = EvaluateGraph(after, inputs);
  EXPECT_TRUE(want && got) << (want ? got.error().message() : want.error().message());
  if (want && got) ExpectSame((*want)[0], (*got)[0], c.tolerance);
  return changes ? *changes : 0;
}

TEST(Lowering, Selection) {
  Draw draw(1);
  for (int round = 0; round < 60; ++round) {
    const int64_t n = draw.Within(0, 4), m = draw.Within(1, 6);
    const auto of = [&](const std::string& node, const char* dtype = "float32") {
      Case c{"lower-selection", fmt::format("input %x: {}[N, {}, {}]\ny: %y = {}\noutput %y\n",
                                            dtype, m, draw.Within(1, 5), node)};
      c.sizes = {{"x", {n, m, 0}}};
      c.sizes["x"][2] = std::stoll(c.text.substr(c.text.rfind(", ", c.text.find("]")) + 2));
      c.special = true;
      return c;
    };
    for (const char* node :
         {"IsNaN(%x)", "IsInf(%x)", "IsInf{detect_negative=0}(%x)", "IsInf{detect_positive=0}(%x)",
          "Hardmax(%x)", "Hardmax{axis=1}(%x)", "Trilu(%x)", "Trilu{upper=0}(%x)"})
      EXPECT_EQ(Check(of(node), draw), 1);
    EXPECT_EQ(Check(of("Not(%x)", "bool"), draw), 1);
    EXPECT_EQ(Check(of("Trilu(%x)", "int64"), draw), 1);
    Case moved = of(fmt::format("Trilu{{upper={}}}(%x, %k)", draw.Within(0, 1)));
    moved.text = fmt::format("const %k: int64[] = [{}]\n", draw.Within(-7, 7)) + moved.text;
    EXPECT_EQ(Check(moved, draw), 1);
  }
}

TEST(Lowering, LogSumExp) {
  Draw draw(2);
  const char* axes[] = {"[0]", "[-1]", "[1]"};
  for (int round = 0; round < 200; ++round) {
    Case c{"lower-log-sum-exp",
           fmt::format("input %x: float32[N, 3, M]\nconst %a: int64[1] = {}\n"
                       "y: %y = ReduceLogSumExp{{keepdims={}}}(%x{})\noutput %y\n",
                       axes[draw.Within(0, 2)], draw.Within(0, 1), draw.Coin() ? ", %a" : "")};
    c.sizes = {{"x", {draw.Within(0, 3), 3, draw.Within(0, 3)}}};
    c.special = draw.Coin();
    c.tolerance = 1e-5f;
    EXPECT_EQ(Check(c, draw), 1);
  }
}

TEST(Lowering, CenterCropPad) {
  Draw draw(3);
  for (int round = 0; round < 60; ++round) {
    const int64_t h = draw.Within(1, 6), w = draw.Within(1, 6);
    Case c{"lower-center-crop-pad",
           fmt::format("input %x: float32[N, {}, {}]\nconst %s: int64[2] = [{}, {}]\n"
                       "y: %y = CenterCropPad{{axes=[{}]}}(%x, %s)\noutput %y\n",
                       h, w, draw.Within(0, 8), draw.Within(1, 8), draw.Coin() ? "1, -1" : "2, 1")};
    c.sizes = {{"x", {draw.Within(0, 2), h, w}}};
    c.special = true;
    EXPECT_EQ(Check(c, draw), 1);
  }
}

TEST(Lowering, Normalization) {
  Draw draw(4);
  for (int round = 0; round < 60; ++round) {
    const int64_t groups = draw.Within(1, 3), channels = groups * draw.Within(1, 3),
                  n = draw.Within(0, 2), h = draw.Within(1, 5), w = draw.Within(1, 5);
    const bool open = draw.Coin();
    const auto values = [](int64_t count, float first, float step) {
      std::vector<float> all;
      for (int64_t i = 0; i < count; ++i) all.push_back(first + step * static_cast<float>(i));
      return fmt::format("[{}]", fmt::join(all, ", "));
    };
    const bool scaled = draw.Coin(), moved = draw.Coin();
    Case c{"lower-normalization",
           fmt::format("input %x: float32[N, {0}, {1}, {2}]\nconst %rows: int64[3] = [0, {3}, -1]\n"
                       "r: %r = Reshape(%x, %rows)\nconst %one: float32[{3}] = {4}\n"
                       "const %zero: float32[{3}] = {5}\n"
                       "i: %i = InstanceNormalization{{epsilon=0.01}}(%r, %one, %zero)\n"
                       "s: %s = Shape(%x)\nb: %b = Reshape(%i, %s)\n"
                       "const %scale: float32[{0}, 1, 1] = {6}\nm: %m = {7}\n"
                       "const %bias: float32[{0}, 1, 1] = {8}\ny: %y = {9}\noutput %y\n",
                       channels, open ? "H" : std::to_string(h), open ? "W" : std::to_string(w),
                       groups, values(groups, 1, 0), values(groups, 0, 0),
                       values(channels, -1, 0.75f), scaled ? "Mul(%b, %scale)" : "Relu(%b)",
                       values(channels, 2, -0.5f), moved ? "Add(%m, %bias)" : "Neg(%m)")};
    c.sizes["x"] = {n, channels, h, w};
    c.tolerance = 1e-5f;
    EXPECT_EQ(Check(c, draw), 1);
    const char* axes[] = {"", "{axes=[1, 2]}", "{axes=[-1]}"};
    Case means{"lower-normalization",
               fmt::format("input %x: float32[N, {}, H, {}]\n"
                           "y: %y = MeanVarianceNormalization{}(%x)\noutput %y\n",
                           channels, w, axes[draw.Within(0, 2)])};
    means.sizes["x"] = {n, channels, h, w};
    means.tolerance = 1e-4f;
    EXPECT_EQ(Check(means, draw), 1);
    Case local{"lower-normalization",
               fmt::format("input %x: float32[N, C, H, {}]\n"
                           "y: %y = LRN{{size={}, alpha=0.5, beta=0.6, bias=0.7}}(%x)\noutput %y\n",
                           w, draw.Within(1, 5))};
    local.sizes["x"] = {n, channels, h, w};
    local.special = draw.Coin();
    local.tolerance = 1e-5f;
    EXPECT_EQ(Check(local, draw), 1);
  }
}

TEST(Lowering, ResizeOfTheMiddleAxes) {
  Draw draw(6);
  const char* modes[] = {"nearest", "linear", "cubic"};
  for (int round = 0; round < 100; ++round) {
    const int64_t h = draw.Within(2, 5), w = draw.Within(2, 5), c = draw.Within(1, 4);
    const double down = static_cast<double>(draw.Within(2, 9)) / 4,
                 across = static_cast<double>(draw.Within(3, 9)) / 4;
    std::string list, input;
    if (draw.Coin()) {
      input = fmt::format("const %s: int64[4] = [2, {}, {}, {}]\n", h + draw.Within(1, 6),
                          draw.Within(1, 9), c);
      list = "_, _, %s";
    } else if (draw.Coin()) {
      input = fmt::format("const %s: float32[4] = [1.0, {:.2f}, {:.2f}, 1.0]\n", down + 1, across);
      list = "_, %s";
    } else {
      input = fmt::format("const %s: float32[2] = [{:.2f}, {:.2f}]\n", down, across);
      list = "_, %s";
    }
    const bool named = input.find("[2]") != std::string::npos;
    Case resize{
        "resize-last-axes",
        fmt::format("input %x: float32[2, {}, {}, {}]\n{}"
                    "y: %y = Resize{{{}mode=\"{}\"}}(%x, {})\noutput %y\n",
                    h, w, c, input, named ? "axes=[-2, 1], " : "", modes[draw.Within(0, 2)], list)};
    resize.sizes["x"] = {2, h, w, c};
    EXPECT_EQ(Check(resize, draw), 1);
  }
}

TEST(Lowering, ConvTransposeOfFewChannels) {
  Draw draw(5);
  for (int round = 0; round < 100; ++round) {
    const int axes = static_cast<int>(draw.Within(1, 2));
    const int64_t in = draw.Within(2, 5), out = draw.Within(1, 3), stride = draw.Within(2, 3);
    std::vector<int64_t> kernel, strides, pads(static_cast<size_t>(2 * axes)), more,
        sizes{draw.Within(1, 2), in};
    for (int a = 0; a < axes; ++a) {
      kernel.push_back(stride * draw.Within(1, 3));
      strides.push_back(stride);
      sizes.push_back(draw.Within(3, 6));
      pads[static_cast<size_t>(a)] = draw.Within(0, 2);
      pads[static_cast<size_t>(a + axes)] = draw.Within(0, 2);
      more.push_back(draw.Within(0, std::min(stride - 1, pads[static_cast<size_t>(a + axes)])));
    }
    const auto list = [](const auto& values) { return fmt::format("{}", fmt::join(values, ", ")); };
    Case c{
        "transposed-narrow",
        fmt::format("input %x: float32[{}]\nconst %w: float32[{}, {}, {}]{}\n"
                    "y: %y = ConvTranspose{{strides=[{}], pads=[{}], output_padding=[{}]}}"
                    "(%x, %w)\noutput %y\n",
                    axes == 1 ? fmt::format("{}, {}, T", sizes[0], in)
                              : "N, " + list(std::vector<int64_t>(sizes.begin() + 1, sizes.end())),
                    in, out, list(kernel), "", list(strides), list(pads), list(more))};
    c.sizes["x"] = sizes;
    c.tolerance = 1e-5f;
    int64_t elements = in * out;
    for (int64_t k : kernel) elements *= k;
    if (elements <= 8) {
      c.text.insert(c.text.find('\n', c.text.find("const %w")),
                    " = [" + list(std::vector<float>(static_cast<size_t>(elements), 1.0f)) + "]");
    }
    EXPECT_EQ(Check(c, draw), 1);
  }
}

// All passes over operators on images, of which some axes have one element: what moves such an axis
// is a Reshape, and a pass that looks for channels must not take another axis for them.
TEST(Lowering, AxesOfOneElement) {
  Draw draw(9);
  const std::vector<std::vector<int64_t>> shapes = {{1, 1, 7},    {2, 1, 4, 5}, {1, 3, 1, 1},
                                                    {1, 4, 1, 6}, {1, 1, 1, 9}, {3, 2, 5},
                                                    {2, 4, 3, 3}, {1, 6, 5},    {1, 4, 6, 1}};
  for (const std::vector<int64_t>& shape : shapes) {
    const int64_t channels = shape[1];
    const std::string dims = fmt::format("{}", fmt::join(shape, ", "));
    const std::string vector = fmt::format("float32[{}]", channels);
    const std::string groups = channels % 2 == 0 ? "2" : "1";
    std::string values = "1.5";
    for (int64_t c = 1; c < channels; ++c) values += fmt::format(", {}.25", c);
    const std::string scale = fmt::format("const %s: {} = [{}]\n", vector, values);
    const size_t axes = shape.size() - 2;
    const std::string ones(axes == 1 ? "1" : "1, 1"), window(axes == 1 ? "1" : "1, 1");
    const std::string whole = fmt::format(
        "const %w: float32[{0}, {0}, {1}] = [{2}]\n", channels, ones,
        fmt::join(std::vector<float>(static_cast<size_t>(channels * channels), 0.5f), ", "));
    for (const std::string& node :
         {std::string("InstanceNormalization(%x, %s, %s)"),
          std::string("InstanceNormalization(%x, %one, %zero)"),
          "GroupNormalization{num_groups=" + groups + "}(%x, %s, %s)",
          std::string("BatchNormalization(%x, %s, %s, %s, %s)"), std::string("LRN{size=3}(%x)"),
          std::string("MeanVarianceNormalization{axes=[0, 2]}(%x)"),
          std::string("LpNormalization{axis=1}(%x)"), std::string("Softmax{axis=1}(%x)"),
          std::string("LogSoftmax{axis=-1}(%x)"), std::string("Hardmax{axis=1}(%x)"),
          std::string("GlobalAveragePool(%x)"), std::string("GlobalMaxPool(%x)"),
          "AveragePool{kernel_shape=[" + window + "]}(%x)", std::string("PRelu(%x, %t)"),
          std::string("LayerNormalization{axis=-1}(%x, %l)"), std::string("Conv(%x, %w)"),
          std::string("ConvTranspose(%x, %w)")}) {
      for (const char* behind : {"", "Relu(%a)", "Conv(%a, %w)"}) {
        const bool between = std::string_view(behind).starts_with("Conv");
        std::string of = node;
        if (between) of.replace(of.find("%x"), 2, "%b");
        const auto each = [](int64_t count, float value) {
          return fmt::format(
              "{}", fmt::join(std::vector<float>(static_cast<size_t>(count), value), ", "));
        };
        std::string text = fmt::format("graph g\ninput %x: float32[{}]\n{}{}", dims, scale, whole);
        text += "const %t: float32[1] = [0.25]\n";
        text +=
            fmt::format("const %l: float32[{}] = [{}]\n", shape.back(), each(shape.back(), 1.25f));
        text += fmt::format("const %one: {} = [{}]\n", vector, each(channels, 1));
        text += fmt::format("const %zero: {} = [{}]\n", vector, each(channels, 0));
        if (between) text += "c: %b = Conv(%x, %w)\n";
        text += fmt::format("n: %a = {}\n", of);
        text += *behind == 0 ? "output %a\n" : fmt::format("z: %y = {}\noutput %y\n", behind);
        SCOPED_TRACE(text);
        const auto before = ParseGraph(text);
        ASSERT_TRUE(before) << before.error().message();
        Graph plain = *before;
        ASSERT_TRUE(InferTypes(plain));
        Graph after = plain;
        for (const Stage stage : {Stage::kOptimize, Stage::kLower}) {
          const Status ran = RunPasses(after, stage);
          ASSERT_TRUE(ran) << ran.error().message();
        }
        const std::vector<Tensor> inputs = {
            draw.Values(plain.value(plain.inputs()[0]).type, false)};
        const auto want = EvaluateGraph(plain, inputs), got = EvaluateGraph(after, inputs);
        ASSERT_TRUE(want) << want.error().message();
        ASSERT_TRUE(got) << got.error().message();
        ExpectSame((*want)[0], (*got)[0], 2e-5f);
      }
    }
  }
}

// A square of bfloat16 is rounded once, as by Pow; a cube would be twice.
TEST(Lowering, PowersOfBfloat16) {
  for (const float exponent : {2.0f, 3.0f}) {
    auto graph = ParseGraph("input %x: bfloat16[2, 3]\noutput %x\n");
    ASSERT_TRUE(graph) << graph.error().message();
    Tensor held = Tensor::Allocate(TensorType(DType::kBfloat16, Shape{}));
    held.mutable_data<uint16_t>()[0] = FloatToBfloat16(exponent);
    const ValueId power =
        graph->Apply("Pow", "p", {graph->inputs()[0], graph->AddConstant("e", std::move(held))}, {},
                     graph->value(graph->inputs()[0]).type);
    graph->MarkOutput(power);
    const auto changes = RunPass(*graph, Pass("lower-pow"));
    ASSERT_TRUE(changes) << changes.error().message();
    EXPECT_EQ(*changes, exponent == 2 ? 1 : 0) << Print(*graph);
  }
}

}  // namespace
}  // namespace evoq
