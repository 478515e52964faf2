#include "tests/conformance/modes.h"

#include "base/isa.h"
#include "models/models.h"
#include "program/etm.h"
#include "reference/reference.h"

namespace evoq {
namespace {

using Outputs = Result<std::vector<Tensor>>;

// What `evoq compile --shape` is told: the sizes of the inputs.
InputShapes ShapesOf(const Graph& graph, std::span<const Tensor> inputs) {
  InputShapes shapes;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].type().is_tensor())
      shapes[graph.value(graph.inputs()[i]).name] = inputs[i].sizes();
  }
  return shapes;
}

Outputs Reference(const Graph& graph, std::span<const Tensor> inputs, const std::string&) {
  return EvaluateGraph(graph, inputs);
}

template <int kThreads>
Outputs Compiled(const Graph& graph, std::span<const Tensor> inputs, const std::string&) {
  Graph optimized = graph;
  EVOQ_TRY(RunPasses(optimized, Stage::kOptimize));
  EVOQ_ASSIGN(auto engine, EngineFromGraph(std::move(optimized), {.threads = kThreads}));
  return engine->Run(inputs);
}

// On the kernels of one instruction set; plain C++ where the machine lacks it.
template <Isa kIsa>
Outputs OnIsa(const Graph& graph, std::span<const Tensor> inputs, const std::string&) {
  Graph optimized = graph;
  EVOQ_TRY(RunPasses(optimized, Stage::kOptimize));
  const InputShapes shapes = ShapesOf(graph, inputs);
  EVOQ_ASSIGN(const Model model, LowerAndPack(std::move(optimized), shapes));
  if (model.plans.empty()) return EvaluateGraph(model.graph, inputs);
  EVOQ_ASSIGN(Program program, Compile(model, kReference, shapes));
  EVOQ_ASSIGN(auto executor, Executor::Create(std::make_shared<const Program>(std::move(program)),
                                              {1, IsaSupported(kIsa) ? kIsa : Isa::kScalar}));
  std::vector<Tensor> outputs;
  for (const TensorType& type : executor->output_types()) outputs.push_back(Tensor::Allocate(type));
  EVOQ_TRY(executor->Run(inputs, outputs));
  return outputs;
}

template <int kThreads>
Outputs FromEtm(const Graph& graph, std::span<const Tensor> inputs, const std::string& file) {
  Graph optimized = graph;
  EVOQ_TRY(RunPasses(optimized, Stage::kOptimize));
  EVOQ_ASSIGN(const Model model, LowerAndPack(std::move(optimized), ShapesOf(graph, inputs)));
  EVOQ_TRY(WriteEtm(model, file));
  EVOQ_ASSIGN(auto engine, LoadEngine(file, {.threads = kThreads}));
  return engine->Run(inputs);
}

constexpr Mode kModes[] = {
    {"reference", "by its definition: the imported graph, evaluated", Reference},
    {"compiled",
     "optimized, lowered, compiled, run on 1 thread, on the machine's best instruction set",
     Compiled<1>},
    {"compiled-2", "the same on 2 threads", Compiled<2>},
    {"scalar", "compiled, run on 1 thread, kernels in plain C++", OnIsa<Isa::kScalar>},
    {"avx2", "compiled, run on 1 thread, kernels for AVX2", OnIsa<Isa::kAvx2>},
    {"etm", "compiled to an .etm file, loaded, run on 1 thread", FromEtm<1>},
    {"etm-2", "the same on 2 threads", FromEtm<2>},
};

}  // namespace

std::span<const Mode> AllModes() { return kModes; }

}  // namespace evoq
