#include "cli/common.h"

#include <unistd.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <filesystem>

#include "base/check.h"
#include "engine/tuning_cache.h"
#include "onnx/onnx.h"
#include "ops/driver.h"

namespace evoq {
namespace {

thread_local KeptOutput* kept = nullptr;

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

KeptOutput::KeptOutput() {
  EVOQ_CHECK(kept == nullptr, "a verb runs within a verb");
  kept = this;
}
KeptOutput::~KeptOutput() { kept = nullptr; }

namespace {

std::atomic<bool> bar_is_shown = false;

// What is printed next begins on a line of its own, and the bar is gone.
void ClearBar() {
  if (bar_is_shown.exchange(false)) fmt::print(stderr, "\r\033[K");
}

}  // namespace

void WriteOut(std::string_view text) {
  if (kept != nullptr) {
    kept->out += PrintableLines(text);
  } else {
    ClearBar();
    fmt::print("{}", PrintableLines(text));
  }
}

void WriteLog(std::string_view line) {
  if (kept != nullptr) {
    kept->log.push_back(PrintableLines(line));
  } else {
    ClearBar();
    fmt::print(stderr, "{}\n", PrintableLines(line));
  }
}

namespace {

// With `free`, a size may be '?': -1.
Result<InputShapes> ParseSizes(const std::vector<std::string>& options, const char* name,
                               bool free) {
  InputShapes shapes;
  for (const std::string& option : options) {
    const auto bad = [&] {
      return Fail(ErrorCode::kUsage, "{} {}: expected NAME={}x3x224x224", name, option,
                  free ? "?" : "1");
    };
    const size_t equals = option.rfind('=');  // names may hold '='
    if (equals == std::string::npos || equals == 0) return bad();
    std::vector<int64_t> sizes;
    const char* at = option.c_str() + equals + 1;
    const char* end = option.c_str() + option.size();
    while (at < end) {
      int64_t size = -1;
      const bool left_free = free && *at == '?';
      const auto [next, error] =
          left_free ? std::from_chars_result{at + 1, std::errc()} : std::from_chars(at, end, size);
      if (error != std::errc() || (size < 0 && !left_free) || (next < end && *next != 'x'))
        return bad();
      if (size == 0)
        return Fail(ErrorCode::kUsage, "{} {}: dimension {} has size 0, expected at least 1", name,
                    option, sizes.size());
      sizes.push_back(size);
      at = next + 1;
    }
    shapes[option.substr(0, equals)] = std::move(sizes);
  }
  return shapes;
}

}  // namespace

Result<InputShapes> ParseShapes(const std::vector<std::string>& options) {
  return ParseSizes(options, "--shape", /*free=*/false);
}

Result<Graph> LoadGraph(const std::string& onnx_path, const std::vector<std::string>& fixed) {
  EVOQ_ASSIGN(const InputShapes shapes, ParseSizes(fixed, "--fix-shape", /*free=*/true));
  EVOQ_ASSIGN(Graph graph, ImportOnnx(onnx_path));
  EVOQ_TRY(FixShapes(graph, shapes));
  EVOQ_TRY(WithContext(RunPasses(graph, Stage::kOptimize), onnx_path));
  return graph;
}

void AddShapeOptions(CLI::App& app, std::vector<std::string>& shapes,
                     std::vector<std::string>& fixed, const char* what) {
  app.add_option(
      "--shape", shapes,
      fmt::format("Sizes of a free input to {}: NAME=1x3x224x224; the model stays free", what));
  app.add_option("--fix-shape", fixed,
                 "Fix sizes of a free input for good: NAME=?x3x224x224, ? staying free");
}

Result<InputShapes> WithBatch(const Graph& graph, InputShapes shapes, int64_t batch) {
  if (batch <= 0) return shapes;
  for (ValueId id : graph.inputs()) {
    const Value& input = graph.value(id);
    if (!input.type.shape.ranked() || input.type.shape.rank() == 0) continue;
    auto [it, added] = shapes.emplace(input.name, input.type.shape.sizes());
    if (input.type.shape[0].known() && input.type.shape[0].value != batch)
      return Fail(ErrorCode::kUsage, "--batch {}: input {} has the fixed shape {}", batch,
                  input.name, input.type.shape.ToString());
    it->second[0] = batch;
    for (size_t i = 1; i < it->second.size(); ++i) {
      if (it->second[i] < 0)
        return Fail(ErrorCode::kUsage, "input {} is {}: name its sizes with --shape {}=...",
                    input.name, input.type.shape.ToString(), input.name);
    }
  }
  return shapes;
}

Result<std::unique_ptr<Engine>> LoadEngine(const std::string& path, int threads,
                                           const InputShapes& shapes, bool stored_tuning) {
  return Engine::Load(path, {threads, shapes, stored_tuning});
}

void AddTuneOptions(CLI::App& app, TuneChoice& choice, const char* without) {
  app.add_flag("--tune{1},--no-tune{-1}", choice.value,
               std::string("Measure what each step does fastest on this machine, with --threads "
                           "threads; --no-tune: ") +
                   without);
}

Result<nlohmann::json> TuneAndTell(Model& model, int threads, const InputShapes& shapes) {
  TuneOptions options;
  options.threads = threads;
  options.shapes = shapes;
  options.cache_path = TuningCachePath();
  EVOQ_ASSIGN(options.isa, SelectIsa());
  EVOQ_ASSIGN(const TuneReport report, TuneModel(model, options));
  return TellTuned(report);
}

nlohmann::json TellTuned(const TuneReport& report) {
  for (const std::string& warning : report.warnings) Log("warning: {}", warning);
  Out("tuned {} steps in {:.1f} s, {} kinds measured: {} take another way than the default",
      report.steps, report.seconds, report.measured, report.changed);
  if (report.measured > 0) Out(", {:.3f} -> {:.3f} ms", report.default_ms, report.tuned_ms);
  Out("\n");
  return {{"steps", report.steps},           {"measured", report.measured},
          {"changed", report.changed},       {"seconds", report.seconds},
          {"default_ms", report.default_ms}, {"tuned_ms", report.tuned_ms},
          {"warnings", report.warnings}};
}

std::string FindPreprocess(const std::string& model_path, const std::string& given) {
  if (!given.empty()) return given;
  std::filesystem::path beside(model_path);
  beside.replace_extension(".preprocess.json");
  return std::filesystem::exists(beside) ? beside.string() : "";
}

std::vector<InputSpec> InputsOf(const Graph& graph) {
  std::vector<InputSpec> inputs;
  for (ValueId id : graph.inputs()) {
    const Value& input = graph.value(id);
    const bool ranked = input.type.shape.ranked();
    inputs.push_back({input.name, ranked ? input.type.shape.sizes() : std::vector<int64_t>(),
                      input.type.dtype, ranked});
  }
  return inputs;
}

CLI::Option* AddDataOption(CLI::App& app, const char* name, std::vector<std::string>& sources,
                           const char* doc) {
  const std::string kinds =
      ": a folder of images, .npy or .npz, .npy, .npz, MNIST idx or CIFAR .bin; of several inputs "
      "an .npz with their names, "
      "or NAME=FILE, repeated (docs/calibration.md)";
  return app.add_option(name, sources, doc + kinds)->allow_extra_args(false);
}

Result<std::unique_ptr<Dataset>> OpenData(const std::vector<std::string>& sources,
                                          const Graph& graph, const std::string& model_path,
                                          const std::string& preprocess,
                                          const std::string& labels) {
  DatasetOptions options;
  if (const std::string file = FindPreprocess(model_path, preprocess); !file.empty()) {
    EVOQ_ASSIGN(options.preprocess, LoadPreprocess(file));
  }
  options.labels = labels;
  return OpenInputs(sources, InputsOf(graph), options);
}

Progress::Progress(std::string label)
    : label_(Printable(label)),
      active_(kept == nullptr && isatty(STDERR_FILENO)),
      start_ns_(NowNs()) {}

Progress::~Progress() {
  if (active_) ClearBar();
}

void Progress::Update(double fraction) {
  if (!active_) return;
  const int64_t now = NowNs();
  if (now - start_ns_ < 1'000'000'000 || now - last_ns_ < 100'000'000) return;
  last_ns_ = now;
  bar_is_shown = true;
  const int filled = static_cast<int>(fraction * 30);
  fmt::print(stderr, "\r{} [{:=<{}}{: <{}}] {:3.0f}%", label_, "", filled, "", 30 - filled,
             fraction * 100);
  std::fflush(stderr);
}

int64_t FloatWeightBytes(const Graph& graph) {
  int64_t bytes = 0;
  for (int i = 0; i < graph.value_count(); ++i) {
    const Value& v = graph.value(ValueId{i});
    if (!v.is_constant() || v.users.empty()) continue;
    const bool bias = v.type.dtype == DType::kInt32 && v.type.shape.rank() == 1;
    if (IsFloat(v.type.dtype) || v.type.quantized() || bias)
      bytes += 4 * v.type.shape.elements().value_or(0);
  }
  for (NodeId id : graph.order()) {
    for (const auto& body : graph.node(id).bodies) bytes += FloatWeightBytes(*body);
  }
  return bytes;
}

}  // namespace evoq
