// What tokenizers ask of Unicode: valid text, classes of characters, case and normal forms. The
// tables are utf8proc's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace evoq {

inline constexpr uint32_t kReplacement = 0xFFFD;  // stands for bytes that are no UTF-8

void AppendUtf8(std::string& out, uint32_t code);
// The text with each byte that is part of no character (overlong forms and surrogates are none)
// replaced by U+FFFD. What is valid stays as it is.
std::string ValidUtf8(std::string_view text);
// How many bytes at the end begin a character whose rest may follow: 0 to 3.
size_t UnfinishedBytes(std::string_view text);

// Of a valid text (what is not valid counts byte by byte): calls per character, with its code and
// its bytes.
template <typename Function>
void ForEachCharacter(std::string_view text, Function function);

bool IsSpace(uint32_t code);        // White_Space
bool IsPunctuation(uint32_t code);  // ASCII's symbols too, as BERT has it
bool IsNumeric(uint32_t code);      // Nd, Nl, No
bool IsMark(uint32_t code);         // Mn, Mc, Me
bool IsNonspacingMark(uint32_t code);
bool IsOther(uint32_t code);  // Cc, Cf, Cn, Co, Cs
bool IsWord(uint32_t code);   // \w of UTS 18: letters, marks, digits, connectors, joiners

std::string Lowercase(std::string_view text);
std::string Uppercase(std::string_view text);

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };
std::string Normalized(std::string_view text, NormalForm form);

// ---- implementation

// The character that begins at `at` of a text, at least one byte long.
struct CharacterAt {
  uint32_t code;
  size_t bytes;
};
CharacterAt NextCharacter(std::string_view text, size_t at);

template <typename Function>
void ForEachCharacter(std::string_view text, Function function) {
  for (size_t at = 0; at < text.size();) {
    const CharacterAt c = NextCharacter(text, at);
    function(c.code, text.substr(at, c.bytes));
    at += c.bytes;
  }
}

}  // namespace evoq
