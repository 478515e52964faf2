#include "quant/method.h"

namespace evoq {
namespace {

std::string Refuses(const QuantScheme& scheme, const QuantizeOptions&) {
  return scheme.values == DType::kUint8 ? "" : "it takes means from the ranges of static int8";
}

}  // namespace

extern const QuantMethod kMethodBiasCorrection = {
    .name = "bias-correction",
    .doc =
        "What rounding the weights adds to the mean of each output channel, by the inputs' means "
        "in the calibration data, is taken off the bias. A default of int8.",
    .paper = "Nagel et al. 2019, arXiv:1906.04721",
    .stage = MethodStage::kCorrection,
    .refuses = Refuses,
    .ask = [](QuantizeOptions& options) { options.correct_bias = true; },
};

}  // namespace evoq
