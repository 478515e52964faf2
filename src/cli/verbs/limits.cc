#include "cli/common.h"
#include "cli/verb.h"
#include "profile/limits.h"

namespace evoq {

nlohmann::json LimitsJson(const Limits& limits) {
  return {{"cpu", limits.cpu}, {"isa", IsaName(limits.isa)}, {"threads", limits.threads},
          {"int8_gops", limits.int8_gops}, {"bf16_gflops", limits.bf16_gflops}, {"fp32_gflops", limits.fp32_gflops},
          {"dram_read_gbps", limits.dram_read_gbps}, {"l3_read_gbps", limits.l3_read_gbps}};
}

namespace {

VerbRun Declare(CLI::App&, const CommonOptions& common) {
  return [&common]() -> Result<nlohmann::json> {
    EVOQ_ASSIGN(const Isa isa, SelectIsa());
    const Limits limits = MeasureLimits(isa, common.threads > 0 ? common.threads : PhysicalCores());
    Out("{}, {}, {} thread{}\n", limits.cpu, IsaName(limits.isa), limits.threads, limits.threads == 1 ? "" : "s");
    Out("int8     {:8.1f} GOPS\n", limits.int8_gops);
    Out("bfloat16 {:8.1f} GFLOPS\n", limits.bf16_gflops);
    Out("float32  {:8.1f} GFLOPS\n", limits.fp32_gflops);
    Out("L3 read  {:8.1f} GB/s\n", limits.l3_read_gbps);
    Out("DRAM read{:8.1f} GB/s\n", limits.dram_read_gbps);
    return LimitsJson(limits);
  };
}

}  // namespace

extern const VerbDef kVerbLimits;
const VerbDef kVerbLimits = {"limits", "Measures what this machine can do at most, per instruction family and memory level.",
                             "evoq limits --threads 1", Declare};

}  // namespace evoq
