#include "python/model_io.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "base/guarded.h"
#include "models/models.h"
#include "onnx/onnx.h"
#include "program/container.h"
#include "program/etm.h"
#include "python/error.h"
#include "reference/reference.h"

namespace evoq {
namespace nb = nanobind;
using namespace nb::literals;
namespace {

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

std::vector<ValueInfo> Describe(const Graph& graph, const std::vector<ValueId>& ids) {
  std::vector<ValueInfo> infos;
  for (ValueId id : ids) infos.push_back({graph.value(id).name, graph.value(id).type});
  return infos;
}

Result<std::unique_ptr<Engine>> FromBytes(const nb::bytes& model, const std::string& label,
                                          const EngineOptions& options) {
  const auto bytes = std::as_bytes(std::span(model.c_str(), model.size()));
  const nb::gil_scoped_release release;
  return Guarded([&] { return LoadEngineBytes(bytes, label, options); });
}

Result<std::unique_ptr<Engine>> FromFile(const std::string& path, const EngineOptions& options) {
  const nb::gil_scoped_release release;
  return Guarded([&] { return LoadEngine(path, options); });
}

// The graph with the types of its outputs: an .etm stores those of its inputs only.
Graph Typed(const Graph& graph) {
  Graph typed = graph;
  const auto& outputs = typed.outputs();
  const auto untyped = [&](ValueId id) { return typed.value(id).type.dtype == DType::kUndefined; };
  if (std::any_of(outputs.begin(), outputs.end(), untyped)) Unwrap(InferTypes(typed));
  return typed;
}

}  // namespace

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

ModelIo::ModelIo(const Graph& graph) : metadata(graph.metadata) {
  const Graph typed = Typed(graph);
  inputs = Describe(typed, typed.inputs());
  outputs = Describe(typed, typed.outputs());
}

Result<std::vector<nb::object>> ModelIo::ByPosition(nb::handle given) const {
  if (nb::isinstance<nb::list>(given) || nb::isinstance<nb::tuple>(given))
    return nb::cast<std::vector<nb::object>>(given);
  if (!nb::isinstance<nb::mapping>(given) || nb::hasattr(given, "dtype"))
    return std::vector<nb::object>{nb::borrow(given)};
  const auto named = nb::borrow<nb::mapping>(given);
  std::vector<std::string> names;
  for (const ValueInfo& v : inputs) names.push_back(v.name);
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

Result<TakenInputs> ModelIo::Take(nb::handle given) const {
  EVOQ_ASSIGN(const std::vector<nb::object> values, ByPosition(given));
  return Take(values);
}

Result<TakenInputs> ModelIo::Take(const std::vector<nb::object>& values) const {
  if (values.size() != inputs.size())
    return Fail(ErrorCode::kUsage, "{} inputs given, expected {}", values.size(), inputs.size());
  TakenInputs taken;
  for (size_t i = 0; i < values.size(); ++i) {
    EVOQ_ASSIGN(Tensor tensor, taken.arrays.Take(values[i], inputs[i].type, inputs[i].name));
    taken.tensors.push_back(std::move(tensor));
  }
  return taken;
}

Result<std::vector<nb::object>> ModelIo::ToArrays(const std::vector<Tensor>& outputs) {
  std::vector<nb::object> arrays;
  for (const Tensor& t : outputs) {
    EVOQ_ASSIGN(nb::object array, ToPython(t));
    arrays.push_back(std::move(array));
  }
  return arrays;
}

nb::dict ModelIo::Named(const std::vector<nb::object>& arrays) const {
  nb::dict named;
  for (size_t i = 0; i < arrays.size(); ++i) named[outputs[i].name.c_str()] = arrays[i];
  return named;
}

nb::dict Described(const GearReport& report) {
  nb::list sizes;
  for (const SizeCount& count : report.sizes) {
    nb::dict entry, shapes;
    for (const auto& [name, shape] : count.shapes) shapes[name.c_str()] = nb::cast(shape);
    entry["shapes"] = shapes;
    entry["gear"] = count.gear;
    entry["runs"] = count.runs;
    entry["padded"] = count.padded;
    entry["misses"] = count.misses;
    entry["prepare_ms"] = count.prepare_ms;
    sizes.append(entry);
  }
  nb::dict told;
  told["gears"] = report.gears;
  told["ready"] = report.ready;
  told["runs"] = report.runs;
  told["padded"] = report.padded;
  told["misses"] = report.misses;
  told["miss_ms"] = report.miss_ms;
  told["worst_miss_ms"] = report.worst_miss_ms;
  told["prepared_beside"] = report.beside;
  told["beside_ms"] = report.beside_ms;
  told["sizes"] = sizes;
  return told;
}

std::unique_ptr<Engine> EngineFrom(const nb::object& source, const EngineOptions& options) {
  return Unwrap(nb::isinstance<nb::bytes>(source)
                    ? FromBytes(nb::borrow<nb::bytes>(source), "model", options)
                    : FromFile(nb::cast<std::string>(source), options));
}

}  // namespace evoq
