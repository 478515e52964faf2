// The host, where it takes longer than what it launches.
#include "foreign/profiles/rule.h"

namespace evoq {
namespace {

std::vector<Loss> FindWaits(const ProfileCase& c) {
  return LossesWhere(c.run, [](const ForeignLayer& layer) { return layer.type == kHostLayer; });
}

std::vector<Loss> FindCopies(const ProfileCase& c) {
  return LossesWhere(c.run,
                     [](const ForeignLayer& layer) { return layer.where.starts_with("Memcpy "); });
}

}  // namespace

extern const ProfileRule kRuleHostBound = {
    .code = "host-bound",
    .tool = "pytorch msprof",
    .sentence =
        "Nothing computes while the host (Python, the dispatcher, the launch) is on its way to the "
        "next operator: it takes longer than what it launches.",
    .fix =
        "Launch more at a time: torch.compile with mode=\"reduce-overhead\" (CUDA graphs), larger "
        "batches, or a runtime that holds the whole model; of weights in subclasses of tensors "
        "(torchao) each call also runs their Python code, unless it is compiled.",
    .source =
        "PyTorch 2.x documentation, torch.compile modes and CUDA graphs; msprof's documentation, "
        "Task Wait Time",
    .find = FindWaits,
};

extern const ProfileRule kRuleTorchCopies = {
    .code = "copies-each-run",
    .tool = "pytorch",
    .sentence = "Each run copies values between the host and the device, or within it.",
    .fix =
        "Keep weights and results on the device; copy inputs from pinned memory with "
        "non_blocking=True; .item(), .cpu() and printing wait for the device.",
    .source = "PyTorch 2.x documentation, CUDA semantics: use pinned memory buffers",
    .find = FindCopies,
};

}  // namespace evoq
