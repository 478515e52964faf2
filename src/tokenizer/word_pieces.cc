#include "tokenizer/piece_trie.h"
#include "tokenizer/segmenters.h"
#include "tokenizer/unicode.h"

namespace evoq {

Segmenter SegmentByLongest(std::shared_ptr<const Vocabulary> vocabulary, LongestPieces rules) {
  auto trie = std::make_shared<PieceTrie>();
  for (int64_t id = 0; id < vocabulary->size(); ++id) {
    if (vocabulary->InText(id) && !vocabulary->piece(id).empty())
      trie->Add(vocabulary->piece(id), id);
  }
  uint32_t inner = PieceTrie::kRoot;  // where pieces that begin no word begin
  for (const char byte : rules.prefix) {
    inner = trie->Step(inner, byte);
    if (inner == PieceTrie::kNowhere) break;
  }
  return [trie, inner, rules](std::string_view word, std::vector<int64_t>& ids) -> Status {
    const size_t begun = ids.size();
    int64_t characters = 0;
    ForEachCharacter(word, [&](uint32_t, std::string_view) { ++characters; });
    bool whole = characters <= rules.max_characters;
    for (size_t at = 0; whole && at < word.size();) {
      uint32_t node = at == 0 ? PieceTrie::kRoot : inner;
      size_t longest = at;
      int64_t id = -1;
      for (size_t i = at; i < word.size() && node != PieceTrie::kNowhere; ++i) {
        node = trie->Step(node, word[i]);
        const bool ends_character = i + 1 == word.size() || (word[i + 1] & 0xC0) != 0x80;
        if (node == PieceTrie::kNowhere || !ends_character || trie->IdAt(node) < 0) continue;
        id = trie->IdAt(node);
        longest = i + 1;
      }
      whole = id >= 0;
      if (whole) ids.push_back(id);
      at = longest;
    }
    if (!whole) {
      ids.resize(begun);
      ids.push_back(rules.unknown);
    }
    return {};
  };
}

Segmenter SegmentByWord(std::shared_ptr<const Vocabulary> vocabulary, int64_t unknown) {
  return [vocabulary, unknown](std::string_view word, std::vector<int64_t>& ids) -> Status {
    const int64_t id = vocabulary->FindText(word);
    if (id >= 0 || unknown >= 0) ids.push_back(id >= 0 ? id : unknown);
    return {};
  };
}

}  // namespace evoq
