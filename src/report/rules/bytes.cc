// What the bytes of an .etm file are for.
#include "report/explain_rule.h"

namespace evoq {

extern const ExplainRule kBytesQuantizedWeights = {
    "quantized-weights", LedgerKind::kBytes, "The weights in their narrow type: the payload.",
    "There is no scheme of fewer than 8 bits yet (evoq list methods).", 0};
extern const ExplainRule kBytesScales = {
    "scales", LedgerKind::kBytes, "Scales of more than one: per output channel or per block.",
    "Larger blocks, or one scale per tensor (--per-tensor), where accuracy allows it.", 0};
extern const ExplainRule kBytesZeroPoints = {"zero-points", LedgerKind::kBytes,
                                             "Zero points that differ by channel or block.",
                                             "Symmetric weights have none.", 1};
extern const ExplainRule kBytesBias = {
    "bias", LedgerKind::kBytes, "Biases as 32-bit integers at the scale of input times weights.",
    "", 0};
extern const ExplainRule kBytesLeftFloat = {
    "left-float", LedgerKind::kBytes, "Tensors that stay float, each for its reader's reason.",
    "Quantize their readers (the reasons say what keeps them), or --scheme int8-weights.", 0.75};
extern const ExplainRule kBytesDuplicates = {
    "duplicates", LedgerKind::kBytes,
    "The same values a second time: equal tensors under two names or in two layouts.",
    "Let both readers share one initializer in the model file.", 1};
extern const ExplainRule kBytesShapeConstants = {
    "shape-constants", LedgerKind::kBytes, "Integer constants: shapes, axes, indices, tables.", "",
    0};
extern const ExplainRule kBytesAttributes = {"attributes", LedgerKind::kBytes,
                                             "Tensors among the attributes.", "", 0};
extern const ExplainRule kBytesPacking = {
    "packing", LedgerKind::kBytes,
    "Weights rounded up to whole registers, so that kernels read them as they are.",
    "Channel counts that are multiples of 16 need none.", 0};
extern const ExplainRule kBytesAlignment = {"alignment", LedgerKind::kBytes,
                                            "So that mapped weights start on a cache line.", "", 0};
extern const ExplainRule kBytesGraph = {"graph", LedgerKind::kBytes,
                                        "Operators, types, attributes and their links, compressed.",
                                        "", 0};
extern const ExplainRule kBytesStrings = {"strings", LedgerKind::kBytes,
                                          "Names of nodes and values, strings among constants and "
                                          "attributes, free-form facts; compressed.",
                                          "Shorter names in the model file.", 0};
extern const ExplainRule kBytesPlans = {
    "plans", LedgerKind::kBytes,
    "Kernel choices with their reasons, and measured choices, compressed.", "", 0};
extern const ExplainRule kBytesCertificate = {
    "certificate", LedgerKind::kBytes,
    "What the file promises: measured times and accuracies of both models.", "", 0};
extern const ExplainRule kBytesHeader = {"header", LedgerKind::kBytes,
                                         "Where the blobs are, with their checksums.", "", 0};

}  // namespace evoq
