#include "zoo/zoo.h"

#include "base/rows.h"

namespace evoq {

#define EVOQ_ROW_TYPE ZooModel
#define EVOQ_ROW_FILE "zoo/zoo.inc"
#include "base/rows.inl.h"

std::span<const ZooModel* const> AllZooModels() { return kAllRows; }

const ZooModel* FindZooModel(std::string_view name) { return FindRow(AllZooModels(), name); }

}  // namespace evoq
