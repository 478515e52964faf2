// Constants of a graph from the tensors of a file; internal to the room.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "llm/architecture.h"
#include "llm/stored_tensor.h"

namespace evoq {

class WeightReader {
 public:
  // `names`: those that the file has, which messages say in place of GGUF's; empty: they are these.
  WeightReader(Graph& graph, const StoredTensors& tensors, std::vector<std::string>& notes,
               std::span<const TensorName> names = {})
      : graph_(graph), tensors_(tensors), notes_(notes), names_(names) {}

  bool Has(const std::string& name) const { return tensors_.contains(name); }
  // Of a tensor that there is.
  size_t Rank(const std::string& name) const { return tensors_.at(name).sizes.size(); }

  // What is asked for twice is one constant.
  //
  // The matrix [inputs, outputs] of a MatMul, which the file holds as [outputs, inputs], or as it
  // is with `by_input`.
  Result<ValueId> Matrix(const std::string& name, int64_t inputs, int64_t outputs, bool by_input);
  // In which order the matrix NAME takes its inputs, as a constant for Gather; invalid: in theirs.
  ValueId Order(const std::string& name);
  // A table [rows, width] whose rows are looked up.
  Result<ValueId> Table(const std::string& name, int64_t rows, int64_t width);
  // A float32 vector, `plus` added to each element.
  Result<ValueId> Vector(const std::string& name, int64_t size, float plus = 0);
  // All elements, of a tensor of these sizes.
  Result<std::vector<double>> Numbers(const std::string& name, const std::vector<int64_t>& sizes);

  // Errors: kUnsupported, naming one, where the file has tensors that nothing read.
  Status CheckAllRead() const;

 private:
  // As messages say a tensor: "input_layernorm.weight of layer 2".
  std::string Shown(std::string_view name) const;
  Result<const StoredTensor*> Find(const std::string& name, const std::vector<int64_t>& sizes);
  Result<Tensor> Floats(const std::string& name, const std::vector<int64_t>& sizes);
  Result<ValueId> NewMatrix(const std::string& name, int64_t inputs, int64_t outputs,
                            bool by_input);
  Result<ValueId> Blocks(const std::string& name, const StoredTensor& stored, bool transposed);

  Graph& graph_;
  const StoredTensors& tensors_;
  std::vector<std::string>& notes_;
  std::span<const TensorName> names_;
  std::set<std::string, std::less<>> read_;
  StoredTensors shaped_;  // of joined tensors that did not know their sizes
  std::map<std::string, ValueId> matrices_, tables_, vectors_;
};

}  // namespace evoq
