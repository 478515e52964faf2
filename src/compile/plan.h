// Plans of a model (program/model.h) from what was compiled of it.
#pragma once

#include "program/model.h"

namespace evoq {

// The model's plan for the program's shapes, made of it where there is none.
Plan& PlanFor(Model& model, const Program& program);

}  // namespace evoq
