// Variables of a TensorFlow Lite graph, which keep their values from run to run: VAR_HANDLE names
// one, READ_VARIABLE and ASSIGN_VARIABLE read and write it, the subgraph that CALL_ONCE runs gives
// it its first value.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "tflite/tensors.h"

namespace evoq::tflite {

struct Variable {
  std::string name;
  bool assigned = false;  // by an operator of the graph
  Tensor initial;         // undefined: none
  TensorFacts initial_facts;
  int32_t tensor = -1;  // has the value before the operator at hand; -1: nothing read or wrote it
  ValueId state;        // the input of the graph; invalid: none
};

class Variables {
 public:
  // Those that operators of the file's subgraph name.
  explicit Variables(const File& file);

  // The variable that a tensor of the subgraph names; nullptr: none.
  Variable* Find(int32_t tensor);
  const std::vector<Variable>& all() const { return all_; }
  // Gives variables the constants that `init`, a file at the subgraph that CALL_ONCE runs, assigns
  // to them. Errors: kUnsupported for other operators there than VAR_HANDLE and ASSIGN_VARIABLE,
  // and for computed values; kInvalidInput for a variable that is read or written already.
  Status Initialize(const File& init);

 private:
  using Key = std::pair<std::string, std::string>;  // container and name
  static Key KeyOf(const fb::Operator& op);
  Status Assign(const File& init, const fb::Operator& op, const std::map<int32_t, Key>& keys);

  std::map<Key, size_t> by_key_;
  std::map<int32_t, size_t> by_tensor_;
  std::vector<Variable> all_;
};

}  // namespace evoq::tflite
