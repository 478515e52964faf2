// Fine-tuning by adapters (llm/adapter.h): the model's own numbers stay as they are, in integers
// where they are integers, and small float32 matrices beside its products learn.
#pragma once

#include <string>
#include <vector>

#include "llm/adapter.h"

namespace evoq {

// What --lora says: "rank=8,alpha=16,target=*_proj,merge", each left out or in any order, target as
// often as wanted.
struct LoraSettings {
  int64_t rank = 8;
  double alpha = 16;                 // the adapters' sums are multiplied by alpha / rank
  std::vector<std::string> targets;  // glob patterns of modules or nodes; none: all but the head
  bool merge = false;                // the model that is written has the sums in its own weights
};
// Errors: kUsage naming what is not as above.
Result<LoraSettings> ParseLora(const std::string& text);

// Adds an adapter to each product that the settings name: A uniform within 1 / sqrt(inputs), as
// PEFT begins it, and B zero, so that the model computes what it did. Returns how many. Errors:
// kUsage for a pattern that names no product; kUnsupported where the graph has none.
Result<int> BeginAdapters(Graph& graph, const LoraSettings& settings, uint64_t seed);

// The constants that are trained, as glob patterns (TrainingPlanOptions::only).
std::vector<std::string> AdapterPatterns();

}  // namespace evoq
