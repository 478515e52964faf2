// quant_method "fp8", as DeepSeek's and Qwen's checkpoints have it, "mxfp8" and "fbgemm_fp8": of a
// matrix
//   weight F8_E4M3 [outputs, inputs]
//   weight_scale_inv (or weight_scale): what the weights are multiplied by, for each block of
//     weight_block_size (two sizes, 128 x 128), each output, or all; uint8: exponents of powers of
//     two plus 127
#include "llm/checkpoint_format.h"
#include "llm/float8_matrix.h"

namespace evoq {
namespace {

Result<StoredTensor> Join(const CheckpointMatrix& m) {
  const StoredTensor* scales = m.Find("weight_scale_inv");
  if (scales == nullptr) scales = m.Find("weight_scale");
  EVOQ_ASSIGN(const StoredTensor* values, m.Need("weight"));
  EVOQ_ASSIGN(auto block, BlockSizes(m.settings, "weight_block_size"));
  if (block[0] < 1) block = {1, 32};  // where the scales have such sizes, mxfp8's
  return Float8Matrix(*values, *scales, block[0], block[1], m.stem + ".weight");
}

}  // namespace

extern const CheckpointFormat kCheckpointFp8 = {
    .method = "fp8",
    .signs = {"weight_scale_inv", "weight_scale"},
    .parts = {"weight_scale_inv", "weight_scale", "weight", "input_scale", "activation_scale"},
    .join = Join,
};

extern const CheckpointFormat kCheckpointMxfp8 = {
    .method = "mxfp8",
    .signs = {"weight_scale_inv", "weight_scale"},
    .parts = {"weight_scale_inv", "weight_scale", "weight"},
    .join = Join,
};
extern const CheckpointFormat kCheckpointFbgemm = {
    .method = "fbgemm_fp8",
    .signs = {"weight_scale"},
    .parts = {"weight_scale", "weight", "input_scale_ub"},
    .join = Join,
};

}  // namespace evoq
