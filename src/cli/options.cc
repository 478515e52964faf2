#include "cli/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <type_traits>

namespace evoq {
namespace {

// `check`, which --help names as before, and one sentence of what it expects: CLI11 has none for
// what is no number, and the largest double for numbers without a limit.
CLI::Validator Expecting(const CLI::Validator& check, const std::string& expected) {
  CLI::Validator saying = check;
  saying.operation([check, expected](std::string& value) {
    return check(value).empty() ? std::string() : fmt::format("{}: expected {}", value, expected);
  });
  return saying;
}

// Neither NaN, which keeps every limit, nor an infinity. What is no number is told elsewhere.
CLI::Validator Finite() {
  return CLI::Validator(
      [](std::string& value) {
        char* end = nullptr;
        const double number = std::strtod(value.c_str(), &end);
        const bool whole = end != value.c_str() && *end == '\0';
        return whole && !std::isfinite(number) ? value + ": expected a finite number"
                                               : std::string();
      },
      "");
}

template <typename T>
constexpr bool kIsReal = std::is_same_v<T, double> || std::is_same_v<T, std::optional<double>> ||
                         std::is_same_v<T, std::vector<double>>;

}  // namespace

VerbOption VerbOption::Required() const { return VerbOption(option_->required()); }
VerbOption VerbOption::ShowDefault() const { return VerbOption(option_->capture_default_str()); }
template <typename T>
VerbOption VerbOption::InRange(T low, T high) const {
  return VerbOption(
      option_->check(Expecting(CLI::Range(low, high), fmt::format("{} to {}", low, high))));
}
template VerbOption VerbOption::InRange(int, int) const;
template VerbOption VerbOption::InRange(int64_t, int64_t) const;
template VerbOption VerbOption::InRange(double, double) const;
VerbOption VerbOption::Positive() const {
  return VerbOption(option_->check(Expecting(CLI::PositiveNumber, "a number above 0")));
}
VerbOption VerbOption::NonNegative() const {
  return VerbOption(option_->check(Expecting(CLI::NonNegativeNumber, "0 or more")));
}
VerbOption VerbOption::OneOf(const std::vector<std::string>& values) const {
  return VerbOption(option_->check(CLI::IsMember(values)));
}
VerbOption VerbOption::Excludes(VerbOption other) const {
  return VerbOption(option_->excludes(other.option_));
}
VerbOption VerbOption::Needs(VerbOption other) const {
  return VerbOption(option_->needs(other.option_));
}
VerbOption VerbOption::SplitAt(char delimiter) const {
  return VerbOption(option_->delimiter(delimiter));
}
VerbOption VerbOption::OneEachTime() const { return VerbOption(option_->allow_extra_args(false)); }
VerbOption VerbOption::Takes(const std::string& what) const {
  return VerbOption(option_->type_name(what));
}

template <typename T>
VerbOption VerbOptions::Add(const std::string& names, T& value, const std::string& doc) const {
  CLI::Option* const option = app_.add_option(names, value, doc);
  if constexpr (kIsReal<T>) option->check(Finite());
  return VerbOption(option);
}
template VerbOption VerbOptions::Add(const std::string&, std::string&, const std::string&) const;
template VerbOption VerbOptions::Add(const std::string&, int&, const std::string&) const;
template VerbOption VerbOptions::Add(const std::string&, int64_t&, const std::string&) const;
template VerbOption VerbOptions::Add(const std::string&, uint32_t&, const std::string&) const;
template VerbOption VerbOptions::Add(const std::string&, uint64_t&, const std::string&) const;
template VerbOption VerbOptions::Add(const std::string&, double&, const std::string&) const;
template VerbOption VerbOptions::Add(const std::string&, std::optional<double>&,
                                     const std::string&) const;
template VerbOption VerbOptions::Add(const std::string&, std::vector<std::string>&,
                                     const std::string&) const;
template VerbOption VerbOptions::Add(const std::string&, std::vector<double>&,
                                     const std::string&) const;
template VerbOption VerbOptions::Add(const std::string&, std::vector<int>&,
                                     const std::string&) const;
template VerbOption VerbOptions::Add(const std::string&, std::vector<int64_t>&,
                                     const std::string&) const;

template <typename T>
VerbOption VerbOptions::AddFlag(const std::string& names, T& value, const std::string& doc) const {
  return VerbOption(app_.add_flag(names, value, doc));
}
template VerbOption VerbOptions::AddFlag(const std::string&, bool&, const std::string&) const;
template VerbOption VerbOptions::AddFlag(const std::string&, int&, const std::string&) const;

VerbOption VerbOptions::AddFlag(const std::string& names, const std::string& doc) const {
  return VerbOption(app_.add_flag(names, doc));
}

bool VerbOptions::given(const std::string& name) const { return app_.count(name) > 0; }

}  // namespace evoq
