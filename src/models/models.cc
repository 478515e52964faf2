#include "models/models.h"

#include <algorithm>
#include <utility>

#include "llm/cache_names.h"
#include "llm/import.h"
#include "models/engine_regions.h"
#include "onnx/model_bytes.h"
#include "onnx/onnx.h"
#include "reference/reference.h"
#include "tflite/import.h"

namespace evoq {
namespace {

bool HasFreeSizes(const Graph& graph) {
  return std::ranges::any_of(graph.inputs(), [&](ValueId id) {
    const TensorType& type = graph.value(id).type;
    return type.is_tensor() && !type.shape.is_static();
  });
}

// Lowers an optimized graph and packs it for these shapes. Where nobody names sizes that it leaves
// free and it does not run at a batch of 1 either, it stays without a plan, which the first run
// brings; what does not depend on sizes is packed.
Result<Loaded> Lowered(Graph graph, const InputShapes& shapes) {
  EVOQ_TRY(RunPasses(graph, Stage::kLower));
  const Result<Graph> bound = Bound(graph, shapes, kReference);
  if (bound) return PackOrSayWhy(std::move(graph), *bound);
  if (!shapes.empty() || !HasFreeSizes(graph)) return tl::unexpected(bound.error());
  Loaded loaded;
  EVOQ_ASSIGN(loaded.model.graph, PackStreams(std::move(graph), kReference));
  return loaded;
}

Result<Loaded> Import(const std::string& path, const InputShapes& shapes) {
  EVOQ_ASSIGN(Graph graph, LoadOptimizedGraph(path));
  return WithContext(Lowered(std::move(graph), shapes), path);
}

std::unique_ptr<Partitions> MakeRegions(const PartitionJob& job) {
  return std::make_unique<EngineRegions>(job);
}

}  // namespace

const EngineParts& AllParts() {
  static constexpr EngineParts kParts = {
      .evaluator = &kReference, .import = Import, .partition = MakeRegions};
  return kParts;
}

Result<std::unique_ptr<Engine>> LoadEngine(const std::string& path, const EngineOptions& options) {
  return Engine::Load(path, options, AllParts());
}

Result<std::unique_ptr<Engine>> EngineFromGraph(Graph graph, const EngineOptions& options) {
  EVOQ_ASSIGN(Loaded loaded, Lowered(std::move(graph), options.shapes));
  return Engine::Of(std::move(loaded), options, AllParts());
}

Result<Graph> ImportModel(const std::string& path) {
  if (IsLanguageModelPath(path)) return ImportLanguageModel(path);
  if (IsTflitePath(path)) return ImportTflite(path);
  EVOQ_ASSIGN(Graph graph, ImportOnnx(path));
  if (const CacheNames* names = FindCacheNames(graph))
    EVOQ_TRY(AddFactsBeside(path, *names, graph));
  return graph;
}

Result<int64_t> ModelBytes(const std::string& path) {
  return IsLanguageModelPath(path) ? LanguageModelBytes(path) : ModelFileBytes(path);
}

Result<Graph> LoadOptimizedGraph(const std::string& path) {
  EVOQ_ASSIGN(Graph graph, ImportModel(path));
  EVOQ_TRY(WithContext(RunPasses(graph, Stage::kOptimize), path));
  return graph;
}

Result<Model> LowerAndPack(Graph optimized, const InputShapes& shapes) {
  EVOQ_ASSIGN(Loaded loaded, Lowered(std::move(optimized), shapes));
  return std::move(loaded.model);
}

}  // namespace evoq
