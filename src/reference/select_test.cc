// Operators that write by index, select by data, or rearrange along an axis.
#include <cmath>
#include <limits>

#include "reference/test_node.h"
#include "tensor/test_attrs.h"

namespace evoq {
namespace {

TEST(Scatter, ElementsAndND) {
  const Tensor x = Floats({2, 2}, {1, 2, 3, 4});
  const Tensor at = Make<int64_t>({1, 2}, {1, -2}), updates = Floats({1, 2}, {10, 20});
  EXPECT_EQ(Values<float>(Eval("ScatterElements", {x, at, updates})),
            (std::vector<float>{1, 20, 10, 4}));
  EXPECT_EQ(Values<float>(Eval("Scatter", {x, at, updates}, With("reduction", std::string("add")))),
            (std::vector<float>{1, 22, 13, 4}));
  EXPECT_EQ(Values<float>(x), (std::vector<float>{1, 2, 3, 4}));  // the input is untouched
  EXPECT_EQ(EvalError("ScatterElements", {x, Make<int64_t>({1, 2}, {2, 0}), updates}),
            "node n (ScatterElements): input 1 (indices): index 2 is outside [-2, 2)");
  EXPECT_EQ(EvalError("ScatterElements", {x, at, Floats({1, 1}, {1})}),
            "node n (ScatterElements): updates [1, 1] differ from indices [1, 2]");
  EXPECT_EQ(EvalError("ScatterElements", {x, at, updates}, With("reduction", std::string("avg"))),
            "node n (ScatterElements): reduction is 'avg', expected none, add, mul, max or min");
  const Tensor row = Make<int64_t>({2, 1}, {1, 1});
  EXPECT_EQ(Values<float>(Eval("ScatterND", {x, row, Floats({2, 2}, {5, 1, 2, 9})},
                               With("reduction", std::string("max")))),
            (std::vector<float>{1, 2, 5, 9}));
  EXPECT_EQ(EvalError("ScatterND", {x, row, Floats({2}, {5, 1})}),
            "node n (ScatterND): updates are [2], expected [2, 2]");
  EXPECT_EQ(EvalError("ScatterND", {x, Make<int64_t>({1, 1}, {-3}), Floats({1, 2}, {5, 1})}),
            "node n (ScatterND): index -3 is outside [-2, 2)");
}

TEST(Select, CompressNonZero) {
  const Tensor x = Floats({2, 3}, {1, 0, 3, 0, 5, 6});
  const Tensor condition = Make<bool>({3}, {true, false, true});
  EXPECT_EQ(Values<float>(Eval("Compress", {x, condition}, With("axis", int64_t{1}))),
            (std::vector<float>{1, 3, 0, 6}));
  EXPECT_EQ(Values<float>(Eval("Compress", {x, condition})), (std::vector<float>{1, 3}));
  EXPECT_EQ(EvalError("Compress", {x, condition}, With("axis", int64_t{0})),
            "node n (Compress): input 1 (condition) selects 2, the axis has 2");
  const Tensor found = Eval("NonZero", {x});
  EXPECT_EQ(found.sizes(), (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(Values<int64_t>(found), (std::vector<int64_t>{0, 0, 1, 1, 0, 2, 1, 2}));
  EXPECT_EQ(InferText("NonZero", {TensorType(DType::kFloat32, Shape{2, 3})}), "int64[2, ?]");
}

TEST(Select, TopK) {
  const float nan = std::nanf("");
  const Tensor x = Floats({2, 4}, {3, 1, 3, 2, nan, 0, 5, -1});
  const auto top = EvalAll("TopK", {x, Ints({2})}, {}, {TensorType(), TensorType()});
  ASSERT_TRUE(top.has_value()) << top.error().message();
  EXPECT_EQ(Values<int64_t>((*top)[1]), (std::vector<int64_t>{0, 2, 0, 2}));
  const auto low =
      EvalAll("TopK", {x, Ints({1})}, With("largest", int64_t{0}), {TensorType(), TensorType()});
  ASSERT_TRUE(low.has_value());
  EXPECT_EQ(Values<float>((*low)[0]), (std::vector<float>{1, -1}));
  EXPECT_EQ(EvalError("TopK", {x, Ints({5})}), "node n (TopK): k is 5 on axis 1 of [2, 4]");
}

TEST(Select, Unique) {
  const std::vector<TensorType> four(4);
  const auto u = EvalAll("Unique", {Floats({5}, {2, 1, 2, 3, 1})}, {}, four);
  ASSERT_TRUE(u.has_value()) << u.error().message();
  EXPECT_EQ(Values<float>((*u)[0]), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(Values<int64_t>((*u)[1]), (std::vector<int64_t>{1, 0, 3}));
  EXPECT_EQ(Values<int64_t>((*u)[2]), (std::vector<int64_t>{1, 0, 1, 2, 0}));
  EXPECT_EQ(Values<int64_t>((*u)[3]), (std::vector<int64_t>{2, 2, 1}));
  EXPECT_EQ(Values<float>(Eval("Unique", {Floats({3}, {2, 1, 2})}, With("sorted", int64_t{0}))),
            (std::vector<float>{2, 1}));
  const Tensor columns =
      Eval("Unique", {Floats({2, 3}, {1, 0, 1, 2, 5, 2})}, With("axis", int64_t{1}));
  EXPECT_EQ(Values<float>(columns), (std::vector<float>{0, 1, 5, 2}));
}

TEST(Arrange, CumSum) {
  const Tensor x = Floats({2, 3}, {1, 2, 3, 4, 5, 6}), axis = Tensor::Scalar<int32_t>(1);
  EXPECT_EQ(Values<float>(Eval("CumSum", {x, axis})), (std::vector<float>{1, 3, 6, 4, 9, 15}));
  Attrs attrs = With("exclusive", int64_t{1});
  attrs.Set("reverse", 1);
  EXPECT_EQ(Values<float>(Eval("CumSum", {x, axis}, attrs)),
            (std::vector<float>{5, 3, 0, 11, 6, 0}));
  EXPECT_EQ(Values<float>(Eval("CumProd", {x, axis})), (std::vector<float>{1, 2, 6, 4, 20, 120}));
  EXPECT_EQ(EvalError("CumSum", {x, Tensor::Scalar<int32_t>(2)}),
            "node n (CumSum): axis 2 is outside [-2, 2)");
}

TEST(Arrange, ReverseSequence) {
  const Tensor x = Floats({3, 2}, {0, 1, 2, 3, 4, 5});
  EXPECT_EQ(Values<float>(Eval("ReverseSequence", {x, Ints({3, 2})})),
            (std::vector<float>{4, 3, 2, 1, 0, 5}));
  EXPECT_EQ(EvalError("ReverseSequence", {x, Ints({4, 2})}),
            "node n (ReverseSequence): length 4 of batch entry 0 is outside [0, 3]");
}

TEST(Arrange, OneHotAndTrilu) {
  const Tensor on_off = Floats({2}, {0, 1});
  const Tensor hot = Eval("OneHot", {Ints({1, -1, 7}), Tensor::Scalar<int64_t>(3), on_off});
  EXPECT_EQ(Values<float>(hot), (std::vector<float>{0, 1, 0, 0, 0, 1, 0, 0, 0}));
  const Tensor first =
      Eval("OneHot", {Floats({2}, {0, 1}), Tensor::Scalar(2.0f), on_off}, With("axis", int64_t{0}));
  EXPECT_EQ(Values<float>(first), (std::vector<float>{1, 0, 0, 1}));
  EXPECT_NE(EvalError("OneHot", {Ints({0}), Tensor::Scalar<int64_t>(int64_t{1} << 40), on_off}),
            "");
  const Tensor x = Floats({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(Values<float>(Eval("Trilu", {x})), (std::vector<float>{1, 2, 3, 0, 5, 6}));
  EXPECT_EQ(
      Values<float>(Eval("Trilu", {x, Tensor::Scalar<int64_t>(-1)}, With("upper", int64_t{0}))),
      (std::vector<float>{0, 0, 0, 4, 0, 0}));
  const Tensor far = Tensor::Scalar(std::numeric_limits<int64_t>::max());
  EXPECT_EQ(Values<float>(Eval("Trilu", {x, far})), (std::vector<float>(6, 0)));
}

}  // namespace
}  // namespace evoq
