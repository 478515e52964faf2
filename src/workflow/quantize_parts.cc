#include "workflow/quantize_parts.h"

#include <algorithm>
#include <charconv>

#include "base/file.h"
#include "base/nearest.h"
#include "base/thread_pool.h"
#include "llm/phase.h"
#include "program/etm.h"
#include "quant/layer_bits.h"
#include "quant/low_bits.h"
#include "quant/method.h"
#include "quant/observer.h"
#include "quant/scheme_names.h"
#include "quant/unfuse.h"
#include "workflow/models.h"

namespace evoq {

QuantizeOptions OptionsOf(const QuantizeJob& job) {
  QuantizeOptions options;
  options.per_channel = !job.per_tensor;
  options.block = ParseWeightBlock(job.block).value_or(options.block);  // checked before
  options.threads = job.threads > 0 ? job.threads : PhysicalCores();
  options.activation = job.signed_activations ? DType::kInt8 : DType::kUint8;
  options.symmetric_activations = job.symmetric;
  // Encodings are of the numbers that the model's file has.
  if (!job.encodings_out.empty()) options.equalize = options.correct_bias = false;
  // What a cache of TensorRT's lacks is calibrated as what it has.
  if (!job.calib_cache.empty()) {
    options.activation = DType::kInt8;
    options.symmetric_activations = true;
  }
  options.exclude = job.exclude;
  if (auto bits = ParseWeightBits(job.weight_bits)) options.weight_bits = std::move(*bits);
  if (auto bits = ParseActivationBits(job.activation_bits))
    options.activation_bits = std::move(*bits);
  options.equal_blocks = LowerExtension(job.output) == ".onnx";
  if (options.equal_blocks && job.target != "evoq") options.target = FindQdqTarget(job.target);
  return options;
}

namespace {

Status CheckActivationBits(const QuantizeJob& job) {
  if (job.activation_bits.empty()) return {};
  EVOQ_TRY(ParseActivationBits(job.activation_bits));
  if (job.scheme != "int8")
    return Fail(ErrorCode::kUsage, "--activation-bits: of --scheme int8, not of {}", job.scheme);
  return {};
}

Status CheckWeightBits(const QuantizeJob& job) {
  if (job.weight_bits.empty()) return {};
  EVOQ_ASSIGN(const std::vector<LayerBits> bits, ParseWeightBits(job.weight_bits));
  if (job.scheme != "int8")
    return Fail(ErrorCode::kUsage, "--weight-bits: of --scheme int8, not of {}", job.scheme);
  if (!job.method.empty() && job.method != "none" && HasSigns(bits))
    return Fail(ErrorCode::kUsage,
                "--method {}: not with weights of 1 bit, whose signs are no choice of a method",
                job.method);
  return {};
}

}  // namespace

Status CheckQuantization(const QuantizeJob& job) {
  if (FindScheme(job.scheme) == nullptr && job.scheme != "auto")
    return Fail(ErrorCode::kUsage, "--scheme {}: not one of `evoq list schemes`{}", job.scheme,
                SchemeHint(job.scheme));
  if (job.scheme == "auto" && !job.method.empty())
    return Fail(ErrorCode::kUsage, "--method {}: --scheme auto chooses by measuring plain schemes",
                job.method);
  if (job.method != kAutoMethod) {
    EVOQ_ASSIGN(const MethodChoice methods, ParseMethods(job.method));
    if (methods) EVOQ_TRY(CheckMethods(methods, *FindScheme(job.scheme), OptionsOf(job)));
  }
  EVOQ_TRY(CheckWeightBits(job));
  EVOQ_TRY(CheckActivationBits(job));
  if (IsEtmFile(job.model))
    return Fail(ErrorCode::kUsage, "{} is compiled already; quantize the .onnx", job.model);
  if (!job.observer.empty() && FindObserver(job.observer) == nullptr)
    return Fail(ErrorCode::kUsage, "--observer {}: not one of `evoq list observers`{}",
                job.observer, NearestHint(job.observer, AllObservers()));
  if (const std::string& n = job.calib_samples; !n.empty() && n != "auto") {
    int count = 0;
    const auto [end, error] = std::from_chars(n.data(), n.data() + n.size(), count);
    if (error != std::errc() || end != n.data() + n.size() || count < 1)
      return Fail(ErrorCode::kUsage, "--samples {}: expected auto or a number from 1", n);
  }
  EVOQ_TRY(ParseWeightBlock(job.block));
  const std::pair<const char*, int> counts[] = {{"--calib-random", job.calib_random},
                                                {"--calib-limit", job.calib_limit},
                                                {"--data-limit", job.data_limit}};
  for (const auto& [option, count] : counts) {
    if (count < 0) return Fail(ErrorCode::kUsage, "{} {}: expected at least 0", option, count);
  }
  EVOQ_TRY(CheckThreads(job.threads));
  EVOQ_TRY(CheckSizes(job.shapes));
  return CheckSizes(job.fixed, /*free=*/true);
}

void ForgetEmptyCaches(const Graph& graph, std::vector<std::string>& warnings) {
  const std::optional<CacheInputs> roles = FindCacheInputs(graph);
  for (const ValueId cache : roles ? roles->caches : std::vector<ValueId>()) {
    const std::string told = fmt::format("input {} is 0 everywhere", graph.value(cache).name);
    std::erase_if(warnings,
                  [&](const std::string& w) { return w.find(told) != std::string::npos; });
  }
}

std::map<std::string, int> NarrowLayers(const Graph& graph) {
  std::map<std::string, int> layers;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const int bits = WeightBitsOf(node);
    const Tensor* const w = bits < 8 ? graph.ConstantInput(node, 1) : nullptr;
    if (w != nullptr && w->dtype() == DType::kInt8 &&
        NarrowFactor({w->raw(), w->bytes()}, bits) > 0)
      layers[node.name] = bits;
  }
  return layers;
}

int64_t QuantizedWeightBytes(const Graph& graph, const std::map<std::string, int>& narrow) {
  std::map<ValueId, int> bits;
  for (NodeId id : graph.order()) {
    if (const auto found = narrow.find(graph.node(id).name); found != narrow.end())
      bits[graph.node(id).input(1)] = found->second;
  }
  int64_t bytes = 0;
  for (int i = 0; i < graph.value_count(); ++i) {
    const Value& v = graph.value(ValueId{i});
    if (const auto found = bits.find(ValueId{i}); found != bits.end()) {
      bytes += (v.constant.elements() * found->second + 7) / 8;
      continue;
    }
    const bool bytes_of_weights =
        DTypeBits(v.type.dtype) <= 8 && v.type.dtype != DType::kBool && v.type.shape.rank() >= 2;
    const bool smaller = v.type.quantized() || v.type.dtype == DType::kBfloat16 || bytes_of_weights;
    if (v.is_constant() && smaller) bytes += v.type.bytes().value_or(0);
  }
  return bytes;
}

}  // namespace evoq
