#include "workflow/outside.h"

#include <algorithm>

#include "base/file.h"
#include "base/printable.h"
#include "models/models.h"
#include "quant/method.h"

namespace evoq {
namespace {

constexpr size_t kMaxNamed = 20;  // in one warning

// "a: why" of the first few; the JSON has them all.
void WarnOfEach(const std::string& file, const std::map<std::string, std::string>& not_used,
                std::vector<std::string>& warnings) {
  size_t told = 0;
  for (const auto& [name, why] : not_used) {
    if (++told > kMaxNamed) break;
    warnings.push_back(FormatPrintable("{}: {} is not used: {}", file, name, why));
  }
  if (not_used.size() > kMaxNamed)
    warnings.push_back(
        fmt::format("{}: {} more entries are not used", file, not_used.size() - kMaxNamed));
}

void WarnOfUnknown(const std::string& file, const CalibrationTable& table, const Lineage& lineage,
                   std::vector<std::string>& warnings) {
  std::vector<std::string> unknown;
  for (const TableEntry& entry : table.entries) {
    if (lineage.OfTensor(entry.tensor).empty()) unknown.push_back(entry.tensor);
  }
  if (unknown.empty()) return;
  const size_t count = unknown.size();
  unknown.resize(std::min(count, kMaxNamed));
  warnings.push_back(FormatPrintable(
      "{}: {} of {} entries name no value of the optimized model: {}{}", file, count,
      table.entries.size(), Joined(unknown, ", "), count > unknown.size() ? ", ..." : ""));
}

// Methods that change the numbers that other tools' parameters are about.
Status CheckMethodsBeside(const QuantizeJob& job) {
  if (job.method == kAutoMethod) {
    for (const auto& [option, file] : {std::pair("--encodings", &job.encodings),
                                       std::pair("--encodings-out", &job.encodings_out),
                                       std::pair("--calib-cache", &job.calib_cache)}) {
      if (!file->empty())
        return Fail(ErrorCode::kUsage, "--method auto tries methods that do not go with {} {}",
                    option, *file);
    }
    return {};
  }
  EVOQ_ASSIGN(const MethodChoice methods, ParseMethods(job.method));
  if (!methods) return {};
  for (const QuantMethod* method : *methods) {
    if (!job.encodings_out.empty())
      return Fail(ErrorCode::kUsage,
                  "--method {}: --encodings-out writes parameters, from which other tools round to "
                  "nearest",
                  method->name);
    for (const auto& [option, file] :
         {std::pair("--encodings", &job.encodings), std::pair("--calib-cache", &job.calib_cache)}) {
      if (!file->empty() && method->stage == MethodStage::kFloat)
        return Fail(ErrorCode::kUsage, "--method {} changes the numbers that {} {} is about",
                    method->name, option, *file);
    }
  }
  return {};
}

// Whether the job names such files. --ranges counts where it is another tool's table.
Result<bool> UsesOutside(const QuantizeJob& job) {
  if (!job.encodings.empty() || !job.encodings_out.empty() || !job.calib_cache.empty() ||
      !job.calib_cache_out.empty())
    return true;
  return job.ranges_in.empty() ? Result<bool>(false) : IsTable(job.ranges_in);
}

}  // namespace

Status CheckOutside(const QuantizeJob& job) {
  if (FindEncodingsVersion(job.encodings_version) == nullptr) {
    std::vector<std::string> names;
    for (const EncodingsVersion* version : AllEncodingsVersions()) names.push_back(version->name);
    return Fail(ErrorCode::kUsage, "--encodings-version {}: expected {}", job.encodings_version,
                fmt::join(names, ", "));
  }
  const QuantScheme* scheme = FindScheme(job.scheme);
  const bool takes = scheme != nullptr && (scheme->needs_calibration || scheme->weights_only ||
                                           scheme->precision == Precision::kInt8);
  for (const auto& [option, file] : {std::pair("--encodings", &job.encodings),
                                     std::pair("--encodings-out", &job.encodings_out)}) {
    if (!file->empty() && !takes)
      return Fail(ErrorCode::kUsage, "{}: --scheme {} has no integers with parameters to {}",
                  option, job.scheme, option == std::string_view("--encodings") ? "set" : "write");
  }
  for (const auto& [option, file] : {std::pair("--calib-cache", &job.calib_cache),
                                     std::pair("--calib-cache-out", &job.calib_cache_out)}) {
    if (!file->empty() && (scheme == nullptr || !scheme->needs_calibration))
      return Fail(ErrorCode::kUsage, "{}: --scheme {} does not calibrate", option, job.scheme);
  }
  EVOQ_TRY(CheckMethodsBeside(job));
  for (const std::string* out : {&job.encodings_out, &job.calib_cache_out}) {
    if (!out->empty()) EVOQ_TRY(CheckOutputPath(*out));
  }
  return {};
}

Result<Outside> ReadOutside(const QuantizeJob& job, const Graph& optimized) {
  Outside outside;
  EVOQ_ASSIGN(const bool uses, UsesOutside(job));
  if (!uses) return outside;
  EVOQ_ASSIGN(outside.original, ImportModel(job.model));
  outside.lineage.emplace(*outside.original, optimized);
  EVOQ_ASSIGN(const bool table,
              job.ranges_in.empty() ? Result<bool>(false) : IsTable(job.ranges_in));
  if (table) {
    EVOQ_ASSIGN(const CalibrationTable ranges, ReadTable(job.ranges_in));
    outside.ranges = RangesOfTable(ranges, *outside.lineage);
    WarnOfUnknown(job.ranges_in, ranges, *outside.lineage, outside.warnings);
    outside.table = job.ranges_in;
  }
  if (!job.calib_cache.empty()) {
    EVOQ_ASSIGN(outside.cache, ReadTable(job.calib_cache));
    if (outside.cache->header.empty())
      return Fail(ErrorCode::kUsage,
                  "--calib-cache {}: {} has ranges, not scales: --ranges takes it", job.calib_cache,
                  outside.cache->format);
    outside.ranges = RangesOfTable(*outside.cache, *outside.lineage);
    outside.given = ScalesOfTable(*outside.cache, *outside.lineage, optimized);
    WarnOfUnknown(job.calib_cache, *outside.cache, *outside.lineage, outside.warnings);
    outside.table = job.calib_cache;
  }
  if (!job.encodings.empty()) {
    EVOQ_ASSIGN(const std::vector<Encoding> encodings, ReadEncodings(job.encodings));
    EVOQ_ASSIGN(
        ResolvedEncodings resolved,
        WithContext(ResolveEncodings(encodings, *outside.original, optimized), job.encodings));
    outside.use.file = job.encodings;
    outside.use.entries = static_cast<int>(encodings.size());
    outside.use.not_used = std::move(resolved.not_used);
    outside.entries = std::move(resolved.tensors);
    for (auto& [value, type] : resolved.given) outside.given[value] = std::move(type);
    for (const std::string& warning : resolved.warnings)
      outside.warnings.push_back(FormatPrintable("{}: {}", job.encodings, warning));
  }
  return outside;
}

void NoteMissing(const Graph& optimized, const Ranges& ranges, Outside& outside) {
  if (outside.table.empty()) return;
  std::vector<std::string> missing = WithoutRange(optimized, ranges);
  if (missing.empty()) return;
  const size_t count = missing.size();
  missing.resize(std::min(count, kMaxNamed));
  outside.warnings.push_back(FormatPrintable(
      "{}: no range for {} values of the model, which stay float: "
      "{}{}",
      outside.table, count, Joined(missing, ", "), count > missing.size() ? ", ..." : ""));
}

void NoteUse(const QuantizeReport& report, Outside& outside) {
  if (outside.use.file.empty()) return;
  // An entry is used where one of the values that it gave is.
  std::map<std::string, std::string> why;
  std::set<std::string> used;
  for (const auto& [value, entry] : outside.entries) {
    const auto refused = report.not_used.find(value);
    if (refused == report.not_used.end()) {
      used.insert(entry);
    } else {
      why.emplace(entry, refused->second);
    }
  }
  for (const auto& [entry, sentence] : why) {
    if (!used.count(entry)) outside.use.not_used.emplace(entry, sentence);
  }
  WarnOfEach(outside.use.file, outside.use.not_used, outside.warnings);
}

Status WriteOutside(const QuantizeJob& job, const Outside& outside, const QuantizeReport& report,
                    const Ranges& ranges, std::vector<std::string>& warnings) {
  if (!job.encodings_out.empty()) {
    const UsedEncodings used =
        EncodingsOfUsed(report.used, report.activation_bits, *outside.original, *outside.lineage);
    EVOQ_TRY(WriteEncodings(used.encodings, *FindEncodingsVersion(job.encodings_version),
                            job.encodings_out));
    size_t told = 0;
    for (const auto& [value, why] : used.left_out) {
      if (++told > kMaxNamed) break;
      warnings.push_back(FormatPrintable("{}: no entry for {}: {}", job.encodings_out, value, why));
    }
  }
  if (job.calib_cache_out.empty()) return {};
  const CalibrationTable cache =
      CacheOf(ranges, report.used, *outside.lineage, outside.cache ? &*outside.cache : nullptr);
  EVOQ_ASSIGN(const std::string text,
              WithContext(CalibrationCacheText(cache), job.calib_cache_out));
  return WriteFileAtomic(job.calib_cache_out, text);
}

}  // namespace evoq
