#include "evoq/nn.h"

#include "base/file.h"
#include "base/guarded.h"
#include "base/json_file.h"
#include "base/text.h"
#include "nn/layer.h"
#include "onnx/onnx.h"

namespace evoq::nn {
inline namespace v1 {
namespace {

using nlohmann::json;

Layer Of(const char* kind, json options = json::object()) {
  options["layer"] = kind;
  return Layer(options.dump());
}

json ListOf(const std::vector<Layer>& layers) {
  json list = json::array();
  for (const Layer& layer : layers) {
    const Result<json> parsed = ParseJson(layer.json());
    list.push_back(parsed ? *parsed : json());  // what is none, no network takes
  }
  return list;
}

Layer Pool(const char* kind, std::int64_t size, std::int64_t stride, std::int64_t pad) {
  return Of(kind, {{"size", size}, {"stride", stride == 0 ? size : stride}, {"pad", pad}});
}

}  // namespace

Layer Conv(std::int64_t channels, const ConvOptions& o) {
  json options = {{"channels", channels}, {"size", o.size},         {"stride", o.stride},
                  {"groups", o.groups},   {"dilation", o.dilation}, {"bias", o.bias}};
  if (o.pad != -1) options["pad"] = o.pad;
  return Of("conv", std::move(options));
}
Layer MaxPool(std::int64_t size, std::int64_t stride, std::int64_t pad) {
  return Pool("max-pool", size, stride, pad);
}
Layer AveragePool(std::int64_t size, std::int64_t stride, std::int64_t pad) {
  return Pool("average-pool", size, stride, pad);
}
Layer GlobalPool() { return Of("global-pool"); }
Layer Flatten() { return Of("flatten"); }
Layer BatchNorm() { return Of("batch-norm"); }
Layer GroupNorm(std::int64_t groups) { return Of("group-norm", {{"groups", groups}}); }
Layer Linear(std::int64_t outputs, bool bias) {
  return Of("linear", {{"outputs", outputs}, {"bias", bias}});
}
Layer LayerNorm() { return Of("layer-norm"); }
Layer RmsNorm() { return Of("rms-norm"); }
Layer Embedding(std::int64_t pieces, std::int64_t width) {
  return Of("embedding", {{"pieces", pieces}, {"width", width}});
}
Layer Positions(std::int64_t length) { return Of("positions", {{"length", length}}); }
Layer Attention(std::int64_t heads, bool causal) {
  return Of("attention", {{"heads", heads}, {"causal", causal}});
}
Layer Activation(const std::string& kind) { return Of("activation", {{"kind", kind}}); }
Layer Sequential(const std::vector<Layer>& layers) {
  return Of("sequential", {{"layers", ListOf(layers)}});
}
Layer Residual(const std::vector<Layer>& layers, const std::vector<Layer>& shortcut) {
  return Of("residual", {{"layers", ListOf(layers)}, {"shortcut", ListOf(shortcut)}});
}
Layer Concat(const std::vector<Layer>& layers) {
  return Of("concat", {{"layers", ListOf(layers)}});
}

std::string ToJson(const Network& network) {
  json input = "tokens";
  if (!network.input.empty()) input = network.input;
  const json whole = {{"name", network.name}, {"input", input}, {"layers", ListOf(network.layers)}};
  return whole.dump(1, ' ', false, json::error_handler_t::replace);
}

bool Write(const Network& network, const std::string& path, std::uint64_t seed,
           std::string* error) {
  const Status done = Guarded([&]() -> Status {
    const std::string text = ToJson(network);
    EVOQ_ASSIGN(const Graph graph, WithContext(ParseNetwork(text, seed), network.name));
    return LowerExtension(path) == ".json" ? WriteFileAtomic(path, text) : ExportOnnx(graph, path);
  });
  if (!done && error != nullptr) *error = SentenceOf(done.error());
  return done.has_value();
}

}  // namespace v1
}  // namespace evoq::nn
