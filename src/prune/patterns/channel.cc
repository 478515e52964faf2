#include "prune/pattern.h"

namespace evoq {

extern const PrunePattern kPruneChannel;
const PrunePattern kPruneChannel = {
    .name = "channel",
    .doc = "whole output channels with what reads them",
    .refused =
        "removing channels changes shapes of what reads them, which is not there yet; "
        "block-4x4 and block-1x16 keep shapes and gain speed",
};

}  // namespace evoq
