#include "python/model.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "base/guarded.h"
#include "engine/shared.h"
#include "models/models.h"
#include "onnx/onnx.h"
#include "python/arrays.h"
#include "python/error.h"
#include "reference/reference.h"

namespace evoq {
namespace nb = nanobind;
using namespace nb::literals;
namespace {

// An input or output.
struct ValueInfo {
  std::string name;
  TensorType type;
};

constexpr const char* kKinds[] = {"tensor", "sequence", "optional", "optional sequence"};

nb::object ShapeOf(const ValueInfo& info) {
  if (!info.type.shape.ranked()) return nb::none();
  nb::list sizes;
  for (const Dim& d : info.type.shape.dims()) {
    if (d.known()) {
      sizes.append(d.value);
    } else if (d.symbol.empty()) {
      sizes.append(nb::none());
    } else {
      sizes.append(nb::str(d.symbol.data(), d.symbol.size()));
    }
  }
  return nb::tuple(sizes);
}

nb::object QuantizationOf(const ValueInfo& info) {
  if (!info.type.quantized()) return nb::none();
  return nb::make_tuple(nb::cast(info.type.quant->scales), nb::cast(info.type.quant->zero_points));
}

class PyModel {
 public:
  // `typed`: the engine's graph with the types of its outputs.
  PyModel(std::unique_ptr<Engine> engine, const Graph& typed, int threads, int streams)
      : threads_(threads > 0 ? threads : PhysicalCores()),
        metadata_(typed.metadata),
        inputs_(Describe(typed, typed.inputs())),
        outputs_(Describe(typed, typed.outputs())),
        shared_(std::move(engine), streams) {}

