// What evaluation costs is drawn on the thread's budget (base/budget_scope.h), also where it
// depends on attributes and data.
#include <cmath>
#include <limits>

#include "base/budget_scope.h"
#include "ops/driver.h"
#include "reference/test_node.h"

namespace evoq {
namespace {

Tensor Ones(Shape shape) {
  Tensor t = Tensor::Allocate(TensorType(DType::kFloat32, std::move(shape)));
  for (int64_t i = 0; i < t.elements(); ++i) t.mutable_data<float>()[i] = 1;
  return t;
}

Tensor Text(const std::string& s) { return Tensor::FromValues<std::string>(Shape{1}, {s}); }

// Each would take a million steps or more for inputs and outputs of a few thousand bytes.
TEST(Budget, WorkBeyondTheSizes) {
  using Ints = std::vector<int64_t>;
  struct Row {
    const char* op;
    std::vector<Tensor> inputs;
    Attrs attrs;
  };
  const std::string long_text(2000, 'x');
  const Row rows[] = {
      {"Einsum", {Ones({100}), Ones({100}), Ones({100})}, With({{"equation", "i,j,k->"}})},
      {"NonMaxSuppression",
       {Ones({1, 1500, 4}), Ones({1, 1, 1500}), Make<int64_t>(Shape{1}, {1500})},
       {}},
      {"Det", {Ones({100, 100})}, {}},
      {"DFT", {Ones({1, 8192, 1}), Tensor(), Make<int64_t>(Shape{}, {1})}, {}},
      {"LRN", {Ones({1, 1000, 1, 1})}, With({{"size", int64_t{1001}}})},
      {"MaxPool", {Ones({1, 1, 2000})}, With({{"kernel_shape", Ints{1000}}})},
      {"AveragePool", {Ones({1, 1, 2000})}, With({{"kernel_shape", Ints{1000}}})},
      {"LpPool", {Ones({1, 1, 2000})}, With({{"kernel_shape", Ints{1000}}})},
      {"GridSample",
       {Ones(Shape(std::vector<int64_t>(18, 1))), Ones(Shape([] {
          std::vector<int64_t> s(18, 1);
          s.back() = 16;
          return s;
        }()))},
       {}},
      {"RoiAlign",
       {Ones({1, 1, 2, 2}), Floats(Shape{1, 4}, {0, 0, 2000, 2000}), Make<int64_t>(Shape{1}, {0})},
       {}},
      {"RoiAlign",
       {Ones({1, 1, 2, 2}), Ones({1, 4}), Make<int64_t>(Shape{1}, {0})},
       With({{"sampling_ratio", int64_t{1000}}})},
      {"DeformConv",
       {Ones({1, 8, 30, 30}), Ones({64, 8, 15, 15}),
        Tensor::Allocate(TensorType(DType::kFloat32, Shape{1, 450, 16, 16}))},
       {}},
      {"RegexFullMatch", {Text(long_text)}, With({{"pattern", "(x{0,400}){1,2}y"}})},
      {"StringNormalizer",
       {Tensor::FromValues<std::string>(Shape{1000}, std::vector<std::string>(1000, "a"))},
       With({{"stopwords", std::vector<std::string>(1000, "b")}})},
      {"TfIdfVectorizer",
       {Make<int64_t>(Shape{500}, std::vector<int64_t>(500, 1))},
       With({{"mode", "TF"},
             {"min_gram_length", int64_t{1}},
             {"max_gram_length", int64_t{20}},
             {"max_skip_count", int64_t{30}},
             {"ngram_counts", Ints{0}},
             {"ngram_indexes", Ints{0}},
             {"pool_int64s", Ints{7}}})},
      {"MatMul", {Ones({100, 100}), Ones({100, 100})}, {}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.op);
    EXPECT_EQ(EvalError(row.op, row.inputs, row.attrs), "");  // a run's work is free
    {
      const BudgetScope scope(Budget(int64_t{1} << 40, int64_t{1} << 40));
      EXPECT_EQ(EvalError(row.op, row.inputs, row.attrs), "");
      EXPECT_GT((int64_t{1} << 40) - scope.budget().work_left(), 900000);
    }
    const BudgetScope scope(Budget(int64_t{1} << 40, 900000));
    EXPECT_NE(EvalError(row.op, row.inputs, row.attrs).find("units of work, expected at most the "),
              std::string::npos)
        << EvalError(row.op, row.inputs, row.attrs);
  }
}

// 100 KB of characters each, by a thousand words of a hundred or by one of them repeated.
TEST(Budget, Characters) {
  const Tensor words = Tensor::FromValues<std::string>(
      Shape{1000}, std::vector<std::string>(1000, std::string(100, 'w')));
  struct Row {
    const char* op;
    std::vector<Tensor> inputs;
    Attrs attrs;
  };
  const Row rows[] = {
      {"StringConcat", {words, Text("")}, {}},
      {"StringConcat",
       {Text(std::string(100, 'w')),
        Tensor::FromValues<std::string>(Shape{1000}, std::vector<std::string>(1000))},
       {}},
      {"Expand", {Text(std::string(100, 'w')), Ints({1000})}, {}},
      {"StringNormalizer", {words}, {}},
      {"StringSplit", {words}, {}}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.op);
    {
      const BudgetScope scope(Budget(1 << 30, int64_t{1} << 40));
      EXPECT_EQ(EvalError(row.op, row.inputs, row.attrs), "");
      EXPECT_GE((1 << 30) - scope.budget().memory_left(), 100000);
    }
    const BudgetScope scope(
        Budget(120000, int64_t{1} << 40));  // 32 KB of them are the strings' own objects
    EXPECT_NE(
        EvalError(row.op, row.inputs, row.attrs).find("bytes of memory, expected at most the "),
        std::string::npos);
  }
}

// 4000 bytes of output; the quarter of 15,996 does not hold them, that of 16,000 does, and they
// come back.
TEST(Budget, AheadTakesAQuarter) {
  const Node node = TestNode("Neg", {}, {true}, 1);
  const std::vector<Tensor> inputs = {Ones({1000})};
  const std::vector<TensorType> types(1);
  {
    const BudgetScope scope(Budget(15996, 1 << 20));
    const auto refused = EvaluateAhead(kReference, node, inputs, types);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), ErrorCode::kTooLarge);
  }
  const BudgetScope scope(Budget(16000, 1 << 20));
  EXPECT_TRUE(EvaluateAhead(kReference, node, inputs, types));
  EXPECT_EQ(scope.budget().memory_left(), 16000);
  EXPECT_LT(scope.budget().work_left(), 1 << 20);
}

