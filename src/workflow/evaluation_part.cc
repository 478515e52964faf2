#include "workflow/evaluation_part.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/file.h"
#include "base/json_file.h"

namespace evoq {
namespace {

using nlohmann::json;
constexpr char kFormat[] = "evoq-evaluation";
constexpr int kVersion = 1;

constexpr const char* kJudged[] = {"real", "elements", "size"};

// JSON has no infinity: null is one.
json NumberOf(double x) { return std::isfinite(x) ? json(x) : json(); }

bool IsWhole(const json& value, int64_t low, int64_t high) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX) return false;
  return value.get<int64_t>() >= low && value.get<int64_t>() <= high;
}

bool IsEnergy(const json& value) {
  return value.is_null() || (value.is_number() && value.get<double>() >= 0);
}

double EnergyFrom(const json& value) { return value.is_null() ? INFINITY : value.get<double>(); }

// [elements, squared, absolute, sum, squares] for each output; null is an infinity.
bool AreDeviations(const json& given, size_t outputs) {
  if (given.is_null()) return outputs == 0;
  return given.is_array() && given.size() == outputs &&
         std::ranges::all_of(given, [](const json& d) {
           return d.is_array() && d.size() == 5 && IsWhole(d[0], 0, int64_t{1} << 40) &&
                  IsEnergy(d[1]) && IsEnergy(d[2]) && (d[3].is_null() || d[3].is_number()) &&
                  IsEnergy(d[4]);
         });
}

const json& FieldOf(const json& given, const char* key) {
  static const json none;
  const auto at = given.is_object() ? given.find(key) : given.end();
  return given.is_object() && at != given.end() ? *at : none;
}

std::optional<EvaluatedRow> ParseRow(const json& given) {
  const json &name = FieldOf(given, "name"), &index = FieldOf(given, "class"),
             &rank = FieldOf(given, "rank"), &agrees = FieldOf(given, "agrees");
  const bool fits = name.is_string() && IsWhole(index, -1, INT64_MAX) &&
                    (rank.is_null() || IsWhole(rank, 0, INT64_MAX)) && agrees.is_boolean();
  if (!fits) return std::nullopt;
  EvaluatedRow row{.name = name.get<std::string>(), .class_index = index.get<int64_t>()};
  if (!rank.is_null()) row.rank = rank.get<int64_t>();
  row.agrees = agrees.get<bool>();
  return row;
}

Result<EvaluatedSample> ParseSample(const json& given, const EvaluationPart& part) {
  const json &energies = FieldOf(given, "energies"), &rows = FieldOf(given, "rows"),
             &deviations = FieldOf(given, "deviations");
  const size_t outputs = part.has_reference ? part.outputs.size() : 0;
  bool fits =
      AreDeviations(deviations, part.has_targets ? part.outputs.size() : 0) &&
      energies.is_array() && energies.size() == outputs &&
      (rows.is_null() || (rows.is_array() && !rows.empty())) &&
      std::ranges::all_of(energies, [](const json& pair) {
        return pair.is_array() && pair.size() == 2 && IsEnergy(pair[0]) && IsEnergy(pair[1]);
      });
  EvaluatedSample sample;
  for (const json& row : rows.is_null() ? json::array({given}) : rows) {
    const auto parsed = fits ? ParseRow(row) : std::nullopt;
    fits = parsed.has_value();
    if (fits) sample.rows.push_back(*parsed);
  }
  if (!fits)
    return InvalidInput(
        "a sample is {}, expected name, class, rank, agrees, {} energies and {} deviations",
        given.dump(-1, ' ', true, json::error_handler_t::replace).substr(0, 120), outputs,
        part.has_targets ? part.outputs.size() : 0);
  for (const json& pair : energies)
    sample.energies.push_back({EnergyFrom(pair[0]), EnergyFrom(pair[1])});
  for (const json& d : deviations.is_null() ? json::array() : deviations)
    sample.deviations.push_back({d[0].get<int64_t>(), EnergyFrom(d[1]), EnergyFrom(d[2]),
                                 EnergyFrom(d[3]), EnergyFrom(d[4])});
  return sample;
}

json ToJson(const EvaluatedRow& row) {
  return {{"name", row.name},
          {"class", row.class_index},
          {"rank", row.rank ? json(*row.rank) : json()},
          {"agrees", row.agrees}};
}

// A sample of one row is that row.
json ToJson(const EvaluatedSample& sample) {
  json out;
  if (sample.rows.size() == 1) {
    out = ToJson(sample.rows[0]);
  } else {
    for (const EvaluatedRow& row : sample.rows) out["rows"].push_back(ToJson(row));
  }
  out["energies"] = json::array();
  for (const Energy& e : sample.energies)
    out["energies"].push_back({NumberOf(e.signal), NumberOf(e.noise)});
  for (const Deviation& d : sample.deviations)
    out["deviations"].push_back({d.elements, NumberOf(d.squared), NumberOf(d.absolute),
                                 NumberOf(d.sum), NumberOf(d.squares)});
  return out;
}

