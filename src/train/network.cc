#include "train/network.h"

namespace evoq {

#define EVOQ_ROW_TYPE NetworkDef
#define EVOQ_ROW_FILE "train/networks.inc"
#include "base/rows.inl.h"

std::span<const NetworkDef* const> AllNetworks() { return kAllRows; }

}  // namespace evoq
