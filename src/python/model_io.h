// The inputs and outputs of a model as Python has them.
#pragma once

#include <nanobind/nanobind.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "python/arrays.h"

namespace evoq {

// An input or output.
struct ValueInfo {
  std::string name;
  TensorType type;
};
void BindValueInfo(nanobind::module_& m);

// A run's inputs, and the Python values that they point into.
struct TakenInputs {
  ArrayInputs arrays;
  std::vector<Tensor> tensors;
};

struct ModelIo {
  std::vector<ValueInfo> inputs, outputs;
  std::map<std::string, std::string> metadata;

  // Of a model whose file need not say the types of outputs. Raises evoq.Error.
  explicit ModelIo(const Graph& graph);

  // `given`: a mapping by name, a list or tuple by position, or the only input. Errors: kUsage.
  Result<TakenInputs> Take(nanobind::handle given) const;
  // The same of inputs by position.
  Result<TakenInputs> Take(const std::vector<nanobind::object>& values) const;
  // By position, by name.
  static Result<std::vector<nanobind::object>> ToArrays(const std::vector<Tensor>& outputs);
  nanobind::dict Named(const std::vector<nanobind::object>& arrays) const;

 private:
  Result<std::vector<nanobind::object>> ByPosition(nanobind::handle given) const;
};

// What served the runs of a model, as Model.gears has it.
nanobind::dict Described(const GearReport& report);

// A model's engine, from a file or from the bytes of either, which are not needed afterwards.
// Raises evoq.Error.
std::unique_ptr<Engine> EngineFrom(const nanobind::object& source, const EngineOptions& options);

}  // namespace evoq
