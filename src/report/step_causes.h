// Which cause each step of a program belongs to; internal to the room.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "program/model.h"

namespace evoq {

// Same kernel, same element types: what is measured of one holds for the other.
bool SameStep(const Program& a, size_t step_a, const Program& b, size_t step_b);
bool ConvertsOnly(const Node& node);
// Whether the node multiplies by weights: linear and recurrent operators. Narrow ones are faster by
// the ratio of the peaks, not of the bytes.
bool Multiplies(const Node& node);
// Whether a table that the step sends its bytes through does nothing but change their scale.
bool OnlyRescales(const Node& node);

class StepCauses {
 public:
  explicit StepCauses(const Program& program);

  // The code of what makes this step slower than integers would be, its own or that of the steps it
  // stands beside for; "" for a step that is as it should be.
  std::string Fault(size_t step) const;
  // Fault, else the code of what a sound step loses.
  std::string Of(size_t step, bool in_float_run) const;
  // As Fault, for a step that computes on integers beside a float operator: the code of that
  // operator, or "".
  std::string Beside(size_t step) const;
  // The code of a faulty step that reads what this one writes or writes what it reads, or "": it
  // changes what the caches hold.
  std::string Neighbour(size_t step) const;
  // The code of the faulty step that ran last before this one, in this run or the one before it, or
  // "".
  std::string Before(size_t step) const;
  // A copy from one memory to another: it is the reason of its own time alone.
  bool IsCopy(size_t step) const;

 private:
  enum class Side { kReaders, kProducers };
  std::string Root(size_t step) const;
  std::optional<size_t> StepOf(NodeId node) const;
  bool MovesAlone(NodeId node) const;
  std::vector<NodeId> Next(NodeId node, Side side) const;
  std::vector<NodeId> NextSteps(NodeId node, Side side) const;
  bool ReachesBorder(NodeId node, Side side) const;
  bool IsPassedThrough(NodeId node) const;
  std::string Search(NodeId node, Side side, std::vector<bool>& seen) const;
  std::string Find(NodeId node, Side side) const;
  bool IsUselessPair(NodeId node, bool quantizes) const;
  std::string OfFloatBeside(NodeId node, Side side) const;
  std::string OfConversion(NodeId node) const;

  const Program& program_;
  const Graph& graph_;
  std::vector<int> step_of_;  // by NodeId::index, -1 for views
  bool bf16_;                 // the narrow type is bfloat16
};

}  // namespace evoq
