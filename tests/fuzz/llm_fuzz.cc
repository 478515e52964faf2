// Room: llm
// Files of language models: each import gives a graph or an error, within the limits of run.sh. The
// fuzzer's first byte names the format: GGUF, a checkpoint of llama2.c, or a folder, whose input is
// a config.json, a zero, and a model.safetensors. Mutations start from whole tiny models, so that
// they get past the headers.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>

#include "base/check.h"
#include "base/file.h"
#include "llm/facts.h"
#include "llm/import.h"
#include "llm/random_folder.h"
#include "llm/test_files.h"
#include "tests/fuzz/time_limit.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using namespace evoq;

enum Format : uint8_t { kGguf, kLlama2c, kFolder, kFormats };

// In memory where the system has it; a folder per process.
const std::string& Folder() {
  static const std::string& folder = *new std::string([] {  // outlives the handler that removes it
    const char* root = std::filesystem::exists("/dev/shm") ? "/dev/shm" : "/tmp";
    const std::string path = fmt::format("{}/evoq_fuzz_llm_{}", root, getpid());
    std::filesystem::create_directories(path + "/model");
    std::atexit([] { std::filesystem::remove_all(Folder()); });
    return path;
  }());
  return folder;
}

void Write(const std::string& path, std::string_view bytes) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  EVOQ_CHECK(file != nullptr && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size() &&
                 std::fclose(file) == 0,
             "{}", path);
}

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
  const std::string folder = Folder() + "/seed";
  EVOQ_CHECK(WriteRandomFolder(config, /*biased=*/true, 1, folder).has_value());
  const auto weights = ReadTextFile(folder + "/model.safetensors");
  EVOQ_CHECK(weights.has_value());
  return config.dump() + '\0' + *weights;
}

const std::vector<std::pair<Format, std::string>>& Seeds() {
  static const auto seeds = [] {
    nlohmann::json config = {{"model_type", "llama"},    {"vocab_size", 5},
                             {"hidden_size", 4},         {"num_hidden_layers", 1},
                             {"num_attention_heads", 2}, {"num_key_value_heads", 1},
                             {"intermediate_size", 6},   {"max_position_embeddings", 8},
                             {"eos_token_id", {1, 2}}};
    std::vector<std::pair<Format, std::string>> list = {
        {kGguf, TinyGguf().Bytes()}, {kGguf, Blocks(2, 8 * 18)}, {kGguf, Blocks(12, 144)},
        {kGguf, Blocks(14, 210)},    {kLlama2c, TinyLlama2c()},  {kFolder, FolderBytes(config)},
    };
    config["model_type"] = "gemma3_text";
    config["sliding_window"] = 3;
    config["rope_scaling"] = {{"rope_type", "llama3"}, {"factor", 8.0}};
    list.emplace_back(kFolder, FolderBytes(config));
    return list;
  }();
  return seeds;
}

// Sizes, counts and offsets at their limits, written over 1 to 8 bytes.
void PutNumber(std::string& bytes, std::minstd_rand& random) {
  constexpr uint64_t kNumbers[] = {0,         1,           2,          31,
                                   32,        255,         65535,      1 << 20,
                                   INT32_MAX, 0x80000000u, UINT32_MAX, uint64_t{1} << 40,
                                   INT64_MAX, UINT64_MAX};
  const size_t width = size_t{1} << random() % 4;
  if (bytes.size() < width) return;
  bytes.replace(random() % (bytes.size() - width + 1), width,
                Little(kNumbers[random() % std::size(kNumbers)], width));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const TimeLimit limit;
  const auto format = static_cast<Format>(data[0] % kFormats);
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::string path = Folder() + "/model";
  if (format == kFolder) {
    const size_t end = std::min(bytes.find('\0'), bytes.size());
    Write(path + "/config.json", bytes.substr(0, end));
    Write(path + "/model.safetensors", bytes.substr(std::min(end + 1, bytes.size())));
  } else {
    path += format == kGguf ? ".gguf" : ".bin";
    Write(path, bytes);
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
  std::minstd_rand random(seed);
  random();
  if (size < 2 || random() % 64 == 0) {  // begins anew
    const auto& [format, bytes] = Seeds()[random() % Seeds().size()];
    if (bytes.size() + 1 > max_size) return LLVMFuzzerMutate(data, size, max_size);
    data[0] = format;
    std::copy(bytes.begin(), bytes.end(), data + 1);
    size = bytes.size() + 1;
  }
  std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  for (unsigned step = random() % 3 + 1; step > 0; --step) {
    if (random() % 3 == 0) {
      PutNumber(bytes, random);
    } else {
      const size_t old = bytes.size();
      bytes.resize(max_size - 1);
      bytes.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(bytes.data()), old, bytes.size()));
    }
  }
  std::copy(bytes.begin(), bytes.end(), data + 1);
  return bytes.size() + 1;
}
