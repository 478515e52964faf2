#include "certify/certificate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/json_file.h"
#include "base/ms_text.h"
#include "base/printable.h"

namespace evoq {
namespace {

using nlohmann::json;

// Reads fields of an object and remembers the first one that is not what it should be.
class Fields {
 public:
  Fields(const json& object, std::string place, std::string& wrong)
      : object_(object), place_(std::move(place)), wrong_(wrong) {}

  Fields At(const char* name) {
    static const json kNothing = json::object();
    const json* field = Find(name, &json::is_object);
    return Fields(field ? *field : kNothing, place_ + name + ".", wrong_);
  }
  void Read(const char* name, std::string& to) {
    if (const json* field = Find(name, &json::is_string)) to = field->get<std::string>();
  }
  void Read(const char* name, bool& to) {
    if (const json* field = Find(name, &json::is_boolean)) to = field->get<bool>();
  }
  // null is infinite: JSON has no word for it.
  void Read(const char* name, double& to) {
    if (const auto it = object_.find(name); it != object_.end() && it->is_null()) {
      to = std::numeric_limits<double>::infinity();
    } else if (const json* field = Find(name, &json::is_number)) {
      to = field->get<double>();
    }
  }
  template <typename T>
    requires std::is_integral_v<T>
  void Read(const char* name, T& to) {
    const json* field = Find(name, &json::is_number_integer);
    if (field == nullptr) return;
    const int64_t value = field->get<int64_t>();
    if (value < std::numeric_limits<T>::min() ||
        value > static_cast<int64_t>(std::numeric_limits<T>::max()))
      return Blame(name);
    to = static_cast<T>(value);
  }
  void Read(const char* name, Interval& to) {
    Fields fields = At(name);
    fields.Read("value", to.value);
    fields.Read("low", to.low);
    fields.Read("high", to.high);
  }
  void Read(const char* name, Disturbance& to) {
    Fields fields = At(name);
    fields.Read("seconds", to.seconds);
    fields.Read("others_share", to.others);
    fields.Read("stolen_share", to.stolen);
    fields.Read("waited_share", to.waited);
    fields.Read("slowed", to.slowed);
    fields.Read("round_spread", to.spread);
    fields.Read("switches", to.switches);
  }
  void Read(const char* name, std::vector<OutputAccuracy>& to) {
    const json* field = Find(name, &json::is_array);
    for (size_t i = 0; field && i < field->size(); ++i) {
      if (!(*field)[i].is_object()) return Blame(name);
      Fields output((*field)[i], fmt::format("{}{}[{}].", place_, name, i), wrong_);
      OutputAccuracy& read = to.emplace_back();
      output.Read("name", read.name);
      output.Read("sqnr_db", read.sqnr_db);
    }
  }
  void Read(const char* name, std::vector<double>& to) {
    const json* field = Find(name, &json::is_array);
    for (size_t i = 0; field && i < field->size(); ++i) {
      if (!(*field)[i].is_number()) return Blame(name);
      to.push_back((*field)[i].get<double>());
    }
  }
  void Read(const char* name, SpeedClaim& to) {
    Fields speed = At(name);
    Interval ratio;
    speed.Read("ratio", ratio);
    to.ratio = {ratio.value, ratio.low, ratio.high, Verdict::kSame};
    speed.Read("float_p50_ms", to.ratio.a_ms);
    speed.Read("p50_ms", to.ratio.b_ms);
    speed.Read("rested", to.ratio.rested);
    speed.Read("guaranteed", to.guaranteed);
    // Not in certificates of evoq 0.1.
    if (speed.Has("rounds")) speed.Read("rounds", to.ratio.rounds);
    if (speed.Has("disturbance")) speed.Read("disturbance", to.ratio.disturbance);
    if (speed.Has("not_promised")) speed.Read("not_promised", to.not_promised);
  }
  bool Has(const char* name) const { return object_.contains(name); }
  void Read(const char* name, std::vector<int64_t>& to) {
    const json* field = Find(name, &json::is_array);
    for (size_t i = 0; field && i < field->size(); ++i) {
      if (!(*field)[i].is_number_integer()) return Blame(name);
      to.push_back((*field)[i].get<int64_t>());
    }
  }
  template <typename Use>
  void Each(const char* name, Use use) {
    const json* field = Find(name, &json::is_object);
    if (field == nullptr) return;
    for (const auto& [key, value] : field->items()) use(At(name), key);
  }
  void Blame(const char* name) {
    if (wrong_.empty()) wrong_ = place_ + name;
  }

