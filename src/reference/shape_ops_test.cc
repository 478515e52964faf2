// Operators that move values or make them from shapes.
#include <limits>

#include "reference/test_node.h"

namespace evoq {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max(),
                  kMin = std::numeric_limits<int64_t>::min();

TensorType F(Shape shape) { return TensorType(DType::kFloat32, std::move(shape)); }
TensorType I(Shape shape) { return TensorType(DType::kInt64, std::move(shape)); }
Shape Sym(const std::string& name, std::vector<Dim> rest) {
  rest.insert(rest.begin(), Dim::Symbolic(name));
  return Shape(std::move(rest));
}
Tensor Iota(Shape shape) {
  Tensor t = Tensor::Allocate(F(std::move(shape)));
  for (int64_t i = 0; i < t.elements(); ++i) t.mutable_data<float>()[i] = static_cast<float>(i);
  return t;
}

TEST(Reshape, SymbolsAndHoles) {
  const TensorType x = F(Sym("N", {64, 8, 8}));
  const auto reshape = [&](std::vector<int64_t> shape, Attrs attrs = {}) {
    return InferText("Reshape", {x, I({1})}, {Tensor(), Ints(shape)}, std::move(attrs));
  };
  EXPECT_EQ(reshape({0, -1}), "float32[N, 4096]");
  EXPECT_EQ(reshape({-1, 4096}), "float32[N, 4096]");
  EXPECT_EQ(reshape({-1, 64}), "float32[?, 64]");
  EXPECT_EQ(reshape({1, -1}), "float32[1, ?]");
  EXPECT_EQ(reshape({-1, -1}), "node n (Reshape): input 1 (shape) [-1, -1] has more than one -1");
  EXPECT_EQ(reshape({-2}),
            "node n (Reshape): input 1 (shape) has the dimension -2, expected -1, 0 or a size");
  EXPECT_EQ(InferText("Reshape", {F({2, 3}), I({2})}), "float32[?, ?]");
  EXPECT_EQ(Eval("Reshape", {Iota({2, 3}), Ints({3, -1})}).sizes(), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(EvalError("Reshape", {Iota({2, 3}), Ints({4, -1})}),
            "node n (Reshape): cannot reshape [2, 3] to [4, ?]");
  EXPECT_EQ(EvalError("Reshape", {Iota({2, 3}), Ints({5})}),
            "node n (Reshape): cannot reshape [2, 3] to [5]");
  EXPECT_EQ(Eval("Reshape", {Iota({0, 3}), Ints({3, 0})}, With("allowzero", int64_t{1})).sizes(),
            (std::vector<int64_t>{3, 0}));
}

TEST(Views, FlattenSqueezeUnsqueeze) {
  EXPECT_EQ(InferText("Flatten", {F(Sym("N", {3, 4}))}), "float32[N, 12]");
  EXPECT_EQ(InferText("Flatten", {F(Sym("N", {3, 4}))}, {}, With("axis", int64_t{0})),
            "float32[1, ?]");
  EXPECT_EQ(InferText("Squeeze", {F(Sym("N", {1, 4})), I({1})}, {Tensor(), Ints({-2})}),
            "float32[N, 4]");
  EXPECT_EQ(InferText("Squeeze", {F(Sym("N", {1, 4})), I({1})}, {Tensor(), Ints({2})}),
            "node n (Squeeze): cannot squeeze axis 2 of [N, 1, 4]: its size is not 1");
  EXPECT_EQ(Eval("Squeeze", {Iota({1, 2, 1})}).sizes(), (std::vector<int64_t>{2}));
  EXPECT_EQ(InferText("Unsqueeze", {F(Sym("N", {4})), I({2})}, {Tensor(), Ints({0, -1})}),
            "float32[1, N, 4, 1]");
  EXPECT_EQ(EvalError("Unsqueeze", {Iota({2}), Ints({0, 0})}),
            "node n (Unsqueeze): axis 0 is named twice");
  EXPECT_EQ(Values<float>(Eval("Identity", {Iota({2})})), (std::vector<float>{0, 1}));
}

TEST(Transpose, ValuesAndSymbols) {
  EXPECT_EQ(Values<float>(Eval("Transpose", {Iota({2, 3})})),
            (std::vector<float>{0, 3, 1, 4, 2, 5}));
  const Attrs perm = With("perm", std::vector<int64_t>{1, 2, 0});
  EXPECT_EQ(Values<float>(Eval("Transpose", {Iota({2, 2, 2})}, perm)),
            (std::vector<float>{0, 4, 1, 5, 2, 6, 3, 7}));
  EXPECT_EQ(InferText("Transpose", {F(Sym("N", {3, 4}))}, {}, perm), "float32[3, 4, N]");
  EXPECT_EQ(InferText("Transpose", {F({2, 3})}, {}, perm),
            "node n (Transpose): perm [1, 2, 0] is not a permutation of 2 axes");
}

TEST(Slice, StepsAndClamping) {
  const Tensor x = Iota({2, 4});
  EXPECT_EQ(Values<float>(Eval("Slice", {x, Ints({1}), Ints({kMax}), Ints({1}), Ints({2})})),
            (std::vector<float>{1, 3, 5, 7}));
  EXPECT_EQ(Values<float>(Eval(
                "Slice", {x, Ints({-1, kMax}), Ints({kMin, kMin}), Ints({0, 1}), Ints({-1, -3})})),
            (std::vector<float>{7, 4, 3, 0}));
  EXPECT_EQ(Eval("Slice", {x, Ints({3}), Ints({1}), Ints({1})}).sizes(),
            (std::vector<int64_t>{2, 0}));
  EXPECT_EQ(Values<float>(Eval("Slice", {x, Ints({0}), Ints({4}), Ints({1}), Ints({kMax})})),
            (std::vector<float>{0, 4}));
  EXPECT_EQ(Values<float>(Eval("Slice", {x, Ints({3}), Ints({kMin}), Ints({1}), Ints({kMin})})),
            (std::vector<float>{3, 7}));
  EXPECT_EQ(EvalError("Slice", {x, Ints({0}), Ints({1}), Ints({1}), Ints({0})}),
            "node n (Slice): input 4 (steps) is 0 for axis 1");
  EXPECT_EQ(EvalError("Slice", {x, Ints({0}), Ints({1, 2})}),
            "node n (Slice): 1 starts, 2 ends, 1 axes, 1 steps: expected equal counts");
  const TensorType s = F(Sym("N", {8}));
  EXPECT_EQ(
      InferText("Slice", {s, I({1}), I({1}), I({1})}, {Tensor(), Ints({2}), Ints({-1}), Ints({1})}),
      "float32[N, 5]");
  EXPECT_EQ(InferText("Slice", {s, I({1}), I({1}), I({1})},
                      {Tensor(), Ints({0}), Ints({kMax}), Ints({0})}),
            "float32[N, 8]");
  EXPECT_EQ(InferText("Slice", {s, I({1}), I({1}), I({1})},
                      {Tensor(), Ints({1}), Ints({kMax}), Ints({0})}),
            "float32[?, 8]");
}

TEST(ConcatSplit, Values) {
  const Tensor a = Iota({2, 1}), b = Iota({2, 2});
  EXPECT_EQ(Values<float>(Eval("Concat", {a, b}, With("axis", int64_t{-1}))),
            (std::vector<float>{0, 0, 1, 1, 2, 3}));
  EXPECT_EQ(EvalError("Concat", {a, b}, With("axis", int64_t{0})),
            "node n (Concat): input 1 is [2, 2]: its size on axis 1 differs from 1");
  EXPECT_EQ(EvalError("Concat", {a, b}), "node n (Concat): attribute axis is missing");
  EXPECT_EQ(InferText("Concat", {F(Sym("N", {2})), F(Sym("N", {3}))}, {}, With("axis", int64_t{1})),
            "float32[N, 5]");
  const auto split = EvalAll("Split", {Iota({5})}, {}, {TensorType(), TensorType()});
  ASSERT_TRUE(split.has_value());
  EXPECT_EQ(Values<float>((*split)[0]), (std::vector<float>{0, 1, 2}));
  EXPECT_EQ(Values<float>((*split)[1]), (std::vector<float>{3, 4}));
  const auto sized = EvalAll("Split", {Iota({2, 3}), Ints({1, 2})}, With("axis", int64_t{1}),
                             {TensorType(), TensorType()});
  ASSERT_TRUE(sized.has_value());
  EXPECT_EQ(Values<float>((*sized)[1]), (std::vector<float>{1, 2, 4, 5}));
  EXPECT_EQ(EvalError("Split", {Iota({3}), Ints({2})}),
            "node n (Split): input 1 (split) adds up to 2, expected 3");
}

TEST(Pad, Modes) {
  const Tensor x = Floats({3}, {1, 2, 3});
  const auto pad = [&](const char* mode, std::vector<int64_t> pads) {
    Attrs attrs;
    attrs.Set("mode", mode);
    return Values<float>(Eval("Pad", {x, Ints(pads)}, attrs));
  };
  EXPECT_EQ(pad("constant", {1, 2}), (std::vector<float>{0, 1, 2, 3, 0, 0}));
  EXPECT_EQ(pad("constant", {-1, 1}), (std::vector<float>{2, 3, 0}));
  EXPECT_EQ(pad("edge", {2, 1}), (std::vector<float>{1, 1, 1, 2, 3, 3}));
  EXPECT_EQ(pad("reflect", {4, 2}), (std::vector<float>{1, 2, 3, 2, 1, 2, 3, 2, 1}));
  EXPECT_EQ(pad("wrap", {2, 1}), (std::vector<float>{2, 3, 1, 2, 3, 1}));
  EXPECT_EQ(
      Values<float>(Eval("Pad", {Iota({1, 2}), Ints({1, 0}), Tensor::Scalar(9.0f), Ints({-1})})),
      (std::vector<float>{9, 0, 1}));
  EXPECT_EQ(EvalError("Pad", {x, Ints({int64_t{1} << 40, 0})}),
            "node n (Pad): output 0 would be float32[1099511627779], more than 274877906944 bytes");
  EXPECT_EQ(InferText("Pad", {F(Sym("N", {3})), I({4})}, {Tensor(), Ints({0, 1, 0, 1})}),
            "float32[N, 5]");
  // Quantized: the fill is the quantized value.
  const TensorType type(DType::kUint8, Shape{1}, QuantParams::PerTensor(0.5f, 10));
  const Tensor q = Make<uint8_t>({1}, {77}).WithType(type);
  const auto y = EvalAll("Pad", {q, Ints({1, 1}), Tensor::Scalar(1.0f)}, {}, {type});
  ASSERT_TRUE(y.has_value()) << y.error().message();
  EXPECT_EQ(Values<uint8_t>((*y)[0]), (std::vector<uint8_t>{12, 77, 12}));
}

TEST(Gather, IndicesAreChecked) {
  const Tensor x = Iota({3, 2});
  EXPECT_EQ(Values<float>(Eval("Gather", {x, Ints({2, -3})})), (std::vector<float>{4, 5, 0, 1}));
  EXPECT_EQ(
      Values<float>(Eval("Gather", {x, Tensor::Scalar<int64_t>(1)}, With("axis", int64_t{1}))),
      (std::vector<float>{1, 3, 5}));
  EXPECT_EQ(EvalError("Gather", {x, Ints({3})}),
            "node n (Gather): input 1 (indices): index 3 is outside [-3, 3)");
  EXPECT_EQ(EvalError("Gather", {x, Floats({1}, {0})}),
            "node n (Gather): input 1 is float32[1], expected int32 or int64");
  EXPECT_EQ(InferText("Gather", {F(Sym("V", {64})), I(Sym("S", {7}))}), "float32[S, 7, 64]");
  const Tensor rows = Make<int64_t>({1, 2}, {2, 0});
  EXPECT_EQ(Values<float>(Eval("GatherElements", {x, rows})), (std::vector<float>{4, 1}));
  EXPECT_NE(EvalError("GatherElements", {x, Make<int64_t>({1, 3}, {0, 0, 0})}), "");
  EXPECT_EQ(Values<float>(Eval("GatherND", {x, Make<int64_t>({2, 2}, {0, 1, -1, 0})})),
            (std::vector<float>{1, 4}));
  EXPECT_EQ(Values<float>(Eval("GatherND", {x, Make<int64_t>({3, 1}, {1, 0, 1})},
                               With("batch_dims", int64_t{1}))),
            (std::vector<float>{1, 2, 5}));
  EXPECT_EQ(EvalError("GatherND", {x, Make<int64_t>({1, 2}, {0, 2})}),
            "node n (GatherND): index 2 is outside [-2, 2)");
}

TEST(Grown, ExpandTileRangeAreBounded) {
  EXPECT_EQ(Values<float>(Eval("Expand", {Floats({2, 1}, {1, 2}), Ints({2})})),
            (std::vector<float>{1, 1, 2, 2}));
  EXPECT_EQ(Values<float>(Eval("Tile", {Floats({1, 2}, {1, 2}), Ints({2, 2})})),
            (std::vector<float>{1, 2, 1, 2, 1, 2, 1, 2}));
  EXPECT_EQ(Values<int64_t>(Eval("Range", {Tensor::Scalar<int64_t>(10), Tensor::Scalar<int64_t>(3),
                                           Tensor::Scalar<int64_t>(-3)})),
            (std::vector<int64_t>{10, 7, 4}));
  EXPECT_EQ(Values<float>(
                Eval("Range", {Tensor::Scalar(1.0f), Tensor::Scalar(2.0f), Tensor::Scalar(0.5f)})),
            (std::vector<float>{1, 1.5f}));
  const Tensor huge = Ints({1 << 20, 1 << 10, 1});
  for (const auto& [op, inputs] : std::vector<std::pair<std::string, std::vector<Tensor>>>{
           {"Expand", {Tensor::Scalar(1.0f), huge}},
           {"Tile", {Iota({1, 1, 1}), huge}},
           {"ConstantOfShape", {huge}},
           {"Range",
            {Tensor::Scalar<int64_t>(0), Tensor::Scalar<int64_t>(int64_t{1} << 30),
             Tensor::Scalar<int64_t>(1)}}}) {
    const auto result = EvalAll(op, inputs);
    ASSERT_FALSE(result.has_value()) << op;
    EXPECT_EQ(result.error().code(), ErrorCode::kTooLarge) << op;
  }
  const Tensor low = Tensor::Scalar(kMin), high = Tensor::Scalar(kMax),
               one = Tensor::Scalar<int64_t>(1);
  EXPECT_NE(EvalError("Range", {low, high, one}), "");
  EXPECT_NE(EvalError("Range", {Tensor::Scalar(0.0f), Tensor::Scalar(1.0f), Tensor::Scalar(0.0f)}),
            "");
}

TEST(Generate, ShapeSizeEye) {
  EXPECT_EQ(Values<int64_t>(Eval("Shape", {Iota({2, 3, 4})})), (std::vector<int64_t>{2, 3, 4}));
  Attrs range;
  range.Set("start", 1);
  range.Set("end", -1);
  EXPECT_EQ(Values<int64_t>(Eval("Shape", {Iota({2, 3, 4})}, range)), (std::vector<int64_t>{3}));
  EXPECT_EQ(Values<int64_t>(Eval("Size", {Iota({2, 3})})), (std::vector<int64_t>{6}));
  EXPECT_EQ(
      Values<int64_t>(Eval("ConstantOfShape", {Ints({2})}, With("value", Make<int64_t>({1}, {7})))),
      (std::vector<int64_t>{7, 7}));
  EXPECT_EQ(Values<float>(Eval("EyeLike", {Iota({2, 3})}, With("k", int64_t{1}))),
            (std::vector<float>{0, 1, 0, 0, 0, 1}));
  EXPECT_EQ(Values<float>(Eval("EyeLike", {Iota({2, 2})}, With("k", int64_t{kMin}))),
            (std::vector<float>{0, 0, 0, 0}));
}

}  // namespace
}  // namespace evoq
