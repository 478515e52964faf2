// Whether programs of one model for batches of other sizes compute the same of a sample.
#pragma once

#include "base/isa.h"
#include "kernels/derived.h"
#include "program/model.h"
#include "runtime/executor.h"

namespace evoq {

// Whether both have the same steps, with the same attributes and constants: a model may compute
// with the size of its batch, which is a constant in a program.
bool SameStepsAtSizes(const Program& a, const Program& b);

// Whether `program` also gives a sample the same bits as `executor`, on as many threads: it has the
// same kernels, and those of floats that have several ways (KernelDef::variants), which may round
// differently, would go the same one. Binds such steps, whose derived weights `derived` shares.
bool SameBits(const Program& program, const Executor& executor, Isa isa, DerivedWeights& derived);

}  // namespace evoq
