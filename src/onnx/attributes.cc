#include "onnx/attributes.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/budget_scope.h"
#include "onnx/tensor_proto.h"

namespace evoq {
namespace {

using Kind = onnx::AttributeProto_AttributeType;

// The kind that an attribute name has in every ONNX operator that uses it; names of several kinds
// are not listed.
struct KindRow {
  Kind kind;
  std::string_view names;  // separated and enclosed by spaces
};
constexpr KindRow kKinds[] = {
    {onnx::AttributeProto::INT,
     " align_corners allowzero antialias axis batch_axis batch_dims block_size blocksize ceil_mode "
     "center_point_box "
     "count_include_pad detect_negative detect_positive dtype end exclude_outside exclusive fmod "
     "group "
     "hidden_size ignore_index input_forget interleaved inverse is_causal k keepdims kv_num_heads "
     "layout largest "
     "linear_before_reset new_axis noop_with_empty_axes num_groups num_heads num_outputs "
     "offset_group onesided "
     "output_datatype output_dtype output_height output_width periodic precision q_num_heads "
     "reverse rotary_embedding_dim "
     "sampling_ratio saturate select_last_index sorted spatial start stash_type storage_order "
     "time_axis to "
     "training_mode transA transB upper value_int "},
    {onnx::AttributeProto::FLOAT,
     " alpha beta bias clip cubic_coeff_a epsilon extrapolation_value gamma high lambd low max "
     "mean min momentum ratio scale "
     "softcap spatial_scale value_float "},
    {onnx::AttributeProto::STRING,
     " approximate auto_pad coordinate_transformation_mode direction equation "
     "keep_aspect_ratio_policy mode nearest_mode "
     "padding_mode reduction value_string "},
    {onnx::AttributeProto::INTS,
     " axes dilations ends kernel_shape output_padding output_shape pads perm pooled_shape shape "
     "split starts strides "
     "value_ints "},
    {onnx::AttributeProto::FLOATS, " activation_alpha activation_beta scales value_floats "},
    {onnx::AttributeProto::STRINGS, " activations value_strings stopwords pool_strings "},
    {onnx::AttributeProto::GRAPH, " body else_branch then_branch "},
    {onnx::AttributeProto::TYPE_PROTO, " type "},
};

// Names that only the dialect gives a meaning. `activation` has one in ONNX too, on the operators
// of kActivated, and `channels_last` in com.microsoft, on those of kChannelsLast.
constexpr std::array<std::string_view, 2> kDialectOnly = {"channels_last", "captured"};

constexpr std::array<std::string_view, 3> kActivated = {"CausalConvWithState", "FusedConv",
                                                        "FusedGemm"};

constexpr std::array<std::string_view, 2> kChannelsLast = {"QLinearAveragePool",
                                                           "QLinearGlobalAveragePool"};

bool IsDialectOnly(const onnx::NodeProto& node, const std::string& name) {
  if (name == "channels_last" && node.domain() == "com.microsoft" &&
      std::find(kChannelsLast.begin(), kChannelsLast.end(), node.op_type()) != kChannelsLast.end())
    return false;
  if (std::find(kDialectOnly.begin(), kDialectOnly.end(), name) != kDialectOnly.end()) return true;
  return name == "activation" &&
         std::find(kActivated.begin(), kActivated.end(), node.op_type()) == kActivated.end();
}

Status CheckKind(const onnx::AttributeProto& attr) {
  const std::string wanted = " " + attr.name() + " ";
  for (const KindRow& row : kKinds) {
    if (row.names.find(wanted) == std::string_view::npos || row.kind == attr.type()) continue;
    return InvalidInput("attribute {} is of kind {}, expected {}", attr.name(),
                        onnx::AttributeProto_AttributeType_Name(attr.type()),
                        onnx::AttributeProto_AttributeType_Name(row.kind));
  }
  return {};
}

Result<AttrValue> ValueOf(const onnx::AttributeProto& attr, ExternalFiles* external) {
  switch (attr.type()) {
    case onnx::AttributeProto::FLOAT: return attr.f();
    case onnx::AttributeProto::INT: return attr.i();
    case onnx::AttributeProto::STRING: return attr.s();
    case onnx::AttributeProto::FLOATS:
      return std::vector<float>(attr.floats().begin(), attr.floats().end());
    case onnx::AttributeProto::INTS:
      return std::vector<int64_t>(attr.ints().begin(), attr.ints().end());
    case onnx::AttributeProto::STRINGS:
      return std::vector<std::string>(attr.strings().begin(), attr.strings().end());
    case onnx::AttributeProto::TENSOR: {
      EVOQ_ASSIGN(Tensor t, TensorFromProto(attr.t(), external));
      EVOQ_ASSIGN(Tensor computed, ComputeTensor(std::move(t)));
      return AttrValue(std::move(computed));
    }
    default:
      return Unsupported("an attribute of kind {}",
                         onnx::AttributeProto_AttributeType_Name(attr.type()));
  }
}

bool NamesType(const std::string& name) {
  return name == "to" || name == "dtype" || name == "output_dtype" || name == "output_datatype";
}

}  // namespace

Result<Tensor> ComputeTensor(Tensor tensor) {
  if (ComputeType(tensor.dtype()) == tensor.dtype()) return tensor;
  EVOQ_TRY(SpendMemory(tensor.elements() * static_cast<int64_t>(sizeof(float)),
                       "16-bit constants, which become float32"));
  return ToFloat32(tensor);
}

bool HasSubgraph(const onnx::NodeProto& node) {
  return std::any_of(
      node.attribute().begin(), node.attribute().end(), [](const onnx::AttributeProto& a) {
        return a.type() == onnx::AttributeProto::GRAPH || a.type() == onnx::AttributeProto::GRAPHS;
      });
}

Result<Attrs> AttrsFromProto(const onnx::NodeProto& node, ExternalFiles* external) {
  Attrs attrs;
  for (const onnx::AttributeProto& attr : node.attribute()) {
    if (!attr.ref_attr_name().empty())
      return Unsupported("attribute {} refers to a function's attribute", attr.name());
    if (attrs.Has(attr.name())) return InvalidInput("attribute {} appears twice", attr.name());
    if (node.domain().empty() || node.domain() == "ai.onnx") {
      EVOQ_TRY(CheckKind(attr));
    }
    if (IsDialectOnly(node, attr.name()))
      return InvalidInput("attribute {}, which {} does not have", attr.name(), node.op_type());
    if (attr.type() == onnx::AttributeProto::GRAPH) continue;  // import.cc reads subgraphs
    if (attr.type() == onnx::AttributeProto::TYPE_PROTO) {
      const bool sequence = attr.tp().has_sequence_type();
      const auto& tensor = sequence ? attr.tp().sequence_type().elem_type() : attr.tp();
      EVOQ_ASSIGN(const DType dtype, WithContext(DTypeFromProto(tensor.tensor_type().elem_type()),
                                                 "attribute " + attr.name()));
      attrs.Set(attr.name(), static_cast<int>(ComputeType(dtype)));
      attrs.Set(attr.name() + "_is_sequence", sequence ? 1 : 0);
      continue;
    }
    EVOQ_ASSIGN(AttrValue value, WithContext(ValueOf(attr, external), "attribute " + attr.name()));
    if (int64_t* number = std::get_if<int64_t>(&value);
        number != nullptr && NamesType(attr.name())) {
      if (const auto dtype = DTypeFromOnnx(static_cast<int>(*number));
          dtype && *number == static_cast<int>(*dtype))
        *number = static_cast<int64_t>(ComputeType(*dtype));
    }
    attrs.Set(attr.name(), std::move(value));
  }
  return attrs;
}

void AttrToProto(const std::string& name, const AttrValue& value, onnx::NodeProto& node) {
  onnx::AttributeProto& attr = *node.add_attribute();
  attr.set_name(name);
  if (const auto* i = std::get_if<int64_t>(&value)) {
    attr.set_type(onnx::AttributeProto::INT);
    attr.set_i(*i);
  } else if (const auto* f = std::get_if<float>(&value)) {
    attr.set_type(onnx::AttributeProto::FLOAT);
    attr.set_f(*f);
  } else if (const auto* s = std::get_if<std::string>(&value)) {
    attr.set_type(onnx::AttributeProto::STRING);
    attr.set_s(*s);
  } else if (const auto* ints = std::get_if<std::vector<int64_t>>(&value)) {
    attr.set_type(onnx::AttributeProto::INTS);
    attr.mutable_ints()->Add(ints->begin(), ints->end());
  } else if (const auto* floats = std::get_if<std::vector<float>>(&value)) {
    attr.set_type(onnx::AttributeProto::FLOATS);
    attr.mutable_floats()->Add(floats->begin(), floats->end());
  } else if (const auto* strings = std::get_if<std::vector<std::string>>(&value)) {
    attr.set_type(onnx::AttributeProto::STRINGS);
    for (const std::string& s : *strings) attr.add_strings(s);
  } else {
    attr.set_type(onnx::AttributeProto::TENSOR);
    TensorToProto(std::get<Tensor>(value), name, *attr.mutable_t());
  }
}

}  // namespace evoq
