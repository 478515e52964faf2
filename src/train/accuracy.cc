#include <algorithm>
#include <cstring>

#include "models/models.h"
#include "passes/pass.h"
#include "train/plan.h"
#include "train/trainer.h"

namespace evoq {
namespace {

constexpr int64_t kSamplesOfARun = 64;

// Inputs of samples [begin, end).
std::vector<Tensor> InputsOf(const LabelledSamples& samples, int64_t begin, int64_t end) {
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < samples.inputs.size(); ++i) {
    std::vector<int64_t> sizes = samples.sizes[i];
    sizes.insert(sizes.begin(), end - begin);
    Tensor input = Tensor::Allocate(TensorType(DType::kFloat32, Shape(sizes)));
    std::copy_n(samples.sample(i, begin), input.elements(), input.mutable_data<float>());
    inputs.push_back(std::move(input));
  }
  return inputs;
}

}  // namespace

Result<double> MeasureAccuracy(const Graph& graph, const LabelledSamples& samples, int threads) {
  Graph optimized = graph;
  EVOQ_TRY(RunPasses(optimized, Stage::kOptimize));
  EVOQ_ASSIGN(const auto engine, EngineFromGraph(std::move(optimized), {.threads = threads}));
  const int64_t fixed = FixedBatch(graph), batch = fixed > 0 ? fixed : kSamplesOfARun;
  int64_t correct = 0;
  for (int64_t begin = 0; begin < samples.count(); begin += batch) {
    // A model of a fixed batch sees the last samples twice; they count once.
    const int64_t end = std::min(begin + batch, samples.count());
    const int64_t from = fixed > 0 ? std::max<int64_t>(end - batch, 0) : begin;
    if (end - from < fixed)
      return InvalidInput("{} samples to measure, the model takes {} at a time", samples.count(),
                          fixed);
    EVOQ_ASSIGN(const std::vector<Tensor> outputs, engine->Run(InputsOf(samples, from, end)));
    EVOQ_ASSIGN(const Tensor scores, ToFloat32(outputs.at(0)));
    const int64_t classes = scores.elements() / (end - from);
    for (int64_t i = begin; i < end; ++i) {
      const float* const row = scores.data<float>() + (i - from) * classes;
      correct += std::max_element(row, row + classes) - row == samples.labels[i];
    }
  }
  return static_cast<double>(correct) / static_cast<double>(std::max<int64_t>(samples.count(), 1));
}

}  // namespace evoq
