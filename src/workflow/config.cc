#include "workflow/config.h"

#include <algorithm>
#include <map>

#include "base/json_file.h"

namespace evoq {

using nlohmann::json;

Status ReadConfig(const std::string& path, QuantizeJob& job) {
  EVOQ_ASSIGN(const json config, ReadJsonFile(path, 1 << 20));
  if (!config.is_object()) return InvalidInput("{}: expected a JSON object", path);
  const std::map<std::string, std::string*> strings = {
      {"scheme", &job.scheme}, {"observer", &job.observer}, {"preprocess", &job.preprocess}};
  const std::map<std::string, bool*> flags = {{"per_tensor", &job.per_tensor},
                                              {"signed", &job.signed_activations},
                                              {"symmetric", &job.symmetric}};
  for (const auto& [key, value] : config.items()) {
    if (auto s = strings.find(key); s != strings.end() && value.is_string()) {
      *s->second = value.get<std::string>();
    } else if (auto f = flags.find(key); f != flags.end() && value.is_boolean()) {
      *f->second = value.get<bool>();
    } else if (key == "calib" && value.is_string()) {
      job.calib = {value.get<std::string>()};
    } else if (key == "calib" && value.is_array() &&
               std::all_of(value.begin(), value.end(),
                           [](const json& v) { return v.is_string(); })) {
      job.calib = value.get<std::vector<std::string>>();
    } else if (key == "calib_limit" && value.is_number_integer() && value >= 0 &&
               value <= 1000000000) {
      job.calib_limit = value.get<int>();
    } else if (key == "percentile" && value.is_number()) {
      job.percentile = value.get<double>();
    } else if (key == "exclude" && value.is_array()) {
      for (const json& name : value) {
        if (!name.is_string()) return InvalidInput("{}: exclude: expected patterns", path);
        job.exclude.push_back(name.get<std::string>());
      }
    } else {
      return InvalidInput("{}: unknown field '{}' or a value of the wrong kind", path, key);
    }
  }
  return {};
}

Status ReadConfig(const std::string& path, OptimizeJob& job) {
  EVOQ_ASSIGN(const json config, ReadJsonFile(path, 1 << 20));
  if (!config.is_object()) return InvalidInput("{}: expected a JSON object", path);
  for (const auto& [key, value] : config.items()) {
    if (key == "disable" && value.is_array()) {
      for (const json& name : value) {
        if (!name.is_string()) return InvalidInput("{}: disable: expected names of passes", path);
        job.disable.push_back(name.get<std::string>());
      }
    } else if (key == "stop_after" && value.is_number_integer() && value >= 0 && value <= 1000000) {
      job.stop_after = value.get<int>();
    } else {
      return InvalidInput(
          "{}: field '{}', expected disable (a list of names) or stop_after (a number)", path, key);
    }
  }
  return {};
}

}  // namespace evoq
