#include "prune/pattern.h"

namespace evoq {

extern const PrunePattern kPruneTwoOfFour;
const PrunePattern kPruneTwoOfFour = {
    .name = "2:4",
    .doc =
        "2 of each 4 input channels stay (Mishra et al., 2021); for runtimes that skip the others",
    .keep = 2,
    .of = 4,
};

}  // namespace evoq
