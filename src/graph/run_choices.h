// What its user chose for how a model is compiled and run, beside its passes: facts of the graph
// (graph/choices.h), which an Ascend optimization_config.json brings (docs/ascend.md).
#pragma once

#include "graph/choices.h"

namespace evoq {

// "off": every value of a run has memory of its own (compile/place.h).
inline constexpr char kMemoryReuseChoice[] = "evoq.choice.memory_reuse";
// "off": no convolution is computed by Winograd's method (runtime/executor.h).
inline constexpr char kWinogradChoice[] = "evoq.choice.winograd";
// What computes in bfloat16 when the model is compiled: "bf16 Conv", convolutions, or "bf16", all
// that can (workflow/deployment.h).
inline constexpr char kPrecisionChoice[] = "evoq.choice.precision";
// How many pixels of a convolution's output are computed in a block, as a number (kernels/ways.h).
inline constexpr char kTileChoice[] = "evoq.choice.tile";
// "apart": a batch whose samples do not depend on each other runs sample by sample, "whole": at
// once; without it evoq chooses (engine/engine.h).
inline constexpr char kBatchChoice[] = "evoq.choice.batch";
// The sizes of inputs to prepare for, as JSON: {"input": [[1, 3, 224, 224], ...], ...}, of each
// input as many.
inline constexpr char kShapesChoice[] = "evoq.choice.shapes";
// What counts: "latency", "throughput" or "balanced".
inline constexpr char kStrategyChoice[] = "evoq.choice.strategy";
// How many runs go on beside each other, as a number.
inline constexpr char kStreamsChoice[] = "evoq.choice.streams";
// The priority of each of them, as JSON: [1, 2, 2, 1]; smaller numbers go first
// (engine/stream_set.h).
inline constexpr char kPrioritiesChoice[] = "evoq.choice.stream_priority";
// "apart": each of them has an arena of its own; else runs share those that no run needs.
inline constexpr char kArenasChoice[] = "evoq.choice.arenas";

}  // namespace evoq
