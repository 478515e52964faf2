// What kernels take for granted of a processor when they cut their work into tiles, blocks and
// parts. Results never depend on it. One model for all processors and instruction sets, so that a
// program is cut alike on every machine; what differs is measured (docs/tuning.md, `evoq limits`),
// but for what CpuModelHere says.
#pragma once

#include <cstdint>
#include <string_view>

namespace evoq {

// Rates of one core at the products of one type.
struct ProductRates {
  double macs_per_ns;   // multiply-accumulates in a register tile
  double bytes_per_ns;  // brought into the core's cache
  double task_ns;       // of a piece of work, for being one

  friend constexpr bool operator==(const ProductRates&, const ProductRates&) = default;
};

struct CpuModel {
  // Rows so many bytes apart compete for the same lines of the L1 cache: of those, so many can be
  // read side by side, and so many where a tile's columns are read beside them.
  int64_t l1_alias_bytes = 4096;
  int64_t l1_alias_rows = 10, l1_alias_tile_rows = 7;
  int64_t l2_bytes = 1 << 20;
  int64_t l3_bytes = 32 << 20;  // a core's share of what cores have in common, at the most

  ProductRates int8 = {.macs_per_ns = 450, .bytes_per_ns = 60, .task_ns = 100};
  // Of float32, and of pairs of bfloat16 counted as one.
  ProductRates float32 = {.macs_per_ns = 56, .bytes_per_ns = 30, .task_ns = 200};

  double fork_ns = 300;      // until other threads have begun
  double late_share = 0.03;  // of a task: what a thread that comes late leaves to the others

  // Whether loops that read each line once, for one or two rows, ask for lines some KiB ahead.
  bool asks_ahead = false;
  // Whether dot products, conversions, shifts and sums of floats all wait for the same two ports,
  // so that what is done beside products costs them their time.
  bool one_set_of_ports = false;

  // Of the L2 cache: what one operand keeps there while others stream by.
  constexpr int64_t l2_share() const { return l2_bytes / 4; }

  friend constexpr bool operator==(const CpuModel&, const CpuModel&) = default;
};

inline constexpr CpuModel kCpuModel = {};

// kCpuModel with what cores of a kind (base/core_kind.h) differ in.
CpuModel CpuModelOf(std::string_view kind);
// Those of this machine.
const CpuModel& CpuModelHere();

}  // namespace evoq
