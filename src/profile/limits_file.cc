#include "profile/limits_file.h"

#include <cmath>
#include <filesystem>

#include "base/file.h"
#include "base/json_file.h"

namespace evoq {
namespace {

using nlohmann::json;

constexpr int kVersion = 1;
constexpr size_t kMaxBytes = 1 << 20;

struct RateField {
  const char* name;
  double MachineLimits::* value;
  bool may_be_zero;
};
constexpr RateField kRates[] = {
    {"int8_gops", &MachineLimits::int8_gops, false},
    {"bf16_gflops", &MachineLimits::bf16_gflops, true},
    {"fp32_gflops", &MachineLimits::fp32_gflops, false},
    {"dram_read_gbps", &MachineLimits::dram_read_gbps, false},
    {"l3_read_gbps", &MachineLimits::l3_read_gbps, false},
    {"l2_read_gbps", &MachineLimits::l2_read_gbps, false},
    {"clock_ghz", &MachineLimits::clock_ghz, false},
    {"fork_ns", &MachineLimits::fork_ns, true},
};
struct SizeField {
  const char* name;
  int64_t MachineLimits::* value;
};
constexpr SizeField kSizes[] = {{"l2_bytes", &MachineLimits::l2_bytes},
                                {"l3_bytes", &MachineLimits::l3_bytes}};

Result<Isa> ParseIsa(const json& name) {
  const auto isa = name.is_string() ? IsaFromName(name.get<std::string>()) : std::nullopt;
  if (!isa) return InvalidInput("isa is {}, expected {}", JsonBriefly(name), IsaNames());
  return *isa;
}

Result<MachineLimits> FromJson(const json& from) {
  if (!from.is_object())
    return InvalidInput("no limits: expected what `evoq limits --json F` writes");
  MachineLimits limits;
  const json cpu = from.value("cpu", json()), threads = from.value("threads", json());
  if (!cpu.is_string()) return InvalidInput("cpu is {}, expected a name", JsonBriefly(cpu));
  limits.cpu = cpu.get<std::string>();
  const json core = from.value("core", json(limits.cpu));
  if (!core.is_string())
    return InvalidInput("core is {}, expected a kind of cores", JsonBriefly(core));
  limits.core = core.get<std::string>();
  EVOQ_ASSIGN(limits.isa, ParseIsa(from.value("isa", json())));
  if (!threads.is_number_integer() || threads < 1 || threads > 4096)
    return InvalidInput("threads is {}, expected 1 to 4096", JsonBriefly(threads));
  limits.threads = threads.get<int>();
  for (const RateField& field : kRates) {
    const json value = from.value(field.name, json());
    const double rate = value.is_number() ? value.get<double>() : NAN;
    if (!(rate < 1e9 && (rate > 1e-6 || (field.may_be_zero && rate == 0))))
      return InvalidInput("{} is {}, expected a positive number", field.name, JsonBriefly(value));
    limits.*field.value = rate;
  }
  for (const SizeField& field : kSizes) {
    const json value = from.value(field.name, json());
    if (!value.is_number_integer() || value < 1024 || value > (int64_t{1} << 40))
      return InvalidInput("{} is {}, expected the bytes of a cache", field.name,
                          JsonBriefly(value));
    limits.*field.value = value.get<int64_t>();
  }
  return limits;
}

std::string Key(Isa isa, int threads) {
  return fmt::format("{}; {} threads", MachineName(isa), threads);
}

// The entries of the file, none where it is missing or of another version.
Result<json> Entries(const std::string& path) {
  std::error_code code;
  if (path.empty() || !std::filesystem::exists(path, code)) return json::object();
  EVOQ_ASSIGN(const json root, ReadJsonFile(path, kMaxBytes));
  if (!root.is_object() || !root.contains("version") || !root.contains("entries") ||
      !root["entries"].is_object())
    return InvalidInput("{}: no limits cache: expected an object with version and entries", path);
  return root["version"] == kVersion ? root["entries"] : json::object();
}

}  // namespace

json ToJson(const MachineLimits& limits) {
  json out = {{"cpu", limits.cpu},
              {"core", limits.core},
              {"isa", IsaName(limits.isa)},
              {"threads", limits.threads}};
  for (const RateField& field : kRates) out[field.name] = limits.*field.value;
  for (const SizeField& field : kSizes) out[field.name] = limits.*field.value;
  return out;
}

Result<MachineLimits> LoadLimits(const std::string& path) {
  EVOQ_ASSIGN(const json root, ReadJsonFile(path, kMaxBytes));
  return WithContext(FromJson(root), path);
}

std::string LimitsCachePath() { return CachePath("EVOQ_LIMITS_CACHE", "limits.json"); }

Result<std::optional<MachineLimits>> FindLimits(const std::string& path, Isa isa, int threads) {
  EVOQ_ASSIGN(const json entries, Entries(path));
  const std::string key = Key(isa, threads);
  if (!entries.contains(key)) return std::optional<MachineLimits>();
  EVOQ_ASSIGN(MachineLimits limits, WithContext(WithContext(FromJson(entries[key]), key), path));
  if (limits.isa != isa || limits.threads != threads) return std::optional<MachineLimits>();
  return std::optional<MachineLimits>(std::move(limits));
}

Status KeepLimits(const std::string& path, const MachineLimits& limits) {
  if (path.empty()) return {};
  EVOQ_TRY(MakeParentOf(path));
  json entries = Entries(path).value_or(json::object());
  entries[Key(limits.isa, limits.threads)] = ToJson(limits);
  return WriteFileAtomic(path, json{{"version", kVersion}, {"entries", entries}}.dump(
                                   1, ' ', false, json::error_handler_t::replace) +
                                   "\n");
}

}  // namespace evoq
