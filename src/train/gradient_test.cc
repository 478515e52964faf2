// Gradients against central differences in float64: each operator and shape class as a graph whose
// operands all come from parameters, so that every gradient of it is one of a parameter.
#include "train/gradient.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <regex>
#include <set>
#include <sstream>

#include "reference/reference.h"
#include "train/learner.h"
#include "train/test_cases.h"

namespace evoq {
namespace {

constexpr int64_t kSamples = 2, kShards = 2, kBatch = kSamples * kShards;

struct GradientCase {
  std::string name;
  std::string graph;      // of N samples; the scores are its output
  std::string reference;  // the same of the whole batch, where the graph does not say it; else ""
};

std::vector<GradientCase> Cases() {
  const std::string end = "\noutput %y\n";
  std::vector<GradientCase> cases;
  const auto add = [&](const std::string& name, const std::string& text) {
    cases.push_back({name, text + end, ""});
  };
  const auto conv = [&](const std::string& name, const std::string& w, const std::string& attrs) {
    add("Conv " + name, kImages + "const %w: float32[" + w + "]\nconst %b: float32[" +
                            w.substr(0, w.find(',')) + "]\nc: %y = Conv{" + attrs +
                            "}(%d, %w, %b)");
  };
  conv("3x3", "5, 4, 3, 3", "pads=[0, 0, 0, 0]");
  conv("padded", "3, 4, 3, 3", "pads=[1, 2, 1, 0]");
  conv("strided", "3, 4, 3, 2", "strides=[2, 3], pads=[1, 1, 0, 0]");
  conv("dilated", "2, 4, 2, 3", "dilations=[2, 2], pads=[1, 1, 1, 1]");
  conv("grouped", "6, 2, 3, 3", "group=2, pads=[1, 1, 1, 1]");
  conv("depthwise", "4, 1, 3, 3", "group=4, strides=[2, 1], pads=[1, 1, 1, 1]");
  conv("1x1", "17, 4, 1, 1", "group=1");
  conv("1x1 strided", "3, 4, 1, 1", "strides=[2, 2]");
  conv("same", "3, 4, 4, 4", "auto_pad=\"SAME_UPPER\"");
  add("Conv without bias", kImages + "const %w: float32[2, 4, 5, 5]\nc: %y = Conv(%d, %w)");
  add("Conv of one axis",
      Data("3, 9") + "const %w: float32[2, 3, 3]\nc: %y = Conv{pads=[1, 1]}(%d, %w)");
  add("Conv of three axes",
      Data("2, 4, 3, 5") +
          "const %w: float32[3, 2, 2, 3, 2]\nc: %y = Conv{pads=[0, 1, 1, 1, 1, 0]}"
          "(%d, %w)");
  const std::string rows = Data("5");
  add("Gemm", rows + "const %w: float32[5, 7]\nconst %b: float32[7]\nc: %y = Gemm(%d, %w, %b)");
  add("Gemm transB", rows +
                         "const %w: float32[19, 5]\nconst %b: float32[1, 19]\n"
                         "c: %y = Gemm{transB=1, alpha=0.5, beta=2.0}(%d, %w, %b)");
  add("Gemm without c", rows + "const %w: float32[5, 3]\nc: %y = Gemm(%d, %w)");
  add("Gemm transA", rows +
                         "t: %t = Transpose{perm=[1, 0]}(%d)\nconst %w: float32[5, 3]\n"
                         "const %b: float32[1, 1]\nc: %y = Gemm{transA=1}(%t, %w, %b)");
  add("MatMul", rows + "const %w: float32[5, 6]\nc: %y = MatMul(%d, %w)");
  add("MatMul of rows in a batch",
      Data("3, 5") + "const %w: float32[5, 4]\nc: %y = MatMul(%d, %w)");
  add("MatMul of two operands",
      Data("2, 3, 4") + "t: %t = Transpose{perm=[0, 1, 3, 2]}(%d)\nc: %y = MatMul(%d, %t)");
  add("MatMul broadcast", Data("2, 3, 4") + "const %w: float32[2, 4, 3]\nc: %y = MatMul(%d, %w)");
  for (const char* op : {"Add", "Sub", "Mul"}) {
    const std::string apply = std::string("c: %y = ") + op;
    add(op + std::string(" per channel"),
        kImages + "const %w: float32[4, 1, 1]\n" + apply + "(%d, %w)");
    add(op + std::string(" reversed, last axis"),
        kImages + "const %w: float32[6]\n" + apply + "(%w, %d)");
    add(op + std::string(" of equal shapes"), rows + "r: %r = Tanh(%d)\n" + apply + "(%d, %r)");
    add(op + std::string(" of both repeated"),
        Data("3, 1") + "const %w: float32[1, 1, 4]\n" + apply + "(%d, %w)");
  }
  add("PRelu per channel", kImages + "const %w: float32[4, 1, 1]\nc: %y = PRelu(%d, %w)");
  add("PRelu of one slope", rows + "const %w: float32[1]\nc: %y = PRelu(%d, %w)");
  add("Pow of a square", rows + "const %two: float32[] = [2]\nc: %y = Pow(%d, %two)");
  add("Pow per column", rows + "s: %s = Sigmoid(%d)\nconst %w: float32[5]\nc: %y = Pow(%s, %w)");
  add("Div", rows + "s: %s = Sigmoid(%d)\nconst %w: float32[5]\nc: %y = Div(%w, %s)");
  for (const char* op : {"Abs",
                         "Celu",
                         "Celu{alpha=0.5}",
                         "Elu",
                         "Elu{alpha=0.5}",
                         "Selu",
                         "Selu{alpha=0.5, gamma=2.0}",
                         "Erf",
                         "Sin",
                         "Cos",
                         "Softsign",
                         "Exp",
                         "HardSigmoid",
                         "HardSigmoid{alpha=0.4, beta=0.3}",
                         "HardSwish",
                         "Mish",
                         "Neg",
                         "Softplus",
                         "Swish",
                         "Swish{alpha=1.7}"})
    add(op, kImages + "c: %y = " + op + "(%d)");
  for (const char* op : {"Log", "Reciprocal", "Sqrt"})  // of positive numbers
    add(op, kImages + "s: %s = Sigmoid(%d)\nc: %y = " + op + "(%s)");
  for (const char* op : {"Relu", "LeakyRelu", "LeakyRelu{alpha=0.3}", "Sigmoid", "Tanh", "Gelu",
                         "Gelu{approximate=\"tanh\"}", "Identity"})
    add(op, kImages + "c: %y = " + op + "(%d)");
  add("Clip", kImages +
                  "const %l: float32[] = [-0.5]\nconst %h: float32[] = [0.75]\n"
                  "c: %y = Clip(%d, %l, %h)");
  add("Clip from below", kImages + "const %l: float32[] = [-0.5]\nc: %y = Clip(%d, %l)");
  const std::string twice =
      kImages + "const %s: int64[2] = [14, 9]\nc: %y = Resize{axes=[2, 3], MODE}(%d, _, _, %s)";
  for (const char* how :
       {"mode=\"nearest\"",
        "mode=\"nearest\", nearest_mode=\"floor\", "
        "coordinate_transformation_mode=\"asymmetric\"",
        "mode=\"linear\"", "mode=\"linear\", coordinate_transformation_mode=\"align_corners\"",
        "mode=\"cubic\""}) {
    std::string text = twice;
    add(std::string("Resize ") + how, text.replace(text.find("MODE"), 4, how));
  }
  add("Dropout", kImages + "c: %y = Dropout(%d)");
  add("MaxPool halved", kImages + "c: %y = MaxPool{kernel_shape=[2, 2], strides=[2, 2]}(%d)");
  add("MaxPool overlapping",
      kImages + "c: %y = MaxPool{kernel_shape=[3, 3], strides=[2, 1], pads=[1, 1, 0, 1]}(%d)");
  add("MaxPool dilated", kImages + "c: %y = MaxPool{kernel_shape=[2, 2], dilations=[3, 2]}(%d)");
  add("MaxPool ceil",
      kImages + "c: %y = MaxPool{kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1}(%d)");
  add("AveragePool", kImages + "c: %y = AveragePool{kernel_shape=[2, 3], strides=[2, 2]}(%d)");
  add("AveragePool padded",
      kImages + "c: %y = AveragePool{kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]}(%d)");
  add("AveragePool counting pads",
      kImages +
          "c: %y = AveragePool{kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], "
          "count_include_pad=1, ceil_mode=1}(%d)");
  add("GlobalAveragePool", kImages + "c: %y = GlobalAveragePool(%d)");
  add("GlobalMaxPool", kImages + "c: %y = GlobalMaxPool(%d)");
  AddReductions(kImages, add);
  // Four heads of queries share two of keys and values.
  const std::string heads = Data("2, 5, 4") +
                            "r: %r = Tanh(%d)\nv: %v = Sigmoid(%d)\n"
                            "q: %q = Concat{axis=1}(%d, %r)\n";
  add("Attention", heads + "c: %y = Attention(%q, %r, %v)");
  add("Attention, causal", heads + "c: %y = Attention{is_causal=1}(%q, %r, %v)");
  add("Attention of a window with a cap and a scale",
      heads +
          "c: %y = Attention{is_causal=1, left_window_size=1, softcap=1.5, scale=0.7}"
          "(%q, %r, %v)");
  add("Attention of other sizes",
      Data("2, 5, 4") +
          "const %b: int64[1] = [2]\nconst %e: int64[1] = [5]\nconst %a: int64[1] = [2]\n"
          "k: %k = Slice(%d, %b, %e, %a)\nt: %t = Transpose{perm=[0, 1, 3, 2]}(%d)\n"
          "w: %w = MatMul(%k, %t)\nc: %y = Attention{right_window_size=1}(%d, %k, %w)");
  add("GatherND", Data("3, 4") +
                      "const %p: int64[1, 2, 1] = [2, 0]\n"
                      "s: %s = Shape{end=1}(%x)\nconst %l: int64[2] = [2, 1]\n"
                      "j: %j = Concat{axis=0}(%s, %l)\ne: %e = Expand(%p, %j)\n"
                      "c: %y = GatherND{batch_dims=1}(%d, %e)");
  add("TensorScatter", Data("2, 3, 4") +
                           "const %p: int64[1] = [2]\nconst %z: float32[1, 2, 6, 4]\n" +
                           "s: %s = Shape{end=1}(%x)\nconst %l: int64[3] = [2, 6, 4]\n"
                           "j: %j = Concat{axis=0}(%s, %l)\nf: %f = Expand(%z, %j)\n"
                           "e: %e = Expand(%p, %s)\nt: %t = Tanh(%d)\n"
                           "c: %y = TensorScatter(%f, %t, %e)");
  add("Attention of a part of its memory",
      heads +
          "const %u: int64[8] = [0, 0, 0, 0, 0, 0, 2, 0]\n"
          "const %p: int64[1] = [5]\ns: %s = Shape{end=1}(%x)\ne: %e = Expand(%p, %s)\n"
          "k: %k = Pad(%r, %u)\nw: %w = Pad(%v, %u)\n"
          "c: %y = Attention{is_causal=1}(%q, %k, %w, _, _, _, %e)");
  for (const char* interleaved : {"0", "1"})
    add(std::string("RotaryEmbedding, interleaved ") + interleaved,
        Data("2, 3, 6") +
            "const %p: int64[1, 3] = [4, 0, 2]\nconst %n: int64[1] = [0]\n"
            "s: %s = Shape{end=1}(%x)\nconst %l: int64[1] = [3]\n"
            "j: %j = Concat{axis=0}(%s, %l)\ne: %e = Expand(%p, %j)\n"
            "const %cos: float32[5, 2]\nconst %sin: float32[5, 2]\n"
            "c: %y = RotaryEmbedding{rotary_embedding_dim=4, interleaved=" +
            interleaved + "}(%d, %cos, %sin, %e)");
  add("MatMul with a bias",
      rows + "const %w: float32[5, 6]\nconst %b: float32[6]\nc: %y = MatMul(%d, %w, %b)");
  add("Silu", kImages + "c: %y = evoq::Silu(%d)");
  add("Softmax", rows + "c: %s = Softmax(%d)\ni: %y = Identity(%s)");
  add("Softmax of an inner axis", kImages + "c: %s = Softmax{axis=1}(%d)\ni: %y = Identity(%s)");
  add("LogSoftmax", rows + "c: %y = LogSoftmax(%d)");
  add("Concat", kImages + "r: %r = Tanh(%d)\nc: %y = Concat{axis=1}(%d, %r, %d)");
  add("Concat of the last axis", kImages + "r: %r = Tanh(%d)\nc: %y = Concat{axis=-1}(%r, %d)");
  add("Flatten", kImages + "c: %y = Flatten{axis=1}(%d)");
  add("Reshape", kImages + "const %s: int64[3] = [0, 6, -1]\nc: %y = Reshape(%d, %s)");
  add("Squeeze and Unsqueeze", Data("1, 5") +
                                   "const %a: int64[1] = [1]\ns: %s = Squeeze(%d, %a)\n"
                                   "const %e: int64[2] = [1, 3]\nc: %y = Unsqueeze(%s, %e)");
  AddMoves(kImages, add);
  AddRecurrent(add);
  AddNorms(kImages, add);
  const auto transposed = [&](const std::string& name, const std::string& w, const std::string& b,
                              const std::string& attrs) {
    add("ConvTranspose " + name, kImages + "const %w: float32[" + w + "]\nconst %b: float32[" + b +
                                     "]\nc: %y = ConvTranspose{" + attrs + "}(%d, %w, %b)");
  };
  transposed("3x3", "4, 5, 3, 3", "5", "group=1");
  transposed("strided", "4, 3, 3, 2", "3", "strides=[2, 3], pads=[1, 0, 0, 1]");
  transposed("output padding", "4, 2, 3, 3", "2", "strides=[2, 2], output_padding=[1, 1]");
  transposed("dilated", "4, 2, 2, 3", "2", "dilations=[3, 2]");
  transposed("grouped", "4, 3, 2, 2", "6", "group=2, strides=[2, 2]");
  add("ConvTranspose without bias",
      Data("3, 9") + "const %w: float32[3, 2, 4]\nc: %y = ConvTranspose{strides=[3]}(%d, %w)");
  add("Where of a mask",
      Data("2, 3, 3") +
          "const %m: bool[1, 3, 3] = [1, 0, 0, 1, 1, 0, 1, 1, 1]\nconst %l: float32[] = [-2]\n"
          "c: %y = Where(%m, %d, %l)");
  add("Where of two operands",
      Data("3, 4") +
          "const %m: bool[3, 1] = [1, 0, 1]\nconst %w: float32[4]\nc: %y = Where(%m, %w, %d)");
  add("attention with a mask that is no parameter",
      Data("2, 3, 4") +
          "const %m: float32[3, 3] = [0, -1e9, -1e9, 0, 0, -1e9, 0, 0, 0]\n"
          "k: %k = Transpose{perm=[0, 1, 3, 2]}(%d)\nq: %q = MatMul(%d, %k)\n"
          "a: %a = Add(%q, %m)\ns: %s = Softmax(%a)\nc: %y = MatMul(%s, %d)");
  add("rows of a table",
      "input %x: float32[N, 3]\nconst %shift: float32[5, 3]\n"
      "const %i: int64[2, 2] = [4, -5, 0, 4]\ng: %g = Gather(%shift, %i)\n"
      "const %s: int64[3] = [1, 4, 3]\nr: %r = Reshape(%g, %s)\n"
      "const %a: int64[1] = [1]\nu: %u = Unsqueeze(%x, %a)\n"
      "c: %y = Mul(%u, %r)");
  add("rows of a table by tokens",
      "input %x: int64[N, 7]\nconst %shift: float32[5, 3]\nc: %y = Gather(%shift, %x)");
  add("rows along another axis",
      "input %x: int64[N, 7]\nconst %shift: float32[2, 5, 3]\n"
      "g: %g = Gather{axis=1}(%shift, %x)\nc: %y = Transpose{perm=[1, 0, 2, 3]}(%g)");
  add("tokens as numbers",
      "input %x: int64[N, 7]\nconst %shift: float32[1, 7]\n"
      "k: %k = Cast{to=1}(%x)\nc: %y = Mul(%k, %shift)");
  add("columns by Gather",
      kImages + "const %i: int64[3] = [2, 0, 2]\nc: %y = Gather{axis=-2}(%d, %i)");
  add("Transpose", kImages + "c: %y = Transpose{perm=[0, 3, 1, 2]}(%d)");
  add("a weight through Reshape and Transpose",
      rows +
          "const %w: float32[2, 15]\nconst %s: int64[2] = [6, 5]\nr: %r = Reshape(%w, %s)\n"
          "t: %t = Transpose(%r)\nc: %y = MatMul(%d, %t)");
  add("sizes of its own",
      kImages +
          "s: %s = Shape{end=2}(%d)\nconst %m: int64[1] = [-1]\n"
          "j: %j = Concat{axis=0}(%s, %m)\nr: %r = Tanh(%d)\nc: %y = Reshape(%r, %j)");
  add("a value that is read twice", rows + "r: %r = Relu(%d)\nc: %y = Mul(%r, %r)");
  const std::string norm = "const %g: float32[C]\nconst %b: float32[C]\n";
  const auto norms = [&](const std::string& name, const std::string& data, const std::string& c,
                         const std::string& axes) {
    const std::string own = std::regex_replace(norm, std::regex("C"), c);
    const std::string plain =
        "const %axes: int64[" + axes +
        "]\nm: %mean = ReduceMean(%d, %axes)\n"
        "s: %off = Sub(%d, %mean)\nq: %square = Mul(%off, %off)\n"
        "v: %var = ReduceMean(%square, %axes)\nconst %e: float32[] = [0.001]\n"
        "e: %more = Add(%var, %e)\nr: %root = Sqrt(%more)\nu: %u = Div(%off, %root)\n";
    const bool image = axes.front() == '3';
    const std::string sizes =
        image ? "const %to: int64[3] = [" + c + ", 1, 1]\n" : "const %to: int64[1] = [" + c + "]\n";
    cases.push_back({name,
                     data + own + "const %m: float32[" + c + "]\nconst %v: float32[" + c +
                         "]\nn: %y = BatchNormalization{epsilon=0.001}(%d, %g, %b, %m, %v)" + end,
                     data + own + plain + sizes +
                         "gs: %gs = Reshape(%g, %to)\nbs: %bs = Reshape(%b, %to)\n"
                         "y1: %scaled = Mul(%u, %gs)\ny2: %y = Add(%scaled, %bs)" +
                         end});
  };
  norms("BatchNormalization of images", kImages, "4", "3] = [0, 2, 3");
  norms("BatchNormalization of rows", Data("6"), "6", "1] = [0");
  return cases;
}

// Zeros become seeded normal values, but in %x and what is no parameter.
std::map<std::string, std::vector<float>> FillConstants(Graph& graph, uint32_t seed) {
  std::map<std::string, std::vector<float>> values;
  for (int i = 0; i < graph.value_count(); ++i) {
    const Value& v = graph.value(ValueId{i});
    if (!v.is_constant() || v.type.dtype != DType::kFloat32) continue;
    Tensor tensor = v.constant.Clone();
    const auto begin = tensor.data<float>(), end = begin + tensor.elements();
    const bool given = std::any_of(begin, end, [](float f) { return f != 0; });
    std::mt19937 random(seed + static_cast<uint32_t>(std::hash<std::string>()(v.name)));
    std::normal_distribution<float> normal(0, 1);
    for (int64_t j = 0; j < tensor.elements() && !given; ++j)
      tensor.mutable_data<float>()[j] = normal(random);
    values[v.name].assign(tensor.data<float>(), tensor.data<float>() + tensor.elements());
    graph.SetConstant(ValueId{i}, std::move(tensor));
  }
  return values;
}

// The factor of each score in the loss, and the sum.
double Factor(int64_t i) { return std::sin(1.0 + 0.7 * static_cast<double>(i)); }

double Linear(std::span<const float> scores, const SampleTarget& target, float factor,
              float* gradient) {
  double sum = 0;
  for (size_t j = 0; j < scores.size(); ++j) {
    const double f =
        Factor(target.label * static_cast<int64_t>(scores.size()) + static_cast<int64_t>(j));
    sum += f * scores[j];
    gradient[j] = static_cast<float>(f * factor);
  }
  return sum;
}
const LossDef kLinearLoss = {
    .name = "linear", .doc = "", .last = "", .real = true, .sample = Linear};

// The same loss in float64, by the definitions of the operators.
class Float64Loss {
 public:
  Float64Loss(const std::string& text, const std::vector<float>& x) {
    std::string wide = std::regex_replace(text, std::regex("float32"), "float64");
    wide = std::regex_replace(wide, std::regex("Cast\\{to=1\\}"), "Cast{to=11}");
    wide = std::regex_replace(wide, std::regex("\\[N,"), fmt::format("[{},", kBatch));
    // The text form has no values of float64.
    const std::regex one("const %(\\w+): (float64\\[[^\\]]*\\]) = \\[([^\\]]*)\\]");
    for (std::sregex_iterator it(wide.begin(), wide.end(), one), end; it != end; ++it) {
      std::istringstream list((*it)[3]);
      for (std::string value; std::getline(list, value, ',');)
        constants_[(*it)[1]].push_back(std::stod(value));
    }
    auto parsed = ParseGraph(std::regex_replace(wide, one, "const %$1: $2"));
    EXPECT_TRUE(parsed) << parsed.error().message();
    graph_ = *std::move(parsed);
    const Status typed = InferTypes(graph_);
    EXPECT_TRUE(typed) << typed.error().message();
    input_ = Tensor::Allocate(graph_.value(graph_.inputs()[0]).type);
    if (input_.dtype() == DType::kInt64) {
      std::copy(x.begin(), x.end(), input_.mutable_data<int64_t>());
    } else {
      std::copy(x.begin(), x.end(), input_.mutable_data<double>());
    }
  }
  void Set(const std::string& name, const std::vector<float>& values) {
    if (graph_.FindValue(name).valid())
      constants_[name] = std::vector<double>(values.begin(), values.end());
  }
  double At(const std::string& name, size_t element, double change) {
    constants_[name][element] += change;
    for (const auto& [constant, values] : constants_) {
      const ValueId id = graph_.FindValue(constant);
      Tensor tensor = Tensor::Allocate(graph_.value(id).type);
      std::copy(values.begin(), values.end(), tensor.mutable_data<double>());
      graph_.SetConstant(id, std::move(tensor));
    }
    constants_[name][element] -= change;
    const auto outputs = EvaluateGraph(graph_, std::vector<Tensor>{input_});
    EXPECT_TRUE(outputs) << outputs.error().message();
    if (!outputs) return 0;
    double sum = 0;
    for (int64_t i = 0; i < outputs->at(0).elements(); ++i)
      sum += Factor(i) * outputs->at(0).data<double>()[i];
    return sum / kBatch;
  }

