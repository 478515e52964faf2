#include "tflite/sparsity.h"

#include "base/budget_scope.h"

namespace evoq::tflite {
namespace {

namespace sp = fb::sparse;
constexpr int kDense = 0, kListed = 1;

// An axis in traversal order: how many indices it has, and how far apart these lie.
struct Level {
  int64_t size = 0, stride = 0;
};

// The axes of the tensor, then blocks, a permutation of each. A block's size is its dense size; the
// axis that it divides has as many indices as there are blocks.
Result<std::vector<Level>> LevelsOf(const sp::Sparsity& s, std::span<const int64_t> sizes) {
  const size_t rank = sizes.size(), blocks = s.block_map() == nullptr ? 0 : s.block_map()->size(),
               axes = s.axes() == nullptr ? 0 : s.axes()->size();
  if (s.traversal_order() == nullptr || s.traversal_order()->size() != rank + blocks ||
      axes != rank + blocks)
    return InvalidInput("{} axes of a sparse constant of rank {} with {} blocks", axes, rank,
                        blocks);
  std::vector<Level> of_axis(rank + blocks);  // by axis or rank + block
  int64_t stride = 1;
  for (size_t d = rank; d-- > 0; stride *= sizes[d]) of_axis[d] = {sizes[d], stride};
  std::vector<Level> levels(rank + blocks);
  std::vector<bool> seen(rank + blocks);
  for (size_t i = rank + blocks; i-- > 0;) {  // blocks before the axes that they divide
    const int32_t axis = s.traversal_order()->Get(static_cast<unsigned>(i));
    const size_t least = i < rank ? 0 : rank, most = i < rank ? rank : rank + blocks;
    if (axis < 0 || static_cast<size_t>(axis) < least || static_cast<size_t>(axis) >= most ||
        seen[static_cast<size_t>(axis)])
      return InvalidInput("entry {} of the traversal order is {}", i, axis);
    seen[static_cast<size_t>(axis)] = true;
    Level& level = of_axis[static_cast<size_t>(axis)];
    if (i >= rank) {
      const unsigned block = static_cast<unsigned>(axis) - static_cast<unsigned>(rank);
      const int32_t divides = s.block_map()->Get(block);
      if (divides < 0 || static_cast<size_t>(divides) >= rank)
        return InvalidInput("block {} divides axis {} of {}", block, divides, rank);
      Level& outer = of_axis[static_cast<size_t>(divides)];
      const int64_t size = s.axes()->Get(static_cast<unsigned>(i))->dense_size();
      if (size < 1 || outer.size % size != 0)
        return InvalidInput("blocks of {} on axis {} of size {}", size, divides, outer.size);
      level = {size, outer.stride};
      outer = {outer.size / size, outer.stride * size};
    }
    levels[i] = level;
  }
  return levels;
}

Result<std::vector<int64_t>> Numbers(sp::Indices type, const void* table) {
  const auto read = [](const auto* values) -> Result<std::vector<int64_t>> {
    if (values == nullptr) return std::vector<int64_t>();
    EVOQ_TRY(SpendMemory(static_cast<int64_t>(values->size()) * 8, "indices of a sparse constant"));
    return std::vector<int64_t>(values->begin(), values->end());
  };
  if (table == nullptr) return std::vector<int64_t>();
  switch (type) {
    case sp::With32: return read(static_cast<const sp::Indices32*>(table)->values());
    case sp::With16: return read(static_cast<const sp::Indices16*>(table)->values());
    case sp::With8: return read(static_cast<const sp::Indices8*>(table)->values());
    default: return std::vector<int64_t>();
  }
}

using Places = std::vector<int64_t>;  // offsets in the dense constant

Result<Places> AllIndices(const sp::Axis& axis, const Level& level, const Places& before) {
  if (axis.dense_size() != level.size)
    return InvalidInput("a dense size of {}, expected {}", axis.dense_size(), level.size);
  const int64_t count = static_cast<int64_t>(before.size());
  if (level.size > 0 && count > INT64_MAX / 8 / level.size)
    return Fail(ErrorCode::kTooLarge, "{} times {} elements", count, level.size);
  EVOQ_TRY(SpendMemory(count * level.size * 8, "places of a sparse constant"));
  Places places;
  places.reserve(static_cast<size_t>(count * level.size));
  for (const int64_t start : before) {
    for (int64_t i = 0; i < level.size; ++i) places.push_back(start + i * level.stride);
  }
  return places;
}

Result<Places> ListedIndices(const sp::Axis& axis, const Level& level, const Places& before) {
  EVOQ_ASSIGN(const std::vector<int64_t> segments, Numbers(axis.segments_type(), axis.segments()));
  EVOQ_ASSIGN(const std::vector<int64_t> indices, Numbers(axis.indices_type(), axis.indices()));
  if (segments.size() != before.size() + 1)
    return InvalidInput("{} segments, expected {}", segments.size(), before.size() + 1);
  const auto count = static_cast<int64_t>(indices.size());
  if (segments.front() != 0 || segments.back() != count)
    return InvalidInput("segments from {} to {}, expected 0 to {}", segments.front(),
                        segments.back(), count);
  EVOQ_TRY(SpendMemory(count * 8, "places of a sparse constant"));
  Places places;
  places.reserve(indices.size());
  for (size_t k = 0; k < before.size(); ++k) {
    if (segments[k + 1] < segments[k] || segments[k + 1] > count)
      return InvalidInput("segment {} is from {} to {}", k, segments[k], segments[k + 1]);
    for (int64_t i = segments[k]; i < segments[k + 1]; ++i) {
      const int64_t index = indices[static_cast<size_t>(i)];
      if (index < 0 || index >= level.size)
        return InvalidInput("index {} of {} indices", index, level.size);
      places.push_back(before[k] + index * level.stride);
    }
  }
  return places;
}

}  // namespace

Result<std::vector<int64_t>> DensePlaces(const sp::Sparsity& sparsity,
                                         std::span<const int64_t> sizes) {
  EVOQ_ASSIGN(const std::vector<Level> levels, LevelsOf(sparsity, sizes));
  Places places = {0};
  for (size_t i = 0; i < levels.size(); ++i) {
    const sp::Axis& axis = *sparsity.axes()->Get(static_cast<unsigned>(i));
    const auto next = [&]() -> Result<Places> {
      switch (axis.format()) {
        case kDense: return AllIndices(axis, levels[i], places);
        case kListed: return ListedIndices(axis, levels[i], places);
        default: return InvalidInput("format number {}, expected 0 or 1", axis.format());
      }
    };
    EVOQ_ASSIGN(places, WithContext(next(), fmt::format("axis {} of the sparse constant", i)));
  }
  return places;
}

}  // namespace evoq::tflite
