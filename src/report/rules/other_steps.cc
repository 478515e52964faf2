// Conversions that no float step causes, layout, kernels short of the hardware, and time outside
// the steps.
#include "report/explain_rule.h"

namespace evoq {

extern const ExplainRule kCauseExtraConversion = {
    .code = "extra-conversion",
    .ledger = LedgerKind::kTime,
    .sentence = "Q/DQ pairs and changes of scale inside the model that no float operator needs.",
    .fix = "Remove the pair, or give both sides the same scale.",
    .recoverable = 1,
};
extern const ExplainRule kCauseBorderConversion = {
    .code = "border-conversion",
    .ledger = LedgerKind::kTime,
    .sentence = "The model's inputs are quantized and its outputs dequantized at each run.",
    .fix = "Feed and read integers, where the caller has them.",
    .recoverable = 1,
};
extern const ExplainRule kCauseCopyBetweenMemories = {
    .code = kTransferKernel,
    .ledger = LedgerKind::kTime,
    .sentence =
        "Values are copied from one memory to another, because a step that reads them runs "
        "on another backend.",
    .fix =
        "Keep neighbours on one backend: what stands between its steps needs a kernel there, or "
        "its part is too small to leave the processor for.",
    .recoverable = 1,
    .claims = [](const Graph&, const Step& step) {
      return step.decision.kernel == kTransferKernel;
    }};
extern const ExplainRule kCauseLayoutChange = {
    .code = "layout-change",
    .ledger = LedgerKind::kTime,
    .sentence =
        "Transposes at the borders of the channels-last part, or around a product whose first "
        "operand was the constant.",
    .fix =
        "Feed channels-last data (N, H, W, C), or remove the operator that needs channels-first.",
    .recoverable = 1,
};
extern const ExplainRule kCauseOtherKernel = {
    .code = "other-kernel",
    .ledger = LedgerKind::kTime,
    .sentence =
        "These steps run another kernel, or on other types, than where evoq quantizes the model "
        "itself.",
    .fix =
        "Quantize the float model with evoq, or with scales as it chooses them "
        "(docs/quantization.md).",
    .recoverable = 1,
};
extern const ExplainRule kCauseKernelBelowIdeal = {
    .code = "kernel-below-ideal",
    .ledger = LedgerKind::kTime,
    .sentence = "Kernels that gain less over their float counterpart than the hardware allows.",
    .fix =
        "Try --tune; small and thin layers are bound by memory and fixed cost (see their roofline "
        "share); what takes longer than in float32 is better left there (quantize --exclude NAME).",
};
extern const ExplainRule kCauseMovesBytes = {
    .code = "moves-bytes",
    .ledger = LedgerKind::kTime,
    .sentence =
        "Operators that only move or combine values gain less than the smaller bytes allow.",
    .fix = "Fuse them into a neighbour (residual, activation) where the graph allows it.",
};
extern const ExplainRule kCauseHostTime = {
    .code = "host-time",
    .ledger = LedgerKind::kTime,
    .sentence =
        "Time of a run outside its steps: what the caller does for each run, checks, waking "
        "threads.",
    .fix =
        "Do the caller's work beside the runs (another thread, several streams), or give a run "
        "more samples.",
    .recoverable = 1,
};
extern const ExplainRule kCauseMeasurementTax = {
    .code = "measurement-tax",
    .ledger = LedgerKind::kTime,
    .sentence =
        "What timing each step adds to a run: the steps' times hold it, the measured time, taken "
        "without, does not.",
    .fix = "",
};

}  // namespace evoq
