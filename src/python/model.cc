#include "python/model.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "base/file.h"
#include "base/guarded.h"
#include "engine/shared.h"
#include "python/error.h"
#include "python/model_io.h"

namespace evoq {
namespace nb = nanobind;
using namespace nb::literals;
namespace {

class PyModel {
 public:
  PyModel(std::unique_ptr<Engine> engine, int threads, int streams)
      : threads_(threads > 0 ? threads : PhysicalCores()),
        io_(engine->model().graph),
        shared_(std::move(engine), streams) {}

  const std::vector<ValueInfo>& inputs() const { return io_.inputs; }
  const std::vector<ValueInfo>& outputs() const { return io_.outputs; }
  const std::map<std::string, std::string>& metadata() const { return io_.metadata; }
  int threads() const { return threads_; }
  int streams() const { return shared_.streams(); }
  std::string in_regions() const { return shared_.in_regions(); }

  nb::object Adaptive();
  nb::dict Gears();
  void SaveSizes(const std::filesystem::path& path) {
    Unwrap(WriteFileAtomic(path.string(), CountsText(shared_.gears())));
  }
  void WaitForGears() {
    const nb::gil_scoped_release release;
    shared_.WaitForGears();
  }
  void PinScaleSet(const std::optional<std::string>& name) {
    Unwrap(shared_.PinScaleSet(name.value_or("")));
  }

  nb::dict Run(nb::handle inputs) { return io_.Named(RunOn(Unwrap(io_.Take(inputs)))); }

  nb::object Call(const nb::args& inputs) {
    std::vector<nb::object> values;
    for (nb::handle input : inputs) values.push_back(nb::borrow(input));
    const std::vector<nb::object> arrays = RunOn(Unwrap(io_.Take(values)));
    return arrays.size() == 1 ? arrays[0] : nb::object(nb::tuple(nb::cast(arrays)));
  }

  std::string Repr() const {
    std::string text = "evoq.Model(";
    for (const ValueInfo& v : io_.inputs)
      text += fmt::format("{}: {}, ", v.name, v.type.ToString());
    if (!io_.inputs.empty()) text.resize(text.size() - 2);
    text += ") ->";
    for (const ValueInfo& v : io_.outputs)
      text += fmt::format(" {}: {},", v.name, v.type.ToString());
    text.pop_back();
    return text;
  }

 private:
  std::vector<nb::object> RunOn(const TakenInputs& inputs) {
    auto results = [&] {
      const nb::gil_scoped_release release;
      return Guarded([&] { return shared_.Run(inputs.tensors); });
    }();
    return Unwrap(ModelIo::ToArrays(Unwrap(std::move(results))));
  }

