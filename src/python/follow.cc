#include "python/follow.h"

#include <nanobind/stl/string.h>

namespace evoq {
namespace nb = nanobind;

void PyFollow::Hear(const std::string& stage, double fraction) {
  const auto now = std::chrono::steady_clock::now();
  if (raised_ || (stage == stage_ && now - heard_ < std::chrono::milliseconds(50))) return;
  stage_ = stage;
  heard_ = now;
  const nb::gil_scoped_acquire gil;
  try {
    if (!progress_.is_none()) progress_(stage, fraction);
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  } catch (const nb::python_error&) {
    raised_ = std::current_exception();
  }
}

Follow PyFollow::follow() {
  return {[this](const std::string& stage, double fraction) { Hear(stage, fraction); },
          [this] { return raised_ != nullptr; }};
}

}  // namespace evoq