  const std::vector<ValueInfo>& inputs() const { return inputs_; }
  const std::vector<ValueInfo>& outputs() const { return outputs_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  int threads() const { return threads_; }
  int streams() const { return shared_.streams(); }
  std::string in_regions() const { return shared_.in_regions(); }

  nb::object Adaptive();
  void PinScaleSet(const std::optional<std::string>& name) {
    Unwrap(shared_.PinScaleSet(name.value_or("")));
  }

  nb::dict Run(nb::handle inputs) {
    const std::vector<nb::object> arrays = RunArrays(Unwrap(ByPosition(inputs)));
    nb::dict named;
    for (size_t i = 0; i < arrays.size(); ++i) named[outputs_[i].name.c_str()] = arrays[i];
    return named;
  }

  nb::object Call(const nb::args& inputs) {
    std::vector<nb::object> values;
    for (nb::handle input : inputs) values.push_back(nb::borrow(input));
    const std::vector<nb::object> arrays = RunArrays(values);
    return arrays.size() == 1 ? arrays[0] : nb::object(nb::tuple(nb::cast(arrays)));
  }

  std::string Repr() const {
    std::string text = "evoq.Model(";
    for (const ValueInfo& v : inputs_) text += fmt::format("{}: {}, ", v.name, v.type.ToString());
    if (!inputs_.empty()) text.resize(text.size() - 2);
    text += ") ->";
    for (const ValueInfo& v : outputs_) text += fmt::format(" {}: {},", v.name, v.type.ToString());
    text.pop_back();
    return text;
  }

 private:
  static std::vector<ValueInfo> Describe(const Graph& graph, const std::vector<ValueId>& ids) {
    std::vector<ValueInfo> infos;
    for (ValueId id : ids) infos.push_back({graph.value(id).name, graph.value(id).type});
    return infos;
  }

  // A mapping by name, a list or tuple by position, or the only input.
  Result<std::vector<nb::object>> ByPosition(nb::handle given) const {
    if (nb::isinstance<nb::list>(given) || nb::isinstance<nb::tuple>(given))
      return nb::cast<std::vector<nb::object>>(given);
    if (!nb::isinstance<nb::mapping>(given) || nb::hasattr(given, "dtype"))
      return std::vector<nb::object>{nb::borrow(given)};
    const auto named = nb::borrow<nb::mapping>(given);
    std::vector<std::string> names;
    for (const ValueInfo& v : inputs_) names.push_back(v.name);
    for (nb::handle key : named.keys()) {
      const auto name = nb::cast<std::string>(nb::str(key));
      if (std::find(names.begin(), names.end(), name) == names.end())
        return Fail(ErrorCode::kUsage, "no input is named '{}', the inputs are {}", name,
                    fmt::join(names, ", "));
    }
    std::vector<nb::object> values;
    for (const std::string& name : names) {
      if (!named.contains(name)) return Fail(ErrorCode::kUsage, "input {} is missing", name);
      values.push_back(nb::object(named[name.c_str()]));
    }
    return values;
  }

  std::vector<nb::object> RunArrays(const std::vector<nb::object>& values) {
    if (values.size() != inputs_.size())
      Raise(Error(ErrorCode::kUsage,
                  fmt::format("{} inputs given, expected {}", values.size(), inputs_.size())));
    ArrayInputs arrays;
    std::vector<Tensor> tensors;
    for (size_t i = 0; i < values.size(); ++i)
      tensors.push_back(Unwrap(arrays.Take(values[i], inputs_[i].type, inputs_[i].name)));
    auto results = [&] {
      const nb::gil_scoped_release release;
      return Guarded([&] { return shared_.Run(tensors); });
    }();
    std::vector<nb::object> outputs;
    for (const Tensor& t : Unwrap(std::move(results))) outputs.push_back(Unwrap(ToPython(t)));
    return outputs;
  }

  int threads_;
  std::map<std::string, std::string> metadata_;
  std::vector<ValueInfo> inputs_, outputs_;
  SharedEngine shared_;
};

Result<std::unique_ptr<Engine>> FromBytes(const nb::bytes& onnx, const std::string& label,
                                          const EngineOptions& options) {
  const auto bytes = std::as_bytes(std::span(onnx.c_str(), onnx.size()));
  const nb::gil_scoped_release release;
  return Guarded([&]() -> Result<std::unique_ptr<Engine>> {
    EVOQ_ASSIGN(Graph graph, ImportOnnxBytes(bytes, label));
    EVOQ_TRY(WithContext(RunPasses(graph, Stage::kOptimize), label));
    return WithContext(EngineFromGraph(std::move(graph), options), label);
  });
}

Result<std::unique_ptr<Engine>> FromFile(const std::string& path, const EngineOptions& options) {
  const nb::gil_scoped_release release;
  return Guarded([&] { return LoadEngine(path, options); });
}

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
    } else {
      Raise(Error(ErrorCode::kUsage,
                  fmt::format("adaptive: {}, expected clip_limit, widen_after, narrow_after, "
                              "look_every or scale_set",
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

nb::object PyModel::Adaptive() {
  auto state = [&] {
    const nb::gil_scoped_release release;
    return shared_.adaptive();
  }();
  return Described(state);
}

PyModel* Load(const nb::object& source, int threads, InputShapes shapes, int streams, bool tuned,
              const std::optional<nb::dict>& adaptive) {
  if (threads < 0 || threads > 1024)
    Raise(Error(ErrorCode::kUsage, fmt::format("threads={}, expected 0 to 1024", threads)));
  if (streams < 1 || streams > 256)
    Raise(Error(ErrorCode::kUsage, fmt::format("streams={}, expected 1 to 256", streams)));
  const EngineOptions options{threads, std::move(shapes), tuned, AdaptiveFrom(adaptive)};
  auto engine = nb::isinstance<nb::bytes>(source)
                    ? FromBytes(nb::borrow<nb::bytes>(source), "model", options)
                    : FromFile(nb::cast<std::string>(source), options);
  auto loaded = Unwrap(std::move(engine));
  Graph typed = loaded->model().graph;
  const auto& outputs = typed.outputs();
  const auto untyped = [&](ValueId id) { return typed.value(id).type.dtype == DType::kUndefined; };
  if (std::any_of(outputs.begin(), outputs.end(), untyped))
    Unwrap(InferTypes(typed));  // an .etm stores the types of its inputs only
  return new PyModel(std::move(loaded), typed, threads, streams);
}

void BindValueInfo(nb::module_& m) {
  nb::class_<ValueInfo>(m, "ValueInfo", "An input or output of a model.")
      .def_ro("name", &ValueInfo::name)
      .def_prop_ro(
          "dtype", [](const ValueInfo& v) { return DTypeName(v.type.dtype); },
          "ONNX's name of the element type: 'float32', 'bfloat16', 'int4', 'string', ...")
      .def_prop_ro("shape", &ShapeOf,
                   nb::sig("def shape(self) -> tuple[int | str | None, ...] | None"),
                   "Sizes; the symbol's name where a size is free, None where it has no name. None "
                   "for an unknown rank.")
      .def_prop_ro(
          "kind", [](const ValueInfo& v) { return kKinds[static_cast<int>(v.type.kind)]; },
          "'tensor', 'sequence', 'optional' or 'optional sequence'.")
      .def_prop_ro("quantization", &QuantizationOf,
                   nb::sig("def quantization(self) -> tuple[list[float], list[int]] | None"),
                   "Scales and zero points of a quantized value, whose integer q stands for (q - "
                   "zero_point) * scale; else None.")
      .def("__repr__",
           [](const ValueInfo& v) { return fmt::format("{}: {}", v.name, v.type.ToString()); });
}

}  // namespace

void BindModel(nb::module_& m) {
  BindValueInfo(m);
  nb::class_<PyModel>(
      m, "Model",
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
        "tuned"_a = true, "adaptive"_a = nb::none(),
        nb::sig("def load(source: str | bytes, threads: int = 0, shapes: dict[str, list[int]] = "
                "{}, streams: int = 1, tuned: bool = True, adaptive: dict[str, typing.Any] | None "
                "= None) -> Model"),
        "Loads a file, or the bytes of an ONNX model. evoq.load is the way in.");
}

}  // namespace evoq
