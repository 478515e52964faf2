#include <algorithm>
#include <map>
#include <queue>

#include "tokenizer/piece_trie.h"
#include "tokenizer/segmenters.h"
#include "tokenizer/unicode.h"

namespace evoq {
namespace {

constexpr size_t kMaxMerges = size_t{1} << 23;

uint64_t Pair(int64_t left, int64_t right) {
  return (static_cast<uint64_t>(left) << 32) | static_cast<uint64_t>(right);
}

struct Symbol {
  int64_t id;
  int32_t before, after;  // neighbours; -1: none
};

// A merge that may come: of the symbol `left` and the one after it.
struct Candidate {
  uint64_t merge;  // rank << 32 | piece
  int32_t left;
  bool operator<(const Candidate& other) const {
    const uint64_t rank = merge >> 32, others = other.merge >> 32;
    return rank != others ? rank > others : left > other.left;
  }
};

class PairSegmenter {
 public:
  PairSegmenter(std::shared_ptr<const Vocabulary> vocabulary, BytePairs rules)
      : vocabulary_(std::move(vocabulary)), rules_(std::move(rules)) {
    for (int64_t id = 0; id < vocabulary_->size(); ++id) {
      if (vocabulary_->InText(id)) AddCharacter(vocabulary_->piece(id), id);
    }
    for (const std::string& text : rules_.merges.characters)
      AddCharacter(text, vocabulary_->size() + extra_++);
  }

  Status operator()(std::string_view word, std::vector<int64_t>& ids) const {
    if (word.size() > size_t{1} << 30)
      return Fail(ErrorCode::kTooLarge, "a word of {} bytes", word.size());
    if (rules_.whole_words) {
      if (const int64_t id = vocabulary_->FindText(word); id >= 0) {
        ids.push_back(id);
        return {};
      }
    }
    std::vector<Symbol> symbols;
    symbols.reserve(word.size());
    std::vector<std::string_view> unknown;  // what the symbols of number -1 - i stand for
    Begin(word, symbols, unknown);
    Merge(symbols);
    bool fused = false;
    for (size_t i = 0; i < symbols.size(); i = Next(symbols, i)) {
      const int64_t id = symbols[i].id;
      const bool known = id >= 0 && id < vocabulary_->size();
      if (known) {
        ids.push_back(id);
        fused = false;
        continue;
      }
      const std::string_view text =
          id < 0 ? unknown[static_cast<size_t>(-1 - id)]
                 : std::string_view(
                       rules_.merges.characters[static_cast<size_t>(id - vocabulary_->size())]);
      if (rules_.unknown.byte_fallback && vocabulary_->AppendBytes(text, ids)) {
        fused = false;
      } else if (rules_.unknown.id >= 0) {
        if (!fused || !rules_.unknown.fuse) ids.push_back(rules_.unknown.id);
        fused = true;
      }
    }
    return {};
  }

 private:
  void AddCharacter(std::string_view text, int64_t id) {
    if (text.empty()) return;
    const CharacterAt c = NextCharacter(text, 0);
    if (c.bytes == text.size()) characters_.Set(c.code, static_cast<uint64_t>(id));
  }

  int64_t FirstId(uint32_t code, std::string_view text, bool first, bool last) const {
    const bool plain = (first || rules_.prefix.empty()) && (!last || rules_.suffix.empty());
    if (plain) {
      const uint64_t id = characters_.Find(code);
      return id == FlatMap::kNone ? -1 : static_cast<int64_t>(id);
    }
    std::string spelled = first ? "" : rules_.prefix;
    spelled += text;
    if (last) spelled += rules_.suffix;
    return vocabulary_->FindText(spelled);
  }

  void Begin(std::string_view word, std::vector<Symbol>& symbols,
             std::vector<std::string_view>& unknown) const {
    for (size_t at = 0; at < word.size();) {
      const CharacterAt c = NextCharacter(word, at);
      const std::string_view text = word.substr(at, c.bytes);
      int64_t id = FirstId(c.code, text, at == 0, at + c.bytes == word.size());
      at += c.bytes;
      if (id < 0) {
        unknown.push_back(text);
        id = -static_cast<int64_t>(unknown.size());
      }
      const auto i = static_cast<int32_t>(symbols.size());
      if (i > 0) symbols[static_cast<size_t>(i) - 1].after = i;
      symbols.push_back({id, i - 1, -1});
    }
  }

  static size_t Next(const std::vector<Symbol>& symbols, size_t i) {
    return symbols[i].after < 0 ? symbols.size() : static_cast<size_t>(symbols[i].after);
  }

  // The merge of a symbol with the one after it, kNone where there is none.
  uint64_t MergeAt(const std::vector<Symbol>& symbols, int32_t left) const {
    const Symbol& symbol = symbols[static_cast<size_t>(left)];
    if (symbol.id < 0 || symbol.after < 0) return FlatMap::kNone;
    const int64_t right = symbols[static_cast<size_t>(symbol.after)].id;
    return right < 0 ? FlatMap::kNone : rules_.merges.pairs.Find(Pair(symbol.id, right));
  }

