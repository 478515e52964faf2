#include "kernels/cpu_model.h"

#include "base/core_kind.h"

namespace evoq {
namespace {

// What cores of a kind (base/core_kind.h) differ in.
struct OfCores {
  const char* words;  // that its kind begins with
  bool asks_ahead, one_set_of_ports;
};
// A product of one row by 4-bit weights in memory, one core (evoq_profile_bench, matmul_blocks): an
// Emerald Rapids (Intel family 6 model 207) reads 89% of what `limits` measures if it asks and 66%
// if not, a Zen 5 (AMD family 26 model 2) all of it and 79%; a Zen 4, which reads 97% without,
// less. Instructions of 512 bits have ports 0 and 5 on all of Intel's cores since Skylake; a Zen 4
// and a Zen 5 convert on other ports than they multiply on.
constexpr OfCores kOfCores[] = {
    {"Intel", .asks_ahead = true, .one_set_of_ports = true},
    {"AMD family 26", .asks_ahead = true, .one_set_of_ports = false},
};

}  // namespace

CpuModel CpuModelOf(std::string_view kind) {
  CpuModel model = kCpuModel;
  for (const OfCores& row : kOfCores) {
    if (!BeginsWithWords(kind, row.words)) continue;
    model.asks_ahead = row.asks_ahead;
    model.one_set_of_ports = row.one_set_of_ports;
  }
  return model;
}

const CpuModel& CpuModelHere() {
  static const CpuModel kHere = CpuModelOf(CoreKind());
  return kHere;
}

}  // namespace evoq
