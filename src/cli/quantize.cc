#include "cli/quantize.h"

#include <chrono>
#include <filesystem>

#include "base/file.h"
#include "base/text.h"
#include "onnx/onnx.h"
#include "ops/op.h"
#include "program/etm.h"
#include "quant/observer.h"
#include "quant/unfuse.h"

namespace evoq {
namespace {

using nlohmann::json;

PrepareFn PrepareWithEngine(int threads) {
  return [threads](const Graph& graph) -> Result<RunFn> {
    EVOQ_ASSIGN(std::unique_ptr<Engine> engine, Engine::FromGraph(graph, {threads, {}}));
    auto shared = std::shared_ptr<Engine>(std::move(engine));
    return RunFn([shared](std::span<const Tensor> inputs) { return shared->Run(inputs); });
  };
}

// The data set's samples, at most `limit` of them, evenly spread.
SamplesFn SamplesOf(std::shared_ptr<Dataset> data, int limit) {
  return [data, limit](const std::function<Status(std::span<const Tensor>)>& use) -> Status {
    const int64_t size = data->size(), count = limit > 0 ? std::min<int64_t>(size, limit) : size;
    Progress progress("calibrating");
    for (int64_t i = 0; i < count; ++i) {
      EVOQ_ASSIGN(const Sample sample, data->At(i * size / count));
      EVOQ_TRY(WithContext(use(std::span(&sample.input, 1)), sample.name));
      progress.Update(static_cast<double>(i + 1) / static_cast<double>(count));
    }
    return {};
  };
}

// Uniform noise in the input types' natural range, the same on every machine.
Result<SamplesFn> RandomSamples(const Graph& graph, int count) {
  Graph bound = graph;
  EVOQ_TRY(BindShapes(bound, {}));
  std::vector<TensorType> types;
  for (ValueId id : bound.inputs()) types.push_back(bound.value(id).type);
  return SamplesFn([types, count](const std::function<Status(std::span<const Tensor>)>& use) -> Status {
    uint64_t state = 88172645463325252ull;
    const auto next = [&state] {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      return static_cast<uint32_t>(state >> 32);
    };
    for (int n = 0; n < count; ++n) {
      std::vector<Tensor> inputs;
      for (const TensorType& type : types) {
        Tensor t = Tensor::Allocate(type);
        if (type.dtype == DType::kFloat32) {
          for (int64_t i = 0; i < t.elements(); ++i) t.mutable_data<float>()[i] = static_cast<float>(next() >> 8) * 0x1p-23f - 1.0f;
        } else if (DTypeBits(type.dtype) == 8) {
          for (size_t i = 0; i < t.bytes(); ++i) t.mutable_raw()[i] = static_cast<std::byte>(next());
        }
        inputs.push_back(std::move(t));
      }
      EVOQ_TRY(use(inputs));
    }
    return {};
  });
}

Result<Ranges> FindRanges(const QuantizeJob& job, const Graph& graph, const QuantMethod& method, int* samples_used) {
  if (!method.needs_calibration) return Ranges();
  if (!job.ranges_in.empty()) return LoadRanges(job.ranges_in);
  CalibrationOptions options;
  options.percentile = job.percentile;
  if (!job.observer.empty()) options.observer = FindObserver(job.observer)->id;
  SamplesFn samples;
  if (!job.calib.empty()) {
    EVOQ_ASSIGN(std::unique_ptr<Dataset> data, OpenData(job.calib, graph, job.model, job.preprocess, ""));
    samples = SamplesOf(std::move(data), job.calib_limit);
  } else if (job.calib_random > 0) {
    EVOQ_ASSIGN(samples, RandomSamples(graph, job.calib_random));
  } else {
    return Fail(ErrorCode::kUsage, "--scheme {} needs data: --calib DIR, --calib-random N or --ranges F", job.scheme);
  }
  EVOQ_ASSIGN(Ranges ranges, Calibrate(graph, PrepareWithEngine(job.threads), samples, options, samples_used));
  if (!job.ranges_out.empty()) EVOQ_TRY(SaveRanges(ranges, options, job.ranges_out));
  return ranges;
}

// Steps of the plan by precision; a model whose sizes depend on its data has none.
void CountSteps(const Model& model, json& out) {
  int total = 0, int8 = 0, bf16 = 0, floats = 0;
  const Plan plan = model.plans.empty() ? Plan() : model.plans[0];
  for (const auto& [node, decision] : plan.decisions) {
    ++total;
    int8 += decision.precision == "int8";
    bf16 += decision.precision == "bf16";
    floats += decision.precision == "float32";
  }
  out["steps_total"] = total;
  out["steps_int8"] = int8;
  out["steps_bf16"] = bf16;
  out["steps_float"] = floats;
}

int64_t QuantizedWeightBytes(const Graph& graph) {
  int64_t bytes = 0;
  for (int i = 0; i < graph.value_count(); ++i) {
    const Value& v = graph.value(ValueId{i});
    const bool bytes_of_weights = DTypeBits(v.type.dtype) <= 8 && v.type.dtype != DType::kBool && v.type.shape.rank() >= 2;
    const bool smaller = v.type.quantized() || v.type.dtype == DType::kBfloat16 || bytes_of_weights;
    if (v.is_constant() && smaller) bytes += v.type.bytes().value_or(0);
  }
  return bytes;
}

}  // namespace

Result<json> Quantize(const QuantizeJob& job) {
  const auto start = std::chrono::steady_clock::now();
  const QuantMethod* method = FindMethod(job.scheme);
  if (method == nullptr) return Fail(ErrorCode::kUsage, "--scheme {}: not one of `evoq list methods`", job.scheme);
  if (IsEtmFile(job.model)) return Fail(ErrorCode::kUsage, "{} is compiled already; quantize the .onnx", job.model);
  if (!job.observer.empty() && FindObserver(job.observer) == nullptr)
    return Fail(ErrorCode::kUsage, "--observer {}: not one of `evoq list observers`", job.observer);
  EVOQ_TRY(CheckOutputPath(job.output));
  if (!job.ranges_out.empty()) EVOQ_TRY(CheckOutputPath(job.ranges_out));
  EVOQ_ASSIGN(Graph graph, LoadOptimizedGraph(job.model));
  EVOQ_ASSIGN(const InputShapes shapes, ParseShapes(job.shapes));
  if (!shapes.empty()) EVOQ_TRY(BindShapes(graph, shapes));
  const int64_t float_bytes = FloatWeightBytes(graph);
  int samples_used = 0;
  EVOQ_ASSIGN(const Ranges ranges, FindRanges(job, graph, *method, &samples_used));
  QuantizeOptions options;
  options.per_channel = !job.per_tensor;
  options.activation = job.signed_activations ? DType::kInt8 : DType::kUint8;
  options.symmetric_activations = job.symmetric;
  options.exclude = job.exclude;
  if (LowerExtension(job.output) == ".onnx" && job.target != "evoq") options.target = FindQdqTarget(job.target);
  EVOQ_ASSIGN(const QuantizeReport report, WithContext(method->run(graph, ranges, options), job.model));
  graph.metadata["evoq.scheme"] = job.scheme;
  graph.metadata["evoq.float_weight_bytes"] = std::to_string(float_bytes);
  json out = {{"float_weight_bytes", float_bytes}, {"quantized_weight_bytes", QuantizedWeightBytes(graph)},
              {"samples_used", samples_used}, {"warnings", report.warnings}, {"float_reasons", report.float_reasons}};
  out["input_bytes"] = std::filesystem::file_size(job.model);
  if (LowerExtension(job.output) == ".onnx") {
    EVOQ_TRY(ExportOnnx(graph, job.output));
    out["steps_total"] = report.nodes_total;
    out["steps_int8"] = report.nodes_int8;
    out["steps_bf16"] = report.nodes_bf16;
    out["steps_float"] = report.nodes_float;
  } else {
    EVOQ_ASSIGN(Model model, WithContext(LowerAndPack(std::move(graph)), job.model));
    if (job.tune) {
      EVOQ_ASSIGN(out["tuning"], WithContext(TuneAndTell(model, job.threads, {}), job.model));
    }
    EVOQ_TRY(WriteEtm(model, job.output));
    CountSteps(model, out);
  }
  out["output_bytes"] = std::filesystem::file_size(job.output);
  out["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return out;
}

}  // namespace evoq
