#include "tests/fuzz/onnx_mutator.h"

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "onnx/upgrade.h"
#include "ops/op.h"
#include "tests/fuzz/onnx_words.h"

namespace evoq {
namespace {

using onnx::AttributeProto;
using onnx::GraphProto;
using onnx::NodeProto;
using onnx::TensorProto;

class Mutator {
 public:
  Mutator(onnx::ModelProto& model, unsigned seed) : model_(model), random_(seed + 1) {
    random_.discard(2);  // seeds that are near give first numbers that are near
    Collect(*model.mutable_graph());
  }

  void Run() {
    for (unsigned step = 1 + Roll(4); step > 0; --step) Step();
  }

  void Cross(const onnx::ModelProto& other);

 private:
  unsigned Roll(unsigned n) { return n == 0 ? 0 : static_cast<unsigned>(random_() % n); }
  bool OneIn(unsigned n) { return Roll(n) == 0; }
  template <typename T, size_t n>
  const T& Pick(const T (&list)[n]) {
    return list[Roll(n)];
  }
  // An element of a repeated field, or null of an empty one.
  template <typename Field>
  auto Any(Field* field) -> decltype(field->Mutable(0)) {
    return field->empty()
               ? nullptr
               : field->Mutable(static_cast<int>(Roll(static_cast<unsigned>(field->size()))));
  }
  int64_t Number() { return kNumbers[Roll(OneIn(3) ? std::size(kNumbers) : kSmallNumbers)]; }
  float Real() { return Pick(kReals); }
  int ElementType() {
    return OneIn(3)  ? static_cast<int>(Roll(26))
           : Roll(2) ? TensorProto::FLOAT
                     : TensorProto::INT64;
  }

  void Collect(GraphProto& graph);
  GraphProto& AnyGraph() {
    return *graphs_[OneIn(2) ? 0 : Roll(static_cast<unsigned>(graphs_.size()))];
  }
  std::string AnyName(const GraphProto& graph);
  std::string NewName() { return "m" + std::to_string(Roll(1000000)); }

  void Step();
  void MutateInts(google::protobuf::RepeatedField<int64_t>* list);
  void MutateTensor(TensorProto& tensor);
  void SetValue(TensorProto& tensor);
  void MutateType(onnx::TypeProto& type);
  void MutateAttribute(NodeProto& node);
  void AddAttribute(NodeProto& node);
  void SetOperator(NodeProto& node);
  void MutateEdges(GraphProto& graph, NodeProto& node);
  void MutateNode(GraphProto& graph);
  void MutateNodes(GraphProto& graph);
  void MutateValues(GraphProto& graph);
  void MakeInitializer(GraphProto& graph);
  void InsertQuantization(GraphProto& graph);
  void WrapInBody(GraphProto& graph);
  void MutateFunctions();
  void MutateOpsets();

