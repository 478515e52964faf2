#include "llm/weights.h"

#include <algorithm>

#include "base/pages.h"
#include "base/text.h"
#include "llm/block_format.h"
#include "llm/rounding_note.h"
#include "tensor/spilled.h"

namespace evoq {
namespace {

// What exporters keep beside the weights: constants that the graph has in another way.
constexpr std::string_view kIgnored[] = {
    ".rotary_emb.inv_freq",   ".attn.bias", ".attn.masked_bias", ".attention.bias",
    ".attention.masked_bias", ".k_scale",   ".v_scale"};

Attrs CastTo(DType dtype) { return Attrs::Of("to", static_cast<int64_t>(dtype)); }

bool IsReal(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat16 || dtype == DType::kBfloat16;
}

}  // namespace

std::string WeightReader::Shown(std::string_view name) const {
  constexpr std::string_view kBlock = "blk.";
  std::string_view stem = name, layer;
  if (stem.starts_with(kBlock)) {
    const size_t end = std::min(stem.find('.', kBlock.size()), stem.size() - 1);
    layer = stem.substr(kBlock.size(), end - kBlock.size());
    stem.remove_prefix(end + 1);
  }
  const size_t kind = std::min(stem.rfind('.'), stem.size());  // ".weight", ".bias"
  for (const TensorName& row : names_) {
    const auto number = NumberIn(row.gguf, stem.substr(0, kind));
    if (!number && row.gguf != stem.substr(0, kind)) continue;
    return fmt::format("{}{}{}", WithNumber(row.hugging_face, number.value_or("")),
                       stem.substr(kind), layer.empty() ? "" : fmt::format(" of layer {}", layer));
  }
  return std::string(name);
}

Result<const StoredTensor*> WeightReader::Find(const std::string& name,
                                               const std::vector<int64_t>& sizes) {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return InvalidInput("tensor {} is missing", Shown(name));
  const StoredTensor& given = found->second;
  if (given.joined != nullptr && given.joined->shaped && sizes.size() == 2 &&
      !shaped_.contains(name)) {
    EVOQ_ASSIGN(shaped_[name],
                WithContext(given.joined->shaped(sizes[0], sizes[1]), "tensor " + Shown(name)));
  }
  const auto shaped = shaped_.find(name);
  const StoredTensor& stored = shaped != shaped_.end() ? shaped->second : given;
  if (stored.sizes != sizes)
    return InvalidInput("tensor {} is {}, expected sizes {}", Shown(name), stored.ToString(),
                        Bracketed(std::span<const int64_t>(sizes)));
  if (stored.blocks == nullptr && stored.joined == nullptr && !IsReal(stored.dtype))
    return Unsupported("tensor {} is {}, expected float32, float16 or bfloat16", Shown(name),
                       stored.ToString());
  read_.insert(name);
  return &stored;
}

Result<ValueId> WeightReader::Blocks(const std::string& name, const StoredTensor& stored,
                                     bool transposed) {
  BlockLoss rounding;
  EVOQ_ASSIGN(Tensor q,
              WithContext(FromBlocks(stored, transposed, rounding), "tensor " + Shown(name)));
  if (rounding.rounded) notes_.push_back(RoundingNote({name, stored.blocks->name, rounding.share}));
  ReleasePages(stored.bytes);
  return graph_.AddConstant(name, Spilled(std::move(q)));
}

Result<ValueId> WeightReader::Matrix(const std::string& name, int64_t inputs, int64_t outputs,
                                     bool by_input) {
  ValueId& made = matrices_[name];
  if (!made.valid()) {
    EVOQ_ASSIGN(made, NewMatrix(name, inputs, outputs, by_input));
  }
  return made;
}

Result<ValueId> WeightReader::NewMatrix(const std::string& name, int64_t inputs, int64_t outputs,
                                        bool by_input) {
  const std::vector<int64_t> sizes =
      by_input ? std::vector{inputs, outputs} : std::vector{outputs, inputs};
  EVOQ_ASSIGN(const StoredTensor* stored, Find(name, sizes));
  if (stored->joined != nullptr) {
    if (by_input) return Unsupported("tensor {} is {}", Shown(name), stored->ToString());
    EVOQ_ASSIGN(Tensor q, WithContext(stored->joined->constant(), "tensor " + Shown(name)));
    for (const StoredTensor& part : stored->joined->parts) ReleasePages(part.bytes);
    return graph_.AddConstant(name, Spilled(std::move(q)));
  }
  if (stored->blocks != nullptr) {
    if (by_input) return Unsupported("tensor {}: blocks along its outputs", Shown(name));
    return Blocks(name, *stored, /*transposed=*/true);
  }
  EVOQ_ASSIGN(Tensor tensor, PlainTensor(*stored, sizes));
  ValueId w = graph_.AddConstant(name, std::move(tensor));
  if (stored->dtype != DType::kFloat32)
    w = graph_.Apply("Cast", name + ".float32", {w}, CastTo(DType::kFloat32));
  if (by_input) return w;
  return graph_.Apply("Transpose", name + ".transposed", {w},
                      Attrs::Of("perm", std::vector<int64_t>{1, 0}));
}

ValueId WeightReader::Order(const std::string& name) {
  const auto found = tensors_.find(name);
  if (found == tensors_.end() || found->second.joined == nullptr) return {};
  const std::vector<int64_t>& order = found->second.joined->order;
  if (order.empty()) return {};
  const Shape shape{static_cast<int64_t>(order.size())};
  return graph_.AddConstant(name + ".order", Tensor::FromValues<int64_t>(shape, order));
}

Result<ValueId> WeightReader::Table(const std::string& name, int64_t rows, int64_t width) {
  ValueId& made = tables_[name];
  if (made.valid()) return made;
  EVOQ_ASSIGN(const StoredTensor* stored, Find(name, {rows, width}));
  if (stored->joined != nullptr) {
    EVOQ_ASSIGN(const ValueId w, Matrix(name, width, rows, /*by_input=*/false));
    if (Order(name).valid()) return Unsupported("tensor {} is {}", Shown(name), stored->ToString());
    return made = graph_.Apply("Transpose", name + ".rows", {w},
                               Attrs::Of("perm", std::vector<int64_t>{1, 0}));
  }
  if (stored->blocks != nullptr) {
    EVOQ_ASSIGN(made, Blocks(name, *stored, /*transposed=*/false));
    return made;
  }
  EVOQ_ASSIGN(Tensor tensor, PlainTensor(*stored, stored->sizes));
  return made = graph_.AddConstant(name, std::move(tensor));
}

Result<Tensor> WeightReader::Floats(const std::string& name, const std::vector<int64_t>& sizes) {
  EVOQ_ASSIGN(const StoredTensor* stored, Find(name, sizes));
  if (stored->blocks != nullptr || stored->joined != nullptr) {
    return Unsupported("tensor {} is {}, expected plain elements", Shown(name), stored->ToString());
  }
  EVOQ_ASSIGN(const Tensor tensor, PlainTensor(*stored, stored->sizes));
  return ToFloat32(tensor);
}

Result<ValueId> WeightReader::Vector(const std::string& name, int64_t size, float plus) {
  ValueId& made = vectors_[name];
  if (made.valid()) return made;
  EVOQ_ASSIGN(Tensor values, Floats(name, {size}));
  for (int64_t i = 0; plus != 0 && i < size; ++i) values.mutable_data<float>()[i] += plus;
  return made = graph_.AddConstant(name, std::move(values));
}

Result<std::vector<double>> WeightReader::Numbers(const std::string& name,
                                                  const std::vector<int64_t>& sizes) {
  EVOQ_ASSIGN(const Tensor values, Floats(name, sizes));
  const std::span<const float> floats = values.values<float>();
  return std::vector<double>(floats.begin(), floats.end());
}

Status WeightReader::CheckAllRead() const {
  for (const auto& [name, tensor] : tensors_) {
    const bool ignored = std::ranges::any_of(
        kIgnored, [&](std::string_view suffix) { return name.ends_with(suffix); });
    if (!ignored && !read_.contains(name))
      return Unsupported("tensor {} ({}) has no place in this architecture",
                         Shown(name).substr(0, 200), tensor.ToString());
  }
  return {};
}

}  // namespace evoq
