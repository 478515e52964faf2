#include "llm/pooling.h"

#include <filesystem>
#include <vector>

#include "base/json_file.h"

namespace evoq {
namespace {

using nlohmann::json;
constexpr size_t kMostBytes = size_t{1} << 20;
constexpr char kPrefix[] = "pooling_mode_";

// A flag of config.json, without kPrefix, and what it stands for.
struct Mode {
  const char* flag;
  const char* name;
};
constexpr Mode kModes[] = {{"mean_tokens", "mean"},
                           {"cls_token", "cls"},
                           {"max_tokens", "max"},
                           {"mean_sqrt_len_tokens", "mean-sqrt"},
                           {"lasttoken", "last"}};

// The poolings that are on, by our names where they have one. Several are put side by side.
Result<std::string> PoolingOf(const std::string& path) {
  EVOQ_ASSIGN(const json config, ReadJsonFile(path, kMostBytes));
  if (!config.is_object()) return InvalidInput("{}: no object", path);
  if (const std::string mode = JsonText(config, "pooling_mode"); !mode.empty()) return mode;
  std::string all;
  for (const auto& [key, value] : config.items()) {
    if (!key.starts_with(kPrefix) || value != true) continue;
    std::string name = key.substr(sizeof(kPrefix) - 1);
    for (const Mode& mode : kModes) {
      if (name == mode.flag) name = mode.name;
    }
    all += (all.empty() ? "" : "+") + name;
  }
  if (all.empty()) return InvalidInput("{}: no \"{}...\" is true", path, kPrefix);
  return all;
}

}  // namespace

Status ReadPooling(const std::string& folder, Graph& graph) {
  std::error_code error;
  const std::string modules = folder + "/modules.json", plain = folder + "/1_Pooling/config.json";
  auto& facts = graph.metadata;
  if (!std::filesystem::exists(modules, error)) {
    if (!std::filesystem::exists(plain, error)) return {};
    EVOQ_ASSIGN(facts["llm.pooling"], PoolingOf(plain));
    return {};
  }
  EVOQ_ASSIGN(const json list, ReadJsonFile(modules, kMostBytes));
  if (!list.is_array()) return InvalidInput("{}: no list of modules", modules);
  for (const json& module : list) {
    const std::string type = JsonText(module, "type"), path = JsonText(module, "path");
    const std::string kind = type.substr(type.rfind('.') + 1);
    if (kind == "Transformer" && path.find('/') == std::string::npos) continue;
    if (kind == "Pooling" && !path.empty() && path.find('/') == std::string::npos && path != "..") {
      EVOQ_ASSIGN(facts["llm.pooling"], PoolingOf(folder + "/" + path + "/config.json"));
    } else if (kind == "Normalize") {
      facts["llm.normalize"] = "1";
    } else if (kind.empty()) {
      return InvalidInput("{}: a module without a type", modules);
    } else {  // behind the pooling, as Dense: the vectors would be others
      std::string& pooling = facts["llm.pooling"];
      pooling += (pooling.empty() ? "" : "+") + kind;
    }
  }
  return {};
}

}  // namespace evoq
