// Room: onnx
// The ONNX importer on arbitrary bytes: it returns a graph that verifies, or an error. Half of the mutations work on the
// message instead of its bytes, so that they get past the parser and reach links, attributes, upgrades and type inference.
#include <cstdint>
#include <cstdlib>
#include <random>

#include "base/check.h"
#include "onnx/onnx.h"
#include "onnx/proto.h"
#include "ops/op.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto graph = evoq::ImportOnnxBytes(std::as_bytes(std::span(data, size)), "fuzz");
  if (!graph) {
    EVOQ_CHECK(graph.error().code() != evoq::ErrorCode::kInternal, "{}", graph.error().message());
    return 0;
  }
  const auto verified = graph->Verify();
  EVOQ_CHECK(verified.has_value(), "{}", verified.error().message());
  return 0;
}

namespace {

using Random = std::minstd_rand;

int64_t Interesting(Random& random) {
  constexpr int64_t kValues[] = {0, 1, -1, 2, -2, 3, 4, 7, 8, 16, 255, 1 << 16, INT32_MAX, INT32_MIN, int64_t{1} << 40, INT64_MAX, INT64_MIN};
  return kValues[random() % std::size(kValues)];
}

std::string AnyName(const onnx::GraphProto& graph, Random& random) {
  std::vector<std::string> names = {""};
  for (const auto& v : graph.input()) names.push_back(v.name());
  for (const auto& v : graph.initializer()) names.push_back(v.name());
  for (const auto& n : graph.node()) names.insert(names.end(), n.output().begin(), n.output().end());
  return names[random() % names.size()];
}

void MutateAttribute(onnx::NodeProto& node, Random& random) {
  if (node.attribute_size() == 0) return;
  auto& attr = *node.mutable_attribute(static_cast<int>(random() % node.attribute_size()));
  if (attr.ints_size() > 0) {
    const int i = static_cast<int>(random() % attr.ints_size());
    if (random() % 4 == 0) attr.mutable_ints()->RemoveLast();
    else if (random() % 4 == 0) attr.add_ints(Interesting(random));
    else attr.set_ints(i, Interesting(random));
  } else if (attr.floats_size() > 0) {
    attr.set_floats(static_cast<int>(random() % attr.floats_size()), static_cast<float>(Interesting(random)));
  } else if (attr.has_i()) {
    attr.set_i(Interesting(random));
  } else if (random() % 2 == 0) {
    attr.set_f(static_cast<float>(Interesting(random)));
  } else {
    node.mutable_attribute()->RemoveLast();
  }
}

void MutateTensor(onnx::TensorProto& tensor, Random& random) {
  std::string& raw = *tensor.mutable_raw_data();
  if (random() % 3 == 0 && tensor.dims_size() > 0) {
    tensor.set_dims(static_cast<int>(random() % tensor.dims_size()), Interesting(random));
  } else if (tensor.data_type() == onnx::TensorProto::INT64 && raw.size() >= 8) {
    const int64_t value = Interesting(random);
    std::memcpy(raw.data() + random() % (raw.size() / 8) * 8, &value, 8);
  } else if (tensor.int64_data_size() > 0) {
    tensor.set_int64_data(static_cast<int>(random() % tensor.int64_data_size()), Interesting(random));
  } else if (!raw.empty()) {
    raw[random() % raw.size()] = static_cast<char>(random());
  }
  if (random() % 8 == 0) tensor.set_data_type(static_cast<int>(random() % 24));
  if (raw.empty()) tensor.clear_raw_data();
}

void MutateInput(onnx::ValueInfoProto& input, Random& random) {
  auto& type = *input.mutable_type()->mutable_tensor_type();
  if (random() % 3 == 0) type.set_elem_type(static_cast<int>(random() % 24));
  auto& shape = *type.mutable_shape();
  if (random() % 4 == 0) shape.add_dim()->set_dim_value(Interesting(random));
  else if (random() % 4 == 0) type.clear_shape();
  else if (shape.dim_size() > 0 && random() % 3 == 0) shape.mutable_dim()->RemoveLast();
  else if (shape.dim_size() > 0) {
    auto& dim = *shape.mutable_dim(static_cast<int>(random() % shape.dim_size()));
    if (random() % 3 == 0) dim.set_dim_param("N");
    else dim.set_dim_value(Interesting(random));
  }
}

// Turns an input into a constant, so that rules and inference see its value.
void MakeInitializer(onnx::GraphProto& graph, Random& random) {
  if (graph.input_size() == 0) return;
  const auto& input = graph.input(static_cast<int>(random() % graph.input_size()));
  onnx::TensorProto& tensor = *graph.add_initializer();
  tensor.set_name(input.name());
  tensor.set_data_type(input.type().tensor_type().elem_type());
  const int64_t n = static_cast<int64_t>(random() % 5);
  if (random() % 4 != 0) tensor.add_dims(n);
  const int count = static_cast<int>(tensor.dims_size() > 0 ? n : 1);
  for (int i = 0; i < count; ++i) {
    if (tensor.data_type() == onnx::TensorProto::INT64) tensor.add_int64_data(Interesting(random));
    else if (tensor.data_type() == onnx::TensorProto::FLOAT) tensor.add_float_data(static_cast<float>(Interesting(random)));
    else tensor.add_int32_data(static_cast<int32_t>(Interesting(random)));
  }
}

void MutateNode(onnx::GraphProto& graph, Random& random) {
  if (graph.node_size() == 0) return;
  auto& node = *graph.mutable_node(static_cast<int>(random() % graph.node_size()));
  switch (random() % 7) {
    case 0: {
      const auto ops = evoq::AllOps();
      const evoq::OpDef* op = ops[random() % ops.size()];
      if (op->domain[0] == 0) node.set_op_type(op->name);
      break;
    }
    case 1:
      if (node.input_size() > 0) node.set_input(static_cast<int>(random() % node.input_size()), AnyName(graph, random));
      break;
    case 2: node.add_input(AnyName(graph, random)); break;
    case 3:
      if (node.input_size() > 0) node.mutable_input()->RemoveLast();
      break;
    case 4: {
      onnx::NodeProto copy = node;
      const std::string input = copy.output_size() > 0 ? copy.output(0) : "";
      for (auto& output : *copy.mutable_output()) output += "_";
      if (copy.input_size() > 0) copy.set_input(0, input);
      if (copy.output_size() > 0 && graph.output_size() > 0) graph.mutable_output(0)->set_name(copy.output(0));
      *graph.add_node() = copy;
      break;
    }
    default: MutateAttribute(node, random);
  }
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  Random random(seed);
  onnx::ModelProto model;
  if (random() % 4 == 0 || !model.ParseFromArray(data, static_cast<int>(size))) return LLVMFuzzerMutate(data, size, max_size);
  auto& graph = *model.mutable_graph();
  for (unsigned step = random() % 4 + 1; step > 0; --step) {
    switch (random() % 6) {
      case 0:
        if (model.opset_import_size() > 0) model.mutable_opset_import(0)->set_version(6 + static_cast<int64_t>(random() % 22));
        break;
      case 1:
        if (graph.initializer_size() > 0)
          MutateTensor(*graph.mutable_initializer(static_cast<int>(random() % graph.initializer_size())), random);
        break;
      case 2:
        if (graph.input_size() > 0) MutateInput(*graph.mutable_input(static_cast<int>(random() % graph.input_size())), random);
        break;
      case 3: MakeInitializer(graph, random); break;
      default: MutateNode(graph, random);
    }
  }
  for (auto& output : *graph.mutable_output()) output.clear_type();
  const std::string bytes = model.SerializeAsString();
  if (bytes.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::copy(bytes.begin(), bytes.end(), data);
  return bytes.size();
}
