#include <filesystem>

#include "base/file.h"
#include "base/text.h"
#include "cli/common.h"
#include "cli/digits.h"
#include "cli/embedded.h"
#include "cli/verb.h"
#include "models/models.h"
#include "onnx/onnx.h"
#include "profile/measure.h"
#include "reference/reference.h"
#include "report/table.h"
#include "workflow/quantize.h"
#include "zoo/zoo.h"

namespace evoq {
namespace {

using nlohmann::json;

constexpr int64_t kCalibration = 200, kScored = 2000;

struct Options {
  std::string output = "evoq-demo";
  int64_t draw = 0;
  uint64_t seed = 1;
  bool quick = false;
};

// What the table shows of one model.
struct Row {
  std::string name, files;
  double float_accuracy = -1, int8_accuracy = -1;
  double float_ms = 0, int8_ms = 0;
  int64_t float_bytes = 0, int8_bytes = 0;
};

Status WriteDigits(const std::string& folder, int64_t count, uint64_t seed) {
  EVOQ_TRY(MakeDirectories(folder));
  const Digits digits = DrawDigits(count, seed);
  EVOQ_TRY(WriteNpy(digits.images, folder + "/images.npy"));
  return WriteNpy(digits.labels, folder + "/labels.npy");
}

Result<double> Accuracy(Engine& engine, const Digits& digits) {
  int64_t right = 0;
  const int64_t count = digits.labels.elements();
  for (int64_t i = 0; i < count; ++i) {
    const Tensor input = DigitAt(digits, i);
    EVOQ_ASSIGN(const std::vector<Tensor> outputs, engine.Run(std::span(&input, 1)));
    const float* scores = outputs[0].data<float>();
    right += std::max_element(scores, scores + outputs[0].elements()) - scores ==
             digits.labels.data<int64_t>()[i];
  }
  return static_cast<double>(right) / static_cast<double>(count);
}

// Float against int8, one run each in turn.
Status Measure(Engine& real, Engine& quantized, double seconds, const Follow& follow, Row& row) {
  EVOQ_ASSIGN(const std::shared_ptr<Executor> a, real.Default());
  EVOQ_ASSIGN(const std::shared_ptr<Executor> b, quantized.Default());
  Runnable* const executors[] = {a.get(), b.get()};
  RunBuffers buffers[] = {MakeBuffers(*a), MakeBuffers(*b)};
  MeasureOptions options;
  options.duration_s = seconds;
  options.progress = follow.Stage(row.name);
  EVOQ_ASSIGN(const std::vector<RunTimes> times, MeasureInterleaved(executors, buffers, options));
  row.float_ms = times[0].median();
  row.int8_ms = times[1].median();
  return {};
}

// The float file, the quantized one, and their sizes.
Result<Row> QuantizeFor(const std::string& name, const std::string& folder, QuantizeJob job,
                        const Follow& follow) {
  Row row;
  row.name = name;
  job.model = folder + "/" + name + ".onnx";
  job.output = folder + "/" + name + ".etm";
  row.files = job.output;
  EVOQ_ASSIGN(const Quantized done, Quantize(job, follow));
  row.float_bytes = done.input_bytes;
  row.int8_bytes = done.output_bytes;
  return row;
}

Result<Row> RunDigits(const std::string& folder, int threads, const Follow& follow) {
  EVOQ_TRY(WriteFileAtomic(folder + "/digits.onnx", EmbeddedDigitsModel()));
  EVOQ_TRY(WriteDigits(folder + "/calibration", kCalibration, 11));
  QuantizeJob job;
  job.calib = {folder + "/calibration/images.npy"};
  job.threads = threads;
  EVOQ_ASSIGN(Row row, QuantizeFor("digits", folder, job, follow));
  EVOQ_ASSIGN(auto real, LoadEngine(folder + "/digits.onnx", {.threads = threads}));
  EVOQ_ASSIGN(auto quantized, LoadEngine(folder + "/digits.etm", {.threads = threads}));
  const Digits digits = DrawDigits(kScored, 12);
  EVOQ_ASSIGN(row.float_accuracy, Accuracy(*real, digits));
  EVOQ_ASSIGN(row.int8_accuracy, Accuracy(*quantized, digits));
  EVOQ_TRY(Measure(*real, *quantized, 1, follow, row));
  return row;
}

Result<Row> RunResnet(const std::string& folder, int threads, const Follow& follow) {
  Graph graph = FindZooModel("resnet50")->build({});
  EVOQ_TRY(InferTypes(graph));
  EVOQ_TRY(ExportOnnx(graph, folder + "/resnet50.onnx"));
  QuantizeJob job;
  job.calib_random = 4;
  job.threads = threads;
  EVOQ_ASSIGN(Row row, QuantizeFor("resnet50", folder, job, follow));
  EVOQ_ASSIGN(auto real, LoadEngine(folder + "/resnet50.onnx", {.threads = threads}));
  EVOQ_ASSIGN(auto quantized, LoadEngine(folder + "/resnet50.etm", {.threads = threads}));
  EVOQ_TRY(Measure(*real, *quantized, 4, follow, row));
  return row;
}

json PrintRows(const std::vector<Row>& rows) {
  const auto percent = [](double v) {
    return v < 0 ? std::string("-") : fmt::format("{:.2f}%", 100 * v);
  };
  TextTable table({"model", ">float32", ">int8", ">float32 ms", ">int8 ms", ">faster",
                   ">float32 file", ">int8 file", ">smaller"});
  json list = json::array();
  for (const Row& r : rows) {
    table.Row({r.name, percent(r.float_accuracy), percent(r.int8_accuracy),
               fmt::format("{:.3f}", r.float_ms), fmt::format("{:.3f}", r.int8_ms),
               fmt::format("{:.2f}x", r.float_ms / r.int8_ms), HumanBytes(r.float_bytes),
               HumanBytes(r.int8_bytes),
               fmt::format("{:.2f}x", static_cast<double>(r.float_bytes) /
                                          static_cast<double>(r.int8_bytes))});
    json row = {{"model", r.name},
                {"float_ms", r.float_ms},
                {"int8_ms", r.int8_ms},
                {"float_bytes", r.float_bytes},
                {"int8_bytes", r.int8_bytes},
                {"file", r.files}};
    if (r.float_accuracy >= 0)
      row["float_top1"] = r.float_accuracy, row["int8_top1"] = r.int8_accuracy;
    list.push_back(std::move(row));
  }
  Out("{}", Lines{table.ToString()});
  for (const Row& r : rows) Out("wrote {}\n", r.files);
  return list;
}

Result<json> Run(const Options& o, const CommonOptions& common) {
  const int threads = common.threads;
  if (o.draw > 0) {
    EVOQ_TRY(WriteDigits(o.output, o.draw, o.seed));
    Out("wrote {} drawn digits to {}\n", o.draw, o.output);
    return json{{"samples", o.draw}};
  }
  EVOQ_TRY(MakeDirectories(o.output));
  EVOQ_ASSIGN(const Isa isa, SelectIsa());
  const int used = threads > 0 ? threads : PhysicalCores();
  Out("evoq on {}, {}, {} thread{}\n", CpuName(), IsaName(isa), used, used == 1 ? "" : "s");
  std::vector<Row> rows;
  EVOQ_ASSIGN(Row digits, RunDigits(o.output, threads, common.follow));
  Out("digits: a small network trained on drawn digits, calibrated on {} and scored on {} others\n",
      kCalibration, kScored);
  rows.push_back(std::move(digits));
  if (!o.quick) {
    Out("resnet50: random weights, for speed and size\n");
    EVOQ_ASSIGN(Row resnet, RunResnet(o.output, threads, common.follow));
    rows.push_back(std::move(resnet));
  }
  return json{{"models", PrintRows(rows)}};
}

VerbRun Declare(const VerbOptions& options, const CommonOptions& common) {
  auto o = std::make_shared<Options>();
  options.Add("-o,--output", o->output, "The folder to write into").ShowDefault();
  options.AddFlag("--quick", o->quick, "Leave out ResNet-50");
  options
      .Add("--draw-digits", o->draw,
           "Only draw N digits into the folder: images.npy and labels.npy")
      .InRange(1, 1000000);
  options.Add("--seed", o->seed, "Of --draw-digits").ShowDefault();
  return [o, &common] { return Run(*o, common); };
}

}  // namespace

extern const VerbDef kVerbDemo = {
    .name = "demo",
    .doc = "Does the main job on a built-in model: quantizes, compares accuracy, speed and size.",
    .example = "evoq demo",
    .declare = Declare,
};

}  // namespace evoq
