#include "llm/random_folder.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "base/file.h"
#include "base/math.h"
#include "base/output_file.h"
#include "base/xorshift.h"
#include "llm/hugging_face.h"

namespace evoq {
namespace {

using nlohmann::json;

struct Shaped {
  std::string name;  // GGUF's, without ".weight"
  std::vector<int64_t> sizes;
  bool bias = false;
};

// A layer's router and experts, stacked where the architecture's folders know no other form.
void AddExperts(const Architecture& row, const LanguageModel& m, int64_t layer,
                std::vector<Shaped>& list) {
  const Experts& e = m.experts;
  const auto add = [&](const std::string& name, std::vector<int64_t> sizes) {
    list.push_back({fmt::format("blk.{}.{}", layer, name), std::move(sizes)});
  };
  add("ffn_gate_inp", {e.count, m.width});
  if (HuggingFaceName(row, "blk.0.ffn_gate.0").empty()) {
    add("ffn_gate_up_exps", {e.count, 2 * e.inner, m.width});
    add("ffn_down_exps", {e.count, m.width, e.inner});
    return;
  }
  for (int64_t i = 0; i < e.count; ++i) {
    add(fmt::format("ffn_gate.{}", i), {e.inner, m.width});
    add(fmt::format("ffn_up.{}", i), {e.inner, m.width});
    add(fmt::format("ffn_down.{}", i), {m.width, e.inner});
  }
}

std::vector<Shaped> TensorsOf(const Architecture& row, const LanguageModel& m,
                              const RandomParts& parts) {
  const int64_t q = m.heads * m.head_size, kv = m.kv_heads * m.head_size;
  std::vector<Shaped> list = {{"token_embd", {m.vocabulary, m.width}}, {"output_norm", {m.width}}};
  if (!m.tied) list.push_back({"output", {m.vocabulary, m.width}});
  for (int64_t i = 0; i < m.layers; ++i) {
    const auto add = [&](const char* name, std::vector<int64_t> sizes, bool bias = false) {
      if (bias) list.push_back({fmt::format("blk.{}.{}", i, name), {sizes[0]}, true});
      list.push_back({fmt::format("blk.{}.{}", i, name), std::move(sizes)});
    };
    add("attn_norm", {m.width});
    add("attn_q", {q, m.width}, parts.biased);
    add("attn_k", {kv, m.width}, parts.biased);
    add("attn_v", {kv, m.width}, parts.biased);
    if (parts.head_norms) {
      add("attn_q_norm", {m.head_size});
      add("attn_k_norm", {m.head_size});
    }
    add("attn_output", {m.width, q});
    add("ffn_norm", {m.width});
    const bool mixed = m.experts.count > 0 && (m.experts.layers.empty() || m.experts.layers[i]);
    if (mixed) AddExperts(row, m, i, list);
    if (mixed && m.experts.shared == 0) continue;
    const int64_t inner = mixed ? m.experts.shared : m.inner;
    add(mixed ? "ffn_gate_shexp" : "ffn_gate", {inner, m.width});
    add(mixed ? "ffn_up_shexp" : "ffn_up", {inner, m.width});
    add(mixed ? "ffn_down_shexp" : "ffn_down", {m.width, inner});
    if (mixed) add("ffn_gate_inp_shexp", {1, m.width});
  }
  return list;
}

// In pieces of this many elements.
constexpr int64_t kPiece = 1 << 20;

Status WriteTensor(const Shaped& tensor, XorShift& random, std::vector<uint16_t>& piece,
                   NewFile& file) {
  const int64_t elements = *CheckedProduct(tensor.sizes);
  const bool norm = tensor.sizes.size() == 1 && !tensor.bias;
  // A uniform number of [-1, 1) has variance 1/3.
  const float deviation =
      tensor.bias ? 0.1f : std::sqrt(3.0f / static_cast<float>(tensor.sizes.back()));
  for (int64_t at = 0; at < elements; at += kPiece) {
    const int64_t n = std::min(kPiece, elements - at);
    for (int64_t i = 0; i < n; i += 4) {  // the vector has room for the last four
      const uint64_t bits = norm ? 0 : random.Next();
      for (int64_t k = 0; k < 4; ++k) {
        const auto number = static_cast<int16_t>(bits >> (16 * k));
        piece[static_cast<size_t>(i + k)] =
            FloatToBfloat16(norm ? 1.0f : static_cast<float>(number) * 0x1p-15f * deviation);
      }
    }
    EVOQ_TRY(file.Write(std::as_bytes(std::span(piece)).first(static_cast<size_t>(n) * 2)));
  }
  return {};
}

std::string FullName(const Architecture& row, const Shaped& t) {
  return HuggingFaceName(row, t.name) + (t.bias ? ".bias" : ".weight");
}
uint64_t BytesOf(const Shaped& t) { return static_cast<uint64_t>(*CheckedProduct(t.sizes)) * 2; }

// A safetensors file of these tensors.
Status WriteShard(const Architecture& row, std::span<const Shaped> tensors, XorShift& random,
                  const std::string& path) {
  json header = json::object();
  uint64_t at = 0;
  for (const Shaped& t : tensors) {
    const uint64_t bytes = BytesOf(t);
    header[FullName(row, t)] = {
        {"dtype", "BF16"}, {"shape", t.sizes}, {"data_offsets", {at, at + bytes}}};
    at += bytes;
  }
  std::string text = header.dump();
  text.resize(static_cast<size_t>(RoundUp(static_cast<int64_t>(text.size()) + 8, 64)) - 8, ' ');
  const uint64_t size = text.size();
  EVOQ_ASSIGN(const Destination to, Resolve(path));
  EVOQ_ASSIGN(NewFile file, NewFile::Create(to.path));
  EVOQ_TRY(file.Write(std::as_bytes(std::span(&size, 1))));
  EVOQ_TRY(file.Write(std::as_bytes(std::span(text))));
  std::vector<uint16_t> piece(kPiece + 4);
  for (const Shaped& t : tensors) EVOQ_TRY(WriteTensor(t, random, piece, file));
  return file.Commit();
}

// Where each shard ends.
std::vector<size_t> ShardsOf(std::span<const Shaped> tensors, const RandomParts& parts) {
  uint64_t all = 0, shard = 0;
  for (const Shaped& t : tensors) all += BytesOf(t);
  std::vector<size_t> ends;
  for (size_t i = 0; all > parts.most_in_file && i < tensors.size(); ++i) {
    if (shard > 0 && shard + BytesOf(tensors[i]) > parts.most_in_shard) {
      ends.push_back(i);
      shard = 0;
    }
    shard += BytesOf(tensors[i]);
  }
  ends.push_back(tensors.size());
  return ends;
}

}  // namespace

Status WriteRandomFolder(const json& config, const RandomParts& parts, uint32_t seed,
                         const std::string& folder) {
  EVOQ_ASSIGN(const LanguageModel model, ReadConfig(config));
  const Architecture& row = *FindArchitecture(model.architecture);
  const std::vector<Shaped> tensors = TensorsOf(row, model, parts);
  const std::vector<size_t> ends = ShardsOf(tensors, parts);
  EVOQ_TRY(MakeDirectories(folder));
  XorShift random(seed * 2654435761u + 1);
  json index = {{"metadata", {{"total_size", 0}}}, {"weight_map", json::object()}};
  for (size_t i = 0, begin = 0; i < ends.size(); begin = ends[i++]) {
    const std::span<const Shaped> shard = std::span(tensors).subspan(begin, ends[i] - begin);
    const std::string name =
        ends.size() == 1 ? "model.safetensors"
                         : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, ends.size());
    EVOQ_TRY(WriteShard(row, shard, random, folder + "/" + name));
    for (const Shaped& t : shard) {
      index["weight_map"][FullName(row, t)] = name;
      json& total = index["metadata"]["total_size"];
      total = total.get<uint64_t>() + BytesOf(t);
    }
  }
  if (ends.size() > 1)
    EVOQ_TRY(WriteFileAtomic(folder + "/model.safetensors.index.json", index.dump(2) + "\n"));
  return WriteFileAtomic(folder + "/config.json", config.dump(2) + "\n");
}

}  // namespace evoq
