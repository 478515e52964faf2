// Networks in code: layers, put together, which evoq/toolchain.h trains (docs/nn.md).
//
//   using namespace evoq::nn;
//   Network net{"mine", {1, 28, 28},
//               {Conv(16, {5}), BatchNorm(), Activation("relu"), MaxPool(2), Flatten(),
//               Linear(10)}};
//   std::string error;
//   if (!Write(net, "mine.json", 1, &error)) { std::cerr << error; return 1; }
//   auto trained = evoq::toolchain::Train("mine.json", "mine.onnx", options, {}, &error);
//
// Needs C++17. Nothing throws but for lack of memory.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace evoq::nn {
inline namespace v1 {

// A layer, or several: a value. What a layer needs to know of its input follows from the layers
// before it.
class Layer {
 public:
  explicit Layer(std::string json) : json_(std::move(json)) {}
  const std::string& json() const { return json_; }  // {"layer": "conv", "channels": 16}

 private:
  std::string json_;
};

// ---- images [N, channels, height, width]

struct ConvOptions {
  std::int64_t size = 3, stride = 1;
  std::int64_t pad = -1;  // on each side; -1: what keeps the size
  std::int64_t groups = 1, dilation = 1;
  bool bias = true;
};
Layer Conv(std::int64_t channels, const ConvOptions& options = {});
// Windows of size x size; stride 0: the size.
Layer MaxPool(std::int64_t size = 2, std::int64_t stride = 0, std::int64_t pad = 0);
Layer AveragePool(std::int64_t size = 2, std::int64_t stride = 0, std::int64_t pad = 0);
Layer GlobalPool();  // the mean of each channel
Layer Flatten();
Layer BatchNorm();
Layer GroupNorm(std::int64_t groups);

// ---- rows [N, width], or of tokens [N, T, width]

Layer Linear(std::int64_t outputs, bool bias = true);
Layer LayerNorm();
Layer RmsNorm();
Layer Embedding(std::int64_t pieces, std::int64_t width);
Layer Positions(std::int64_t length);
Layer Attention(std::int64_t heads, bool causal = false);

// ---- any

// relu, relu6, leaky-relu, elu, gelu, sigmoid, silu, hard-swish, mish, softplus or tanh.
Layer Activation(const std::string& kind = "relu");
Layer Sequential(const std::vector<Layer>& layers);
// Adds what goes in, or what the shortcut's layers make of it.
Layer Residual(const std::vector<Layer>& layers, const std::vector<Layer>& shortcut = {});
// Layers beside each other, whose channels stand one behind the other.
Layer Concat(const std::vector<Layer>& layers);

struct Network {
  std::string name;
  std::vector<std::int64_t> input;  // sizes of a sample; empty: token numbers [N, T]
  std::vector<Layer> layers;
};
std::string ToJson(const Network& network);

// Writes the network: its description where the path ends in .json, else an ONNX file with weights
// that the seed decides. Checks all layers either way. Returns false and says why in *error:
// "layer 3 (conv): channels is 0, expected ...".
bool Write(const Network& network, const std::string& path, std::uint64_t seed = 1,
           std::string* error = nullptr);

}  // namespace v1
}  // namespace evoq::nn
