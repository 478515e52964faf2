// AutoRound's checkpoints, whose packing_format says which of GPTQ's and AWQ's they are laid out
// as: "auto_round:auto_gptq" and "auto_round:gptq" with zero points less 1, "auto_round:auto_awq"
// and "auto_round:awq".
#include "base/json_file.h"
#include "llm/checkpoints/packed.h"

namespace evoq {
namespace {

Result<StoredTensor> Join(const CheckpointMatrix& m) {
  const std::string form = JsonText(m.settings, "packing_format");
  if (form == "auto_round:auto_gptq" || form == "auto_round:gptq") return JoinGptq(m);
  if (form == "auto_round:auto_awq" || form == "auto_round:awq") return JoinAwq(m);
  return Unsupported("packing_format '{}', expected auto_round:auto_gptq or auto_round:auto_awq",
                     form.substr(0, 60));
}

}  // namespace

extern const CheckpointFormat kCheckpointAutoRound = {
    .method = "auto-round",
    .signs = {"qweight"},
    .parts = {"qweight", "qzeros", "scales", "g_idx"},
    .join = Join,
};

}  // namespace evoq