// Bytes read and written, 1000 for the node and the products, and no more.
TEST(Budget, WorkOfANode) {
  const auto work = [](const char* op, const std::vector<Tensor>& inputs) {
    const BudgetScope scope(Budget(1 << 20, 1 << 20));
    EXPECT_EQ(EvalError(op, inputs), "");
    return (1 << 20) - scope.budget().work_left();
  };
  EXPECT_EQ(work("Neg", {Ones({1000})}), 4000 + 4000 + 1000);
  EXPECT_EQ(work("MatMul", {Ones({2, 3}), Ones({3, 5})}), (6 + 15 + 10) * 4 + 1000 + 2 * 3 * 5);
}

// 256 for each node, of subgraphs too, and the bytes of the constants.
TEST(Budget, BytesOfAGraph) {
  const auto graph = ParseGraph(
      "input %c: bool[]\nconst %k: float32[3]\nn: %y = If(%c, %k)\n"
      "| graph a\n| input %k: float32[3]\n| m: %z = Neg(%k)\n| output %z\n"
      "| graph b\n| input %k: float32[3]\n| const %l: float32[5]\n| m: %z = Neg(%l)\n"
      "| output %z\noutput %y\n");
  ASSERT_TRUE(graph) << graph.error().message();
  EXPECT_EQ(GraphBytes(*graph), 12 + 256 + 256 + (256 + 20));
}

TEST(Budget, Footprints) {
  EXPECT_EQ(FootprintBytes(Tensor()), 0);
  EXPECT_EQ(FootprintBytes(Ones({3, 2})), 24);
  const int64_t object = sizeof(std::string);
  EXPECT_EQ(FootprintBytes(Tensor::FromValues<std::string>(Shape{2}, {"abc", "de"})),
            2 * object + 5);
  const Tensor list = Tensor::Of(ValueKind::kSequence, TensorType(DType::kFloat32, Shape{2}),
                                 {Ones({2}), Ones({2})});
  EXPECT_EQ(FootprintBytes(list), static_cast<int64_t>(list.bytes()) + 16);
}

