#include "models/models.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/work_threads.h"
#include "llm/adapter.h"
#include "llm/cache_names.h"
#include "llm/import.h"
#include "models/engine_regions.h"
#include "onnx/model_bytes.h"
#include "onnx/onnx.h"
#include "program/container.h"
#include "program/etm.h"
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
  EVOQ_ASSIGN(loaded.model.graph, PackForAnySizes(std::move(graph), kReference));
  return loaded;
}

Result<Loaded> Import(const std::string& path, const InputShapes& shapes) {
  EVOQ_ASSIGN(Graph graph, LoadOptimizedGraph(path));
  return WithContext(Lowered(std::move(graph), shapes), path);
}

Result<Loaded> ImportBytes(std::span<const std::byte> bytes, const std::string& label,
                           const InputShapes& shapes) {
  EVOQ_ASSIGN(Graph graph,
              IsTflite(bytes) ? ImportTfliteBytes(bytes, label) : ImportOnnxBytes(bytes, label));
  EVOQ_TRY(WithContext(RunPasses(graph, Stage::kOptimize), label));
  return WithContext(Lowered(std::move(graph), shapes), label);
}

std::unique_ptr<Partitions> MakeRegions(const PartitionJob& job) {
  return std::make_unique<EngineRegions>(job);
}

}  // namespace

const EngineParts& AllParts() {
  static constexpr EngineParts kParts = {.evaluator = &kReference,
                                         .import = Import,
                                         .import_bytes = ImportBytes,
                                         .partition = MakeRegions};
  return kParts;
}

Result<std::unique_ptr<Engine>> LoadEngine(const std::string& path, const EngineOptions& options) {
  const WorkThreads threads(options.threads);
  return Engine::Load(path, options, AllParts());
}

Result<std::unique_ptr<Engine>> LoadEngineBytes(std::span<const std::byte> bytes,
                                                const std::string& label,
                                                const EngineOptions& options) {
  const WorkThreads threads(options.threads);
  Loaded loaded;
  if (IsEtm(bytes)) {
    EVOQ_ASSIGN(loaded.model, ReadEtm(bytes, /*copy=*/true, label));
  } else {
    EVOQ_ASSIGN(loaded, ImportBytes(bytes, label, options.shapes));
  }
  return Engine::Of(std::move(loaded), options, AllParts(), label);
}

Result<std::unique_ptr<Engine>> EngineFromGraph(Graph graph, const EngineOptions& options) {
  const WorkThreads threads(options.threads);
  EVOQ_ASSIGN(Loaded loaded, Lowered(std::move(graph), options.shapes));
  return Engine::Of(std::move(loaded), options, AllParts());
}

namespace {

// The model that adapters are of: its path, from their folder or from here.
Result<std::string> BaseOf(const LoraAdapters& adapters, const std::string& folder) {
  std::error_code error;
  for (const std::string& path :
       {(std::filesystem::path(folder) / adapters.base).string(), adapters.base}) {
    if (!adapters.base.empty() && std::filesystem::exists(path, error) && !IsAdapterFolder(path))
      return path;
  }
  return Fail(ErrorCode::kNotFound,
              "{}: adapter_config.json: base_model_name_or_path is \"{}\", expected a model, from "
              "that folder or from here",
              folder, adapters.base);
}

Result<Graph> ImportAdapters(const std::string& folder) {
  EVOQ_ASSIGN(const LoraAdapters adapters, ReadAdapters(folder));
  EVOQ_ASSIGN(const std::string base, BaseOf(adapters, folder));
  EVOQ_ASSIGN(Graph graph, ImportModel(base));
  EVOQ_TRY(WithContext(AddAdapters(graph, adapters), folder));
  return graph;
}

}  // namespace

Result<Graph> ImportModel(const std::string& path) {
  if (IsAdapterFolder(path)) return ImportAdapters(path);
  if (IsLanguageModelPath(path)) return ImportLanguageModel(path);
  if (IsTflitePath(path)) return ImportTflite(path);
  if (IsEtmFile(path))
    return Unsupported("{} is compiled already; give the .onnx that it was made of", path);
  EVOQ_ASSIGN(Graph graph, ImportOnnx(path));
  if (const CacheNames* names = FindCacheNames(graph))
    EVOQ_TRY(AddFactsBeside(path, *names, graph));
  return graph;
}

Result<int64_t> ModelBytes(const std::string& path) {
  if (IsAdapterFolder(path)) {
    EVOQ_ASSIGN(const LoraAdapters adapters, ReadAdapters(path));
    EVOQ_ASSIGN(const std::string base, BaseOf(adapters, path));
    EVOQ_ASSIGN(int64_t bytes, ModelBytes(base));
    for (const LoraAdapter& adapter : adapters.adapters)
      bytes += static_cast<int64_t>(adapter.a.bytes() + adapter.b.bytes());
    return bytes;
  }
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
