// evoq._evoq.Streams: what the package's class Streams stands on.
#pragma once

#include <nanobind/nanobind.h>

namespace evoq {

void BindStreams(nanobind::module_& module);

}  // namespace evoq
