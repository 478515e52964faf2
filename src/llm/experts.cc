#include "llm/experts.h"

#include <algorithm>

#include "llm/experts_in_turn.h"

namespace evoq {
namespace {

// A name of a stack, behind "blk.N.", and those of what it holds for each expert.
struct Stack {
  std::string_view name;
  std::string_view parts[2];
};
constexpr Stack kStacks[] = {{"ffn_gate_exps", {"ffn_gate"}},
                             {"ffn_up_exps", {"ffn_up"}},
                             {"ffn_down_exps", {"ffn_down"}},
                             {"ffn_gate_up_exps", {"ffn_gate", "ffn_up"}}};

// Part `i` of `count` along the first axes of a tensor, which has them in one order.
StoredTensor PartOf(const StoredTensor& whole, std::vector<int64_t> sizes, int64_t i,
                    int64_t count) {
  StoredTensor part = whole;
  part.sizes = std::move(sizes);
  const size_t bytes = whole.bytes.size() / static_cast<size_t>(count);
  part.bytes = whole.bytes.subspan(static_cast<size_t>(i) * bytes, bytes);
  return part;
}

}  // namespace

Result<StoredTensors> SingleExperts(const LanguageModel& model, const StoredTensors& tensors) {
  const int64_t experts = model.experts.count;
  if (experts == 0) return tensors;
  StoredTensors all;
  for (const auto& [name, tensor] : tensors) {
    const size_t layer = name.find('.', 4), kind = name.rfind('.');
    const bool block = name.starts_with("blk.") && layer != name.npos && kind > layer;
    const std::string_view stem =
        block ? std::string_view(name).substr(layer + 1, kind - layer - 1) : std::string_view();
    const auto* const stack = std::ranges::find(kStacks, stem, &Stack::name);
    if (stack == std::end(kStacks)) {
      StoredTensor& same = all.emplace(name, tensor).first->second;
      if (stem == "ffn_gate_inp_shexp" && same.sizes.size() == 1)
        same.sizes.insert(same.sizes.begin(), 1);
      continue;
    }
    const int64_t parts = stack->parts[1].empty() ? 1 : 2;
    const size_t rank = name.ends_with(".bias") ? 2 : 3;
    if (tensor.joined != nullptr || tensor.sizes.size() != rank || tensor.sizes[0] != experts ||
        tensor.sizes[1] % parts != 0)
      return InvalidInput("tensor {} is {}, expected a stack of {} experts", name,
                          tensor.ToString(), experts);
    std::vector<int64_t> sizes(tensor.sizes.begin() + 1, tensor.sizes.end());
    sizes[0] /= parts;
    for (int64_t i = 0; i < experts * parts; ++i) {
      const std::string part =
          fmt::format("{}{}.{}{}", name.substr(0, layer + 1),
                      stack->parts[static_cast<size_t>(i % parts)], i / parts, name.substr(kind));
      StoredTensor single = PartOf(tensor, sizes, i, experts * parts);
      if (std::ssize(single.factors) == experts)
        single.factors = {tensor.factors[static_cast<size_t>(i / parts)]};
      if (!all.emplace(part, std::move(single)).second)
        return InvalidInput("tensor {} is there beside the stack {}", part, name);
    }
  }
  EVOQ_TRY(TakeExpertsInTurn(model, all));
  return all;
}

}  // namespace evoq
