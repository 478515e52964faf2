// calibration.json of ONNX Runtime's write_calibration_table: tensor -> [min, max], or since 1.17
// tensor -> {"CLS": "TensorData", "lowest": number or array, "highest": ...}, perhaps under "data".
#include <cmath>

#include "base/json_file.h"
#include "encodings/fields.h"
#include "encodings/table.h"

namespace evoq {
namespace {

using nlohmann::json;

bool Is(std::string_view bytes) {
  const size_t first = bytes.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && bytes[first] == '{' && ParseJson(bytes).has_value();
}

// A number, or a numpy array of one: {"CLS": "numpy.array", "data": 1.5}.
Result<float> NumberOf(const json& object, const char* key) {
  EVOQ_ASSIGN(const json* value, Field(object, key));
  const json& in = value->is_object() ? *value : object;
  EVOQ_ASSIGN(const NestedNumbers nested, NumbersField(in, value->is_object() ? "data" : key));
  const auto number = static_cast<float>(nested.numbers[0]);
  if (nested.numbers.size() != 1 || !std::isfinite(number))
    return InvalidInput("\"{}\" is no finite number", key);
  return number;
}

Result<TableEntry> ParseEntry(const std::string& tensor, const json& value) {
  TableEntry entry{.tensor = tensor};
  if (value.is_array()) {
    if (value.size() != 2 || !value[0].is_number() || !value[1].is_number())
      return InvalidInput("expected [min, max]");
    entry.min = value[0].get<float>();
    entry.max = value[1].get<float>();
  } else {
    EVOQ_ASSIGN(entry.min, NumberOf(value, "lowest"));
    EVOQ_ASSIGN(entry.max, NumberOf(value, "highest"));
  }
  if (!(entry.min <= entry.max) || !std::isfinite(entry.min) || !std::isfinite(entry.max))
    return InvalidInput("the range is [{}, {}], expected min <= max", entry.min, entry.max);
  return entry;
}

Result<CalibrationTable> Parse(std::string_view bytes) {
  EVOQ_ASSIGN(const json root, ParseJson(bytes));
  if (!root.is_object()) return InvalidInput("expected a JSON object of tensor: range");
  const auto data = root.find("data");
  const json& tensors = root.contains("CLS") && data != root.end() ? *data : root;
  if (!tensors.is_object()) return InvalidInput("\"data\" is no object of tensor: range");
  CalibrationTable table;
  for (const auto& [tensor, value] : tensors.items()) {
    EVOQ_ASSIGN(TableEntry entry, WithContext(ParseEntry(tensor, value), tensor));
    table.entries.push_back(std::move(entry));
  }
  return table;
}

}  // namespace

extern const TableFormat kTableOrtJson = {
    .name = "ONNX Runtime's calibration table as JSON",
    .doc = "the range of each tensor",
    .is = Is,
    .parse = Parse,
};

}  // namespace evoq