Result<EvaluationPart> Parse(const json& given) {
  if (!given.is_object() || given.value("format", json()) != kFormat)
    return InvalidInput("no part of an evaluation: expected a JSON object with \"format\": \"{}\"",
                        kFormat);
  if (given.value("version", json()) != kVersion)
    return Unsupported("an evaluation of version {}, expected {}",
                       JsonBriefly(given.value("version", json())), kVersion);
  const auto field = [&](const char* key) { return given.value(key, json()); };
  EvaluationPart part;
  const json parts = field("parts"), index = field("part"), size = field("size");
  if (!IsWhole(parts, 1, PartNumber::kMost) || !IsWhole(index, 1, parts.get<int64_t>()))
    return InvalidInput("\"part\" is {} of \"parts\" {}, expected whole numbers",
                        JsonBriefly(index), JsonBriefly(parts));
  part.part = {index.get<int64_t>(), parts.get<int64_t>()};
  if (!IsWhole(size, 0, int64_t{1} << 40))
    return InvalidInput("\"size\" is {}, expected a whole number", JsonBriefly(size));
  part.size = size.get<int64_t>();
  if (!field("ms").is_number()) return InvalidInput("\"ms\" is no number");
  part.ms = field("ms").get<double>();
  if (!field("has_reference").is_boolean())
    return InvalidInput("\"has_reference\" is neither true nor false");
  part.has_reference = field("has_reference").get<bool>();
  part.has_targets = field("has_targets") == json(true);
  const json outputs = field("outputs");
  const auto is_text = [](const json& name) { return name.is_string(); };
  if (!outputs.is_array() || outputs.empty() || !std::ranges::all_of(outputs, is_text))
    return InvalidInput("\"outputs\" is no list of names");
  part.outputs = outputs.get<std::vector<std::string>>();
  for (const json& name : JsonArray(given, "judged")) {
    const auto at = std::ranges::find(kJudged, name.is_string() ? name.get<std::string>() : "");
    if (at == std::end(kJudged)) return InvalidInput("\"judged\" holds {}", JsonBriefly(name));
    part.judged.push_back(static_cast<Judged>(at - std::begin(kJudged)));
  }
  if (!part.judged.empty() && part.judged.size() != part.outputs.size())
    return InvalidInput("\"judged\" has {} names for {} outputs", part.judged.size(),
                        part.outputs.size());
  part.class_scores = field("class_scores") != json(false);
  const json& samples = JsonArray(given, "samples");
  const int64_t expected = part.part.last(part.size) - part.part.first(part.size);
  if (static_cast<int64_t>(samples.size()) != expected)
    return InvalidInput("{} samples, expected {} as part {} of {} of {}", samples.size(), expected,
                        part.part.index, part.part.count, part.size);
  for (const json& sample : samples) {
    EVOQ_ASSIGN(EvaluatedSample parsed, ParseSample(sample, part));
    part.samples.push_back(std::move(parsed));
  }
  return part;
}

}  // namespace

const char* JudgedName(Judged judged) { return kJudged[static_cast<int>(judged)]; }

Status SaveEvaluation(const EvaluationPart& part, const std::string& path) {
  json judged = json::array();
  for (const Judged how : part.judged) judged.push_back(JudgedName(how));
  json samples = json::array();
  for (const EvaluatedSample& sample : part.samples) samples.push_back(ToJson(sample));
  const json file = {{"format", kFormat},
                     {"version", kVersion},
                     {"part", part.part.index},
                     {"parts", part.part.count},
                     {"size", part.size},
                     {"outputs", part.outputs},
                     {"judged", std::move(judged)},
                     {"class_scores", part.class_scores},
                     {"has_reference", part.has_reference},
                     {"has_targets", part.has_targets},
                     {"ms", part.ms},
                     {"samples", std::move(samples)}};
  return WriteFileAtomic(path, file.dump(-1, ' ', false, json::error_handler_t::replace) + "\n");
}

Result<EvaluationPart> MergeEvaluations(const std::vector<std::string>& paths) {
  if (paths.empty()) return InvalidInput("no part of an evaluation was given");
  std::vector<std::optional<EvaluationPart>> parts;
  for (const std::string& path : paths) {
    EVOQ_ASSIGN(const json given, ReadJsonFile(path));
    EVOQ_ASSIGN(EvaluationPart part, WithContext(Parse(given), path));
    if (parts.empty()) parts.resize(static_cast<size_t>(part.part.count));
    const auto count = static_cast<int64_t>(parts.size());
    if (part.part.count != count)
      return InvalidInput("{} is part {} of {}, expected parts of {} as {}", path, part.part.index,
                          part.part.count, count, paths[0]);
    std::optional<EvaluationPart>& place = parts[static_cast<size_t>(part.part.index) - 1];
    if (place)
      return InvalidInput("{} is part {} of {}, which is there already", path, part.part.index,
                          count);
    place = std::move(part);
  }
  EvaluationPart whole;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i])
      return InvalidInput("part {} of {} is missing beside {}", i + 1, parts.size(), paths[0]);
    EvaluationPart& part = *parts[i];
    if (i == 0) {
      whole = std::move(part);
      whole.part = {};
      continue;
    }
    if (part.outputs != whole.outputs || part.has_reference != whole.has_reference ||
        part.has_targets != whole.has_targets || part.size != whole.size)
      return InvalidInput(
          "parts 1 and {} are of different evaluations: other outputs, another "
          "reference or another number of samples",
          i + 1);
    whole.ms += part.ms;
    whole.samples.insert(whole.samples.end(), std::make_move_iterator(part.samples.begin()),
                         std::make_move_iterator(part.samples.end()));
  }
  return whole;
}

}  // namespace evoq
