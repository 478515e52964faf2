// Which group a layer belongs to: by its type where the tool tells one that says what the layer
// computes, by the operators in its name only where it does not.
//
// Types are those of nvinfer1::LayerType (TensorRT 8.4 to 11), of the kernels that TensorRT's
// inspector names in their place
// ("CaskConvActPool", "PointWiseV2", "correlation"), of ONNX and ONNX Runtime, and of OpenVINO's
// node_type.
#include <algorithm>
#include <optional>
#include <string_view>

#include "foreign/profiles/foreign_run.h"

namespace evoq {
namespace {

// "MATRIX_MULTIPLY", "MatrixMultiply" -> "matrixmultiply".
std::string Plain(const std::string& type) {
  std::string out = LowerCase(type);
  std::erase(out, '_');
  return out;
}

// Whole types, separated by spaces: those that hold a word of another group (Concatenation,
// Convert, Broadcast), and those that hold none.
struct Types {
  LayerGroup group;
  std::string_view types;
};
constexpr Types kTypes[] = {
    {LayerGroup::kReformatQdq, " cast castlike quantize dequantize dynamicquantize "},
    {LayerGroup::kMatMul, " fc einsum innerproduct mha fmha "},
    {LayerGroup::kElementwise,
     " add addv2 sub subtract mul multiply div divide mod floormod pow power sum min minimum max "
     "maximum mean abs neg negative "
     "sign sqrt rsqrt reciprocal exp log erf floor ceil ceiling round sin cos tan asin acos atan "
     "sinh cosh tanh asinh acosh atanh logistic "
     "not and or xor logicaland logicalor logicalnot logicalxor equal notequal greater "
     "greaterequal greaterorequal less lessequal "
     "lessorequal where select isnan isinf scale unary math elu selu celu mish softplus softsign "
     "hardsigmoid hsigmoid "
     "hardswish hswish softrelu thresholdedrelu parametricrelu squareddifference "
     "batchnormalization batchnorm "
     "qlinearadd qlinearmul qlinearsigmoid qlinearleakyrelu "},
    {LayerGroup::kOther,
     " shuffle transpose reshape flatten squeeze unsqueeze slice stridedslice concatenation concat "
     "qlinearconcat split variadicsplit "
     "gather gatherelements gathernd scatter scatterelements scatternd padding pad tile expand "
     "broadcast resize interpolate "
     "upsample softmax logsoftmax raggedsoftmax softmaxv2 casksoftmax casksoftmaxv2 cudasoftmax "
     "reduce topk nms "
     "nonmaxsuppression nonzero onehot shape shapeof shapecall constant const identity noop fill "
     "range gridsample "
     "reversesequence normalization layernormalization instancenormalization groupnormalization "
     "mvn normalizel2 lrn cumulative "
     "cumsum depthtospace spacetodepth shufflechannels triplimit recurrence iterator loopoutput "
     "condition conditionalinput "
     "conditionaloutput assertion attentioninput attentionoutput rotaryembedding kvcacheupdate moe "
     "distcollective rnnv2 lstm gru "
     "rnn wait signal "},
};

struct Word {
  std::string_view word;
  LayerGroup group;
};

// Parts of types, the first that fits: a convolution that ends in pooling (ConvActPool) does a
// convolution's work.
constexpr Word kWords[] = {
    {"reformat", LayerGroup::kReformatQdq},
    {"reorder", LayerGroup::kReformatQdq},
    {"memcpy", LayerGroup::kReformatQdq},
    {"quantizelinear", LayerGroup::kReformatQdq},
    {"fakequantize", LayerGroup::kReformatQdq},
    {"convert", LayerGroup::kReformatQdq},
    {"conv", LayerGroup::kConv},
    {"correlation", LayerGroup::kConv},
    {"pool", LayerGroup::kPooling},
    {"matmul", LayerGroup::kMatMul},
    {"matrixmultiply", LayerGroup::kMatMul},
    {"gemm", LayerGroup::kMatMul},
    {"fullyconnected", LayerGroup::kMatMul},
    {"attention", LayerGroup::kMatMul},
    {"reduce", LayerGroup::kOther},
    {"pointwise", LayerGroup::kElementwise},
    {"elementwise", LayerGroup::kElementwise},
    {"eltwise", LayerGroup::kElementwise},
    {"activation", LayerGroup::kElementwise},
    {"relu", LayerGroup::kElementwise},
    {"sigmoid", LayerGroup::kElementwise},
    {"clip", LayerGroup::kElementwise},
    {"clamp", LayerGroup::kElementwise},
    {"silu", LayerGroup::kElementwise},
    {"gelu", LayerGroup::kElementwise},
    {"swish", LayerGroup::kElementwise},
};

// What the type says; nothing for generated and foreign code ("kgen", "Myelin", "PluginV3") and for
// types that are not known.
std::optional<LayerGroup> GroupOfType(const std::string& type) {
  const std::string plain = Plain(type), whole = " " + plain + " ";
  if (plain.empty()) return std::nullopt;
  for (const Types& row : kTypes) {
    if (row.types.find(whole) != std::string_view::npos) return row.group;
  }
  for (const Word& w : kWords) {
    if (plain.find(w.word) != std::string::npos) return w.group;
  }
  return std::nullopt;
}

// The group of one operator by its name: "/layer1/conv1/Conv", "QuantizeLinear_7",
// "resnetv15_pool0_fwd".
LayerGroup GroupOfPart(std::string part) {
  if (part.ends_with(".weight") || part.ends_with(".bias")) return LayerGroup::kOther;
  if (const size_t slash = part.rfind('/'); slash != std::string::npos)
    part = part.substr(slash + 1);
  const auto has = [&](const char* word) { return part.find(word) != std::string::npos; };
  if (has("quantizelinear") || has("cast")) return LayerGroup::kReformatQdq;
  if (has("conv")) return LayerGroup::kConv;
  if (has("gemm") || has("matmul")) return LayerGroup::kMatMul;
  if (has("pool")) return LayerGroup::kPooling;
  for (const char* word : {"relu", "add", "mul", "sub", "div", "sigmoid", "clip", "tanh", "pwn("}) {
    if (has(word)) return LayerGroup::kElementwise;
  }
  return LayerGroup::kOther;
}

// A fused layer is named after all its operators ("conv1.weight + QuantizeLinear_7 + Conv_9"): the
// one that does most of the work names the group.
LayerGroup GroupOfName(const std::string& name) {
  if (name.starts_with("{ForeignNode"))
    return LayerGroup::kOther;  // a whole part of the graph, from its first layer to its last
  constexpr LayerGroup kByWork[] = {LayerGroup::kConv, LayerGroup::kMatMul, LayerGroup::kPooling,
                                    LayerGroup::kReformatQdq, LayerGroup::kElementwise};
  bool found[kLayerGroups] = {};
  for (const std::string& part : OperatorsIn(name))
    found[static_cast<int>(GroupOfPart(LowerCase(part)))] = true;
  for (LayerGroup group : kByWork) {
    if (found[static_cast<int>(group)]) return group;
  }
  return LayerGroup::kOther;
}

}  // namespace

const char* LayerGroupName(LayerGroup group) {
  constexpr const char* kNames[kLayerGroups] = {"conv",   "reformat_qdq", "pooling",
                                                "matmul", "elementwise",  "other"};
  return kNames[static_cast<int>(group)];
}

std::vector<std::string> OperatorsIn(const std::string& name) {
  std::vector<std::string> operators;
  for (size_t begin = 0;
       begin <= name.size();) {  // " || " stands between layers that were merged side by side
    const size_t plus = std::min(name.find(" + ", begin), name.size()),
                 bars = std::min(name.find(" || ", begin), name.size());
    const size_t end = std::min(plus, bars);
    operators.push_back(name.substr(begin, end - begin));
    begin = end + (bars < plus ? 4 : 3);
  }
  return operators;
}

bool TypeTellsGroup(const std::string& type) { return GroupOfType(type).has_value(); }

LayerGroup GroupOf(const std::string& type, const std::string& name) {
  // TensorRT's own name for a copy, whether it runs ("Reformat") or turns out to cost nothing
  // ("NoOp").
  if (name.starts_with("Reformatting CopyNode") && (type.empty() || type == "NoOp"))
    return LayerGroup::kReformatQdq;
  if (const auto group = GroupOfType(type)) return *group;
  return GroupOfName(name);
}

}  // namespace evoq
