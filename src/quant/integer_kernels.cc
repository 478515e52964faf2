#include "quant/integer_kernels.h"

#include <algorithm>
#include <list>

#include "graph/float_reason.h"
#include "kernels/activation.h"
#include "kernels/slower.h"
#include "ops/driver.h"
#include "ops/op.h"
#include "passes/example_shapes.h"
#include "reference/reference.h"

namespace evoq {
namespace {

bool IsAsked(const Node& node) {
  const OpDef* op = FindOp(node);
  return op != nullptr && (IsLinear(node) || op->spatial);
}

// A node as kernels see it once it is lowered: spatial operators are channels-last.
class Form {
 public:
  Form(const Graph& example, const Node& node) : op_(node.op), attrs_(node.attrs) {
    for (ValueId in : node.inputs) {
      inputs_.push_back(in.valid() ? example.value(in).type : TensorType());
      constants_.push_back(
          in.valid() && example.value(in).is_constant() ? &example.value(in).constant : nullptr);
    }
    for (ValueId out : node.outputs)
      outputs_.push_back(out.valid() ? example.value(out).type : TensorType());
    const OpDef& op = *FindOp(node);
    if (!op.spatial || inputs_[0].shape.rank() < 3) return;
    attrs_.Set("channels_last", 1);
    inputs_[0] = ToChannelsLast(inputs_[0]);
    outputs_[0] = ToChannelsLast(outputs_[0]);
    if (inputs_.size() > 3 && RoleOf(node, 3) == Role::kResidual)
      inputs_[3] = ToChannelsLast(inputs_[3]);
  }

  bool is_static() const {
    const auto open = [](const TensorType& type) {
      return type.dtype != DType::kUndefined && !type.shape.is_static();
    };
    return std::ranges::none_of(inputs_, open) && std::ranges::none_of(outputs_, open);
  }

  // Real activations become bytes; the weight int8, its bias int32, as QuantizeStatic types them.
  void BecomeInteger(const Node& node, bool per_channel) {
    const QuantParams byte = QuantParams::PerTensor(1, 0);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].dtype != DType::kFloat32) continue;
      const Role role = RoleOf(node, i);
      if (role == Role::kWeight && constants_[i] != nullptr) {
        MakeConstant(i, WeightType(node, per_channel));
      } else if (role == Role::kBias) {
        MakeConstant(i, TensorType(DType::kInt32, inputs_[i].shape));
      } else if (constants_[i] == nullptr) {
        inputs_[i] = TensorType(DType::kUint8, inputs_[i].shape, byte);
      }
    }
    // An activation that takes a table becomes a step of its own.
    if (const auto activation = ActivationFromAttrs(attrs_);
        activation && !IsPiecewiseLinear(activation->kind))
      EraseActivation(attrs_);
    if (outputs_[0].dtype == DType::kFloat32)
      outputs_[0] = TensorType(DType::kUint8, outputs_[0].shape, byte);
  }

  // Data of plain bytes with a scale and a zero point that the run gives; float32 otherwise.
  void BecomeDynamic(const Node& node, const char* form, bool per_channel) {
    op_ = form;
    inputs_[0] = TensorType(DType::kUint8, inputs_[0].shape);
    MakeConstant(1, WeightType(node, per_channel));
    inputs_.resize(4);
    constants_.resize(4);
    inputs_.insert(inputs_.end(), {TensorType(DType::kFloat32, Shape(std::vector<int64_t>())),
                                   TensorType(DType::kUint8, Shape(std::vector<int64_t>()))});
    constants_.insert(constants_.end(), {nullptr, nullptr});
  }

  // The first kernel that takes it, or null.
  const KernelDef* FirstKernel() const {
    for (const KernelDef* kernel : AllKernels()) {
      if (op_ == kernel->op && !kernel->reject(call())) return kernel;
    }
    return nullptr;
  }

  // Of a form that no kernel takes: why the first integer kernel does not, or another where there
  // is none.
  std::string Rejection() const {
    std::string why = "there is none";
    for (const KernelDef* kernel : AllKernels()) {
      if (op_ != kernel->op) continue;
      why = kernel->reject(call())->sentence;
      if (kernel->precision == Precision::kInt8) break;
    }
    return why;
  }

  KernelCall call() const { return {op_, attrs_, inputs_, outputs_, constants_}; }

 private:
  TensorType WeightType(const Node& node, bool per_channel) const {
    const Shape& shape = inputs_[1].shape;
    QuantParams params = QuantParams::PerTensor(1, 0);
    if (per_channel) {
      params.axis = WeightAxis(node, shape.rank());
      params.scales.assign(static_cast<size_t>(shape[params.axis].value), 1.0f);
      params.zero_points.assign(params.scales.size(), 0);
    }
    return {DType::kInt8, shape, std::move(params)};
  }

  void MakeConstant(size_t i, TensorType type) {
    inputs_[i] = type;
    constants_[i] = &made_.emplace_back(Tensor::Allocate(std::move(type)));
  }

  std::string op_;
  Attrs attrs_;
  std::vector<TensorType> inputs_, outputs_;
  std::vector<const Tensor*> constants_;
  std::list<Tensor> made_;
};

