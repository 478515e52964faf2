#include "python/error.h"

#include "base/brief.h"

namespace evoq {
namespace nb = nanobind;

void Raise(const Error& error) {
  const nb::object type = nb::module_::import_("evoq._error").attr("Error");
  const std::string message = PrintableMessage(error.message());
  const nb::object exception =
      type(nb::str(message.data(), message.size()), ErrorCodeName(error.code()));
  PyErr_SetObject(type.ptr(), exception.ptr());
  throw nb::python_error();
}

}  // namespace evoq
