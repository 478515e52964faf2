// calibration.flatbuffers of ONNX Runtime's write_calibration_table (encodings/ort_table.fbs).
#include <flatbuffers/flatbuffers.h>

#include <vector>

#include "encodings/ort_table_generated.h"
#include "encodings/tables/magnitude.h"

namespace evoq {
namespace {

// FlatBuffers begin with an offset whose upper bytes are 0 in a file of any size that is read here.
bool Is(std::string_view bytes) {
  return bytes.size() >= 8 && bytes.substr(0, 4).find('\0') != std::string_view::npos;
}

std::string TextOf(const flatbuffers::String* s) { return s == nullptr ? "" : s->str(); }

Result<CalibrationTable> Parse(std::string_view bytes) {
  // A copy: numbers of a FlatBuffer are read where they lie, aligned as its memory is.
  const std::vector<uint8_t> copy(bytes.begin(), bytes.end());
  const uint8_t* data = copy.data();
  constexpr flatbuffers::uoffset_t kMaxDepth = 8, kMaxTables = 10'000'000;
  flatbuffers::Verifier verifier(data, bytes.size(), kMaxDepth, kMaxTables);
  if (!verifier.VerifyBuffer<ortfb::CalibrationDict>(nullptr))
    return InvalidInput("the FlatBuffer is damaged, or of another schema");
  CalibrationTable table;
  const auto* dict = flatbuffers::GetRoot<ortfb::CalibrationDict>(data)->dict();
  for (uint32_t i = 0; dict != nullptr && i < dict->size(); ++i) {
    const ortfb::KeyValue* item = dict->Get(i);
    EVOQ_ASSIGN(TableEntry entry,
                WithContext(EntryOfMagnitude(TextOf(item->key()), TextOf(item->value())),
                            fmt::format("dict[{}]", i)));
    table.entries.push_back(std::move(entry));
  }
  return table;
}

}  // namespace

extern const TableFormat kTableOrtFlatBuffer = {
    .name = "ONNX Runtime's calibration table as FlatBuffer",
    .doc = "the largest magnitude of each tensor",
    .is = Is,
    .parse = Parse,
};

}  // namespace evoq
