#include <cstring>

#include "base/version.h"
#include "data/dataset.h"
#include "engine/engine.h"
#include "evoq/evoq.h"

namespace evoq {
namespace {

void Say(std::string* to, const Error& error) {
  if (to != nullptr) *to = error.message();
}

ArrayInfo Describe(const Graph& graph, ValueId id) {
  const Value& v = graph.value(id);
  return {v.name, static_cast<ElementType>(v.type.dtype), v.type.shape.ranked() ? v.type.shape.sizes() : std::vector<int64_t>{}};
}

Array ToArray(const Tensor& tensor) {
  Array a;
  a.type = static_cast<ElementType>(tensor.dtype());
  a.shape = tensor.sizes();
  a.bytes.assign(tensor.raw(), tensor.raw() + tensor.bytes());
  return a;
}

}  // namespace

std::size_t ElementBytes(ElementType type) {
  const auto dtype = DTypeFromOnnx(static_cast<int>(type));
  return dtype ? static_cast<std::size_t>(DTypeBits(*dtype) / 8) : 0;
}

Array Array::Zeros(ElementType type, std::vector<std::int64_t> shape) {
  Array a;
  a.type = type;
  a.shape = std::move(shape);
  a.bytes.resize(a.size() * ElementBytes(type));
  return a;
}

std::size_t Array::size() const {
  std::size_t n = 1;
  for (std::int64_t d : shape) n *= d > 0 ? static_cast<std::size_t>(d) : 0;
  return n;
}

struct Session::Impl {
  std::unique_ptr<Engine> engine;
  std::vector<ArrayInfo> inputs, outputs;
  std::vector<Tensor> in, out;  // borrowed views of the caller's arrays
  InputShapes shapes;
  std::shared_ptr<Executor> executor;  // for `shapes`

  // Whether the arrays have the model's types, and the bytes of their shapes.
  Status Check(const std::vector<Array>& arrays) const {
    if (arrays.size() != inputs.size())
      return Fail(ErrorCode::kUsage, "{} inputs given, expected {}", arrays.size(), inputs.size());
    for (size_t i = 0; i < arrays.size(); ++i) {
      const ArrayInfo& info = inputs[i];
      if (arrays[i].type != info.type)
        return Fail(ErrorCode::kUsage, "input {}: element type {}, expected {}", info.name, static_cast<int>(arrays[i].type),
                    static_cast<int>(info.type));
      const auto bytes = TensorType(static_cast<DType>(info.type), Shape(arrays[i].shape)).bytes();
      if (!bytes || static_cast<size_t>(*bytes) != arrays[i].bytes.size())
        return Fail(ErrorCode::kUsage, "input {}: {} bytes for shape {}", info.name, arrays[i].bytes.size(),
                    Shape(arrays[i].shape).ToString());
    }
    return {};
  }

  // Makes `in` views of the arrays, with the model's types. Shapes that differ from the last run's get their executor.
  Status Bind(const std::vector<Array>& arrays) {
    bool same = executor != nullptr;
    for (size_t i = 0; i < arrays.size(); ++i) same = same && shapes[inputs[i].name] == arrays[i].shape;
    if (!same) {
      for (size_t i = 0; i < arrays.size(); ++i) shapes[inputs[i].name] = arrays[i].shape;
      EVOQ_ASSIGN(executor, engine->At(shapes));
    }
    in.clear();
    for (size_t i = 0; i < arrays.size(); ++i)
      in.push_back(Tensor::View(executor->input_types()[i], arrays[i].bytes.data(), nullptr));
    return {};
  }

  // A model whose sizes depend on its data: its outputs are what they are.
  Status RunRegions(const std::vector<Array>& arrays, std::vector<Array>* results) {
    in.clear();
    for (size_t i = 0; i < arrays.size(); ++i) {
      TensorType type = engine->model().graph.value(engine->model().graph.inputs()[i]).type;
      type.shape = Shape(arrays[i].shape);
      in.push_back(Tensor::View(type, arrays[i].bytes.data(), nullptr));
    }
    EVOQ_ASSIGN(const std::vector<Tensor> values, engine->Run(in));
    results->resize(values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      if (!values[i].type().is_tensor() || ElementBytes(static_cast<ElementType>(values[i].dtype())) == 0)
        return Unsupported("output {} is {}, which arrays do not carry", outputs[i].name, values[i].type().ToString());
      Array& a = (*results)[i];
      a.type = static_cast<ElementType>(values[i].dtype());
      a.shape = values[i].sizes();
      a.bytes.assign(values[i].raw(), values[i].raw() + values[i].bytes());
    }
    return {};
  }

  Status Run(const std::vector<Array>& arrays, std::vector<Array>* results) {
    EVOQ_TRY(Check(arrays));
    if (executor == nullptr) {
      InputShapes all;
      for (size_t i = 0; i < arrays.size(); ++i) all[inputs[i].name] = arrays[i].shape;
      EVOQ_TRY(engine->Settle(all));
    }
    if (!engine->in_regions().empty()) return RunRegions(arrays, results);
    EVOQ_TRY(Bind(arrays));
    const auto& types = executor->output_types();
    results->resize(types.size());
    out.clear();
    for (size_t i = 0; i < types.size(); ++i) {
      Array& a = (*results)[i];
      a.type = static_cast<ElementType>(types[i].dtype);
      a.shape = types[i].shape.sizes();
      a.bytes.resize(static_cast<size_t>(types[i].bytes().value_or(0)));
      out.push_back(Tensor::Borrow(types[i], a.bytes.data()));
    }
    return executor->Run(in, out);
  }
};

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

std::optional<Session> Session::Load(const std::string& path, const SessionOptions& options, std::string* error) {
  auto engine = Engine::Load(path, {options.threads, {}});
  if (!engine) {
    Say(error, engine.error());
    return std::nullopt;
  }
  auto impl = std::make_unique<Impl>();
  impl->engine = std::move(*engine);
  const Graph& graph = impl->engine->model().graph;
  for (ValueId id : graph.inputs()) impl->inputs.push_back(Describe(graph, id));
  for (ValueId id : graph.outputs()) impl->outputs.push_back(Describe(graph, id));
  return Session(std::move(impl));
}

const std::vector<ArrayInfo>& Session::inputs() const { return impl_->inputs; }
const std::vector<ArrayInfo>& Session::outputs() const { return impl_->outputs; }

bool Session::Run(const std::vector<Array>& inputs, std::vector<Array>* outputs, std::string* error) {
  const Status status = impl_->Run(inputs, outputs);
  if (!status) Say(error, status.error());
  return status.has_value();
}

std::optional<Array> LoadImage(const std::string& image, const std::string& preprocess_json, std::string* error) {
  const auto load = [&]() -> Result<Tensor> {
    EVOQ_ASSIGN(const Preprocess how, LoadPreprocess(preprocess_json));
    return LoadInput(image, how);
  };
  const auto tensor = load();
  if (tensor) return ToArray(*tensor);
  Say(error, tensor.error());
  return std::nullopt;
}

const char* Version() { return EVOQ_VERSION; }

}  // namespace evoq
