#include "workflow/stream_priorities.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <thread>

#include "base/ms_text.h"
#include "base/printable.h"
#include "base/threads.h"
#include "engine/stream_set.h"
#include "workflow/bench_json.h"

namespace evoq {
namespace {

using nlohmann::json;
using Clock = StreamSet::Clock;

constexpr int kRounds = 6;
constexpr double kRest = 2;  // of the urgent stream, in its runs' time

// Runs of a stream until a time, at least one, each followed by a rest of `rest` times as long.
Status RunUntil(StreamSet& set, int stream, const std::vector<Tensor>& inputs, double rest,
                Clock::time_point end, std::vector<double>& ms) {
  do {
    const auto told = std::make_shared<std::promise<Status>>();
    const Clock::time_point begin = Clock::now();
    const auto asked =
        set.Submit(stream, inputs, [told](StreamSet::Outputs outputs, StreamSet::Ending) {
          told->set_value(outputs ? Status() : tl::unexpected<Error>(outputs.error()));
        });
    if (!asked) return tl::unexpected<Error>(asked.error());
    EVOQ_TRY(told->get_future().get());
    const std::chrono::duration<double, std::milli> took = Clock::now() - begin;
    ms.push_back(took.count());
    std::this_thread::sleep_for(rest * took);
  } while (Clock::now() < end);
  return {};
}

RunTimes Sorted(std::vector<double> ms) {
  std::ranges::sort(ms);
  return {std::move(ms), {}};
}

}  // namespace

Result<StreamPriorities> MeasurePriorities(const std::string& path, const WhatToMeasure& what,
                                           const PriorityJob& job) {
  const int count = static_cast<int>(job.priorities.size());
  if (count < 2) return Fail(ErrorCode::kUsage, "{} priorities, expected two or more", count);
  EVOQ_ASSIGN(ModelToMeasure model, LoadToMeasure(path, job.threads, what));
  if (model.in_partitions)
    return Fail(ErrorCode::kUsage, "{}: runs in dynamic partitions, which are not held up", path);
  StreamPriorities out{.model = path, .threads = model.engine->threads()};
  out.urgent =
      static_cast<size_t>(std::ranges::min_element(job.priorities) - job.priorities.begin());
  EVOQ_ASSIGN(const auto runnable, RunnableOf(model));
  InputShapes shapes;
  const Graph& graph = model.engine->model().graph;
  for (size_t i = 0; i < graph.inputs().size(); ++i)
    shapes[graph.value(graph.inputs()[i]).name] = runnable->input_types()[i].shape.sizes();
  EVOQ_ASSIGN(const std::vector<Tensor> inputs, InputsToMeasure(graph, shapes, model.contents));
  StreamSet set(std::move(model.engine),
                {.priorities = job.priorities, .share_arenas = job.share_arenas});
  out.at_once = set.options().at_once;
  std::vector<double> alone;
  std::vector<std::vector<double>> beside(job.priorities.size());
  const auto run = [&](int stream, double seconds, std::vector<double>& ms) {
    const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(seconds));
    const bool urgent = stream == static_cast<int>(out.urgent);
    return RunUntil(set, stream, inputs, urgent ? kRest : 0, end, ms);
  };
  for (int round = -1; round < kRounds; ++round) {  // the first is not counted
    const double seconds = round < 0 ? 0.05 : job.duration_s / (2 * kRounds);
    EVOQ_TRY(run(static_cast<int>(out.urgent), seconds, alone));
    std::vector<Status> results(job.priorities.size());
    RunOnThreads(count, [&](int i) { results[i] = run(i, seconds, beside[i]); });
    for (Status& result : results) EVOQ_TRY(std::move(result));
    if (round < 0) {
      alone.clear();
      for (std::vector<double>& ms : beside) ms.clear();
    }
  }
  out.alone = Sorted(std::move(alone));
  for (int i = 0; i < count; ++i)
    out.streams.push_back({job.priorities[i], Sorted(std::move(beside[i]))});
  out.arena_bytes = set.arena_bytes();
  return out;
}

Told Tell(const StreamPriorities& m) {
  Told told;
  json streams = json::array();
  told.text = FormatPrintable(
      "{}: {} streams, {} at once, each with {} thread{}; {:.2f} MB of arenas\n"
      "  stream  priority    runs   p50 ms   p99 ms\n",
      m.model, m.streams.size(), m.at_once, m.threads, m.threads == 1 ? "" : "s",
      static_cast<double>(m.arena_bytes) / 1e6);
  for (size_t i = 0; i < m.streams.size(); ++i) {
    const auto& [priority, times] = m.streams[i];
    json stream = {{"priority", priority}};
    stream.update(TimesJson(times));
    streams.push_back(std::move(stream));
    told.text += fmt::format("  {:6}  {:8}  {:6}  {:>7}  {:>7}\n", i, priority, times.runs(),
                             MsText(times.median()), MsText(times.Percentile(99)));
  }
  const RunTimes& urgent = m.streams[m.urgent].beside;
  const double p99 = urgent.Percentile(99) / m.alone.Percentile(99);
  told.text += fmt::format(
      "  stream {} alone: {} runs, p50 {} ms, p99 {} ms; beside the others its p99 is {:.2f} times "
      "that\n",
      m.urgent, m.alone.runs(), MsText(m.alone.median()), MsText(m.alone.Percentile(99)), p99);
  told.json = {{"model", m.model},
               {"threads", m.threads},
               {"at_once", m.at_once},
               {"arena_bytes", m.arena_bytes},
               {"by_stream", std::move(streams)},
               {"urgent", m.urgent},
               {"alone", TimesJson(m.alone)},
               {"p99_ratio", p99}};
  return told;
}

}  // namespace evoq
