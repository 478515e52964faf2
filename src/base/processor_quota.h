// The share of the machine that a container may use.
#pragma once

#include <optional>
#include <string>

namespace evoq {

// How many processors' time the control groups of this process allow it, in whole ones and at least
// 1: the least of its own group's and of those around it (cpu.max of version 2, cpu.cfs_quota_us
// over cpu.cfs_period_us of version 1). Nothing where none limits it. `groups` and `root` are where
// the system says so.
std::optional<int> ProcessorQuota(const std::string& groups = "/proc/self/cgroup",
                                  const std::string& root = "/sys/fs/cgroup");

}  // namespace evoq
