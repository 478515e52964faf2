// evoq.Model: a loaded model.
#pragma once

#include <nanobind/nanobind.h>

namespace evoq {

void BindModel(nanobind::module_& module);

}  // namespace evoq
