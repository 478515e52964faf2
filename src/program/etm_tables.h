// Access to the verified FlatBuffers tables of an .etm file; internal to the room.
#pragma once

#include "base/budget.h"
#include "program/container.h"
#include "program/etm_generated.h"
#include "program/model.h"

namespace evoq {

// More than any real model has; bounds the work on a hostile file.
inline constexpr uint32_t kMaxEtmItems = 1 << 22;

// The optional blob of Model::sets.
inline constexpr char kScaleSetsBlob[] = "scale-sets";

// Checks everything that can be reached from the root table of type `root`: each offset, length and
// alignment, that no chain of tables is deeper than 32, and that strings end in 0. Each way to a
// table, string or vector draws on `budget` as a copy of it would: tables and strings may be
// shared, so that a short blob can stand for a large tree. Errors: kInvalidInput naming the blob
// and the byte; kTooLarge.
Status VerifyTables(std::span<const std::byte> bytes, const flatbuffers::TypeTable& root,
                    const char* blob, Budget& budget);

// The root table of a blob, verified.
template <typename Table>
Result<const Table*> VerifiedTable(std::span<const std::byte> bytes, const char* blob,
                                   Budget& budget) {
  EVOQ_TRY(VerifyTables(bytes, *Table::MiniReflectTypeTable(), blob, budget));
  return flatbuffers::GetRoot<Table>(bytes.data());
}

inline std::string EtmText(const flatbuffers::String* s) { return s ? s->str() : std::string(); }

template <typename T>
uint32_t EtmCount(const flatbuffers::Vector<T>* v) {
  return v ? v->size() : 0;
}

// What a verified table holds.
std::vector<Plan> ReadPlans(const fb::Plans& from);

}  // namespace evoq
