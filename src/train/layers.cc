#include "train/layers.h"

#include <cmath>

#include "base/check.h"
#include "train/samples.h"

namespace evoq {

Layers::Layers(const char* name, uint64_t seed) : random_(SeedOf(seed, 0, 0)) {
  graph_.name = name;
  graph_.metadata["producer"] = "evoq train";
}

ValueId Layers::Image(int64_t channels, int64_t size) {
  return graph_.AddInput(
      "input", TensorType(DType::kFloat32,
                          Shape(std::vector<Dim>{Dim::Symbolic("N"), channels, size, size})));
}

// Sums of twelve uniforms (Irwin and Hall): no function of the C library, so the same everywhere.
ValueId Layers::Normal(const std::string& name, std::vector<int64_t> sizes, int64_t inputs) {
  const float deviation = std::sqrt(2.0f / static_cast<float>(inputs));
  Tensor tensor = Tensor::Allocate(TensorType(DType::kFloat32, Shape(sizes)));
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    float sum = -6;
    for (int k = 0; k < 12; ++k) sum += static_cast<float>(random_.Next() >> 40) * 0x1p-24f;
    tensor.mutable_data<float>()[i] = deviation * sum;
  }
  return graph_.AddConstant(name, std::move(tensor));
}

ValueId Layers::Filled(const std::string& name, int64_t size, float value) {
  return graph_.AddConstant(
      name, Tensor::FromValues<float>(Shape{size}, std::vector<float>(size, value)));
}

ValueId Layers::Conv(ValueId x, int64_t in, int64_t out, const Kernel& kernel) {
  const std::string name = Name("conv");
  const int64_t size = kernel.size, stride = kernel.stride, pad = kernel.pad;
  std::vector<ValueId> inputs = {x,
                                 Normal(name + ".weight", {out, in, size, size}, in * size * size)};
  if (kernel.bias) inputs.push_back(Filled(name + ".bias", out, 0));
  Attrs attrs;
  attrs.Set("kernel_shape", std::vector<int64_t>{size, size});
  attrs.Set("strides", std::vector<int64_t>{stride, stride});
  attrs.Set("pads", std::vector<int64_t>{pad, pad, pad, pad});
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

ValueId Layers::MaxPool(ValueId x, int64_t size) {
  Attrs attrs;
  attrs.Set("kernel_shape", std::vector<int64_t>{size, size});
  attrs.Set("strides", std::vector<int64_t>{size, size});
  return graph_.Apply("MaxPool", Name("maxpool"), {x}, std::move(attrs));
}

ValueId Layers::Flatten(ValueId x) {
  Attrs attrs;
  attrs.Set("axis", 1);
  return graph_.Apply("Flatten", Name("flatten"), {x}, std::move(attrs));
}

ValueId Layers::Linear(ValueId x, int64_t in, int64_t out) {
  const std::string name = Name("linear");
  Attrs attrs;
  attrs.Set("transB", 1);
  const ValueId weight = Normal(name + ".weight", {out, in}, in);
  return graph_.Apply("Gemm", name, {x, weight, Filled(name + ".bias", out, 0)}, std::move(attrs));
}

Graph Layers::Finish(ValueId logits) {
  graph_.Rename(logits, "logits");
  graph_.MarkOutput(logits);
  const Status sorted = graph_.Sort();
  EVOQ_CHECK(sorted.has_value(), "a graph of layers has a cycle");
  return std::move(graph_);
}

}  // namespace evoq
