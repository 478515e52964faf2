// Experts whose matrices a file stacks in one tensor; internal to the room.
#pragma once

#include "llm/language_model.h"

namespace evoq {

// The tensors with a matrix for each expert in place of what is stacked: of
// blk.N.ffn_gate_exps.weight [experts, outputs, inputs] the matrices blk.N.ffn_gate.E.weight; of
// ffn_gate_up_exps, [experts, 2
// * inner, inputs], ffn_gate.E, whose rows stand first, and ffn_up.E; of a bias [experts, outputs]
// vectors. Of folders of gpt-oss
// see llm/experts_in_turn.h. What GGUF has as a vector, the shared expert's own share, is a matrix
// of one row. Views of the same bytes. Errors: kInvalidInput for a stack of another number of
// experts.
Result<StoredTensors> SingleExperts(const LanguageModel& model, const StoredTensors& tensors);

}  // namespace evoq
