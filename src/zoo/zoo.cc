#include "zoo/zoo.h"

namespace evoq {

#define EVOQ_ZOO(symbol) extern const ZooModel symbol;
#include "zoo/zoo.inc"
#undef EVOQ_ZOO

std::span<const ZooModel* const> AllZooModels() {
  static const ZooModel* const kAll[] = {
#define EVOQ_ZOO(symbol) &symbol,
#include "zoo/zoo.inc"
#undef EVOQ_ZOO
  };
  return kAll;
}

const ZooModel* FindZooModel(std::string_view name) {
  for (const ZooModel* model : AllZooModels()) {
    if (name == model->name) return model;
  }
  return nullptr;
}

}  // namespace evoq
