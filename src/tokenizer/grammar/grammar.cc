#include "tokenizer/grammar/grammar.h"

#include <algorithm>
#include <optional>

namespace evoq {
namespace {

using Symbol = Grammar::Symbol;
using Sequence = Grammar::Sequence;

constexpr uint32_t kLast = 0x10FFFF;

// The characters of 1, 2, 3 and 4 bytes end here.
constexpr uint32_t kEnds[] = {0x7F, 0x7FF, 0xFFFF, kLast};

std::vector<unsigned char> Utf8(uint32_t code) {
  if (code <= kEnds[0]) return {static_cast<unsigned char>(code)};
  const int more = code <= kEnds[1] ? 1 : code <= kEnds[2] ? 2 : 3;
  std::vector<unsigned char> bytes(static_cast<size_t>(more) + 1);
  for (int i = more; i > 0; --i, code >>= 6)
    bytes[static_cast<size_t>(i)] = static_cast<unsigned char>(0x80 | (code & 0x3F));
  constexpr unsigned kLead[] = {0, 0xC0, 0xE0, 0xF0};
  bytes[0] = static_cast<unsigned char>(kLead[more] | code);
  return bytes;
}

using ByteRanges = std::vector<std::pair<unsigned char, unsigned char>>;

// Ranges of characters whose bytes are ranges each, as the regular expressions of RE2 cut them.
void SplitUtf8(uint32_t low, uint32_t high, std::vector<ByteRanges>& out) {
  if (low > high) return;
  for (const uint32_t end : kEnds) {
    if (low <= end && end < high) {
      SplitUtf8(low, end, out);
      return SplitUtf8(end + 1, high, out);
    }
  }
  for (int i = 1; high > kEnds[0] && i < 4; ++i) {
    const uint32_t rest = (uint32_t{1} << (6 * i)) - 1;
    if ((low & ~rest) == (high & ~rest)) continue;
    if ((low & rest) != 0) {
      SplitUtf8(low, low | rest, out);
      return SplitUtf8((low | rest) + 1, high, out);
    }
    if ((high & rest) != rest) {
      SplitUtf8(low, (high & ~rest) - 1, out);
      return SplitUtf8(high & ~rest, high, out);
    }
  }
  const std::vector<unsigned char> from = Utf8(low), to = Utf8(high);
  ByteRanges ranges;
  for (size_t i = 0; i < from.size(); ++i) ranges.emplace_back(from[i], to[i]);
  out.push_back(std::move(ranges));
}

// Rules of which a sequence has none but such rules and sets that `takes` takes.
template <typename Takes>
std::vector<bool> WithSequenceOf(const std::vector<std::vector<Sequence>>& rules,
                                 const Takes& takes) {
  struct Waiting {
    size_t rule;
    size_t others;  // symbols that are not known to be such
  };
  std::vector<bool> is(rules.size());
  std::vector<Waiting> sequences;
  std::vector<std::vector<size_t>> waiting(rules.size());  // sequences, by rule
  std::vector<size_t> found;
  const auto now = [&](size_t rule) {
    if (!is[rule]) found.push_back(rule);
    is[rule] = true;
  };
  for (size_t i = 0; i < rules.size(); ++i) {
    for (const Sequence& sequence : rules[i]) {
      size_t others = 0;
      for (const Symbol& s : sequence) {
        if (s.is_rule) {
          waiting[static_cast<size_t>(s.index)].push_back(sequences.size());
          ++others;
        } else if (!takes(static_cast<size_t>(s.index))) {
          ++others;
        }
      }
      sequences.push_back({i, others});
      if (others == 0) now(i);
    }
  }
  while (!found.empty()) {
    const size_t rule = found.back();
    found.pop_back();
    for (const size_t sequence : waiting[rule]) {
      if (--sequences[sequence].others == 0) now(sequences[sequence].rule);
    }
  }
  return is;
}

// Sorted, apart, and without what stands for no character.
std::vector<GrammarBuilder::Range> Ordered(std::vector<GrammarBuilder::Range> ranges, bool others) {
  constexpr uint32_t kSurrogates = 0xD800, kBehind = 0xE000;
  std::ranges::sort(ranges, {}, &GrammarBuilder::Range::low);
  std::vector<GrammarBuilder::Range> apart, out;
  for (const auto& range : ranges) {
    if (!apart.empty() && range.low <= apart.back().high + 1) {
      apart.back().high = std::max(apart.back().high, range.high);
    } else {
      apart.push_back(range);
    }
  }
  if (others) {
    uint32_t next = 0;
    for (const auto& range : std::exchange(apart, {})) {
      if (range.low > next) apart.push_back({next, range.low - 1});
      next = range.high + 1;
    }
    if (next <= kLast) apart.push_back({next, kLast});
  }
  for (const auto& range : apart) {
    const uint32_t low = range.low, high = std::min(range.high, kLast);
    if (low < kSurrogates) out.push_back({low, std::min(high, kSurrogates - 1)});
    if (high >= kBehind) out.push_back({std::max(low, kBehind), high});
  }
  return out;
}

}  // namespace

Symbol GrammarBuilder::NewRule() {
  grammar_.rules.emplace_back();
  names_.emplace_back();
  ++symbols_;
  return {true, static_cast<int32_t>(grammar_.rules.size()) - 1};
}

void GrammarBuilder::Name(Symbol rule, std::string name) {
  names_[static_cast<size_t>(rule.index)] = std::move(name);
}

void GrammarBuilder::Add(Symbol rule, Sequence sequence) {
  symbols_ += sequence.size() + 1;
  if (symbols_ > kMaxSymbols) return;
  grammar_.rules[static_cast<size_t>(rule.index)].push_back(std::move(sequence));
}

Symbol GrammarBuilder::Set(const Grammar::Bytes& bytes) {
  const auto [found, is_new] = sets_.emplace(bytes, static_cast<int32_t>(grammar_.sets.size()));
  if (is_new) grammar_.sets.push_back(bytes);
  return {false, found->second};
}

Sequence GrammarBuilder::Text(std::string_view text) {
  Sequence sequence;
  for (const char c : text)
    sequence.push_back(Set(Grammar::Bytes().set(static_cast<unsigned char>(c))));
  return sequence;
}

Symbol GrammarBuilder::Character(std::vector<Range> ranges, bool others) {
  std::vector<ByteRanges> all;
  for (const Range& range : Ordered(std::move(ranges), others))
    SplitUtf8(range.low, range.high, all);
  const auto set_of = [](const auto& range) {
    Grammar::Bytes set;
    for (size_t b = range.first; b <= range.second; ++b) set.set(b);
    return set;
  };
  Grammar::Bytes single;
  std::vector<Sequence> sequences;
  for (const ByteRanges& ranges_of : all) {
    if (ranges_of.size() == 1) {
      single |= set_of(ranges_of[0]);
      continue;
    }
    Sequence& sequence = sequences.emplace_back();
    for (const auto& range : ranges_of) sequence.push_back(Set(set_of(range)));
  }
  if (sequences.empty() && single.any()) return Set(single);
  if (single.any()) sequences.push_back({Set(single)});
  return Choice(std::move(sequences));
}

Symbol GrammarBuilder::Choice(std::vector<Sequence> sequences) {
  const Symbol rule = NewRule();
  for (Sequence& sequence : sequences) Add(rule, std::move(sequence));
  return rule;
}

Sequence GrammarBuilder::Repeat(Symbol symbol, int64_t least, int64_t most) {
  if (std::max(least, most) > kMaxRepeats) {
    symbols_ = kMaxSymbols + 1;
    return {};
  }
  Sequence sequence(static_cast<size_t>(least), symbol);
  symbols_ += sequence.size();
  std::optional<Symbol> more;  // that may follow
  if (most < 0) {
    more = NewRule();
    Add(*more, {symbol, *more});
    Add(*more, {});
  }
  for (int64_t i = least; i < most; ++i) {
    const Symbol rule = NewRule();
    Add(rule, more ? Sequence{symbol, *more} : Sequence{symbol});
    Add(rule, {});
    more = rule;
  }
  if (more) sequence.push_back(*more);
  return sequence;
}

// Takes out sequences with a rule that stands for no text.
void GrammarBuilder::DropEmpty() {
  const auto is_some = [&](size_t set) { return grammar_.sets[set].any(); };
  const std::vector<bool> some = WithSequenceOf(grammar_.rules, is_some);
  for (auto& rule : grammar_.rules)
    std::erase_if(rule, [&](const Sequence& sequence) {
      return !std::ranges::all_of(sequence, [&](const Symbol& s) {
        const auto index = static_cast<size_t>(s.index);
        return s.is_rule ? some[index] : is_some(index);
      });
    });
}

// A rule that another begins with is expanded before a byte is read. One that comes back to itself
// so would be expanded without end, but where nothing follows it.
Status GrammarBuilder::CheckLeft() const {
  const auto& rules = grammar_.rules;
  const std::vector<bool> empty = WithSequenceOf(rules, [](size_t) { return false; });
  const auto may_be_empty = [&](const Symbol& s) {
    return s.is_rule && empty[static_cast<size_t>(s.index)];
  };
  struct Edge {
    size_t to;
    bool last;  // nothing follows
  };
  std::vector<std::vector<Edge>> first(rules.size());
  for (size_t i = 0; i < rules.size(); ++i) {
    for (const Sequence& sequence : rules[i]) {
      for (size_t at = 0; at < sequence.size() && sequence[at].is_rule; ++at) {
        first[i].push_back({static_cast<size_t>(sequence[at].index), at + 1 == sequence.size()});
        if (!may_be_empty(sequence[at])) break;
      }
    }
  }
  // Tarjan's components, with a stack of its own: grammars nest deeply.
  constexpr size_t kNone = SIZE_MAX;
  std::vector<size_t> number(rules.size(), kNone), low(rules.size()),
      component(rules.size(), kNone);
  std::vector<size_t> open;
  size_t numbers = 0, components = 0;
  struct Visit {
    size_t rule, edge;
  };
  for (size_t start = 0; start < rules.size(); ++start) {
    if (number[start] != kNone) continue;
    std::vector<Visit> visits = {{start, 0}};
    while (!visits.empty()) {
      auto& [rule, edge] = visits.back();
      if (edge == 0 && number[rule] == kNone) {
        number[rule] = low[rule] = numbers++;
        open.push_back(rule);
      }
      if (edge < first[rule].size()) {
        const size_t to = first[rule][edge++].to;
        if (number[to] == kNone) {
          visits.push_back({to, 0});
        } else if (component[to] == kNone) {
          low[rule] = std::min(low[rule], number[to]);
        }
        continue;
      }
      if (low[rule] == number[rule]) {
        while (component[rule] == kNone) {
          component[open.back()] = components;
          open.pop_back();
        }
        ++components;
      }
      const size_t done = rule;
      visits.pop_back();
      if (!visits.empty()) low[visits.back().rule] = std::min(low[visits.back().rule], low[done]);
    }
  }
  for (size_t i = 0; i < rules.size(); ++i) {
    for (const Edge& edge : first[i]) {
      if (edge.last || component[edge.to] != component[i]) continue;
      return InvalidInput("rule {} begins with itself",
                          names_[i].empty() ? fmt::format("number {}", i) : names_[i]);
    }
  }
  return {};
}

Result<std::shared_ptr<const Grammar>> GrammarBuilder::Finish(Symbol root) {
  if (symbols_ > kMaxSymbols)
    return Fail(ErrorCode::kTooLarge,
                "the grammar has more than {} symbols, or more than {} of one", kMaxSymbols,
                kMaxRepeats);
  DropEmpty();
  const auto index = static_cast<size_t>(root.index);
  if (grammar_.rules[index].empty()) return InvalidInput("no text is of this grammar");
  EVOQ_TRY(CheckLeft());
  if (index != 0) {  // rule 0 is the text
    std::swap(grammar_.rules[0], grammar_.rules[index]);
    for (auto& rule : grammar_.rules) {
      for (Sequence& sequence : rule) {
        for (Symbol& s : sequence) {
          if (!s.is_rule) continue;
          if (s.index == 0) {
            s.index = root.index;
          } else if (s.index == root.index) {
            s.index = 0;
          }
        }
      }
    }
  }
  return std::make_shared<const Grammar>(std::move(grammar_));
}

Result<std::shared_ptr<const Grammar>> GrammarOfTexts(const std::vector<std::string>& texts) {
  GrammarBuilder builder;
  const Symbol root = builder.NewRule();
  for (const std::string& text : texts) builder.Add(root, builder.Text(text));
  return builder.Finish(root);
}

std::shared_ptr<const Grammar> GrammarOfEither(const Grammar& a, const Grammar& b) {
  auto either = std::make_shared<Grammar>();
  either->rules.resize(1);
  for (const Grammar* one : {&a, &b}) {
    const auto rules = static_cast<int32_t>(either->rules.size()),
               sets = static_cast<int32_t>(either->sets.size());
    either->rules[0].push_back({{.is_rule = true, .index = rules}});
    either->sets.insert(either->sets.end(), one->sets.begin(), one->sets.end());
    for (std::vector<Grammar::Sequence> rule : one->rules) {
      for (Grammar::Sequence& sequence : rule) {
        for (Grammar::Symbol& symbol : sequence) symbol.index += symbol.is_rule ? rules : sets;
      }
      either->rules.push_back(std::move(rule));
    }
  }
  return either;
}

}  // namespace evoq
