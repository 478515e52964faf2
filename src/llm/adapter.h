// LoRA adapters: what fine-tuning adds to the products of a model whose own weights stay (Hu et
// al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021):
//
//     y = x W + (alpha / rank) (x A) B        A: [inputs, rank], B: [rank, outputs]
//
// In a graph they are nodes of their own beside the product, named after it: NODE.lora_A and
// NODE.lora_B are the two products and their constants, NODE.lora_scaled the factor, NODE.lora the
// sum. In files they are as PEFT has them: a folder with adapter_config.json and
// adapter_model.safetensors, with the tensors base_model.model.MODULE.lora_A.weight [rank, inputs]
// and MODULE.lora_B.weight [outputs, rank].
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace evoq {

struct LoraAdapter {
  std::string module;  // "model.layers.0.self_attn.q_proj"
  Tensor a, b;         // float32, as files have them
};

struct LoraAdapters {
  std::string base;  // the path of the model that they are of, as the folder says it
  int64_t rank = 0;
  double scale = 1;  // alpha / rank
  std::vector<LoraAdapter> adapters;
};

// A product that an adapter fits: y = x W with a constant matrix, however it is stored.
struct AdapterPlace {
  NodeId node;
  std::string module;  // of a language model, Hugging Face's name; else the weight's or node's
  int64_t inputs = 0, outputs = 0;
  // Rotary pairs of this graph's outputs are neighbours, those of the module's halves apart: the
  // module's output of each of ours; empty where they are the same.
  std::vector<int64_t> outputs_of;
};
// In execution order.
std::vector<AdapterPlace> AdapterPlaces(const Graph& graph);

// Whether a folder holds an adapter_config.json.
bool IsAdapterFolder(const std::string& path);
// Errors: those of files, naming file and tensor; kUnsupported for what is no plain LoRA.
Result<LoraAdapters> ReadAdapters(const std::string& folder);
// Makes the folder where it is missing. Each file is written whole or not at all. Errors: kIo.
Status WriteAdapters(const LoraAdapters& adapters, const std::string& folder);

// Adds the adapters' nodes; types are inferred anew. Errors: kInvalidInput for a module that the
// graph lacks, or matrices that do not fit it.
Status AddAdapters(Graph& graph, const LoraAdapters& adapters);
// The adapters of a graph, which AddAdapters put there. `base` is empty.
LoraAdapters AdaptersOf(const Graph& graph);
// Makes W + (alpha / rank) A B of each product, in float32, and the adapters' nodes go. Returns how
// many there were. Sums and products are computed in float64 and rounded once. Errors: those of
// evaluating constants.
Result<int> MergeAdapters(Graph& graph);

}  // namespace evoq
