#include "nn/layers.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/check.h"
#include "reference/reference.h"

namespace evoq {
namespace {

constexpr int64_t kMostWeights = int64_t{1} << 31;

}  // namespace

Layers::Layers(const std::string& name, uint64_t seed) : random_(SeedOf(seed, 0, 0)) {
  graph_.name = name;
  graph_.metadata["producer"] = "evoq train";
}

ValueId Layers::Input(const std::vector<int64_t>& sizes) {
  std::vector<Dim> dims = {Dim::Symbolic("N")};
  dims.insert(dims.end(), sizes.begin(), sizes.end());
  return graph_.AddInput("input", TensorType(DType::kFloat32, Shape(std::move(dims))));
}

ValueId Layers::Tokens() {
  const Shape shape(std::vector<Dim>{Dim::Symbolic("N"), Dim::Symbolic("T")});
  return graph_.AddInput("input_ids", TensorType(DType::kInt64, shape));
}

bool Layers::Fits(const std::vector<int64_t>& sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) {
    if (count > kMostWeights / std::max<int64_t>(size, 1)) too_large_ = true;
    count = too_large_ ? 0 : count * size;
  }
  weights_ += count;
  too_large_ |= weights_ > kMostWeights;
  return !too_large_;
}

// Sums of twelve uniforms (Irwin and Hall): no function of the C library, so the same everywhere.
ValueId Layers::Normal(const std::string& name, std::vector<int64_t> sizes, int64_t inputs) {
  const float deviation = std::sqrt(2.0f / static_cast<float>(inputs));
  if (!Fits(sizes)) sizes.assign(sizes.size(), 1);
  Tensor tensor = Tensor::Allocate(TensorType(DType::kFloat32, Shape(sizes)));
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    float sum = -6;
    for (int k = 0; k < 12; ++k) sum += static_cast<float>(random_.Next() >> 40) * 0x1p-24f;
    tensor.mutable_data<float>()[i] = deviation * sum;
  }
  return graph_.AddConstant(name, std::move(tensor));
}

ValueId Layers::Filled(const std::string& name, int64_t size, float value) {
  if (!Fits({size})) size = 1;
  return graph_.AddConstant(
      name, Tensor::FromValues<float>(Shape{size}, std::vector<float>(size, value)));
}

ValueId Layers::Conv(ValueId x, int64_t in, int64_t out, const Kernel& kernel) {
  const std::string name = Name("conv");
  const int64_t size = kernel.size, stride = kernel.stride, pad = kernel.pad;
  const int64_t per_group = in / kernel.groups;
  std::vector<ValueId> inputs = {
      x, Normal(name + ".weight", {out, per_group, size, size}, per_group * size * size)};
  if (kernel.bias) inputs.push_back(Filled(name + ".bias", out, 0));
  Attrs attrs;
  attrs.Set("kernel_shape", std::vector<int64_t>{size, size});
  attrs.Set("strides", std::vector<int64_t>{stride, stride});
  attrs.Set("pads", std::vector<int64_t>{pad, pad, pad, pad});
  if (kernel.groups > 1) attrs.Set("group", kernel.groups);
  if (kernel.dilation > 1)
    attrs.Set("dilations", std::vector<int64_t>{kernel.dilation, kernel.dilation});
  return graph_.Apply("Conv", name, std::move(inputs), std::move(attrs));
}

ValueId Layers::BatchNorm(ValueId x, int64_t channels) {
  const std::string name = Name("norm");
  const ValueId scale = Filled(name + ".weight", channels, 1);
  const ValueId bias = Filled(name + ".bias", channels, 0);
  const ValueId mean = Filled(name + ".running_mean", channels, 0);
  const ValueId var = Filled(name + ".running_var", channels, 1);
  Attrs attrs;
  attrs.Set("epsilon", 1e-5f);
  attrs.Set("momentum", 0.9f);
  return graph_.Apply("BatchNormalization", name, {x, scale, bias, mean, var}, std::move(attrs));
}

