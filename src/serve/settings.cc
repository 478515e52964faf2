#include "serve/settings.h"

#include <algorithm>

#include "base/text.h"
#include "serve/fields.h"

namespace evoq::serve {
namespace {

using nlohmann::json;

constexpr int64_t kMaxSamples = 4096, kMaxWaiting = 1 << 20;
constexpr int64_t kMaxUs = int64_t{3600} * 1000000;
constexpr int kMaxInstances = 256;

Status ReadBatching(const json& config, const std::string& where, ModelSettings& s) {
  if (config.is_null()) return {};
  Fields fields(config, where);
  fields.Read("preferred_batch_size", s.preferred, 1, kMaxSamples);
  fields.Read("max_queue_delay_microseconds", s.max_delay_us, 0, kMaxUs);
  const json& policy = fields.Member("default_queue_policy");
  if (!policy.is_null()) {
    Fields of_queue(policy, where + ": default_queue_policy");
    of_queue.Read("max_queue_size", s.max_queue, 1, kMaxWaiting);
    of_queue.Read("default_timeout_microseconds", s.timeout_us, 0, kMaxUs);
    std::string action = "REJECT";
    of_queue.Read("timeout_action", action);
    if (action != "REJECT") of_queue.Fail("timeout_action", "REJECT");
    fields.Keep(of_queue.Done());
  }
  return fields.Done();
}

Status ReadInstances(const json& groups, const std::string& where, ModelSettings& s) {
  if (groups.is_null()) return {};
  if (!groups.is_array() || groups.size() != 1)
    return InvalidInput("{}: {}, expected a list of one group", where, Brief(groups));
  Fields fields(groups[0], where);
  fields.Read("count", s.instances, 1, kMaxInstances);
  std::string kind = "KIND_CPU";
  fields.Read("kind", kind);
  if (kind != "KIND_CPU" && kind != "KIND_AUTO") fields.Fail("kind", "KIND_CPU or KIND_AUTO");
  fields.Accept("name");
  return fields.Done();
}

Status ReadVersions(const json& policy, const std::string& where, VersionPolicy& v) {
  if (policy.is_null()) return {};
  Fields fields(policy, where);
  const json& latest = fields.Member("latest");
  const json& all = fields.Member("all");
  const json& specific = fields.Member("specific");
  if (!latest.is_null() + !all.is_null() + !specific.is_null() != 1)
    return InvalidInput("{}: expected one of latest, all and specific", where);
  if (!latest.is_null()) {
    Fields of_latest(latest, where + ": latest");
    of_latest.Read("num_versions", v.latest, 1, kMaxWaiting);
    v.kind = VersionPolicy::Kind::kLatest;
    fields.Keep(of_latest.Done());
  } else if (!all.is_null()) {
    v.kind = VersionPolicy::Kind::kAll;
  } else {
    Fields of_specific(specific, where + ": specific");
    of_specific.Read("versions", v.specific, 1, INT64_MAX);
    v.kind = VersionPolicy::Kind::kSpecific;
    fields.Keep(of_specific.Done());
  }
  return fields.Done();
}

Status ReadShadow(const json& shadow, const std::string& where, const std::string& name,
                  ModelSettings& s) {
  if (shadow.is_null()) return {};
  Fields fields(shadow, where);
  s.shadow_one_in = 100;
  fields.Read("model", s.shadow);
  fields.Read("one_in", s.shadow_one_in, 1, kMaxWaiting);
  if (s.shadow.empty() || s.shadow == name)
    return InvalidInput("{}: model: \"{}\", expected the name of another model", where, s.shadow);
  return fields.Done();
}

}  // namespace

Result<std::vector<int64_t>> VersionPolicy::Choose(const std::vector<int64_t>& versions) const {
  switch (kind) {
    case Kind::kAll: return versions;
    case Kind::kLatest: {
      const auto count = std::min(latest, static_cast<int64_t>(versions.size()));
      return std::vector<int64_t>(versions.end() - count, versions.end());
    }
    case Kind::kSpecific: break;
  }
  for (int64_t version : specific) {
    if (!std::binary_search(versions.begin(), versions.end(), version))
      return Fail(ErrorCode::kNotFound, "version {} is not there, which version_policy names",
                  version);
  }
  std::vector<int64_t> chosen = specific;
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return chosen;
}

Result<ModelSettings> ParseSettings(const json& config, const std::string& name,
                                    const ModelSettings& defaults) {
  ModelSettings s = defaults;
  Fields fields(config, "");
  std::string named = name;
  fields.Read("name", named);
  if (named != name) fields.Fail("name", fmt::format("{}, as its folder", name));
  for (const char* key : {"platform", "backend", "input", "output", "default_model_filename"})
    fields.Accept(key);
  fields.Read("max_batch_size", s.max_batch, 0, kMaxSamples);
  fields.Keep(ReadBatching(fields.Member("dynamic_batching"), "dynamic_batching", s));
  fields.Keep(ReadInstances(fields.Member("instance_group"), "instance_group", s));
  fields.Keep(ReadVersions(fields.Member("version_policy"), "version_policy", s.versions));
  fields.Keep(ReadShadow(fields.Member("shadow"), "shadow", name, s));
  fields.Read("threads", s.threads, 0, 1024);
  fields.Read("context", s.context, 0, int64_t{1} << 22);
  fields.Read("sequences", s.sequences, 1, 256);
  fields.Read("kv_cache", s.kv_cache);
  EVOQ_TRY(fields.Done());
  for (int64_t size : s.preferred) {
    if (size > std::max<int64_t>(s.max_batch, 1))
      return InvalidInput(
          "dynamic_batching: preferred_batch_size: {}, expected at most "
          "max_batch_size, {}",
          size, s.max_batch);
  }
  return s;
}

json ToJson(const ModelSettings& s) {
  json versions;
  switch (s.versions.kind) {
    case VersionPolicy::Kind::kLatest:
      versions["latest"] = {{"num_versions", s.versions.latest}};
      break;
    case VersionPolicy::Kind::kAll: versions["all"] = json::object(); break;
    case VersionPolicy::Kind::kSpecific:
      versions["specific"] = {{"versions", s.versions.specific}};
      break;
  }
  json config = {{"max_batch_size", s.max_batch},
                 {"dynamic_batching",
                  {{"preferred_batch_size", s.preferred},
                   {"max_queue_delay_microseconds", s.max_delay_us},
                   {"default_queue_policy",
                    {{"max_queue_size", s.max_queue},
                     {"default_timeout_microseconds", s.timeout_us},
                     {"timeout_action", "REJECT"}}}}},
                 {"instance_group", {{{"kind", "KIND_CPU"}, {"count", s.instances}}}},
                 {"version_policy", std::move(versions)},
                 {"threads", s.threads}};
  if (!s.shadow.empty()) config["shadow"] = {{"model", s.shadow}, {"one_in", s.shadow_one_in}};
  return config;
}

}  // namespace evoq::serve
