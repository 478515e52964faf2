#include <chrono>
#include <thread>

#include "cli/common.h"
#include "cli/verb.h"

namespace evoq {
namespace {

using nlohmann::json;

struct Options {
  std::string model;
  int batch = 0, streams = 1;
  int64_t iterations = 10;
  std::vector<std::string> shapes;
  std::vector<double> percentiles;
  double warmup_ms = 200, duration_s = 3;
};

// Runs every stream on a thread of its own, each with an executor and threads of its own.
Result<std::vector<RunTimes>> RunStreams(std::vector<Executor*> executors, const MeasureOptions& options) {
  std::vector<Result<RunTimes>> results(executors.size(), tl::unexpected(Error(ErrorCode::kInternal, "not run")));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < executors.size(); ++i) {
    threads.emplace_back([&, i] {
      RunBuffers buffers = MakeBuffers(*executors[i], static_cast<uint32_t>(i + 1));
      results[i] = MeasureRuns(*executors[i], buffers, options);
    });
  }
  for (std::thread& t : threads) t.join();
  std::vector<RunTimes> times;
  for (auto& r : results) {
    if (!r) return tl::unexpected(std::move(r.error()));
    times.push_back(std::move(*r));
  }
  return times;
}

Result<json> Run(const Options& o, int threads) {
  const auto start = std::chrono::steady_clock::now();
  EVOQ_ASSIGN(InputShapes shapes, ParseShapes(o.shapes));
  EVOQ_ASSIGN(std::unique_ptr<Engine> engine, LoadEngine(o.model, threads, shapes));
  EVOQ_ASSIGN(shapes, WithBatch(engine->model().graph, std::move(shapes), o.batch));
  EVOQ_ASSIGN(Executor* const executor, engine->At(shapes));
  const double load_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  EVOQ_ASSIGN(const Isa isa, SelectIsa());
  std::vector<std::unique_ptr<Executor>> more;
  std::vector<Executor*> executors = {executor};
  auto program = std::make_shared<const Program>(executor->program());
  for (int s = 1; s < o.streams; ++s) {
    EVOQ_ASSIGN(auto extra, Executor::Create(program, {executor->threads(), isa}));
    executors.push_back(extra.get());
    more.push_back(std::move(extra));
  }
  MeasureOptions options;
  options.warmup_ms = o.warmup_ms;
  options.duration_s = o.duration_s;
  options.min_runs = o.iterations;
  Progress progress("measuring");
  if (o.streams == 1) options.progress = [&](double f) { progress.Update(f); };
  EVOQ_ASSIGN(const std::vector<RunTimes> streams, RunStreams(executors, options));
  RunTimes all;
  double per_second = 0;
  const std::vector<int64_t> input = executor->input_types().empty() ? std::vector<int64_t>() : executor->input_types()[0].shape.sizes();
  const int64_t batch = input.empty() ? 1 : input[0];
  for (const RunTimes& t : streams) {
    all.sorted_ms.insert(all.sorted_ms.end(), t.sorted_ms.begin(), t.sorted_ms.end());
    per_second += static_cast<double>(batch) * 1e3 / t.mean();
  }
  std::sort(all.sorted_ms.begin(), all.sorted_ms.end());
  json out = {{"model", o.model}, {"isa", IsaName(isa)}, {"threads", executor->threads()}, {"batch", batch},
              {"streams", o.streams}, {"runs", all.runs()}, {"p50_ms", all.median()}, {"mean_ms", all.mean()},
              {"min_ms", all.min()}, {"p90_ms", all.Percentile(90)}, {"p95_ms", all.Percentile(95)},
              {"p99_ms", all.Percentile(99)}, {"per_second", per_second}, {"load_ms", load_ms},
              {"peak_rss_bytes", PeakRssBytes()}, {"arena_bytes", executor->arena_bytes()},
              {"weight_bytes", executor->program().weight_bytes}};
  for (double p : o.percentiles) out["percentiles"][fmt::format("{}", p)] = all.Percentile(p);
  Out("{}: {} on {}, {} thread{}, batch {}, {} stream{}\n", o.model, IsaName(isa), CpuName(), executor->threads(),
      executor->threads() == 1 ? "" : "s", batch, o.streams, o.streams == 1 ? "" : "s");
  Out("  latency  p50 {:.3f} ms  mean {:.3f}  min {:.3f}  p90 {:.3f}  p95 {:.3f}  p99 {:.3f}  ({} runs)\n", all.median(), all.mean(),
      all.min(), all.Percentile(90), all.Percentile(95), all.Percentile(99), all.runs());
  for (double p : o.percentiles) Out("  p{} {:.3f} ms\n", p, all.Percentile(p));
  Out("  throughput {:.1f} per second; load {:.1f} ms; arena {:.2f} MB, weights {:.2f} MB\n", per_second, load_ms,
      out["arena_bytes"].get<double>() / 1e6, out["weight_bytes"].get<double>() / 1e6);
  return out;
}

VerbRun Declare(CLI::App& app, const CommonOptions& common) {
  auto o = std::make_shared<Options>();
  app.add_option("model", o->model, "MODEL.onnx or MODEL.etm")->required();
  app.add_option("--batch", o->batch, "Samples per run, where the model leaves it free")->check(CLI::PositiveNumber);
  app.add_option("--shape", o->shapes, "Sizes of a free input: NAME=1x3x224x224");
  app.add_option("--streams", o->streams, "Concurrent streams, each with --threads threads")->check(CLI::Range(1, 256))->capture_default_str();
  app.add_option("--warmup-ms", o->warmup_ms, "Time to run before measuring")->capture_default_str();
  app.add_option("--duration-s", o->duration_s, "Time to measure")->capture_default_str();
  app.add_option("--iterations", o->iterations, "Runs to measure at least")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--percentile", o->percentiles, "Also print these percentiles")->delimiter(',')->check(CLI::Range(0.0, 100.0));
  return [o, &common] { return Run(*o, common.threads); };
}

}  // namespace

extern const VerbDef kVerbBench;
const VerbDef kVerbBench = {"bench", "Measures latency, throughput, load time and memory.", "evoq bench mobilenetv2.etm --threads 1", Declare};

}  // namespace evoq