// ---- regions that are no numbers

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(Regions, OfNaNAreEmpty) {
  const Tensor x = Floats(Shape{1, 1, 2, 2}, {1, 2, 3, 4}), batch = Make<int64_t>(Shape{1}, {0});
  for (int i = 0; i < 4; ++i) {
    std::vector<float> box = {0, 0, 1, 1};
    box[static_cast<size_t>(i)] = kNan;
    const Tensor y = Eval("RoiAlign", {x, Floats(Shape{1, 4}, box), batch},
                          With({{"output_height", int64_t{2}}, {"output_width", int64_t{1}}}));
    EXPECT_EQ(Values<float>(y), (std::vector<float>{0, 0})) << i;
    std::vector<float> region = {0, 0, 0, 1, 1};
    region[static_cast<size_t>(i) + 1] = kNan;
    const Tensor pooled = Eval("MaxRoiPool", {x, Floats(Shape{1, 5}, region)},
                               With({{"pooled_shape", std::vector<int64_t>{2, 2}}}));
    ASSERT_EQ(pooled.elements(), 4) << i;
    for (float v : Values<float>(pooled)) EXPECT_TRUE(v >= 0 && v <= 4) << v;
  }
}

TEST(Resize, ARegionOfNaNIsRefused) {
  const Tensor x = Floats(Shape{1, 1, 1, 3}, {5, 6, 7}),
               roi = Floats(Shape{8}, {0, 0, 0, kNan, 1, 1, 1, kNan});
  const std::string error = EvalError(
      "Resize", {x, roi, Tensor(), Ints({1, 1, 1, 2})},
      With({{"coordinate_transformation_mode", "tf_crop_and_resize"}, {"mode", "nearest"}}));
  EXPECT_NE(error.find("input 1 has a value that is not finite"), std::string::npos) << error;
}

// ---- int32 with a zero point at the end of its range: dequantized, for there is no integer
// definition

TEST(Add, OfInt32IsThatOfTheRealNumbers) {
  const int32_t high = std::numeric_limits<int32_t>::max();
  const TensorType type(DType::kInt32, Shape{2}, QuantParams::PerTensor(0.5f, high));
  const Tensor a = Make<int32_t>(Shape{2}, {high - 2, high}).WithType(type);
  for (const char* op : {"Add", "Mul"}) {
    const auto y = EvalAll(op, {a, a}, {}, {TensorType(DType::kFloat32, Shape::UnknownRank())});
    ASSERT_TRUE(y) << y.error().message();
    EXPECT_EQ(Values<float>((*y)[0]),
              op == std::string("Add") ? (std::vector<float>{-2, 0}) : (std::vector<float>{1, 0}));
  }
}

// ---- RegexFullMatch: RE2's syntax on UTF-8

TEST(Regex, WholeStringsMatch) {
  const auto matches = [](const std::string& pattern, const std::string& text) {
    const Tensor y = Eval("RegexFullMatch", {Text(text)}, With({{"pattern", pattern}}));
    return y.defined() && y.data<bool>()[0];
  };
  EXPECT_TRUE(matches("a+b?", "aaab"));
  EXPECT_FALSE(matches("a+b?", "aaabb"));  // a part does not count
  EXPECT_TRUE(matches(".", "ü"));          // one character of two bytes
  EXPECT_TRUE(matches("", ""));
  EXPECT_TRUE(matches("(?i)ABC", "abc"));
  EXPECT_TRUE(matches("\\d{2,3}|x", "123"));
}

TEST(Regex, BadPatternsAreRefused) {
  const auto error = [](const std::string& pattern) {
    return EvalError("RegexFullMatch", {Text("x")}, With({{"pattern", pattern}}));
  };
  EXPECT_NE(error("(a").find("attribute pattern: missing )"), std::string::npos) << error("(a");
  EXPECT_NE(error("((a{900}){900}){900}").find("attribute pattern: "),
            std::string::npos);  // too large, without a word on stderr
}

}  // namespace
}  // namespace evoq