ValueId Layers::GroupNorm(ValueId x, int64_t channels, int64_t groups) {
  const std::string name = Name("norm");
  Attrs attrs = Attrs::Of("num_groups", groups);
  const ValueId scale = Filled(name + ".weight", channels, 1);
  return graph_.Apply("GroupNormalization", name, {x, scale, Filled(name + ".bias", channels, 0)},
                      std::move(attrs));
}

ValueId Layers::LayerNorm(ValueId x, int64_t width) {
  const std::string name = Name("norm");
  const ValueId scale = Filled(name + ".weight", width, 1);
  return graph_.Apply("LayerNormalization", name, {x, scale, Filled(name + ".bias", width, 0)});
}

ValueId Layers::RmsNorm(ValueId x, int64_t width) {
  const std::string name = Name("norm");
  return graph_.Apply("RMSNormalization", name, {x, Filled(name + ".weight", width, 1)});
}

ValueId Layers::Apply(const char* op, ValueId x, Attrs attrs) {
  std::string kind = op;
  for (char& c : kind) c = static_cast<char>(std::tolower(c));
  return graph_.Apply(op, Name(kind), {x}, std::move(attrs));
}

ValueId Layers::Relu6(ValueId x) {
  const std::string name = Name("relu6");
  return graph_.Apply("Clip", name, {x, Number(name + ".min", 0), Number(name + ".max", 6)});
}

ValueId Layers::Pool(const char* op, ValueId x, int64_t size, int64_t stride, int64_t pad) {
  Attrs attrs;
  attrs.Set("kernel_shape", std::vector<int64_t>{size, size});
  attrs.Set("strides", std::vector<int64_t>{stride, stride});
  if (pad > 0) attrs.Set("pads", std::vector<int64_t>{pad, pad, pad, pad});
  return graph_.Apply(op, Name(op == std::string("MaxPool") ? "maxpool" : "avgpool"), {x},
                      std::move(attrs));
}

ValueId Layers::Flatten(ValueId x) {
  return graph_.Apply("Flatten", Name("flatten"), {x}, Attrs::Of("axis", 1));
}

ValueId Layers::Linear(ValueId x, int64_t in, int64_t out) {
  const std::string name = Name("linear");
  Attrs attrs = Attrs::Of("transB", 1);
  const ValueId weight = Normal(name + ".weight", {out, in}, in);
  return graph_.Apply("Gemm", name, {x, weight, Filled(name + ".bias", out, 0)}, std::move(attrs));
}

ValueId Layers::Project(ValueId x, int64_t in, int64_t out, bool bias) {
  const std::string name = Name("linear");
  const ValueId product =
      graph_.Apply("MatMul", name, {x, Normal(name + ".weight", {in, out}, 2 * in)});
  if (!bias) return product;
  return graph_.Apply("Add", name + ".add", {product, Filled(name + ".bias", out, 0)});
}

ValueId Layers::Ints(const std::string& name, std::vector<int64_t> values) {
  return graph_.AddConstant(name, Tensor::FromValues(values));
}

ValueId Layers::Number(const std::string& name, float value) {
  return graph_.AddConstant(name, Tensor::Scalar(value));
}

// [1], int64.
ValueId Layers::SizeOf(const std::string& name, ValueId x, int64_t axis) {
  Attrs attrs;
  attrs.Set("start", axis);
  attrs.Set("end", axis + 1);
  return graph_.Apply("Shape", name, {x}, std::move(attrs));
}

ValueId Layers::Embedding(ValueId tokens, int64_t pieces, int64_t width) {
  constexpr int64_t kInputs = 5000;  // a deviation of 0.02
  const std::string name = Name("embedding");
  return graph_.Apply("Gather", name, {Normal(name + ".weight", {pieces, width}, kInputs), tokens});
}

ValueId Layers::Positions(ValueId x, int64_t length, int64_t width) {
  constexpr int64_t kInputs = 5000;
  const std::string name = Name("positions");
  const ValueId zero = Ints(name + ".zero", {0});
  const ValueId table = Normal(name + ".weight", {length, width}, kInputs);
  const ValueId rows =
      graph_.Apply("Slice", name + ".slice", {table, zero, SizeOf(name + ".length", x, 1), zero});
  return graph_.Apply("Add", name, {x, rows});
}

