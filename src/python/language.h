// Language models, for python/evoq/_language.py.
#pragma once

#include <nanobind/nanobind.h>

namespace evoq {

void BindLanguage(nanobind::module_& m);

}  // namespace evoq
