// evoq::Lookup(x, table): y = table[x] on the bytes of a uint8 value; `table` is uint8[256].
#include "ops/linear.h"
#include "ops/util.h"

namespace evoq {
namespace {

InferResult Infer(const InferArgs& args) {
  EVOQ_TRY(CheckFloat(args, 0));
  EVOQ_TRY(CheckTable(args, 1));
  return SameAsInput0(args);
}

}  // namespace

extern const OpDef kLookup = {.name = "Lookup",
                              .domain = "evoq",
                              .min_inputs = 2,
                              .max_inputs = 2,
                              .quant = QuantTrait::kTable,
                              .infer = Infer};

}  // namespace evoq
