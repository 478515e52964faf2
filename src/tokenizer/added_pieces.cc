#include <algorithm>

#include "tokenizer/parts.h"
#include "tokenizer/unicode.h"

namespace evoq {
namespace {

// The character that ends before `end`.
uint32_t CharacterBefore(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && (text[at] & 0xC0) == 0x80) --at;
  return NextCharacter(text, at).code;
}

bool BesideWord(std::string_view text, size_t begin, size_t end) {
  return (begin > 0 && IsWord(CharacterBefore(text, begin))) ||
         (end < text.size() && IsWord(NextCharacter(text, end).code));
}

// Where the white space that ends at `end` begins, at `least` at the earliest.
size_t SpaceBegin(std::string_view text, size_t least, size_t end) {
  while (end > least && IsSpace(CharacterBefore(text, end))) {
    do --end;
    while (end > least && (text[end] & 0xC0) == 0x80);
  }
  return end;
}

size_t SpaceEnd(std::string_view text, size_t at) {
  while (at < text.size()) {
    const CharacterAt c = NextCharacter(text, at);
    if (!IsSpace(c.code)) break;
    at += c.bytes;
  }
  return at;
}

}  // namespace

void AddedPieces::Add(AddedPiece piece, std::string_view written) {
  if (written.empty()) return;
  trie_.Add(written, static_cast<int64_t>(pieces_.size()));
  pieces_.push_back(std::move(piece));
}

std::vector<AddedPart> AddedPieces::Split(std::string_view text, bool parse_special) const {
  std::vector<AddedPart> parts;
  size_t end = 0;  // of the parts
  for (size_t at = 0; at < text.size() && !pieces_.empty();) {
    size_t longest = 0;
    int64_t found = -1;
    trie_.ForEachPrefix(text.substr(at), [&](size_t bytes, int64_t piece) {
      longest = bytes;
      found = piece;
    });
    if (found < 0) {
      ++at;
      continue;
    }
    size_t begin = at, stop = at + longest;
    at = stop;
    const AddedPiece& piece = pieces_[static_cast<size_t>(found)];
    if (piece.special && !parse_special) continue;
    if (piece.single_word && BesideWord(text, begin, stop)) continue;
    if (piece.left) begin = SpaceBegin(text, std::min(end, begin), begin);
    if (piece.right) stop = SpaceEnd(text, stop);
    begin = std::max(begin, end);
    if (begin > end) parts.push_back({-1, end, begin});
    parts.push_back({piece.id, begin, stop});
    end = std::max(end, stop);
  }
  if (end < text.size()) parts.push_back({-1, end, text.size()});
  return parts;
}

}  // namespace evoq
