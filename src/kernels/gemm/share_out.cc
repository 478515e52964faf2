#include "kernels/gemm/share_out.h"

#include <algorithm>

#include "base/math.h"

namespace evoq {
namespace {

// Nanoseconds until the last thread is done.
double CostOf(const SharedWork& work, SharedOut cut, int threads, const CpuModel& cpu) {
  const double tiles = static_cast<double>(CeilDiv(work.tiles, cut.row_blocks)),
               units = static_cast<double>(CeilDiv(work.units, cut.column_blocks));
  const double task =
      tiles * (units * work.tile_ns + work.rows_ns) + units * work.columns_ns + work.task_ns;
  const int64_t tasks = cut.row_blocks * cut.column_blocks * work.products;
  return static_cast<double>(CeilDiv(tasks, threads)) * task +
         (tasks > 1 ? cpu.fork_ns + cpu.late_share * task : 0);
}

// Blocks of rows for about `target` tasks with so many blocks of columns.
int64_t RowBlocks(const SharedWork& work, const ShareRule& rule, int threads, int64_t target,
                  int64_t column_blocks) {
  const int64_t each = column_blocks * work.products, least = work.least_row_blocks;
  int64_t wanted = std::max(CeilDiv(target, each), least);
  if (rule.whole_rounds && wanted * each % threads != 0) wanted = RoundUp(wanted, threads);
  wanted = std::min(wanted, std::max(least, work.tiles));
  return rule.whole_rounds ? CeilDiv(work.tiles, CeilDiv(work.tiles, wanted)) : wanted;
}

}  // namespace

SharedOut ShareOut(const SharedWork& work, const ShareRule& rule, int threads,
                   const CpuModel& cpu) {
  SharedOut best = {work.least_row_blocks, 1};
  double best_ns = CostOf(work, best, threads, cpu);
  for (int64_t target = threads; target <= rule.most_per_thread * threads; target += threads) {
    const int64_t most = rule.by == ShareBy::kRows ? 1 : std::min(target, work.units);
    for (int64_t columns = rule.by == ShareBy::kColumns ? most : 1; columns <= most; ++columns) {
      if (rule.whole_rounds && rule.by == ShareBy::kCost && target % columns != 0) continue;
      const SharedOut cut = {RowBlocks(work, rule, threads, target, columns), columns};
      if (const double ns = CostOf(work, cut, threads, cpu); ns < best_ns) {
        best_ns = ns;
        best = cut;
      }
    }
  }
  return best;
}

}  // namespace evoq
