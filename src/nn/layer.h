// What networks are made of: one row (LayerDef) in nn/layers/, named by one line in nn/layers.inc;
// and networks as JSON, which the command, C++ (include/evoq/nn.h) and Python (evoq.nn) write
// (docs/nn.md).
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "nn/layers.h"

namespace evoq {

// The options of one layer: members of its JSON object. Errors: kInvalidInput naming the option,
// what was found and what was expected.
class LayerOptions {
 public:
  explicit LayerOptions(const nlohmann::json& layer) : layer_(layer) {}

  // An integer from `low` to 2^24; without a default it must be there.
  Result<int64_t> Int(const char* name, int64_t low) const;
  Result<int64_t> Int(const char* name, int64_t low, int64_t otherwise) const;
  Result<bool> Flag(const char* name, bool otherwise) const;
  Result<std::string> Text(const char* name, const char* otherwise) const;
  // A list of layers.
  Result<std::span<const nlohmann::json>> Layers(const char* name) const;

 private:
  const nlohmann::json& layer_;
};

struct LayerDef {
  const char* name;
  const char* doc;      // one sentence
  const char* options;  // their names, apart by spaces
  // Adds the layer behind x. Errors: as LayerOptions; kInvalidInput for an x that it does not take.
  Result<ValueId> (*build)(Layers& layers, const LayerOptions& options, ValueId x);
};

std::span<const LayerDef* const> AllLayers();

// Adds a list of layers, one behind the other. Errors: those of the layers, with their places
// ("layer 3 (conv): ...").
Result<ValueId> AddLayers(Layers& layers, std::span<const nlohmann::json> list, ValueId x);

// The size of x along an axis (negative: from the end). Errors: kInvalidInput where it has no such
// axis or leaves it free.
Result<int64_t> SizeAlong(Layers& layers, ValueId x, int axis);

// A network
//   {"name": "mine", "input": [1, 28, 28], "layers": [{"layer": "conv", "channels": 16}, ...]}
// with weights that the seed decides. `input`: the sizes of a sample, or "tokens" for token numbers
// [N, T]. Its output is "logits". Errors: kInvalidInput naming the place, what was found and what
// was expected.
Result<Graph> BuildNetwork(const nlohmann::json& network, uint64_t seed);
Result<Graph> ParseNetwork(std::string_view json, uint64_t seed);

}  // namespace evoq
