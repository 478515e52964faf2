#include <algorithm>

#include "base/ms_text.h"
#include "base/printable.h"
#include "base/text.h"
#include "predict/predict.h"
#include "profile/limits_file.h"

namespace evoq {
namespace {

using nlohmann::json;

constexpr double kWorthTelling = 0.02;  // of the run: hindrances below it are in the JSON only

json TermsJson(const Terms& terms) {
  json out = json::object();
  for (int t = 0; t < kTermCount; ++t) {
    if (terms[t] > 0) out[TermName(static_cast<Term>(t))] = terms[t];
  }
  return out;
}

json StepJson(const StepForecast& s) {
  json out = {{"name", s.name},
              {"op", s.op},
              {"kernel", s.kernel},
              {"variant", s.plan.ToString()},
              {"precision", PrecisionName(s.precision)},
              {"shape", s.shape},
              {"family", s.family->name},
              {"ms", s.known ? json(s.ms) : json()},
              {"share", s.cut.share},
              {"loops", s.cut.loops},
              {"terms_ns", TermsJson(s.terms)}};
  if (s.measured_ms >= 0) out["measured_ms"] = s.measured_ms;
  return out;
}

json IfKnown(const SchemeForecast& s, double value) {
  return s.unknown.empty() ? json(value) : json();
}

json SchemeJson(const SchemeForecast& s) {
  if (!s.unavailable.empty()) return {{"scheme", s.scheme}, {"unavailable", s.unavailable}};
  json steps = json::array(), hindrances = json::array();
  for (const StepForecast& step : s.step_list) steps.push_back(StepJson(step));
  for (const Hindrance& h : s.hindrances)
    hindrances.push_back({{"code", h.code},
                          {"sentence", h.sentence},
                          {"steps", h.steps},
                          {"ms", h.ms},
                          {"lost_ms", h.lost_ms}});
  json out = {{"scheme", s.scheme},
              {"file_bytes", s.file_bytes},
              {"weight_bytes", s.weight_bytes},
              {"arena_bytes", s.arena_bytes},
              {"steps_total", s.steps.Total()},
              {"steps_int8", s.steps[Precision::kInt8]},
              {"steps_bf16", s.steps[Precision::kBf16]},
              {"steps_float", s.steps[Precision::kFloat32]},
              {"known_ms", s.ms},
              {"ms", IfKnown(s, s.ms)},
              {"low_ms", IfKnown(s, s.low_ms)},
              {"high_ms", IfKnown(s, s.high_ms)},
              {"speedup", s.payoff == Payoff::kNotKnown ? json() : json(s.speedup)},
              {"payoff", PayoffName(s.payoff)},
              {"unknown_steps", s.unknown},
              {"steps", steps},
              {"hindrances", hindrances}};
  if (s.measured_ms >= 0) {
    out["measured_ms"] = s.measured_ms;
    out["machine_share"] = s.machine_share;
  }
  return out;
}

// "slower than float32", "1.9 to 2.6 times as fast"
std::string PayoffText(const SchemeForecast& s) {
  switch (s.payoff) {
    case Payoff::kFaster: return fmt::format("{:.2f}x", s.speedup);
    case Payoff::kSame: return fmt::format("{:.2f}x  no faster", s.speedup);
    case Payoff::kSlower: return fmt::format("{:.2f}x  will be slower", s.speedup);
    case Payoff::kNotKnown: return "not known";
  }
  return "";
}

std::string RangeText(const SchemeForecast& s) {
  if (!s.unknown.empty())
    return fmt::format("not known: {} and {} step{}", MsText(s.ms), s.unknown.size(),
                       s.unknown.size() == 1 ? "" : "s");
  return fmt::format("{} ({} to {})", MsText(s.ms), MsText(s.low_ms), MsText(s.high_ms));
}

}  // namespace

json ToJson(const Forecast& forecast) {
  json schemes = json::array();
  for (const SchemeForecast& s : forecast.schemes) schemes.push_back(SchemeJson(s));
  return {{"model", forecast.model},
          {"isa", IsaName(forecast.limits.isa)},
          {"threads", forecast.limits.threads},
          {"float_weight_bytes", forecast.float_weight_bytes},
          {"limits", ToJson(forecast.limits)},
          {"constants", IsaName(forecast.constants.isa)},
          {"constants_core", forecast.constants.core},
          {"in_partitions", forecast.in_partitions},
          {"schemes", schemes}};
}

std::string ToText(const Forecast& forecast) {
  const MachineLimits& limits = forecast.limits;
  const bool checked = !forecast.schemes.empty() && forecast.schemes[0].measured_ms >= 0;
  const std::string ran = checked ? ""
                          : forecast.in_partitions.empty()
                              ? "; nothing was run"
                              : "; run to find its steps (" + forecast.in_partitions + ")";
  std::string out =
      FormatPrintable("{}: forecast{} for {} on {}, {} thread{}{}\n", forecast.model,
                      checked ? " and measurement" : "", IsaName(limits.isa), limits.cpu,
                      limits.threads, limits.threads == 1 ? "" : "s", ran);
  size_t width = 14;
  for (const SchemeForecast& s : forecast.schemes) width = std::max(width, s.scheme.size());
  out += fmt::format("  {:<{}} {:>10}  {:<28}{}  {}\n", "scheme", width, "file",
                     "ms, 9 of 10 within", checked ? "  measured     off" : "", "against float32");
  for (const SchemeForecast& s : forecast.schemes) {
    if (!s.unavailable.empty()) {
      out += FormatPrintable("  {:<{}} not available: {}\n", s.scheme, width, s.unavailable);
      continue;
    }
    const std::string measured =
        !checked ? ""
        : s.unknown.empty()
            ? fmt::format("  {:8.4f} {:+6.0f}%", s.measured_ms, 100 * (s.ms / s.measured_ms - 1))
            : fmt::format("  {:8.4f}        ", s.measured_ms);
    out += fmt::format("  {:<{}} {:>10}  {:<28}{}  {}\n", s.scheme, width, HumanBytes(s.file_bytes),
                       RangeText(s), measured, s.scheme == "float32" ? "" : PayoffText(s));
  }
  if (!limits.isa.Has(forecast.constants.isa)) {
    out +=
        fmt::format("  with constants of {}, for want of any of {}: the ranges are wide for that\n",
                    IsaName(forecast.constants.isa), IsaName(limits.isa));
  } else if (limits.core != forecast.constants.core) {
    out += FormatPrintable(
        "  with constants of {}, for want of any of {}: the ranges are wider for that\n",
        forecast.constants.core, limits.core);
  }
  if (!forecast.schemes.empty() && !forecast.schemes[0].unknown.empty()) {
    const std::vector<std::string>& steps = forecast.schemes[0].unknown;
    const std::span<const std::string> first(steps.data(), std::min<size_t>(steps.size(), 3));
    const bool one = steps.size() == 1;
    out += FormatPrintable(
        "  float32: {} step{} ({}{}) {} by definition, for want of a kernel; {} time is not "
        "known\n",
        steps.size(), one ? "" : "s", Joined(first, ", "),
        steps.size() > first.size() ? ", ..." : "", one ? "runs" : "run", one ? "its" : "their");
  }
  for (const SchemeForecast& s : forecast.schemes) {
    std::string told;
    for (const Hindrance& h : s.hindrances) {
      const bool timed = h.ms > 0;
      if (timed && h.ms < kWorthTelling * s.ms) continue;
      const std::span<const std::string> first(h.steps.data(), std::min<size_t>(h.steps.size(), 3));
      told += FormatPrintable("    {:>4}%  {} step{} ({}{}): {}: {}\n",
                              timed ? fmt::format("{:.0f}", 100 * h.ms / s.ms) : "?",
                              h.steps.size(), h.steps.size() == 1 ? "" : "s", Joined(first, ", "),
                              h.steps.size() > first.size() ? ", ..." : "", h.code, h.sentence);
    }
    if (!told.empty()) out += fmt::format("  {}: will not gain:\n{}", s.scheme, told);
  }
  return out;
}

}  // namespace evoq
