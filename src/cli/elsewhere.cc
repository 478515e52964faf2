#include "cli/elsewhere.h"

#include <fmt/format.h>

#include <algorithm>

#include "quant/quant.h"
#include "quant/scheme_names.h"

namespace evoq {
namespace {

struct Name {
  std::string_view elsewhere, here;  // "": the model, which comes without an option
};
// Of trtexec, ATC, benchmark_app, ovc, SNPE and QNN's converters, ONNX Runtime's tools, the servers
// of llama.cpp, vLLM and Triton, and others.
constexpr Name kNames[] = {
    {"--onnx", ""},
    {"--model", ""},
    {"-m", ""},
    {"--input_model", ""},
    {"--input_network", ""},
    {"--loadEngine", ""},
    {"--saveEngine", "--output"},
    {"--output_model", "--output"},
    {"--output_dir", "--output"},
    {"--input_list", "--calib"},
    {"--dataset", "--calib"},
    {"--data_dir", "--calib"},
    {"--algorithm", "--method"},
    {"--calibration_method", "--observer"},
    {"--calibrate_method", "--observer"},
    {"--act_quantizer", "--observer"},
    {"--ignored_scope", "--exclude"},
    {"--nodes_to_exclude", "--exclude"},
    {"--group-size", "--block"},
    {"--group_size", "--block"},
    {"--block_size", "--block"},
    {"--act_bw", "--scheme"},
    {"--act_bitwidth", "--scheme"},
    {"--loadInputs", "--input"},
    {"--shapes", "--shape"},
    {"--optShapes", "--shape"},
    {"--input_shape", "--shape"},
    {"--nthreads", "--threads"},
    {"-niter", "--iterations"},
    {"--infer_precision", "--scheme"},
    {"--port", "--http-port"},
    {"--host", "--http-address"},
    {"--api-key-file", "--token-file"},
    {"--ssl-cert-file", "--certificate"},
    {"--ssl-certfile", "--certificate"},
    {"--ssl-key-file", "--key"},
    {"--ssl-keyfile", "--key"},
    {"--model-store", "--model-repository"},
    {"--model_repository_path", "--model-repository"},
};
constexpr std::string_view kFolder = "--model-repository";  // of a verb that takes no model

bool Has(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

std::string OptionNamedElsewhere(std::string_view name, std::span<const std::string_view> names) {
  if (const auto found = std::ranges::find(kNames, name, &Name::elsewhere);
      found != std::end(kNames)) {
    if (found->here.empty() && Has(names, kFolder))
      return fmt::format("; models are in a folder, {}", kFolder);
    if (found->here.empty()) return "; the model comes without an option";
    return Has(names, found->here) ? fmt::format("; here it is {}", found->here) : "";
  }
  // --int8, --fp16: the name of a scheme, here or elsewhere.
  if (!name.starts_with("--")) return "";
  const std::string scheme(name.substr(2));
  const std::string here =
      FindScheme(scheme) != nullptr ? scheme : std::string(SchemeNamedElsewhere(scheme));
  if (here.empty()) return "";
  const std::string first = here.substr(0, here.find(','));
  return fmt::format("; here it is {}--scheme {}", Has(names, "--scheme") ? "" : "evoq quantize ",
                     first);
}

}  // namespace evoq
