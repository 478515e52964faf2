// GGUF files, versions 2 and 3: facts of a model and its tensors.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "llm/stored_tensor.h"

namespace evoq {

// A fact: an integer (of any width), a real number, a truth, a text, or a list of these. Texts
// point into the mapped file.
struct GgufValue {
  using Numbers = std::vector<double>;  // whole ones are exact to 2^53
  using Texts = std::vector<std::string_view>;
  std::variant<uint64_t, int64_t, double, bool, std::string_view, Numbers, Texts> value;
};

struct GgufFile {
  std::map<std::string, GgufValue, std::less<>> facts;
  StoredTensors tensors;  // sizes as rows and columns: the file's, reversed
  // The bytes of the facts whose keys begin with "tokenizer.", each as it is in the file, and their
  // number.
  std::string tokenizer_facts;
  uint64_t tokenizer_count = 0;
  std::shared_ptr<const void> owner;  // of what the facts point to

  std::optional<int64_t> Int(std::string_view key) const;  // of an integer fact that fits
  std::optional<double> Real(std::string_view key) const;  // also of an integer
  std::optional<bool> Truth(std::string_view key) const;
  std::string Text(std::string_view key) const;  // "" where there is none
  const GgufValue::Texts* Texts(std::string_view key) const;
  const GgufValue::Numbers* Numbers(std::string_view key) const;
};

bool IsGguf(std::span<const std::byte> bytes);

// Everything is checked: counts and lengths against the bytes that are left, types, the alignment,
// that tensors lie inside the data, aligned and apart. Errors: those of MappedFile::Open;
// kInvalidInput, kUnsupported and kTooLarge, naming the file and the fact or tensor.
Result<GgufFile> ReadGguf(const std::string& path);
// Of a file that is in memory. Errors: the same, without its name.
Result<GgufFile> ParseGguf(std::string bytes);

// A GGUF file that holds the tokenizer's facts and nothing else.
std::string TokenizerGguf(const GgufFile& file);

}  // namespace evoq
