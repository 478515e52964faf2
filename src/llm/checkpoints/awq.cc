// AWQ's checkpoints, as AutoAWQ writes them (version "gemm"): of a matrix from K inputs to N
// outputs
//   qweight int32 [K, N / 8]: 8 numbers of a row share a word, in the order 0, 2, 4, 6, 1, 3, 5, 7
//   qzeros int32 [groups, N / 8]: zero points, in the same way
//   scales float16 [groups, N]
#include "base/json_file.h"
#include "llm/checkpoints/packed.h"
#include "llm/packed_matrix.h"
#include "llm/settings.h"

namespace evoq {
namespace {

// Where number i of eight lies.
constexpr std::array<uint8_t, 16> kPlaces = {0, 4, 1, 5, 2, 6, 3, 7};

}  // namespace

Result<StoredTensor> JoinAwq(const CheckpointMatrix& m) {
  EVOQ_ASSIGN(const int64_t bits, Int(m.settings, {"bits", "w_bit"}, 4));
  const std::string version = JsonText(m.settings, "version");
  if (bits != 4) return Unsupported("{}: {} bits, expected 4", m.stem, bits);
  if (!version.empty() && version != "gemm" && version != "GEMM")
    return Unsupported("version '{}', expected gemm", version.substr(0, 60));
  EVOQ_ASSIGN(const StoredTensor* words, m.NeedWords("qweight"));
  EVOQ_ASSIGN(const StoredTensor* scales, m.NeedReal("scales"));
  GroupedMatrix matrix;
  matrix.inputs = words->sizes[0];
  matrix.outputs = words->sizes[1] * 8;
  EVOQ_ASSIGN(matrix.group, WithContext(GroupOf(m.settings, matrix.inputs), m.stem));
  matrix.q = {
      .words = words->bytes, .rows = matrix.inputs, .columns = matrix.outputs, .places = kPlaces};
  EVOQ_TRY(m.Need("scales", scales->dtype, {matrix.groups(), matrix.outputs}));
  PackedNumbers zeros = {.rows = matrix.groups(), .columns = matrix.outputs, .places = kPlaces};
  EVOQ_ASSIGN(const StoredTensor* points, m.Need("qzeros", DType::kInt32, zeros.sizes()));
  zeros.words = points->bytes;
  matrix.zero = [zeros](int64_t g, int64_t n) { return zeros.At(g, n); };
  matrix.scale = ScalesByGroup(*scales);
  return Joined("AWQ int4", std::move(matrix), {*words, *points, *scales});
}

extern const CheckpointFormat kCheckpointAwq = {
    .method = "awq",
    .signs = {"qweight"},
    .parts = {"qweight", "qzeros", "scales"},
    .join = JoinAwq,
};

}  // namespace evoq
