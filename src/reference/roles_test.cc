// What rows say of operators, compared with what the operators compute.
#include "ops/roles.h"

#include "reference/test_node.h"

namespace evoq {
namespace {

Node NodeOf(const std::string& op, const std::string& domain = "", Attrs attrs = {}) {
  Node node = TestNode(op, std::move(attrs), {true, true}, 1);
  node.domain = domain;
  return node;
}

Tensor Zeros(std::vector<int64_t> sizes) {
  Tensor t = Tensor::Allocate(TensorType(DType::kFloat32, Shape(sizes)));
  std::fill_n(t.mutable_data<float>(), t.elements(), 0.0f);
  return t;
}

struct ProductCase {
  const char* op;
  Attrs attrs;
  std::vector<int64_t> x, w;
  int channel_axis;  // of x and y
  int64_t outputs, inputs, groups, taps;
};

std::vector<ProductCase> ProductCases() {
  const auto groups = [](int64_t n) { return With("group", AttrValue(n)); };
  return {
      {"Conv", {}, {1, 3, 4, 5}, {2, 3, 2, 2}, 1, 2, 3, 1, 4},
      {"Conv", groups(2), {1, 4, 3, 3}, {6, 2, 1, 2}, 1, 6, 2, 2, 2},
      {"Conv", groups(3), {1, 3, 7}, {3, 1, 2}, 1, 3, 1, 3, 2},
      {"ConvTranspose", {}, {1, 3, 2, 2}, {3, 2, 2, 2}, 1, 2, 3, 1, 4},
      {"ConvTranspose", groups(2), {1, 4, 3}, {4, 3, 2}, 1, 6, 2, 2, 2},
      {"MatMul", {}, {2, 3}, {3, 4}, 1, 4, 3, 1, 1},
      {"Gemm", {}, {2, 3}, {3, 4}, 1, 4, 3, 1, 1},
      {"Gemm", With("transB", AttrValue(int64_t{1})), {2, 3}, {4, 3}, 1, 4, 3, 1, 1},
  };
}

// A weight that is 1 in one element and 0 elsewhere lets the channel that WeightIndex names through
// to the output channel that it names, and nothing else.
TEST(Roles, WeightIndexIsWhatTheOperatorComputes) {
  for (const ProductCase& c : ProductCases()) {
    SCOPED_TRACE(std::string(c.op) + " " + Shape(c.w).ToString());
    const Node node = NodeOf(c.op, "", c.attrs);
    const WeightIndex index(node, c.w);
    EXPECT_EQ(index.outputs(), c.outputs);
    EXPECT_EQ(index.inputs(), c.inputs);
    EXPECT_EQ(index.groups(), c.groups);
    EXPECT_EQ(index.taps(), c.taps);
    EXPECT_EQ(ChannelAxis(node, static_cast<int>(c.x.size())), c.channel_axis);
    // Channel k of x is k + 1 everywhere.
    Tensor x = Zeros(c.x);
    int64_t inner = 1;
    for (size_t i = c.channel_axis + 1; i < c.x.size(); ++i) inner *= c.x[i];
    for (int64_t i = 0; i < x.elements(); ++i)
      x.mutable_data<float>()[i] = static_cast<float>(i / inner % c.x[c.channel_axis] + 1);
    for (int64_t i = 0; i < Zeros(c.w).elements(); ++i) {
      Tensor w = Zeros(c.w);
      w.mutable_data<float>()[i] = 1;
      const Tensor y = Eval(c.op, {x, w}, c.attrs);
      const std::vector<int64_t> sizes = y.sizes();
      ASSERT_EQ(sizes[c.channel_axis], c.outputs);
      int64_t behind = 1;
      for (size_t d = c.channel_axis + 1; d < sizes.size(); ++d) behind *= sizes[d];
      for (int64_t k = 0; k < y.elements(); ++k) {
        const float value = y.data<float>()[k];
        if (value == 0) continue;
        EXPECT_EQ(k / behind % c.outputs, index.OutputOf(i)) << "element " << i;
        EXPECT_EQ(value, static_cast<float>(index.InputOf(i) + 1)) << "element " << i;
      }
      float sum = 0;
      for (int64_t k = 0; k < y.elements(); ++k) sum += y.data<float>()[k];
      EXPECT_GT(sum, 0) << "element " << i << " reaches no output";
    }
  }
}

TEST(Roles, AxisOfOutputChannelsInTheWeight) {
  const Attrs transposed = With("transB", AttrValue(int64_t{1})),
              grouped = With("group", AttrValue(int64_t{2}));
  EXPECT_EQ(WeightAxis(NodeOf("Conv"), 4), 0);
  EXPECT_EQ(WeightAxis(NodeOf("ConvInteger"), 3), 0);
  EXPECT_EQ(WeightAxis(NodeOf("DynamicConv", "evoq"), 4), 0);
  EXPECT_EQ(WeightAxis(NodeOf("ConvTranspose"), 4), 1);
  EXPECT_EQ(WeightAxis(NodeOf("MatMul"), 2), 1);
  EXPECT_EQ(WeightAxis(NodeOf("MatMul"), 3), 2);
  EXPECT_EQ(WeightAxis(NodeOf("MatMulInteger"), 2), 1);
  EXPECT_EQ(WeightAxis(NodeOf("Gemm"), 2), 1);
  EXPECT_EQ(WeightAxis(NodeOf("Gemm", "", transposed), 2), 0);
  EXPECT_EQ(ChannelAxis(NodeOf("MatMul"), 3), 2);
  EXPECT_EQ(ChannelAxis(NodeOf("ConvTranspose"), 5), 1);
  EXPECT_TRUE(HasOneOutputAxis(NodeOf("Conv", "", grouped)));
  EXPECT_TRUE(HasOneOutputAxis(NodeOf("ConvTranspose")));
  EXPECT_FALSE(HasOneOutputAxis(NodeOf("ConvTranspose", "", grouped)));
}

// By ONNX's and evoq's specifications of the operators.
TEST(Roles, KindsOfOperators) {
  const auto with = [](bool (*holds)(const Node&)) {
    std::string names;
    for (const OpDef* op : AllOps()) {
      if (holds(NodeOf(op->name, op->domain))) names += std::string(op->name) + " ";
    }
    return names;
  };
  EXPECT_EQ(with(IsWeighted), "Conv ConvTranspose Gemm MatMul ");
  EXPECT_EQ(with(IsLinear), "Conv ConvTranspose MatMul ");
  EXPECT_EQ(with(HasRealWeights), "Conv ConvTranspose GRU Gemm LSTM MatMul RNN ");
  EXPECT_EQ(with(IsConversion), "Cast CastLike DequantizeLinear QuantizeLinear ");
  EXPECT_EQ(with(IsQuantize), "QuantizeLinear ");
  EXPECT_EQ(with(IsDequantize), "DequantizeLinear ");
  EXPECT_EQ(with([](const Node& node) { return QuantizesOrDequantizes(FindOp(node)); }),
            "DequantizeLinear DynamicQuantizeLinear QuantizeLinear DynamicQuantizeBytes "
            "QuantizeBytes ");
  EXPECT_FALSE(QuantizesOrDequantizes(nullptr));
  EXPECT_FALSE(IsLinear(NodeOf("Conv", "another.domain")));
  EXPECT_FALSE(IsConversion(NodeOf("NoSuchOperator")));
  EXPECT_EQ(LinearFormOf(NodeOf("NoSuchOperator")), nullptr);
  EXPECT_EQ(LinearFormOf(NodeOf("Relu")), nullptr);
}

// An index that is out of range is an error of the run, wherever a row says that an input holds
// indices: what a kernel may not meet.
TEST(Roles, OfIndices) {
  const Tensor x = Zeros({4, 4}), image = Zeros({1, 1, 4, 4}),
               at = Tensor::FromValues<int64_t>(Shape{1, 1}, {9}),
               place = Tensor::FromValues<int64_t>(Shape{1}, {9}),
               pixel = Tensor::FromValues<int64_t>(Shape{1, 1, 1, 1}, {999});
  const struct {
    const char* op;
    int input;
    std::vector<Tensor> inputs;
    Attrs attrs;
    const char* domain = "";
  } kRows[] = {
      {"Attention",
       6,
       {Zeros({1, 1, 1, 4}), image, image, Tensor(), Tensor(), Tensor(), place},
       {}},
      {"Gather", 1, {x, place}, {}},
      {"GatherElements", 1, {x, at}, {}},
      {"GatherND", 1, {x, at}, {}},
      {"MaxRoiPool",
       1,
       {image, Tensor::FromValues<float>(Shape{1, 5}, {9, 0, 0, 1, 1})},
       With("pooled_shape", AttrValue(std::vector<int64_t>{1, 1}))},
      {"MaxUnpool",
       1,
       {Zeros({1, 1, 1, 1}), pixel},
       With("kernel_shape", AttrValue(std::vector<int64_t>{2, 2}))},
      {"NegativeLogLikelihoodLoss",
       1,
       {x, Tensor::FromValues<int64_t>(Shape{4}, {9, 0, 0, 0})},
       {}},
      {"RoiAlign", 2, {image, Zeros({1, 4}), place}, {}},
      {"RotaryEmbedding", 3, {Zeros({1, 1, 1, 4}), Zeros({4, 2}), Zeros({4, 2}), at}, {}},
      {"Scatter", 1, {x, at, Zeros({1, 1})}, {}},
      {"ScatterElements", 1, {x, at, Zeros({1, 1})}, {}},
      {"ScatterND", 1, {x, at, Zeros({1, 4})}, {}},
      {"SoftmaxCrossEntropyLoss", 1, {x, Tensor::FromValues<int64_t>(Shape{4}, {9, 0, 0, 0})}, {}},
      {"TensorScatter", 2, {Zeros({1, 1, 4, 2}), Zeros({1, 1, 2, 2}), place}, {}},
      {"ChooseExpert", 0, {place, Zeros({1, 4}), Zeros({1, 4})}, {}, "evoq"},
      {"ExpertMatMul",
       1,
       {Zeros({1, 4}), place, x},
       With("experts", AttrValue(int64_t{1})),
       "evoq"},
      {"GatherColumns", 1, {x, place}, {}, "evoq"},
  };
  std::string named, found;
  for (const auto& row : kRows) {
    named += fmt::format("{} {}; ", row.op, row.input);
    const Node node = NodeOf(row.op, row.domain);
    EXPECT_EQ(IndexInput(node), row.input) << row.op;
    EXPECT_TRUE(ReadsByIndex(node)) << row.op;
    std::vector<bool> given;
    for (const Tensor& input : row.inputs) given.push_back(input.defined());
    Node tried = TestNode(row.op, row.attrs, given, 1);
    tried.domain = row.domain;
    const auto outputs = EvaluateNode(tried, row.inputs, std::vector<TensorType>(1));
    const std::string error = outputs ? "" : outputs.error().message();
    EXPECT_NE(error.find('9'), std::string::npos) << row.op << ": " << error;
  }
  for (const OpDef* op : AllOps()) {
    if (op->indices >= 0) found += fmt::format("{} {}; ", op->name, op->indices);
  }
  EXPECT_EQ(found, named);
  EXPECT_EQ(IndexInput(NodeOf("OneHot")), -1) << "an index out of range is a row of zeros";
  EXPECT_FALSE(ReadsByIndex(NodeOf("NoSuchOperator")));
}

TEST(Roles, OfInputs) {
  const struct {
    const char *op, *domain;
    std::vector<Role> roles;
  } kRows[] = {
      {"Conv", "", {Role::kData, Role::kWeight, Role::kBias, Role::kResidual, Role::kTable}},
      {"ConvTranspose", "", {Role::kData, Role::kWeight, Role::kBias, Role::kResidual}},
      {"MatMul", "", {Role::kData, Role::kWeight, Role::kBias, Role::kResidual, Role::kTable}},
      {"Gemm", "", {Role::kData, Role::kWeight, Role::kBias}},
      {"ConvInteger", "", {Role::kData, Role::kWeight, Role::kZeroPoint, Role::kZeroPoint}},
      {"DynamicMatMul",
       "evoq",
       {Role::kData, Role::kWeight, Role::kBias, Role::kResidual, Role::kScale, Role::kZeroPoint}},
      {"QuantizeLinear", "", {Role::kData, Role::kScale, Role::kZeroPoint}},
      {"Pad", "", {Role::kData, Role::kParameter, Role::kFill, Role::kParameter}},
      {"Clip", "", {Role::kData, Role::kBound, Role::kBound}},
      {"Resize", "", {Role::kData, Role::kParameter, Role::kParameter, Role::kParameter}},
      {"LayerNormalization", "", {Role::kData, Role::kParameter, Role::kParameter}},
      {"ReduceSum", "", {Role::kData, Role::kParameter}},
      {"Add", "", {Role::kData, Role::kData}},
      {"NoSuchOperator", "", {Role::kData, Role::kData}},
  };
  for (const auto& row : kRows) {
    for (size_t i = 0; i < row.roles.size(); ++i)
      EXPECT_EQ(RoleOf(NodeOf(row.op, row.domain), i), row.roles[i]) << row.op << " " << i;
    EXPECT_EQ(RoleOf(NodeOf(row.op, row.domain), 9), Role::kData) << row.op;
  }
  EXPECT_EQ(InputWith(*FindOp("Conv"), Role::kResidual), 3);
  EXPECT_EQ(InputWith(*FindOp("Gemm"), Role::kResidual), -1);
}

// A product's other forms exist, and compute products too.
TEST(Roles, FormsNameOperators) {
  int forms = 0;
  for (const OpDef* op : AllOps()) {
    if (op->linear == nullptr) continue;
    EXPECT_GE(InputWith(*op, Role::kWeight), 0) << op->name;
    for (const auto& [name, domain] :
         {std::pair(op->linear->integer_form, ""), std::pair(op->linear->real_form, ""),
          std::pair(op->linear->dynamic_form, "evoq")}) {
      if (name == nullptr) continue;
      const OpDef* other = FindOp(name, domain);
      ASSERT_NE(other, nullptr) << op->name << ": " << name;
      ASSERT_NE(other->linear, nullptr) << op->name << ": " << name;
      EXPECT_EQ(other->linear->out_axis, op->linear->out_axis) << op->name << ": " << name;
      EXPECT_EQ(other->linear->channel_axis, op->linear->channel_axis) << op->name;
      ++forms;
    }
  }
  EXPECT_EQ(forms, 8);
}

// y of permuted data is the permuted y, where the row says how axes pass through: the attribute
// then names the axis by its new place.
TEST(Roles, AttributeAxisFollowsAPermutation) {
  int tried = 0;
  for (const OpDef* op : AllOps()) {
    if (op->axes != AxisUse::kAttribute && op->axes != AxisUse::kAttributeReduced) continue;
    if (op->name == std::string_view("Split")) continue;  // several outputs
    ++tried;
    Tensor x = Zeros({2, 3}), turned = Zeros({3, 2});
    for (int i = 0; i < 6; ++i) {
      x.mutable_data<float>()[i] = static_cast<float>(i * i % 7);
      turned.mutable_data<float>()[i % 3 * 2 + i / 3] = x.data<float>()[i];
    }
    for (int64_t axis : {0, 1}) {
      const Attrs attrs = With("axis", AttrValue(axis)), other = With("axis", AttrValue(1 - axis));
      const Tensor y = Eval(op->name, {x}, attrs), z = Eval(op->name, {turned}, other);
      const Tensor back = Eval("Transpose", {z});
      for (int i = 0; i < 6; ++i)
        EXPECT_NEAR(ToFloat32(y)->data<float>()[i % y.elements()],
                    ToFloat32(back)->data<float>()[i % y.elements()], 1e-6)
            << op->name << " along " << axis;
      const Attrs by_default = With("axis", AttrValue(int64_t{op->default_axis}));
      if (op->max_inputs >= 0)
        EXPECT_TRUE(BitEqual(Eval(op->name, {x}), Eval(op->name, {x}, by_default))) << op->name;
    }
  }
  EXPECT_EQ(tried, 5);
}

}  // namespace
}  // namespace evoq
