// Fields of entries of an encodings file, read with errors that say what was found and expected.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "encodings/encoding.h"

namespace evoq {

// The field, which must be there.
Result<const nlohmann::json*> Field(const nlohmann::json& entry, const char* key);
Result<std::string> TextField(const nlohmann::json& entry, const char* key);
// A whole number in [low, high]; one with a fraction of 0 (-114.0) is one.
Result<int64_t> IntField(const nlohmann::json& entry, const char* key, int64_t low, int64_t high);
// true or false, also as the text "True" or "False".
Result<bool> BoolField(const nlohmann::json& entry, const char* key);
// The name of an entry of a list, and its place.
Result<Encoding> NamedEntry(const nlohmann::json& entry, const char* section, size_t index);

// A number, or lists of them, nested to the depth of a tensor's rank, all of one depth the same
// length.
struct NestedNumbers {
  std::vector<double> numbers;  // row-major
  std::vector<int64_t> sizes;   // empty for a number alone
};
Result<NestedNumbers> NumbersField(const nlohmann::json& entry, const char* key);

// Finite float32 numbers above 0.
Result<std::vector<float>> AsScales(const std::vector<double>& numbers, const char* key);

// The zero points of 0.6.1 and 1.0.0, whose offsets count from an unsigned 0: a real number is
// (u + offset) * scale with u in [0, 2^bits). Signed integers are u - 2^(bits - 1). Sets
// e.zero_points, or e.refusal where an offset is no whole number of 32 bits.
void SetOffsets(const std::vector<double>& offsets, Encoding& e);
// The reverse: what such a file says of zero point `i`.
int64_t OffsetOf(const Encoding& e, size_t i);

}  // namespace evoq
