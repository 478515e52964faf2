#include "tflite/op_row.h"

#include <algorithm>

#define EVOQ_ROW_TYPE OpRow
#define EVOQ_ROW_FILE "tflite/ops.inc"
namespace evoq::tflite {
#include "base/rows.inl.h"

namespace {

// Names of operators that evoq lacks, for messages.
struct Name {
  int number;
  const char* text;
};
constexpr Name kLacking[] = {
    {10, "HASHTABLE_LOOKUP"},
    {12, "L2_POOL_2D"},
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
    {85, "ONE_HOT"},
    {91, "REDUCE_ANY"},
    {103, "UNIQUE"},
    {112, "REVERSE_SEQUENCE"},
    {113, "MATRIX_DIAG"},
    {115, "MATRIX_SET_DIAG"},
    {120, "NON_MAX_SUPPRESSION_V4"},
    {121, "NON_MAX_SUPPRESSION_V5"},
    {122, "SCATTER_ND"},
    {125, "SEGMENT_SUM"},
    {132, "CONV_3D"},
    {136, "HASHTABLE"},
    {137, "HASHTABLE_FIND"},
    {140, "REDUCE_ALL"},
    {141, "CONV_3D_TRANSPOSE"},
    {145, "BROADCAST_ARGS"},
    {147, "BUCKETIZE"},
    {151, "DYNAMIC_UPDATE_SLICE"},
    {206, "STABLEHLO_COMPOSITE"},
};

}  // namespace

std::span<const OpRow* const> AllOpRows() { return kAllRows; }

const OpRow* FindOpRow(int number) {
  const auto rows = AllOpRows();
  const auto found = std::ranges::lower_bound(rows, number, {}, &OpRow::number);
  return found != rows.end() && (*found)->number == number ? *found : nullptr;
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
