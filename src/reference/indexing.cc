#include "ops/indexing.h"

#include "reference/definition.h"
#include "reference/indexing.h"
#include "reference/util.h"

namespace evoq {

Result<std::vector<int64_t>> IndicesInput(const EvalArgs& args, size_t i, int64_t size) {
  EVOQ_ASSIGN(std::vector<int64_t> indices,
              WithContext(ToInt64s(args.inputs[i]), fmt::format("input {}", i)));
  for (int64_t& index : indices) {
    EVOQ_ASSIGN(index,
                WithContext(NormalizeIndex(index, size), fmt::format("input {} (indices)", i)));
  }
  return indices;
}

Result<Tensor> AllocateGrown(const TensorType& type) {
  constexpr int64_t kMaxGrownBytes = int64_t{1} << 31;
  const auto bytes = type.bytes();
  if (!bytes || *bytes > kMaxGrownBytes)
    return Fail(ErrorCode::kTooLarge, "would compute {}, more than {} bytes", type.ToString(),
                kMaxGrownBytes);
  return AllocateOutput(type);
}
}  // namespace evoq
