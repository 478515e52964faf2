// Experts of gpt-oss's folders, whose gates and ups are one stack, in turn; internal to the room.
#pragma once

#include "llm/language_model.h"

namespace evoq {

// Takes the tensors blk.N.ffn_pair_exps, ffn_pair_bias, ffn_pair_blocks, ffn_pair_scales and
// ffn_last_exps, ... out and puts matrices and vectors of each expert in: column (of biases
// element; of blocks row) 2 i of a pair is the gate's i, 2 i + 1 the up's. Blocks of 32 inputs are
// 16 bytes of float4e2m1, the earlier of two numbers lowest, and scales 2^(byte - 127). Errors:
// kInvalidInput for other sizes or a scale that is no number.
Status TakeExpertsInTurn(const LanguageModel& model, StoredTensors& tensors);

}  // namespace evoq
