#include "quant/suspect.h"

#include <algorithm>
#include <map>

#include "ops/op.h"
#include "passes/match.h"

namespace evoq {
namespace {

// Integers of more than 8 bits are indices, lengths and masks, which may well be constant.
bool HoldsNumbers(DType dtype) {
  return IsFloat(dtype) || dtype == DType::kUint8 || dtype == DType::kInt8;
}

std::string FirstNames(const std::vector<std::string>& names) {
  constexpr size_t kShown = 3;
  const std::span<const std::string> first(names.data(), std::min(names.size(), kShown));
  return fmt::format("{}{}", fmt::join(first, ", "), names.size() > kShown ? ", ..." : "");
}

// The elements of one of `batch` samples.
std::pair<int64_t, int64_t> PartOf(const Tensor& tensor, int64_t sample, int64_t batch) {
  const int64_t size = tensor.elements() / batch;
  return {sample * size, (sample + 1) * size};
}

}  // namespace

uint64_t SampleHash(std::span<const Tensor> inputs, int64_t sample, int64_t batch) {
  uint64_t hash = 0;
  const auto mix = [&hash](uint64_t part) {
    hash = (hash ^ part) * 0x9E3779B97F4A7C15ull + (hash >> 29);
  };
  const auto mix_text = [&](std::string_view text) { mix(std::hash<std::string_view>()(text)); };
  for (const Tensor& t : inputs) {
    mix(static_cast<uint64_t>(t.dtype()));
    const auto [begin, end] = PartOf(t, sample, batch);
    std::vector<int64_t> sizes = t.sizes();
    if (batch > 1) sizes[0] /= batch;
    for (int64_t size : sizes) mix(static_cast<uint64_t>(size));
    if (t.dtype() == DType::kString) {
      for (int64_t i = begin; i < end; ++i) mix_text(t.values<std::string>()[i]);
    } else {
      const size_t bytes = t.bytes() / static_cast<size_t>(batch);
      mix_text(
          {reinterpret_cast<const char*>(t.raw()) + static_cast<size_t>(sample) * bytes, bytes});
    }
  }
  return hash;
}

void SeenInput::Append(const SeenInput& next) {
  watched = watched && next.watched;
  flat = flat && next.flat;
  if (next.elements == 0) return;
  min = elements == 0 ? next.min : std::min(min, next.min);
  max = elements == 0 ? next.max : std::max(max, next.max);
  elements += next.elements;
}

SampleCheck::SampleCheck(const Graph& graph) {
  for (ValueId id : graph.inputs())
    inputs_.push_back({graph.value(id).name, HoldsNumbers(graph.value(id).type.dtype)});
}

void SampleCheck::Add(std::span<const Tensor> inputs, int64_t batch) {
  samples_ += static_cast<int>(batch);
  for (int64_t sample = 0; sample < batch; ++sample)
    seen_.insert(SampleHash(inputs, sample, batch));
  for (size_t i = 0; i < inputs.size() && i < inputs_.size(); ++i) {
    SeenInput& input = inputs_[i];
    if (!input.watched || inputs[i].elements() == 0) continue;
    const Result<Tensor> real = ToFloat32(inputs[i]);
    if (!real) {
      input.watched = false;
      continue;
    }
    for (int64_t sample = 0; sample < batch; ++sample) {
      const auto [begin, end] = PartOf(*real, sample, batch);
      const auto values = real->values<float>().subspan(begin, end - begin);
      const auto [low, high] = std::minmax_element(values.begin(), values.end());
      input.min = input.elements == 0 ? *low : std::min<double>(input.min, *low);
      input.max = input.elements == 0 ? *high : std::max<double>(input.max, *high);
      input.flat = input.flat && *low == *high && values.size() > 1;
      input.elements += static_cast<int64_t>(values.size());
    }
  }
}

std::vector<std::string> SampleCheck::Warnings() const {
  constexpr const char* kVaried =
      "a range is only what the samples show, what lies outside is cut off; calibrate on data as "
      "varied as the model will see (100 samples are usual)";
  constexpr const char* kFlat =
      "data that was not read, or a wrong scale in the preprocessing, looks like this; look at the "
      "samples";
  std::vector<std::string> warnings;
  const size_t different = seen_.size();
  if (samples_ == 1) {
    warnings.push_back(fmt::format("calibration: there is only one sample: {}", kVaried));
  } else if (different == 1) {
    warnings.push_back(
        fmt::format("calibration: all {} samples are identical: {}", samples_, kVaried));
  } else if (2 * different <= static_cast<size_t>(samples_)) {
    warnings.push_back(fmt::format("calibration: of {} samples only {} are different: {}", samples_,
                                   different, kVaried));
  }
  for (const SeenInput& input : inputs_) {
    if (!input.watched || input.elements < 2) continue;
    if (input.min == input.max) {
      warnings.push_back(fmt::format("calibration: input {} is {:g} everywhere in every sample: {}",
                                     input.name, input.min, kFlat));
    } else if (input.flat) {
      warnings.push_back(fmt::format(
          "calibration: each sample of input {} is one value repeated: {}", input.name, kFlat));
    }
  }
  return warnings;
}

std::vector<std::string> LoneSampleWarnings(
    std::span<const std::pair<std::string, LoneSample>> seen, const Ranges& ranges,
    int64_t samples) {
  constexpr int64_t kFewest = 8;  // of fewer, each may well stand alone
  constexpr float kTimes = 10;
  std::map<int64_t, std::vector<const std::pair<std::string, LoneSample>*>> found;  // by sample
  for (const auto& one : seen) {
    const auto& [name, lone] = one;
    const auto range = ranges.find(name);
    if (samples < kFewest || lone.others <= 0 || lone.largest < kTimes * lone.others ||
        range == ranges.end())
      continue;
    // Observers on which one sample weighs little, or that cut it off, have dealt with it.
    if (4 * std::max(-range->second.min, range->second.max) > lone.largest)
      found[lone.sample].push_back(&one);
  }
  std::vector<std::string> warnings;
  for (const auto& [sample, values] : found) {
    const auto& [name, lone] = *values.front();
    const std::string more =
        values.size() > 1 ? fmt::format(" and of {} more", values.size() - 1) : "";
    warnings.push_back(fmt::format(
        "calibration: sample {} (from 0, of {}) alone sets the range of {}{}: {:g}, where all "
        "others stay within {:.3g} and get few of the steps; leave that sample out, or choose "
        "--observer moving-average or average, on which one sample weighs little",
        sample, samples, name, more, lone.largest, lone.others));
  }
  return warnings;
}

namespace {

// By value: whether it depends on what the graph's inputs hold, and not on their sizes alone, as
// the state does that a recurrent layer begins with.
std::vector<bool> DependsOnData(const Graph& graph) {
  std::vector<bool> depends(static_cast<size_t>(graph.value_count()), false);
  for (const ValueId id : graph.inputs()) depends[static_cast<size_t>(id.index)] = true;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (GivesSizes(node)) continue;
    const bool any = std::ranges::any_of(node.inputs, [&](ValueId input) {
      return input.valid() && depends[static_cast<size_t>(input.index)];
    });
    for (const ValueId output : node.outputs) {
      if (output.valid()) depends[static_cast<size_t>(output.index)] = any;
    }
  }
  return depends;
}

}  // namespace

