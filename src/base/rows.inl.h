// Declares the rows of a list file and defines `kAllRows`, pointers to them in the file's order. In
// namespace evoq, once in a source file:
//   #define EVOQ_ROW_TYPE PassDef
//   #define EVOQ_ROW_FILE "passes/passes.inc"
//   #include "base/rows.inl.h"
#define EVOQ_ROW(symbol) extern const EVOQ_ROW_TYPE symbol;
#include EVOQ_ROW_FILE
#undef EVOQ_ROW

namespace {
constexpr const EVOQ_ROW_TYPE* kAllRows[] = {
#define EVOQ_ROW(symbol) &symbol,
#include EVOQ_ROW_FILE
#undef EVOQ_ROW
};
}  // namespace

#undef EVOQ_ROW_TYPE
#undef EVOQ_ROW_FILE
