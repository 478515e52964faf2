// GPTQ's checkpoints, as AutoGPTQ and GPTQModel write them: of a matrix from K inputs to N outputs
//   qweight int32 [K * bits / 32, N]: numbers that follow each other down a column share a word
//   qzeros int32 [groups, N * bits / 32]: zero points, those of a row share a word; less 1 in
//     checkpoint_format "gptq", as they are in "gptq_v2"
//   scales float16 [groups, N]
//   g_idx int32 [K]: the group of each input (desc_act: in no order)
#include "base/json_file.h"
#include "llm/checkpoints/packed.h"
#include "llm/packed_matrix.h"
#include "llm/settings.h"

namespace evoq {

Result<StoredTensor> JoinGptq(const CheckpointMatrix& m) {
  EVOQ_ASSIGN(const int64_t bits, Int(m.settings, {"bits"}, 4));
  if (bits != 2 && bits != 4 && bits != 8)
    return Unsupported("{}: {} bits, expected 2, 4 or 8", m.stem, bits);
  const std::string form = JsonText(m.settings, "checkpoint_format");
  if (!form.empty() && form != "gptq" && form != "gptq_v2")
    return Unsupported("checkpoint_format '{}', expected gptq or gptq_v2", form.substr(0, 60));
  const int plus = form == "gptq_v2" ? 0 : 1, most = (1 << bits) - 1;
  EVOQ_ASSIGN(const StoredTensor* words, m.NeedWords("qweight"));
  EVOQ_ASSIGN(const StoredTensor* scales, m.NeedReal("scales"));
  GroupedMatrix matrix;
  matrix.inputs = words->sizes[0] * 32 / bits;
  matrix.outputs = words->sizes[1];
  EVOQ_ASSIGN(matrix.group, WithContext(GroupOf(m.settings, matrix.inputs), m.stem));
  matrix.q = {.words = words->bytes,
              .rows = matrix.inputs,
              .columns = matrix.outputs,
              .bits = static_cast<int>(bits),
              .down = true};
  PackedNumbers zeros = {
      .rows = matrix.groups(), .columns = matrix.outputs, .bits = static_cast<int>(bits)};
  EVOQ_ASSIGN(const StoredTensor* points, m.Need("qzeros", DType::kInt32, zeros.sizes()));
  EVOQ_TRY(m.Need("scales", scales->dtype, {matrix.groups(), matrix.outputs}));
  zeros.words = points->bytes;
  if (m.Find("g_idx") != nullptr) {
    EVOQ_ASSIGN(const StoredTensor* g_idx, m.Need("g_idx", DType::kInt32, {matrix.inputs}));
    EVOQ_ASSIGN(matrix.order,
                WithContext(OrderByGroup(*g_idx, matrix.inputs, matrix.group), m.stem));
  }
  matrix.scale = ScalesByGroup(*scales);
  matrix.zero = [zeros, plus, most](int64_t g, int64_t n) {
    return (zeros.At(g, n) + plus) & most;
  };
  return Joined(fmt::format("GPTQ int{}", bits), std::move(matrix), {*words, *points, *scales});
}

extern const CheckpointFormat kCheckpointGptq = {
    .method = "gptq",
    .signs = {"qweight"},
    .parts = {"qweight", "qzeros", "scales", "g_idx"},
    .join = JoinGptq,
};

}  // namespace evoq
