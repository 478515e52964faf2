#include "workflow/deployment.h"

#include <algorithm>
#include <set>

#include "base/json_file.h"
#include "base/nearest.h"
#include "base/text.h"
#include "kernels/ways.h"

namespace evoq {

using nlohmann::json;

namespace {

constexpr int kMostStreams = 256;

// What a key sets. Returns what was expected where the value is none of it, else "".
struct Key {
  const char* path;
  std::string (*set)(const json& value, Deployment& d);
};

std::string SetText(const json& value, std::string& to) {
  if (!value.is_string()) return "a text";
  to = value.get<std::string>();
  return "";
}
std::string SetBool(const json& value, bool& to) {
  if (!value.is_boolean()) return "true or false";
  to = value.get<bool>();
  return "";
}

void Disable(Deployment& d, const std::vector<std::string>& passes) {
  for (const std::string& pass : passes) {
    if (std::ranges::find(d.passes.disable, pass) == d.passes.disable.end())
      d.passes.disable.push_back(pass);
  }
}

// One that may be false, which leaves passes out.
std::string SetPasses(const json& value, Deployment& d, const std::vector<std::string>& passes) {
  bool enabled = true;
  std::string wrong = SetBool(value, enabled);
  if (wrong.empty() && !enabled) Disable(d, passes);
  return wrong;
}

std::string SetPatterns(const json& value, Deployment& d) {
  const std::string form = "a list of {\"pattern_name\": \"...\", \"enabled\": true or false}";
  if (!value.is_array()) return form;
  for (const json& entry : value) {
    if (!entry.is_object()) return form;
    for (const auto& [key, unused] : entry.items()) {
      if (key != "pattern_name" && key != "enabled") return form + ", not '" + key + "'";
    }
    const auto name = entry.find("pattern_name"), enabled = entry.find("enabled");
    if (name == entry.end() || !name->is_string()) return form;
    if (enabled != entry.end() && !enabled->is_boolean()) return form;
    std::vector<std::string_view> names;
    const FusionPattern* pattern = nullptr;
    for (const FusionPattern& p : FusionPatterns()) {
      names.push_back(p.name);
      if (*name == p.name) pattern = &p;
    }
    if (pattern == nullptr) {
      const auto given = name->get<std::string>();
      return fmt::format("a known pattern instead of '{}', of which the nearest is {} ({})", given,
                         Nearest(given, names), fmt::join(names, ", "));
    }
    if (enabled != entry.end() && !enabled->get<bool>()) Disable(d, pattern->passes);
  }
  return "";
}

std::string SetInputFormat(const json& value, Deployment& d) {
  if (value == "ND") {
    d.notes.push_back("input_format ND: inputs stay as they are");
    return "";
  }
  if (value != "NCHW" && value != "NHWC") return "\"NCHW\", \"NHWC\" or \"ND\"";
  d.channels_last_inputs = value == "NHWC";
  return "";
}

std::string SetOutputType(const json& value, Deployment& d) {
  if (value.is_string()) d.output_type = OutputTypeNamed(value.get<std::string>());
  if (d.output_type) return "";
  return "\"float32\", \"float16\", \"bfloat16\", \"uint8\" or \"int8\"";
}

std::string SetTileSize(const json& value, Deployment& d) {
  if (!value.is_number_integer() || value < 1 || value > 1 << 20) return "a number from 1";
  d.tile_rows = value.get<int>();
  if (d.tile_rows > kMostBlockRows)
    d.notes.push_back(
        fmt::format("tile_size {}: taken as {}, the most that evoq computes in a block",
                    d.tile_rows, kMostBlockRows));
  return "";
}

std::string SetPrecision(const json& value, Deployment& d) {
  if (value == "fp32" || value == "float32") return "";
  if (value != "fp16" && value != "float16" && value != "bf16" && value != "bfloat16")
    return "\"fp32\", \"fp16\" or \"bf16\"";
  d.narrow = Deployment::Narrow::kConvolutions;
  if (value == "fp16" || value == "float16")
    d.notes.push_back(
        "precision_mode fp16: convolutions compute in bfloat16, the 16-bit type that evoq has "
        "kernels for; on processors that do not multiply bfloat16 that halves the weights and is "
        "slower (`evoq compare`)");
  return "";
}

std::string SetMerge(const json& value, Deployment& d) {
  bool merges = true;
  std::string wrong = SetBool(value, merges);
  if (wrong.empty()) d.merges_batches = merges;
  return wrong;
}

std::string SetRanges(const json& value, Deployment& d) {
  const std::string form =
      "for each input a list of as many shapes: {\"input\": [[1, 3, 224, 224], ...]}";
  if (!value.is_object() || value.empty()) return form;
  std::vector<InputShapes> sets;
  for (const auto& [input, shapes] : value.items()) {
    if (!shapes.is_array() || shapes.empty() || shapes.size() > kMostShapeSets)
      return fmt::format("{}, at most {}", form, kMostShapeSets);
    if (sets.empty()) sets.resize(shapes.size());
    if (sets.size() != shapes.size()) return form;
    for (size_t i = 0; i < shapes.size(); ++i) {
      if (!shapes[i].is_array()) return form;
      for (const json& size : shapes[i]) {
        if (!size.is_number_integer() || size < 1 || size > int64_t{1} << 32)
          return form + ", sizes from 1";
        sets[i][input].push_back(size.get<int64_t>());
      }
    }
  }
  d.shapes = std::move(sets);
  return "";
}

std::string SetStrategy(const json& value, Deployment& d) {
  if (value != "latency" && value != "throughput" && value != "balanced")
    return "\"latency\", \"throughput\" or \"balanced\"";
  d.strategy = value.get<std::string>();
  return "";
}

std::string SetStreams(const json& value, Deployment& d) {
  if (!value.is_number_integer() || value < 1 || value > kMostStreams)
    return fmt::format("a number from 1 to {}", kMostStreams);
  d.streams = value.get<int>();
  return "";
}

std::string SetPriorities(const json& value, Deployment& d) {
  const auto is_one = [](const json& v) { return v.is_number_integer() && v >= 0 && v <= 1000; };
  if (!value.is_array() || !std::ranges::all_of(value, is_one))
    return "a list of a number from 0 to 1000 for each stream";
  d.stream_priorities = value.get<std::vector<int>>();
  return "";
}

template <size_t kSize>
std::string SetIgnored(const json& value, Deployment& d, const char (&name)[kSize]) {
  d.notes.push_back(fmt::format(
      "{} {}: changes nothing: evoq compiles for the processors that it has kernels for, and "
      "chooses among them when the model is loaded",
      name, value.is_string() ? value.get<std::string>() : JsonBriefly(value)));
  return "";
}

const std::vector<Key>& Keys() {
  static const std::vector<Key> kKeys = {
      {"optimization_version",
       [](const json& v, Deployment& d) {
         if (v != "2.0")
           d.notes.push_back(
               fmt::format("optimization_version {}: read as 2.0, the version that evoq knows",
                           JsonBriefly(v)));
         return std::string(v.is_string() ? "" : "a text");
       }},
      {"model_info.input_model",
       [](const json& v, Deployment& d) { return SetText(v, d.input_model); }},
      {"model_info.output_model",
       [](const json& v, Deployment& d) { return SetText(v, d.output_model); }},
      {"graph_optimization.enable_operator_fusion",
       [](const json& v, Deployment& d) {
         return SetPasses(v, d, {"fuse-*", "fold-scale", "fold-bias", "merge-products"});
       }},
      {"graph_optimization.fusion_patterns", SetPatterns},
      {"graph_optimization.enable_constant_folding",
       [](const json& v, Deployment& d) {
         return SetPasses(v, d, {"fold-constants", "merge-constants"});
       }},
      {"graph_optimization.enable_memory_reuse",
       [](const json& v, Deployment& d) { return SetBool(v, d.memory_reuse); }},
      {"compilation_config.input_format", SetInputFormat},
      {"compilation_config.output_type", SetOutputType},
      {"compilation_config.soc_version",
       [](const json& v, Deployment& d) { return SetIgnored(v, d, "soc_version"); }},
      {"compilation_config.device",
       [](const json& v, Deployment& d) { return SetIgnored(v, d, "device"); }},
      {"operator_tuning.convolution.tile_size", SetTileSize},
      {"operator_tuning.convolution.enable_winograd",
       [](const json& v, Deployment& d) { return SetBool(v, d.winograd); }},
      {"operator_tuning.convolution.precision_mode", SetPrecision},
      {"operator_tuning.fully_connected.enable_batch_merge", SetMerge},
      {"dynamic_shape_config.enable_dynamic_shape",
       [](const json& v, Deployment& d) { return SetBool(v, d.dynamic); }},
      {"dynamic_shape_config.shape_ranges", SetRanges},
      {"dynamic_shape_config.optimization_strategy", SetStrategy},
      {"stream_config.num_streams", SetStreams},
      {"stream_config.stream_priority", SetPriorities},
      {"stream_config.enable_cross_stream_memory_reuse",
       [](const json& v, Deployment& d) { return SetBool(v, d.share_arenas); }}};
  return kKeys;
}

// The keys of an object at `at` ("operator_tuning.", "" at the top).
Status Read(const json& object, const std::string& at, const std::string& path, Deployment& d) {
  for (const auto& [name, value] : object.items()) {
    const std::string full = at + name;
    const auto key =
        std::ranges::find(Keys(), full, [](const Key& k) { return std::string(k.path); });
    if (key != Keys().end()) {
      if (const std::string wanted = key->set(value, d); !wanted.empty())
        return InvalidInput("{}: {}: expected {}, found {}", path, full, wanted,
                            JsonBriefly(value));
      continue;
    }
    const bool section = std::ranges::any_of(
        Keys(), [&](const Key& k) { return std::string_view(k.path).starts_with(full + "."); });
    if (section && value.is_object()) {
      EVOQ_TRY(Read(value, full + ".", path, d));
      continue;
    }
    if (section)
      return InvalidInput("{}: {}: expected an object, found {}", path, full, JsonBriefly(value));
    std::set<std::string_view> names;  // of keys and of sections
    for (const Key& k : Keys()) {
      const std::string_view whole = k.path;
      for (size_t dot = whole.find('.'); dot != std::string_view::npos;
           dot = whole.find('.', dot + 1))
        names.insert(whole.substr(0, dot));
      names.insert(whole);
    }
    const std::vector<std::string_view> all(names.begin(), names.end());
    return InvalidInput("{}: there is no key '{}'; the nearest is {}", path, full,
                        Nearest(full, all));
  }
  return {};
}

}  // namespace

std::optional<DType> OutputTypeNamed(std::string_view name) {
  static constexpr std::pair<std::string_view, DType> kTypes[] = {
      {"float32", DType::kFloat32},   {"FP32", DType::kFloat32}, {"float16", DType::kFloat16},
      {"FP16", DType::kFloat16},      {"uint8", DType::kUint8},  {"UINT8", DType::kUint8},
      {"bfloat16", DType::kBfloat16}, {"int8", DType::kInt8},    {"INT8", DType::kInt8}};
  for (const auto& [known, type] : kTypes) {
    if (name == known) return type;
  }
  return std::nullopt;
}

const std::vector<FusionPattern>& FusionPatterns() {
  // A BatchNormalization that is left alone is not taken apart into Mul and Add either.
  static const std::vector<FusionPattern> kPatterns = {
      {"conv_bn_relu", {"fuse-batch-norm@op=BatchNormalization", "fuse-activation@op=Conv"}},
      {"conv_bn", {"fuse-batch-norm@op=BatchNormalization"}},
      {"conv_relu", {"fuse-activation@op=Conv"}},
      {"conv_bias", {"fold-bias@op=Conv"}},
      {"conv_scale", {"fold-scale@op=Conv"}},
      {"conv_add", {"fuse-residual@op=Conv"}},
      {"conv_add_relu", {"fuse-residual@op=Conv", "fuse-activation@op=Conv"}},
      {"pad_conv", {"fuse-pad"}},
      {"matmul_add", {"fold-bias@op=MatMul", "fuse-residual@op=MatMul"}},
      {"matmul_relu", {"fuse-activation@op=MatMul"}},
      {"matmul_scale", {"fold-scale@op=MatMul"}},
      {"add_relu", {"fuse-activation@op=Add"}},
      {"gelu", {"fuse-gelu"}},
      {"swish", {"fuse-silu"}},
      {"hard_swish", {"fuse-hard-swish"}},
      {"layer_norm", {"fuse-layer-norm"}},
      {"rotary_embedding", {"fuse-rotary"}},
      {"attention", {"fuse-attention"}}};
  return kPatterns;
}

bool IsDeployment(const json& file) {
  if (!file.is_object()) return false;
  return std::ranges::any_of(Keys(), [&](const Key& key) {
    const std::string_view path = key.path;
    return file.contains(std::string(path.substr(0, path.find('.'))));
  });
}

Result<Deployment> ParseDeployment(const json& file, const std::string& path) {
  if (!file.is_object()) return InvalidInput("{}: expected a JSON object", path);
  Deployment d;
  EVOQ_TRY(Read(file, "", path, d));
  const size_t priorities = d.stream_priorities.size();
  if (priorities > 0 && d.streams > 0 && priorities != static_cast<size_t>(d.streams))
    return InvalidInput("{}: stream_config.stream_priority: {} numbers, num_streams is {}", path,
                        priorities, d.streams);
  if (!d.dynamic && !d.shapes.empty())
    d.notes.push_back("shape_ranges: not prepared, because enable_dynamic_shape is not true");
  if (d.dynamic && d.shapes.empty())
    return InvalidInput("{}: dynamic_shape_config: enable_dynamic_shape without shape_ranges",
                        path);
  return d;
}

}  // namespace evoq
