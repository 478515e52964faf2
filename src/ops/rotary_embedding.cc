// RotaryEmbedding(x, cos_cache, sin_cache, position_ids?): turns pairs of values of each head by
// their token's angles.
#include "ops/indexing.h"
#include "ops/util.h"

namespace evoq {
namespace {

InferResult Infer(const InferArgs& args) {
  for (size_t i : {0, 1, 2}) EVOQ_TRY(CheckFloat(args, i));
  if (args.has(3)) EVOQ_TRY(CheckIndexType(args, 3));
  const Shape& x = args.inputs[0].shape;
  EVOQ_ASSIGN(const int64_t heads, IntAttr(args.node, "num_heads", 0));
  EVOQ_ASSIGN(const int64_t rotated, IntAttr(args.node, "rotary_embedding_dim", 0));
  if (rotated < 0 || rotated % 2 != 0)
    return InvalidInput("attribute rotary_embedding_dim is {}, expected an even number", rotated);
  if (!x.ranked()) return SameAsInput0(args);
  if (x.rank() != 3 && x.rank() != 4)
    return InvalidInput("input 0 is {}, expected rank 3 or 4", x.ToString());
  if (x.rank() == 3 && heads <= 0)
    return InvalidInput("attribute num_heads is {}, which an input of rank 3 needs", heads);
  if (x.rank() == 3 && x[2].known() && x[2].value % heads != 0)
    return InvalidInput("input 0 is {}, expected a multiple of {} heads", x.ToString(), heads);
  return SameAsInput0(args);
}

}  // namespace

extern const OpDef kRotaryEmbedding = {
    .name = "RotaryEmbedding", .min_inputs = 3, .max_inputs = 4, .infer = Infer, .indices = 3};

}  // namespace evoq
