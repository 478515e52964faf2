// Arithmetic with a constant that integer kernels lack, as arithmetic that they have.
#pragma once

#include <vector>

#include "quant/quant.h"

namespace evoq {

// A node that was rewritten, and what it was.
struct PlainArithmetic {
  NodeId node;
  std::string op;
  ValueId operand;  // the constant, input 1
};

// Makes Add of each Sub of a float32 constant, which is the same, and Mul of each division by one
// whose elements have normal reciprocals, which rounds twice. What stays float32 is to be undone.
std::vector<PlainArithmetic> MakeArithmeticPlain(Graph& graph);

// What they were again.
void Undo(Graph& graph, const PlainArithmetic& rewritten);

}  // namespace evoq
