#include "tokenizer/precompiled.h"

#include <utf8proc.h>

#include <cstring>

#include "tokenizer/unicode.h"

namespace evoq {
namespace {

// The fields of a unit, as darts-clone packs them.
bool HasLeaf(uint32_t unit) { return ((unit >> 8) & 1) != 0; }
uint32_t LabelOf(uint32_t unit) { return unit & 0x800000FF; }
uint32_t OffsetOf(uint32_t unit) { return (unit >> 10) << ((unit & 0x200) >> 6); }

}  // namespace

Result<CharacterMap> CharacterMap::Make(std::string_view table) {
  auto made = std::make_shared<Table>();
  if (!table.empty()) {
    uint32_t bytes = 0;
    if (table.size() < sizeof(bytes))
      return InvalidInput("a character map of {} bytes", table.size());
    std::memcpy(&bytes, table.data(), sizeof(bytes));
    table.remove_prefix(sizeof(bytes));
    if (bytes > table.size() || bytes % sizeof(uint32_t) != 0)
      return InvalidInput("a character map whose trie has {} bytes, expected at most {}", bytes,
                          table.size());
    made->units.resize(bytes / sizeof(uint32_t));
    std::memcpy(made->units.data(), table.data(), bytes);
    made->texts = table.substr(bytes);
  }
  CharacterMap map;
  map.table_ = std::move(made);
  return map;
}

CharacterMap::Match CharacterMap::Find(std::string_view text, bool longest) const {
  const std::vector<uint32_t>& units = table_->units;
  Match match;
  if (units.empty()) return match;
  uint32_t node = OffsetOf(units[0]);
  for (size_t i = 0; i < text.size() && text[i] != 0; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    node ^= byte;
    if (node >= units.size() || LabelOf(units[node]) != byte) break;
    const uint32_t unit = units[node];
    node ^= OffsetOf(unit);
    if (!HasLeaf(unit)) continue;
    if (node >= units.size()) break;
    const uint32_t place = units[node] & 0x7FFFFFFF;
    if (place >= table_->texts.size()) break;
    const size_t end = std::min(table_->texts.find('\0', place), table_->texts.size());
    match = {i + 1, std::string_view(table_->texts).substr(place, end - place)};
    if (!longest) break;
  }
  return match;
}

std::string CharacterMap::ByGraphemes(std::string_view text) const {
  std::string out;
  const auto append = [&](std::string_view grapheme) {
    if (grapheme.size() < 6) {
      if (const Match match = Find(grapheme, false); match.bytes > 0) {
        out += match.text;
        return;
      }
    }
    ForEachCharacter(grapheme, [&](uint32_t, std::string_view character) {
      const Match match = Find(character, false);
      out += match.bytes > 0 ? match.text : character;
    });
  };
  utf8proc_int32_t state = 0, before = -1;
  size_t begin = 0, at = 0;
  ForEachCharacter(text, [&](uint32_t code, std::string_view bytes) {
    const auto next = static_cast<utf8proc_int32_t>(code);
    if (before >= 0 && utf8proc_grapheme_break_stateful(before, next, &state)) {
      append(text.substr(begin, at - begin));
      begin = at;
    }
    before = next;
    at += bytes.size();
  });
  append(text.substr(begin));
  return out;
}

}  // namespace evoq
