#include "kernels/cpu_model.h"

#include "base/isa.h"

namespace evoq {

const CpuModel& CpuModelHere() {
  // A product of one row by 4-bit weights in memory, one core: an Intel Xeon of model 207 (Emerald
  // Rapids) reads 89% of what `limits` measures if it asks and 66% if not; a Zen 4, which reads 97%
  // without, less (evoq_profile_bench, matmul_blocks).
  static const CpuModel kHere = [] {
    CpuModel model = kCpuModel;
    model.asks_ahead = IntelCores();
    // Of 512 bits: ports 0 and 5 of all cores since Skylake. A Zen 4 converts on other ports than
    // it multiplies on.
    model.one_set_of_ports = IntelCores();
    return model;
  }();
  return kHere;
}

}  // namespace evoq
