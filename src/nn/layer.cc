#include "nn/layer.h"

#include "base/json_file.h"
#include "base/nearest.h"
#include "base/rows.h"
#include "base/text.h"
#include "reference/reference.h"

namespace evoq {

#define EVOQ_ROW_TYPE LayerDef
#define EVOQ_ROW_FILE "nn/layers.inc"
#include "base/rows.inl.h"

std::span<const LayerDef* const> AllLayers() { return kAllRows; }

namespace {

using nlohmann::json;

constexpr int64_t kMost = int64_t{1} << 24;
constexpr size_t kMostNodes = 4000;

// Errors: kInvalidInput naming a member that the layer does not have.
Status CheckOptions(const LayerDef& row, const json& layer) {
  for (const auto& [name, value] : layer.items()) {
    const std::string options = std::string(" ") + row.options + " ";
    if (name == "layer" || options.find(" " + name + " ") != std::string::npos) continue;
    return InvalidInput("{} is none of its options: {}", name, row.options);
  }
  return {};
}

Result<ValueId> AddLayer(Layers& layers, const json& layer, ValueId x) {
  const std::string name = layer.is_object() ? JsonText(layer, "layer") : "";
  const LayerDef* const row = FindRow(AllLayers(), name);
  if (row == nullptr)
    return InvalidInput(
        "\"layer\" is {}, expected a name of `evoq list layers`{}",
        layer.is_object() && layer.contains("layer") ? JsonBriefly(layer["layer"]) : "missing",
        NearestHint(name, AllLayers()));
  const auto add = [&]() -> Result<ValueId> {
    EVOQ_TRY(CheckOptions(*row, layer));
    EVOQ_ASSIGN(const ValueId y, row->build(layers, LayerOptions(layer), x));
    EVOQ_TRY(layers.TypeOf(y));
    return y;
  };
  return WithContext(add(), name);
}

}  // namespace

Result<int64_t> LayerOptions::Int(const char* name, int64_t low, int64_t otherwise) const {
  return layer_.contains(name) ? Int(name, low) : otherwise;
}

Result<int64_t> LayerOptions::Int(const char* name, int64_t low) const {
  if (!layer_.contains(name)) return InvalidInput("{} is missing", name);
  const json& value = layer_[name];
  const bool fits = value.is_number_integer() && value.get<double>() >= static_cast<double>(low) &&
                    value.get<double>() <= static_cast<double>(kMost);
  if (!fits)
    return InvalidInput("{} is {}, expected an integer from {} to {}", name, JsonBriefly(value),
                        low, kMost);
  return value.get<int64_t>();
}

Result<bool> LayerOptions::Flag(const char* name, bool otherwise) const {
  if (!layer_.contains(name)) return otherwise;
  if (!layer_[name].is_boolean())
    return InvalidInput("{} is {}, expected true or false", name, JsonBriefly(layer_[name]));
  return layer_[name].get<bool>();
}

Result<std::string> LayerOptions::Text(const char* name, const char* otherwise) const {
  if (!layer_.contains(name)) return std::string(otherwise);
  if (!layer_[name].is_string())
    return InvalidInput("{} is {}, expected a text", name, JsonBriefly(layer_[name]));
  return layer_[name].get<std::string>();
}

Result<std::span<const json>> LayerOptions::Layers(const char* name) const {
  if (!layer_.contains(name)) return std::span<const json>();
  if (!layer_[name].is_array())
    return InvalidInput("{} is {}, expected a list of layers", name, layer_[name].type_name());
  const auto& list = layer_[name].get_ref<const json::array_t&>();
  return std::span<const json>(list.data(), list.size());
}

Result<ValueId> AddLayers(Layers& layers, std::span<const json> list, ValueId x) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (layers.nodes() > kMostNodes) return InvalidInput("more than {} nodes", kMostNodes);
    EVOQ_ASSIGN(x, WithContext(AddLayer(layers, list[i], x), fmt::format("layer {}", i)));
  }
  return x;
}

Result<int64_t> SizeAlong(Layers& layers, ValueId x, int axis) {
  EVOQ_ASSIGN(const TensorType type, layers.TypeOf(x));
  const int rank = type.shape.ranked() ? type.shape.rank() : 0, at = axis < 0 ? axis + rank : axis;
  if (at < 0 || at >= rank || !type.shape[at].known())
    return InvalidInput("its input is {}, expected a size along axis {}", type.ToString(), axis);
  return type.shape[at].value;
}

Result<Graph> BuildNetwork(const json& network, uint64_t seed) {
  if (!network.is_object() || !network.contains("layers") || !network.contains("input"))
    return InvalidInput("expected an object with \"input\" and \"layers\"");
  for (const auto& [name, value] : network.items()) {
    if (name != "name" && name != "input" && name != "layers")
      return InvalidInput("{} is none of a network's members: name, input, layers", name);
  }
  const json& input = network["input"];
  Layers layers(network.contains("name") ? JsonText(network, "name") : "network", seed);
  ValueId x;
  if (input == "tokens") {
    x = layers.Tokens();
  } else {
    std::vector<int64_t> sizes;
    for (const json& size : input.is_array() ? input : json::array()) {
      if (size.is_number_integer() && size.get<double>() >= 1 &&
          size.get<double>() <= static_cast<double>(kMost))
        sizes.push_back(size.get<int64_t>());
    }
    if (!input.is_array() || sizes.empty() || sizes.size() != input.size())
      return InvalidInput("input is {}, expected sizes from 1 to {}, or \"tokens\"",
                          JsonBriefly(input), kMost);
    x = layers.Input(sizes);
  }
  EVOQ_ASSIGN(const auto list, LayerOptions(network).Layers("layers"));
  if (list.empty()) return InvalidInput("layers is empty");
  EVOQ_ASSIGN(x, AddLayers(layers, list, x));
  Graph graph = layers.Finish(x);
  EVOQ_TRY(InferTypes(graph));
  return graph;
}

Result<Graph> ParseNetwork(std::string_view text, uint64_t seed) {
  EVOQ_ASSIGN(const json network, ParseJson(text));
  return BuildNetwork(network, seed);
}

}  // namespace evoq