 private:
  Graph graph_;
  Tensor input_;
  std::map<std::string, std::vector<double>> constants_;
};

class Gradients : public testing::TestWithParam<GradientCase> {};

TEST_P(Gradients, AreThoseOfFloat64Differences) {
  const GradientCase& test = GetParam();
  auto parsed = ParseGraph(test.graph);
  ASSERT_TRUE(parsed) << parsed.error().message() << "\n" << test.graph;
  Graph graph = *std::move(parsed);
  ASSERT_TRUE(InferTypes(graph));
  const auto constants = FillConstants(graph, 1);
  auto plan = MakeTrainingPlan(graph, {.samples = kSamples, .last = ""});
  ASSERT_TRUE(plan) << plan.error().message();
  const int64_t elements = *plan->inputs[0].shape.elements() / kSamples;
  std::mt19937 random(2);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> x(static_cast<size_t>(kBatch * elements));
  const bool tokens = plan->inputs[0].dtype == DType::kInt64;
  for (float& v : x) v = tokens ? static_cast<float>(random() % 5) : normal(random);
  auto learner = Learner::Create(graph, *std::move(plan), kShards, 2, *SelectIsa());
  ASSERT_TRUE(learner) << learner.error().message();
  const auto fill = [&](int64_t sample, std::span<float* const> inputs,
                        std::span<SampleTarget> targets) {
    std::copy_n(x.data() + sample * elements, elements, inputs[0]);
    targets[0].label = sample;
  };
  (*learner)->Compute(fill, {.loss = &kLinearLoss});
  const BatchResult result = (*learner)->Compute(fill, {.loss = &kLinearLoss});  // begins anew
  Float64Loss loss(test.reference.empty() ? test.graph : test.reference, x);
  for (const auto& [name, values] : constants) loss.Set(name, values);
  EXPECT_NEAR(result.loss, loss.At("shift", 0, 0), 1e-5 * (1 + std::fabs(result.loss)));
  std::set<std::string> trained;
  constexpr double kStep = 1e-5;
  for (const TrainedConstant& c : (*learner)->plan().parameters) {
    trained.insert(c.name);
    const float* const got = (*learner)->gradients().data() + c.offset;
    double largest = 0;
    for (int64_t i = 0; i < c.elements; ++i) largest = std::max<double>(largest, std::fabs(got[i]));
    EXPECT_GT(largest, 0) << c.name;
    for (int64_t i = 0; i < c.elements; ++i) {
      const auto at = static_cast<size_t>(i);
      const double wanted =
          (loss.At(c.name, at, kStep) - loss.At(c.name, at, -kStep)) / (2 * kStep);
      ASSERT_NEAR(got[i], wanted, 1e-5 * (largest + 0.1)) << c.name << "[" << i << "]";
    }
  }
  EXPECT_EQ(trained.count("shift"), 1u);
  for (const char* name : {"w", "b", "g"})
    EXPECT_EQ(trained.count(name), constants.count(name)) << name;
}

INSTANTIATE_TEST_SUITE_P(Train, Gradients, testing::ValuesIn(Cases()), [](const auto& info) {
  return std::regex_replace(info.param.name, std::regex("[^A-Za-z0-9]+"), "_") +
         std::to_string(info.index);
});

TEST(GradientList, EveryOperatorHasACase) {
  std::set<std::string> seen;
  for (const GradientCase& test : Cases()) {
    const Graph graph = *ParseGraph(test.graph);
    for (NodeId id : graph.order()) seen.insert(graph.node(id).op);
  }
  std::string last;
  for (const GradientDef* row : AllGradients()) {
    EXPECT_EQ(seen.count(row->op), 1u) << row->op;
    EXPECT_NE(FindOp(row->op, row->domain), nullptr) << row->op;
    EXPECT_LT(last, row->op) << "the list is sorted";
    last = row->op;
  }
}

TEST(Recurrent, SaysWhatItDoesNotTrainAndLeavesAGivenState) {
  const auto text = [](const std::string& attrs, const std::string& more) {
    return "graph g\ninput %x: float32[N, 3, 4]\nt: %t = Transpose{perm=[1, 0, 2]}(%x)\n"
           "const %w: float32[1, 20, 4]\nconst %r: float32[1, 20, 5]\n"
           "const %h0: float32[1, 2, 5]\nconst %p: float32[1, 15]\n"
           "const %short: int32[2] = [3, 2]\nconst %long: int32[2] = [3, 3]\n"
           "c: _, %h = LSTM{hidden_size=5" +
           attrs + "}(%t, %w, %r, _" + more +
           ")\n"
           "b: %y = Transpose{perm=[1, 0, 2]}(%h)\noutput %y\n";
  };
  const auto planned = [&](const std::string& attrs, const std::string& more) {
    auto graph = ParseGraph(text(attrs, more));
    EXPECT_TRUE(graph) << graph.error().message();
    return MakeTrainingPlan(*graph, {.samples = 2, .last = ""});
  };
  for (const auto& [attrs, more, said] :
       {std::tuple("", ", _, _, _, %p", "peepholes"),
        {", clip=2.0", "", "clip"},
        {", input_forget=1", "", "input_forget"},
        {", activations=[\"Relu\", \"Tanh\", \"Tanh\"]", "", "the function relu of its gates"},
        {"", ", %short", "lengths that differ from the 3 steps"}}) {
    const auto plan = planned(attrs, more);
    ASSERT_FALSE(plan) << said;
    EXPECT_NE(plan.error().message().find(said), std::string::npos) << plan.error().message();
  }
  const auto plan = planned("", ", %long, %h0");
  ASSERT_TRUE(plan) << plan.error().message();
  std::vector<std::string> names;
  for (const TrainedConstant& c : plan->parameters) names.push_back(c.name);
  EXPECT_EQ(names, (std::vector<std::string>{"w", "r"}));
}

}  // namespace
}  // namespace evoq
