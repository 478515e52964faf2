#include "python/error.h"

namespace evoq {
namespace nb = nanobind;

void Raise(const Error& error) {
  const nb::object type = nb::module_::import_("evoq._error").attr("Error");
  // Names from files may hold any bytes.
  const nb::object message = nb::bytes(error.message().data(), error.message().size()).attr("decode")("utf-8", "replace");
  const nb::object exception = type(message, ErrorCodeName(error.code()));
  PyErr_SetObject(type.ptr(), exception.ptr());
  throw nb::python_error();
}

}  // namespace evoq
