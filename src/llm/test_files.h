// For tests and fuzzers: files of language models, byte by byte.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace evoq {

inline std::string Little(uint64_t number, size_t bytes) {
  std::string text;
  for (size_t i = 0; i < bytes; ++i) text += i < 8 ? static_cast<char>(number >> (8 * i)) : '\0';
  return text;
}

inline std::string SafetensorsBytes(const std::string& header, const std::string& data) {
  return Little(header.size(), 8) + header + data;
}

// A GGUF file in the making. Facts and tensors are written as given, right or wrong.
class GgufBytes {
 public:
  static std::string Text(const std::string& text) { return Little(text.size(), 8) + text; }

  GgufBytes& Fact(const std::string& key, uint32_t type, const std::string& value) {
    facts_ += Text(key) + Little(type, 4) + value;
    ++fact_count_;
    return *this;
  }
  GgufBytes& Fact(const std::string& key, uint32_t value) { return Fact(key, 4, Little(value, 4)); }
  GgufBytes& Fact(const std::string& key, const std::string& text) {
    return Fact(key, 8, Text(text));
  }
  // `sizes`: the fastest first.
  GgufBytes& Tensor(const std::string& name, const std::vector<uint64_t>& sizes, uint32_t type,
                    uint64_t offset) {
    tensors_ += Text(name) + Little(sizes.size(), 4);
    for (const uint64_t size : sizes) tensors_ += Little(size, 8);
    tensors_ += Little(type, 4) + Little(offset, 8);
    ++tensor_count_;
    return *this;
  }
  // The next tensor of float32, its data behind those before.
  GgufBytes& Floats(const std::string& name, const std::vector<uint64_t>& sizes) {
    Tensor(name, sizes, 0, data_.size());
    uint64_t n = 1;
    for (const uint64_t size : sizes) n *= size;
    for (uint64_t i = 0; i < n; ++i) data_ += Little(0x3f000000 + i * 0x10001 % 0x7fffff, 4);
    data_.resize((data_.size() + 31) / 32 * 32);
    return *this;
  }
  size_t DataBytes() const { return data_.size(); }
  GgufBytes& Data(const std::string& data) {
    data_ += data;
    return *this;
  }
  std::string Bytes(uint32_t version = 3) const {
    std::string bytes = "GGUF" + Little(version, 4) + Little(tensor_count_, 8) +
                        Little(fact_count_, 8) + facts_ + tensors_;
    bytes.resize((bytes.size() + 31) / 32 * 32);
    return bytes + data_;
  }

 private:
  std::string facts_, tensors_, data_;
  uint64_t fact_count_ = 0, tensor_count_ = 0;
};

// The facts of TinyGguf().
inline GgufBytes TinyFacts() {
  GgufBytes file;
  file.Fact("general.architecture", std::string("llama"))
      .Fact("llama.embedding_length", 8)
      .Fact("llama.block_count", 1)
      .Fact("llama.attention.head_count", 2)
      .Fact("llama.attention.head_count_kv", 1)
      .Fact("llama.feed_forward_length", 12)
      .Fact("llama.context_length", 16)
      .Fact("tokenizer.ggml.bos_token_id", 1)
      .Fact("tokenizer.ggml.tokens", 9, Little(8, 4) + Little(1, 8) + GgufBytes::Text("a"));
  return file;
}

// A whole Llama of one layer: 5 tokens, 8 wide, 2 heads, 1 key head, 12 inside.
inline GgufBytes TinyGguf() {
  GgufBytes file = TinyFacts();
  file.Floats("token_embd.weight", {8, 5}).Floats("output_norm.weight", {8});
  const std::string block = "blk.0.";
  const std::pair<const char*, std::vector<uint64_t>> tensors[] = {
      {"attn_norm", {8}},  {"attn_q", {8, 8}},      {"attn_k", {8, 4}},
      {"attn_v", {8, 4}},  {"attn_output", {8, 8}}, {"ffn_norm", {8}},
      {"ffn_up", {8, 12}}, {"ffn_gate", {8, 12}},   {"ffn_down", {12, 8}}};
  for (const auto& [name, sizes] : tensors) file.Floats(block + name + ".weight", sizes);
  return file;
}

// llama2.c, version 0: 4 wide, 6 inside, 1 layer, 2 heads, 1 key head, 5 tokens, 8 positions.
inline std::string TinyLlama2c() {
  std::string bytes;
  for (const uint64_t n : {4, 6, 1, 2, 1, 5, 8}) bytes += Little(n, 4);
  const size_t floats = 5 * 4 + 4 + 16 + 8 + 8 + 16 + 4 + 24 * 3 + 4 + 8 * 1 * 2;
  for (size_t i = 0; i < floats; ++i) bytes += Little(0x3e800000 + i * 0x11111 % 0x7fffff, 4);
  return bytes;
}

}  // namespace evoq
