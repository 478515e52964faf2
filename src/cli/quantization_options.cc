#include "cli/quantization_options.h"

#include "quant/low_bits.h"
#include "quant/observer.h"
#include "quant/quant.h"

namespace evoq {

void AddSchemeOptions(const VerbOptions& options, QuantizeJob& job, const char* besides,
                      const char* besides_methods) {
  std::vector<std::string> names;
  for (const QuantScheme* scheme : AllSchemes()) names.push_back(scheme->name);
  options
      .Add("--scheme", job.scheme,
           fmt::format("{} (evoq list schemes){}", fmt::join(names, ", "), besides))
      .ShowDefault();
  options.Add(
      "--method", job.method,
      fmt::format("Quantization methods, \"a,b,c\", or none (evoq list methods; default: the "
                  "scheme's){}",
                  besides_methods));
}

void AddCalibrationLimits(const VerbOptions& options, QuantizeJob& job) {
  options.Add("--calib-limit", job.calib_limit, "Use at most N samples, evenly spread (0: all)")
      .NonNegative()
      .ShowDefault();
  options.Add("--samples", job.calib_samples,
              "auto: no more samples than tell the ranges well enough (at most --calib-limit); N: "
              "as --calib-limit");
}

void AddObserverOptions(const VerbOptions& options, QuantizeJob& job) {
  std::vector<std::string> observers;
  for (const ObserverDef* observer : AllObservers()) observers.push_back(observer->name);
  options.Add("--observer", job.observer,
              fmt::format("How ranges are chosen: {}", fmt::join(observers, ", ")));
  options.Add("--percentile", job.percentile, "Of --observer percentile").ShowDefault();
}

void AddNumberOptions(const VerbOptions& options, QuantizeJob& job) {
  AddObserverOptions(options, job);
  options.AddFlag("--per-tensor", job.per_tensor,
                  "One scale per weight tensor instead of one per output channel");
  options
      .Add("--block", job.block,
           "Of weights of few bits: what shares a scale along K, or \"channel\"")
      .OneOf({WeightBlocks().begin(), WeightBlocks().end()})
      .ShowDefault();
  options
      .Add(
          "--weight-bits", job.weight_bits,
          "Of int8: weights of 8, 4, 2 or 1 bits for all layers, or PATTERN=BITS (may be repeated; "
          "the last that matches counts)")
      .OneEachTime();
  options
      .Add("--activation-bits", job.activation_bits,
           "Of int8: results of layers of 8, 4 or 2 bits, kept in bytes, or PATTERN=BITS (may be "
           "repeated; the last that matches counts)")
      .OneEachTime();
  options.AddFlag("--signed", job.signed_activations, "int8 activations instead of uint8");
  options.AddFlag("--symmetric", job.symmetric, "Activations with the zero point in the middle");
}

void AddLayerAndRangeOptions(const VerbOptions& options, QuantizeJob& job) {
  options.Add("--exclude", job.exclude,
              "Keep nodes of this name in float (a glob pattern; may be repeated)");
  options.Add("--ranges", job.ranges_in,
              "Use saved ranges instead of calibrating: ranges.json, or a calibration table of "
              "ONNX Runtime or TensorRT");
}

}  // namespace evoq
