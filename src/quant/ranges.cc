#include <cmath>

#include "base/file.h"
#include "base/json_file.h"
#include "base/text.h"
#include "base/version.h"
#include "quant/observer.h"
#include "quant/quant.h"

namespace evoq {
namespace {

using Json = nlohmann::json;
constexpr char kFormat[] = "evoq-ranges";
constexpr int kVersion = 1;

// Per-channel statistics: a list per value.
struct ChannelField {
  const char* name;
  std::vector<float> Range::* list;
};
constexpr ChannelField kChannelFields[] = {{"channel_means", &Range::channel_means},
                                           {"channel_max", &Range::channel_max}};

Status ParseChannels(const ChannelField& field, const Json& lists, Ranges& ranges) {
  if (!lists.is_object())
    return InvalidInput("\"{}\" is not an object of value: [number, ...]", field.name);
  for (const auto& [name, list] : lists.items()) {
    auto it = ranges.find(name);
    if (it == ranges.end())
      return InvalidInput("\"{}\" has {}, which \"ranges\" lacks", field.name, name);
    if (!list.is_array()) return InvalidInput("\"{}\" of {} is no array", field.name, name);
    for (const Json& v : list) {
      if (!v.is_number() || !std::isfinite(v.get<float>()))
        return InvalidInput("\"{}\" of {} are not all finite numbers", field.name, name);
      (it->second.*field.list).push_back(v.get<float>());
    }
  }
  return {};
}

// Halves of the intervals of both ends.
Status ParseIntervals(const Json& lists, Ranges& ranges) {
  if (!lists.is_object())
    return InvalidInput("\"intervals\" is not an object of value: [number, number]");
  for (const auto& [name, pair] : lists.items()) {
    auto it = ranges.find(name);
    if (it == ranges.end())
      return InvalidInput("\"intervals\" has {}, which \"ranges\" lacks", name);
    const bool numbers =
        pair.is_array() && pair.size() == 2 && pair[0].is_number() && pair[1].is_number();
    const float low = numbers ? pair[0].get<float>() : -1,
                high = numbers ? pair[1].get<float>() : -1;
    if (!(low >= 0 && high >= 0 && std::isfinite(low) && std::isfinite(high))) {
      return InvalidInput("\"intervals\" of {} is {}, expected two numbers of at least 0", name,
                          pair.dump().substr(0, 60));
    }
    it->second.min_error = low;
    it->second.max_error = high;
  }
  return {};
}

Result<Ranges> Parse(const std::string& text) {
  EVOQ_ASSIGN(const Json root, ParseJson(text));
  if (!root.is_object() || root.value("format", Json()) != kFormat) {
    return InvalidInput("no ranges file: expected a JSON object with \"format\": \"{}\"", kFormat);
  }
  if (root.value("version", Json()) != kVersion) {
    return Unsupported("ranges of version {}, expected {}", root.value("version", Json()).dump(),
                       kVersion);
  }
  const Json list = root.value("ranges", Json());
  if (!list.is_object())
    return InvalidInput("\"ranges\" is missing, expected an object of value: [min, max]");
  Ranges ranges;
  for (const auto& [name, pair] : list.items()) {
    const bool numbers =
        pair.is_array() && pair.size() == 2 && pair[0].is_number() && pair[1].is_number();
    const Range range = numbers ? Range{pair[0].get<float>(), pair[1].get<float>()} : Range{1, 0};
    if (!(range.min <= range.max) || !std::isfinite(range.min) || !std::isfinite(range.max)) {
      return InvalidInput("range of {} is {}, expected [min, max]", name,
                          pair.dump().substr(0, 60));
    }
    ranges[name] = range;
  }
  for (const ChannelField& field : kChannelFields) {
    EVOQ_TRY(ParseChannels(field, root.value(field.name, Json::object()), ranges));
  }
  EVOQ_TRY(ParseIntervals(root.value("intervals", Json::object()), ranges));
  return ranges;
}

std::string Key(const std::string& name) {
  return Json(name).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

// One line per value, floats in their shortest form that reads back equal: written by hand, so that
// files diff well.
Status SaveRanges(const Ranges& ranges, const CalibrationOptions& options, const std::string& path,
                  int samples) {
  std::string text = fmt::format(
      "{{\n  \"format\": \"{}\",\n  \"version\": {},\n  \"evoq\": \"{}\",\n  \"observer\": "
      "\"{}\",\n",
      kFormat, kVersion, EVOQ_VERSION, ObserverOf(options).name);
  if (ObserverOf(options).takes_percentile)
    text += fmt::format("  \"percentile\": {},\n", options.percentile);
  if (ObserverOf(options).histogram != HistogramKind::kNone)
    text += fmt::format("  \"bins\": {},\n", options.bins);
  text += fmt::format("  \"samples\": {},\n  \"ranges\": {{", samples);
  const char* separator = "\n";
  for (const auto& [name, range] : ranges) {
    text += fmt::format("{}    {}: [{}, {}]", separator, Key(name), range.min, range.max);
    separator = ",\n";
  }
  const char* open = "\n  },\n  \"intervals\": {\n";
  for (const auto& [name, range] : ranges) {
    if (range.min_error < 0 || range.max_error < 0) continue;
    text += fmt::format("{}    {}: [{}, {}]", open, Key(name), range.min_error, range.max_error);
    open = ",\n";
  }
  for (const ChannelField& field : kChannelFields) {
    text += fmt::format("\n  }},\n  \"{}\": {{", field.name);
    separator = "\n";
    for (const auto& [name, range] : ranges) {
      if ((range.*field.list).empty()) continue;
      text +=
          fmt::format("{}    {}: [{}]", separator, Key(name), fmt::join(range.*field.list, ", "));
      separator = ",\n";
    }
  }
  return WriteFileAtomic(path, text + "\n  }\n}\n");
}

Result<Ranges> LoadRanges(const std::string& path) {
  EVOQ_ASSIGN(const std::string text, ReadTextFile(path));
  return WithContext(Parse(text), path);
}

}  // namespace evoq
