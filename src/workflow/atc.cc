#include "workflow/atc.h"

#include <charconv>

#include "base/json_file.h"
#include "base/text.h"
#include "passes/pass.h"

namespace evoq {
namespace {

using nlohmann::json;

std::vector<std::string> Split(std::string_view text, char at) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(at, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// "1,3,-1": sizes from 1, and -1 where that may be. Errors: kUsage with `option`.
Result<std::vector<int64_t>> Sizes(const std::string& text, const char* option, bool free) {
  std::vector<int64_t> sizes;
  for (const std::string& part : Split(text, ',')) {
    int64_t size = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), size);
    const bool known = size >= 1 && size <= int64_t{1} << 32;
    if (error != std::errc() || end != part.data() + part.size() ||
        !(known || (free && size == -1)))
      return Fail(ErrorCode::kUsage, "--{} '{}': '{}', expected a size from 1{}", option, text,
                  part, free ? ", or -1" : "");
    sizes.push_back(size);
  }
  return sizes;
}

// --input_shape. Names may hold ':'; sizes do not.
Result<std::vector<std::pair<std::string, std::vector<int64_t>>>> InputShapesOf(
    const std::string& text) {
  std::vector<std::pair<std::string, std::vector<int64_t>>> shapes;
  if (text.empty()) return shapes;
  for (const std::string& part : Split(text, ';')) {
    const size_t colon = part.rfind(':');
    if (colon == std::string::npos || colon == 0)
      return Fail(ErrorCode::kUsage, "--input_shape '{}': expected NAME:1,3,224,224;...", part);
    EVOQ_ASSIGN(std::vector<int64_t> sizes, Sizes(part.substr(colon + 1), "input_shape", true));
    shapes.emplace_back(part.substr(0, colon), std::move(sizes));
  }
  return shapes;
}

// Sets of sizes: the -1 of `shapes` filled in order with the numbers of each gear, or all with its
// one number.
Status AddGears(const std::vector<std::pair<std::string, std::vector<int64_t>>>& shapes,
                const std::vector<std::string>& gears, const char* option, bool one_number,
                Deployment& d) {
  if (gears.size() > kMostShapeSets)
    return Fail(ErrorCode::kUsage, "--{}: {} sets of sizes, expected at most {}", option,
                gears.size(), kMostShapeSets);
  for (const std::string& gear : gears) {
    EVOQ_ASSIGN(const std::vector<int64_t> sizes, Sizes(gear, option, false));
    size_t next = 0;
    InputShapes set;
    for (const auto& [name, given] : shapes) {
      for (const int64_t size : given) {
        const size_t which = one_number ? 0 : next;
        next += size < 0;
        set[name].push_back(size >= 0 ? size : which < sizes.size() ? sizes[which] : 0);
      }
    }
    const size_t wanted = one_number ? 1 : next;
    if (next == 0 || sizes.size() != wanted)
      return Fail(ErrorCode::kUsage, "--{} '{}': {} numbers, and --input_shape has {} sizes of -1",
                  option, gear, sizes.size(), next);
    d.shapes.push_back(std::move(set));
  }
  d.dynamic = true;
  return {};
}

Status SetShapes(const AtcOptions& o, CompileJob& job) {
  EVOQ_ASSIGN(const auto shapes, InputShapesOf(o.input_shape));
  for (const auto& [name, sizes] : shapes) job.fixed[name] = sizes;
  const int kinds =
      !o.dynamic_batch_size.empty() + !o.dynamic_image_size.empty() + !o.dynamic_dims.empty();
  if (kinds > 1)
    return Fail(ErrorCode::kUsage,
                "--dynamic_batch_size, --dynamic_image_size and --dynamic_dims exclude each other");
  if (!o.dynamic_batch_size.empty())
    return AddGears(shapes, Split(o.dynamic_batch_size, ','), "dynamic_batch_size", true,
                    *job.deployment);
  if (!o.dynamic_image_size.empty())
    return AddGears(shapes, Split(o.dynamic_image_size, ';'), "dynamic_image_size", false,
                    *job.deployment);
  if (!o.dynamic_dims.empty())
    return AddGears(shapes, Split(o.dynamic_dims, ';'), "dynamic_dims", false, *job.deployment);
  return {};
}

Status SetPrecision(const std::string& mode, Deployment& d) {
  for (const char* plain : {"", "force_fp32", "origin", "must_keep_origin_dtype",
                            "allow_fp32_to_fp32", "cube_fp16in_fp32out"}) {
    if (mode != plain) continue;
    if (mode == "cube_fp16in_fp32out")
      d.notes.push_back("--precision_mode cube_fp16in_fp32out: inputs and sums stay float32");
    return {};
  }
  for (const char* narrow : {"force_fp16", "fp16", "allow_fp32_to_fp16", "allow_mix_precision",
                             "allow_mix_precision_fp16", "allow_mix_precision_bf16",
                             "allow_fp32_to_bf16", "mixed_float16", "mixed_bfloat16"}) {
    if (mode != narrow) continue;
    d.narrow = Deployment::Narrow::kEverything;
    d.notes.push_back(fmt::format(
        "--precision_mode {}: layers compute in bfloat16, the 16-bit type that evoq has kernels "
        "for; whether that is faster here, `evoq compare` says",
        mode));
    return {};
  }
  return Fail(ErrorCode::kUsage,
              "--precision_mode {}: expected force_fp32, must_keep_origin_dtype, force_fp16, "
              "allow_fp32_to_fp16 or allow_mix_precision",
              mode);
}

struct Switch {
  const char* name;  // CANN's
  std::vector<std::string> passes;
};
const std::vector<Switch>& Switches() {
  static const std::vector<Switch> kSwitches = {
      {"ALL", {"fuse-*", "fold-scale", "fold-bias", "merge-products"}},
      {"ConvBatchnormFusionPass", {"fuse-batch-norm@op=BatchNormalization"}},
      {"PadConv2dFusionPass", {"fuse-pad"}},
      {"MatMulBiasAddFusionPass", {"fold-bias@op=MatMul"}},
      {"LayerNormONNXFusionPass", {"fuse-layer-norm"}},
      {"GeluFusionPass", {"fuse-gelu"}},
      {"SwishFusionPass", {"fuse-silu"}},
      {"FlashAttentionFusionPass", {"fuse-attention"}}};
  return kSwitches;
}

// What leaves out a fusion of this name: CANN's, the guide's or evoq's own.
std::vector<std::string> PassesOf(const std::string& name) {
  for (const Switch& s : Switches()) {
    if (name == s.name) return s.passes;
  }
  for (const FusionPattern& pattern : FusionPatterns()) {
    if (name == pattern.name) return pattern.passes;
  }
  for (const PassDef* pass : AllPasses()) {
    if (name == pass->name) return {name};
  }
  return {};
}

Status ReadSwitches(const std::string& path, Deployment& d) {
  EVOQ_ASSIGN(const json file, ReadJsonFile(path, 1 << 20));
  const auto fail = [&] {
    return InvalidInput(
        "{}: expected {{\"Switch\": {{\"GraphFusion\": {{\"PASS\": \"on\" or \"off\"}}}}}}", path);
  };
  if (!file.is_object() || !file.contains("Switch") || !file["Switch"].is_object()) return fail();
  for (const auto& [kind, passes] : file["Switch"].items()) {
    if (!passes.is_object()) return fail();
    for (const auto& [name, value] : passes.items()) {
      if (value != "on" && value != "off") return fail();
      const std::vector<std::string> known = PassesOf(name);
      if (known.empty()) {
        d.notes.push_back(
            fmt::format("{}: {}: changes nothing: evoq has no such fusion", path, name));
      } else if (value == "off") {
        d.passes.disable.insert(d.passes.disable.end(), known.begin(), known.end());
      }
    }
  }
  return {};
}

}  // namespace

