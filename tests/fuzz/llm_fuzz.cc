// Room: llm
// Files of language models: each import gives a graph or an error, within the limits of run.sh. The
// fuzzer's first byte names the format: GGUF, a checkpoint of llama2.c, or a folder, whose input is
// a config.json, a zero, and a model.safetensors. Mutations start from whole tiny models, so that
// they get past the headers.
#include "base/check.h"
#include "base/file.h"
#include "llm/block_format.h"
#include "llm/facts.h"
#include "llm/import.h"
#include "llm/random_folder.h"
#include "llm/test_files.h"
#include "tests/fuzz/byte_mutator.h"
#include "tests/fuzz/time_limit.h"

namespace {

using namespace evoq;

enum Format : uint8_t { kGguf, kLlama2c, kFolder, kFormats };

// A GGUF model whose matrices are blocks of a type.
std::string Blocks(uint32_t type, uint64_t bytes) {
  GgufBytes file;
  file.Fact("general.architecture", std::string("qwen2"))
      .Fact("qwen2.embedding_length", 256)
      .Fact("qwen2.block_count", 1)
      .Fact("qwen2.attention.head_count", 128)
      .Fact("qwen2.attention.head_count_kv", 1)
      .Fact("qwen2.feed_forward_length", 256)
      .Fact("qwen2.context_length", 4);
  file.Tensor("token_embd.weight", {256, 3}, type, 0);
  return file.Data(std::string(3 * bytes, '\x2f')).Bytes();
}

std::string FolderBytes(const nlohmann::json& config) {
  const std::string folder = fuzz::Folder() + "/seed";
  EVOQ_CHECK(WriteRandomFolder(config, {.biased = true}, 1, folder).has_value());
  const auto weights = ReadTextFile(folder + "/model.safetensors");
  EVOQ_CHECK(weights.has_value());
  return config.dump() + '\0' + *weights;
}

struct Content {
  std::vector<int64_t> sizes;
  std::string bytes;
};

// A part of a quantized matrix; its sizes are those of the matrix over these divisors, with `down`
// by inputs and outputs; or what `content` gives for outputs and inputs.
struct Part {
  const char *name, *dtype;
  int64_t bytes, rows, columns;  // of an element; divisors
  bool down;
  std::function<Content(int64_t outputs, int64_t inputs)> content;
};

// The folder with each projection as another tool quantized it.
std::string QuantizedBytes(nlohmann::json config, const nlohmann::json& settings,
                           const std::vector<Part>& parts) {
  const std::string plain = FolderBytes(config);
  const std::string weights = plain.substr(plain.find('\0') + 1);
  uint64_t size = 0;
  std::memcpy(&size, weights.data(), sizeof(size));
  const nlohmann::json entries = nlohmann::json::parse(weights.substr(8, size));
  nlohmann::json header;
  std::string data;
  const auto add = [&](const std::string& name, const std::string& dtype,
                       const nlohmann::json& shape, const std::string& bytes) {
    header[name] = {{"dtype", dtype},
                    {"shape", shape},
                    {"data_offsets", {data.size(), data.size() + bytes.size()}}};
    data += bytes;
  };
  for (const auto& [name, entry] : entries.items()) {
    const auto stem = name.rfind("_proj.weight");
    if (stem == std::string::npos) {
      const auto begin = entry["data_offsets"][0].get<uint64_t>(),
                 end = entry["data_offsets"][1].get<uint64_t>();
      add(name, entry["dtype"], entry["shape"], weights.substr(8 + size + begin, end - begin));
      continue;
    }
    const auto outputs = entry["shape"][0].get<int64_t>(),
               inputs = entry["shape"][1].get<int64_t>();
    for (const Part& part : parts) {
      if (part.content) {
        const auto [sizes, bytes] = part.content(outputs, inputs);
        add(name.substr(0, stem) + "_proj." + part.name, part.dtype, sizes, bytes);
        continue;
      }
      const int64_t rows = std::max<int64_t>(1, (part.down ? inputs : outputs) / part.rows),
                    columns = std::max<int64_t>(1, (part.down ? outputs : inputs) / part.columns);
      add(name.substr(0, stem) + "_proj." + part.name, part.dtype, {rows, columns},
          std::string(static_cast<size_t>(rows * columns * part.bytes), '\x11'));
    }
  }
  config["quantization_config"] = settings;
  const std::string text = header.dump();
  const uint64_t length = text.size();
  return config.dump() + '\0' +
         std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + text + data;
}

Part Whole(const char* name, int64_t value) {
  return {name, "I64", 8, 1, 1, false, [value](int64_t, int64_t) {
            return Content{{}, Little(static_cast<uint64_t>(value), 8)};
          }};
}

Content Filled(std::vector<int64_t> sizes, int64_t width) {
  int64_t bytes = width;
  for (const int64_t size : sizes) bytes *= size;
  return {std::move(sizes), std::string(static_cast<size_t>(bytes), '\x11')};
}

std::vector<Part> HqqParts() {
  const auto groups = [](int64_t n, int64_t k) { return Filled({n * k / 8, 1}, 2); };
  return {{"W_q", "U8", 1, 1, 1, false,
           [](int64_t n, int64_t k) { return Filled({n * k / 16, 8}, 1); }},
          {"scale", "F16", 2, 1, 1, false, groups},
          {"zero", "F16", 2, 1, 1, false, groups},
          {"shape", "I64", 8, 1, 1, false,
           [](int64_t n, int64_t k) {
             return Content{
                 {2}, Little(static_cast<uint64_t>(n), 8) + Little(static_cast<uint64_t>(k), 8)};
           }},
          Whole("nbits", 4),
          Whole("group_size", 8),
          Whole("axis", 1)};
}

std::vector<Part> BitsandbytesParts() {
  return {
      {"weight", "U8", 1, 1, 2, false, {}},
      {"weight.absmax", "U8", 1, 1, 1, false,
       [](int64_t n, int64_t k) { return Filled({n * k / 8}, 1); }},
      {"weight.quant_map", "F32", 4, 1, 1, false, [](int64_t, int64_t) { return Filled({16}, 4); }},
      {"weight.nested_quant_map", "F32", 4, 1, 1, false,
       [](int64_t, int64_t) { return Filled({256}, 4); }},
      {"weight.nested_absmax", "F32", 4, 1, 1, false,
       [](int64_t n, int64_t k) { return Filled({(n * k / 8 + 3) / 4}, 4); }},
      {"weight.quant_state.bitsandbytes__nf4", "U8", 1, 1, 1, false, [](int64_t n, int64_t k) {
         const std::string text = nlohmann::json{{"blocksize", 8},
                                                 {"shape", {n, k}},
                                                 {"nested_blocksize", 4},
                                                 {"nested_offset", 0.5}}
                                      .dump();
         return Content{{std::ssize(text)}, text};
       }}};
}

// Groups of 8 inputs.
std::vector<std::string> QuantizedFolders() {
  const nlohmann::json config = {{"model_type", "llama"},    {"vocab_size", 5},
                                 {"hidden_size", 16},        {"num_hidden_layers", 1},
                                 {"num_attention_heads", 2}, {"num_key_value_heads", 1},
                                 {"intermediate_size", 24},  {"max_position_embeddings", 8}};
  return {
      QuantizedBytes(config, {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 8}},
                     {{"qweight", "I32", 4, 8, 1, true},
                      {"qzeros", "I32", 4, 8, 8, true},
                      {"scales", "F16", 2, 8, 1, true}}),
      QuantizedBytes(config, {{"quant_method", "awq"}, {"group_size", 8}},
                     {{"qweight", "I32", 4, 1, 8, true},
                      {"qzeros", "I32", 4, 8, 8, true},
                      {"scales", "F16", 2, 8, 1, true}}),
      QuantizedBytes(config, {{"quant_method", "compressed-tensors"}},
                     {{"weight", "I8", 1, 1, 1, false}, {"weight_scale", "F32", 4, 1, 64, false}}),
      QuantizedBytes(config, {{"quant_method", "hqq"}}, HqqParts()),
      QuantizedBytes(config, {{"quant_method", "bitsandbytes"}}, BitsandbytesParts()),
      QuantizedBytes(config, {{"bits", 4}, {"group_size", 8}},
                     {{"weight", "U32", 4, 1, 8, false},
                      {"scales", "F16", 2, 1, 8, false},
                      {"biases", "F16", 2, 1, 8, false}}),
      QuantizedBytes(
          config, {{"quant_method", "torchao"}},
          {{"_weight_qdata", "I8", 1, 1, 1, false}, {"_weight_scale", "F32", 4, 1, 64, false}}),
      QuantizedBytes(
          config, {{"quant_method", "compressed-tensors"}},
          {{"weight_packed", "U8", 1, 1, 2, false}, {"weight_scale", "F8_E4M3", 1, 1, 8, false}}),
      QuantizedBytes(
          config, {{"quant_method", "fp8"}, {"weight_block_size", {8, 8}}},
          {{"weight", "F8_E4M3", 1, 1, 1, false}, {"weight_scale_inv", "F32", 4, 8, 8, false}}),
  };
}

