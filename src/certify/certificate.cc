#include "certify/certificate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/json_file.h"

namespace evoq {
namespace {

using nlohmann::json;

// Reads fields of an object and remembers the first one that is not what it should be.
class Fields {
 public:
  Fields(const json& object, std::string place, std::string& wrong) : object_(object), place_(std::move(place)), wrong_(wrong) {}

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
    if (value < std::numeric_limits<T>::min() || value > static_cast<int64_t>(std::numeric_limits<T>::max())) return Blame(name);
    to = static_cast<T>(value);
  }
  void Read(const char* name, Interval& to) {
    Fields fields = At(name);
    fields.Read("value", to.value);
    fields.Read("low", to.low);
    fields.Read("high", to.high);
  }
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

double Finite(double v) { return std::isfinite(v) ? v : 0; }

std::string Percent(const Interval& i) { return fmt::format("{:.1f}% [{:.1f}, {:.1f}]", 100 * i.value, 100 * i.low, 100 * i.high); }

std::string Decibel(const Interval& i) { return fmt::format("{:.1f} dB [{:.1f}, {:.1f}]", i.value, i.low, i.high); }

}  // namespace

double GuaranteedRatio(const Comparison& ratio, double rested) {
  const double below = std::log(ratio.speedup / ratio.low);
  return std::min(ratio.speedup * std::exp(-std::sqrt(2.0) * below), rested) * (1 - kMeasurementDrift);
}

json ToJson(const Interval& interval) {
  const auto number = [](double v) { return std::isfinite(v) ? json(v) : json(); };
  return {{"value", number(interval.value)}, {"low", number(interval.low)}, {"high", number(interval.high)}};
}

json ToJson(const Certificate& c) {
  const SpeedClaim& s = c.speed;
  const Accuracy& a = c.accuracy;
  return {{"version", 1},
          {"scheme", c.scheme},
          {"machine", c.machine},
          {"threads", c.threads},
          {"shapes", c.shapes},
          {"never_slower", c.never_slower},
          {"is_float", c.is_float},
          {"speed", {{"float_p50_ms", s.float_p50_ms}, {"p50_ms", s.p50_ms}, {"ratio", ToJson(Interval{s.ratio.speedup, s.ratio.low, s.ratio.high})},
                     {"rested", s.rested}, {"guaranteed", s.guaranteed}}},
          {"accuracy", {{"metric", MetricName(a.metric)}, {"samples", a.samples}, {"float", ToJson(a.reference)}, {"model", ToJson(a.model)},
                        {"drop", ToJson(a.drop)}, {"max_drop", c.limit.max_drop}, {"sqnr_db", ToJson(a.sqnr_db)}, {"min_sqnr_db", c.limit.min_sqnr_db},
                        {"samples_crc32c", c.samples_crc}, {"random_samples", c.random_samples}, {"data_limit", c.data_limit}, {"preprocess", c.preprocess}}},
          {"layers", c.layers},
          {"float_model", {{"file", c.float_file}, {"bytes", c.float_file_bytes}, {"crc32c", c.float_file_crc}, {"classes", c.float_classes},
                           {"graph", c.float_graph}}}};
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
  fields.Each("shapes", [&](Fields at, const std::string& key) { at.Read(key.c_str(), c.shapes[key]); });
  fields.Read("never_slower", c.never_slower);
  fields.Read("is_float", c.is_float);
  Fields speed = fields.At("speed");
  speed.Read("float_p50_ms", c.speed.float_p50_ms);
  speed.Read("p50_ms", c.speed.p50_ms);
  Interval ratio;
  speed.Read("ratio", ratio);
  c.speed.ratio = {ratio.value, ratio.low, ratio.high, Verdict::kSame};
  speed.Read("rested", c.speed.rested);
  speed.Read("guaranteed", c.speed.guaranteed);
  Fields accuracy = fields.At("accuracy");
  accuracy.Read("metric", metric);
  accuracy.Read("samples", c.accuracy.samples);
  accuracy.Read("float", c.accuracy.reference);
  accuracy.Read("model", c.accuracy.model);
  accuracy.Read("drop", c.accuracy.drop);
  accuracy.Read("max_drop", c.limit.max_drop);
  accuracy.Read("sqnr_db", c.accuracy.sqnr_db);
  accuracy.Read("min_sqnr_db", c.limit.min_sqnr_db);
  accuracy.Read("samples_crc32c", c.samples_crc);
  accuracy.Read("random_samples", c.random_samples);
  accuracy.Read("data_limit", c.data_limit);
  accuracy.Read("preprocess", c.preprocess);
  fields.Each("layers", [&](Fields at, const std::string& key) { at.Read(key.c_str(), c.layers[key]); });
  Fields model = fields.At("float_model");
  model.Read("file", c.float_file);
  model.Read("bytes", c.float_file_bytes);
  model.Read("crc32c", c.float_file_crc);
  model.Read("classes", c.float_classes);
  model.Read("graph", c.float_graph);
  if (const auto found = FindMetric(metric)) {
    c.accuracy.metric = *found;
  } else {
    accuracy.Blame("metric");
  }
  if (c.threads < 1 || c.threads > 1024) fields.Blame("threads");
  if (c.random_samples < 0 || c.random_samples > 1'000'000) accuracy.Blame("random_samples");
  if (!wrong.empty()) return InvalidInput("the certificate's field {} is missing or of the wrong kind", wrong);
  if (version != 1) return Unsupported("a certificate of version {}, this evoq knows 1", version);
  return c;
}

Result<Certificate> CertificateOf(const Model& model, const std::string& path) {
  if (model.certificate.empty())
    return InvalidInput("{} carries no certificate: `evoq quantize --scheme auto`, --max-drop or --never-slower give it one", path);
  return WithContext(ParseCertificate(model.certificate), path);
}

std::string ToText(const SpeedClaim& s) {
  return fmt::format("{:.3f} ms beside {:.3f} ms of the float model: {:.3f}x [{:.3f}, {:.3f}]", s.p50_ms, s.float_p50_ms, s.ratio.speedup,
                     s.ratio.low, s.ratio.high);
}

std::string ToText(const Accuracy& a) {
  if (a.metric == Metric::kSqnr) return fmt::format("signal to noise {} on {} samples", Decibel(a.sqnr_db), a.samples);
  const std::string noise = std::isfinite(a.sqnr_db.value) && a.sqnr_db.value != 0 ? ", signal to noise " + Decibel(a.sqnr_db) : "";
  if (a.metric == Metric::kAgreement)
    return fmt::format("the float model's class on {} of {} samples{}", Percent(a.model), a.samples, noise);
  return fmt::format("top-1 {} beside {} of the float model on {} samples, {:.2f} points lost [{:.2f}, {:.2f}]{}", Percent(a.model), Percent(a.reference),
                     a.samples, a.drop.value, a.drop.low, a.drop.high, noise);
}

std::string ToText(const Certificate& c) {
  std::string out = fmt::format("  speed     {}\n            guaranteed: at least {:.3f}x\n", ToText(c.speed), c.speed.guaranteed);
  if (c.is_float) out = fmt::format("  speed     {:.3f} ms: this is the float model\n", Finite(c.speed.p50_ms));
  out += fmt::format("  accuracy  {}\n            guaranteed: ", ToText(c.accuracy));
  out += c.accuracy.metric == Metric::kSqnr ? fmt::format("at least {:g} dB\n", c.limit.min_sqnr_db)
                                            : fmt::format("at most {:g} points lost\n", c.limit.max_drop);
  std::vector<std::string> layers;
  for (const auto& [scheme, count] : c.layers) layers.push_back(fmt::format("{} {}", count, scheme));
  out += fmt::format("  layers    {}\n  machine   {}, {} thread{}\n", fmt::join(layers, ", "), c.machine, c.threads, c.threads == 1 ? "" : "s");
  return out;
}

}  // namespace evoq
