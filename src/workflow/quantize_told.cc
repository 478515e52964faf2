// How a quantized model is shown.
#include <algorithm>

#include "base/ms_text.h"
#include "base/printable.h"
#include "base/text.h"
#include "workflow/left_float.h"
#include "workflow/quantize.h"
#include "workflow/scale_sets.h"
#include "workflow/tuning.h"

namespace evoq {
namespace {

using nlohmann::json;

void TellCertified(const Certified& certified, Told& told) {
  json tried = json::array();
  for (const TriedPlan& plan : certified.chosen.tried) {
    tried.push_back({{"plan", plan.name}, {"p50_ms", plan.ms}, {"keeps", plan.keeps}});
    if (plan.accuracy.samples > 0) tried.back()["accuracy"] = ToText(plan.accuracy);
    told.text += FormatPrintable(
        "  tried {}: {} ms{}\n", plan.name, MsText(plan.ms),
        plan.accuracy.samples == 0
            ? ""
            : fmt::format(", {}{}", ToText(plan.accuracy), plan.keeps ? "" : ": too much"));
  }
  if (!certified.why_float.empty())
    told.text += FormatPrintable("  the float model is written: {}\n", certified.why_float);
  told.text += PrintableLines(ToText(certified.certificate));
  json& out = told.json;
  out["certificate"] = ToJson(certified.certificate);
  out["certificate"]["float_model"].erase("graph");
  out["certificate"]["float_model"].erase("classes");
  out["tried"] = std::move(tried);
  out["search"] = {{"seconds", certified.chosen.seconds},
                   {"candidates", certified.chosen.candidates},
                   {"accuracies", certified.chosen.accuracies},
                   {"out_of_time", certified.chosen.out_of_time}};
  out["why_float"] = certified.why_float;
  const auto& spent = certified.spent;
  out["spent"] = {{"reference_s", spent.reference_s},
                  {"search_s", spent.search_s},
                  {"accuracy_s", spent.accuracy_s},
                  {"speed_s", spent.speed_s}};
}

void TellMethods(const MethodSearch& search, Told& told) {
  json tried = json::array();
  for (const TriedMethods& trial : search.tried) {
    tried.push_back({{"methods", trial.names}, {"seconds", trial.seconds}, {"taken", trial.taken}});
    if (trial.why_not.empty()) {
      tried.back()["sqnr_db"] = trial.sqnr_db;
    } else {
      tried.back()["why_not"] = trial.why_not;
    }
    told.text += FormatPrintable(
        "  tried {}: {}, {:.1f} s{}\n", trial.names,
        trial.why_not.empty() ? fmt::format("{:.2f} dB", trial.sqnr_db) : trial.why_not,
        trial.seconds, trial.taken ? ", taken" : "");
  }
  const std::string chosen = NamesOf(search.chosen);
  told.text += FormatPrintable(
      "  --method auto takes {}: observed on {} samples, judged by {} others{}\n", chosen,
      search.observed, search.judged,
      search.out_of_time ? "; the time (--search-s) was too short for all methods" : "");
  told.json["methods"] = {{"chosen", chosen},
                          {"tried", std::move(tried)},
                          {"observed_samples", search.observed},
                          {"judged_samples", search.judged},
                          {"out_of_time", search.out_of_time}};
}

// "50 of 54 steps int8, 1 bf16, 3 float": each narrow precision that there is, and what stays
// float.
std::string StepsText(const Quantized& done) {
  const char* const what = done.steps_why.empty() ? "steps" : "nodes";
  std::vector<std::string> parts;
  for (const Precision p : {Precision::kInt8, Precision::kBf16, Precision::kFloat32}) {
    const int count = done.steps[p];
    const bool real = p == Precision::kFloat32;
    if (count == 0 && !(real && !parts.empty())) continue;
    const char* const name = real ? "float" : PrecisionName(p);
    parts.push_back(parts.empty()
                        ? fmt::format("{} of {} {} {}", count, done.steps.Total(), what, name)
                        : fmt::format("{} {}", count, name));
  }
  if (parts.empty()) parts.push_back(fmt::format("{} {}", done.steps.Total(), what));
  std::map<std::string, int> weights = done.low_bit_weights;
  weights["int8"] += done.int8_weights;
  for (const auto& [type, count] : weights) {
    if (count > 0)
      parts.push_back(
          count == 1
              ? fmt::format("1 layer with {} weights (it computes in float32)", type)
              : fmt::format("{} layers with {} weights (they compute in float32)", count, type));
  }
  const auto by_bits = [&](const std::map<std::string, int>& bits_of, const char* what) {
    std::map<int, int> counts;
    for (const auto& [name, bits] : bits_of) ++counts[bits];
    for (const auto& [bits, count] : counts)
      parts.push_back(fmt::format(fmt::runtime(what), count, count == 1 ? "" : "s", bits));
  };
  by_bits(done.weight_bits, "{} layer{} with weights of {} bits");
  by_bits(done.activation_bits, "{} value{} of {} bits (in bytes)");
  return Joined(parts, ", ");
}

}  // namespace

std::map<std::string, std::string> TextsOf(const Reasons& reasons) {
  std::map<std::string, std::string> texts;
  for (const auto& [node, reason] : reasons) texts[node] = reason.ToString();
  return texts;
}

Told Tell(const Quantized& done) {
  Told told;
  told.json = {{"input_bytes", done.input_bytes},
               {"output_bytes", done.output_bytes},
               {"float_weight_bytes", done.float_weight_bytes},
               {"quantized_weight_bytes", done.quantized_weight_bytes},
               {"samples_used", done.samples_used},
               {"steps_total", done.steps.Total()},
               {"steps_int8", done.steps[Precision::kInt8]},
               {"steps_bf16", done.steps[Precision::kBf16]},
               {"steps_float", done.steps[Precision::kFloat32]},
               {"int8_weights", done.int8_weights},
               {"low_bit_weights", done.low_bit_weights},
               {"weight_bits", done.weight_bits},
               {"activation_bits", done.activation_bits},
               {"float_reasons", TextsOf(done.float_reasons)},
               {"warnings", done.warnings},
               {"seconds", done.seconds}};
  if (done.tuning) {
    const Told tuned = Tell(*done.tuning);
    told.json["tuning"] = tuned.json;
    told.text += tuned.text;
    told.log = tuned.log;
  }
  if (done.methods) TellMethods(*done.methods, told);
  if (done.certified) TellCertified(*done.certified, told);
  told.text += FormatPrintable("{} -> {}: {} -> {} ({:.3f} of the float32 weights), {}, {:.1f} s\n",
                               done.model, done.output, HumanBytes(done.input_bytes),
                               HumanBytes(done.output_bytes),
                               static_cast<double>(done.output_bytes) /
                                   std::max(static_cast<double>(done.float_weight_bytes), 1.0),
                               StepsText(done), done.seconds);
  if (!done.steps_why.empty()) {
    told.json["steps_why"] = done.steps_why;
    told.text += FormatPrintable("  {}\n", done.steps_why);
  }
  if (!done.samples_enough.empty()) {
    told.json["samples_enough"] = done.samples_enough;
    told.text += FormatPrintable("  {}\n", done.samples_enough);
  }
  if (!done.sets.empty()) {
    const Told sets = Tell(done.sets);
    told.json["scale_sets"] = sets.json;
    told.text += sets.text;
  }
  if (!done.encodings.file.empty()) {
    const auto unused = static_cast<int>(done.encodings.not_used.size());
    told.json["encodings"] = {{"entries", done.encodings.entries},
                              {"used", done.encodings.entries - unused},
                              {"not_used", done.encodings.not_used}};
    told.text += FormatPrintable("  {}: {} of {} entries are used\n", done.encodings.file,
                                 done.encodings.entries - unused, done.encodings.entries);
  }
  if (done.gain) {
    const Told gained = Tell(*done.gain);
    told.json["gain"] = gained.json;
    told.text += gained.text;
    told.log.insert(told.log.end(), gained.log.begin(), gained.log.end());
  }
  told.text += FloatReasonsText(done.float_reasons);
  for (const std::string& warning : done.warnings) told.log.push_back("warning: " + warning);
  return told;
}

}  // namespace evoq
