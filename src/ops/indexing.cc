#include "ops/indexing.h"

#include "ops/util.h"

namespace evoq {

Status CheckRankLimit(int64_t rank) {
  constexpr int64_t kMaxRank = 64;
  if (rank <= kMaxRank) return {};
  return Fail(ErrorCode::kTooLarge, "rank {}, expected at most {}", rank, kMaxRank);
}

Result<int64_t> NormalizeIndex(int64_t index, int64_t size) {
  if (index < -size || index >= size)
    return InvalidInput("index {} is outside [-{}, {})", index, size, size);
  return index < 0 ? index + size : index;
}

Status CheckIndexType(const InferArgs& args, size_t i) {
  return CheckDType(args, i, std::array{DType::kInt32, DType::kInt64});
}

Status CheckElementIndices(const Shape& data, const Shape& indices, int axis) {
  if (!data.ranked() || !indices.ranked()) return {};
  if (data.rank() != indices.rank())
    return InvalidInput("indices {} have another rank than the data {}", indices.ToString(),
                        data.ToString());
  for (int i = 0; i < data.rank(); ++i) {
    if (i != axis && data[i].known() && indices[i].known() && indices[i].value > data[i].value)
      return InvalidInput("indices {} exceed the data {} on axis {}", indices.ToString(),
                          data.ToString(), i);
  }
  return {};
}

Result<std::string> StringAttr(const Node& node, const std::string& name,
                               const std::string& fallback) {
  if (node.attrs.Has(name) && !node.attrs.KindIs<std::string>(name))
    return InvalidInput("attribute {} is not a string", name);
  return node.attrs.String(name, fallback);
}

}  // namespace evoq
