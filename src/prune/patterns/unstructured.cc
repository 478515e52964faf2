#include "prune/pattern.h"

namespace evoq {

extern const PrunePattern kPruneUnstructured;
const PrunePattern kPruneUnstructured = {
    .name = "unstructured",
    .doc = "each weight by itself",
};

}  // namespace evoq
