// Adds layers that are to be trained to a graph.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/xorshift.h"
#include "graph/graph.h"

namespace evoq {

// Weights are drawn as He et al., "Delving Deep into Rectifiers" (2015), have it, of variance
// 2 / (inputs per output), biases 0; those of transformers as Glorot and Bengio (2010), of variance
// 1 / (inputs per output); those of tables with a deviation of 0.02 (Radford et al., "Language
// Models are Unsupervised Multitask Learners", 2019).
class Layers {
 public:
  // `seed` decides all weights.
  Layers(const std::string& name, uint64_t seed);

  // The graph's input, [N, sizes...] with N free.
  ValueId Input(const std::vector<int64_t>& sizes);
  ValueId Image(int64_t channels, int64_t size) { return Input({channels, size, size}); }
  // Token numbers [N, T], int64, both free.
  ValueId Tokens();

  struct Kernel {
    int64_t size = 3, stride = 1, pad = 0;
    bool bias = false;
    int64_t groups = 1, dilation = 1;
  };
  ValueId Conv(ValueId x, int64_t in, int64_t out, const Kernel& kernel);
  ValueId BatchNorm(ValueId x, int64_t channels);
  // Of each sample: over `groups` of channels and all positions; over the last axis.
  ValueId GroupNorm(ValueId x, int64_t channels, int64_t groups);
  ValueId LayerNorm(ValueId x, int64_t width);
  ValueId RmsNorm(ValueId x, int64_t width);
  // One value to one value, by ONNX's operator.
  ValueId Apply(const char* op, ValueId x, Attrs attrs = {});
  ValueId Relu6(ValueId x);
  ValueId Relu(ValueId x) { return graph_.Apply("Relu", Name("relu"), {x}); }
  ValueId Add(ValueId a, ValueId b) { return graph_.Apply("Add", Name("add"), {a, b}); }
  ValueId MaxPool(ValueId x, int64_t size) { return Pool("MaxPool", x, size, size, 0); }
  ValueId Pool(const char* op, ValueId x, int64_t size, int64_t stride, int64_t pad);
  ValueId GlobalPool(ValueId x) { return graph_.Apply("GlobalAveragePool", Name("pool"), {x}); }
  ValueId Flatten(ValueId x);
  ValueId Linear(ValueId x, int64_t in, int64_t out);
  // x [.., in] w [in, out], and a bias where it is wanted.
  ValueId Project(ValueId x, int64_t in, int64_t out, bool bias = true);
  // Rows of a table [pieces, width] by token: [N, T, width].
  ValueId Embedding(ValueId tokens, int64_t pieces, int64_t width);
  // x [N, T, width] and the first T rows of a table [length, width].
  ValueId Positions(ValueId x, int64_t length, int64_t width);
  // Vaswani et al., "Attention Is All You Need" (2017): heads of width / heads numbers each;
  // with `causal`, no token sees those after it. x is [N, T, width].
  ValueId Attention(ValueId x, int64_t width, int64_t heads, bool causal);
  ValueId Concat(std::vector<ValueId> parts, int64_t axis);

  // What inference says of the value. Errors: those of a layer that does not take what it is given;
  // kTooLarge where the weights so far are more than 2^31 numbers.
  Result<TensorType> TypeOf(ValueId value);

  size_t nodes() const { return graph_.order().size(); }
  // The graph, whose output is this value under the name "logits".
  Graph Finish(ValueId logits);

 private:
  std::string Name(const std::string& kind) { return kind + "_" + std::to_string(++count_[kind]); }
  // Of variance 2 / inputs.
  ValueId Normal(const std::string& name, std::vector<int64_t> sizes, int64_t inputs);
  ValueId Filled(const std::string& name, int64_t size, float value);
  ValueId Ints(const std::string& name, std::vector<int64_t> values);
  ValueId Number(const std::string& name, float value);
  ValueId SizeOf(const std::string& name, ValueId x, int64_t axis);
  ValueId SplitHeads(const std::string& name, ValueId x, int64_t width, int64_t heads);
  ValueId HideLater(const std::string& name, ValueId scores, ValueId x);

  Graph graph_;
  XorShift random_;
  std::map<std::string, int> count_;
  size_t typed_ = 0;  // nodes whose outputs have types
  // Counts weights; false where they become too many.
  bool Fits(const std::vector<int64_t>& sizes);
  int64_t weights_ = 0;
  bool too_large_ = false;
};

}  // namespace evoq
