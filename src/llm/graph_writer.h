// What the builders of models' graphs write with.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace evoq {

class GraphWriter {
 protected:
  ValueId Apply(const std::string& op, const std::string& name, std::vector<ValueId> inputs,
                Attrs attrs = {}) {
    return graph_.Apply(op, name, std::move(inputs), std::move(attrs));
  }
  ValueId Ints(const std::string& name, const std::vector<int64_t>& values) {
    return graph_.AddConstant(name, Tensor::FromValues(values));
  }
  ValueId Int(const std::string& name, int64_t value) {
    return graph_.AddConstant(name, Tensor::Scalar<int64_t>(value));
  }
  ValueId Scalar(const std::string& name, float value) {
    return graph_.AddConstant(name, Tensor::Scalar(value));
  }
  ValueId CastTo(const std::string& name, ValueId x, DType type) {
    return Apply("Cast", name, {x}, Attrs::Of("to", static_cast<int64_t>(type)));
  }
  ValueId Times(const std::string& name, ValueId x, float factor) {
    return factor == 1 ? x : Apply("Mul", name, {x, Scalar(name + ".factor", factor)});
  }

  Graph graph_;
};

}  // namespace evoq
