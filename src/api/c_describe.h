// How the C interfaces tell of inputs and outputs. An index out of range, and a NULL in place of
// what is asked, has none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "evoq/evoq.h"

namespace evoq {

inline int CountIn(const std::vector<ArrayInfo>* infos) {
  return infos == nullptr ? 0 : static_cast<int>(infos->size());
}

// Null where there is none.
inline const ArrayInfo* InfoIn(const std::vector<ArrayInfo>* infos, int index) {
  return index < 0 || index >= CountIn(infos) ? nullptr : &(*infos)[static_cast<size_t>(index)];
}

inline int TypeIn(const std::vector<ArrayInfo>* infos, int index) {
  const ArrayInfo* const info = InfoIn(infos, index);
  return info == nullptr ? 0 : static_cast<int>(info->type);
}

inline const char* NameIn(const std::vector<ArrayInfo>* infos, int index) {
  const ArrayInfo* const info = InfoIn(infos, index);
  return info == nullptr ? nullptr : info->name.c_str();
}

// Writes at most `capacity` sizes and returns the rank; -1 where there is none.
inline int WriteShapeIn(const std::vector<ArrayInfo>* infos, int index, int64_t* shape,
                        int capacity) {
  const ArrayInfo* const info = InfoIn(infos, index);
  if (info == nullptr) return -1;
  const auto rank = static_cast<int>(info->shape.size());
  if (shape != nullptr) std::copy_n(info->shape.begin(), std::clamp(capacity, 0, rank), shape);
  return rank;
}

}  // namespace evoq
