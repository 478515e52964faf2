#include <algorithm>
#include <cmath>

#include "base/printable.h"
#include "base/text.h"
#include "workflow/diff.h"

namespace evoq {
namespace {

using nlohmann::json;

constexpr size_t kShown = 24;  // lines of a long list

// What is not finite has no number in JSON: no noise at all, or an error without bound.
json Number(double value) { return std::isfinite(value) ? json(value) : json(); }

std::string Cell(double db) {
  return std::isfinite(db) ? fmt::format("{:.1f}", db) : std::string("exact");
}
std::string Db(double db) { return std::isfinite(db) ? Cell(db) + " dB" : Cell(db); }

json ToJson(const ValueError& error) {
  return {{"sqnr_db", Number(error.sqnr_db())},
          {"cosine", Number(error.cosine())},
          {"max_abs", Number(error.max_abs())},
          {"mean_error", Number(error.mean_error())}};
}

json ToJson(const DiffedValue& value) {
  json out = ToJson(value.whole);
  out["name"] = value.name;
  out["a_name"] = value.a_name;
  out["step"] = value.step;
  out["op"] = value.op;
  out["nodes"] = value.nodes;
  out["type"] = value.type;
  out["elements"] = value.whole.elements();
  out["output"] = value.output;
  out["real"] = value.real;
  out["rescaled"] = value.rescaled;
  out["own"] = ToJson(value.own);
  out["own_share"] = value.own_share();
  return out;
}

// Steps that no value of A tells apart from this one.
std::string Before(const DiffedValue& value) {
  return value.nodes > 1 ? fmt::format(" with the {} before it", value.nodes - 1) : std::string();
}

// Of what is no real number: how many are the same.
std::string EqualText(const DiffedValue& value) {
  const auto elements = static_cast<double>(value.whole.elements());
  return fmt::format(", {:.2f}% equal", 100 - 100 * value.whole.noise() / std::max(elements, 1.0));
}

// All in order where they are few, else those that matter: the first bad one, outputs, and those
// with the least own signal to noise, in order.
std::vector<size_t> Shown(const Diffed& d) {
  std::vector<size_t> order(d.values.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (order.size() <= 2 * kShown) return order;
  const auto rank = [&](size_t i) {
    const bool first = static_cast<int>(i) == d.first_bad || d.values[i].output;
    return std::tuple(!first, d.values[i].own.sqnr_db(), i);
  };
  std::ranges::sort(order, {}, rank);
  order.resize(kShown);
  std::sort(order.begin(), order.end());
  return order;
}

std::string Table(const Diffed& d) {
  const std::vector<size_t> shown = Shown(d);
  std::string text =
      fmt::format("  {:>8} {:>8} {:>6} {:>9} {:>10} {:>10}  {:<8} {}\n", "SQNR dB", "own dB",
                  "own %", "cosine", "max error", "mean error", "type", "value, step");
  for (size_t i : shown) {
    const DiffedValue& v = d.values[i];
    text += FormatPrintable(
        "  {:>8} {:>8} {:>6.1f} {:>9.6f} {:>10.3g} {:>10.2g}  {:<8} {}, {} ({}){}{}{}\n",
        Cell(v.whole.sqnr_db()), Cell(v.own.sqnr_db()), 100 * v.own_share(), v.whole.cosine(),
        v.whole.max_abs(), v.whole.mean_error(), v.type, v.name, v.step, v.op,
        v.rescaled ? ", channels rescaled" : "", v.real ? "" : EqualText(v),
        v.output ? ", output" : "");
  }
  if (shown.size() < d.values.size())
    text += fmt::format("  {} more, of larger own signal to noise: --json has all\n",
                        d.values.size() - shown.size());
  return text;
}

}  // namespace

Told Tell(const Diffed& d) {
  Told told;
  told.json = {{"a", d.a},
               {"b", d.b},
               {"samples", d.samples},
               {"sqnr_db", Number(d.sqnr_db)},
               {"max_error", Number(d.max_error)},
               {"bad_db", d.bad_db},
               {"first_bad", nullptr},
               {"worst_sample", {{"name", d.worst_sample}, {"sqnr_db", Number(d.worst_sample_db)}}},
               {"only_a", d.only_a},
               {"only_b", d.only_b},
               {"sized_by_data", d.sized_by_data}};
  if (!d.kept.empty()) told.json["kept"] = d.kept;
  for (const std::string& warning : d.warnings) told.log.push_back("warning: " + warning);
  json& values = told.json["values"] = json::array();
  for (const DiffedValue& value : d.values) values.push_back(ToJson(value));
  told.text =
      FormatPrintable("A {}\nB {}\n{} values of both on {} samples, {} of A alone, {} of B\n", d.a,
                      d.b, d.values.size(), d.samples, d.only_a.size(), d.only_b.size());
  told.text += Table(d);
  if (d.first_bad >= 0) {
    const DiffedValue& bad = d.values[static_cast<size_t>(d.first_bad)];
    told.json["first_bad"] = ToJson(bad);
    told.text += FormatPrintable(
        "first bad step: {} ({}){}, which computes {}: {} by itself, below {:g} dB; {} with what "
        "came in\n",
        bad.step, bad.op, Before(bad), bad.name, Db(bad.own.sqnr_db()), d.bad_db,
        Db(bad.whole.sqnr_db()));
  } else {
    told.text += fmt::format("no step is bad by itself: each has {:g} dB or more\n", d.bad_db);
  }
  const bool judged = std::ranges::any_of(d.values, [](const DiffedValue& v) { return v.output; });
  if (judged)
    told.text += FormatPrintable("worst sample: {}, {}; worst output over all: {}\n",
                                 d.worst_sample, Db(d.worst_sample_db), Db(d.sqnr_db));
  if (!d.kept.empty()) told.text += FormatPrintable("wrote {}\n", d.kept);
  if (!d.sized_by_data.empty()) {
    const std::span<const std::string> first(d.sized_by_data.data(),
                                             std::min<size_t>(d.sized_by_data.size(), 3));
    told.log.push_back(FormatPrintable(
        "note: {} value{} ({}{}) of sizes that depend on the data {} set aside: element by element "
        "says nothing of such lists; the values before them are compared",
        d.sized_by_data.size(), d.sized_by_data.size() == 1 ? "" : "s", Joined(first, ", "),
        first.size() < d.sized_by_data.size() ? ", ..." : "",
        d.sized_by_data.size() == 1 ? "is" : "are"));
  }
  const bool outputs_only =
      std::all_of(d.values.begin(), d.values.end(), [](const DiffedValue& v) { return v.output; });
  if (outputs_only && !d.only_a.empty() && !d.only_b.empty())
    told.log.push_back(FormatPrintable(
        "note: only outputs were matched: A's inner values are named as {}, B's as {}; a model "
        "that was quantized from this A keeps the names",
        d.only_a.front(), d.only_b.front()));
  return told;
}

}  // namespace evoq