std::vector<std::string> RangeWarnings(const Graph& graph, const Ranges& ranges) {
  const std::vector<bool> depends = DependsOnData(graph);
  std::vector<std::string> dead, constant;
  int activations = 0;
  for (const auto& [name, range] : ranges) {
    const ValueId id = graph.FindValue(name);
    if (!id.valid() || graph.IsInput(id) || !depends[static_cast<size_t>(id.index)] ||
        graph.value(id).type.shape.elements().value_or(2) <= 1)
      continue;
    ++activations;
    if (range.min != range.max) continue;
    (range.min == 0 ? dead : constant).push_back(name);
  }
  std::vector<std::string> warnings;
  const auto tell = [&](const std::vector<std::string>& names, const char* found,
                        const char* costs) {
    if (names.empty()) return;
    warnings.push_back(
        fmt::format("calibration: {} of {} activations {} in all samples ({}): {}; if the model's "
                    "own data differs there, calibrate "
                    "on such data, or keep their operators in float32 with --exclude",
                    names.size(), activations, found, FirstNames(names), costs));
  };
  tell(dead, "are dead, 0",
       "a range of width 0 has scale 1, and everything else is rounded to whole numbers");
  tell(constant, "have one value",
       "the range ends at that value, and what lies beyond it is cut off");
  return warnings;
}

std::vector<std::string> InfinityWarnings(const Graph& graph, std::vector<std::string> names) {
  std::erase_if(names, [&](const std::string& name) {
    const ValueId id = graph.FindValue(name);
    if (!id.valid()) return true;
    const Value& value = graph.value(id);
    const auto linear = [&](NodeId at) { return at.valid() && IsLinear(graph.node(at)); };
    return !linear(value.producer) && std::ranges::none_of(value.users, linear);
  });
  if (names.empty()) return {};
  return {
      fmt::format("calibration: {} activation{} infinities ({}): no range holds them, so that the "
                  "products that "
                  "read or write them stay in float32",
                  names.size(), names.size() == 1 ? " holds" : "s hold", FirstNames(names))};
}

}  // namespace evoq
