#include <algorithm>
#include <cmath>

#include "base/printable.h"
#include "workflow/sensitivity.h"

namespace evoq {
namespace {

using nlohmann::json;

constexpr size_t kShownLayers = 24, kShownTensors = 8, kShownChannels = 8;

json Number(double value) { return std::isfinite(value) ? json(value) : json(); }
json Number(const std::optional<double>& value) { return value ? Number(*value) : json(); }

std::string Db(double db) {
  return std::isfinite(db) ? fmt::format("{:.1f}", db) : std::string("exact");
}
std::string Cell(const std::optional<double>& value) {
  return value ? fmt::format("{:.4f}", *value) : std::string("-");
}

json ToJson(const OutputError& error) {
  return {{"sqnr_db", Number(error.sqnr_db)},
          {"cosine", error.cosine},
          {"kl", Number(error.kl)},
          {"metric", Number(error.metric)},
          {"relative_noise", Number(error.noise)}};
}

json ToJson(const TensorOutliers& tensor) {
  const OutlierStatistics& s = tensor.statistics;
  return {{"name", tensor.name},      {"kind", tensor.weight ? "weight" : "activation"},
          {"layers", tensor.layers},  {"elements", s.elements()},
          {"largest", s.largest()},   {"p999", s.p999()},
          {"tail", Number(s.tail())}, {"kurtosis", s.kurtosis()},
          {"channels", s.channels()}, {"outlier_channels", s.OutlierChannels()}};
}

// What the metric is, in words.
std::string MetricText(Metric metric) {
  switch (metric) {
    case Metric::kTop1: return "top-1";
    case Metric::kAgreement: return "agreement";
    case Metric::kPerplexity: return "perplexity";
    case Metric::kSqnr: break;
  }
  return "-";
}

// By rank_alone.
std::vector<const LayerSensitivity*> Ranked(const Sensitivity& s) {
  std::vector<const LayerSensitivity*> layers;
  for (const LayerSensitivity& layer : s.layers) layers.push_back(&layer);
  std::ranges::sort(layers, {}, [](const LayerSensitivity* layer) { return layer->rank_alone; });
  return layers;
}

std::string LayerTable(const Sensitivity& s) {
  const std::string metric = MetricText(s.metric);
  std::string text = fmt::format("  {:<41}  alone left in float\n", "alone quantized");
  const std::string columns =
      fmt::format("{:>4} {:>7} {:>8} {:>8} {:>10}", "rank", "SQNR dB", "cosine", "KL", metric);
  text += fmt::format("  {}  {}  layer\n", columns, columns);
  const std::vector<const LayerSensitivity*> layers = Ranked(s);
  size_t shown = 0;
  for (const LayerSensitivity* layer : layers) {
    const int best = std::min(layer->rank_alone, layer->rank_spared);
    if (layers.size() > 2 * kShownLayers && best > static_cast<int>(kShownLayers)) continue;
    const auto cells = [](int rank, const OutputError& e) {
      return fmt::format("{:>4} {:>7} {:>8.6f} {:>8} {:>10}", rank, Db(e.sqnr_db), e.cosine,
                         e.kl ? fmt::format("{:.2e}", *e.kl) : "-", Cell(e.metric));
    };
    text += FormatPrintable("  {}  {}  {} ({})\n", cells(layer->rank_alone, layer->alone),
                            cells(layer->rank_spared, layer->spared), layer->name, layer->op);
    ++shown;
  }
  if (shown < layers.size())
    text += fmt::format("  {} more, that matter less both ways: --json has all\n",
                        layers.size() - shown);
  return text;
}

std::string ChannelsText(const std::vector<int64_t>& channels) {
  if (channels.empty()) return "";
  const auto first = std::span(channels).first(std::min(channels.size(), kShownChannels));
  return fmt::format(": {}{}", fmt::join(first, ", "),
                     first.size() < channels.size() ? ", ..." : "");
}

// Tensors with the longest tails, or with outlier channels.
std::string TensorTable(const Sensitivity& s) {
  std::vector<const TensorOutliers*> tensors;
  for (const TensorOutliers& tensor : s.tensors) tensors.push_back(&tensor);
  std::ranges::stable_sort(tensors, std::greater<>(),
                           [](const TensorOutliers* tensor) { return tensor->statistics.tail(); });
  std::string text = fmt::format("  {:>9} {:>7} {:>9} {:>16}  {}\n", "largest", "/ p99.9",
                                 "kurtosis", "outlier channels", "tensor, read by");
  for (size_t i = 0; i < std::min(tensors.size(), kShownTensors); ++i) {
    const OutlierStatistics& o = tensors[i]->statistics;
    const std::vector<int64_t> channels = o.OutlierChannels();
    text += FormatPrintable(
        "  {:>9.4g} {:>7.2f} {:>9.1f} {:>16}  {}{}, {}{}\n", o.largest(), o.tail(), o.kurtosis(),
        o.channels() > 0 ? fmt::format("{} of {}", channels.size(), o.channels())
                         : std::string("-"),
        tensors[i]->name, tensors[i]->weight ? " (weight)" : "", tensors[i]->layers[0],
        ChannelsText(channels));
  }
  return text;
}

std::string OptionsText(const std::vector<std::string>& layers) {
  std::string text;
  for (const std::string& layer : layers) {
    const bool plain = layer.find_first_not_of(
                           "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                           "0123456789_-./:,+@%=") == std::string::npos;
    std::string quoted;
    for (const char c : layer) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    text += " --exclude " + (plain ? layer : "'" + quoted + "'");
  }
  return text;
}

}  // namespace

Told Tell(const SensitivityFound& found) {
  const Sensitivity& s = found.result;
  Told told;
  told.json = {{"model", found.model},
               {"scheme", found.scheme},
               {"method", found.method.empty() ? json() : json(found.method)},
               {"samples", found.samples},
               {"calibration_samples", found.calibration_samples},
               {"metric", MetricName(s.metric)},
               {"float_metric", Number(s.float_metric)},
               {"all", ToJson(s.all)},
               {"exclude", nullptr},
               {"warnings", s.warnings},
               {"seconds", found.seconds}};
  json& layers = told.json["layers"] = json::array();
  for (const LayerSensitivity* layer : Ranked(s))
    layers.push_back({{"name", layer->name},
                      {"index", layer - s.layers.data()},
                      {"op", layer->op},
                      {"rank_alone", layer->rank_alone},
                      {"rank_spared", layer->rank_spared},
                      {"alone", ToJson(layer->alone)},
                      {"spared", ToJson(layer->spared)}});
  json& tensors = told.json["tensors"] = json::array();
  for (const TensorOutliers& tensor : s.tensors) tensors.push_back(ToJson(tensor));
  const auto sentence = [&](const OutputError& e) {
    std::string text = fmt::format("{} dB, cosine {:.6f}", Db(e.sqnr_db), e.cosine);
    if (e.kl) text += fmt::format(", KL {:.3g}", *e.kl);
    if (e.metric) text += fmt::format(", {} {:.4f}", MetricText(s.metric), *e.metric);
    return text;
  };
  told.text = FormatPrintable("{} in {}: {} layers, {} samples\n", found.model, found.scheme,
                              s.layers.size(), found.samples);
  told.text += fmt::format("  all quantized: {}{}\n", sentence(s.all),
                           s.float_metric && s.metric != Metric::kAgreement
                               ? fmt::format(" ({:.4f} in float)", *s.float_metric)
                               : std::string());
  told.text += LayerTable(s) + TensorTable(s);
  if (s.exclusion) {
    const Exclusion& e = *s.exclusion;
    told.json["exclude"] = {{"layers", e.layers}, {"error", ToJson(e.error)}, {"tried", e.tried}};
    told.text += e.layers.empty()
                     ? std::string("no layer needs to stay in float\n")
                     : FormatPrintable("{} of {} layers in float give {} ({} sets measured):{}\n",
                                       e.layers.size(), s.layers.size(), sentence(e.error), e.tried,
                                       OptionsText(e.layers));
  } else {
    told.text += "--min-sqnr DB looks for the layers to --exclude for so much signal to noise\n";
  }
  for (const std::string& warning : s.warnings) told.log.push_back("warning: " + warning);
  if (!found.report.empty()) told.text += FormatPrintable("wrote {}\n", found.report);
  return told;
}

}  // namespace evoq