  onnx::ModelProto& model_;
  std::minstd_rand random_;
  std::vector<GraphProto*> graphs_;  // the main one first
};

void Mutator::Collect(GraphProto& graph) {
  graphs_.push_back(&graph);
  for (NodeProto& node : *graph.mutable_node()) {
    for (AttributeProto& attr : *node.mutable_attribute()) {
      if (attr.has_g()) Collect(*attr.mutable_g());
    }
  }
}

// A name that the graph or, for a subgraph, the main graph defines; "" at times.
std::string Mutator::AnyName(const GraphProto& graph) {
  std::vector<std::string> names = {""};
  const auto add = [&](const GraphProto& g) {
    for (const auto& v : g.input()) names.push_back(v.name());
    for (const auto& v : g.initializer()) names.push_back(v.name());
    for (const auto& n : g.node()) names.insert(names.end(), n.output().begin(), n.output().end());
  };
  add(graph);
  if (&graph != graphs_[0]) add(*graphs_[0]);
  return names[Roll(static_cast<unsigned>(names.size()))];
}

// ---- values

void Mutator::MutateInts(google::protobuf::RepeatedField<int64_t>* list) {
  const unsigned choice = Roll(5);
  if (choice == 0 && !list->empty())
    list->RemoveLast();
  else if (choice == 1 || list->empty())
    list->Add(Number());
  else
    list->Set(static_cast<int>(Roll(static_cast<unsigned>(list->size()))), Number());
}

void Mutator::SetValue(TensorProto& tensor) {
  std::string& raw = *tensor.mutable_raw_data();
  const auto store = [&](auto value) {
    if (raw.size() < sizeof(value)) return;
    std::memcpy(
        raw.data() + Roll(static_cast<unsigned>(raw.size() / sizeof(value))) * sizeof(value),
        &value, sizeof(value));
  };
  if (!raw.empty() && tensor.data_type() == TensorProto::INT64)
    store(Number());
  else if (!raw.empty() && tensor.data_type() == TensorProto::FLOAT)
    store(Real());
  else if (!raw.empty())
    raw[Roll(static_cast<unsigned>(raw.size()))] = static_cast<char>(random_());
  else if (tensor.int64_data_size() > 0)
    MutateInts(tensor.mutable_int64_data());
  else if (tensor.float_data_size() > 0)
    tensor.set_float_data(static_cast<int>(Roll(static_cast<unsigned>(tensor.float_data_size()))),
                          Real());
  else if (tensor.int32_data_size() > 0)
    tensor.set_int32_data(static_cast<int>(Roll(static_cast<unsigned>(tensor.int32_data_size()))),
                          static_cast<int32_t>(Number()));
  else if (tensor.string_data_size() > 0)
    tensor.set_string_data(static_cast<int>(Roll(static_cast<unsigned>(tensor.string_data_size()))),
                           Pick(kWords));
  if (raw.empty()) tensor.clear_raw_data();
}

void Mutator::MutateTensor(TensorProto& tensor) {
  switch (Roll(8)) {
    case 0: tensor.set_data_type(ElementType()); break;
    case 1: MutateInts(tensor.mutable_dims()); break;
    case 2:
      if (!tensor.raw_data().empty())
        tensor.mutable_raw_data()->resize(Roll(2) ? tensor.raw_data().size() / 2
                                                  : tensor.raw_data().size() * 2);
      break;
    case 3:
      if (OneIn(8))
        tensor.set_data_location(TensorProto::EXTERNAL),
            tensor.add_external_data()->set_key("location");
      break;
    default: SetValue(tensor);
  }
}

void Mutator::MutateType(onnx::TypeProto& type) {
  onnx::TypeProto* held = &type;
  if (held->has_optional_type()) held = held->mutable_optional_type()->mutable_elem_type();
  if (held->has_sequence_type()) held = held->mutable_sequence_type()->mutable_elem_type();
  auto& tensor = *held->mutable_tensor_type();
  switch (Roll(8)) {
    case 0: tensor.set_elem_type(ElementType()); break;
    case 1: tensor.clear_shape(); break;
    case 2:
      if (OneIn(4)) {
        const onnx::TypeProto copy = type;
        *(Roll(2) ? type.mutable_sequence_type()->mutable_elem_type()
                  : type.mutable_optional_type()->mutable_elem_type()) = copy;
      }
      break;
    case 3: tensor.mutable_shape()->add_dim()->set_dim_value(Number()); break;
    case 4:
      if (tensor.shape().dim_size() > 0) tensor.mutable_shape()->mutable_dim()->RemoveLast();
      break;
    default:
      if (auto* dim = Any(tensor.mutable_shape()->mutable_dim())) {
        if (OneIn(3))
          dim->set_dim_param(Roll(2) ? "N" : "M");
        else if (OneIn(8))
          dim->clear_value();
        else
          dim->set_dim_value(Number());
      }
  }
}

void Mutator::MutateValues(GraphProto& graph) {
  switch (Roll(6)) {
    case 0: MakeInitializer(graph); break;
    case 1:
      if (auto* output = Any(graph.mutable_output())) output->set_name(AnyName(graph));
      break;
    case 2:
      if (OneIn(2))
        graph.add_output()->set_name(AnyName(graph));
      else if (graph.output_size() > 1)
        graph.mutable_output()->RemoveLast();
      break;
    case 3:
      if (auto* tensor = Any(graph.mutable_initializer()); tensor != nullptr && OneIn(4)) {
        auto& input = *graph.add_input();
        input.set_name(tensor->name());
        input.mutable_type()->mutable_tensor_type()->set_elem_type(tensor->data_type());
        tensor->set_name(NewName());
      }
      break;
    default:
      if (auto* input = Any(graph.mutable_input())) MutateType(*input->mutable_type());
  }
}

// Turns an input into a constant, so that rules and inference see its value.
void Mutator::MakeInitializer(GraphProto& graph) {
  const auto* input = Any(graph.mutable_input());
  if (input == nullptr) return;
  TensorProto& tensor = *graph.add_initializer();
  const auto& type = input->type().tensor_type();
  tensor.set_name(input->name());
  tensor.set_data_type(type.elem_type());
  int64_t count = 1;
  const bool as_declared = OneIn(2);
  for (const auto& dim : type.shape().dim()) {
    if (!as_declared || dim.dim_value() < 0 || dim.dim_value() > 64 || count > 256) continue;
    tensor.add_dims(dim.dim_value());
    count *= dim.dim_value();
  }
  if (!as_declared && OneIn(2)) count = static_cast<int64_t>(Roll(5)), tensor.add_dims(count);
  for (int64_t i = 0; i < count; ++i) {
    if (tensor.data_type() == TensorProto::INT64)
      tensor.add_int64_data(Number());
    else if (tensor.data_type() == TensorProto::FLOAT)
      tensor.add_float_data(Real());
    else if (tensor.data_type() == TensorProto::DOUBLE)
      tensor.add_double_data(static_cast<double>(Real()));
    else if (tensor.data_type() == TensorProto::STRING)
      tensor.add_string_data(Pick(kWords));
    else
      tensor.add_int32_data(static_cast<int32_t>(Number()));
  }
}

// ---- nodes

void Mutator::AddAttribute(NodeProto& node) {
  AttributeProto& attr = *node.add_attribute();
  switch (Roll(4)) {
    case 0:
      attr.set_name(Pick(kInt)), attr.set_type(AttributeProto::INT), attr.set_i(Number());
      break;
    case 1:
      attr.set_name(Pick(kInts)), attr.set_type(AttributeProto::INTS);
      for (unsigned n = Roll(5); n > 0; --n) attr.add_ints(Number());
      break;
    case 2:
      attr.set_name(Pick(kFloat)), attr.set_type(AttributeProto::FLOAT), attr.set_f(Real());
      break;
    default:
      attr.set_name(Pick(kText)), attr.set_type(AttributeProto::STRING), attr.set_s(Pick(kWords));
  }
}

void Mutator::MutateAttribute(NodeProto& node) {
  AttributeProto* attr = Any(node.mutable_attribute());
  if (attr == nullptr || OneIn(6)) return AddAttribute(node);
  if (OneIn(16)) return attr->set_type(static_cast<onnx::AttributeProto_AttributeType>(Roll(14)));
  if (OneIn(16)) return node.mutable_attribute()->RemoveLast();
  switch (attr->type()) {
    case AttributeProto::INT: attr->set_i(Number()); break;
    case AttributeProto::FLOAT: attr->set_f(Real()); break;
    case AttributeProto::STRING: attr->set_s(Pick(kWords)); break;
    case AttributeProto::INTS: MutateInts(attr->mutable_ints()); break;
    case AttributeProto::FLOATS:
      if (attr->floats_size() > 0 && Roll(2))
        attr->set_floats(static_cast<int>(Roll(static_cast<unsigned>(attr->floats_size()))),
                         Real());
      else
        attr->add_floats(Real());
      break;
    case AttributeProto::STRINGS:
      if (auto* s = Any(attr->mutable_strings()); s != nullptr && Roll(2))
        *s = Pick(kWords);
      else
        attr->add_strings(Pick(kWords));
      break;
    case AttributeProto::TENSOR: MutateTensor(*attr->mutable_t()); break;
    case AttributeProto::TYPE_PROTO: MutateType(*attr->mutable_tp()); break;
    default: break;
  }
}

void Mutator::SetOperator(NodeProto& node) {
  if (OneIn(6)) {
    const auto rules = Roll(3) ? MicrosoftRules() : QuantizedRules();
    const UpgradeRule& rule = rules[Roll(static_cast<unsigned>(rules.size()))];
    node.set_op_type(rule.op), node.set_domain(rule.domain);
  } else {
    const auto ops = AllOps();
    const OpDef* op = ops[Roll(static_cast<unsigned>(ops.size()))];
    node.set_op_type(op->name), node.set_domain(op->domain);
  }
  for (const auto& opset : model_.opset_import()) {
    if (opset.domain() == node.domain()) return;
  }
  auto& opset = *model_.add_opset_import();
  opset.set_domain(node.domain()), opset.set_version(1);
}

void Mutator::MutateEdges(GraphProto& graph, NodeProto& node) {
  switch (Roll(7)) {
    case 0: node.add_input(AnyName(graph)); break;
    case 1:
      if (node.input_size() > 0) node.mutable_input()->RemoveLast();
      break;
    case 2:
      if (node.input_size() > 1)
        node.mutable_input()->SwapElements(
            0, static_cast<int>(Roll(static_cast<unsigned>(node.input_size()))));
      break;
    case 3:
      if (OneIn(4) && node.output_size() > 1)
        node.mutable_output()->RemoveLast();
      else if (OneIn(4))
        node.add_output(OneIn(4) ? "" : NewName());
      break;
    default:
      if (auto* input = Any(node.mutable_input())) *input = AnyName(graph);
  }
}

void Mutator::MutateNode(GraphProto& graph) {
  NodeProto* node = Any(graph.mutable_node());
  if (node == nullptr) return;
  switch (Roll(6)) {
    case 0: SetOperator(*node); break;
    case 1:
    case 2: MutateEdges(graph, *node); break;
    default: MutateAttribute(*node);
  }
}

void Mutator::MutateNodes(GraphProto& graph) {
  if (graph.node_size() == 0) return;
  const int at = static_cast<int>(Roll(static_cast<unsigned>(graph.node_size())));
  switch (Roll(5)) {
    case 0:  // a copy of a node that reads its result, and is an output
    case 1: {
      NodeProto copy = graph.node(at);
      const std::string result = copy.output_size() > 0 ? copy.output(0) : "";
      for (auto& output : *copy.mutable_output()) output += "_";
      if (copy.input_size() > 0) copy.set_input(OneIn(4) ? copy.input_size() - 1 : 0, result);
      if (OneIn(3)) SetOperator(copy);
      if (copy.output_size() > 0 && graph.output_size() > 0)
        graph.mutable_output(0)->set_name(copy.output(0));
      *graph.add_node() = copy;
      break;
    }
    case 2: {  // a node between another one and its input
      NodeProto& node = *graph.mutable_node(at);
      if (node.input_size() == 0) break;
      const int edge = static_cast<int>(Roll(static_cast<unsigned>(node.input_size())));
      const std::string from = node.input(edge), to = NewName();
      node.set_input(edge, to);
      NodeProto& added = *graph.add_node();
      SetOperator(added);
      added.add_input(from), added.add_output(to);
      for (unsigned n = Roll(3); n > 0; --n) added.add_input(AnyName(graph));
      break;
    }
    case 3:
      if (graph.node_size() > 1 && OneIn(3)) graph.mutable_node()->DeleteSubrange(at, 1);
      break;
    default: graph.mutable_node()->SwapElements(0, at);
  }
}

// QuantizeLinear and DequantizeLinear on an input of a node.
void Mutator::InsertQuantization(GraphProto& graph) {
  NodeProto* node = Any(graph.mutable_node());
  if (node == nullptr || node->input_size() == 0) return;
  const int edge = static_cast<int>(Roll(static_cast<unsigned>(node->input_size())));
  const std::string name = NewName(), from = node->input(edge);
  node->set_input(edge, name + "d");
  TensorProto& scale = *graph.add_initializer();
  TensorProto& zero = *graph.add_initializer();
  scale.set_name(name + "s"), scale.set_data_type(TensorProto::FLOAT);
  zero.set_name(name + "z"), zero.set_data_type(Roll(2) ? TensorProto::UINT8 : TensorProto::INT8);
  const int64_t count = OneIn(3) ? Roll(5) : 1;
  if (count != 1) scale.add_dims(count), zero.add_dims(count);
  for (int64_t i = 0; i < count; ++i) {
    scale.add_float_data(OneIn(8) ? Real() : 0.05f);
    zero.add_int32_data(static_cast<int32_t>(Roll(128)));
  }
  NodeProto quantize;
  quantize.set_op_type("QuantizeLinear");
  quantize.add_input(from), quantize.add_input(name + "s"), quantize.add_input(name + "z"),
      quantize.add_output(name + "q");
  NodeProto dequantize = quantize;
  dequantize.set_op_type("DequantizeLinear");
  dequantize.set_input(0, name + "q"), dequantize.set_output(0, name + "d");
  *graph.add_node() = quantize;
  *graph.add_node() = dequantize;
}

// A node becomes the body of an If or a Loop that computes its first output.
void Mutator::WrapInBody(GraphProto& graph) {
  NodeProto* node = Any(graph.mutable_node());
  if (node == nullptr || node->output_size() == 0 || graphs_.size() > 6) return;
  const NodeProto inner = *node;
  const bool loop = OneIn(2);
  node->Clear();
  node->set_op_type(loop ? "Loop" : "If");
  node->add_input(AnyName(graph));
  if (loop) node->add_input(AnyName(graph));
  if (loop && OneIn(2)) node->add_input(AnyName(graph));
  node->add_output(inner.output(0));
  for (const char* name : {"then_branch", "else_branch", "body"}) {
    if (loop != (std::string(name) == "body")) continue;
    AttributeProto& attr = *node->add_attribute();
    attr.set_name(name), attr.set_type(AttributeProto::GRAPH);
    GraphProto& body = *attr.mutable_g();
    body.set_name(name);
    *body.add_node() = inner;
    if (loop) {
      for (const char* input : {"i", "c"}) body.add_input()->set_name(input);
      body.add_output()->set_name("c");
      if (node->input_size() > 2) body.add_input()->set_name("s");
    }
    body.add_output()->set_name(inner.output(0));
  }
}

// ---- the model

void Mutator::MutateFunctions() {
  if (auto* function = Any(model_.mutable_functions()); function != nullptr && !OneIn(4)) {
    switch (Roll(5)) {
      case 0:
        if (auto* node = Any(function->mutable_node())) SetOperator(*node);
        break;
      case 1:
        if (auto* node = Any(function->mutable_node())) MutateAttribute(*node);
        break;
      case 2:
        if (auto* node = Any(function->mutable_node())) {
          if (auto* input = Any(node->mutable_input());
              input != nullptr && function->input_size() > 0)
            *input = function->input(0);
        }
        break;
      case 3: function->add_input(NewName()); break;
      default:
        if (function->output_size() > 0) function->mutable_output()->RemoveLast();
    }
    return;
  }
  NodeProto* node = Any(graphs_[0]->mutable_node());  // becomes a call of a function of its own
  if (node == nullptr || node->domain() == "local") return;
  auto& function = *model_.add_functions();
  function.set_name(NewName()), function.set_domain("local");
  for (const std::string& name : node->input()) function.add_input(name);
  for (const std::string& name : node->output()) function.add_output(name);
  *function.add_node() = *node;
  *function.mutable_opset_import() = model_.opset_import();
  node->set_op_type(function.name()), node->set_domain("local");
  auto& opset = *model_.add_opset_import();
  opset.set_domain("local"), opset.set_version(1);
}

void Mutator::MutateOpsets() {
  if (auto* opset = Any(model_.mutable_opset_import()); opset != nullptr && !OneIn(8)) {
    opset->set_version(OneIn(16) ? Number() : 5 + static_cast<int64_t>(Roll(25)));
  } else {
    auto& added = *model_.add_opset_import();
    added.set_domain(Roll(2) ? "com.microsoft" : "qonnx.custom_op.general"), added.set_version(1);
  }
}

void Mutator::Step() {
  GraphProto& graph = AnyGraph();
  switch (Roll(16)) {
    case 0: MutateOpsets(); break;
    case 1:
    case 2:
      if (auto* tensor = Any(graph.mutable_initializer())) MutateTensor(*tensor);
      break;
    case 3:
    case 4: MutateValues(graph); break;
    case 5:
    case 6: MutateNodes(graph); break;
    case 7: InsertQuantization(graph); break;
    case 8:
      if (OneIn(4))
        WrapInBody(graph);
      else if (OneIn(4))
        MutateFunctions();
      else
        MakeInitializer(graph);
      break;
    default: MutateNode(graph);
  }
  graphs_.clear();
  Collect(*model_.mutable_graph());
}

void Mutator::Cross(const onnx::ModelProto& other) {
  GraphProto& graph = *graphs_[0];
  const std::string prefix = NewName() + "/";
  const auto name = [&](const std::string& old) { return old.empty() ? old : prefix + old; };
  for (auto input : other.graph().input()) {
    input.set_name(name(input.name()));
    *graph.add_input() = input;
  }
  for (auto tensor : other.graph().initializer()) {
    tensor.set_name(name(tensor.name()));
    *graph.add_initializer() = tensor;
  }
  for (NodeProto node : other.graph().node()) {
    if (!node.name().empty()) node.set_name(name(node.name()));
    for (auto& input : *node.mutable_input()) {
      const std::string here = OneIn(3) ? AnyName(graph) : "";
      input = here.empty() ? name(input) : here;
    }
    for (auto& output : *node.mutable_output()) output = name(output);
    *graph.add_node() = node;
  }
  for (auto output : other.graph().output()) graph.add_output()->set_name(name(output.name()));
}

// A declared output type that the changes made wrong would end most imports.
void ForgetOutputTypes(onnx::ModelProto& model) {
  for (auto& output : *model.mutable_graph()->mutable_output()) output.clear_type();
}

}  // namespace

void MutateModel(onnx::ModelProto& model, unsigned seed) {
  Mutator mutator(model, seed);
  mutator.Run();
  if (seed % 16 != 0) ForgetOutputTypes(model);
}

void CrossModels(onnx::ModelProto& model, const onnx::ModelProto& other, unsigned seed) {
  Mutator(model, seed).Cross(other);
  ForgetOutputTypes(model);
}

}  // namespace evoq