const std::vector<std::pair<Format, std::string>>& Seeds() {
  static const auto seeds = [] {
    nlohmann::json config = {{"model_type", "llama"},    {"vocab_size", 5},
                             {"hidden_size", 4},         {"num_hidden_layers", 1},
                             {"num_attention_heads", 2}, {"num_key_value_heads", 1},
                             {"intermediate_size", 6},   {"max_position_embeddings", 8},
                             {"eos_token_id", {1, 2}}};
    std::vector<std::pair<Format, std::string>> list = {
        {kGguf, TinyGguf().Bytes()},
        {kGguf, Blocks(2, 8 * 18)},
        {kLlama2c, TinyLlama2c()},
        {kFolder, FolderBytes(config)},
    };
    for (const BlockFormat* format : AllBlockFormats()) {
      if (format->elements == 256)
        list.emplace_back(kGguf, Blocks(format->id, static_cast<uint64_t>(format->bytes)));
    }
    config["model_type"] = "gemma3_text";
    config["sliding_window"] = 3;
    config["rope_scaling"] = {{"rope_type", "llama3"}, {"factor", 8.0}};
    list.emplace_back(kFolder, FolderBytes(config));
    for (std::string& folder : QuantizedFolders()) list.emplace_back(kFolder, std::move(folder));
    return list;
  }();
  return seeds;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const TimeLimit limit;
  const auto format = static_cast<Format>(data[0] % kFormats);
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  static const std::string folder = [] {
    std::filesystem::create_directories(fuzz::Folder() + "/model");
    return fuzz::Folder() + "/model";
  }();
  std::string path = folder;
  if (format == kFolder) {
    const size_t end = std::min(bytes.find('\0'), bytes.size());
    fuzz::Write(path + "/config.json", bytes.substr(0, end));
    fuzz::Write(path + "/model.safetensors", bytes.substr(std::min(end + 1, bytes.size())));
  } else {
    path += format == kGguf ? ".gguf" : ".bin";
    fuzz::Write(path, bytes);
  }
  const auto graph = ImportLanguageModel(path);
  if (graph) {
    EVOQ_CHECK(graph->Verify().has_value() && ReadFacts(*graph).has_value());
  } else {
    EVOQ_CHECK(graph.error().code() != ErrorCode::kInternal, "{}", graph.error().message());
    EVOQ_CHECK(graph.error().message().size() < 6000, "an error of {} bytes",
               graph.error().message().size());
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  return fuzz::MutateFile(
      data, size, max_size, seed,
      [](std::minstd_rand& random) { return Seeds()[random() % Seeds().size()]; },
      [](uint8_t, std::string&) {});
}