std::optional<Reason> Slower(const KernelDef& kernel, const std::optional<Reason>& why) {
  if (!why) return std::nullopt;
  return Reason{kNoInt8Kernel,
                fmt::format("{} is slower than float32 here: {}", kernel.name, why->sentence)};
}

}  // namespace

const Graph* IntegerKernels::Example() const {
  if (!tried_) {
    tried_ = true;
    Graph example = graph_;
    if (BindShapes(example, ExampleShapes(graph_))) example_ = std::move(example);
  }
  return example_ ? &*example_ : nullptr;
}

std::optional<Reason> IntegerKernels::Refusal(const Node& node) const {
  if (!IsAsked(node) || Example() == nullptr) return std::nullopt;
  const Form real(*example_, node);
  if (!real.is_static()) return std::nullopt;
  Form integer(*example_, node);
  integer.BecomeInteger(node, per_channel_);
  if (const KernelDef* kernel = integer.FirstKernel())
    return Slower(*kernel, SlowerThanFloat(*kernel, integer.call()));
  if (FindOp(node)->quant == QuantTrait::kMove && real.FirstKernel() == nullptr)
    return std::nullopt;
  return Reason{kNoInt8Kernel,
                fmt::format("no integer kernel takes {} here: {}", node.op, integer.Rejection())};
}

std::optional<Reason> IntegerKernels::DynamicRefusal(const Node& node) const {
  const LinearForm* form = LinearFormOf(node);
  if (form == nullptr || form->integer_form == nullptr) return std::nullopt;
  const OpDef* integers = FindOp(form->integer_form);
  const char* dynamic = integers == nullptr ? nullptr : integers->linear->dynamic_form;
  if (dynamic == nullptr || !MayBeSlower(dynamic) || graph_.ConstantInput(node, 1) == nullptr ||
      Example() == nullptr)
    return std::nullopt;
  Form integer(*example_, node);
  if (!integer.is_static()) return std::nullopt;
  integer.BecomeDynamic(node, dynamic, per_channel_);
  const KernelDef* kernel = integer.FirstKernel();
  if (kernel == nullptr) return std::nullopt;
  if (auto slower = Slower(*kernel, SlowerThanFloat(*kernel, integer.call()))) return slower;
  auto beside_floats = Slower(*kernel, SlowerBesideFloats(*kernel, integer.call()));
  if (!beside_floats) return std::nullopt;
  const NodeId producer = graph_.value(node.input(0)).producer;
  const bool integer_data =
      producer.valid() && IsLinear(graph_.node(producer)) && !DynamicRefusal(graph_.node(producer));
  return integer_data ? std::nullopt : std::move(beside_floats);
}

}  // namespace evoq
