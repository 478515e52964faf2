// A model's requests, run once more by another one, its float model: what quantization pays, seen
// on the requests that really come.
#pragma once

#include <memory>

#include "serve/repository.h"

namespace evoq::serve {

struct Agreement {
  uint64_t rows = 0, agreed = 0;
};

// Rows are those of the last axis, of all outputs. Floats agree where the largest value of both
// rows stands in the same place (the first of several); rows of one value say nothing and are not
// counted. Integers agree where all are equal. Outputs of other shapes or types do not agree.
Agreement AgreementOf(const Tensors& a, const Tensors& b);

// Has the model's shadow (ModelSettings::shadow) run the inputs, which the model answered with
// these outputs in these times, and counts in the model's statistics how both did. A shadow that is
// not loaded or has requests that wait is left alone: nobody waits longer for it.
void RunShadow(const Repository& repository, std::shared_ptr<ServedModel> model, Tensors inputs,
               Tensors outputs, const InferenceTimes& times);

}  // namespace evoq::serve
