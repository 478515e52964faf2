#include "tokenizer/grammar/digits.h"

#include <algorithm>
#include <string>

namespace evoq {
namespace {

using Sequence = Grammar::Sequence;

constexpr int64_t kMost = 9'999'999'999'999'999;

Grammar::Symbol Digits(GrammarBuilder& builder, char low, char high) {
  return builder.Character({{static_cast<uint32_t>(low), static_cast<uint32_t>(high)}});
}

// Numbers of as many digits as both limits have; `before` stands in front.
void SameLength(GrammarBuilder& builder, const std::string& low, const std::string& high,
                Sequence before, std::vector<Sequence>& out) {
  size_t at = 0;
  for (; at < low.size() && low[at] == high[at]; ++at)
    before.push_back(Digits(builder, low[at], low[at]));
  if (at == low.size()) return out.push_back(std::move(before));
  const std::string nines(low.size() - at - 1, '9'), zeros(low.size() - at - 1, '0');
  char from = low[at], to = high[at];
  const auto edge = [&](char digit, const std::string& a, const std::string& b) {
    Sequence with = before;
    with.push_back(Digits(builder, digit, digit));
    SameLength(builder, a, b, std::move(with), out);
  };
  if (const std::string rest = low.substr(at + 1); rest != zeros) edge(from++, rest, nines);
  if (const std::string rest = high.substr(at + 1); rest != nines) edge(to--, zeros, rest);
  if (from > to) return;
  before.push_back(Digits(builder, from, to));
  for (size_t i = 0; i < zeros.size(); ++i) before.push_back(Digits(builder, '0', '9'));
  out.push_back(std::move(before));
}

// 0 <= low <= high.
void Between(GrammarBuilder& builder, int64_t low, int64_t high, const Sequence& before,
             std::vector<Sequence>& out) {
  for (std::string from = std::to_string(low); from.size() <= std::to_string(high).size();) {
    const std::string most(from.size(), '9');
    const bool last = from.size() == std::to_string(high).size();
    SameLength(builder, from, last ? std::to_string(high) : most, before, out);
    from = "1" + std::string(from.size(), '0');
  }
}

}  // namespace

Grammar::Symbol AddIntegers(GrammarBuilder& builder, std::optional<int64_t> least,
                            std::optional<int64_t> most) {
  const int64_t low = std::max(least.value_or(-kMost), -kMost),
                high = std::min(most.value_or(kMost), kMost);
  std::vector<Sequence> out;
  if (low < 0)
    Between(builder, std::max<int64_t>(-high, 1), -low, {Digits(builder, '-', '-')}, out);
  if (high >= 0) Between(builder, std::max<int64_t>(low, 0), high, {}, out);
  return builder.Choice(std::move(out));
}

}  // namespace evoq
