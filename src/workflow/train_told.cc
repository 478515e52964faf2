#include <cmath>

#include "base/printable.h"
#include "base/text.h"
#include "quant/low_bits.h"
#include "workflow/left_float.h"
#include "workflow/train.h"

namespace evoq {

nlohmann::json ToJson(const EpochReport& r) {
  using nlohmann::json;
  json told = {{"epoch", r.epoch},
               {"epochs", r.epochs},
               {"loss", r.loss},
               {"accuracy", r.accuracy ? json(*r.accuracy) : json()},
               {"test_accuracy", r.test && r.test->accuracy ? json(*r.test->accuracy) : json()},
               {"lr", r.lr},
               {"seconds", r.seconds},
               {"images_per_s", r.images_per_s},
               {"sparsity", r.sparsity ? json(*r.sparsity) : json()},
               {"remaining_s", r.remaining_s}};
  if (r.rows > 1) told["tokens_per_s"] = r.images_per_s * static_cast<double>(r.rows);
  if (r.test && r.test->loss) {
    told["test_loss"] = *r.test->loss;
    told["test_perplexity"] = std::exp(*r.test->loss);
  }
  if (r.test && r.test->error) told["test_mse"] = *r.test->error;
  return told;
}

namespace {

// With a scheme: what computes with integers, and that training saw what was compiled.
void TellIntegers(const Trained& t, Told& told) {
  if (t.recipe.scheme.empty()) return;
  using nlohmann::json;
  const int int8 = t.nodes[Precision::kInt8];
  told.json["nodes_int8"] = int8;
  told.json["nodes_float"] = t.nodes[Precision::kFloat32];
  json reasons = json::object();
  for (const auto& [node, reason] : t.float_reasons) reasons[node] = reason.ToString();
  told.json["float_reasons"] = reasons;
  told.text += FormatPrintable("  {} of {} nodes compute with integers\n", int8, t.nodes.Total());
  told.text += FloatReasonsText(t.float_reasons);
  if (!t.agreement) return;
  const Agreement& a = *t.agreement;
  told.json["agreement"] = {
      {"samples", a.samples}, {"classes", a.classes}, {"scores", a.scores}, {"correct", a.correct}};
  if (t.real_targets) {
    told.json["agreement"].erase("classes");
    told.json["agreement"].erase("correct");
    told.text += FormatPrintable(
        "  simulated and compiled: the same outputs, bit for bit, on {} of {} test samples\n",
        a.scores, a.samples);
    return;
  }
  told.text += FormatPrintable(
      "  simulated and compiled: the same class on {} of {} test samples, the same scores, bit for "
      "bit, on {}\n",
      a.classes, a.samples, a.scores);
}

// With a weights-only scheme: how many layers have which, and what the written model does.
void TellWeights(const Trained& t, Told& told) {
  using nlohmann::json;
  told.json["weights"] = t.weights;
  std::string layers;
  for (const auto& [type, count] : t.weights)
    layers += fmt::format("{}{} in {} layers", layers.empty() ? "" : ", ", type, count);
  told.text += fmt::format("  weights: {}", layers.empty() ? "none quantized" : layers);
  if (t.written) {
    const Measured& m = *t.written;
    json& written = told.json["written"] = json::object();
    if (m.accuracy) written["accuracy"] = *m.accuracy;
    if (m.loss) written["loss"] = *m.loss;
    if (m.error) written["mse"] = *m.error;
    told.text +=
        m.error  ? fmt::format("; as written: mean squared error {:.6g}", *m.error)
        : m.loss ? fmt::format("; as written: loss {:.4f}, perplexity {:.3f}", *m.loss,
                               std::exp(*m.loss))
                 : fmt::format("; as written {:.2f}% of the test samples right", 100 * *m.accuracy);
  }
  told.text += "\n";
}

// With --prune channel: what the model lost.
void TellPruned(const Trained& t, Told& told) {
  if (!t.outcome.pruned) return;
  const PruneReport& report = *t.outcome.pruned;
  nlohmann::json layers = nlohmann::json::array();
  for (const PrunedChannels& l : report.channels)
    layers.push_back(
        {{"node", l.node}, {"channels_before", l.outputs_before}, {"channels", l.outputs}});
  const auto number = [](const std::optional<int64_t>& n) {
    return n ? nlohmann::json(*n) : nlohmann::json();
  };
  told.json["pruned"] = {{"float_weight_bytes_before", report.bytes_before},
                         {"float_weight_bytes", report.bytes},
                         {"macs_before", number(report.macs_before)},
                         {"macs", number(report.macs)},
                         {"layers", layers}};
  told.text += FormatPrintable("  without pruned channels: float32 weights {} -> {}",
                               HumanBytes(report.bytes_before), HumanBytes(report.bytes));
  if (report.macs_before && report.macs)
    told.text += fmt::format(", multiply-accumulates {} -> {}", *report.macs_before, *report.macs);
  told.text += "\n";
}

// What the model does on samples that it was not trained on.
void TellTest(const Measured& m, int64_t samples, Told& told) {
  if (m.error) {
    told.json["test_mse"] = *m.error;
    told.text +=
        FormatPrintable("  mean squared error {:.6g} on {} test samples\n", *m.error, samples);
  } else if (m.loss) {
    const double perplexity = std::exp(*m.loss);
    told.json["test_loss"] = *m.loss;
    told.json["test_perplexity"] = perplexity;
    told.text += FormatPrintable(
        "  held out: loss {:.4f}, perplexity {:.3f}, {:.2f}% of the tokens of {} windows right\n",
        *m.loss, perplexity, 100 * *m.accuracy, samples);
  } else {
    told.text +=
        FormatPrintable("  {:.2f}% of {} test samples right\n", 100 * *m.accuracy, samples);
  }
}

}  // namespace

Told Tell(const Trained& t) {
  using nlohmann::json;
  Told told;
  json epochs = json::array();
  for (const EpochReport& report : t.outcome.epochs) epochs.push_back(ToJson(report));
  const EpochReport* last = t.outcome.epochs.empty() ? nullptr : &t.outcome.epochs.back();
  const json nothing = json::object(), last_json = epochs.empty() ? nothing : epochs.back();
  told.json = {{"model", t.model},
               {"output", t.output},
               {"output_bytes", t.output_bytes},
               {"samples", t.samples},
               {"test_samples", t.test_samples},
               {"parameters", t.outcome.parameters},
               {"resumed_at", t.outcome.resumed_at},
               {"steps", t.outcome.steps},
               {"seconds", t.outcome.seconds},
               {"memory_bytes", t.outcome.memory_bytes},
               {"loss", last_json.value("loss", json())},
               {"accuracy", last_json.value("accuracy", json())},
               {"test_accuracy", last_json.value("test_accuracy", json())},
               {"recipe", ToJson(t.recipe)},
               {"epochs", epochs},
               {"warnings", t.warnings}};
  told.text = FormatPrintable("{}: {} parameters, {} samples, {} steps in {:.1f} s\n", t.model,
                              t.outcome.parameters, t.samples, t.outcome.steps, t.outcome.seconds);
  if (last != nullptr && last->test) TellTest(*last->test, t.test_samples, told);
  if (t.processes > 1) told.json["processes"] = t.processes;
  if (t.adapters > 0) {
    told.json["adapters"] = t.adapters;
    told.text += fmt::format("  {} adapters of {} numbers beside weights that stayed\n", t.adapters,
                             t.adapter_numbers);
  } else if (WeightScheme(t.recipe) != nullptr) {
    TellWeights(t, told);
  } else {
    TellIntegers(t, told);
  }
  TellPruned(t, told);
  told.text += FormatPrintable("  -> {}: {}\n", t.output, HumanBytes(t.output_bytes));
  for (const std::string& warning : t.warnings) told.log.push_back("warning: " + warning);
  if (last == nullptr) told.log.push_back("note: the checkpoint had all epochs behind it");
  return told;
}

}  // namespace evoq
