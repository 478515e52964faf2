// Quantizes, explains and runs a model:  toolchain MODEL.onnx OUT.etm
#include "evoq/toolchain.h"

#include <iostream>

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: toolchain MODEL.onnx OUT.etm\n";
    return 2;
  }
  const std::string model = argv[1], etm = argv[2];
  std::string error;
  evoq::toolchain::Follow follow;
  follow.progress = [](const std::string& stage, double done) {
    std::cerr << stage << " " << static_cast<int>(100 * done) << "%\n";
  };
  evoq::toolchain::QuantizeOptions quantize;
  quantize.calibration_random = 16;  // for a real model: quantize.calibration = {"images/"};
  const auto quantized = evoq::toolchain::Quantize(model, etm, quantize, follow, &error);
  evoq::toolchain::ExplainOptions explain;
  explain.baseline = model;
  explain.duration_s = 0.2;
  const auto explained =
      quantized ? evoq::toolchain::Explain(etm, explain, follow, &error) : std::nullopt;
  auto session = explained ? evoq::Session::Load(etm, {}, &error) : std::nullopt;
  std::vector<evoq::Array> inputs, outputs;
  for (const evoq::ArrayInfo& input :
       session ? session->inputs() : std::vector<evoq::ArrayInfo>()) {
    std::vector<std::int64_t> shape = input.shape;
    for (std::int64_t& size : shape) size = size < 0 ? 1 : size;  // free sizes
    inputs.push_back(evoq::Array::Zeros(input.type, shape));
  }
  if (!session || !session->Run(inputs, &outputs, &error)) {
    std::cerr << error << "\n";
    return 1;
  }
  std::cout << quantized->steps_int8 << " of " << quantized->steps << " steps int8, "
            << explained->baseline_ms / explained->ms << "x as fast, " << outputs[0].size()
            << " values\n";
}
