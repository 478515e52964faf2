// GPT-2's bytes as characters: the visible ones of Latin-1 stand for themselves, the other 68 are
// U+0100 on.
#include <array>

#include "tokenizer/steps.h"

namespace evoq {
namespace {

struct Alphabet {
  std::array<std::string, 256> characters;
  std::array<int, 512> bytes;  // by code; -1: none

  Alphabet() {
    bytes.fill(-1);
    uint32_t next = 256;
    for (uint32_t b = 0; b < 256; ++b) {
      const bool visible = (b > 0x20 && b < 0x7F) || (b > 0xA0 && b != 0xAD);
      const uint32_t code = visible ? b : next++;
      AppendUtf8(characters[b], code);
      bytes[code] = static_cast<int>(b);
    }
  }
};

const Alphabet& TheAlphabet() {
  static const Alphabet alphabet;
  return alphabet;
}

}  // namespace

const std::string& ByteLevelCharacter(unsigned char byte) { return TheAlphabet().characters[byte]; }

Result<Splitter> ByteLevel(bool add_prefix_space, bool use_regex) {
  EVOQ_ASSIGN(const Pattern pattern, Pattern::Make(kGpt2Pattern));
  const Splitter split = SplitAt(pattern, SplitBehavior::kIsolated);
  return Splitter([=](std::vector<Word>& words) -> Status {
    if (add_prefix_space) {
      for (Word& word : words) {
        if (!word.text.starts_with(' ')) word.text.insert(0, 1, ' ');
      }
    }
    if (use_regex) EVOQ_TRY(split(words));
    for (Word& word : words) {
      std::string mapped;
      mapped.reserve(word.text.size() + word.text.size() / 4);
      for (const char byte : word.text)
        mapped += ByteLevelCharacter(static_cast<unsigned char>(byte));
      word.text = std::move(mapped);
    }
    return {};
  });
}

PieceStep DecodeByteLevel() {
  return [](std::string& piece, bool) {
    std::string bytes;
    bool all = true;
    ForEachCharacter(piece, [&](uint32_t code, std::string_view) {
      const int byte = code < 512 ? TheAlphabet().bytes[code] : -1;
      all = all && byte >= 0;
      if (all) bytes += static_cast<char>(byte);
    });
    if (all) piece = std::move(bytes);
  };
}

}  // namespace evoq
