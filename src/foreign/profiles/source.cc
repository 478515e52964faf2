#include "foreign/profiles/source.h"

namespace evoq {

#define EVOQ_ROW_TYPE ForeignSource
#define EVOQ_ROW_FILE "foreign/profiles/sources.inc"
#include "base/rows.inl.h"

std::span<const ForeignSource* const> AllForeignSources() { return kAllRows; }

}  // namespace evoq
