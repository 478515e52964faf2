#include "doctor/source.h"

namespace evoq {

#define EVOQ_ROW(name) extern const ForeignSource name;
#include "doctor/sources.inc"
#undef EVOQ_ROW

std::span<const ForeignSource* const> AllForeignSources() {
#define EVOQ_ROW(name) &name,
  static const ForeignSource* const kSources[] = {
#include "doctor/sources.inc"
  };
#undef EVOQ_ROW
  return kSources;
}

}  // namespace evoq