  void Merge(std::vector<Symbol>& symbols) const {
    std::vector<Candidate> first;
    first.reserve(symbols.size());
    for (int32_t i = 0; i < static_cast<int32_t>(symbols.size()); ++i) {
      const uint64_t merge = MergeAt(symbols, i);
      if (merge != FlatMap::kNone) first.push_back({merge, i});
    }
    std::priority_queue<Candidate> candidates(std::less<Candidate>(), std::move(first));
    const auto consider = [&](int32_t left) {
      const uint64_t merge = left < 0 ? FlatMap::kNone : MergeAt(symbols, left);
      if (merge != FlatMap::kNone) candidates.push({merge, left});
    };
    while (!candidates.empty()) {
      const Candidate top = candidates.top();
      candidates.pop();
      // One of the two may have become part of another piece.
      if (MergeAt(symbols, top.left) != top.merge) continue;
      Symbol& left = symbols[static_cast<size_t>(top.left)];
      Symbol& right = symbols[static_cast<size_t>(left.after)];
      left.id = static_cast<int64_t>(top.merge & 0xFFFFFFFF);
      left.after = right.after;
      right.id = -1;
      right.after = -1;
      if (left.after >= 0) symbols[static_cast<size_t>(left.after)].before = top.left;
      consider(left.before);
      consider(top.left);
    }
  }

  std::shared_ptr<const Vocabulary> vocabulary_;
  BytePairs rules_;
  FlatMap characters_;
  int64_t extra_ = 0;
};

}  // namespace

Result<Merges> MergesInOrder(const Vocabulary& vocabulary,
                             std::span<const std::pair<std::string, std::string>> merges,
                             const std::string& prefix) {
  if (merges.size() > kMaxMerges)
    return Fail(ErrorCode::kTooLarge, "{} merges, expected at most {}", merges.size(), kMaxMerges);
  Merges out;
  out.pairs.Reserve(merges.size());
  for (size_t i = 0; i < merges.size(); ++i) {
    const auto& [left, right] = merges[i];
    const int64_t left_id = vocabulary.Find(left), right_id = vocabulary.Find(right);
    for (const auto& [half, id] : {std::pair(left, left_id), std::pair(right, right_id)}) {
      if (half.empty() || id < 0)
        return InvalidInput("merge {}: \"{}\" is not in the vocabulary", i, half);
    }
    std::string_view rest = right;
    if (!prefix.empty() && rest.starts_with(prefix)) rest.remove_prefix(prefix.size());
    const int64_t joined = vocabulary.Find(left + std::string(rest));
    if (joined < 0)
      return InvalidInput("merge {}: \"{}{}\" is not in the vocabulary", i, left, rest);
    if (rest.empty()) return InvalidInput("merge {}: \"{}\" stays as it is", i, left);
    out.pairs.Set(Pair(left_id, right_id), Pair(static_cast<int64_t>(i), joined));
  }
  return out;
}

Result<Merges> MergesByScore(const Vocabulary& vocabulary, std::span<const double> scores,
                             bool defined_join) {
  const auto joins = [&](int64_t id) {
    return defined_join ? vocabulary.InText(id) : vocabulary.kind(id) == PieceKind::kNormal;
  };
  Merges out;
  // Characters of pieces that are no pieces themselves are symbols too.
  PieceTrie forward, backward;
  std::map<std::string, int64_t, std::less<>> extra;
  const auto reversed = [](std::string_view text) {
    return std::string(text.rbegin(), text.rend());
  };
  const auto add = [&](std::string_view text, int64_t id) {
    forward.Add(text, id);
    backward.Add(reversed(text), id);
  };
  for (int64_t id = 0; id < vocabulary.size(); ++id) {
    if (!joins(id) || vocabulary.piece(id).empty()) continue;
    add(vocabulary.piece(id), id);
    ForEachCharacter(vocabulary.piece(id), [&](uint32_t, std::string_view c) {
      if (vocabulary.FindText(c) >= 0 || extra.contains(c)) return;
      extra.emplace(c, vocabulary.size() + static_cast<int64_t>(out.characters.size()));
      out.characters.emplace_back(c);
    });
  }
  for (const auto& [text, id] : extra) add(text, id);
  std::vector<double> order;
  for (int64_t id = 0; id < vocabulary.size(); ++id)
    order.push_back(-scores[static_cast<size_t>(id)]);
  std::sort(order.begin(), order.end());
  order.erase(std::unique(order.begin(), order.end()), order.end());
  std::vector<int64_t> rights;  // by the place where it begins, -1: no piece
  for (int64_t id = 0; id < vocabulary.size(); ++id) {
    const std::string& piece = vocabulary.piece(id);
    if (!joins(id) || piece.size() < 2) continue;
    rights.assign(piece.size(), -1);
    backward.ForEachPrefix(reversed(piece), [&](size_t bytes, int64_t right) {
      rights[piece.size() - bytes] = right;
    });
    const auto rank =
        std::lower_bound(order.begin(), order.end(), -scores[static_cast<size_t>(id)]);
    forward.ForEachPrefix(piece, [&](size_t bytes, int64_t left) {
      if (bytes == piece.size() || rights[bytes] < 0) return;
      out.pairs.Set(Pair(left, rights[bytes]), Pair(rank - order.begin(), id));
    });
    if (out.pairs.size() > kMaxMerges)
      return Fail(ErrorCode::kTooLarge, "the pieces are made by more than {} pairs", kMaxMerges);
  }
  return out;
}

Segmenter SegmentByPairs(std::shared_ptr<const Vocabulary> vocabulary, BytePairs rules) {
  // Shared: a function is copied.
  return
      [segmenter = std::make_shared<const PairSegmenter>(std::move(vocabulary), std::move(rules))](
          std::string_view word, std::vector<int64_t>& ids) { return (*segmenter)(word, ids); };
}

}  // namespace evoq
