#include "workflow/config.h"

#include <algorithm>
#include <type_traits>

#include "base/brief.h"
#include "base/json_file.h"
#include "base/nearest.h"

namespace evoq {

using nlohmann::json;

namespace {

// The fields; each is the option of its name, with '-' for '_'.
constexpr ConfigField kFields[] = {
    {"scheme", [](QuantizeJob& j) -> ConfigValue { return &j.scheme; }},
    {"method", [](QuantizeJob& j) -> ConfigValue { return &j.method; }},
    {"calib", [](QuantizeJob& j) -> ConfigValue { return &j.calib; }},
    {"calib_random", [](QuantizeJob& j) -> ConfigValue { return &j.calib_random; }},
    {"calib_limit", [](QuantizeJob& j) -> ConfigValue { return &j.calib_limit; }},
    {"samples", [](QuantizeJob& j) -> ConfigValue { return &j.calib_samples; }},
    {"preprocess", [](QuantizeJob& j) -> ConfigValue { return &j.preprocess; }},
    {"observer", [](QuantizeJob& j) -> ConfigValue { return &j.observer; }},
    {"percentile", [](QuantizeJob& j) -> ConfigValue { return &j.percentile; }},
    {"per_tensor", [](QuantizeJob& j) -> ConfigValue { return &j.per_tensor; }},
    {"block", [](QuantizeJob& j) -> ConfigValue { return &j.block; }},
    {"signed", [](QuantizeJob& j) -> ConfigValue { return &j.signed_activations; }},
    {"symmetric", [](QuantizeJob& j) -> ConfigValue { return &j.symmetric; }},
    {"target", [](QuantizeJob& j) -> ConfigValue { return &j.target; }},
    {"opset", [](QuantizeJob& j) -> ConfigValue { return &j.opset; }},
    {"scale_sets", [](QuantizeJob& j) -> ConfigValue { return &j.scale_sets; }},
    {"exclude", [](QuantizeJob& j) -> ConfigValue { return &j.exclude; }, /*adds=*/true},
    {"disable", [](QuantizeJob& j) -> ConfigValue { return &j.passes.disable; }, /*adds=*/true},
    {"opt_level", [](QuantizeJob& j) -> ConfigValue { return &j.passes.opt_level; }},
    {"ranges", [](QuantizeJob& j) -> ConfigValue { return &j.ranges_in; }},
    {"save_ranges", [](QuantizeJob& j) -> ConfigValue { return &j.ranges_out; }},
    {"encodings", [](QuantizeJob& j) -> ConfigValue { return &j.encodings; }},
    {"encodings_out", [](QuantizeJob& j) -> ConfigValue { return &j.encodings_out; }},
    {"encodings_version", [](QuantizeJob& j) -> ConfigValue { return &j.encodings_version; }},
    {"calib_cache", [](QuantizeJob& j) -> ConfigValue { return &j.calib_cache; }},
    {"calib_cache_out", [](QuantizeJob& j) -> ConfigValue { return &j.calib_cache_out; }},
    {"max_drop", [](QuantizeJob& j) -> ConfigValue { return &j.promise.max_drop; }},
    {"min_sqnr", [](QuantizeJob& j) -> ConfigValue { return &j.promise.min_sqnr_db; }},
    {"max_perplexity_growth", [](QuantizeJob& j) -> ConfigValue { return &j.promise.max_growth; }},
    {"text", [](QuantizeJob& j) -> ConfigValue { return &j.text; }},
    {"tokenizer", [](QuantizeJob& j) -> ConfigValue { return &j.tokenizer; }},
    {"window", [](QuantizeJob& j) -> ConfigValue { return &j.window; }},
    {"never_slower", [](QuantizeJob& j) -> ConfigValue { return &j.promise.never_slower; }},
    {"data", [](QuantizeJob& j) -> ConfigValue { return &j.data; }},
    {"labels", [](QuantizeJob& j) -> ConfigValue { return &j.labels; }},
    {"data_limit", [](QuantizeJob& j) -> ConfigValue { return &j.data_limit; }},
    {"search_s", [](QuantizeJob& j) -> ConfigValue { return &j.search_s; }},
    {"measure_s", [](QuantizeJob& j) -> ConfigValue { return &j.measure_s; }},
    {"tune", [](QuantizeJob& j) -> ConfigValue { return &j.tune; }},
};

// Whether the value is of the kind that is asked for; it is set then.
bool Set(std::string* to, const json& value) {
  if (value.is_string()) *to = value.get<std::string>();
  return value.is_string();
}
bool Set(bool* to, const json& value) {
  if (value.is_boolean()) *to = value.get<bool>();
  return value.is_boolean();
}
bool Set(int* to, const json& value) {
  if (!value.is_number_integer() || value < 0 || value > 1000000000) return false;
  *to = value.get<int>();
  return true;
}
template <typename T>
  requires std::is_same_v<T, double> || std::is_same_v<T, std::optional<double>>
bool Set(T* to, const json& value) {
  if (value.is_number()) *to = value.get<double>();
  return value.is_number();
}
bool Set(std::vector<std::string>* to, const json& value) {
  if (value.is_string()) {
    *to = {value.get<std::string>()};
    return true;
  }
  if (!value.is_array() || !std::ranges::all_of(value, [](const json& v) { return v.is_string(); }))
    return false;
  *to = value.get<std::vector<std::string>>();
  return true;
}

// What Set asks for.
const char* Expected(std::string*) { return "a text"; }
const char* Expected(bool*) { return "true or false"; }
const char* Expected(int*) { return "a whole number from 0 to 1000000000"; }
const char* Expected(double*) { return "a number"; }
const char* Expected(std::optional<double>*) { return "a number"; }
const char* Expected(std::vector<std::string>*) { return "a list of texts"; }

std::string KeyHint(const std::string& key) {
  std::vector<std::string_view> keys;
  for (const ConfigField& field : kFields) keys.push_back(field.key);
  return NearestHint(key, keys);
}

}  // namespace

std::span<const ConfigField> QuantizeFields() { return kFields; }

Status ReadConfig(const std::string& path, QuantizeJob& job) {
  EVOQ_ASSIGN(const json config, ReadJsonFile(path, 1 << 20));
  if (!config.is_object()) return InvalidInput("{}: expected a JSON object", path);
  for (const auto& [key, value] : config.items()) {
    const auto field = std::ranges::find(kFields, key, &ConfigField::key);
    if (field == std::end(kFields))
      return InvalidInput("{}: there is no field '{}'{}", path, Shorten(key),
                          KeyHint(Shorten(key)));
    const ConfigValue to = field->value(job);
    if ((field->adds && !value.is_array()) ||
        !std::visit([&](auto* at) { return Set(at, value); }, to))
      return InvalidInput("{}: {}: expected {}, found {}", path, key,
                          std::visit([](auto* at) { return Expected(at); }, to),
                          JsonBriefly(value));
  }
  return {};
}

void TakeFrom(QuantizeJob& file, QuantizeJob& job, const std::function<bool(const char*)>& given) {
  for (const ConfigField& field : kFields) {
    const ConfigValue from = field.value(file), to = field.value(job);
    if (field.adds) {
      auto& all = *std::get<std::vector<std::string>*>(to);
      const auto& more = *std::get<std::vector<std::string>*>(from);
      all.insert(all.end(), more.begin(), more.end());
    } else if (!given(field.key)) {
      std::visit([&](auto* value) { *value = *std::get<decltype(value)>(from); }, to);
    }
  }
}

Status ReadDeployment(const std::string& path, OptimizeJob& job) {
  EVOQ_ASSIGN(const json config, ReadJsonFile(path, 1 << 20));
  EVOQ_ASSIGN(job.deployment, ParseDeployment(config, path));
  if (job.model.empty()) job.model = job.deployment->input_model;
  if (job.output.empty()) job.output = job.deployment->output_model;
  return {};
}

Status ReadConfig(const std::string& path, OptimizeJob& job) {
  EVOQ_ASSIGN(const json config, ReadJsonFile(path, 1 << 20));
  if (!config.is_object()) return InvalidInput("{}: expected a JSON object", path);
  if (IsDeployment(config)) return ReadDeployment(path, job);
  for (const auto& [key, value] : config.items()) {
    if (key == "disable" && value.is_array()) {
      for (const json& name : value) {
        if (!name.is_string()) return InvalidInput("{}: disable: expected names of passes", path);
        job.passes.disable.push_back(name.get<std::string>());
      }
    } else if (key == "stop_after" && value.is_number_integer() && value >= 0 && value <= 1000000) {
      job.stop_after = value.get<int>();
    } else if (key == "opt_level" && value.is_number_integer() && value >= 0 &&
               value <= kMostOptLevel) {
      job.passes.opt_level = value.get<int>();
    } else {
      return InvalidInput(
          "{}: field '{}', expected disable (a list of names), opt_level (0 to {}) "
          "or stop_after (a number)",
          path, key, kMostOptLevel);
    }
  }
  return {};
}

}  // namespace evoq
