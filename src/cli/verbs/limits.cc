#include "cli/common.h"
#include "cli/verb.h"
#include "profile/limits_file.h"
#include "report/table.h"

namespace evoq {
namespace {

using nlohmann::json;

VerbRun Declare(const VerbOptions&, const CommonOptions& common) {
  return [&common]() -> Result<json> {
    EVOQ_ASSIGN(const Isa isa, SelectIsa());
    const MachineLimits limits =
        MeasureMachine(isa, common.threads > 0 ? common.threads : PhysicalCores());
    Out("{} ({}), {}, {} thread{}\n", limits.cpu, limits.core, IsaName(limits.isa), limits.threads,
        limits.threads == 1 ? "" : "s");
    if (const std::string note = IsaNote(); !note.empty()) Log("note: {}", note);
    Out("int8     {:8.1f} GOPS\n", limits.int8_gops);
    if (limits.bf16_gflops > 0) {
      Out("bfloat16 {:8.1f} GFLOPS\n", limits.bf16_gflops);
    } else {
      Out("bfloat16 as float32\n");
    }
    Out("float32  {:8.1f} GFLOPS\n", limits.fp32_gflops);
    Out("L3 read  {:8.1f} GB/s\n", limits.l3_read_gbps);
    Out("DRAM read{:8.1f} GB/s\n", limits.dram_read_gbps);
    Out("L2 read  {:8.1f} GB/s\n", limits.l2_read_gbps);
    Out("clock    {:8.2f} GHz\n", limits.clock_ghz);
    Out("fork     {:8.0f} ns\n", limits.fork_ns);
    json told = ToJson(limits);
    TextTable table({"instruction set", ">int8 GOPS", ">bfloat16 GFLOPS", ">float32 GFLOPS"});
    for (const SetPeaks& set : MeasureSets(limits.threads)) {
      const auto text = [](double rate) { return rate > 0 ? fmt::format("{:.1f}", rate) : "-"; };
      table.Row(
          {IsaName(set.isa), text(set.int8_gops), text(set.bf16_gflops), text(set.fp32_gflops)});
      told["sets"].push_back({{"isa", IsaName(set.isa)},
                              {"int8_gops", set.int8_gops},
                              {"bf16_gflops", set.bf16_gflops},
                              {"fp32_gflops", set.fp32_gflops}});
    }
    Out("{}", Lines{table.ToString()});
    if (const Status kept = KeepLimits(LimitsCachePath(), limits); !kept)
      Log("warning: {}", kept.error().message());
    return told;
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
