// Access to the verified FlatBuffers tables of an .etm file; internal to the room.
#pragma once

#include "program/container.h"
#include "program/etm_generated.h"

namespace evoq {

// More than any real model has; bounds the work on a hostile file.
inline constexpr uint32_t kMaxEtmItems = 1 << 22;

// The table after FlatBuffers' own verification of every offset in it. Errors: kInvalidInput naming the blob.
template <typename Table>
Result<const Table*> VerifiedTable(std::span<const std::byte> bytes, const char* blob) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  flatbuffers::Verifier verifier(data, bytes.size(), /*max_depth=*/32, /*max_tables=*/kMaxEtmItems);
  if (bytes.size() < 8 || !verifier.VerifyBuffer<Table>(nullptr)) return InvalidInput("blob '{}' is not a valid table", blob);
  return flatbuffers::GetRoot<Table>(data);
}

inline std::string EtmText(const flatbuffers::String* s) { return s ? s->str() : std::string(); }

template <typename T>
uint32_t EtmCount(const flatbuffers::Vector<T>* v) {
  return v ? v->size() : 0;
}

}  // namespace evoq
