#include "cli/common.h"
#include "cli/verb.h"
#include "profile/limits_file.h"

namespace evoq {

namespace {

VerbRun Declare(const VerbOptions&, const CommonOptions& common) {
  return [&common]() -> Result<nlohmann::json> {
    EVOQ_ASSIGN(const Isa isa, SelectIsa());
    const MachineLimits limits =
        MeasureMachine(isa, common.threads > 0 ? common.threads : PhysicalCores());
    Out("{}, {}, {} thread{}\n", limits.cpu, IsaName(limits.isa), limits.threads,
        limits.threads == 1 ? "" : "s");
    Out("int8     {:8.1f} GOPS\n", limits.int8_gops);
    Out("bfloat16 {:8.1f} GFLOPS\n", limits.bf16_gflops);
    Out("float32  {:8.1f} GFLOPS\n", limits.fp32_gflops);
    Out("L3 read  {:8.1f} GB/s\n", limits.l3_read_gbps);
    Out("DRAM read{:8.1f} GB/s\n", limits.dram_read_gbps);
    Out("L2 read  {:8.1f} GB/s\n", limits.l2_read_gbps);
    Out("clock    {:8.2f} GHz\n", limits.clock_ghz);
    Out("fork     {:8.0f} ns\n", limits.fork_ns);
    if (const Status kept = KeepLimits(LimitsCachePath(), limits); !kept)
      Log("warning: {}", kept.error().message());
    return ToJson(limits);
  };
}

}  // namespace

extern const VerbDef kVerbLimits = {
    .name = "limits",
    .doc = "Measures what this machine can do at most, per instruction family and memory level.",
    .example = "evoq limits --threads 1",
    .declare = Declare,
};

}  // namespace evoq