Result<CompileJob> AtcJob(const AtcOptions& o) {
  if (o.framework != 5)
    return Fail(ErrorCode::kUsage,
                "--framework={}: expected 5 (ONNX); evoq reads ONNX, TensorFlow Lite and language "
                "models, and tells them by their contents",
                o.framework);
  if (o.output.empty()) return Fail(ErrorCode::kUsage, "--output: expected a name");
  CompileJob job{.model = o.model, .output = o.output + ".om"};
  Deployment& d = job.deployment.emplace();
  d.passes.opt_level = o.optimization_level;
  EVOQ_TRY(SetShapes(o, job));
  if (!o.out_nodes.empty()) d.outputs = Split(o.out_nodes, ';');
  if (!o.input_format.empty()) {
    if (o.input_format != "NCHW" && o.input_format != "NHWC" && o.input_format != "ND")
      return Fail(ErrorCode::kUsage, "--input_format {}: expected NCHW, NHWC or ND",
                  o.input_format);
    d.channels_last_inputs = o.input_format == "NHWC";
  }
  if (!o.output_type.empty()) {
    d.output_type = OutputTypeNamed(o.output_type);
    if (!d.output_type)
      return Fail(ErrorCode::kUsage, "--output_type {}: expected FP32, FP16, UINT8 or INT8",
                  o.output_type);
  }
  EVOQ_TRY(SetPrecision(o.precision_mode, d));
  if (!o.fusion_switch_file.empty()) EVOQ_TRY(ReadSwitches(o.fusion_switch_file, d));
  if (!o.insert_op_conf.empty()) {
    EVOQ_ASSIGN(d.aipp, ReadAipp(o.insert_op_conf));
  }
  if (!o.soc_version.empty())
    d.notes.push_back(fmt::format(
        "--soc_version {}: changes nothing: the file runs on every processor that evoq has kernels "
        "for, which are chosen when it is loaded",
        o.soc_version));
  return job;
}

}  // namespace evoq
