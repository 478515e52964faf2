// A part of a calibration as JSON.
#include <cmath>
#include <utility>

#include "base/version.h"
#include "quant/calibration_part.h"
#include "quant/interval.h"
#include "quant/observer.h"

namespace evoq {
namespace {

using Json = nlohmann::json;
constexpr char kFormat[] = "evoq-calibration";
constexpr int kVersion = 1;
// Sums of as many as there may be parts stay within 64 bits, and sums of such parts within double.
constexpr int64_t kMostCounted = int64_t{1} << 46;
constexpr double kLargestPart = 1e280;

Json ExtremesOf(const std::vector<Range>& samples) {
  Json list = Json::array();
  for (const Range& sample : samples) {
    const bool seen = sample.min <= sample.max;
    list.push_back(seen ? Json{sample.min, sample.max} : Json());
  }
  return list;
}

Json ChannelsOf(const ValueRecord& record) {
  if (record.channels_differ) return Json();
  Json sums = Json::array();
  for (const ExactSum& sum : record.channel_sums) sums.push_back(sum.parts());
  return {
      {"sums", std::move(sums)}, {"max", record.channel_max}, {"elements", record.channel_count}};
}

// ---- reading

// What is read of an object, and where it stands.
class Fields {
 public:
  Fields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {}

  auto Wrong(const char* key, const char* expected) const {
    const auto at = object_.is_object() ? object_.find(key) : object_.end();
    const bool there = object_.is_object() && at != object_.end();
    return InvalidInput(
        "{}\"{}\" is {}, expected {}", where_, key,
        there ? at->dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 60) : "missing",
        expected);
  }
  const Json& operator[](const char* key) const {
    static const Json kNone;
    const auto at = object_.is_object() ? object_.find(key) : object_.end();
    return object_.is_object() && at != object_.end() ? *at : kNone;
  }
  Result<int64_t> Whole(const char* key, int64_t low, int64_t high) const {
    const Json& value = (*this)[key];
    const bool small = value.is_number_integer() &&
                       (!value.is_number_unsigned() || value.get<uint64_t>() <= INT64_MAX);
    if (!small || value.get<int64_t>() < low || value.get<int64_t>() > high)
      return Wrong(key, fmt::format("a whole number from {} to {}", low, high).c_str());
    return value.get<int64_t>();
  }
  Result<double> Number(const char* key) const {
    const Json& value = (*this)[key];
    if (!value.is_number() || !std::isfinite(value.get<double>())) return Wrong(key, "a number");
    return value.get<double>();
  }
  Result<std::string> Text(const char* key) const {
    if (!(*this)[key].is_string()) return Wrong(key, "a text");
    return (*this)[key].get<std::string>();
  }

