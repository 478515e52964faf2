#include "serve/datatype.h"

#include <array>

namespace evoq::serve {
namespace {

struct Row {
  DType dtype;
  const char* name;
};
constexpr std::array<Row, 13> kRows = {{{DType::kBool, "BOOL"},
                                        {DType::kUint8, "UINT8"},
                                        {DType::kUint16, "UINT16"},
                                        {DType::kUint32, "UINT32"},
                                        {DType::kUint64, "UINT64"},
                                        {DType::kInt8, "INT8"},
                                        {DType::kInt16, "INT16"},
                                        {DType::kInt32, "INT32"},
                                        {DType::kInt64, "INT64"},
                                        {DType::kFloat16, "FP16"},
                                        {DType::kFloat32, "FP32"},
                                        {DType::kFloat64, "FP64"},
                                        {DType::kBfloat16, "BF16"}}};

}  // namespace

const char* DatatypeOf(DType dtype) {
  for (const Row& row : kRows) {
    if (row.dtype == dtype) return row.name;
  }
  return nullptr;
}

}  // namespace evoq::serve
