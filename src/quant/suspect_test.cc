#include "quant/suspect.h"

#include "quant/observer.h"
#include "quant/test_net.h"

namespace evoq {
namespace {

constexpr char kTwoInputs[] = R"(graph two
input %x: float32[1, 2]
input %ids: int64[1, 2]
mul: %y: float32[1, 2] = Mul(%x, %x)
cast: %f: float32[1, 2] = Cast{to=1}(%ids)
add: %z: float32[1, 2] = Add(%y, %f)
output %z
)";

std::vector<std::string> WarningsOf(
    const std::vector<std::pair<std::vector<float>, std::vector<int64_t>>>& samples) {
  const Graph graph = MakeNet(kTwoInputs);
  SampleCheck check(graph);
  for (const auto& [x, ids] : samples) {
    const Tensor inputs[] = {
        Tensor::FromValues<float>(Shape{1, static_cast<int64_t>(x.size())}, x),
        Tensor::FromValues<int64_t>(Shape{1, static_cast<int64_t>(ids.size())}, ids)};
    check.Add(inputs);
  }
  return check.Warnings();
}

void ExpectOne(const std::vector<std::string>& warnings, const std::string& begin,
               const std::string& advice) {
  ASSERT_EQ(warnings.size(), 1) << fmt::format("{}", fmt::join(warnings, "\n"));
  EXPECT_EQ(warnings[0].substr(0, begin.size()), begin);
  EXPECT_NE(warnings[0].find(advice), std::string::npos) << warnings[0];
}

TEST(SampleCheck, HowManySamplesAreDifferent) {
  const char* advice = "calibrate on data as varied as the model will see";
  ExpectOne(WarningsOf({{{1, 2}, {1, 2}}}), "calibration: there is only one sample: ", advice);
  ExpectOne(WarningsOf({{{1, 2}, {1, 2}}, {{1, 2}, {1, 2}}}),
            "calibration: all 2 samples are identical: ", advice);
  // Half of them, rounded down, is too few; one more is not. What differs may be any input.
  ExpectOne(WarningsOf({{{1, 2}, {1, 2}}, {{1, 2}, {1, 2}}, {{1, 2}, {1, 3}}, {{1, 2}, {1, 3}}}),
            "calibration: of 4 samples only 2 are different: ", advice);
  EXPECT_EQ(WarningsOf({{{1, 2}, {1, 2}}, {{1, 2}, {1, 2}}, {{1, 2}, {1, 3}}, {{1, 2}, {1, 4}}}),
            std::vector<std::string>());
  ExpectOne(WarningsOf({{{1, 2}, {1}}, {{1, 2}, {1}}, {{1, 2}, {1}}, {{1, 2}, {1}}, {{1, 3}, {1}}}),
            "calibration: of 5 samples only 2 are different: ", advice);
  EXPECT_EQ(WarningsOf({{{1, 2}, {1}}, {{1, 2}, {1}}, {{1, 2}, {1}}, {{1, 4}, {1}}, {{1, 3}, {1}}}),
            std::vector<std::string>());
  EXPECT_EQ(WarningsOf({{{1, 2}, {1, 2}}, {{1, 3}, {1, 2}}}), std::vector<std::string>());
  EXPECT_EQ(WarningsOf({{{0, 2}, {1}}, {{-0.0f, 2}, {1}}}), std::vector<std::string>())
      << "0 and -0 are other bytes";
}

// The same bytes in another shape are another sample; strings are compared by their characters.
TEST(SampleCheck, ShapesAndStringsTellSamplesApart) {
  const Graph graph = MakeNet(kTwoInputs);
  const auto warnings = [&](const Tensor& first, const Tensor& second) {
    SampleCheck check(graph);
    for (const Tensor* x : {&first, &second})
      check.Add(std::vector{*x, Tensor::FromValues<int64_t>(Shape{1}, {1})});
    return check.Warnings();
  };
  const char* same = "calibration: all 2 samples are identical: ";
  const auto row = [](Shape shape) { return Tensor::FromValues<float>(std::move(shape), {1, 2}); };
  EXPECT_EQ(warnings(row({1, 2}), row({2, 1})), std::vector<std::string>());
  ExpectOne(warnings(row({2, 1}), row({2, 1})), same, "");
  const auto text = [](const std::string& last) {
    Tensor t = Tensor::Allocate(TensorType(DType::kString, Shape{2}));
    t.mutable_data<std::string>()[0] = "a string that is too long to stand in its own object";
    t.mutable_data<std::string>()[1] = last;
    return t;
  };
  ExpectOne(warnings(text("b"), text("b")), same, "");
  EXPECT_EQ(warnings(text("b"), text("c")), std::vector<std::string>());
}

// Samples with fewer or more inputs than the graph, and of types that it does not have, are
// counted; what cannot be read as numbers has no extremes, not even those of the samples before.
TEST(SampleCheck, SamplesThatDoNotFitTheGraph) {
  const Graph graph = MakeNet(
      "graph g\ninput %x: float32[2]\ninput %y: float32[2]\na: %z = Add(%x, %y)\noutput %z\n");
  const Tensor numbers = Tensor::FromValues<float>(Shape{2}, {1, 2});
  const Tensor more = Tensor::FromValues<float>(Shape{2}, {1, 3});
  const Tensor zeros = Tensor::FromValues<float>(Shape{2}, {0, 0});
  const Tensor integers = Tensor::FromValues<int32_t>(Shape{2}, {0, 0});
  const Tensor none = Tensor::FromValues<float>(Shape{0}, {});
  const Tensor text = Tensor::Allocate(TensorType(DType::kString, Shape{2}));
  const auto warnings = [&](const std::vector<std::vector<Tensor>>& samples, size_t inputs) {
    SampleCheck check(graph);
    for (const auto& sample : samples) check.Add(std::span(sample).first(inputs));
    return check.Warnings();
  };
  const char* zero = "calibration: input x is 0 everywhere in every sample: ";
  EXPECT_EQ(warnings({{numbers, zeros}, {more, zeros}}, 1), std::vector<std::string>());
  EXPECT_EQ(warnings({{numbers, numbers, zeros}, {numbers, more, zeros}}, 3),
            std::vector<std::string>());
  ExpectOne(warnings({{zeros, numbers}, {integers, numbers}}, 2), zero, "");
  EXPECT_EQ(warnings({{zeros, numbers}, {text, more}}, 2), std::vector<std::string>());
  EXPECT_EQ(warnings({{zeros, numbers}, {text, more}, {zeros, more}}, 2),
            std::vector<std::string>());
  // Inputs without elements are passed over.
  EXPECT_EQ(warnings({{none, numbers}, {none, more}}, 2), std::vector<std::string>());
  ExpectOne(warnings({{zeros, numbers}, {none, more}}, 2), zero, "");
}

TEST(SampleCheck, ConstantInputs) {
  const char* advice = "look at the samples";
  // Equal everywhere, of all samples.
  ExpectOne(WarningsOf({{{0, 0}, {1, 2}}, {{0, 0}, {3, 4}}}),
            "calibration: input x is 0 everywhere in every sample: ", advice);
  ExpectOne(WarningsOf({{{-1.5f, -1.5f}, {1, 2}}, {{-1.5f, -1.5f}, {3, 4}}}),
            "calibration: input x is -1.5 everywhere in every sample: ", advice);
  ExpectOne(WarningsOf({{{7}, {1}}, {{7}, {3}}}),
            "calibration: input x is 7 everywhere in every sample: ", advice);
  EXPECT_EQ(WarningsOf({{{0, 0}, {1, 2}}, {{0, 1e-20f}, {3, 4}}}), std::vector<std::string>());
  // The extremes are those of all samples, in any order.
  EXPECT_EQ(WarningsOf({{{0, 5}, {1, 2}}, {{0, 0}, {3, 4}}}), std::vector<std::string>());
  EXPECT_EQ(WarningsOf({{{0, 5}, {1, 2}}, {{5, 5}, {3, 4}}}), std::vector<std::string>());
  EXPECT_EQ(WarningsOf({{{0, 0}, {1, 2}}, {{0, 5}, {3, 4}}}), std::vector<std::string>());
  EXPECT_EQ(WarningsOf({{{5, 5}, {1, 2}}, {{0, 5}, {3, 4}}}), std::vector<std::string>());
  // Equal within each sample.
  ExpectOne(WarningsOf({{{1, 1}, {1, 2}}, {{2, 2}, {3, 4}}}),
            "calibration: each sample of input x is one value repeated: ", advice);
  EXPECT_EQ(WarningsOf({{{1, 1}, {1, 2}}, {{2, 3}, {3, 4}}}), std::vector<std::string>());
  EXPECT_EQ(WarningsOf({{{1, 2}, {1, 2}}, {{2, 2}, {3, 4}}}), std::vector<std::string>());
  EXPECT_EQ(WarningsOf({{{1}, {1}}, {{2}, {3}}}), std::vector<std::string>())
      << "an input of one element has one value in each sample";
  // Indices and masks may be constant: x alone is watched. One element of one sample is no
  // evidence.
  EXPECT_EQ(WarningsOf({{{1, 2}, {0, 0}}, {{3, 4}, {0, 0}}}), std::vector<std::string>());
  ExpectOne(WarningsOf({{{7}, {1}}}),
            "calibration: there is only one sample: ", "100 samples are usual");
  // Two faults are two warnings.
  EXPECT_EQ(WarningsOf({{{0, 0}, {0, 0}}, {{0, 0}, {0, 0}}}).size(), 2);
}

TEST(SampleCheck, PixelsAreWatchedToo) {
  for (const auto& [type, watched] : std::vector<std::pair<std::string, bool>>{{"uint8", true},
                                                                               {"int8", true},
                                                                               {"float16", true},
                                                                               {"bfloat16", true},
                                                                               {"float64", true},
                                                                               {"int32", false},
                                                                               {"int16", false},
                                                                               {"uint16", false},
                                                                               {"bool", false}}) {
    const Graph graph = MakeNet(fmt::format(
        "graph g\ninput %x: {}[2]\ni: %y: {}[2] = Identity(%x)\noutput %y\n", type, type));
    SampleCheck check(graph);
    const Tensor zeros = Tensor::Allocate(graph.value(graph.inputs()[0]).type);
    check.Add(std::span(&zeros, 1));
    EXPECT_EQ(check.Warnings().size(), watched ? 2 : 1) << type;
  }
}

TEST(RangeWarnings, WidthsOfZero) {
  const Graph graph = MakeNet(R"(graph widths
input %x: float32[2, 3]
a: %a: float32[2, 3] = Relu(%x)
b: %b: float32[2, 3] = Relu(%a)
c: %c: float32[2, 3] = Relu(%b)
d: %d: float32[2, 3] = Relu(%c)
e: %e: float32[] = ReduceMax{keepdims=0}(%d)
output %d
output %e
)");
  const auto of = [&](const Ranges& ranges) { return RangeWarnings(graph, ranges); };
  EXPECT_TRUE(of({}).empty());
  EXPECT_TRUE(of({{"a", {0, 1}}, {"b", {-1, 0}}, {"c", {1, 1.0000001f}}}).empty());
  // Inputs have a rule of their own; one element has no width; names that are not the graph's are
  // not counted.
  EXPECT_TRUE(of({{"x", {0, 0}}, {"e", {3, 3}}, {"gone", {0, 0}}, {"a", {0, 1}}}).empty());
  ExpectOne(of({{"x", {0, 0}}, {"a", {0, 0}}, {"b", {0, 1}}, {"gone", {1, 1}}}),
            "calibration: 1 of 2 activations are dead, 0 in all samples (a): ",
            "keep their operators in float32 with --exclude");
  ExpectOne(
      of({{"a", {-0.0f, 0}}}),
      "calibration: 1 of 1 activations are dead, 0 in all samples (a): ", "calibrate on such data");
  ExpectOne(of({{"a", {2, 2}}, {"b", {0, 1}}, {"c", {-3, -3}}}),
            "calibration: 2 of 3 activations have one value in all samples (a, c): ",
            "what lies beyond it is cut off");
  ExpectOne(of({{"a", {0, 0}}, {"b", {0, 0}}, {"c", {0, 0}}}),
            "calibration: 3 of 3 activations are dead, 0 in all samples (a, b, c): ", "scale 1");
  ExpectOne(of({{"a", {0, 0}}, {"b", {0, 0}}, {"c", {0, 0}}, {"d", {0, 0}}}),
            "calibration: 4 of 4 activations are dead, 0 in all samples (a, b, c, ...): ", "");
  EXPECT_EQ(of({{"a", {0, 0}}, {"b", {1, 1}}}).size(), 2);
}

// Values whose size is known at run time only may have a width; two elements are enough.
TEST(RangeWarnings, SizesThatAreNotKnown) {
  const Graph graph = MakeNet(
      "graph g\ninput %x: float32[S]\na: %a = Relu(%x)\ninput %two: float32[2]\nb: %b = "
      "Relu(%two)\noutput %a\noutput %b\n");
  ExpectOne(RangeWarnings(graph, {{"a", {0, 0}}, {"b", {0, 0}}}),
            "calibration: 2 of 2 activations are dead, 0 in all samples (a, b): ", "");
}

// A recurrent layer's first state is zeros of a size that the input gives: that is no defect.
TEST(RangeWarnings, WhatDependsOnSizesOnly) {
  const Graph graph = MakeNet(
      "graph g\ninput %x: float32[N, 3]\nconst %zero: float32[1] = [0]\ns: %s = Shape(%x)\nh: %h = "
      "Expand(%zero, %s)\nr: %r = Relu(%h)\na: %a = Relu(%x)\nb: %b = Add(%r, %a)\noutput %b\n");
  const auto of = [&](const Ranges& ranges) { return RangeWarnings(graph, ranges); };
  EXPECT_TRUE(of({{"h", {0, 0}}, {"r", {0, 0}}, {"b", {0, 1}}}).empty());
  ExpectOne(of({{"h", {0, 0}}, {"a", {0, 0}}, {"b", {0, 1}}}),
            "calibration: 1 of 2 activations are dead, 0 in all samples (a): ", "");
}

// The data of the finding: zeros, a constant, one sample repeated.
TEST(RangeWarnings, CalibratingOnZerosWarns) {
  Graph net = MakeNet(kConvNet);
  const auto warnings = [&](const std::function<Tensor(int)>& sample) {
    CalibrationNotes notes;
    const auto ranges = Calibrate(
        net, Reference(),
        [&](const auto& body) -> Status {
          for (int i = 0; i < 6; ++i) {
            const Tensor x = sample(i);
            EVOQ_TRY(body(std::span(&x, 1)));
          }
          return {};
        },
        {}, &notes);
    EXPECT_TRUE(ranges) << ranges.error().message();
    EXPECT_EQ(notes.samples, 6);
    std::string text;
    for (const std::string& w : notes.warnings) text += w.substr(0, w.find(": ", 13)) + "\n";
    return text;
  };
  const auto filled = [&](float value) {
    Tensor x = Tensor::Allocate(net.value(net.inputs()[0]).type);
    std::fill_n(x.mutable_data<float>(), x.elements(), value);
    return x;
  };
  EXPECT_EQ(warnings([&](int) { return filled(0); }),
            "calibration: all 6 samples are identical\ncalibration: input x is 0 everywhere in "
            "every sample\n");
  EXPECT_EQ(warnings([&](int i) { return filled(static_cast<float>(i + 1)); }),
            "calibration: each sample of input x is one value repeated\n");
  EXPECT_EQ(warnings([&](int) { return RandomInput(net, 3); }),
            "calibration: all 6 samples are identical\n");
  EXPECT_EQ(warnings([&](int i) { return RandomInput(net, i); }), "");
  // A stem that never fires: %s is 0.
  Tensor bias = Tensor::Allocate(TensorType(DType::kFloat32, Shape{8}));
  std::fill_n(bias.mutable_data<float>(), 8, -1e6f);
  net.SetConstant(net.FindValue("b1"), bias);
  const std::string dead = warnings([&](int i) { return RandomInput(net, i); });
  EXPECT_EQ(dead.substr(0, 14), "calibration: 2") << dead;
  EXPECT_NE(dead.find("are dead, 0 in all samples (d, s)"), std::string::npos) << dead;
}

// One element of one sample is far beyond all others.
TEST(LoneSample, IsNamedWhereTheRangeGoesByIt) {
  const Graph net = MakeNet(
      "graph g\ninput %x: float32[1, 4]\nr: %y: float32[1, 4] = Relu(%x)\n"
      "a: %z: float32[1, 4] = Add(%y, %y)\noutput %z\n");
  const auto warnings = [&](int samples, float lone, const char* observer) {
    CalibrationNotes notes;
    CalibrationOptions options;
    options.observer = FindObserver(observer);
    const auto ranges = Calibrate(
        net, Reference(),
        [&](const auto& body) -> Status {
          for (int i = 0; i < samples; ++i) {
            const auto f = static_cast<float>(i);
            const Tensor x = Tensor::FromValues<float>(
                Shape{1, 4}, {-1, f / 16, i == 5 ? lone : 0.5f, 1 - f / 32});
            EVOQ_TRY(body(std::span(&x, 1)));
          }
          return {};
        },
        options, &notes);
    EXPECT_TRUE(ranges) << ranges.error().message();
    return notes.warnings;
  };
  for (const char* observer : {"sqnr", "minmax"}) {
    ExpectOne(warnings(8, 1000, observer),
              "calibration: sample 5 (from 0, of 8) alone sets the range of x and of 2 more: 1000, "
              "where all others stay within 1 ",
              "--observer moving-average or average");
  }
  ExpectOne(warnings(8, -1000, "minmax"),
            "calibration: sample 5 (from 0, of 8) alone sets the range of x: 1000, ", "leave");
  EXPECT_TRUE(warnings(8, 9, "minmax").empty());
  EXPECT_TRUE(warnings(7, 1000, "minmax").empty());
  EXPECT_TRUE(warnings(8, 1000, "average").empty());
  EXPECT_TRUE(warnings(8, 1000, "moving-average").empty());
}

}  // namespace
}  // namespace evoq
