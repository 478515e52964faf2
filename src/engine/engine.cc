#include "engine/engine.h"

#include "compile/compile.h"
#include "onnx/onnx.h"
#include "ops/op.h"
#include "program/etm.h"

namespace evoq {

Result<Graph> LoadOptimizedGraph(const std::string& onnx_path, const PassOptions& passes) {
  EVOQ_ASSIGN(Graph graph, ImportOnnx(onnx_path));
  EVOQ_TRY(WithContext(RunPasses(graph, Stage::kOptimize, passes), onnx_path));
  return graph;
}

Result<Model> LowerAndPack(Graph optimized, const InputShapes& shapes) {
  EVOQ_TRY(RunPasses(optimized, Stage::kLower));
  return PackModel(std::move(optimized), shapes);
}

Result<std::unique_ptr<Engine>> Engine::Load(const std::string& path, const EngineOptions& options) {
  EVOQ_ASSIGN(const Isa isa, SelectIsa());
  if (IsEtmFile(path)) {
    EVOQ_ASSIGN(Model model, ReadEtm(path));
    return std::unique_ptr<Engine>(new Engine(std::move(model), options, isa, path));
  }
  EVOQ_ASSIGN(Graph graph, LoadOptimizedGraph(path));
  EVOQ_ASSIGN(auto engine, WithContext(FromGraph(std::move(graph), options), path));
  engine->path_ = path;
  return engine;
}

Result<std::unique_ptr<Engine>> Engine::FromGraph(Graph graph, const EngineOptions& options) {
  EVOQ_ASSIGN(const Isa isa, SelectIsa());
  EVOQ_TRY(RunPasses(graph, Stage::kLower));
  Model model;
  Graph bound = graph;
  const Status known = BindShapes(bound, options.shapes);
  if (known) {
    EVOQ_ASSIGN(model, PackModel(std::move(graph), options.shapes));
  } else if (options.shapes.empty()) {
    model.graph = std::move(graph);  // free sizes: the first run brings them
  } else {
    return tl::unexpected(known.error());
  }
  return std::unique_ptr<Engine>(new Engine(std::move(model), options, isa));
}

Result<std::unique_ptr<Executor>> Engine::Prepare(const InputShapes& shapes) {
  if (model_.plans.empty()) {
    EVOQ_ASSIGN(model_, PackModel(model_.graph, shapes));
  }
  EVOQ_ASSIGN(Program program, Compile(model_, shapes));
  return Executor::Create(std::make_shared<const Program>(std::move(program)), {options_.threads, isa_});
}

Result<Executor*> Engine::At(const InputShapes& shapes) {
  auto it = executors_.find(shapes);
  if (it == executors_.end()) {
    auto prepared = Prepare(shapes);
    if (!path_.empty()) prepared = WithContext(std::move(prepared), path_);
    EVOQ_ASSIGN(auto executor, std::move(prepared));
    it = executors_.emplace(shapes, std::move(executor)).first;
  }
  return it->second.get();
}

Result<std::vector<Tensor>> Engine::Run(std::span<const Tensor> inputs) {
  const Graph& graph = model_.graph;
  if (inputs.size() != graph.inputs().size())
    return Fail(ErrorCode::kUsage, "{} inputs given, expected {}", inputs.size(), graph.inputs().size());
  InputShapes shapes;
  for (size_t i = 0; i < inputs.size(); ++i) shapes[graph.value(graph.inputs()[i]).name] = inputs[i].sizes();
  EVOQ_ASSIGN(Executor* const executor, At(shapes));
  std::vector<Tensor> outputs;
  for (const TensorType& type : executor->output_types()) outputs.push_back(Tensor::Allocate(type));
  Status ran = executor->Run(inputs, outputs);
  if (!path_.empty()) ran = WithContext(std::move(ran), path_);
  EVOQ_TRY(std::move(ran));
  return outputs;
}

}  // namespace evoq
