// Copies: between devices, between layouts, between precisions.
#include <algorithm>

#include "foreign/profiles/rule.h"

namespace evoq {
namespace {

std::vector<Loss> FindCopies(const ProfileCase& c) {
  return LossesWhere(
      c.run, [](const ForeignLayer& layer) { return layer.conversion == Conversion::kCopy; });
}
std::vector<Loss> FindReformats(const ProfileCase& c) {
  return LossesWhere(
      c.run, [](const ForeignLayer& layer) { return layer.conversion == Conversion::kReformat; });
}

// Nodes of the CPU provider in a session whose other nodes run elsewhere.
std::vector<Loss> FindFallback(const ProfileCase& c) {
  const auto on_cpu = [](const ForeignLayer& layer) {
    return layer.where == "CPUExecutionProvider";
  };
  const bool mixed = std::any_of(
      c.run.layers.begin(), c.run.layers.end(),
      [&](const ForeignLayer& layer) { return !layer.where.empty() && !on_cpu(layer); });
  if (!mixed) return {};
  return LossesWhere(c.run, on_cpu);
}

std::vector<Loss> FindAiCpu(const ProfileCase& c) {
  return LossesWhere(c.run, [](const ForeignLayer& layer) { return layer.where == "AI_CPU"; });
}

// Nodes of TensorFlow Lite's own kernels in a model that a delegate runs in part.
std::vector<Loss> FindOutside(const ProfileCase& c) {
  const auto in_delegate = [](const ForeignLayer& layer) { return layer.where == "delegate"; };
  if (!std::ranges::any_of(c.run.layers, in_delegate)) return {};
  return LossesWhere(c.run, [&](const ForeignLayer& layer) { return !in_delegate(layer); }, 0);
}

}  // namespace

extern const ProfileRule kRuleDeviceCopies = {
    .code = "device-copies",
    .tool = "onnxruntime",
    .sentence =
        "Memcpy nodes carry values between the device and the host, because an operator between "
        "them has no kernel there.",
    .fix =
        "Replace or move the operators that the table shows on CPUExecutionProvider, or run the "
        "whole part between the copies on one device.",
    .source = "ONNX Runtime 1.20 CUDA execution provider, Memcpy warning",
    .find = FindCopies,
};

extern const ProfileRule kRuleReformatCopies = {
    .code = "reformat-copies",
    .tool = "",
    .sentence = "Copies that only change layout or precision between two layers.",
    .fix =
        "Neighbours that ask for one layout need no copy: quantize both or none of them, and keep "
        "channel counts multiples of 32.",
    .source =
        "TensorRT developer guide 8.6 and 10, Reformat layers; oneDNN reorders in OpenVINO 2024; "
        "CANN's TransData and Cast",
    .find = FindReformats,
};

extern const ProfileRule kRuleAiCpu = {
    .code = "ai-cpu",
    .tool = "msprof",
    .sentence = "Operators run on the AI CPU, the slow processor beside the AI cores.",
    .fix =
        "Types that the AI cores have (int32 in place of int64, float32 in place of float64), "
        "fixed "
        "sizes, or another operator for the same.",
    .source = "CANN documentation, msprof op_summary: Task Type AI_CPU",
    .find = FindAiCpu,
};

extern const ProfileRule kRuleOutsideDelegate = {
    .code = "outside-delegate",
    .tool = "tflite",
    .sentence =
        "Nodes that the delegate left to TensorFlow Lite's own kernels: each group of them parts "
        "the delegate's work, and values pass between the two.",
    .fix =
        "What they take is in the profile; what they would take in the delegate is not. Replace "
        "them by operators that the delegate has, with types that it has there (XNNPACK: per "
        "channel int8 weights, no resizing by nearest neighbours).",
    .source = "TensorFlow Lite: delegates, XNNPACK's README, limitations by operator",
    .find = FindOutside,
    .doubt = true,
};

extern const ProfileRule kRuleCpuFallback = {
    .code = "cpu-fallback",
    .tool = "onnxruntime",
    .sentence = "Nodes run on the CPU provider while the rest of the model runs on another one.",
    .fix =
        "Use operators that the other provider has (evoq explain MODEL.onnx --target lists them), "
        "or integers where it has integer kernels only there.",
    .source = "ONNX Runtime 1.20 execution providers",
    .find = FindFallback,
};

}  // namespace evoq
