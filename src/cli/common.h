// What several verbs share: option values, datasets, progress.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/printable.h"
#include "data/inputs.h"
#include "engine/engine.h"
#include "profile/measure.h"
#include "quant/quant.h"

namespace evoq {

// "NAME=1x3x224x224" -> name, sizes. Errors: kUsage.
Result<InputShapes> ParseShapes(const std::vector<std::string>& options);

// The optimized graph of an .onnx, with sizes of its inputs fixed for good as --fix-shape says
// ("NAME=?x3x224x224"). Errors: kUsage for those; the ones of import and passes.
Result<Graph> LoadGraph(const std::string& onnx_path, const std::vector<std::string>& fixed);

// --shape, with what it is for ("plan for"), and --fix-shape, of verbs that write a model.
void AddShapeOptions(CLI::App& app, std::vector<std::string>& shapes,
                     std::vector<std::string>& fixed, const char* what);

// Shapes for a batch of `batch` samples: dimension 0 of every input becomes `batch` where the model
// leaves it free, over what --shape says. Errors: kUsage when the model fixes it to another size.
Result<InputShapes> WithBatch(const Graph& graph, InputShapes shapes, int64_t batch);

// Loads MODEL (.onnx or .etm) with the threads of the command line.
Result<std::unique_ptr<Engine>> LoadEngine(const std::string& path, int threads,
                                           const InputShapes& shapes = {},
                                           bool stored_tuning = true);

// --tune and --no-tune.
struct TuneChoice {
  int value = 0;  // 1: measure, -1: --no-tune, 0: neither
  bool measure() const { return value > 0; }
  bool stored() const { return value >= 0; }
};
void AddTuneOptions(CLI::App& app, TuneChoice& choice, const char* without);
// Prints what was tuned and the warnings; returns it for --json.
nlohmann::json TellTuned(const TuneReport& report);
Result<nlohmann::json> TuneAndTell(Model& model, int threads, const InputShapes& shapes);

// What the inputs of a model take.
std::vector<InputSpec> InputsOf(const Graph& graph);

// An option for data, of a model with any number of inputs (data/inputs.h): may be repeated, each
// time with one value.
CLI::Option* AddDataOption(CLI::App& app, const char* name, std::vector<std::string>& sources,
                           const char* doc);

// A data set for the model's inputs; `preprocess` and `labels` may be empty. Looks for
// MODEL.preprocess.json beside the model when `preprocess` is empty and the data needs one.
Result<std::unique_ptr<Dataset>> OpenData(const std::vector<std::string>& sources,
                                          const Graph& graph, const std::string& model_path,
                                          const std::string& preprocess, const std::string& labels);
// The preprocess file to use, "" when there is none.
std::string FindPreprocess(const std::string& model_path, const std::string& given);

// A bar on stderr when it is a terminal and the work takes over a second; nothing otherwise, or
// while output is kept.
class Progress {
 public:
  explicit Progress(std::string label);
  ~Progress();
  void Update(double fraction);

 private:
  std::string label_;
  bool active_;
  int64_t start_ns_;
  int64_t last_ns_ = 0;
};

// The bars of one stage of work after the other.
class StageProgress {
 public:
  void Update(const std::string& stage, double fraction) {
    if (stage != stage_) bar_.emplace(stage_ = stage);
    bar_->Update(fraction);
  }

 private:
  std::string stage_;
  std::optional<Progress> bar_;
};

// Bytes of all float32 weights that the model's constants, those of subgraphs too, stand for:
// elements of float and quantized constants x 4. The bias of a quantized operator (int32) counts as
// float32 too.
int64_t FloatWeightBytes(const Graph& graph);

// While it lives, what this thread would print is kept here, and no progress is shown: for callers
// in the same process.
class KeptOutput {
 public:
  KeptOutput();
  ~KeptOutput();
  KeptOutput(const KeptOutput&) = delete;
  KeptOutput& operator=(const KeptOutput&) = delete;
  std::string out;               // of stdout
  std::vector<std::string> log;  // lines of stderr
};
// The border to the terminal: whatever the text holds, it comes out as PrintableLines. All that
// evoq prints goes through these.
void WriteOut(std::string_view text);
void WriteLog(std::string_view line);

// Prints to stdout. Strings among the arguments are made printable, each on one line; text of
// several lines says so: Lines{text}.
template <typename... Args>
void Out(fmt::format_string<Args...> format, Args&&... args) {
  WriteOut(FormatPrintable(format, std::forward<Args>(args)...));
}
// Prints a line to stderr, as Out does.
template <typename... Args>
void Log(fmt::format_string<Args...> format, Args&&... args) {
  WriteLog(FormatPrintable(format, std::forward<Args>(args)...));
}

}  // namespace evoq
