#include "llm/pooling.h"

#include <algorithm>
#include <filesystem>

#include "base/json_file.h"
#include "llm/safetensors.h"
#include "llm/settings.h"
#include "llm/weights.h"
#include "reference/reference.h"

namespace evoq {
namespace {

using nlohmann::json;
constexpr size_t kMostBytes = size_t{1} << 20;

bool Exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// The nodes behind the states of the tokens.
class Pooler {
 public:
  Pooler(Graph& graph, ValueId states, ValueId mask, int64_t width)
      : graph_(graph), states_(states), mask_(mask), width_(width) {}

  ValueId Cls() {
    return Apply("Gather", "pooling.cls", {states_, Int("pooling.first", 0)},
                 Attrs::Of("axis", int64_t{1}));
  }
  ValueId Max() {
    const ValueId seen = Apply("Cast", "pooling.seen", {By("pooling.mask", Mask())},
                               Attrs::Of("to", static_cast<int64_t>(DType::kBool)));
    const ValueId x =
        Apply("Where", "pooling.of_seen", {seen, states_, Float("pooling.least", -1e9f)});
    return Over("ReduceMax", "pooling.max", x);
  }
  ValueId Mean() {
    return Apply("Div", "pooling.mean", {Sum("pooling.sum", Mask()), Count("pooling", Mask())});
  }
  ValueId MeanSqrt() {
    const ValueId root = Apply("Sqrt", "pooling.root", {Count("pooling", Mask())});
    return Apply("Div", "pooling.mean_sqrt", {Sum("pooling.sum", Mask()), root});
  }
  ValueId WeightedMean() {
    const ValueId w = Apply("Mul", "pooling.weights", {Mask(), Numbers()});
    return Apply("Div", "pooling.weighted_mean",
                 {Sum("pooling.weighted_sum", w), Count("pooling.weighted", w)});
  }
  ValueId Last() {
    const ValueId numbers = Apply("Mul", "pooling.seen_numbers", {Mask(), Numbers()});
    const ValueId last = Over("ReduceMax", "pooling.last_number", numbers, /*keep=*/true);
    const ValueId index = Apply("Max", "pooling.last_place",
                                {Apply("Sub", "pooling.before", {last, Float("pooling.one", 1)}),
                                 Float("pooling.first_place", 0)});
    const ValueId place = Apply("Cast", "pooling.last_index", {index},
                                Attrs::Of("to", static_cast<int64_t>(DType::kInt64)));
    return Apply("GatherND", "pooling.last", {states_, place}, Attrs::Of("batch_dims", int64_t{1}));
  }

  // What the Dense of that folder makes of x.
  Result<ValueId> Dense(const std::string& name, const std::string& folder, ValueId x,
                        std::vector<std::string>& notes);
  ValueId Normalize(const std::string& name, ValueId x) {
    const ValueId length = Apply("ReduceL2", name + ".length", {x, Ints(name + ".axis", {-1})},
                                 Attrs::Of("keepdims", int64_t{1}));
    return Apply("Div", name,
                 {x, Apply("Max", name + ".by", {length, Float(name + ".least", 1e-12f)})});
  }

  int64_t width() const { return width_; }
  void set_width(int64_t width) { width_ = width; }
  ValueId Apply(const char* op, const std::string& name, std::vector<ValueId> inputs,
                Attrs attrs = {}) {
    return graph_.Apply(op, name, std::move(inputs), std::move(attrs));
  }

