// The whole way from a model file to a quantized one, shared by the verbs quantize and demo.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "certify/certify.h"
#include "cli/common.h"

namespace evoq {

struct QuantizeJob {
  std::string model, output;       // .onnx -> .etm or .onnx
  std::string scheme = "int8";     // a method, or "auto"
  std::vector<std::string> calib;  // a data set (data/inputs.h)
  std::string preprocess;
  std::span<const std::vector<Tensor>> samples;  // these instead, by sample, by input
  int calib_random = 0;                          // this many random samples instead
  int calib_limit = 200;  // at most so many samples, evenly spread over the data set
  std::string observer;   // "" is the method's default
  double percentile = 99.99;
  std::string ranges_in, ranges_out;
  std::vector<std::string> exclude;
  std::vector<std::string> shapes;  // to plan, tune and measure for, and of random samples: --shape
  std::vector<std::string> fixed;   // sizes that are fixed for good: --fix-shape
  bool per_tensor = false;
  bool signed_activations = false;
  bool symmetric = false;
  std::string target =
      "ort";  // of an .onnx: the runtime that its Q/DQ pairs are placed for (quant/unfuse.h)
  bool tune = false;  // of an .etm: measure each step's choices (docs/tuning.md)
  int threads = 0;

  // A certificate (docs/certificate.md): of --scheme auto, and of any scheme with a promise.
  Promise promise;
  std::vector<std::string>
      data;  // what accuracy is measured on; also calibrates when `calib` is empty
  std::string labels;
  int data_limit = 2000;  // at most so many samples, evenly spread over the data set
  double search_s = 60, measure_s = 6;

  bool certified() const {
    return scheme == "auto" || promise.max_drop || promise.min_sqnr_db || promise.never_slower;
  }
};

// Returns the JSON of docs/cli.md's `quantize`.
Result<nlohmann::json> Quantize(const QuantizeJob& job);

// Ranges of one sample: for quantized models of which only the speed matters.
Result<Ranges> RangesOf(const Graph& graph, const std::vector<Tensor>& sample, int threads);

}  // namespace evoq
