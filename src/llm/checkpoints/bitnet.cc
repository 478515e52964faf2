// BitNet's checkpoints, as transformers writes them: of a matrix from K inputs to N outputs
//   weight uint8 [N / 4, K]: output n, less 1, is the pair of bits n / (N / 4) of row n % (N / 4)
//   weight_scale real [1]: what weights are divided by, or multiplied (linear_class autobitlinear)
#include "base/json_file.h"
#include "llm/checkpoint_format.h"
#include "llm/packed_matrix.h"
#include "llm/settings.h"

namespace evoq {
namespace {

Result<StoredTensor> Join(const CheckpointMatrix& m) {
  EVOQ_ASSIGN(const bool norms, Truth(m.settings, "use_rms_norm", false));
  if (norms) return Unsupported("use_rms_norm: norms before the products");
  EVOQ_ASSIGN(const StoredTensor* pairs, m.Need("weight"));
  EVOQ_ASSIGN(const StoredTensor* scale, m.NeedReal("weight_scale"));
  if (pairs->dtype != DType::kUint8 || pairs->sizes.size() != 2 || pairs->bytes.empty() ||
      pairs->sizes[0] > INT64_MAX / 4 || scale->sizes != std::vector<int64_t>{1})
    return InvalidInput("{}: weight {} and weight_scale {}, expected uint8 of two sizes and one",
                        m.stem, pairs->ToString(), scale->ToString());
  const int64_t outputs = 4 * pairs->sizes[0], inputs = pairs->sizes[1];
  GroupedMatrix matrix{
      .inputs = inputs,
      .outputs = outputs,
      .group = inputs,
      .q = {.words = pairs->bytes, .rows = outputs, .columns = inputs, .bits = 2, .in_runs = true},
      .by_output = true};
  const bool multiplied = JsonText(m.settings, "linear_class") == "autobitlinear";
  matrix.scale = [s = *scale, multiplied](int64_t, int64_t) {
    return multiplied ? RealAt(s, 0) : 1 / RealAt(s, 0);
  };
  matrix.zero = [](int64_t, int64_t) { return 1; };
  return Joined("BitNet int2", std::move(matrix), {*pairs, *scale});
}

}  // namespace

extern const CheckpointFormat kCheckpointBitnet = {
    .method = "bitnet",
    .signs = {"weight_scale"},
    .parts = {"weight", "weight_scale"},
    .join = Join,
};

}  // namespace evoq
