// Every operator on random tensors, types and attributes: an Error is fine, a crash is not. Meant
// for the sanitizers too.
#include <random>

#include "reference/test_node.h"

namespace evoq {
namespace {

class Source {
 public:
  explicit Source(uint32_t seed) : random_(seed) {}
  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  template <typename T>
  T Pick(std::initializer_list<T> items) {
    return *(items.begin() + Below(static_cast<int64_t>(items.size())));
  }

  Tensor RandomTensor() {
    std::vector<int64_t> sizes;
    for (int64_t rank = Pick<int64_t>({0, 1, 1, 2, 3, 4, 4, 5}); rank > 0; --rank)
      sizes.push_back(Pick<int64_t>({0, 1, 1, 2, 2, 3, 4}));
    const DType dtype =
        Pick({DType::kFloat32, DType::kFloat32, DType::kFloat32, DType::kInt64, DType::kInt64,
              DType::kUint8, DType::kInt8, DType::kInt32, DType::kBool, DType::kFloat64,
              DType::kFloat16, DType::kUint64, DType::kInt4, DType::kUint16, DType::kString,
              DType::kFloat8E4M3FN, DType::kFloat4E2M1, DType::kInt2});
    Tensor t = Tensor::Allocate(TensorType(dtype, Shape(sizes)));
    for (int64_t i = 0; i < t.elements() && DTypeBits(dtype) >= 8; ++i) Write(t, i);
    if (Below(6) == 0 && (dtype == DType::kUint8 || dtype == DType::kInt8))
      t = t.WithType(TensorType(
          dtype, t.shape(),
          QuantParams::PerTensor(Pick({0.5f, 1e-30f, 3e38f}), static_cast<int>(Below(100)))));
    return t;
  }

  // Now and then a sequence or an optional.
  Tensor RandomValue() {
    Tensor t = RandomTensor();
    if (Below(12) != 0) return t;
    const TensorType type(t.dtype(), t.shape());
    std::vector<Tensor> items(static_cast<size_t>(Below(3)),
                              t.type().quantized() ? t.WithType(type) : t);
    Tensor list = Tensor::Of(ValueKind::kSequence, type, std::move(items));
    if (Below(3) == 0) return Tensor::Of(ValueKind::kOptionalSequence, type, {list});
    return Below(2) == 0 ? list : Tensor::Of(ValueKind::kOptional, type, {});
  }

  AttrValue RandomAttr() {
    switch (Below(8)) {
      case 0: return Pick({1.5f, -0.0f, 1e38f});
      case 1: return std::vector<int64_t>{Number(), Number()};
      case 2: return std::vector<int64_t>{1, 1};
      case 3:
        return std::string(Pick({"reflect", "add", "LEFT", "SAME_UPPER", "tanh", "linear", "mean",
                                 "TF", "LOWER", "circular", "(a|b)*c{2,}"}));
      case 4: return RandomTensor();
      case 5: return std::vector<std::string>{"a", "b"};
      default: return Number();
    }
  }

  int64_t Number() {
    return Pick<int64_t>({0, 1, 2, 3, -1, -2, 7, 100, int64_t{1} << 31, int64_t{1} << 45,
                          std::numeric_limits<int64_t>::max(),
                          std::numeric_limits<int64_t>::min()});
  }

 private:
  void Write(Tensor& t, int64_t i) {
    const int64_t small = Pick<int64_t>({0, 1, 1, 2, 2, 3, -1, -2});
    const float real =
        Pick({0.0f, 1.0f, -1.5f, 2.0f, 1e30f, -__builtin_inff(), __builtin_nanf("")});
    switch (t.dtype()) {
      case DType::kFloat32: t.mutable_data<float>()[i] = real; break;
      case DType::kFloat64: t.mutable_data<double>()[i] = real; break;
      case DType::kFloat16: t.mutable_data<uint16_t>()[i] = FloatToHalf(real); break;
      case DType::kInt64:
      case DType::kUint64: t.mutable_data<int64_t>()[i] = Below(8) == 0 ? Number() : small; break;
      case DType::kInt32: t.mutable_data<int32_t>()[i] = static_cast<int32_t>(small); break;
      case DType::kUint16: t.mutable_data<uint16_t>()[i] = static_cast<uint16_t>(small); break;
      case DType::kString:
        t.mutable_data<std::string>()[i] = std::string(static_cast<size_t>(Below(3)), 'a');
        break;
      case DType::kBool: t.mutable_data<bool>()[i] = small > 0; break;
      default: t.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(small); break;
    }
  }
  std::mt19937 random_;
};

TEST(Robust, EveryOperatorOnRandomNodes) {
  // clang-format off: one name a line is a page
  constexpr const char* kAttributes[] = {
      "axis", "axes", "keepdims", "perm", "mode", "direction", "alpha", "batch_dims", "to",
      "reduction", "allowzero", "group", "pads", "strides", "dilations", "kernel_shape",
      "num_outputs", "k", "value", "start", "end", "batch_axis", "time_axis", "auto_pad", "fmod",
      "noop_with_empty_axes", "blocksize", "size", "activation", "channels_last", "exclusive",
      "sorted", "output_shape", "output_padding", "transA", "num_heads", "q_num_heads",
      "kv_num_heads", "is_causal", "scale", "output_height", "sampling_ratio", "dtype",
      "sample_size", "onesided", "inverse", "interleaved", "pattern", "delimiter", "maxsplit",
      "new_axis", "pooled_shape", "shape", "ngram_indexes", "ngram_counts", "pool_int64s",
      "pool_strings", "qk_matmul_output_mode"
  };
  // clang-format on
  int succeeded = 0, tried = 0;
  for (const OpDef* op : AllOps()) {
    Source source(static_cast<uint32_t>(std::hash<std::string_view>()(op->name)));
    for (int round = 0; round < 300; ++round) {
      const int most = op->max_inputs < 0 ? 3 : op->max_inputs;
      const int count = op->min_inputs + static_cast<int>(source.Below(most - op->min_inputs + 1));
      std::vector<Tensor> inputs;
      std::vector<bool> given;
      for (int i = 0; i < count; ++i) {
        const int64_t kind = source.Below(4);
        inputs.push_back(kind == 0 && i > 0                 ? inputs[0]
                         : kind == 1 && i >= op->min_inputs ? Tensor()
                                                            : source.RandomValue());
        given.push_back(inputs.back().defined());
      }
      Attrs attrs;
      for (const char* name : kAttributes) {
        if (source.Below(8) == 0) attrs.Set(name, source.RandomAttr());
      }
      const int outputs = op->outputs < 0 ? 2 : 1 + static_cast<int>(source.Below(op->outputs));
      Node node = TestNode(op->name, std::move(attrs), given, outputs);
      node.domain = op->domain;
      const auto result = EvaluateNode(node, inputs, std::vector<TensorType>(outputs));
      ++tried;
      succeeded += result.has_value();
    }
  }
  // Random nodes that make sense exist: the test reaches evaluation.
  EXPECT_GT(succeeded * 20, tried);
}

}  // namespace
}  // namespace evoq
