// Any model: imported, optimized, lowered and packed, with the definitions of all operators and
// dynamic partitions.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "engine/engine.h"
#include "passes/pass.h"

namespace evoq {

// Everything that an engine can be given.
const EngineParts& AllParts();

// Of a file or folder that is no .etm: an ONNX file, a TensorFlow Lite file (tflite/import.h), or a
// language model (llm/import.h), told by its contents.
Result<Graph> ImportModel(const std::string& path);
// How large it is on disk: ModelFileBytes, or the weights of a language model's folder.
Result<int64_t> ModelBytes(const std::string& path);

// .etm: mapped. Others: imported, optimized, lowered, packed.
Result<std::unique_ptr<Engine>> LoadEngine(const std::string& path,
                                           const EngineOptions& options = {});
// The same of a file's bytes: an .etm, ONNX or TensorFlow Lite file, told by its contents. They may
// go when it returns. `label` names them in messages.
Result<std::unique_ptr<Engine>> LoadEngineBytes(std::span<const std::byte> bytes,
                                                const std::string& label,
                                                const EngineOptions& options = {});
// From an optimized (not lowered) graph.
Result<std::unique_ptr<Engine>> EngineFromGraph(Graph graph, const EngineOptions& options = {});

// Import and the optimize passes: what quantize, inspect and optimize start from.
Result<Graph> LoadOptimizedGraph(const std::string& path);

// Optimized graph -> packed model (lower passes, packing, first plan). Sizes that the graph leaves
// free stay free; the plan is for `shapes`. Comes without a plan: a model whose sizes depend on its
// data, or that has sequences, optionals or strings; one with free sizes that `shapes`, being
// empty, does not name and that a batch of 1 does not settle.
Result<Model> LowerAndPack(Graph optimized, const InputShapes& shapes = {});

}  // namespace evoq
