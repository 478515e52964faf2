// NonMaxSuppression(boxes, scores, max_output_boxes_per_class?, iou_threshold?, score_threshold?)
// -> rows of (batch, class, box).
#include "ops/util.h"

namespace evoq {
namespace {

InferResult Infer(const InferArgs& args) {
  for (size_t i : {0, 1, 3, 4}) EVOQ_TRY(CheckFloat(args, i));
  EVOQ_TRY(CheckRank(args, 0, 3));
  EVOQ_TRY(CheckRank(args, 1, 3));
  const Shape &boxes = args.inputs[0].shape, &scores = args.inputs[1].shape;
  if (boxes.ranked() && boxes[2].known() && boxes[2].value != 4)
    return InvalidInput("input 0 is {}, expected boxes of 4 numbers", boxes.ToString());
  if (boxes.ranked() && scores.ranked() && boxes.is_static() && scores.is_static() &&
      (boxes[0] != scores[0] || boxes[1] != scores[2]))
    return InvalidInput("boxes {} and scores {} do not belong together", boxes.ToString(),
                        scores.ToString());
  return std::vector<TensorType>{TensorType(DType::kInt64, Shape(std::vector<Dim>{Dim(), Dim(3)}))};
}

}  // namespace

extern const OpDef kNonMaxSuppression = {
    .name = "NonMaxSuppression", .min_inputs = 2, .max_inputs = 5, .infer = Infer};

}  // namespace evoq
