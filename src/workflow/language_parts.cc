#include "workflow/language_parts.h"

#include <algorithm>
#include <map>

#include "base/median.h"
#include "base/ms_text.h"
#include "base/printable.h"
#include "base/stopwatch.h"
#include "base/text.h"
#include "generate/model_tokenizer.h"
#include "llm/parts.h"
#include "ops/op.h"
#include "report/table.h"
#include "runtime/buffers.h"
#include "tokenizer/sampling.h"

namespace evoq {
namespace {

using nlohmann::json;

// The median of what `once` takes, in milliseconds.
Result<double> MedianMs(const std::function<Status(int64_t i)>& once) {
  constexpr int64_t kTimes = 31;
  std::vector<double> ms;
  for (int64_t i = 0; i < kTimes; ++i) {
    const Stopwatch watch;
    EVOQ_TRY(once(i));
    ms.push_back(watch.ms());
  }
  return Median(ms);
}

// The weights of a step that stay in float, if they are a matrix.
int64_t FloatWeightsOf(const Graph& graph, const Node& node) {
  const OpDef* const op = FindOp(node);
  if (op == nullptr || (op->linear == nullptr && op->alternatives < 0)) return 0;
  int64_t bytes = 0;
  for (const ValueId id : node.inputs) {
    if (!id.valid() || !graph.value(id).is_constant()) continue;
    const TensorType& type = graph.value(id).type;
    if (!type.quantized() && IsFloat(type.dtype) && type.shape.rank() >= 2)
      bytes += static_cast<int64_t>(graph.value(id).constant.bytes());
  }
  return bytes;
}

std::string GbpsText(int64_t bytes, double ms) {
  return bytes > 0 && ms > 0 ? fmt::format("{:.1f}", static_cast<double>(bytes) / ms / 1e6) : "";
}

std::string GopsText(int64_t macs, double ms) {
  return macs > 0 && ms > 0 ? fmt::format("{:.0f}", 2 * static_cast<double>(macs) / ms / 1e6) : "";
}

json BytesJson(const std::vector<PartBytes>& bytes) {
  json out = json::array();
  for (const PartBytes& b : bytes)
    out.push_back(
        {{"part", b.part}, {"weights", b.weights}, {"scales", b.scales}, {"rest", b.rest}});
  return out;
}

std::string BytesText(const std::vector<PartBytes>& bytes) {
  TextTable table({"of the file", ">weights", ">scales", ">zero points, padding"});
  for (const PartBytes& b : bytes)
    table.Row(
        {b.part, std::to_string(b.weights), std::to_string(b.scales), std::to_string(b.rest)});
  return table.ToString();
}

std::string MatricesText(const std::vector<FloatMatrix>& matrices) {
  constexpr size_t kShown = 6;
  if (matrices.empty()) return "no matrix stayed in float\n";
  int64_t bytes = 0;
  for (const FloatMatrix& m : matrices) bytes += m.bytes;
  std::string text =
      fmt::format("{} matrices stayed in float, {}:\n", matrices.size(), HumanBytes(bytes));
  TextTable table({"step", "part", ">bytes", "why"});
  for (const FloatMatrix& m : std::span(matrices).first(std::min(matrices.size(), kShown)))
    table.Row({m.step, m.part, std::to_string(m.bytes),
               m.why.empty() ? "the model was not quantized: --scheme int4-dynamic makes it smaller"
                             : m.why.ToString()});
  text += table.ToString();
  if (matrices.size() > kShown) text += fmt::format("... {} more\n", matrices.size() - kShown);
  return text;
}

}  // namespace

Result<HostTimes> MeasureHost(const Graph& graph, int64_t vocabulary) {
  HostTimes times;
  Tensor logits =
      Tensor::Allocate(TensorType(DType::kFloat32, Shape{std::max<int64_t>(vocabulary, 1)}));
  FillForSpeed(logits, 1);
  EVOQ_ASSIGN(Sampler sampler, Sampler::Make({}));
  EVOQ_ASSIGN(times.choose_ms, MedianMs([&](int64_t) -> Status {
                EVOQ_TRY(sampler.Next(logits.values<float>()));
                return {};
              }));
  EVOQ_ASSIGN(const ModelTokenizer text, TokenizerOf(graph));
  times.tokenizer = text.tokenizer.has_value();
  if (!times.tokenizer) return times;
  StreamDecoder decoder(*text.tokenizer);
  const int64_t pieces = std::max<int64_t>(text.tokenizer->size(), 1);
  EVOQ_ASSIGN(times.text_ms, MedianMs([&](int64_t i) -> Status {
                EVOQ_TRY(decoder.Next(i * 7919 % pieces));
                return {};
              }));
  return times;
}

LanguageParts PartsOf(const ChosenPhase& phase, const Program& program, const StepProfile& profile,
                      const Limits& limits) {
  LanguageParts out;
  out.def = phase.def;
  out.phase = phase.phase;
  out.total_ms = profile.total_ms;
  // Reading the clock between steps is no part of a run.
  out.outside_ms = std::min(profile.host_ms, profile.total_ms);
  const double scale =
      profile.steps_ms > 0 ? (out.total_ms - out.outside_ms) / profile.steps_ms : 0;
  out.steps = static_cast<int>(program.steps.size());
  std::map<std::string_view, PartTime> by_part;
  for (size_t s = 0; s < program.steps.size() && s < profile.steps.size(); ++s) {
    const Node& node = program.graph->node(program.steps[s].node);
    const std::string_view part = PartOf(node);
    PartTime& time = by_part[part];
    time.ms += profile.steps[s].ms * scale;
    ++time.steps;
    if (const int64_t bytes = FloatWeightsOf(*program.graph, node); bytes > 0)
      out.float_matrices.push_back(
          {node.name, std::string(part), bytes, program.steps[s].decision.float_reason});
  }
  std::ranges::stable_sort(out.float_matrices, std::ranges::greater(), &FloatMatrix::bytes);
  for (const PartWork& w : WorkOf(program, phase.phase)) by_part[w.part].work = w.work;
  for (const char* const part : ModelParts()) {
    const auto found = by_part.find(part);
    if (found == by_part.end()) continue;
    found->second.part = part;
    found->second.limits = LimitsOf(found->second.work, limits);
    out.times.push_back(std::move(found->second));
  }
  return out;
}

void SetBaseline(const LanguageParts& baseline, LanguageParts& parts) {
  parts.baseline_ms = baseline.total_ms;
  for (PartTime& t : parts.times) {
    const auto same = std::ranges::find(baseline.times, t.part, &PartTime::part);
    t.baseline_ms = same == baseline.times.end() ? 0 : same->ms;
  }
}

std::vector<PartBytes> BytesByPart(std::span<const EtmSection> sections, const Graph& graph) {
  constexpr std::string_view kWeights = "weights/";
  std::map<std::string, PartBytes> by_part;
  for (const EtmSection& section : sections) {
    if (!section.name.starts_with(kWeights)) continue;
    const ValueId id = graph.FindValue(section.name.substr(kWeights.size()));
    if (!id.valid() || !graph.value(id).is_constant()) continue;
    const TensorType& type = graph.value(id).type;
    if (!type.quantized() && !IsFloat(type.dtype)) continue;
    PartBytes& part = by_part[PartOf(graph, id)];
    int64_t& sum = section.category == "scales"             ? part.scales
                   : section.category.ends_with(" weights") ? part.weights
                                                            : part.rest;
    sum += section.bytes;
  }
  std::vector<PartBytes> out;
  for (auto& [name, part] : by_part) {
    part.part = name;
    out.push_back(part);
  }
  std::ranges::stable_sort(out, std::ranges::greater(),
                           [](const PartBytes& b) { return b.weights + b.scales + b.rest; });
  return out;
}

Told Tell(const LanguageParts& p) {
  Told told;
  const auto tokens = static_cast<double>(p.phase.sequences * p.phase.tokens);
  const double host_ms = p.host.choose_ms + p.host.text_ms;
  const double step_us = p.steps > 0 ? 1e3 * p.outside_ms / p.steps : 0;
  json& out = told.json;
  out = {{"phase", p.def->name},
         {"sequences", p.phase.sequences},
         {"context", p.phase.context},
         {"tokens", p.phase.tokens},
         {"total_ms", p.total_ms},
         {"tokens_per_s", 1e3 * tokens / p.total_ms},
         {"parts", json::array()},
         {"dispatch", {{"steps", p.steps}, {"ms", p.outside_ms}, {"us_per_step", step_us}}},
         {"host", {{"choose_ms", p.host.choose_ms}, {"text_ms", p.host.text_ms}}},
         {"float_matrices", json::array()}};
  told.text = fmt::format("{}: {} token{} of {} sequence{} behind {}: {} ms, {:.1f} tokens/s\n",
                          p.def->name, p.phase.tokens, p.phase.tokens == 1 ? "" : "s",
                          p.phase.sequences, p.phase.sequences == 1 ? "" : "s", p.phase.context,
                          MsText(p.total_ms), 1e3 * tokens / p.total_ms);
  const bool beside = p.baseline_ms > 0;
  if (beside) {
    out["baseline_ms"] = p.baseline_ms;
    told.text += fmt::format("the baseline takes {} ms: this model is {:.2f}x as fast\n",
                             MsText(p.baseline_ms), p.baseline_ms / p.total_ms);
  }
  // The baseline's column is there where one is.
  const auto row = [beside](std::vector<std::string> cells, std::string baseline) {
    if (beside) cells.insert(cells.begin() + 4, std::move(baseline));
    return cells;
  };
  TextTable table(row(
      {"part", ">steps", ">ms", ">share", ">bytes", ">GB/s", ">GOPS", ">of the limit", "bound by"},
      ">baseline ms"));
  Work all;
  for (const PartTime& t : p.times) {
    all.Add(t.work);
    const double share = t.ms > 0 ? t.limits.ms() / t.ms : 0;
    const bool bound = t.limits.ms() > 0;
    table.Row(row({t.part, std::to_string(t.steps), fmt::format("{:.4f}", t.ms),
                   fmt::format("{:.1f}%", 100 * t.ms / p.total_ms), std::to_string(t.work.bytes()),
                   GbpsText(t.work.bytes(), t.ms), GopsText(t.work.all_macs(), t.ms),
                   bound ? fmt::format("{:.0f}%", 100 * share) : "", bound ? t.limits.bound() : ""},
                  fmt::format("{:.4f}", t.baseline_ms)));
    out["parts"].push_back({{"part", t.part},
                            {"steps", t.steps},
                            {"ms", t.ms},
                            {"share", t.ms / p.total_ms},
                            {"weight_bytes", t.work.weight_bytes},
                            {"cache_bytes", t.work.cache_bytes},
                            {"macs", t.work.all_macs()},
                            {"limit_share", share},
                            {"bound", t.limits.bound()}});
    if (beside) out["parts"].back()["baseline_ms"] = t.baseline_ms;
  }
  table.Row(row({"outside steps", "", fmt::format("{:.4f}", p.outside_ms),
                 fmt::format("{:.1f}%", 100 * p.outside_ms / p.total_ms), "", "", "", "",
                 fmt::format("{:.2f} us a step", step_us)},
                ""));
  told.text += table.ToString();
  out["weight_bytes"] = all.weight_bytes;
  out["cache_bytes"] = all.cache_bytes;
  told.text +=
      fmt::format("a run reads {} of weights and {} of caches, which it extends in place\n",
                  HumanBytes(all.weight_bytes), HumanBytes(all.cache_bytes));
  told.text += fmt::format(
      "outside the model a token takes {} ms to be chosen{}", MsText(p.host.choose_ms),
      p.host.tokenizer ? fmt::format(" and {} ms to become text", MsText(p.host.text_ms)) : "");
  if (p.phase.tokens == 1)
    told.text +=
        fmt::format(", {:.1f}% of its time", 100 * host_ms / (host_ms + p.total_ms / tokens));
  told.text += "\n";
  for (const FloatMatrix& m : p.float_matrices)
    out["float_matrices"].push_back({{"step", m.step},
                                     {"part", m.part},
                                     {"bytes", m.bytes},
                                     {"code", m.why.code},
                                     {"why", m.why.sentence}});
  told.text += PrintableLines(MatricesText(p.float_matrices));
  if (!p.bytes.empty()) {
    out["bytes"] = BytesJson(p.bytes);
    told.text += PrintableLines(BytesText(p.bytes));
  }
  return told;
}

}  // namespace evoq
