// Smooth activations, by element (definitions: kernels/math/unary.h), and Dropout, which is the
// identity at inference.
#include "reference/definition.h"
#include "reference/real.h"
#include "reference/util.h"

namespace evoq {
namespace {

EvalResult EvaluateDropout(const EvalArgs& args) {
  Tensor mask = Tensor::Allocate(TensorType(DType::kBool, args.inputs[0].shape()));
  std::fill_n(mask.mutable_data<uint8_t>(), mask.elements(), uint8_t{1});
  return std::vector<Tensor>{args.inputs[0], std::move(mask)};
}

}  // namespace

namespace reference {

extern const Definition kDropout = {.name = "Dropout", .evaluate = EvaluateDropout};
extern const Definition kGelu = {.name = "Gelu", .evaluate = EvaluateUnary<UnaryKind::kGelu>};
extern const Definition kHardSigmoid = {.name = "HardSigmoid",
                                        .evaluate = EvaluateUnary<UnaryKind::kHardSigmoid>};
extern const Definition kHardSwish = {.name = "HardSwish",
                                      .evaluate = EvaluateUnary<UnaryKind::kHardSwish>};
extern const Definition kMish = {.name = "Mish", .evaluate = EvaluateUnary<UnaryKind::kMish>};
extern const Definition kSilu = {
    .name = "Silu", .domain = "evoq", .evaluate = EvaluateUnary<UnaryKind::kSilu>};

}  // namespace reference
}  // namespace evoq
