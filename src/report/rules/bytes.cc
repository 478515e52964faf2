// What the bytes of an .etm file are for.
#include "report/explain_rule.h"

namespace evoq {

extern const ExplainRule kBytesQuantizedWeights = {
    .code = "quantized-weights",
    .ledger = LedgerKind::kBytes,
    .sentence = "The weights in their narrow type: the payload.",
    .fix = "A scheme of fewer bits, where accuracy allows it (evoq list schemes).",
};
extern const ExplainRule kBytesScales = {
    .code = "scales",
    .ledger = LedgerKind::kBytes,
    .sentence = "Scales of more than one: per output channel or per block.",
    .fix = "Larger blocks, or one scale per tensor (--per-tensor), where accuracy allows it.",
};
extern const ExplainRule kBytesZeroPoints = {
    .code = "zero-points",
    .ledger = LedgerKind::kBytes,
    .sentence = "Zero points that differ by channel or block.",
    .fix = "Symmetric weights have none.",
    .recoverable = 1,
};
extern const ExplainRule kBytesBias = {
    .code = "bias",
    .ledger = LedgerKind::kBytes,
    .sentence = "Biases as 32-bit integers at the scale of input times weights.",
    .fix = "",
};
extern const ExplainRule kBytesLeftFloat = {
    .code = "left-float",
    .ledger = LedgerKind::kBytes,
    .sentence = "Tensors that stay float, each for its reader's reason.",
    .fix = "Quantize their readers (the reasons say what keeps them), or --scheme int8-weights.",
    .recoverable = 0.75,
};
extern const ExplainRule kBytesDuplicates = {
    .code = "duplicates",
    .ledger = LedgerKind::kBytes,
    .sentence = "The same values a second time: equal tensors under two names or in two layouts.",
    .fix = "Let both readers share one initializer in the model file.",
    .recoverable = 1,
};
extern const ExplainRule kBytesScaleSets = {
    .code = "scale-sets",
    .ledger = LedgerKind::kBytes,
    .sentence = "Scales, zero points and biases of further scale sets, which share all weights.",
    .fix = "Quantize without --scale-sets where the input does not change.",
    .recoverable = 1,
};
extern const ExplainRule kBytesShapeConstants = {
    .code = "shape-constants",
    .ledger = LedgerKind::kBytes,
    .sentence = "Integer constants: shapes, axes, indices, tables.",
    .fix = "",
};
extern const ExplainRule kBytesAttributes = {
    .code = "attributes",
    .ledger = LedgerKind::kBytes,
    .sentence = "Tensors among the attributes.",
    .fix = "",
};
extern const ExplainRule kBytesPacking = {
    .code = "packing",
    .ledger = LedgerKind::kBytes,
    .sentence = "Weights rounded up to whole registers, so that kernels read them as they are.",
    .fix = "Channel counts that are multiples of 16 need none.",
};
extern const ExplainRule kBytesAlignment = {
    .code = "alignment",
    .ledger = LedgerKind::kBytes,
    .sentence = "So that mapped weights start on a cache line.",
    .fix = "",
};
extern const ExplainRule kBytesGraph = {
    .code = "graph",
    .ledger = LedgerKind::kBytes,
    .sentence = "Operators, types, attributes and their links, compressed.",
    .fix = "",
};
extern const ExplainRule kBytesStrings = {
    .code = "strings",
    .ledger = LedgerKind::kBytes,
    .sentence =
        "Names of nodes and values, strings among constants and attributes, free-form facts; "
        "compressed.",
    .fix = "Shorter names in the model file.",
};
extern const ExplainRule kBytesPlans = {
    .code = "plans",
    .ledger = LedgerKind::kBytes,
    .sentence = "Kernel choices with their reasons, and measured choices, compressed.",
    .fix = "",
};
extern const ExplainRule kBytesCertificate = {
    .code = "certificate",
    .ledger = LedgerKind::kBytes,
    .sentence = "What the file promises: measured times and accuracies of both models.",
    .fix = "",
};
extern const ExplainRule kBytesHeader = {
    .code = "header",
    .ledger = LedgerKind::kBytes,
    .sentence = "Where the blobs are, with their checksums.",
    .fix = "",
};

}  // namespace evoq
