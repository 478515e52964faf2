// The whole way from a model file to a quantized one.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "certify/certify.h"
#include "passes/choice.h"
#include "quant/choose_methods.h"
#include "workflow/follow.h"
#include "workflow/gain.h"
#include "workflow/told.h"

namespace evoq {

inline constexpr char kAutoMethod[] = "auto";

struct QuantizeJob {
  std::string model, output;    // .onnx -> .etm or .onnx
  std::string scheme = "int8";  // or "auto"
  // Names of quantization methods, "a,b,c", or "none"; "": the scheme's own; kAutoMethod: those
  // that pay, found by trying them on the samples for search_s (quant/choose_methods.h).
  std::string method;
  std::vector<std::string> calib;  // a data set (data/inputs.h)
  std::string preprocess;
  std::span<const std::vector<Tensor>> samples;  // these instead, by sample, by input
  int calib_random = 0;                          // this many random samples instead
  int calib_limit = 200;  // at most so many samples, evenly spread over the data set; 0: all
  // "auto": as many as tell the ranges well enough (quant/interval.h), at most calib_limit; a
  // number: as calib_limit; "": calib_limit.
  std::string calib_samples;
  std::string observer;  // "" is the scheme's default
  double percentile = 99.99;
  std::string ranges_in, ranges_out;
  // Files of other tools (docs/encodings.md): parameters by tensor name, to take and to write.
  std::string encodings, encodings_out;
  std::string encodings_version = "1.0.0";   // of encodings_out
  std::string calib_cache, calib_cache_out;  // TensorRT's
  // Several scale sets (docs/adaptive.md): a number, for so many groups of the calibration samples,
  // or NAME=PATH for each, with its own samples; empty: one.
  std::vector<std::string> scale_sets;
  std::vector<std::string> exclude;  // glob patterns of nodes that stay float
  InputShapes shapes;                // to plan, tune and measure for, and of random samples
  InputShapes fixed;                 // sizes that are fixed for good; -1 stays free
  PassChoice passes;                 // which run
  std::string kv_cache;              // of a language model (llm/cache_type.h); "": as it has them
  bool per_tensor = false;
  std::vector<std::string> weight_bits;      // of int8: "4", "PATTERN=2" (quant/layer_bits.h)
  std::vector<std::string> activation_bits;  // the same of the results of layers
  std::string block = "32";  // of weights of few bits: one of WeightBlocks() (quant/low_bits.h)
  bool signed_activations = false;
  bool symmetric = false;
  int opset = 0;  // of an .onnx; 0: the oldest that it needs, 17 or newer
  std::string target =
      "ort";  // of an .onnx: the runtime that its Q/DQ pairs are placed for (quant/unfuse.h)
  bool tune = false;  // of an .etm: measure each step's choices (docs/tuning.md)
  int threads = 0;

  // A certificate (docs/certificate.md): of --scheme auto, and of any scheme with a promise.
  Promise promise;
  std::vector<std::string>
      data;  // what accuracy is measured on; also calibrates when `calib` is empty
  std::string labels;
  int data_limit = 2000;  // at most so many samples, evenly spread over the data set; 0: all
  // Of a language model: a text file instead, in windows of so many tokens. It calibrates too,
  // where nothing else does.
  std::string text;
  std::string tokenizer;  // "": the one that the model carries
  int window = 256;
  double search_s = 60, measure_s = 6;

  bool certified() const {
    return scheme == "auto" || promise.max_drop || promise.min_sqnr_db || promise.max_growth ||
           promise.never_slower;
  }
};

// What became of the entries of QuantizeJob::encodings.
struct EncodingsUse {
  std::string file;  // "": the job names none
  int entries = 0;
  std::map<std::string, std::string> not_used;  // entry -> why
};

// One of several scale sets.
struct QuantizedSet {
  std::string name;
  int64_t samples = 0;  // that it was calibrated on
  int64_t bytes = 0;    // of the file, for it alone
};

struct Quantized {
  std::string model, output;
  int64_t input_bytes = 0, output_bytes = 0;  // of the files
  int64_t float_weight_bytes = 0, quantized_weight_bytes = 0;
  int samples_used = 0;        // of the calibration
  std::string samples_enough;  // of calib_samples "auto": why so many
  PrecisionCounts steps;       // of a run, by what they compute in
  std::string steps_why;       // why nodes were counted, not steps; "": steps were
  int int8_weights = 0;        // nodes that compute in float32 and whose weights became int8
  std::map<std::string, int> low_bit_weights;  // and a type of fewer bits
  std::map<std::string, int> weight_bits;      // of layers of integers that have fewer than 8
  std::map<std::string, int> activation_bits;  // of values that use fewer than 8
  Reasons float_reasons;
  std::vector<std::string> warnings;
  std::optional<TuneReport> tuning;
  std::optional<Certified> certified;  // without its model
  EncodingsUse encodings;
  std::vector<QuantizedSet> sets;       // of QuantizeJob::scale_sets
  std::optional<MethodSearch> methods;  // of kAutoMethod
  std::optional<Gain> gain;             // of schemes that leave it to the processor, as an .etm
  double seconds = 0;
};

// Writes job.output, and job.ranges_out, at the end. Errors: kUsage for options that do not fit;
// kConditionFailed where a promise is not kept or the caller stopped it: nothing is written then;
// those of import, data, quantization and files.
Result<Quantized> Quantize(const QuantizeJob& job, const Follow& follow = {});
Told Tell(const Quantized& done);
// By node, "code: sentence".
std::map<std::string, std::string> TextsOf(const Reasons& reasons);

}  // namespace evoq
