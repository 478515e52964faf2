#include "llm/experts_in_turn.h"

#include <cmath>
#include <cstring>

#include "base/budget_scope.h"
#include "llm/packed_matrix.h"

namespace evoq {
namespace {

constexpr int64_t kBlock = 32;

// The matrix of one expert: outputs first, first + step, ... of a stack's.
struct Part {
  const StoredTensor* stack;
  const StoredTensor* scales;  // of blocks; null: plain elements
  int64_t expert, first, step, inputs, outputs;
};

// [inputs, outputs] in float32, of a stack [experts, inputs, step * outputs].
Result<Tensor> PlainPart(const StoredTensor& stack, const Part& p) {
  EVOQ_TRY(SpendMemory(p.inputs * p.outputs * 4, "weights of an expert"));
  Tensor y = Tensor::Allocate(TensorType(DType::kFloat32, Shape{p.inputs, p.outputs}));
  const int64_t from = p.expert * p.inputs * p.outputs * p.step + p.first;
  for (int64_t i = 0; i < p.inputs * p.outputs; ++i)
    y.mutable_data<float>()[i] = RealAt(stack, from + i * p.step);
  return y;
}

// float4e2m1 [inputs, outputs] in blocks along the inputs, of a stack [experts, step * outputs,
// inputs / 32, 16].
Result<Tensor> BlocksPart(const StoredTensor& stack, const StoredTensor& scales, const Part& p) {
  const int64_t blocks = p.inputs / kBlock, rows = p.step * p.outputs;
  EVOQ_TRY(SpendMemory(p.inputs * p.outputs / 2 + blocks * p.outputs * 8, "weights of an expert"));
  QuantParams quant;
  quant.axis = 0, quant.block = kBlock;
  quant.scales.resize(static_cast<size_t>(blocks * p.outputs));
  quant.zero_points.resize(quant.scales.size());
  const TensorType plain(DType::kFloat4E2M1, Shape{p.inputs, p.outputs});
  Tensor y = Tensor::Allocate(plain);
  for (int64_t n = 0; n < p.outputs; ++n) {
    const int64_t row = p.expert * rows + p.first + n * p.step;
    for (int64_t b = 0; b < blocks; ++b) {
      const auto exponent =
          std::to_integer<int>(scales.bytes[static_cast<size_t>(row * blocks + b)]);
      if (exponent == 255) return InvalidInput("output {}, block {}: the scale is NaN", n, b);
      quant.scales[static_cast<size_t>(b * p.outputs + n)] = std::ldexp(1.0f, exponent - 127);
    }
    for (int64_t k = 0; k < p.inputs; ++k) {
      const auto byte =
          std::to_integer<int>(stack.bytes[static_cast<size_t>((row * p.inputs + k) / 2)]);
      SetPackedBits(y.mutable_raw(), k * p.outputs + n, 4, k % 2 == 0 ? byte & 15 : byte >> 4);
    }
  }
  return y.WithType(TensorType(plain.dtype, plain.shape, std::move(quant)));
}

StoredTensor MatrixOf(const Part& p) {
  StoredTensor out{.sizes = {p.outputs, p.inputs}}, read = *p.stack;
  const size_t bytes = read.bytes.size() / static_cast<size_t>(read.sizes[0]);
  read.bytes = read.bytes.subspan(static_cast<size_t>(p.expert) * bytes, bytes);
  JoinedWeight joined{.format = p.scales != nullptr ? "MXFP4" : "experts in turn",
                      .parts = {std::move(read)}};
  joined.constant = [p, stack = *p.stack,
                     scales = p.scales != nullptr ? *p.scales : StoredTensor()] {
    return p.scales != nullptr ? BlocksPart(stack, scales, p) : PlainPart(stack, p);
  };
  out.joined = std::make_shared<const JoinedWeight>(std::move(joined));
  return out;
}

StoredTensor VectorOf(const StoredTensor& stack, int64_t expert, int64_t first, int64_t step,
                      int64_t size) {
  auto values = std::make_shared<std::vector<float>>();
  for (int64_t i = 0; i < size; ++i)
    values->push_back(RealAt(stack, (expert * size + i) * step + first));
  return {.sizes = {size},
          .dtype = DType::kFloat32,
          .bytes = std::as_bytes(std::span(*values)),
          .owner = values};
}

// A stack of this name, by its file's type and sizes.
struct Stack {
  const char* name;
  std::vector<const char*> parts;  // of one step
  int64_t inputs, outputs;         // of a part
};

}  // namespace

Status TakeExpertsInTurn(const LanguageModel& model, StoredTensors& tensors) {
  const Experts& e = model.experts;
  const Stack stacks[] = {{"ffn_pair", {"ffn_gate", "ffn_up"}, model.width, e.inner},
                          {"ffn_last", {"ffn_down"}, e.inner, model.width}};
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    for (const Stack& s : stacks) {
      const std::string block = fmt::format("blk.{}.", layer);
      const auto step = static_cast<int64_t>(s.parts.size());
      // The tensor of these sizes, if there is one.
      const auto take = [&](const char* kind, std::vector<int64_t> sizes,
                            bool real) -> Result<std::optional<StoredTensor>> {
        const auto found = tensors.find(fmt::format("{}{}_{}.weight", block, s.name, kind));
        if (found == tensors.end()) return std::nullopt;
        StoredTensor tensor = found->second;
        const bool fits = real ? CheckReal(tensor, found->first).has_value()
                               : tensor.dtype == DType::kUint8 && tensor.blocks == nullptr;
        if (!fits || tensor.joined != nullptr || tensor.sizes != sizes)
          return InvalidInput("tensor {} is {}, expected {} elements of sizes {}", found->first,
                              tensor.ToString(), real ? "real" : "uint8", Shape(sizes).ToString());
        tensors.erase(found);
        return tensor;
      };
      const int64_t outputs = step * s.outputs;
      EVOQ_ASSIGN(const auto plain, take("exps", {e.count, s.inputs, outputs}, true));
      EVOQ_ASSIGN(const auto bias, take("bias", {e.count, outputs}, true));
      EVOQ_ASSIGN(const auto blocks,
                  take("blocks", {e.count, outputs, s.inputs / kBlock, kBlock / 2}, false));
      EVOQ_ASSIGN(const auto scales, take("scales", {e.count, outputs, s.inputs / kBlock}, false));
      if (blocks.has_value() != scales.has_value() || (blocks && (plain || s.inputs % kBlock != 0)))
        return InvalidInput("tensors {}{}_*: blocks of {} inputs with their scales, or plain ones",
                            block, s.name, kBlock);
      for (int64_t i = 0; i < e.count; ++i) {
        for (int64_t part = 0; part < step; ++part) {
          const std::string name =
              fmt::format("{}{}.{}", block, s.parts[static_cast<size_t>(part)], i);
          if (plain || blocks)
            tensors.emplace(name + ".weight",
                            MatrixOf({blocks ? &*blocks : &*plain, scales ? &*scales : nullptr, i,
                                      part, step, s.inputs, s.outputs}));
          if (bias) tensors.emplace(name + ".bias", VectorOf(*bias, i, part, step, s.outputs));
        }
      }
    }
  }
  return {};
}

}  // namespace evoq
