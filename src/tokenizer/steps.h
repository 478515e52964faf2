// The steps between a text and its words, and between pieces and a text. Names and meanings are
// those of Hugging Face's tokenizers.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/pattern.h"
#include "tokenizer/unicode.h"

namespace evoq {

inline constexpr std::string_view kMetaspace = "\xE2\x96\x81";  // U+2581, stands for a space

// ---- before the words

// Changes valid UTF-8 to valid UTF-8.
using Normalizer = std::function<Status(std::string& text)>;

Normalizer InSequence(std::vector<Normalizer> steps);
Normalizer ReplaceLiteral(std::string from, std::string to);

// The normalizer of a tokenizer.json; one that does nothing for null.
// Errors: kUnsupported naming a type that evoq lacks; kInvalidInput.
Result<Normalizer> ReadNormalizer(const nlohmann::json& normalizer);

// ---- words

struct Word {
  std::string text;    // never empty
  bool first = false;  // begins where the whole text begins
};
// Splits words into smaller ones.
using Splitter = std::function<Status(std::vector<Word>& words)>;

// What becomes of the matches that split a text.
enum class SplitBehavior { kRemoved, kIsolated, kWithPrevious, kWithNext, kContiguous };

Splitter InSequence(std::vector<Splitter> steps);
Splitter SplitAt(Pattern pattern, SplitBehavior behavior);
// How GPT-2 splits a text into words.
inline constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// And Qwen2: letters in any case, a digit at a time.
inline constexpr const char* kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Bytes as 256 characters that are all visible, after GPT-2's pattern split the text where
// `use_regex`.
Result<Splitter> ByteLevel(bool add_prefix_space, bool use_regex);

Result<Splitter> ReadPreTokenizer(const nlohmann::json& pre_tokenizer);

// ---- back to a text

// What a piece adds to the text; `first`: it is the first one.
using PieceStep = std::function<void(std::string& piece, bool first)>;

struct DecodeSteps {
  std::vector<PieceStep> steps;
  // Of the whole text: how often this character is taken away at its beginning.
  std::string strip;
  int64_t strip_count = 0;
  // What the last piece of a word ends with: a space where another piece follows. Goes before the
  // steps.
  std::string word_end;
};

PieceStep ReplaceInPiece(std::string from, std::string to);
PieceStep DecodeBytes();      // "<0x0A>" is that byte
PieceStep DecodeByteLevel();  // ByteLevel's characters are bytes; a piece with others stays

Result<DecodeSteps> ReadDecoder(const nlohmann::json& decoder);

// ---- helpers of the readers

// Replaces all places, from left to right.
void ReplaceAll(std::string& text, std::string_view from, std::string_view to);
// The character that ByteLevel has for a byte.
const std::string& ByteLevelCharacter(unsigned char byte);
bool JsonFlag(const nlohmann::json& object, const char* key, bool fallback = false);

}  // namespace evoq
