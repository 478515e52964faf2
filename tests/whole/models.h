// Real models for tests: where they are, and how they become quantized graphs.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "models/models.h"
#include "quant/quant.h"
#include "reference/reference.h"

namespace evoq {

// The folder of models and data: EVOQ_DATA, else ../shared/data beside the source tree.
inline std::string DataFolder() {
  const char* given = std::getenv("EVOQ_DATA");
  return given ? given : std::string(EVOQ_SOURCE_DIR) + "/../shared/data";
}

#define EVOQ_NEED_DATA(path)                                 \
  if (!std::filesystem::exists(DataFolder() + "/" + (path))) \
  GTEST_SKIP() << "no " << (path) << " in " << DataFolder()  \
               << " (set EVOQ_DATA to the folder of test models)"

template <typename T>
T Must(Result<T> result, const std::string& what) {
  EVOQ_CHECK(result.has_value(), "{}: {}", what, result ? "" : result.error().message());
  return std::move(*result);
}

// Reproducible input for a type: floats in [low, high], bytes over their range.
inline Tensor RandomTensor(const TensorType& type, uint32_t seed, float low = -2, float high = 2) {
  Tensor t = Tensor::Allocate(type);
  uint64_t state = seed * 2654435761u + 88172645463325252ull;
  for (int64_t i = 0; i < t.elements(); ++i) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    if (type.dtype == DType::kFloat32)
      t.mutable_data<float>()[i] =
          low + (high - low) * static_cast<float>((state >> 40) & 0xffff) / 65535;
    if (DTypeBits(type.dtype) == 8) t.mutable_raw()[i] = static_cast<std::byte>(state >> 40);
  }
  return t;
}

// The optimized graph of a model with its inputs bound to batch `batch`.
inline Graph BoundGraph(const std::string& path, int64_t batch = 1) {
  Graph graph = Must(LoadOptimizedGraph(path), path);
  InputShapes shapes;
  for (ValueId id : graph.inputs()) {
    auto sizes = graph.value(id).type.shape.sizes();
    if (sizes[0] < 0) sizes[0] = batch;
    shapes[graph.value(id).name] = sizes;
  }
  Must(BindShapes(graph, shapes).map([] { return true; }), path);
  return graph;
}

// Static int8 with ranges of two random samples: for tests of arithmetic, not of accuracy.
inline Graph QuantizedGraph(const std::string& path, float low = -2, float high = 2) {
  Graph graph = BoundGraph(path);
  const PrepareFn prepare = [](const Graph& g) -> Result<RunFn> {
    EVOQ_ASSIGN(std::unique_ptr<Engine> engine, EngineFromGraph(g, {2, {}}));
    auto shared = std::shared_ptr<Engine>(std::move(engine));
    return RunFn([shared](std::span<const Tensor> inputs) { return shared->Run(inputs); });
  };
  const SamplesFn samples =
      [&](const std::function<Status(std::span<const Tensor>)>& use) -> Status {
    for (uint32_t seed : {1, 2}) {
      const Tensor input = RandomTensor(graph.value(graph.inputs()[0]).type, seed, low, high);
      EVOQ_TRY(use(std::span(&input, 1)));
    }
    return {};
  };
  const Ranges ranges = Must(Calibrate(graph, prepare, samples, {}), path);
  Must(QuantizeStatic(graph, ranges, {}), path);
  return graph;
}

}  // namespace evoq
