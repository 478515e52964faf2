// How a verb declares its options. The parser's own headers stay in options.cc and cli.cc: they
// take seconds to compile.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace evoq {

// An option that was declared; a reference to it. What is said of it is checked when the command
// line is parsed, and stands in --help.
class VerbOption {
 public:
  explicit VerbOption(CLI::Option* option) : option_(option) {}

  VerbOption Required() const;
  VerbOption ShowDefault() const;  // the value before parsing
  template <typename T>            // int, int64_t, double
  VerbOption InRange(T low, T high) const;
  VerbOption Positive() const;
  VerbOption NonNegative() const;
  VerbOption OneOf(const std::vector<std::string>& values) const;
  VerbOption Excludes(VerbOption other) const;
  VerbOption Needs(VerbOption other) const;
  VerbOption SplitAt(char delimiter) const;         // "50,99" is two values
  VerbOption OneEachTime() const;                   // may be repeated, each time with one value
  VerbOption Takes(const std::string& what) const;  // in --help, instead of the value's type

 private:
  CLI::Option* option_;
};

// The options of one verb.
class VerbOptions {
 public:
  explicit VerbOptions(CLI::App& app) : app_(app) {}

  // `names`: "-o,--output", or "model" for a positional one. Parsing writes `value`, which outlives
  // it. Of std::string, int, int64_t, uint32_t, uint64_t, double, an optional double, and vectors
  // of std::string, int64_t and double. Doubles are finite.
  template <typename T>
  VerbOption Add(const std::string& names, T& value, const std::string& doc) const;

  // Of bool; of int with the values of its names: "--tune{1},--no-tune{-1}".
  template <typename T>
  VerbOption AddFlag(const std::string& names, T& value, const std::string& doc) const;
  // One that changes nothing.
  VerbOption AddFlag(const std::string& names, const std::string& doc) const;

  // Whether the option of this name ("--calib-limit") was given; once parsed.
  bool given(const std::string& name) const;

 private:
  CLI::App& app_;
};

}  // namespace evoq
