// Builds a network and trains it on MNIST's files:  network FOLDER PREPROCESS.json OUT.onnx
#include <iostream>

#include "evoq/nn.h"
#include "evoq/toolchain.h"

using namespace evoq::nn;

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: network FOLDER PREPROCESS.json OUT.onnx\n";
    return 2;
  }
  const std::string output = argv[3], description = output + ".json";
  const std::vector<Layer> block = {Conv(16), BatchNorm(), Activation("relu"), Conv(16),
                                    BatchNorm()};
  Network net{"small", {1, 28, 28}, {}};
  net.layers = {Conv(16, {5, 2}), BatchNorm(), Activation("relu"), Residual(block)};
  net.layers.insert(net.layers.end(), {Activation("relu"), MaxPool(2), Flatten(), Linear(10)});
  std::string error;
  if (!Write(net, description, 1, &error)) {
    std::cerr << error << "\n";
    return 1;
  }
  evoq::toolchain::TrainOptions options;
  options.data = argv[1];
  options.preprocess = argv[2];
  options.epochs = 4;
  options.lr = 0.003;
  const auto trained =
      evoq::toolchain::Train(description, output, options, evoq::toolchain::Follow{}, &error);
  if (!trained) {
    std::cerr << error << "\n";
    return 1;
  }
  std::cout << trained->report.text;
}
