// Conversions that no float step causes, layout, kernels short of the hardware, and time outside
// the steps.
#include "report/explain_rule.h"

namespace evoq {

extern const ExplainRule kCauseExtraConversion = {
    "extra-conversion", LedgerKind::kTime,
    "Q/DQ pairs and changes of scale inside the model that no float operator needs.",
    "Remove the pair, or give both sides the same scale.", 1};
extern const ExplainRule kCauseBorderConversion = {
    "border-conversion", LedgerKind::kTime,
    "The model's inputs are quantized and its outputs dequantized at each run.",
    "Feed and read integers, where the caller has them.", 1};
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
    "layout-change", LedgerKind::kTime, "Transposes at the borders of the channels-last part.",
    "Feed channels-last data (N, H, W, C), or remove the operator that needs channels-first.", 1};
extern const ExplainRule kCauseOtherKernel = {
    "other-kernel", LedgerKind::kTime,
    "These steps run another kernel, or on other types, than where evoq quantizes the model "
    "itself.",
    "Quantize the float model with evoq, or with scales as it chooses them (docs/quantization.md).",
    1};
extern const ExplainRule kCauseKernelBelowIdeal = {
    "kernel-below-ideal", LedgerKind::kTime,
    "Kernels that gain less over their float counterpart than the hardware allows.",
    "Try --tune; small and thin layers are bound by memory and fixed cost (see their roofline "
    "share).",
    0};
extern const ExplainRule kCauseMovesBytes = {
    "moves-bytes", LedgerKind::kTime,
    "Operators that only move or combine values gain less than the smaller bytes allow.",
    "Fuse them into a neighbour (residual, activation) where the graph allows it.", 0};
extern const ExplainRule kCauseHostTime = {
    "host-time", LedgerKind::kTime,
    "Time of a run outside its steps: what the caller does for each run, checks, waking threads.",
    "Do the caller's work beside the runs (another thread, several streams), or give a run more "
    "samples.",
    1};
extern const ExplainRule kCauseMeasurementTax = {
    "measurement-tax", LedgerKind::kTime,
    "What timing each step adds to a run: the steps' times hold it, the measured time, taken "
    "without, does not.",
    "", 0};

}  // namespace evoq
