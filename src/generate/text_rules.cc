#include "generate/text_rules.h"

#include <algorithm>

namespace evoq {
namespace {

// Tokens that would end a row of `size` tokens that the history has already.
void BanRepeated(std::span<const int64_t> history, int64_t size, std::vector<int64_t>& banned) {
  const auto count = std::ssize(history), before = size - 1;
  if (size < 1 || count < size) return;
  const std::span<const int64_t> last = history.last(before);
  for (int64_t i = 0; i + before < count; ++i) {
    if (std::ranges::equal(history.subspan(i, before), last)) banned.push_back(history[i + before]);
  }
}

}  // namespace

TextRules::TextRules(const CachedModel& model, const GenerateOptions& options,
                     std::vector<int64_t> ends)
    : facts_(model.target()), options_(options), ends_(std::move(ends)) {}

const std::vector<int64_t>& TextRules::Begin() const {
  return facts_.hears() || options_.begin.empty() ? facts_.forced_begin : options_.begin;
}

std::optional<int64_t> TextRules::Forced(int64_t written) const {
  if (!facts_.reads()) return std::nullopt;
  const std::vector<int64_t>& begin = Begin();
  if (written < std::ssize(begin)) return begin[static_cast<size_t>(written)];
  if (!options_.ignore_end && !facts_.forced_end.empty() && written + 1 >= options_.max_tokens)
    return facts_.forced_end[0];
  return std::nullopt;
}

void TextRules::Ban(std::span<const int64_t> history, int64_t written,
                    std::vector<int64_t>& banned) const {
  if (written < std::max(options_.min_tokens, facts_.min_tokens))
    banned.insert(banned.end(), ends_.begin(), ends_.end());
  banned.insert(banned.end(), facts_.suppressed.begin(), facts_.suppressed.end());
  if (written == std::ssize(Begin()))
    banned.insert(banned.end(), facts_.begin_suppressed.begin(), facts_.begin_suppressed.end());
  BanRepeated(history, facts_.no_repeat, banned);
}

Source SourceOf(std::span<const int64_t> prompt, const GenerateOptions& options) {
  return {{prompt.begin(), prompt.end()}, options.sound};
}

std::vector<int64_t> BeforeText(const CachedModel& model, std::span<const int64_t> prompt,
                                const GenerateOptions& options) {
  if (!model.reads()) return {prompt.begin(), prompt.end()};
  std::vector<int64_t> before = model.target().start;
  if (model.target().hears())
    before.insert(before.end(), options.begin.begin(), options.begin.end());
  return before;
}

}  // namespace evoq
