#include "zoo/builder.h"

#include "base/check.h"

namespace evoq {

float NetBuilder::Uniform() { return static_cast<float>(random_.Next() >> 40) * 0x1p-24f; }

// Sum of twelve uniforms (Irwin and Hall): no transcendental function, so bit-equal everywhere.
float NetBuilder::Normal() {
  float sum = -6;
  for (int i = 0; i < 12; ++i) sum += Uniform();
  return sum;
}

ValueId NetBuilder::Image(const std::string& name, int64_t channels, int64_t size) {
  return graph_.AddInput(
      name, TensorType(DType::kFloat32,
                       Shape(std::vector<Dim>{Dim::Symbolic("N"), channels, size, size})));
}

ValueId NetBuilder::Tokens(const std::string& name, Dim length) {
  return graph_.AddInput(
      name, TensorType(DType::kInt64, Shape(std::vector<Dim>{Dim::Symbolic("N"), length})));
}

ValueId NetBuilder::Weights(const std::string& name, std::vector<int64_t> sizes, float deviation,
                            float mean) {
  Tensor t = Tensor::Allocate(TensorType(DType::kFloat32, Shape(sizes)));
  for (int64_t i = 0; i < t.elements(); ++i)
    t.mutable_data<float>()[i] = mean + deviation * Normal();
  return graph_.AddConstant(name, std::move(t));
}

ValueId NetBuilder::Int64s(const std::string& name, std::vector<int64_t> values) {
  return graph_.AddConstant(name, Tensor::FromValues(values));
}

ValueId NetBuilder::Scalar(float value) {
  return graph_.AddConstant("scalar", Tensor::Scalar<float>(value));
}

ValueId NetBuilder::Conv(ValueId x, int64_t in, int64_t out, const ConvOptions& o) {
  const std::string name = Name("conv");
  const int64_t fan_in = in / o.group * o.kernel * o.kernel;
  std::vector<ValueId> inputs = {x,
                                 Weights(name + ".weight", {out, in / o.group, o.kernel, o.kernel},
                                         std::sqrt(2.0f / static_cast<float>(fan_in)))};
  if (o.bias) inputs.push_back(Weights(name + ".bias", {out}, 0.05f));
  Attrs attrs;
  attrs.Set("kernel_shape", std::vector<int64_t>{o.kernel, o.kernel});
  attrs.Set("strides", std::vector<int64_t>{o.stride, o.stride});
  attrs.Set("pads", std::vector<int64_t>{o.pad, o.pad, o.pad, o.pad});
  attrs.Set("dilations", std::vector<int64_t>{1, 1});
  attrs.Set("group", o.group);
  return graph_.Apply("Conv", name, std::move(inputs), std::move(attrs));
}

ValueId NetBuilder::BatchNorm(ValueId x, int64_t channels) {
  const std::string name = Name("bn");
  Attrs attrs = Attrs::Of("epsilon", 1e-5f);
  const ValueId scale = Weights(name + ".weight", {channels}, 0.05f, 1.0f),
                bias = Weights(name + ".bias", {channels}, 0.05f);
  const ValueId mean = Weights(name + ".running_mean", {channels}, 0.1f);
  const ValueId var = Weights(name + ".running_var", {channels}, 0.02f, 1.0f);
  return graph_.Apply("BatchNormalization", name, {x, scale, bias, mean, var}, std::move(attrs));
}

ValueId NetBuilder::Clip(ValueId x, float low, float high) {
  return graph_.Apply("Clip", Name("clip"), {x, Scalar(low), Scalar(high)});
}

ValueId NetBuilder::MaxPool(ValueId x, int64_t kernel, int64_t stride, int64_t pad) {
  Attrs attrs;
  attrs.Set("kernel_shape", std::vector<int64_t>{kernel, kernel});
  attrs.Set("strides", std::vector<int64_t>{stride, stride});
  attrs.Set("pads", std::vector<int64_t>{pad, pad, pad, pad});
  return graph_.Apply("MaxPool", Name("maxpool"), {x}, std::move(attrs));
}

ValueId NetBuilder::Flatten(ValueId x) {
  return graph_.Apply("Flatten", Name("flatten"), {x}, Attrs::Of("axis", 1));
}

ValueId NetBuilder::Dense(ValueId x, int64_t in, int64_t out) {
  const std::string name = Name("fc");
  Attrs attrs = Attrs::Of("transB", 1);
  const ValueId w = Weights(name + ".weight", {out, in}, std::sqrt(1.0f / static_cast<float>(in)));
  const ValueId b = Weights(name + ".bias", {out}, 0.02f);
  return graph_.Apply("Gemm", name, {x, w, b}, std::move(attrs));
}

ValueId NetBuilder::MatMul(ValueId x, int64_t in, int64_t out) {
  const std::string name = Name("matmul");
  const ValueId w = Weights(name + ".weight", {in, out}, std::sqrt(1.0f / static_cast<float>(in)));
  const ValueId product = graph_.Apply("MatMul", name, {x, w});
  return graph_.Apply("Add", name + ".add", {product, Weights(name + ".bias", {out}, 0.02f)});
}

ValueId NetBuilder::LayerNorm(ValueId x, int64_t width) {
  const std::string name = Name("norm");
  Attrs attrs;
  attrs.Set("axis", -1);
  attrs.Set("epsilon", 1e-12f);
  const ValueId scale = Weights(name + ".weight", {width}, 0.02f, 1.0f),
                bias = Weights(name + ".bias", {width}, 0.02f);
  return graph_.Apply("LayerNormalization", name, {x, scale, bias}, std::move(attrs));
}

Graph NetBuilder::Finish(ValueId output, const std::string& name) {
  graph_.Rename(output, name);
  graph_.MarkOutput(output);
  const Status sorted = graph_.Sort();
  EVOQ_CHECK(sorted.has_value());
  return std::move(graph_);
}

}  // namespace evoq
