#include "workflow/scale_sets.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/file.h"
#include "base/printable.h"
#include "models/models.h"
#include "program/etm.h"
#include "quant/sample_groups.h"
#include "workflow/calibrate.h"
#include "workflow/models.h"

namespace evoq {
namespace {

// "4"; nothing for what is no number.
std::optional<int> NumberOf(const std::string& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<int> CountOf(const QuantizeJob& job) {
  return job.scale_sets.size() == 1 ? NumberOf(job.scale_sets[0]) : std::nullopt;
}

// "NAME=PATH" in two; nothing where a side is empty.
std::optional<std::pair<std::string, std::string>> Named(const std::string& set) {
  const size_t equals = set.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == set.size()) return std::nullopt;
  return std::pair(set.substr(0, equals), set.substr(equals + 1));
}

// One set: its name and its samples.
struct Group {
  std::string name;
  SamplesFn samples;
};

// Those of `all` that are in group `wanted`.
SamplesFn Those(const SamplesFn& all, std::shared_ptr<const std::vector<int>> groups, int wanted) {
  return [all, groups, wanted](const std::function<Status(std::span<const Tensor>)>& use) {
    size_t next = 0;
    return all([&](std::span<const Tensor> inputs) -> Status {
      return groups->at(next++) == wanted ? use(inputs) : Status();
    });
  };
}

// Of sets that are given by name. Refers to `follow`.
Result<std::vector<Group>> NamedGroups(const QuantizeJob& job, const Graph& graph,
                                       const InputShapes& shapes, const Follow& follow) {
  std::vector<Group> groups;
  for (const std::string& set : job.scale_sets) {
    const auto named = Named(set);
    QuantizeJob of_set = job;
    of_set.scale_sets = {};
    of_set.calib = {named->second};
    EVOQ_ASSIGN(JobSamples samples,
                WithContext(SamplesFor(of_set, graph, shapes, follow, "--scale-sets"),
                            "scale set " + named->first));
    groups.push_back({named->first, std::move(samples.each)});
  }
  return groups;
}

Result<std::vector<Group>> GroupsOf(const QuantizeJob& job, const Graph& graph,
                                    const SetInputs& inputs, const Follow& follow) {
  const std::optional<int> count = CountOf(job);
  if (!count) return NamedGroups(job, graph, inputs.shapes, follow);
  EVOQ_ASSIGN(std::vector<int> found,
              WithContext(GroupSamples(graph, inputs.ranges, inputs.data, *count),
                          fmt::format("--scale-sets {}", *count)));
  const auto group_of = std::make_shared<const std::vector<int>>(std::move(found));
  std::vector<Group> groups;
  for (int g = 0; g < *count; ++g)
    groups.push_back({fmt::format("set{}", g + 1), Those(inputs.data.samples, group_of, g)});
  return groups;
}

// The methods that run before the scheme does: its own ones by their names.
Result<MethodChoice> MethodsOf(const SetInputs& inputs) {
  if (inputs.methods) return inputs.methods;
  std::string names;
  if (inputs.options.equalize && inputs.options.per_channel) names = "equalize";
  if (inputs.options.correct_bias) names += names.empty() ? "bias-correction" : ",bias-correction";
  return ParseMethods(names.empty() ? "none" : names);
}

}  // namespace

bool HasScaleSets(const QuantizeJob& job) { return !job.scale_sets.empty(); }

Status CheckScaleSets(const QuantizeJob& job) {
  if (!HasScaleSets(job)) return {};
  const auto refuse = [](const std::string& why) {
    return Fail(ErrorCode::kUsage, "--scale-sets: {}", why);
  };
  const QuantScheme* scheme = FindScheme(job.scheme);
  if (scheme == nullptr || !scheme->needs_calibration)
    return refuse(fmt::format("--scheme {} has no calibrated ranges, int8 has", job.scheme));
  if (scheme->values == DType::kFloat32)
    return refuse(
        fmt::format("--scheme {} gives float32 to its layers, int8 gives integers by scales "
                    "that change",
                    job.scheme));
  if (LowerExtension(job.output) == ".onnx")
    return refuse(fmt::format("{}: only an .etm holds them", job.output));
  if (job.certified()) return refuse("a certificate is of one set");
  if (!job.ranges_in.empty() || !job.encodings.empty() || !job.calib_cache.empty() ||
      !job.encodings_out.empty() || !job.calib_cache_out.empty())
    return refuse("ranges and encodings in files are of one set: sets are calibrated");
  if (job.scale_sets.size() == 1) {
    const std::optional<int> count = NumberOf(job.scale_sets[0]);
    if (!count || *count < 2 || *count > static_cast<int>(kMaxScaleSets))
      return refuse(fmt::format("{}, expected a number from 2 to {}, or NAME=PATH for each set",
                                job.scale_sets[0], kMaxScaleSets));
    return {};
  }
  if (job.scale_sets.size() > kMaxScaleSets)
    return refuse(
        fmt::format("{} sets, expected at most {}", job.scale_sets.size(), kMaxScaleSets));
  std::set<std::string> names;
  for (const std::string& set : job.scale_sets) {
    const auto named = Named(set);
    if (!named || named->first.find('/') != std::string::npos)
      return refuse(fmt::format("{}, expected NAME=PATH", set));
    if (!names.insert(named->first).second)
      return refuse(fmt::format("two sets are named {}", named->first));
  }
  if (!job.calib.empty() || !job.samples.empty() || job.calib_random > 0)
    return refuse("sets with data of their own leave no use for other calibration data");
  return {};
}

std::vector<std::string> DataOfSets(const QuantizeJob& job) {
  std::vector<std::string> paths;
  if (CountOf(job)) return paths;
  for (const std::string& set : job.scale_sets) paths.push_back(Named(set)->second);
  return paths;
}

Result<std::vector<QuantizedSet>> SetsOf(const Model& model, const std::string& path) {
  std::vector<QuantizedSet> sets;
  if (model.sets.empty()) return sets;
  for (const ScaleSet& set : model.sets) sets.push_back({set.name, set.samples, 0});
  EVOQ_ASSIGN(const std::vector<EtmSection> sections, EtmSections(path));
  for (const EtmSection& section : sections) {
    if (section.category != "scale sets") continue;
    const std::string rest = section.name.substr(section.name.find('/') + 1);
    const auto set = std::ranges::find(sets, rest.substr(0, rest.find('/')), &QuantizedSet::name);
    if (set != sets.end()) set->bytes += section.bytes;
  }
  return sets;
}

Told Tell(const std::vector<QuantizedSet>& sets) {
  Told told;
  told.json = nlohmann::json::array();
  for (const QuantizedSet& set : sets) {
    told.json.push_back({{"name", set.name}, {"samples", set.samples}, {"bytes", set.bytes}});
    told.text += FormatPrintable("  scale set {}: {} samples, {} bytes of its own\n", set.name,
                                 set.samples, set.bytes);
  }
  return told;
}

Result<ModelOfSets> QuantizeScaleSets(const QuantizeJob& job, Graph graph, const SetInputs& inputs,
                                      const std::function<void(Graph&)>& note,
                                      const Follow& follow) {
  EVOQ_ASSIGN(const std::vector<Group> groups, GroupsOf(job, graph, inputs, follow));
  EVOQ_ASSIGN(const MethodChoice methods, MethodsOf(inputs));
  EVOQ_ASSIGN(const PreparedQuantization prepared,
              PreparedQuantization::Of(*FindScheme(job.scheme), methods, std::move(graph),
                                       inputs.ranges, inputs.options, inputs.data));
  std::vector<Ranges> ranges;
  std::vector<MethodData> data;
  std::vector<CalibrationNotes> notes(groups.size());
  for (size_t g = 0; g < groups.size(); ++g) {
    data.push_back({inputs.data.prepare, groups[g].samples, inputs.data.calibration});
    EVOQ_ASSIGN(Ranges of_group,
                WithContext(Calibrate(prepared.graph(), data[g].prepare, data[g].samples,
                                      data[g].calibration, &notes[g]),
                            "scale set " + groups[g].name));
    ranges.push_back(std::move(of_group));
  }
  EVOQ_TRY(follow.At("quantizing", 0));
  EVOQ_ASSIGN(std::vector<PreparedQuantization::Quantized> quantized,
              prepared.QuantizeEach(ranges, data));
  EVOQ_TRY(follow.At("compiling", 0));
  ModelOfSets made;
  for (size_t g = 0; g < groups.size(); ++g) {
    note(quantized[g].graph);
    EVOQ_ASSIGN(Model model, LowerAndPack(std::move(quantized[g].graph), inputs.shapes));
    if (g == 0) {
      made.report = std::move(quantized[g].report);
      made.model = std::move(model);
    }
    const Graph& of_set = g == 0 ? made.model.graph : model.graph;
    EVOQ_ASSIGN(ScaleSet set,
                ScaleSetBetween(made.model.graph, of_set, groups[g].name, notes[g].samples));
    made.model.sets.push_back(std::move(set));
  }
  if (made.model.plans.empty())
    return Unsupported(
        "scale sets change in a model that is one Program: this one runs in dynamic partitions, or "
        "its sizes are free (--shape, --fix-shape)");
  return made;
}

}  // namespace evoq