  int threads_;
  ModelIo io_;
  SharedEngine shared_;
};

// `adaptive`: None, or the numbers by name.
std::optional<AdaptiveOptions> AdaptiveFrom(const std::optional<nb::dict>& given) {
  if (!given) return std::nullopt;
  AdaptiveOptions options;
  for (const auto& [key, value] : *given) {
    const auto name = nb::cast<std::string>(key);
    if (name == "clip_limit") {
      options.clip_limit = nb::cast<double>(value);
    } else if (name == "widen_after") {
      options.widen_after = nb::cast<int>(value);
    } else if (name == "narrow_after") {
      options.narrow_after = nb::cast<int>(value);
    } else if (name == "look_every") {
      options.every = nb::cast<int>(value);
    } else if (name == "scale_set") {
      options.pinned = nb::cast<std::string>(value);
    } else if (name == "watch") {
      options.watch = nb::cast<bool>(value);
    } else {
      Raise(Error(ErrorCode::kUsage,
                  fmt::format("adaptive: {}, expected clip_limit, widen_after, narrow_after, "
                              "look_every, scale_set or watch",
                              name)));
    }
  }
  return options;
}

nb::object Described(const std::optional<AdaptiveState>& state) {
  if (!state) return nb::none();
  nb::dict told, runs, rates;
  for (size_t s = 0; s < state->sets.size(); ++s)
    runs[state->sets[s].c_str()] = state->runs_by_set[s];
  for (const WatchedTensor& tensor : state->tensors) rates[tensor.name.c_str()] = tensor.rate();
  told["active"] = state->sets[state->active];
  told["runs"] = runs;
  told["looks"] = state->looks;
  told["switches"] = state->switches;
  told["clip_rate"] = state->clip_rate;
  told["clip_rates"] = rates;
  return told;
}

nb::dict PyModel::Gears() {
  const GearReport report = [&] {
    const nb::gil_scoped_release release;
    return shared_.gears();
  }();
  return Described(report);
}

nb::object PyModel::Adaptive() {
  auto state = [&] {
    const nb::gil_scoped_release release;
    return shared_.adaptive();
  }();
  return Described(state);
}

PyModel* Load(const nb::object& source, int threads, InputShapes shapes, int streams, bool tuned,
              const std::optional<nb::dict>& adaptive, bool gears) {
  if (threads < 0 || threads > 1024)
    Raise(Error(ErrorCode::kUsage, fmt::format("threads={}, expected 0 to 1024", threads)));
  if (streams < 1 || streams > 256)
    Raise(Error(ErrorCode::kUsage, fmt::format("streams={}, expected 1 to 256", streams)));
  const EngineOptions options{threads, std::move(shapes), tuned, AdaptiveFrom(adaptive), gears};
  return new PyModel(EngineFrom(source, options), threads, streams);
}

}  // namespace

void BindModel(nb::module_& m) {
  BindValueInfo(m);
  nb::class_<PyModel>(
      m, "Model", nb::is_weak_referenceable(),
      "A loaded model; evoq.load makes it. Any number of Python threads may run it at once: up to "
      "`streams` runs go on\n"
      "together, each on `threads` threads, the others wait. The GIL is free while it runs.")
      .def_prop_ro("inputs", &PyModel::inputs, "The inputs, in order.")
      .def_prop_ro("outputs", &PyModel::outputs, "The outputs, in order.")
      .def_prop_ro("metadata", &PyModel::metadata,
                   "Facts that travel with the model: 'onnx.producer_name', 'evoq.scheme', ...")
      .def_prop_ro("threads", &PyModel::threads)
      .def_prop_ro("streams", &PyModel::streams)
      .def_prop_ro(
          "in_regions", &PyModel::in_regions,
          "Why the model is no single program but runs in dynamic partitions, one stream at "
          "a time: its sizes depend on its data, or it has\n"
          "subgraphs, sequences, optionals or strings. '' where it is one. A model of "
          "free sizes knows after its first run.")
      .def_prop_ro("adaptive", &PyModel::Adaptive,
                   nb::sig("def adaptive(self) -> dict[str, typing.Any] | None"),
                   "Of a model that was loaded with adaptive: the scale set of the next run "
                   "('active'), the runs under each\n"
                   "set ('runs'), 'looks', 'switches', the share of the watched elements that was "
                   "clipped at the last look\n"
                   "('clip_rate') and of each watched tensor at all looks ('clip_rates'). None for "
                   "other models, and with several streams.")
      .def_prop_ro(
          "gears", &PyModel::Gears, nb::sig("def gears(self) -> dict[str, typing.Any]"),
          "What served the runs so far: the sizes that the file declares ('gears') and those of "
          "them that are 'ready'; all\n"
          "'runs', those that a gear of another batch served ('padded') and those that waited "
          "until their sizes were prepared\n"
          "('misses', 'miss_ms' in all, 'worst_miss_ms'); what was prepared while no run waited "
          "('prepared_beside', 'beside_ms');\n"
          "and 'sizes', a list of {'shapes', 'gear', 'runs', 'padded', 'misses', 'prepare_ms'}.")
      .def("save_sizes", &PyModel::SaveSizes, "path"_a,
           "Writes how often which sizes came, for compile(..., suggest_gears=K, observed=path).")
      .def("wait_for_gears", &PyModel::WaitForGears,
           "Until all sizes that the file declares are prepared.")
      .def("pin_scale_set", &PyModel::PinScaleSet, "name"_a = nb::none(),
           nb::sig("def pin_scale_set(self, name: str | None = None) -> None"),
           "All further runs use the scale set of this name; None: they change again. Raises "
           "evoq.Error: 'usage' for a model that was not\n"
           "loaded with adaptive, or has no such set.")
      .def("run", &PyModel::Run, "inputs"_a,
           nb::sig("def run(self, inputs: typing.Any) -> dict[str, typing.Any]"),
           "Runs once.\n\n"
           "inputs: a mapping from names to arrays, a list or tuple of arrays by position, or the "
           "array of the only input. An\n"
           "array is a numpy.ndarray, or anything with DLPack or the buffer protocol in this "
           "machine's memory, of exactly the\n"
           "input's dtype; numbers and nested lists become arrays of it. Row-major memory is read "
           "where it is, other layouts are\n"
           "copied; inputs are never written. Sequences are lists, optionals None or the value, "
           "strings str or arrays of str.\n\n"
           "Returns the outputs by name: numpy arrays (writable, of their own memory, which "
           "outlives the model), lists for\n"
           "sequences, None for an empty optional. bfloat16, float8, int4, ... have the dtypes of "
           "the package ml_dtypes.\n\n"
           "The shapes choose the plan: the first run at a new shape prepares it.\n\n"
           "Raises evoq.Error: 'usage' for a missing or unknown input, a wrong dtype or shape, "
           "naming the input; 'too large' when\n"
           "the run does not fit the machine's memory; 'invalid input' from an operator on data "
           "that its definition refuses.")
      .def("__call__", &PyModel::Call,
           nb::sig("def __call__(self, *inputs: typing.Any) -> typing.Any"),
           "Runs once on inputs by position. Returns the output, or a tuple of them when the model "
           "has several. Else as run().")
      .def("__repr__", &PyModel::Repr);
  m.def("load", &Load, "source"_a, "threads"_a = 0, "shapes"_a = InputShapes(), "streams"_a = 1,
        "tuned"_a = true, "adaptive"_a = nb::none(), "gears"_a = false,
        nb::sig("def load(source: str | bytes, threads: int = 0, shapes: dict[str, list[int]] = "
                "{}, streams: int = 1, tuned: bool = True, adaptive: dict[str, typing.Any] | None "
                "= None, gears: bool = False) -> Model"),
        "Loads a file, or the bytes of one. evoq.load is the way in.");
}

}  // namespace evoq
