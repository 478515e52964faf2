// For tests: a small model of random weights that reads one text and writes another.
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/xorshift.h"
#include "llm/test_files.h"

namespace evoq::generate_test {

inline nlohmann::json TinyT5Config() {
  return {{"model_type", "t5"}, {"vocab_size", 40},
          {"d_model", 16},      {"d_kv", 8},
          {"d_ff", 24},         {"num_layers", 2},
          {"num_heads", 2},     {"eos_token_id", 1},
          {"pad_token_id", 0},  {"decoder_start_token_id", 0}};
}

// The tensors of such a config, by the folder's names.
inline std::vector<std::pair<std::string, std::vector<int64_t>>> TinyT5Tensors() {
  std::vector<std::pair<std::string, std::vector<int64_t>>> tensors = {{"shared", {40, 16}}};
  for (const char* stack : {"encoder", "decoder"}) {
    const bool decodes = stack[0] == 'd';
    for (int layer = 0; layer < 2; ++layer) {
      const std::string block = std::string(stack) + ".block." + std::to_string(layer) + ".layer.";
      int part = 0;
      for (const char* attention : {"SelfAttention", "EncDecAttention"}) {
        if (!decodes && attention[0] == 'E') continue;
        const std::string at = block + std::to_string(part++);
        for (const char* name : {".q", ".k", ".v", ".o"})
          tensors.push_back({at + "." + attention + name, {16, 16}});
        tensors.push_back({at + ".layer_norm", {16}});
        if (layer == 0 && attention[0] == 'S')
          tensors.push_back({at + ".SelfAttention.relative_attention_bias", {32, 2}});
      }
      const std::string at = block + std::to_string(part);
      tensors.push_back({at + ".DenseReluDense.wi", {24, 16}});
      tensors.push_back({at + ".DenseReluDense.wo", {16, 24}});
      tensors.push_back({at + ".layer_norm", {16}});
    }
    tensors.push_back({std::string(stack) + ".final_layer_norm", {16}});
  }
  return tensors;
}

// `loud`: how much larger its table is, and the logits with it.
inline void WriteTinyT5(const std::string& folder, const nlohmann::json& config = TinyT5Config(),
                        const std::string& without = "", uint32_t seed = 1, float loud = 1) {
  std::filesystem::create_directories(folder);
  nlohmann::json header = nlohmann::json::object();
  std::string data;
  XorShift random(seed);
  for (const auto& [name, sizes] : TinyT5Tensors()) {
    if (name == without) continue;
    int64_t count = 1;
    for (const int64_t size : sizes) count *= size;
    const size_t begin = data.size();
    for (int64_t i = 0; i < count; ++i) {
      const float x =
          (sizes.size() == 1 ? 1 : static_cast<float>(random.Next() % 2001) * 6e-4f - 0.6f) *
          (name == "shared" ? loud : 1);
      data.append(reinterpret_cast<const char*>(&x), sizeof(x));
    }
    header[name + ".weight"] = {
        {"dtype", "F32"}, {"shape", sizes}, {"data_offsets", {begin, data.size()}}};
  }
  std::ofstream(folder + "/model.safetensors", std::ios::binary)
      << SafetensorsBytes(header.dump(), data);
  std::ofstream(folder + "/config.json") << config.dump();
}

}  // namespace evoq::generate_test
