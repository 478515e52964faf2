// gpt-oss's folders: experts are stacks of float4e2m1 in blocks with scales that are powers of two,
// other matrices plain. What a layer's stacks hold of each expert is taken apart when the model is
// built (llm/experts_in_turn.h).
#include "llm/checkpoint_format.h"

namespace evoq {

extern const CheckpointFormat kCheckpointMxfp4 = {
    .method = "mxfp4",
    .signs = {},
    .parts = {},
    .join = [](const CheckpointMatrix& matrix) -> Result<StoredTensor> {
      return Unsupported("tensor {} alone", matrix.stem);
    },
};

}  // namespace evoq
