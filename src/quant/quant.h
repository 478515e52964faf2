// Quantization: Graph -> Graph. Runs models only through functions that its caller hands in.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/reason.h"
#include "base/result.h"
#include "graph/graph.h"
#include "tensor/precision.h"

namespace evoq {

// The range of one value over the calibration data: what `ranges.json` holds.
struct Range {
  float min = 0;
  float max = 0;
  // Mean and largest magnitude of each channel (axis 1, for MatMul the last) of values that linear
  // operators read; else empty. For bias correction and equalization.
  std::vector<float> channel_means = {};
  std::vector<float> channel_max = {};
  // Half of the 95% confidence interval of min and of max (quant/interval.h); negative: not known.
  float min_error = -1;
  float max_error = -1;
};
using Ranges = std::map<std::string, Range>;  // by value name

// Runs `graph` on one calibration sample (inputs by position) and returns the outputs. Given by the
// caller.
using RunFn = std::function<Result<std::vector<Tensor>>(std::span<const Tensor> inputs)>;
// Prepares a graph for running: the caller compiles it.
using PrepareFn = std::function<Result<RunFn>(const Graph& graph)>;
// Calls its argument with each calibration sample in turn (inputs by position, batch 1), any number
// of times over.
using SamplesFn =
    std::function<Status(const std::function<Status(std::span<const Tensor> inputs)>&)>;

struct ObserverDef;  // quant/observer.h

struct CalibrationOptions {
  const ObserverDef* observer = nullptr;  // of AllObservers(); nullptr: the first, sqnr
  double percentile = 99.99;              // of the observer of this name
  int bins = 2048;                        // of the histogram of observers that take one
  // Samples that each run holds one behind the other in every value (compile/batch.h).
  int64_t batch = 1;
  bool intervals = false;  // Range::min_error and max_error
  // Stops as soon as the ranges are known well enough (quant/interval.h); the samples are then to
  // come in an order that makes the first ones stand for all. Implies `intervals`.
  bool stop_when_enough = false;
};

// What a calibration says beside the ranges.
struct CalibrationNotes {
  int samples = 0;
  std::string enough;  // of stop_when_enough: why no more were taken, or that all were
  std::vector<std::string> warnings;       // data that cannot have been meant: quant/suspect.h
  std::vector<std::string> data_warnings;  // of whoever read the samples
};

// Observes every activation that QuantizeStatic may quantize. The result does not depend on the
// order of the samples, on how many a run holds or on threads, bit for bit (but for
// moving-average, which is about their order). Errors:
// kInvalidInput when there is no sample, or a NaN or infinity appears: names the value and the
// sample.
Result<Ranges> Calibrate(const Graph& graph, const PrepareFn& prepare, const SamplesFn& samples,
                         const CalibrationOptions& options, CalibrationNotes* notes = nullptr);

// ranges.json (docs/ranges.md); `samples` is a note for readers.
Status SaveRanges(const Ranges& ranges, const CalibrationOptions& options, const std::string& path,
                  int samples = 0);
Result<Ranges> LoadRanges(const std::string& path);

struct QdqTarget;
struct LowBits;  // quant/low_bits.h

// A constant weight that a scheme rounds, and to what.
struct WeightRounding {
  std::string node, weight;  // names: of the operator that reads it, and of the constant
  size_t input = 1;          // of the operator, which is the weight
  Tensor values;             // plain float32, finite
  const LowBits* low_bits;   // null: int8, from -127 to 127, without zero points
  int64_t block = 0;         // of low_bits along K; 0: one scale for each output channel
  int axis = -1;             // of int8: whose indices have a scale each; -1: one for all
  int bits = 8;  // of int8: 4, 2 or 1 for multiples that so many bits hold (quant/layer_bits.h)
  std::vector<float> least_scale;  // of int8, as of QuantizeWeight (quant/params.h)
};
// Gives the quantized form of values, of the type that RoundToNearest gives.
using RoundFn = std::function<Tensor(const WeightRounding& rounding)>;
// By the numbers nearest to the values, with the scales of QuantizeWeight, RoundToFewBits or
// LowBits::quantize. The result does not depend on `threads`.
Tensor RoundToNearest(const WeightRounding& rounding, int threads);

// Quantization parameters that were chosen elsewhere, as in another tool's file: schemes take them
// in place of their own (quant/given.h).
struct GivenType {
  bool real = false;  // it stays float32; the other fields say nothing then
  DType dtype = DType::kInt8;
  QuantParams params;
  int bits = 0;         // of a constant, or where `held`: it uses so many bits of the type; 0: all
  bool binary = false;  // of a weight: it is its sign, -1 or 1
  bool held = false;    // of an activation: the layer that computes it keeps it to these bits
  // An activation has it also where the scheme would leave it in float32: it is rounded there.
  bool everywhere = true;
};
using GivenTypes = std::map<std::string, GivenType>;  // by value name

// How many bits the weights or the results of some layers take: 8, 4 or 2; weights also 1, their
// sign.
struct LayerBits {
  std::string layers;  // a glob pattern of node names
  int bits = 8;
};

struct QuantizeOptions {
  bool per_channel = true;
  DType activation = DType::kUint8;  // or kInt8
  bool symmetric_activations = false;
  bool skip_first_last = false;
  // Of QuantizeStatic; where methods are chosen (quant/method.h), those of these names do it.
  bool correct_bias = true;  // needs the ranges' channel means
  bool equalize = true;  // needs their channel maxima too (quant/equalize.h); with per_channel only
  const QdqTarget* target =
      nullptr;  // the runtime of an ONNX file (quant/unfuse.h); null for evoq itself
  std::vector<std::string> exclude;  // glob patterns of node names that stay float
  Reasons keep;                      // nodes that stay as they are (quant/mixed.h)
  GivenTypes given;                  // of activations, weights and biases
  // Of the results of static int8 layers that are not given (quant/activation_bits.h).
  std::vector<LayerBits> activation_bits;
  std::vector<LayerBits> weight_bits;  // of int8 weights (quant/layer_bits.h)
  int64_t block = 32;                  // of LowBits along K; 0: one scale for each output channel
  bool equal_blocks = false;           // data in the blocks of the weights, as .onnx files have it
  int threads = 1;                     // that quantize weights
  // Weights whose rounding makes up for the means already: correct_bias leaves their layers alone.
  std::set<std::string> compensated;
  RoundFn round;  // of weights; empty: RoundToNearest
};

// Why the options keep this node as it is, or nothing.
std::optional<Reason> KeptByOptions(const Node& node, const QuantizeOptions& options);

// Counts leave out nodes without real values (shape arithmetic).
struct QuantizeReport {
  PrecisionCounts nodes;  // by what they compute in
  int int8_weights = 0;   // of those in float32: the ones whose weights became int8
  std::map<std::string, int> low_bit_weights;  // and the name of a LowBits
  int already = 0;  // layers that computed with integers before, and stay as they are
  Reasons float_reasons;
  std::vector<std::string> warnings;
  // What activations, weights and biases became, by value name; a bias with its implied scales.
  std::map<std::string, TensorType> used;
  std::map<std::string, int> activation_bits;   // of those that use fewer than 8
  std::map<std::string, std::string> not_used;  // of QuantizeOptions::given, and why
};

// Static int8: types values with scales from `ranges`, quantizes weights and biases, puts
// QuantizeLinear and DequantizeLinear where integers and floats meet. Recurrent operators and
// tables are quantized as by QuantizeDynamic, where no other runtime is the target. Nodes left
// float get the attribute evoq.float_reason.
Result<QuantizeReport> QuantizeStatic(Graph& graph, const Ranges& ranges,
                                      const QuantizeOptions& options);

// The bytes of the integers that dynamic products multiply, 1 or 2 each; given weights have one.
struct DynamicBytes {
  int data = 1;
  int weights = 1;
};
// Dynamic integers: Conv, MatMul and, with data of one byte, recurrent operators with constant
// weights compute with integers, on activations quantized at each run by their own range; the
// weights of other operators become int8 as by QuantizeWeights, but stay as they are beside weights
// of two bytes. Data has one range for all rows.
Result<QuantizeReport> QuantizeDynamic(Graph& graph, const QuantizeOptions& options,
                                       DynamicBytes bytes = {});
// The same with data whose scales the ranges give: static integers of 16 bits.
Result<QuantizeReport> QuantizeStaticBytes(Graph& graph, const Ranges& ranges,
                                           const QuantizeOptions& options,
                                           DynamicBytes bytes = {.data = 2});

// What QuantizeStatic does to a graph before it chooses anything: sums and activations that it
// computes in steps of their own become nodes. Doing it twice changes nothing.
Status SplitForStatic(Graph& graph, const Ranges& ranges, const QuantizeOptions& options);
// What the other schemes do first: products whose first operand is the constant are turned
// (quant/turn_product.h). Doing it twice changes nothing.
Status TurnForWeights(Graph& graph, const Ranges& ranges, const QuantizeOptions& options);

// What QuantizeWeights makes of the constant weights of matrix products and recurrent operators.
struct WeightsAs {
  const LowBits* low_bits = nullptr;  // in blocks of QuantizeOptions::block; null: int8
  // And the data of those, and of recurrent operators, is rounded to int8 when it is multiplied
  // (attribute data_block); of recurrent operators beside int8 weights too.
  bool rounding = false;
  bool rounds_beside_int8 = false;  // so is that of products with int8 weights
  bool products = true;             // false: recurrent operators and tables alone
};

// Weights only: constant weights become int8 per channel, or of low bits where they can;
// computation stays float32, but for products of rounded data.
Result<QuantizeReport> QuantizeWeights(Graph& graph, const QuantizeOptions& options,
                                       WeightsAs as = {});

// Whether the graph extends caches of keys and values: its rows are tokens of sequences that run
// together and piece by piece, so that none may depend on what runs beside it.
bool HasCaches(const Graph& graph);

// A quantization scheme: one row in its own file, named by one line in quant/schemes.inc; what
// `--scheme` names.
struct QuantScheme {
  const char* name;  // "int8", "int8-weights"
  const char* doc;
  Precision precision;  // what becomes of its layers or their weights; kFloat32: nothing
  bool needs_calibration;
  const char* observer = "";  // of its ranges where none is named; "": the first of all
  DType values;               // what its layers give to each other: kFloat32, kUint8 or kBfloat16
  bool weights_only = false;  // the layers compute in float32 whatever becomes of their weights
  // Widens weights of 16 bits itself, one at a time (passes/widen.h); else they come in float32.
  bool widens = false;
  const LowBits* low_bits = nullptr;  // of its weights of matrix products; null: int8
  // Whether --scheme auto tries it: not where another scheme has the same speed and loses less, or
  // the same loss and is faster.
  bool for_auto = true;
  // Whether it is faster than float32 is up to the processor: quantize measures it and says so.
  bool processor_decides = false;
  // What `run` does first to the graph, for methods (quant/method.h), which come between the two.
  Status (*prepare)(Graph& graph, const Ranges& ranges,
                    const QuantizeOptions& options) = TurnForWeights;
  Result<QuantizeReport> (*run)(Graph& graph, const Ranges& ranges, const QuantizeOptions& options);
};
std::span<const QuantScheme* const> AllSchemes();
const QuantScheme* FindScheme(std::string_view name);

}  // namespace evoq
