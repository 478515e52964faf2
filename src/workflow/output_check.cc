#include "workflow/output_check.h"

#include <cmath>

#include "base/printable.h"
#include "certify/energy.h"
#include "engine/engine.h"
#include "models/models.h"
#include "workflow/calibrate.h"

namespace evoq {
namespace {

constexpr size_t kSamples = 4;
constexpr double kFewestDb = 10;

// The first few of the job's samples; none where they were made up.
Result<std::vector<std::vector<Tensor>>> FirstSamples(const QuantizeJob& job, const Graph& graph,
                                                      const InputShapes& shapes) {
  const Follow nobody;
  std::vector<std::vector<Tensor>> first;
  EVOQ_ASSIGN(const JobSamples samples, SamplesFor(job, graph, shapes, nobody, "quantize"));
  if (samples.random) return first;
  const Status ended = samples.each([&](std::span<const Tensor> inputs) -> Status {
    first.emplace_back(inputs.begin(), inputs.end());
    return first.size() < kSamples ? Status() : Fail(ErrorCode::kInternal, "these are enough");
  });
  return ended || first.size() == kSamples ? std::move(first) : std::vector<std::vector<Tensor>>();
}

Result<std::vector<std::string>> Check(const QuantizeJob& job, Graph float_graph,
                                       const Model& quantized, const InputShapes& shapes) {
  std::vector<std::string> warnings;
  EVOQ_ASSIGN(const auto samples, FirstSamples(job, float_graph, shapes));
  if (samples.empty()) return warnings;
  const EngineOptions options{.threads = job.threads, .shapes = shapes, .stored_tuning = false};
  EVOQ_ASSIGN(const auto before, EngineFromGraph(std::move(float_graph), options));
  EVOQ_ASSIGN(const auto after, Engine::Of({quantized, ""}, options, AllParts()));
  const std::vector<ValueId>& outputs = quantized.graph.outputs();
  std::vector<Energy> energies(outputs.size());
  for (const std::vector<Tensor>& inputs : samples) {
    EVOQ_ASSIGN(const std::vector<Tensor> right, before->Run(inputs));
    EVOQ_ASSIGN(const std::vector<Tensor> now, after->Run(inputs));
    for (size_t o = 0; o < std::min({outputs.size(), right.size(), now.size()}); ++o) {
      const bool real = right[o].type().is_tensor() && IsFloat(right[o].dtype());
      if (real && now[o].type().is_tensor() && now[o].sizes() == right[o].sizes())
        energies[o] += EnergyOf(right[o], now[o]);
    }
  }
  double worst_db = kFewestDb;
  std::string worst;
  for (size_t o = 0; o < outputs.size(); ++o) {
    const double db = 10 * std::log10(energies[o].signal / energies[o].noise);
    if (energies[o].noise == 0 || !(db < worst_db)) continue;
    worst_db = db;
    worst = quantized.graph.value(outputs[o]).name;
  }
  if (!worst.empty())
    warnings.push_back(FormatPrintable(
        "output {} keeps {:.1f} dB of signal to noise on {} of the calibration samples, and less "
        "than {:g} dB seldom serves: `evoq diff` names the step that loses it; try another "
        "--observer, --method auto, or --exclude",
        worst, worst_db, samples.size(), kFewestDb));
  return warnings;
}

}  // namespace

Result<std::vector<std::string>> OutputWarnings(const QuantizeJob& job, Graph float_graph,
                                                const Model& quantized, const InputShapes& shapes,
                                                const Follow& follow) {
  EVOQ_TRY(follow.At("checking outputs", 0));
  return Check(job, std::move(float_graph), quantized, shapes).value_or(std::vector<std::string>());
}

}  // namespace evoq
