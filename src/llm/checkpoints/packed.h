// How the parts of a matrix of GPTQ's and AWQ's checkpoints become one, for the methods that write
// them too.
#pragma once

#include "llm/checkpoint_format.h"

namespace evoq {

Result<StoredTensor> JoinGptq(const CheckpointMatrix& m);
Result<StoredTensor> JoinAwq(const CheckpointMatrix& m);

}  // namespace evoq
