// The C++ interface of evoq's toolchain: optimize, calibrate, quantize, compile, explain, evaluate,
// predict, compare, diff, sensitivity, tune, prune, train.
//
//   std::string error;
//   evoq::toolchain::QuantizeOptions options;
//   options.calibration = {"images/"};
//   auto done = evoq::toolchain::Quantize("model.onnx", "model.etm", options, {}, &error);
//   if (!done) { std::cerr << error; return 1; }
//   std::cout << done->report.text;
//
// Needs C++17 and nothing of evoq's inner headers. As in evoq.h nothing throws, but for what the
// caller's own functions do: they must not throw. What can fail returns an empty result and says
// why in *error. Only where a report is made without a byte of memory left does the process end
// (docs/bad-input.md). The options are those of the command's verbs (docs/cli.md), which says more.
//
// The names live in an inline namespace with the version's number. It changes when a struct gets
// another layout or a function another meaning: a program compiled for another version does not
// link.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "evoq/evoq.h"

#define EVOQ_TOOLCHAIN_VERSION 1

namespace evoq::toolchain {
inline namespace v1 {

// Sizes of inputs by name.
using Shapes = std::map<std::string, std::vector<std::int64_t>>;

// How the caller follows a task and stops it; either may be null. Both are called on the thread of
// the task, between stages, samples, rounds and blocks of runs.
struct Follow {
  // A stage ("calibrating") and how much of it is done, from 0 to 1.
  std::function<void(const std::string& stage, double fraction)> progress;
  // Whether to stop. The task then fails, with "cancelled while calibrating", and writes no file.
  std::function<bool()> cancelled;
};

// What the command prints and writes of the same result.
struct Report {
  std::string text;                   // lines for a terminal
  std::string json;                   // what --json writes: UTF-8, without line breaks
  std::vector<std::string> warnings;  // and notes: "warning: ..."
};

// Which graph passes run (docs/passes.md). The model keeps the choice wherever it is written.
struct Passes {
  // Left out: "PASS" everywhere, "PASS@NODE" on nodes of this name, "PASS@op=OPERATOR"; each a glob
  // pattern.
  std::vector<std::string> disable;
  int opt_level = -1;  // passes up to this level, 0 to 3; -1: what the model says, else 3
};

struct OptimizeOptions {
  Passes passes;
  int stop_after = -1;          // so many passes that change something; negative: all
  bool merge_adapters = false;  // LoRA adapters, into the weights beside which they are
};
struct PassChange {
  std::string pass;
  int changes = 0;
  std::int64_t nodes = 0;  // afterwards
};
struct OptimizeResult {
  std::int64_t nodes_before = 0, nodes_after = 0;
  std::vector<PassChange> passes;  // those that changed something
  Report report;
};
// Runs the graph passes only and writes `output`, an .onnx.
std::optional<OptimizeResult> Optimize(const std::string& model, const std::string& output,
                                       const OptimizeOptions& options = {},
                                       const Follow& follow = {}, std::string* error = nullptr);

struct QuantizeOptions {
  std::string scheme = "int8";  // of `evoq list schemes`, or "auto"
  // Names of `evoq list methods`, "a,b,c", or "none"; "": the scheme's own; "auto": those that pay.
  std::string method;
  std::vector<std::string> calibration;  // files or folders; of several inputs "NAME=PATH" of each
  std::vector<std::vector<Array>> arrays;  // these samples instead, by sample, by input
  int calibration_random = 0;              // so many random samples instead: for speed tests only
  int calibration_limit = 200;             // at most so many samples, evenly spread; 0: all
  // "auto": no more than tell the ranges well enough (docs/calibration.md); a number: as the limit.
  std::string calibration_samples;
  std::string preprocess;           // how images become inputs: a JSON file
  std::string observer;             // of `evoq list observers`; "": the default
  double percentile = 99.99;        // of the observer of this name
  std::string ranges, save_ranges;  // files of calibrated ranges to take and to write
  // Parameters by tensor name, as AIMET's files: to take, and to write in this version.
  std::string encodings, encodings_out;
  std::string encodings_version = "1.0.0";
  std::string calib_cache, calib_cache_out;  // TensorRT's calibration caches, to take and to write
  // Several scale sets (docs/adaptive.md): a number, for so many groups of the calibration samples,
  // or "NAME=PATH" for each, with its own samples; empty: one.
  std::vector<std::string> scale_sets;
  int opset = 0;                         // of an .onnx: 13 to 25; 0: the oldest that it needs
  std::vector<std::string> exclude;      // glob patterns of nodes that stay float
  bool per_tensor = false;               // one scale per weight tensor
  std::string block = "32";              // of low-bit weights along K: 32, 64, 128 or "channel"
  std::vector<std::string> weight_bits;  // of int8: "4", "PATTERN=2"; the last that matches counts
  std::vector<std::string> activation_bits;  // the same of the results of layers, kept in bytes
  bool signed_activations = false;           // int8, not uint8
  bool symmetric = false;                    // zero points in the middle
  std::string target = "ort";                // the runtime that an .onnx is written for
  Passes passes;
  Shapes shapes;         // sizes to prepare for; the model stays free
  Shapes fixed_shapes;   // sizes to fix for good; -1 stays free
  bool tune = false;     // measure what each step does fastest on this machine
  int threads = 0;       // 0: one per physical core
  std::string kv_cache;  // of a language model: "float32", "float16", "int8"; "": as it has them
  // Promises, which a certificate in the .etm says are kept (docs/certificate.md).
  std::optional<double> max_drop;     // points of top-1, or of agreement with the float model
  std::optional<double> min_sqnr_db;  // of every output
  // Percent of a language model's perplexity on `text`, a file, in windows of so many tokens.
  std::optional<double> max_perplexity_growth;
  std::string text, tokenizer;  // tokenizer "": the one that the model carries
  int window = 256;
  bool never_slower = false;      // than the float model on this machine
  std::vector<std::string> data;  // what accuracy is measured on
  std::string labels;
  int data_limit = 2000;
  double search_s = 60;  // of the search of "auto", also of methods
  double measure_s = 6;  // of the last measurement of speed
};
struct QuantizeResult {
  std::int64_t input_bytes = 0, output_bytes = 0;                  // of the files
  int samples_used = 0;                                            // of the calibration
  int steps = 0, steps_int8 = 0, steps_bf16 = 0, steps_float = 0;  // by what they compute in
  std::string steps_why;  // why nodes were counted, not steps, as of an .onnx; "": steps were
  int int8_weights = 0;   // nodes that compute in float32 and whose weights became int8
  std::map<std::string, int> low_bit_weights;        // and a type of fewer bits, by its name
  std::map<std::string, std::string> float_reasons;  // node -> "code: sentence"
  Report report;
};
// Quantizes an .onnx and writes `output`: .etm, or .onnx with QuantizeLinear and DequantizeLinear.
std::optional<QuantizeResult> Quantize(const std::string& model, const std::string& output,
                                       const QuantizeOptions& options = {},
                                       const Follow& follow = {}, std::string* error = nullptr);

struct CalibrateOptions {
  // As of QuantizeOptions.
  std::vector<std::string> calibration;
  std::vector<std::vector<Array>> arrays;
  int calibration_random = 0;
  int calibration_limit = 200;
  std::string calibration_samples;
  std::string preprocess;
  std::string observer;
  double percentile = 99.99;
  Passes passes;
  Shapes shapes;
  Shapes fixed_shapes;
  int threads = 0;
  // In parts, by other processes or on other machines (docs/calibration.md): only part "K/N" of the
  // samples; the merged first pass, behind which this is the second; files of all parts of a pass,
  // which are put together and of which no sample is run.
  std::string part, after;
  std::vector<std::string> merge;
};
struct CalibrateResult {
  bool complete = false;  // a ranges.json was written, else the file of a part or of a first pass
  bool needs_second_pass = false;  // of merged parts: Calibrate each part again, `after` this file
  std::int64_t samples = 0;
  Report report;
};
// Observes the ranges of a model's activations and writes `output`, a ranges.json for
// QuantizeOptions::ranges: the same bytes whether it was done whole or in parts.
std::optional<CalibrateResult> Calibrate(const std::string& model, const std::string& output,
                                         const CalibrateOptions& options, const Follow& follow = {},
                                         std::string* error = nullptr);

struct CompileOptions {
  Shapes shapes;  // sizes to prepare for; the model stays free
  // Gears, the sizes that sessions keep ready: of each input its sizes in each gear, all of them or
  // the free one (docs/dynamic.md).
  std::map<std::string, std::vector<std::vector<std::int64_t>>> gears;
  int suggest_gears = 0;  // so many instead, the best for the sizes of the file `observed`
  std::string observed;
  double measure_s = 6;  // of measuring these sizes
  Shapes fixed_shapes;   // sizes to fix for good; -1 stays free
  Passes passes;
  bool tune = false;     // measure what each step does fastest on this machine
  int threads = 0;       // of tuning
  std::string kv_cache;  // of a language model: "float32", "float16", "int8"; "": as it has them
};
struct CompileResult {
  std::int64_t output_bytes = 0;
  std::int64_t steps = 0;   // of the plan; 0 without one
  std::string why_no_plan;  // "": there is one
  Report report;
};
// Writes an .onnx as .etm without a change of precision; an .etm with `tune`.
std::optional<CompileResult> Compile(const std::string& model, const std::string& output,
                                     const CompileOptions& options = {}, const Follow& follow = {},
                                     std::string* error = nullptr);

struct ExplainOptions {
  std::string baseline;                       // the float model; with it there is a ledger of time
  Shapes shapes;                              // sizes of free inputs
  std::map<std::string, std::string> inputs;  // .npy content of inputs, where it counts for time
  int batch = 0;                              // samples per run, where the model leaves it free
  int threads = 0;
  double duration_s = 2;    // to measure each model
  std::string html_report;  // a file to write; "": none
};
struct ExplainedStep {
  std::string name, op, kernel, precision;
  double ms = 0, share = 0;     // of the sum of all steps
  std::string float_code, why;  // why it stays float: of every Conv and MatMul that does
};
struct ExplainedCause {
  std::string code, sentence, fix;
  double ms = 0, gain_ms = 0;  // what it costs, what the fix would win
  std::vector<std::string> steps;
};
struct ExplainResult {
  double ms = 0;           // of a run
  double baseline_ms = 0;  // 0 without a baseline
  std::vector<ExplainedStep> steps;
  std::vector<ExplainedCause> causes;  // of the gap to what the hardware allows; with a baseline
  Report report;
};
// Measures a model and says where each millisecond and each byte went.
std::optional<ExplainResult> Explain(const std::string& model, const ExplainOptions& options = {},
                                     const Follow& follow = {}, std::string* error = nullptr);

struct EvaluateOptions {
  std::vector<std::string> data;  // files or folders; of several inputs "NAME=PATH" of each
  std::string labels, preprocess;
  std::string reference;    // another model, to measure agreement with
  std::string predictions;  // a .tsv to write each sample's class to; "": none
  std::int64_t limit = 0;   // samples; 0: all
  int threads = 0;
  std::optional<AdaptiveSettings> adaptive;  // scale sets follow the samples, in their order
  // In parts, by other processes or on other machines: only part "K/N" of the samples, a file to
  // write what they gave to; files of all parts, put together instead of `data`.
  std::string part, save_part;
  std::vector<std::string> merge;
  // What outputs are to be, as `data`: an index of an array's first axis is of a sample; of several
  // outputs "NAME=PATH" of each. The report has how far they are from it.
  std::vector<std::string> targets;
};
struct EvaluateResult {
  std::int64_t samples = 0;
  std::optional<double> top1, top5;  // with labels
  std::optional<double> agreement;   // with a reference
  std::optional<double> sqnr_db;     // of the worst output against the reference's
  double ms_per_sample = 0;
  std::optional<AdaptiveReport> adaptive;  // at the end
  Report report;
};
std::optional<EvaluateResult> Evaluate(const std::string& model, const EvaluateOptions& options,
                                       const Follow& follow = {}, std::string* error = nullptr);

struct PredictOptions {
  std::vector<std::string> schemes;  // of `evoq list schemes`; empty: all. float32 is always there
  Shapes shapes;
  std::map<std::string, std::string> inputs;  // .npy content, where steps depend on it
  int batch = 0;
  std::string limits;  // of another machine, as `evoq limits --json F` wrote them; "": this one's
  std::string ranges;  // that were calibrated; "": assumed ones
  bool check = false;  // also run each model
  int threads = 0;
};
struct PredictedScheme {
  std::string scheme;
  std::string unavailable;  // why there is no forecast; "": there is one
  std::int64_t file_bytes = 0;
  // Of a run, and what nine of ten lie between; NaN where a step's time is not known.
  double ms = 0, low_ms = 0, high_ms = 0;
  double speedup = 1;  // against float32; NaN where either is not known
};
struct PredictResult {
  std::vector<PredictedScheme> schemes;  // float32 first
  Report report;
};
// What each scheme would give, without data and without running the model.
std::optional<PredictResult> Predict(const std::string& model, const PredictOptions& options = {},
                                     const Follow& follow = {}, std::string* error = nullptr);

struct CompareOptions {
  Shapes shapes;
  std::map<std::string, std::string> inputs;  // .npy content of inputs, where it counts for time
  int batch = 0;
  int threads = 0;
  double duration_s = 10;  // for both together
  double warmup_ms = 200;
  int rounds = 20;
  std::string html_report;  // a file to write; "": none
};
struct CompareResult {
  std::string verdict;                    // "faster", "slower" or "same": of B against A
  double speedup = 1, low = 1, high = 1;  // of B, with its 95% interval
  double a_ms = 0, b_ms = 0;
  Report report;
};
// Whether model B is faster than A, from runs in turn.
std::optional<CompareResult> Compare(const std::string& a, const std::string& b,
                                     const CompareOptions& options = {}, const Follow& follow = {},
                                     std::string* error = nullptr);

// Samples that inner values are looked at on: one of the first four.
struct ProbeOptions {
  std::vector<std::string> data;  // files or folders; of several inputs "NAME=PATH" of each
  std::vector<std::vector<Array>> arrays;  // these samples instead, by sample, by input
  int random = 0;                          // so many made-up samples instead
  std::string text, tokenizer;  // a text file, for a language model; tokenizer "": its own
  std::string preprocess;       // how images become inputs: a JSON file
  std::int64_t window = 256;    // tokens that a language model sees at once
  std::int64_t limit = 32;      // at most so many samples, evenly spread; 0: all
  Shapes shapes;                // of made-up samples
};

struct DiffOptions {
  ProbeOptions samples;
  bool reference = false;        // A by the reference evaluator, not by kernels
  std::optional<double> bad_db;  // a step is bad whose own signal to noise is less; 20, or 60 where
                                 // B is float32 throughout
  std::string keep;              // an .npz to write the worst sample to; "": none
  int threads = 0;
};
struct DiffedValue {
  std::string name, a_name;                                     // in B, in A
  std::string step, op;                                         // the node of B that computes it
  bool output = false;                                          // of B
  double sqnr_db = 0, cosine = 1, max_abs = 0, mean_error = 0;  // sqnr_db: infinity without error
  double own_sqnr_db = 0;  // of what the step makes of A's values
  double own_share = 0;    // of the error's energy, at most 1
};
struct DiffResult {
  std::int64_t samples = 0;
  std::vector<DiffedValue> values;          // in B's execution order
  int first_bad = -1;                       // of values; -1: none
  double bad_db = 0;                        // what counted as bad
  double sqnr_db = 0, max_error = 0;        // of the worst output
  std::string worst_sample;                 // its name
  std::vector<std::string> only_a, only_b;  // values without a counterpart
  Report report;
};
// Where B parts from A: the error of each value that both have, and the first step that is bad by
// itself (docs/diff.md).
std::optional<DiffResult> Diff(const std::string& a, const std::string& b,
                               const DiffOptions& options, const Follow& follow = {},
                               std::string* error = nullptr);

struct SensitivityOptions {
  ProbeOptions samples;          // that outputs are compared on
  std::string labels;            // of them: a file; with it top-1 is measured
  std::string scheme = "int8";   // of `evoq list schemes`, not "auto"
  std::string method, observer;  // as of QuantizeOptions, and so are those below
  double percentile = 99.99;
  std::vector<std::string> calibration;  // files or folders; empty: the samples
  int calibration_limit = 200;
  std::string calibration_samples;
  std::string ranges;
  std::vector<std::string> exclude;
  bool per_tensor = false;
  std::string block = "32";
  bool signed_activations = false;
  bool symmetric = false;
  Shapes fixed_shapes;
  std::optional<double> min_sqnr_db;  // look for layers to leave in float for so much
  std::string html_report;            // a file to write; "": none
  int threads = 0;
};
// Of the worst output, against the float model's.
struct OutputError {
  double sqnr_db = 0, cosine = 1;  // sqnr_db: infinity without error
  std::optional<double> kl;        // of class scores and of a text's logits
  std::optional<double> metric;    // of SensitivityResult::metric
};
struct LayerSensitivity {
  std::string name, op;                 // of the node
  OutputError alone;                    // it alone is quantized
  OutputError spared;                   // it alone stays in float
  int rank_alone = 0, rank_spared = 0;  // 1: it matters most
};
struct TensorOutliers {
  std::string name;
  bool weight = false;              // else an activation
  std::vector<std::string> layers;  // that read it
  double largest = 0, p999 = 0;     // magnitudes: of all, and of 99.9% of the elements
  double kurtosis = 0;
  std::int64_t channels = 0;  // 0: not known
  std::vector<std::int64_t> outlier_channels;
};
struct SensitivityResult {
  std::int64_t samples = 0;
  std::string metric;                    // "top1", "agreement", "perplexity" or "sqnr": none
  std::optional<double> float_metric;    // of the float model
  OutputError all;                       // with every layer quantized
  std::vector<LayerSensitivity> layers;  // in execution order
  std::vector<TensorOutliers> tensors;   // that layers read
  // With min_sqnr_db: the layers to leave in float, and the error then.
  std::optional<std::vector<std::string>> exclude;
  OutputError excluded;
  Report report;
};
// How much each layer adds to the error of the quantized model's outputs (docs/sensitivity.md).
std::optional<SensitivityResult> Sensitivity(const std::string& model,
                                             const SensitivityOptions& options,
                                             const Follow& follow = {},
                                             std::string* error = nullptr);

struct TuneOptions {
  Shapes shapes;  // of free inputs, to measure at and to plan for
  Passes passes;
  // "latency", "balanced", or "throughput": also looks for the batch, streams and threads that do
  // the most in a second.
  std::string strategy = "latency";
  ProbeOptions samples;     // that outputs are held to the baseline's on; none: made-up ones
  double min_sqnr_db = 60;  // what each output must keep, signal to noise
  double duration_s = 20;   // of measuring, about
  std::string html_report;  // a file to write; "": none
  int threads = 0;
};
// One model beside another, as in CompareResult.
struct TunedStage {
  std::string verdict;
  double speedup = 1, low = 1, high = 1;
  double a_ms = 0, b_ms = 0;
};
struct TuneAdvice {
  std::string code, sentence, fix;
};
struct TuneResult {
  std::int64_t steps_before = 0, steps_after = 0;
  // Graph passes beside the baseline, chosen kernels beside those, the written file beside the
  // baseline.
  TunedStage graph, operators, whole;
  bool keeps_tuning = false;  // the file has the chosen kernels: they are not slower
  double sqnr_db = 0;         // of the worst output; infinity without error
  std::vector<TuneAdvice> advice;
  Report report;
};
// Baseline, graph and operator optimization, validation (docs/tuning.md); writes `output`, an .etm,
// unless an output is too far from the baseline's, which is an error.
std::optional<TuneResult> Tune(const std::string& model, const std::string& output,
                               const TuneOptions& options = {}, const Follow& follow = {},
                               std::string* error = nullptr);

struct PruneOptions {
  std::string pattern = "block-4x4";
  std::string score = "magnitude";
  std::optional<double> sparsity;   // the share of weights, or channels, that go; the pattern's
  std::string scope = "layer";      // each layer has that share, or "global": all together
  std::vector<std::string> layers;  // glob patterns of nodes; none: all
  std::int64_t multiple = 1;        // of the channels that stay in a layer
};
struct PrunedLayer {
  std::string node;
  std::int64_t weights_before = 0, weights = 0;  // numbers that are not zero
};
struct PruneResult {
  std::vector<PrunedLayer> layers;
  std::vector<std::string> left;  // nodes that stay as they were; the report says why
  Report report;
};
// Sets weights of `model` to zero, or takes out channels (docs/pruning.md), and writes `output`, an
// .onnx.
std::optional<PruneResult> Prune(const std::string& model, const std::string& output,
                                 const PruneOptions& options = {}, const Follow& follow = {},
                                 std::string* error = nullptr);

// What is not set is as the model's recipe has it (docs/training.md).
struct TrainOptions {
  std::string data, labels;       // samples to train on: files or folders
  std::string test, test_labels;  // to measure accuracy on after each epoch
  std::string preprocess;         // how images become inputs: a JSON file
  std::string tokenizer;          // of texts: a file or folder; "": they are read byte by byte
  double hold_out = 0.1;          // of a text without files to test on, the share that tests
  std::int64_t limit = 0;         // so many samples; 0: all
  std::optional<std::int64_t> epochs, batch, shard, context;
  std::optional<double> lr, warm_up, momentum, beta2, weight_decay, label_smoothing, clip_norm;
  std::optional<double> ema, mixup;
  std::optional<std::string> optimizer, schedule, loss;
  std::optional<std::vector<std::string>> augment;
  std::vector<std::string> freeze;  // glob patterns of parameters that stay as they are
  std::vector<std::string> decay;   // PATTERN=DECAY of parameters of these names
  // "int8": train with its integers; "int4-weights" or another weights-only scheme: with its
  // rounded weights; "": with float32.
  std::string scheme;
  std::optional<std::string> block;  // of low-bit weights along K, as of QuantizeOptions
  // Of the integers, as of QuantizeOptions.
  std::vector<std::string> weight_bits, activation_bits, exclude;
  std::string teacher;  // a model whose scores this one learns from; "": none
  std::optional<double> distill, distill_share;  // their temperature, their share of the loss
  // Its values to learn too: glob patterns of names that both models have, or OWN=TEACHER; and how
  // much their mean distance counts beside the loss.
  std::vector<std::string> distill_features;
  std::optional<double> distill_features_weight;
  std::optional<std::uint64_t> seed;
  std::string checkpoint, resume, log;  // files; "": none
  std::string tensorboard;              // a folder for an event file; "": none
  int threads = 0;                      // 0: one per physical core
  // Pruning while it learns: a pattern of `evoq prune`, "zeros", or "" for none.
  std::string prune;
  std::optional<double> sparsity;  // the share that it ends with
  std::optional<std::string> prune_score, prune_scope;
  std::optional<std::int64_t> prune_multiple;
  // Adapters beside weights that stay: "rank=8,alpha=16,target=PATTERN,merge"; "": none. `scheme`
  // is then that of the weights, as "int4-weights".
  std::string lora;
  bool recompute = false;  // activations on the way back: less memory, more time, the same result
  // In place of labels, what the output is to be: files or folders. The loss is then "mse" unless
  // another is given.
  std::string targets, test_targets;
};
struct TrainedEpoch {
  std::int64_t epoch = 0;         // from 1 on
  double loss = 0, accuracy = 0;  // accuracy: 0 with targets
  std::optional<double> test_accuracy;
  double seconds = 0;
  std::optional<double> test_loss;  // of texts: its exponential is the perplexity
  std::optional<double> test_mse;   // of targets: the mean squared error
};
struct TrainResult {
  std::vector<TrainedEpoch> epochs;  // of this run: without those before a resume
  std::int64_t parameters = 0;       // numbers that were trained
  std::int64_t output_bytes = 0;
  // With a scheme: of so many test samples, whose scores are the same bits in the simulation that
  // was trained and in what was compiled.
  std::int64_t compared_samples = 0, equal_scores = 0;
  Report report;
};
// Trains a built-in network ("lenet"), one of a NAME.json (evoq/nn.h), or an .onnx further, and
// writes `output`: .onnx or .etm, with `lora` also a folder of adapters.
std::optional<TrainResult> Train(const std::string& model, const std::string& output,
                                 const TrainOptions& options, const Follow& follow = {},
                                 std::string* error = nullptr);

}  // namespace v1
}  // namespace evoq::toolchain