 private:
  ValueId Ints(const std::string& name, const std::vector<int64_t>& values) {
    return graph_.AddConstant(name, Tensor::FromValues(values));
  }
  ValueId Int(const std::string& name, int64_t value) {
    return graph_.AddConstant(name, Tensor::Scalar<int64_t>(value));
  }
  ValueId Float(const std::string& name, float value) {
    return graph_.AddConstant(name, Tensor::Scalar(value));
  }
  // Of float32[batch, tokens], made once.
  ValueId Mask() {
    if (!float_mask_.valid())
      float_mask_ = Apply("Cast", "pooling.of_tokens", {mask_},
                          Attrs::Of("to", static_cast<int64_t>(DType::kFloat32)));
    return float_mask_;
  }
  // 1, 2, ...: float32[tokens].
  ValueId Numbers() {
    if (numbers_.valid()) return numbers_;
    const ValueId shape = Apply("Shape", "pooling.shape", {mask_}, Attrs::Of("start", int64_t{1}));
    const ValueId one = Int("pooling.begin", 1);
    const ValueId end =
        Apply("Add", "pooling.end", {Apply("Squeeze", "pooling.tokens", {shape}), one});
    const ValueId places = Apply("Range", "pooling.places", {one, end, one});
    numbers_ = Apply("Cast", "pooling.numbers", {places},
                     Attrs::Of("to", static_cast<int64_t>(DType::kFloat32)));
    return numbers_;
  }
  // float32[batch, tokens] -> [batch, tokens, 1].
  ValueId By(const std::string& name, ValueId of_tokens) {
    return Apply("Unsqueeze", name + ".by_value", {of_tokens, Ints(name + ".axis", {2})});
  }
  // Over the tokens.
  ValueId Over(const char* op, const std::string& name, ValueId x, bool keep = false) {
    return Apply(op, name, {x, Ints(name + ".axis", {1})}, Attrs::Of("keepdims", int64_t{keep}));
  }
  ValueId Sum(const std::string& name, ValueId weights) {
    const ValueId terms = Apply("Mul", name + ".terms", {states_, By(name, weights)});
    return Over("ReduceSum", name, terms);
  }
  // [batch, 1], at least 1e-9.
  ValueId Count(const std::string& name, ValueId weights) {
    const ValueId sum = Over("ReduceSum", name + ".counted", weights, /*keep=*/true);
    return Apply("Max", name + ".count", {sum, Float(name + ".least", 1e-9f)});
  }

