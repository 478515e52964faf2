#include "passes/clean.h"

namespace evoq {
namespace {

Result<int> Run(Graph& graph) {
  const int transposes = JoinTransposes(graph);
  return transposes + JoinReshapes(graph);
}

}  // namespace

extern const PassDef kCleanLowered = {
    .name = "clean-lowered",
    .doc = "clean-transpose and clean-reshape again, on what channels-last left at the borders.",
    .stage = Stage::kLower,
    .level = 1,
    .run = Run,
};

}  // namespace evoq