 private:
  const Json& object_;
  std::string where_;
};

bool IsFiniteFloat(const Json& value) {
  return value.is_number() && std::isfinite(value.get<float>());
}

Status ParseExtremes(const Fields& fields, size_t samples, std::vector<Range>& ranges) {
  const Json& list = fields["extremes"];
  if (!list.is_array() || list.size() != samples)
    return fields.Wrong("extremes", "a pair of numbers or null for each sample");
  for (const Json& pair : list) {
    if (pair.is_null()) {
      ranges.push_back({INFINITY, -INFINITY});
      continue;
    }
    const bool numbers = pair.is_array() && pair.size() == 2 && IsFiniteFloat(pair[0]) &&
                         IsFiniteFloat(pair[1]) && pair[0].get<float>() <= pair[1].get<float>();
    if (!numbers) return fields.Wrong("extremes", "a pair of numbers or null for each sample");
    ranges.push_back({pair[0].get<float>(), pair[1].get<float>()});
  }
  return {};
}

Status ParseChannels(const Fields& fields, const std::string& where, ValueRecord& record) {
  const Json& channels = fields["channels"];
  record.channels_differ = channels.is_null();
  if (channels.is_null()) return {};
  const Fields inner(channels, where);
  const Json &sums = inner["sums"], &largest = inner["max"];
  if (!sums.is_array()) return inner.Wrong("sums", "a list of lists of numbers");
  if (!largest.is_array() || largest.size() != sums.size())
    return inner.Wrong("max", "as many numbers as there are sums");
  EVOQ_ASSIGN(record.channel_count, inner.Whole("elements", sums.empty() ? 0 : 1, kMostCounted));
  for (const Json& parts : sums) {
    ExactSum& sum = record.channel_sums.emplace_back();
    if (!parts.is_array()) return inner.Wrong("sums", "a list of lists of numbers");
    for (const Json& part : parts) {
      if (!part.is_number() || !(std::fabs(part.get<double>()) < kLargestPart))
        return inner.Wrong("sums", "a list of lists of numbers");
      sum.Add(part.get<double>());
    }
  }
  for (const Json& value : largest) {
    if (!IsFiniteFloat(value)) return inner.Wrong("max", "as many numbers as there are sums");
    record.channel_max.push_back(value.get<float>());
  }
  return {};
}

Status ParseCounts(const Fields& fields, const CalibrationPart& part, ValueRecord& record) {
  const std::string expected =
      part.pass == 1 ? std::string("no list in a first pass")
                     : fmt::format("no list, or {} of {} counts", kIntervalGroups, part.bins);
  const Json& groups = fields["counts"];
  const bool fits =
      groups.is_array() && (groups.empty() || (part.pass == 2 && groups.size() == kIntervalGroups));
  if (!fits) return fields.Wrong("counts", expected.c_str());
  for (const Json& group : groups) {
    if (!group.is_array() || group.size() != static_cast<size_t>(part.bins))
      return fields.Wrong("counts", expected.c_str());
    std::vector<int64_t>& counts = record.counts.emplace_back();
    for (const Json& count : group) {
      if (!count.is_number_unsigned() || count.get<uint64_t>() > kMostCounted)
        return fields.Wrong("counts", expected.c_str());
      counts.push_back(count.get<int64_t>());
    }
  }
  return {};
}

Status ParseValues(const Fields& fields, CalibrationPart& part) {
  const Json& values = fields["values"];
  if (!values.is_object()) return fields.Wrong("values", "an object of values");
  for (const auto& [name, value] : values.items()) {
    const std::string where = fmt::format("value {}: ", name);
    const Fields inner(value, where);
    ValueRecord& record = part.values[name];
    EVOQ_TRY(ParseExtremes(inner, part.hashes.size(), record.samples));
    EVOQ_TRY(ParseChannels(inner, where + "\"channels\": ", record));
    EVOQ_TRY(ParseCounts(inner, part, record));
  }
  return {};
}

Status ParseInputs(const Fields& fields, CalibrationPart& part) {
  const Json& inputs = fields["inputs"];
  if (!inputs.is_array()) return fields.Wrong("inputs", "a list of inputs");
  for (const Json& input : inputs) {
    const Fields inner(input, "an input's ");
    SeenInput& seen = part.inputs.emplace_back();
    EVOQ_ASSIGN(seen.name, inner.Text("name"));
    EVOQ_ASSIGN(seen.elements, inner.Whole("elements", 0, kMostCounted));
    EVOQ_ASSIGN(seen.min, inner.Number("min"));
    EVOQ_ASSIGN(seen.max, inner.Number("max"));
    for (const auto& [key, flag] : {std::pair("watched", &seen.watched), {"flat", &seen.flat}}) {
      if (!inner[key].is_boolean()) return inner.Wrong(key, "true or false");
      *flag = inner[key].get<bool>();
    }
  }
  return {};
}

Status ParseHead(const Fields& fields, CalibrationPart& part) {
  EVOQ_ASSIGN(part.model, fields.Text("model"));
  EVOQ_ASSIGN(part.observer, fields.Text("observer"));
  if (FindObserver(part.observer) == nullptr)
    return fields.Wrong("observer", "one of `evoq list observers`");
  EVOQ_ASSIGN(part.percentile, fields.Number("percentile"));
  if (!(part.percentile > 0 && part.percentile <= 100))
    return fields.Wrong("percentile", "more than 0 and at most 100");
  EVOQ_ASSIGN(const int64_t bins, fields.Whole("bins", 256, 1 << 16));
  part.bins = static_cast<int>(bins);
  EVOQ_ASSIGN(part.batch, fields.Whole("batch", 1, int64_t{1} << 31));
  EVOQ_ASSIGN(part.part.count, fields.Whole("parts", 1, PartNumber::kMost));
  EVOQ_ASSIGN(part.part.index, fields.Whole("part", 1, part.part.count));
  EVOQ_ASSIGN(const int64_t pass, fields.Whole("pass", 1, 2));
  part.pass = static_cast<int>(pass);
  if (!fields["isas"].is_array()) return fields.Wrong("isas", "a list of texts");
  for (const Json& isa : fields["isas"]) {
    if (!isa.is_string()) return fields.Wrong("isas", "a list of texts");
    part.isas.push_back(isa.get<std::string>());
  }
  const Json& samples = fields["samples"];
  if (!samples.is_array() || samples.size() % static_cast<size_t>(part.batch) != 0)
    return fields.Wrong("samples", "a list of whole numbers, of whole runs");
  for (const Json& hash : samples) {
    if (!hash.is_number_unsigned())
      return fields.Wrong("samples", "a list of whole numbers, of whole runs");
    part.hashes.push_back(hash.get<uint64_t>());
  }
  return {};
}

}  // namespace

Json ToJson(const CalibrationPart& part) {
  Json inputs = Json::array(), values = Json::object();
  for (const SeenInput& input : part.inputs)
    inputs.push_back({{"name", input.name},
                      {"watched", input.watched},
                      {"elements", input.elements},
                      {"min", input.min},
                      {"max", input.max},
                      {"flat", input.flat}});
  for (const auto& [name, record] : part.values)
    values[name] = {{"extremes", ExtremesOf(record.samples)},
                    {"channels", ChannelsOf(record)},
                    {"counts", record.counts}};
  return {
      {"format", kFormat},        {"version", kVersion},         {"evoq", EVOQ_VERSION},
      {"model", part.model},      {"observer", part.observer},   {"percentile", part.percentile},
      {"bins", part.bins},        {"batch", part.batch},         {"part", part.part.index},
      {"parts", part.part.count}, {"pass", part.pass},           {"isas", part.isas},
      {"samples", part.hashes},   {"inputs", std::move(inputs)}, {"values", std::move(values)}};
}

Result<CalibrationPart> ParseCalibrationPart(const Json& json) {
  const Fields fields(json, "");
  if (fields["format"] != kFormat)
    return InvalidInput("no part of a calibration: expected a JSON object with \"format\": \"{}\"",
                        kFormat);
  if (fields["version"] != kVersion)
    return Unsupported("a calibration of version {}, expected {}", fields["version"].dump(),
                       kVersion);
  CalibrationPart part;
  EVOQ_TRY(ParseHead(fields, part));
  EVOQ_TRY(ParseInputs(fields, part));
  EVOQ_TRY(ParseValues(fields, part));
  return part;
}

}  // namespace evoq
