#include "train/lora.h"

#include <charconv>
#include <cmath>

#include "base/text.h"
#include "base/xorshift.h"
#include "ops/roles.h"

namespace evoq {
namespace {

constexpr uint64_t kAdapterSeed = 0x10ada;

// A number that is all of the text.
template <typename T>
bool ReadNumber(std::string_view text, T& number) {
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  return read.ec == std::errc() && read.ptr == text.data() + text.size();
}

Status ReadPart(std::string_view part, const std::string& text, LoraSettings& settings) {
  const size_t equals = part.find('=');
  const std::string_view name = part.substr(0, equals),
                         value = equals == part.npos ? "" : part.substr(equals + 1);
  constexpr int64_t kMostRank = 4096;
  if (name == "merge" && equals == part.npos) {
    settings.merge = true;
  } else if (name == "rank") {
    if (!ReadNumber(value, settings.rank) || settings.rank < 1 || settings.rank > kMostRank)
      return Fail(ErrorCode::kUsage, "--lora {}: rank is {}, expected a number from 1 to {}", text,
                  value, kMostRank);
  } else if (name == "alpha") {
    if (!ReadNumber(value, settings.alpha) || !(settings.alpha > 0 && settings.alpha <= 1e6))
      return Fail(ErrorCode::kUsage, "--lora {}: alpha is {}, expected a number above 0", text,
                  value);
  } else if (name == "target" && !value.empty()) {
    settings.targets.emplace_back(value);
  } else {
    return Fail(ErrorCode::kUsage,
                "--lora {}: found \"{}\", expected rank=N, alpha=NUMBER, target=PATTERN or merge",
                text, part);
  }
  return {};
}

// The product whose result is the model's, perhaps bent: the head of a language model.
bool IsHead(const Graph& graph, const AdapterPlace& place) {
  ValueId y = graph.node(place.node).outputs[0];
  for (int depth = 0; depth < 4; ++depth) {
    if (graph.IsOutput(y)) return true;
    const NodeId next = graph.OnlyUser(y);
    if (!next.valid() || IsWeighted(graph.node(next)) || graph.node(next).outputs.size() != 1)
      return false;
    y = graph.node(next).outputs[0];
  }
  return false;
}

Tensor Uniform(const Shape& shape, double most, uint64_t seed) {
  Tensor t = Tensor::Allocate(TensorType(DType::kFloat32, shape));
  XorShift random(seed);
  for (int64_t i = 0; i < t.elements(); ++i) {
    const double share = static_cast<double>(random.Next() >> 11) * 0x1p-53;
    t.mutable_data<float>()[i] = static_cast<float>((2 * share - 1) * most);
  }
  return t;
}

}  // namespace

Result<LoraSettings> ParseLora(const std::string& text) {
  LoraSettings settings;
  std::string_view rest = text;
  bool alpha = false;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    alpha |= part.starts_with("alpha=");
    EVOQ_TRY(ReadPart(part, text, settings));
    rest = comma == rest.npos ? "" : rest.substr(comma + 1);
  }
  if (!alpha) settings.alpha = 2 * static_cast<double>(settings.rank);
  return settings;
}

Result<int> BeginAdapters(Graph& graph, const LoraSettings& settings, uint64_t seed) {
  LoraAdapters adapters{.rank = settings.rank,
                        .scale = settings.alpha / static_cast<double>(settings.rank)};
  std::vector<bool> used(settings.targets.size());
  for (const AdapterPlace& place : AdapterPlaces(graph)) {
    bool wanted = settings.targets.empty() && !IsHead(graph, place);
    for (size_t i = 0; i < used.size(); ++i) {
      const std::string& pattern = settings.targets[i];
      if (!GlobMatch(pattern, place.module) && !GlobMatch(pattern, graph.node(place.node).name))
        continue;
      wanted = used[i] = true;
    }
    if (!wanted) continue;
    const double most = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(place.inputs, 1)));
    const uint64_t number = adapters.adapters.size();
    adapters.adapters.push_back(
        {place.module,
         Uniform(Shape{settings.rank, place.inputs}, most, SeedOf(seed, kAdapterSeed, number)),
         Tensor::Allocate(TensorType(DType::kFloat32, Shape{place.outputs, settings.rank}))});
  }
  for (size_t i = 0; i < used.size(); ++i) {
    if (!used[i])
      return Fail(ErrorCode::kUsage,
                  "--lora target={}: no product with a constant matrix has such "
                  "a name",
                  settings.targets[i]);
  }
  if (adapters.adapters.empty())
    return Unsupported("--lora: the model has no product with a constant matrix");
  EVOQ_TRY(AddAdapters(graph, adapters));
  return static_cast<int>(adapters.adapters.size());
}

std::vector<std::string> AdapterPatterns() { return {"*.lora_A", "*.lora_B"}; }

}  // namespace evoq
