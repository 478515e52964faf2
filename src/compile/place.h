// Where each value of a program lives.
#pragma once

#include "program/model.h"

namespace evoq {

// Fills placements, arenas and live_bytes of a program that has its graph and steps:
// from the lifetimes of values, in one arena for each memory (compile/memory.h). Errors: those of
// PlanArena.
Status PlaceValues(Program& program);

}  // namespace evoq