// [N, T, width] -> [N, heads, T, width / heads]
ValueId Layers::SplitHeads(const std::string& name, ValueId x, int64_t width, int64_t heads) {
  const ValueId shape = Ints(name + ".shape", {0, 0, heads, width / heads});
  Attrs attrs = Attrs::Of("perm", std::vector<int64_t>{0, 2, 1, 3});
  const ValueId split = graph_.Apply("Reshape", name + ".reshape", {x, shape});
  return graph_.Apply("Transpose", name + ".heads", {split}, std::move(attrs));
}

// Scores [.., T, T] of later tokens are -10^9.
ValueId Layers::HideLater(const std::string& name, ValueId scores, ValueId x) {
  const ValueId length = SizeOf(name + ".length", x, 1);
  Attrs joined, ones, lower, boolean;
  joined.Set("axis", 0);
  ones.Set("value", Tensor::FromValues<int64_t>(Shape{1}, std::vector<int64_t>{1}));
  lower.Set("upper", 0);
  boolean.Set("to", 9);  // ONNX's number of bool
  const ValueId square =
      graph_.Apply("Concat", name + ".square", {length, length}, std::move(joined));
  const ValueId all = graph_.Apply("ConstantOfShape", name + ".ones", {square}, std::move(ones));
  const ValueId seen = graph_.Apply("Trilu", name + ".seen", {all}, std::move(lower));
  const ValueId mask = graph_.Apply("Cast", name + ".mask", {seen}, std::move(boolean));
  return graph_.Apply("Where", name + ".causal", {mask, scores, Number(name + ".hidden", -1e9f)});
}

ValueId Layers::Attention(ValueId x, int64_t width, int64_t heads, bool causal) {
  const std::string name = Name("attention");
  ValueId parts[3];
  const char* const kinds[] = {"query", "key", "value"};
  for (int i = 0; i < 3; ++i) {
    const std::string part = name + "." + kinds[i];
    parts[i] = SplitHeads(part, Project(x, width, width), width, heads);
  }
  Attrs turned, joined;
  turned.Set("perm", std::vector<int64_t>{0, 1, 3, 2});
  joined.Set("perm", std::vector<int64_t>{0, 2, 1, 3});
  const float scale = 1 / std::sqrt(static_cast<float>(width / heads));
  const ValueId keys = graph_.Apply("Transpose", name + ".keys", {parts[1]}, std::move(turned));
  const ValueId products = graph_.Apply("MatMul", name + ".scores", {parts[0], keys});
  ValueId scores =
      graph_.Apply("Mul", name + ".scaled", {products, Number(name + ".scale", scale)});
  if (causal) scores = HideLater(name, scores, x);
  const ValueId shares = graph_.Apply("Softmax", name + ".softmax", {scores});
  const ValueId mixed = graph_.Apply("MatMul", name + ".mixed", {shares, parts[2]});
  const ValueId back = graph_.Apply("Transpose", name + ".back", {mixed}, std::move(joined));
  const ValueId flat =
      graph_.Apply("Reshape", name + ".joined", {back, Ints(name + ".width", {0, 0, width})});
  return Project(flat, width, width);
}

ValueId Layers::Concat(std::vector<ValueId> parts, int64_t axis) {
  return graph_.Apply("Concat", Name("concat"), std::move(parts), Attrs::Of("axis", axis));
}

Result<TensorType> Layers::TypeOf(ValueId value) {
  if (too_large_)
    return Fail(ErrorCode::kTooLarge, "more than {} numbers of weights", kMostWeights);
  if (typed_ < nodes()) {
    EVOQ_TRY(InferTypes(graph_));
    typed_ = nodes();
  }
  return graph_.value(value).type;
}

Graph Layers::Finish(ValueId logits) {
  graph_.Rename(logits, "logits");
  graph_.MarkOutput(logits);
  const Status sorted = graph_.Sort();
  EVOQ_CHECK(sorted.has_value(), "a graph of layers has a cycle");
  return std::move(graph_);
}

}  // namespace evoq
