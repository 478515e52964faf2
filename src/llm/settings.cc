#include "llm/settings.h"

namespace evoq {

using nlohmann::json;

bool Given(const json& object, const char* key) {
  return object.is_object() && object.contains(key) && !object[key].is_null();
}

const json* First(const json& object, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (Given(object, key)) return &object[key];
  }
  return nullptr;
}

Result<int64_t> Int(const json& config, std::initializer_list<const char*> keys, int64_t fallback) {
  const json* value = First(config, keys);
  if (value == nullptr && fallback >= 0) return fallback;
  if (value == nullptr) return InvalidInput("{} is missing", *keys.begin());
  if (!value->is_number_integer() || value->get<double>() > 1e15 || value->get<double>() < 0)
    return InvalidInput("{} is {}, expected a whole number", *keys.begin(),
                        value->dump().substr(0, 60));
  return value->get<int64_t>();
}

Result<double> Real(const json& config, std::initializer_list<const char*> keys, double fallback) {
  const json* value = First(config, keys);
  if (value == nullptr) return fallback;
  if (!value->is_number())
    return InvalidInput("{} is {}, expected a number", *keys.begin(), value->dump().substr(0, 60));
  return value->get<double>();
}

Result<bool> Truth(const json& config, const char* key, bool fallback) {
  if (!Given(config, key)) return fallback;
  if (!config[key].is_boolean())
    return InvalidInput("{} is {}, expected true or false", key, config[key].dump().substr(0, 60));
  return config[key].get<bool>();
}

Result<std::vector<int64_t>> Ids(const json& config, const char* key) {
  constexpr size_t kMostIds = 256;
  std::vector<int64_t> ids;
  if (!Given(config, key)) return ids;
  const json list = config[key].is_array() ? config[key] : json::array({config[key]});
  for (const json& id : list) {
    if (!id.is_number_integer() || id.get<double>() < 0 || id.get<double>() > 1e9 ||
        ids.size() >= kMostIds)
      return InvalidInput("{} is {}, expected tokens", key, config[key].dump().substr(0, 60));
    ids.push_back(id.get<int64_t>());
  }
  return ids;
}

Result<GateFunction> Function(const json& config, GateFunction fallback) {
  const json* name =
      First(config, {"activation_function", "hidden_activation", "hidden_act", "activation"});
  if (name == nullptr) return fallback;
  if (!name->is_string())
    return Unsupported("hidden_act is {}, expected a name", name->dump().substr(0, 60));
  return FindGateFunction(name->get_ref<const std::string&>());
}

}  // namespace evoq
