// evoq::Lookup(x, table): y = table[x] on the bytes of a uint8 value; `table` is uint8[256]. What a
// chain of functions of one quantized value becomes (docs/passes.md, fuse-tables).
#include "ops/linear.h"
#include "reference/definition.h"
#include "reference/linear.h"
#include "reference/util.h"

namespace evoq {
namespace {

EvalResult Evaluate(const EvalArgs& args) {
  return InvalidInput("input 0 is {}, expected quantized uint8", args.inputs[0].type().ToString());
}

EvalResult EvaluateQuantized(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  const TensorType& y = args.output_types[0];
  if (x.dtype() != DType::kUint8 || y.dtype != DType::kUint8 || !x.type().quantized() ||
      !y.quantized())
    return InvalidInput("{} to {}, expected quantized uint8", x.type().ToString(), y.ToString());
  if (args.inputs[1].dtype() != DType::kUint8)
    return InvalidInput("table (input 1) is {}, expected uint8", args.inputs[1].type().ToString());
  return One(ThroughTable(x, args.inputs[1], y));
}

}  // namespace

namespace reference {

extern const Definition kLookup = {.name = "Lookup",
                                   .domain = "evoq",
                                   .evaluate = Evaluate,
                                   .evaluate_quantized = EvaluateQuantized};

}  // namespace reference
}  // namespace evoq
