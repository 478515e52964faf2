// Batches whose samples can be computed one after the other.
#pragma once

#include "graph/graph.h"

namespace evoq {

// The number of samples N when every input has N as its first dimension, every output a multiple of
// N, and sample n of each output depends on sample n of the inputs alone; else 1. Types are static.
// A value holds its samples one behind the other, so that a run over a slice of the inputs along
// axis 0 gives the same slice of the outputs.
int64_t IndependentSamples(const Graph& bound);

}  // namespace evoq