 private:
  const json* Find(const char* name, bool (json::*is)() const noexcept) {
    const auto it = object_.find(name);
    if (it != object_.end() && ((*it).*is)()) return &*it;
    Blame(name);
    return nullptr;
  }

  const json& object_;
  std::string place_;
  std::string& wrong_;
};

std::string Percent(const Interval& i) {
  return fmt::format("{:.1f}% [{:.1f}, {:.1f}]", 100 * i.value, 100 * i.low, 100 * i.high);
}

std::string Decibel(const Interval& i) {
  return fmt::format("{:.1f} dB [{:.1f}, {:.1f}]", i.value, i.low, i.high);
}

}  // namespace

double GuaranteedRatio(const Comparison& ratio) {
  const double below = std::log(ratio.speedup / ratio.low);
  return std::min(ratio.speedup * std::exp(-std::sqrt(2.0) * below), ratio.rested) *
         (1 - kMeasurementDrift);
}

std::string WhyNotPromised(const Comparison& ratio) {
  constexpr int kLeastRounds = 5;
  if (ratio.disturbance.too_much())
    return fmt::format(
        "{}: the ratio on a quiet machine may be quite another; measure again when it is",
        ToText(ratio.disturbance));
  if (ratio.rounds < kLeastRounds)
    return fmt::format("{} rounds of measuring are too few: --measure-s longer", ratio.rounds);
  return "";
}

SpeedClaim ClaimOf(const Comparison& ratio) {
  SpeedClaim claim{ratio, 0, WhyNotPromised(ratio)};
  if (claim.not_promised.empty()) claim.guaranteed = GuaranteedRatio(ratio);
  return claim;
}

json ToJson(const Interval& interval) {
  const auto number = [](double v) { return std::isfinite(v) ? json(v) : json(); };
  return {{"value", number(interval.value)},
          {"low", number(interval.low)},
          {"high", number(interval.high)}};
}

json ToJson(const std::vector<OutputAccuracy>& outputs) {
  json out = json::array();
  for (const OutputAccuracy& o : outputs)
    out.push_back({{"name", o.name}, {"sqnr_db", ToJson(o.sqnr_db)}});
  return out;
}

namespace {

json ToJson(const SpeedClaim& s) {
  return {{"float_p50_ms", s.ratio.a_ms},
          {"p50_ms", s.ratio.b_ms},
          {"ratio", ToJson(Interval{s.ratio.speedup, s.ratio.low, s.ratio.high})},
          {"rounds", s.ratio.rounds},
          {"rested", s.ratio.rested},
          {"disturbance", ToJson(s.ratio.disturbance)},
          {"guaranteed", s.guaranteed},
          {"not_promised", s.not_promised}};
}

}  // namespace

json ToJson(const Certificate& c) {
  const Accuracy& a = c.accuracy;
  json out = {{"version", 1},
              {"scheme", c.scheme},
              {"machine", c.machine},
              {"threads", c.threads},
              {"shapes", c.shapes},
              {"never_slower", c.never_slower},
              {"is_float", c.is_float},
              {"speed", ToJson(c.speed)},
              {"accuracy",
               {{"metric", MetricName(a.metric)},
                {"samples", a.samples},
                {"float", ToJson(a.reference)},
                {"model", ToJson(a.model)},
                {"drop", ToJson(a.drop)},
                {"max_drop", c.limit.max_drop},
                {"sqnr_db", ToJson(a.sqnr_db)},
                {"min_sqnr_db", c.limit.min_sqnr_db},
                {"also_sqnr", c.limit.also_sqnr},
                {"outputs", ToJson(a.outputs)},
                {"samples_crc32c", c.samples_crc},
                {"random_samples", c.random_samples},
                {"data_limit", c.data_limit},
                {"preprocess", c.preprocess}}},
              {"layers", c.layers},
              {"float_model",
               {{"file", c.float_file},
                {"bytes", c.float_file_bytes},
                {"crc32c", c.float_file_crc},
                {"classes", c.float_classes},
                {"graph", c.float_graph}}}};
  if (c.prompt_speed) out["prompt_speed"] = ToJson(*c.prompt_speed);
  if (a.metric == Metric::kPerplexity) {
    out["accuracy"]["max_growth"] = c.limit.max_growth;
    out["accuracy"]["window"] = c.window;
    out["float_model"]["nll"] = c.float_nll;
  }
  return out;
}

Result<Certificate> ParseCertificate(std::string_view text) {
  EVOQ_ASSIGN(const json root, WithContext(ParseJson(text), "the certificate"));
  if (!root.is_object()) return InvalidInput("the certificate is no JSON object");
  Certificate c;
  std::string wrong, metric;
  Fields fields(root, "", wrong);
  int version = 0;
  fields.Read("version", version);
  fields.Read("scheme", c.scheme);
  fields.Read("machine", c.machine);
  fields.Read("threads", c.threads);
  fields.Each("shapes",
              [&](Fields at, const std::string& key) { at.Read(key.c_str(), c.shapes[key]); });
  fields.Read("never_slower", c.never_slower);
  fields.Read("is_float", c.is_float);
  fields.Read("speed", c.speed);
  if (fields.Has("prompt_speed")) fields.Read("prompt_speed", c.prompt_speed.emplace());
  Fields accuracy = fields.At("accuracy");
  accuracy.Read("metric", metric);
  accuracy.Read("samples", c.accuracy.samples);
  accuracy.Read("float", c.accuracy.reference);
  accuracy.Read("model", c.accuracy.model);
  accuracy.Read("drop", c.accuracy.drop);
  accuracy.Read("max_drop", c.limit.max_drop);
  accuracy.Read("sqnr_db", c.accuracy.sqnr_db);
  accuracy.Read("min_sqnr_db", c.limit.min_sqnr_db);
  if (accuracy.Has("also_sqnr")) accuracy.Read("also_sqnr", c.limit.also_sqnr);
  if (accuracy.Has("max_growth")) accuracy.Read("max_growth", c.limit.max_growth);
  if (accuracy.Has("window")) accuracy.Read("window", c.window);
  if (accuracy.Has("outputs")) accuracy.Read("outputs", c.accuracy.outputs);
  accuracy.Read("samples_crc32c", c.samples_crc);
  accuracy.Read("random_samples", c.random_samples);
  accuracy.Read("data_limit", c.data_limit);
  accuracy.Read("preprocess", c.preprocess);
  fields.Each("layers",
              [&](Fields at, const std::string& key) { at.Read(key.c_str(), c.layers[key]); });
  Fields model = fields.At("float_model");
  model.Read("file", c.float_file);
  model.Read("bytes", c.float_file_bytes);
  model.Read("crc32c", c.float_file_crc);
  model.Read("classes", c.float_classes);
  if (model.Has("nll")) model.Read("nll", c.float_nll);
  model.Read("graph", c.float_graph);
  if (const auto found = FindMetric(metric)) {
    c.accuracy.metric = *found;
  } else {
    accuracy.Blame("metric");
  }
  if (c.threads < 1 || c.threads > 1024) fields.Blame("threads");
  if (c.random_samples < 0 || c.random_samples > 1'000'000) accuracy.Blame("random_samples");
  if (!wrong.empty())
    return InvalidInput("the certificate's field {} is missing or of the wrong kind", wrong);
  if (version != 1) return Unsupported("a certificate of version {}, this evoq knows 1", version);
  return c;
}

Result<Certificate> CertificateOf(const Model& model, const std::string& path) {
  if (model.certificate.empty())
    return InvalidInput(
        "{} carries no certificate: `evoq quantize --scheme auto`, --max-drop or --never-slower "
        "give it one",
        path);
  return WithContext(ParseCertificate(model.certificate), path);
}

std::string ToText(const SpeedClaim& s) {
  const Comparison& r = s.ratio;
  return fmt::format("{} ms beside {} ms of the float model: {:.3f}x [{:.3f}, {:.3f}]",
                     MsText(r.b_ms), MsText(r.a_ms), r.speedup, r.low, r.high);
}

// "12.1 dB [11.8, 12.5]", of several outputs the worst, by name, and how many there are.
std::string SqnrText(const Accuracy& a) {
  const OutputAccuracy* worst = a.worst();
  if (worst == nullptr || a.outputs.size() == 1) return Decibel(a.sqnr_db);
  return fmt::format("{} in {}, the worst of {} outputs", Decibel(a.sqnr_db), worst->name,
                     a.outputs.size());
}

std::string ToText(const Accuracy& a) {
  const char* const plural = a.samples == 1 ? "" : "s";
  if (a.metric == Metric::kSqnr)
    return fmt::format("signal to noise {} on {} sample{}", SqnrText(a), a.samples, plural);
  if (a.metric == Metric::kPerplexity)
    return fmt::format(
        "perplexity {:.4f} beside {:.4f} of the float model in {} window{}, {:+.2f}% [{:+.2f}, "
        "{:+.2f}]",
        a.model.value, a.reference.value, a.samples, plural, a.drop.value, a.drop.low, a.drop.high);
  const std::string noise = !a.outputs.empty() && std::isfinite(a.sqnr_db.value)
                                ? ", signal to noise " + SqnrText(a)
                                : "";
  if (a.metric == Metric::kAgreement)
    return fmt::format("the float model's class on {} of {} sample{}{}", Percent(a.model),
                       a.samples, plural, noise);
  return fmt::format(
      "top-1 {} beside {} of the float model on {} sample{}, {:.2f} points lost [{:.2f}, {:.2f}]{}",
      Percent(a.model), Percent(a.reference), a.samples, plural, a.drop.value, a.drop.low,
      a.drop.high, noise);
}

std::string ToText(const AccuracyLimit& limit, Metric metric) {
  const std::string sqnr = fmt::format("at least {:g} dB in every output", limit.min_sqnr_db);
  if (metric == Metric::kSqnr) return sqnr;
  if (metric == Metric::kPerplexity)
    return fmt::format("perplexity grows by at most {:g}%", limit.max_growth);
  return fmt::format("at most {:g} points lost{}", limit.max_drop,
                     limit.also_sqnr ? ", " + sqnr : "");
}

namespace {

constexpr char kIndent[] = "            ";

// A line of a speed, and what is guaranteed of it.
std::string ClaimText(const char* name, const SpeedClaim& s, bool is_float) {
  if (is_float)
    return fmt::format("  {:8}  {} ms: this is the float model\n", name, MsText(s.ratio.b_ms));
  std::string out = fmt::format("  {:8}  {}\n", name, ToText(s));
  if (!s.not_promised.empty())
    return out + fmt::format("{}not guaranteed: {}\n", kIndent, s.not_promised);
  if (const std::string disturbed = ToText(s.ratio.disturbance); !disturbed.empty())
    out += fmt::format("{}disturbed: {}\n", kIndent, disturbed);
  return out + fmt::format("{}guaranteed: at least {:.3f}x\n", kIndent, s.guaranteed);
}

}  // namespace

std::string ToText(const Certificate& c) {
  std::string out = ClaimText(c.prompt_speed ? "decode" : "speed", c.speed, c.is_float);
  if (c.prompt_speed) out += ClaimText("prompt", *c.prompt_speed, c.is_float);
  out += fmt::format("  accuracy  {}\n{}guaranteed: {}\n", ToText(c.accuracy), kIndent,
                     ToText(c.limit, c.accuracy.metric));
  std::vector<std::string> layers;
  for (const auto& [scheme, count] : c.layers)
    layers.push_back(fmt::format("{} {}", count, scheme));
  out += FormatPrintable("  layers    {}\n  machine   {}, {} thread{}\n", Joined(layers, ", "),
                         c.machine, c.threads, c.threads == 1 ? "" : "s");
  return out;
}

}  // namespace evoq
