#include "prune/pattern.h"

namespace evoq {

extern const PrunePattern kPruneChannel;
const PrunePattern kPruneChannel = {
    .name = "channel",
    .doc = "whole channels with all that computes and reads them: a smaller dense model",
    .channels = true,
    .sparsity = 0.5,
};

}  // namespace evoq
