// Adds layers to a graph; internal to the room.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "base/xorshift.h"
#include "graph/graph.h"

namespace evoq {

class NetBuilder {
 public:
  NetBuilder(std::string name, uint32_t seed) : random_(seed * 2654435761u + 1) {
    graph_.name = name;
    graph_.metadata["producer"] = "evoq zoo";
  }

  // Images N x channels x size x size, N free.
  ValueId Image(const std::string& name, int64_t channels, int64_t size);
  ValueId Tokens(const std::string& name, Dim length);

  struct ConvOptions {
    int64_t kernel = 1, stride = 1, pad = 0, group = 1;
    bool bias = true;
  };
  // Convolution with He-normal weights (He et al. 2015): variance 2 / (inputs per output).
  ValueId Conv(ValueId x, int64_t in, int64_t out, const ConvOptions& options);
  // BatchNormalization with statistics near those of its input.
  ValueId BatchNorm(ValueId x, int64_t channels);
  ValueId Relu(ValueId x) { return graph_.Apply("Relu", Name("relu"), {x}); }
  ValueId Clip(ValueId x, float low, float high);
  ValueId Add(ValueId a, ValueId b) { return graph_.Apply("Add", Name("add"), {a, b}); }
  ValueId MaxPool(ValueId x, int64_t kernel, int64_t stride, int64_t pad);
  ValueId GlobalAveragePool(ValueId x) {
    return graph_.Apply("GlobalAveragePool", Name("pool"), {x});
  }
  ValueId Flatten(ValueId x);
  ValueId Dense(ValueId x, int64_t in, int64_t out);   // Gemm with transB, as exporters write it
  ValueId MatMul(ValueId x, int64_t in, int64_t out);  // [.., in] x [in, out] + bias
  ValueId LayerNorm(ValueId x, int64_t width);
  ValueId Apply(const std::string& op, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return graph_.Apply(op, Name(op), std::move(inputs), std::move(attrs));
  }
  ValueId Int64s(const std::string& name, std::vector<int64_t> values);
  ValueId Scalar(float value);
  // Normally distributed with this standard deviation around `mean`.
  ValueId Weights(const std::string& name, std::vector<int64_t> sizes, float deviation,
                  float mean = 0);

  Graph Finish(ValueId output, const std::string& name);

 private:
  std::string Name(const std::string& kind) { return kind + "_" + std::to_string(++count_[kind]); }
  float Normal();
  float Uniform();

  Graph graph_;
  XorShift random_;
  std::map<std::string, int> count_;
};

}  // namespace evoq