  Graph& graph_;
  ValueId states_, mask_, float_mask_, numbers_;
  int64_t width_;
};

// In the order of sentence-transformers. `flag` in config.json stands behind kPrefix, `name` is
// what newer files put into "pooling_mode".
constexpr char kPrefix[] = "pooling_mode_";
struct Mode {
  const char *flag, *name;
  ValueId (Pooler::*pool)();
};
constexpr Mode kModes[] = {{"cls_token", "cls", &Pooler::Cls},
                           {"max_tokens", "max", &Pooler::Max},
                           {"mean_tokens", "mean", &Pooler::Mean},
                           {"mean_sqrt_len_tokens", "mean_sqrt_len_tokens", &Pooler::MeanSqrt},
                           {"weightedmean_tokens", "weightedmean", &Pooler::WeightedMean},
                           {"lasttoken", "lasttoken", &Pooler::Last}};

struct Activation {
  const char *name, *op;  // the class of torch.nn; "" of the graph: none
};
constexpr Activation kActivations[] = {
    {"Identity", ""}, {"Tanh", "Tanh"}, {"ReLU", "Relu"}, {"GELU", "Gelu"}, {"Sigmoid", "Sigmoid"}};

std::string LastPart(const std::string& dotted) { return dotted.substr(dotted.rfind('.') + 1); }

// The poolings that are on.
Result<std::vector<const Mode*>> ModesOf(const std::string& path) {
  EVOQ_ASSIGN(const json config, ReadJsonFile(path, kMostBytes));
  if (!config.is_object()) return InvalidInput("{}: no object", path);
  std::vector<std::string> asked;
  const json mode = config.value("pooling_mode", json());
  for (const json& one : mode.is_array() ? mode : json::array({mode})) {
    if (one.is_string()) asked.push_back(one);
  }
  for (const auto& [key, value] : config.items()) {
    if (key.starts_with(kPrefix) && value == true) asked.push_back(key.substr(sizeof(kPrefix) - 1));
  }
  std::vector<const Mode*> modes;
  for (const Mode& row : kModes) {
    if (std::erase_if(asked, [&](const std::string& s) { return s == row.flag || s == row.name; }))
      modes.push_back(&row);
  }
  if (!asked.empty())
    return Unsupported("{}: pooling {}, expected one of those of docs/serve.md", path,
                       asked[0].substr(0, 100));
  if (modes.empty()) return InvalidInput("{}: no \"{}...\" is true", path, kPrefix);
  return modes;
}

Result<ValueId> Pooler::Dense(const std::string& name, const std::string& folder, ValueId x,
                              std::vector<std::string>& notes) {
  const std::string path = folder + "/config.json";
  EVOQ_ASSIGN(const json config, ReadJsonFile(path, kMostBytes));
  if (!config.is_object()) return InvalidInput("{}: no object", path);
  EVOQ_ASSIGN(const int64_t inputs, WithContext(evoq::Int(config, {"in_features"}), path));
  EVOQ_ASSIGN(const int64_t outputs, WithContext(evoq::Int(config, {"out_features"}), path));
  if (inputs != width_)
    return InvalidInput("{}: in_features {}, expected {}", path, inputs, width_);
  if (outputs < 1 || outputs > 1 << 20)
    return InvalidInput("{}: out_features {}, expected 1 to {}", path, outputs, 1 << 20);
  const std::string function = LastPart(JsonText(config, "activation_function"));
  const auto* known = std::ranges::find_if(
      kActivations, [&](const Activation& a) { return function.empty() || function == a.name; });
  if (known == std::end(kActivations))
    return Unsupported("{}: activation_function {}, expected one of {}", path,
                       function.substr(0, 100), "Identity, Tanh, ReLU, GELU, Sigmoid");
  EVOQ_ASSIGN(const StoredTensors tensors, ReadSafetensorsFolder(folder));
  StoredTensors renamed;
  for (const auto& [key, tensor] : tensors) {
    if (!renamed.emplace(name + "." + LastPart(key), tensor).second)
      return InvalidInput("{}: two tensors are called ...{}", folder, LastPart(key).substr(0, 100));
  }
  WeightReader weights(graph_, renamed, notes);
  const auto product = [&]() -> Result<ValueId> {
    EVOQ_ASSIGN(const ValueId w, weights.Matrix(name + ".weight", inputs, outputs, false));
    if (!weights.Has(name + ".bias")) return Apply("MatMul", name, {x, w});
    EVOQ_ASSIGN(const ValueId bias, weights.Vector(name + ".bias", outputs));
    return Apply("MatMul", name, {x, w, bias});
  };
  EVOQ_ASSIGN(const ValueId y, WithContext(product(), folder));
  EVOQ_TRY(WithContext(weights.CheckAllRead(), folder));
  width_ = outputs;
  return *known->op == '\0' ? y : Apply(known->op, name + ".activated", {y});
}

// A module's folder, which lies in the model's.
Result<std::string> FolderOf(const json& module, const std::string& modules,
                             const std::string& folder) {
  const std::string path = JsonText(module, "path");
  if (path.empty() || path.find('/') != path.npos || path == "." || path == "..")
    return InvalidInput("{}: a module's path is '{}', expected a folder's name", modules,
                        path.substr(0, 100));
  return folder + "/" + path;
}

// What stands before each text where nobody asks for another prompt.
Status ReadPrompt(const std::string& folder, Graph& graph) {
  const std::string path = folder + "/config_sentence_transformers.json";
  if (!Exists(path)) return {};
  EVOQ_ASSIGN(const json config, ReadJsonFile(path, kMostBytes));
  const std::string name = JsonText(config, "default_prompt_name");
  if (name.empty()) return {};
  const json prompts = config.value("prompts", json());
  if (!prompts.is_object() || !prompts.contains(name) || !prompts[name].is_string())
    return InvalidInput("{}: no prompt '{}'", path, name.substr(0, 100));
  const auto& prompt = prompts[name].get_ref<const std::string&>();
  if (!prompt.empty()) graph.metadata["llm.prompt"] = prompt;
  return {};
}

// Tokens of a text that count: the others are cut off.
Status ReadLength(const std::string& folder, Graph& graph) {
  const std::string path = folder + "/sentence_bert_config.json";
  if (!Exists(path)) return {};
  EVOQ_ASSIGN(const json config, ReadJsonFile(path, kMostBytes));
  EVOQ_ASSIGN(const int64_t most, WithContext(Int(config, {"max_seq_length"}, 0), path));
  if (most > 0) graph.metadata["llm.max_length"] = std::to_string(most);
  return {};
}

}  // namespace

bool MakesEmbeddings(const std::string& folder) {
  return Exists(folder + "/modules.json") || Exists(folder + "/1_Pooling/config.json");
}

Status AddSentenceEmbedding(const std::string& folder, Graph& graph,
                            std::vector<std::string>& notes) {
  if (!MakesEmbeddings(folder)) return {};
  const ValueId states = graph.FindValue("last_hidden_state"),
                mask = graph.FindValue("attention_mask");
  EVOQ_CHECK(states.valid() && mask.valid(), "{}", graph.name);
  EVOQ_TRY(InferTypes(graph));
  Pooler pooler(graph, states, mask, graph.value(states).type.shape[2].value);
  const std::string modules = folder + "/modules.json";
  json list = json::array({{{"type", "Pooling"}, {"path", "1_Pooling"}}});
  if (Exists(modules)) {
    EVOQ_ASSIGN(list, ReadJsonFile(modules, kMostBytes));
  }
  if (!list.is_array()) return InvalidInput("{}: no list of modules", modules);
  ValueId vector;
  bool normalized = false;
  for (const json& module : list) {
    const std::string kind = LastPart(JsonText(module, "type"));
    if (kind.empty()) return InvalidInput("{}: a module without a type", modules);
    if (kind == "Transformer" && JsonText(module, "path").find('/') == std::string::npos) continue;
    if (kind == "Dropout") continue;  // of training
    if ((kind == "Pooling") == vector.valid())
      return Unsupported("{}: a module {} {} the pooling", modules, kind.substr(0, 100),
                         vector.valid() ? "behind" : "before");
    if (kind == "Pooling") {
      EVOQ_ASSIGN(const std::string path, FolderOf(module, modules, folder));
      EVOQ_ASSIGN(const std::vector<const Mode*> modes, ModesOf(path + "/config.json"));
      std::vector<ValueId> parts;
      for (const Mode* mode : modes) parts.push_back((pooler.*mode->pool)());
      pooler.set_width(pooler.width() * static_cast<int64_t>(parts.size()));
      vector = parts.size() == 1
                   ? parts[0]
                   : pooler.Apply("Concat", "pooling", parts, Attrs::Of("axis", int64_t{-1}));
    } else if (kind == "Dense") {
      EVOQ_ASSIGN(const std::string path, FolderOf(module, modules, folder));
      EVOQ_ASSIGN(vector, pooler.Dense("dense", path, vector, notes));
    } else if (kind == "Normalize") {
      vector = pooler.Normalize("normalized", vector);
    } else {
      return Unsupported(
          "{}: a module of type {}, expected Transformer, Pooling, Dense or Normalize", modules,
          kind.substr(0, 100));
    }
    normalized = kind == "Normalize";
  }
  if (!vector.valid()) return InvalidInput("{}: no module Pooling", modules);
  graph.Rename(vector, "sentence_embedding");
  graph.MarkOutput(vector);
  if (normalized) graph.metadata["llm.normalize"] = "1";
  EVOQ_TRY(ReadPrompt(folder, graph));
  EVOQ_TRY(ReadLength(folder, graph));
  return graph.Sort();
}

}  // namespace evoq
