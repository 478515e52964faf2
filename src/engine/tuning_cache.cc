#include "engine/tuning_cache.h"

#include <filesystem>

#include "base/file.h"
#include "base/json_file.h"

namespace evoq {
namespace {

using nlohmann::json;

constexpr int kVersion = 1;
constexpr size_t kMaxBytes = 64 << 20;
constexpr size_t kMaxEntries = 1 << 16;  // more are not kept: the cache starts afresh

Result<StepTuning> ReadEntry(const std::string& key, const json& from) {
  const auto bad = [&] {
    return InvalidInput("entry '{}' is not {{variant, threads, slower}}", key);
  };
  if (!from.is_object() || !from.contains("variant") || !from["variant"].is_string()) return bad();
  if (!from.contains("threads") || !from["threads"].is_number_integer()) return bad();
  StepTuning tuning{from["variant"].get<std::string>(), from["threads"] == 1 ? 1 : 0, {}};
  if (!from.contains("slower") || !from["slower"].is_array()) return bad();
  for (const json& r : from["slower"]) {
    if (!r.is_array() || r.size() != 2 || !r[0].is_string() || !r[1].is_string()) return bad();
    tuning.slower.push_back(
        {r[0].get<std::string>(), {kSlowerWhenMeasured, r[1].get<std::string>()}});
  }
  return tuning;
}

}  // namespace

std::string TuningCachePath() { return CachePath("EVOQ_TUNING_CACHE", "tuning.json"); }

Result<TuningCache> TuningCache::Open(const std::string& path) {
  TuningCache cache;
  std::error_code code;
  if (path.empty() || !std::filesystem::exists(path, code)) return cache;
  EVOQ_ASSIGN(const json root, ReadJsonFile(path, kMaxBytes));
  if (!root.is_object() || !root.contains("version") || !root.contains("entries") ||
      !root["entries"].is_object())
    return InvalidInput("{}: no tuning cache: expected an object with version and entries", path);
  if (root["version"] != kVersion) return cache;
  for (const auto& [key, value] : root["entries"].items()) {
    EVOQ_ASSIGN(cache.entries_[key], WithContext(ReadEntry(key, value), path));
  }
  return cache;
}

const StepTuning* TuningCache::Find(const std::string& key) const {
  auto it = added_.find(key);
  if (it != added_.end()) return &it->second;
  it = entries_.find(key);
  return it == entries_.end() ? nullptr : &it->second;
}

Status TuningCache::Save(const std::string& path) const {
  if (path.empty() || added_.empty()) return {};
  EVOQ_TRY(MakeParentOf(path));
  std::map<std::string, StepTuning> all = added_;
  if (Result<TuningCache> now = Open(path);
      now && now->entries_.size() + added_.size() <= kMaxEntries)
    all.merge(now->entries_);  // keeps what was added
  json entries = json::object();
  for (const auto& [key, tuning] : all) {
    json slower = json::array();
    for (const auto& r : tuning.slower) slower.push_back({r.kernel, r.reason.sentence});
    entries[key] = {{"variant", tuning.variant}, {"threads", tuning.threads}, {"slower", slower}};
  }
  const json root = {{"version", kVersion}, {"entries", entries}};
  return WriteFileAtomic(path, root.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
}

}  // namespace evoq
