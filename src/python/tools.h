// The tasks of the workflow room, and the verbs of the command line, as functions.
#pragma once

#include <nanobind/nanobind.h>

namespace evoq {

void BindTools(nanobind::module_& module);

}  // namespace evoq
