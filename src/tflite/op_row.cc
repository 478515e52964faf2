#include "tflite/op_row.h"

#include <algorithm>

#define EVOQ_ROW_TYPE OpRow
#define EVOQ_ROW_FILE "tflite/ops.inc"
namespace evoq::tflite {
#include "base/rows.inl.h"
#define EVOQ_ROW(symbol) extern const OpRow symbol;
#include "tflite/custom.inc"
#undef EVOQ_ROW

namespace {

// Names of operators that evoq lacks, for messages.
struct Name {
  int number;
  const char* text;
};
constexpr const OpRow* kCustomRows[] = {
#define EVOQ_ROW(symbol) &symbol,
#include "tflite/custom.inc"
#undef EVOQ_ROW
};
constexpr Name kLacking[] = {
    {10, "HASHTABLE_LOOKUP"},
    {15, "LSH_PROJECTION"},
    {16, "LSTM"},
    {24, "RNN"},
    {27, "SVDF"},
    {31, "CALL"},
    {33, "EMBEDDING_LOOKUP_SPARSE"},
    {35, "UNIDIRECTIONAL_SEQUENCE_RNN"},
    {46, "BIDIRECTIONAL_SEQUENCE_RNN"},
    {51, "DELEGATE"},
    {52, "BIDIRECTIONAL_SEQUENCE_LSTM"},
    {68, "SPARSE_TO_DENSE"},
    {80, "FAKE_QUANT"},
    {136, "HASHTABLE"},
    {137, "HASHTABLE_FIND"},
    {138, "HASHTABLE_IMPORT"},
    {139, "HASHTABLE_SIZE"},
    {146, "RANDOM_STANDARD_NORMAL"},
    {147, "BUCKETIZE"},
    {148, "RANDOM_UNIFORM"},
    {149, "MULTINOMIAL"},
    {153, "UNSORTED_SEGMENT_PROD"},
    {154, "UNSORTED_SEGMENT_MAX"},
    {157, "UNSORTED_SEGMENT_MIN"},
    {159, "BITCAST"},
    {206, "STABLEHLO_COMPOSITE"},
};

}  // namespace

std::span<const OpRow* const> AllOpRows() { return kAllRows; }
std::span<const OpRow* const> CustomOpRows() { return kCustomRows; }

const OpRow* FindOpRow(int number) {
  const auto rows = AllOpRows();
  const auto found = std::ranges::lower_bound(rows, number, {}, &OpRow::number);
  return found != rows.end() && (*found)->number == number ? *found : nullptr;
}

const OpRow* FindOpRow(const fb::OperatorCode& code) {
  const int number = NumberOf(code);
  if (number != kCustom) return FindOpRow(number);
  const auto rows = CustomOpRows();
  const auto found = std::ranges::find(rows, TextOf(code.custom_code()), &OpRow::name);
  return found == rows.end() ? nullptr : *found;
}

std::string OperatorName(const fb::OperatorCode& code) {
  const int number = NumberOf(code);
  if (number == kCustom) return "custom " + TextOf(code.custom_code());
  if (const OpRow* row = FindOpRow(number)) return row->name;
  for (const Name& name : kLacking) {
    if (name.number == number) return name.text;
  }
  return fmt::format("number {}", number);
}

}  // namespace evoq::tflite
