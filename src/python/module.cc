// evoq._evoq: what the package's Python files stand on.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "base/version.h"
#include "cli/verb.h"
#include "python/arrays.h"
#include "python/error.h"
#include "python/model.h"

namespace evoq {
namespace nb = nanobind;
using namespace nb::literals;
namespace {

std::string ToText(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

nb::object Decode(const std::string& text) {
  return nb::bytes(text.data(), text.size()).attr("decode")("utf-8", "replace");
}

// -> (JSON, text, log lines)
nb::tuple Verb(const std::string& name, std::vector<std::string> arguments,
               const std::vector<std::vector<nb::object>>& samples) {
  ArrayInputs arrays;
  std::vector<std::vector<Tensor>> tensors;
  for (size_t i = 0; i < samples.size(); ++i) {
    std::vector<Tensor>& inputs = tensors.emplace_back();
    for (const nb::object& array : samples[i])
      inputs.push_back(Unwrap(arrays.Take(array, TensorType(), fmt::format("of sample {}", i))));
  }
  CommonOptions common;
  common.samples = tensors;
  auto output = [&] {
    const nb::gil_scoped_release release;
    return RunVerb(name, std::move(arguments), std::move(common));
  }();
  const VerbOutput done = Unwrap(std::move(output));
  nb::list log;
  for (const std::string& line : done.log) log.append(Decode(line));
  return nb::make_tuple(Decode(ToText(done.json)), Decode(done.out), log);
}

int Main(const std::vector<std::string>& arguments) {
  std::vector<const char*> argv = {"evoq"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  const nb::gil_scoped_release release;
  return RunCommandLine(static_cast<int>(argv.size()), argv.data());
}

NB_MODULE(_evoq, m) {
  m.attr("__version__") = EVOQ_VERSION;
  BindModel(m);
  m.def("verb", &Verb, "name"_a, "arguments"_a,
        "samples"_a = std::vector<std::vector<nb::object>>(),
        nb::sig("def verb(name: str, arguments: list[str], samples: list[list[typing.Any]] = []) "
                "-> tuple[str, str, list[str]]"),
        "Runs a verb of the command line in this process: the JSON of --json, the text, the lines "
        "for stderr. `samples` are\n"
        "calibration samples: the arrays of each, by position.");
  m.def("main", &Main, "arguments"_a, nb::sig("def main(arguments: list[str]) -> int"),
        "The command `evoq`; returns its exit code.");
}

}  // namespace
}  // namespace evoq
