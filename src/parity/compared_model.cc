#include "parity/compared_model.h"

#include <algorithm>

#include "generate/cached_form.h"
#include "llm/cache_names.h"
#include "program/etm.h"
#include "reference/reference.h"

namespace evoq {
namespace {

bool HasSubgraphs(const Graph& graph) {
  return std::ranges::any_of(graph.order(),
                             [&](NodeId id) { return !graph.node(id).bodies.empty(); });
}

// Lowered, as an engine loads it.
Result<ComparedModel> AsRun(const std::string& path, int threads) {
  EVOQ_ASSIGN(std::unique_ptr<Engine> engine, LoadEngine(path, {.threads = threads}));
  EVOQ_ASSIGN(engine, InCachedForm(std::move(engine), path));
  ComparedModel model{.path = path,
                      .graph = engine->model().graph,
                      .plans = engine->model().plans,
                      .in_regions = engine->in_regions(),
                      .threads = threads};
  // Sizes in subgraphs may be known to a run alone: then what lies before them is compared.
  const Status inferred = WithContext(InferTypes(model.graph), path);
  if (!inferred && !HasSubgraphs(model.graph)) return tl::unexpected(inferred.error());
  return model;
}

}  // namespace

Result<ComparedModel> LoadCompared(const std::string& path, ComparedAs as, int threads) {
  const bool compiled = IsEtmFile(path);
  if (compiled && as == ComparedAs::kReference)
    return Fail(ErrorCode::kUsage,
                "{}: compiled already; the reference evaluator runs the model that it came from",
                path);
  if (compiled || as == ComparedAs::kRun) return AsRun(path, threads);
  EVOQ_ASSIGN(Graph graph, ImportModel(path));
  if (FindCacheNames(graph) != nullptr) {
    if (as == ComparedAs::kReference)
      return Fail(ErrorCode::kUsage, "{}: its caches grow with each run; only kernels run it",
                  path);
    return AsRun(path, threads);
  }
  Graph typed = std::move(graph);
  const Status inferred = WithContext(InferTypes(typed), path);
  // Sizes of subgraphs may follow from what only the passes fold.
  if (!inferred && as == ComparedAs::kGiven) return AsRun(path, threads);
  EVOQ_TRY(inferred);
  return ComparedModel{
      .path = path, .graph = std::move(typed), .plans = {}, .as = as, .threads = threads};
}

Result<RunFn> ComparedModel::Runner(Graph made) const {
  if (as == ComparedAs::kReference) {
    auto shared = std::make_shared<const Graph>(std::move(made));
    return RunFn([shared, path = path](std::span<const Tensor> inputs) {
      return WithContext(EvaluateGraph(*shared, inputs), path);
    });
  }
  std::unique_ptr<Engine> engine;
  if (as == ComparedAs::kRun) {
    Loaded loaded{{std::move(made), plans, ""}, in_regions};
    EVOQ_ASSIGN(engine, Engine::Of(std::move(loaded), {.threads = threads}, AllParts(), path));
  } else {
    EVOQ_TRY(WithContext(RunPasses(made, Stage::kOptimize), path));
    EVOQ_ASSIGN(engine, WithContext(EngineFromGraph(std::move(made), {.threads = threads}), path));
  }
  auto shared = std::shared_ptr<Engine>(std::move(engine));
  return RunFn([shared](std::span<const Tensor> inputs) { return shared->Run(inputs); });
}

}  // namespace evoq
