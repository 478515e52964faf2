// Adapters as files: the names and settings of PEFT.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "base/json_file.h"
#include "base/math.h"
#include "llm/adapter.h"
#include "llm/safetensors.h"

namespace evoq {
namespace {

using nlohmann::json;

constexpr const char kConfig[] = "adapter_config.json", kWeights[] = "adapter_model.safetensors",
                     kPrefix[] = "base_model.model.", kA[] = ".lora_A.weight",
                     kB[] = ".lora_B.weight";
constexpr size_t kMostConfig = size_t{1} << 22;
constexpr double kMostRank = 1 << 16;

// Settings that say something else than a plain LoRA does.
Status CheckPlain(const json& config) {
  if (JsonText(config, "peft_type") != "LORA")
    return Unsupported("peft_type is {}, expected \"LORA\"",
                       config.contains("peft_type") ? config["peft_type"].dump() : "missing");
  for (const char* key : {"rank_pattern", "alpha_pattern", "modules_to_save", "use_dora",
                          "layer_replication", "lora_bias"}) {
    if (config.contains(key) && !config[key].is_null() && config[key] != false &&
        !config[key].empty())
      return Unsupported("{} is {}, expected a plain LoRA", key, config[key].dump().substr(0, 60));
  }
  if (config.contains("bias") && config["bias"] != "none")
    return Unsupported("bias is {}, expected \"none\"", config["bias"].dump().substr(0, 60));
  return {};
}

Result<LoraAdapters> ReadConfigFile(const std::string& path) {
  EVOQ_ASSIGN(const json config, ReadJsonFile(path, kMostConfig));
  EVOQ_TRY(WithContext(CheckPlain(config), path));
  LoraAdapters out;
  out.base = JsonText(config, "base_model_name_or_path");
  const double rank = JsonNumber(config, "r", -1), alpha = JsonNumber(config, "lora_alpha", -1);
  if (!(rank >= 1 && rank <= kMostRank && rank == std::floor(rank)))
    return InvalidInput("{}: r is {}, expected a number from 1 to {}", path, rank, kMostRank);
  if (!(alpha > 0 && alpha <= 1e6))
    return InvalidInput("{}: lora_alpha is {}, expected a number above 0", path, alpha);
  const bool by_root = config.contains("use_rslora") && config["use_rslora"] == true;
  out.rank = static_cast<int64_t>(rank);
  out.scale = alpha / (by_root ? std::sqrt(rank) : rank);
  return out;
}

Result<Tensor> Matrix(const StoredTensors& tensors, const std::string& name) {
  const auto at = tensors.find(name);
  if (at == tensors.end()) return InvalidInput("no tensor {}", name);
  if (at->second.sizes.size() != 2)
    return InvalidInput("tensor {} is {}, expected two axes", name, at->second.ToString());
  EVOQ_ASSIGN(const Tensor plain,
              WithContext(PlainTensor(at->second, at->second.sizes), "tensor " + name));
  return WithContext(ToFloat32(plain), "tensor " + name);
}

std::string Prefixed(const std::string& module, const char* ending) {
  return kPrefix + module + ending;
}

// A safetensors file of float32 tensors.
Status WriteSafetensors(const std::vector<std::pair<std::string, Tensor>>& tensors,
                        const std::string& path) {
  json header = {{"__metadata__", {{"format", "pt"}}}};
  uint64_t at = 0;
  for (const auto& [name, tensor] : tensors) {
    header[name] = {
        {"dtype", "F32"}, {"shape", tensor.sizes()}, {"data_offsets", {at, at + tensor.bytes()}}};
    at += tensor.bytes();
  }
  std::string text = header.dump();
  text.resize(static_cast<size_t>(RoundUp(static_cast<int64_t>(text.size()) + 8, 64)) - 8, ' ');
  std::string bytes(8, '\0');
  const uint64_t size = text.size();
  std::memcpy(bytes.data(), &size, 8);
  bytes += text;
  for (const auto& [name, tensor] : tensors)
    bytes.append(reinterpret_cast<const char*>(tensor.raw()), tensor.bytes());
  return WriteFileAtomic(path, bytes);
}

// The last parts of the modules' names, which PEFT looks for.
std::vector<std::string> TargetsOf(const LoraAdapters& adapters) {
  std::set<std::string> targets;
  for (const LoraAdapter& adapter : adapters.adapters)
    targets.insert(adapter.module.substr(adapter.module.rfind('.') + 1));
  return {targets.begin(), targets.end()};
}

}  // namespace

bool IsAdapterFolder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path + "/" + kConfig, error);
}

Result<LoraAdapters> ReadAdapters(const std::string& folder) {
  EVOQ_ASSIGN(LoraAdapters out, ReadConfigFile(folder + "/" + kConfig));
  const std::string path = folder + "/" + kWeights;
  EVOQ_ASSIGN(const StoredTensors tensors, ReadSafetensors(path));
  for (const auto& [name, tensor] : tensors) {
    const std::string_view view(name);
    if (!view.starts_with(kPrefix) || (!view.ends_with(kA) && !view.ends_with(kB)))
      return Unsupported("{}: tensor {}, expected {}MODULE{} or {}", path, name, kPrefix, kA, kB);
    if (!view.ends_with(kA)) continue;
    const std::string module =
        name.substr(std::strlen(kPrefix), name.size() - std::strlen(kPrefix) - std::strlen(kA));
    LoraAdapter adapter{.module = module};
    EVOQ_ASSIGN(adapter.a, WithContext(Matrix(tensors, name), path));
    EVOQ_ASSIGN(adapter.b, WithContext(Matrix(tensors, Prefixed(module, kB)), path));
    out.adapters.push_back(std::move(adapter));
  }
  if (2 * out.adapters.size() != tensors.size() || out.adapters.empty())
    return InvalidInput("{}: {} tensors, {} of them lora_A, expected pairs", path, tensors.size(),
                        out.adapters.size());
  return out;
}

Status WriteAdapters(const LoraAdapters& adapters, const std::string& folder) {
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const LoraAdapter& adapter : adapters.adapters) {
    tensors.emplace_back(Prefixed(adapter.module, kA), adapter.a);
    tensors.emplace_back(Prefixed(adapter.module, kB), adapter.b);
  }
  std::ranges::sort(tensors, {}, [](const auto& t) { return t.first; });
  const json config = {{"peft_type", "LORA"},
                       {"task_type", "CAUSAL_LM"},
                       {"base_model_name_or_path", adapters.base},
                       {"r", adapters.rank},
                       {"lora_alpha", adapters.scale * static_cast<double>(adapters.rank)},
                       {"lora_dropout", 0.0},
                       {"bias", "none"},
                       {"fan_in_fan_out", false},
                       {"inference_mode", true},
                       {"target_modules", TargetsOf(adapters)}};
  EVOQ_TRY(MakeDirectories(folder));
  EVOQ_TRY(WriteSafetensors(tensors, folder + "/" + kWeights));
  return WriteFileAtomic(folder + "/" + kConfig, config.dump(2) + "\n");
}

}  // namespace evoq
