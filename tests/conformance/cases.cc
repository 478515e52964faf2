#include "tests/conformance/cases.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/text.h"
#include "onnx/onnx.h"

namespace evoq {
namespace fs = std::filesystem;
namespace {

// The values of files KIND_0.pb, KIND_1.pb, ..., which belong to these values of the graph.
Result<std::vector<Tensor>> ReadTensors(const fs::path& folder, const char* kind,
                                        const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<Tensor> tensors;
  for (size_t i = 0;; ++i) {
    const fs::path path = folder / fmt::format("{}_{}.pb", kind, i);
    if (!fs::exists(path)) return tensors;
    EVOQ_ASSIGN(Tensor t,
                ReadValueProto(path.string(),
                               i < values.size() ? graph.value(values[i]).type : TensorType()));
    tensors.push_back(std::move(t));
  }
}

Result<DataSet> ReadData(const fs::path& folder, const Graph& graph) {
  DataSet data;
  EVOQ_ASSIGN(data.inputs, ReadTensors(folder, "input", graph, graph.inputs()));
  EVOQ_ASSIGN(data.outputs, ReadTensors(folder, "output", graph, graph.outputs()));
  if (data.inputs.size() != graph.inputs().size())
    return InvalidInput("{} inputs in the data, the graph has {}", data.inputs.size(),
                        graph.inputs().size());
  for (size_t i = 0; i < data.inputs.size(); ++i) {
    const TensorType& type = graph.value(graph.inputs()[i]).type;
    Tensor& input = data.inputs[i];
    if (type.quantized() && type.dtype == input.dtype())
      input = input.WithType(TensorType(type.dtype, input.shape(), *type.quant));
  }
  return data;
}

bool Near(double got, double wanted) {
  if (std::isnan(wanted) || std::isnan(got)) return std::isnan(wanted) && std::isnan(got);
  return got == wanted || std::fabs(got - wanted) <= 1e-6 + 1e-3 * std::fabs(wanted);
}

Result<std::vector<double>> RealValues(const Tensor& t) {
  if (t.dtype() == DType::kFloat64)
    return std::vector<double>(t.data<double>(), t.data<double>() + t.elements());
  EVOQ_ASSIGN(const Tensor f, ToFloat32(t));
  return std::vector<double>(f.data<float>(), f.data<float>() + f.elements());
}

// Walks containers side by side and hands pairs of tensors of equal type and shape to `compare`.
Status Walk(const Tensor& got, const Tensor& wanted, size_t output,
            Status (*compare)(const Tensor&, const Tensor&, size_t)) {
  if (!wanted.type().is_tensor() || !got.type().is_tensor()) {
    if (got.type().kind != wanted.type().kind || got.items().size() != wanted.items().size())
      return InvalidInput("output {} is {} of {}, expected {} of {}", output, got.type().ToString(),
                          got.items().size(), wanted.type().ToString(), wanted.items().size());
    for (size_t i = 0; i < wanted.items().size(); ++i)
      EVOQ_TRY(Walk(got.items()[i], wanted.items()[i], output, compare));
    return {};
  }
  if (got.dtype() != wanted.dtype() || got.shape() != wanted.shape())
    return InvalidInput("output {} is {}, expected {}", output, got.type().ToString(),
                        wanted.type().ToString());
  return compare(got, wanted, output);
}

Status CompareExactly(const Tensor& got, const Tensor& wanted, size_t output) {
  const Tensor plain = got.WithType(wanted.type());
  if (BitEqual(plain, wanted)) return {};
  if (wanted.dtype() == DType::kString) {
    const auto a = plain.values<std::string>(), b = wanted.values<std::string>();
    const auto [x, y] = std::mismatch(a.begin(), a.end(), b.begin());
    return InvalidInput("output {}[{}] is '{}', expected '{}'", output, x - a.begin(), *x, *y);
  }
  EVOQ_ASSIGN(const std::vector<int64_t> a, ToInt64s(plain));
  EVOQ_ASSIGN(const std::vector<int64_t> b, ToInt64s(wanted));
  const auto [x, y] = std::mismatch(a.begin(), a.end(), b.begin());
  if (x == a.end()) return {};  // padding bits of nibbles
  return InvalidInput("output {}[{}] is {}, expected {}", output, x - a.begin(), *x, *y);
}

Status CompareValues(const Tensor& got, const Tensor& wanted, size_t output) {
  if (!IsFloat(wanted.dtype())) return CompareExactly(got, wanted, output);
  EVOQ_ASSIGN(const std::vector<double> a, RealValues(got));
  EVOQ_ASSIGN(const std::vector<double> b, RealValues(wanted));
  for (size_t i = 0; i < a.size(); ++i) {
    if (!Near(a[i], b[i]))
      return InvalidInput("output {}[{}] is {}, expected {}", output, i, a[i], b[i]);
  }
  return {};
}

Status CompareAll(std::span<const Tensor> got, std::span<const Tensor> wanted,
                  Status (*compare)(const Tensor&, const Tensor&, size_t)) {
  if (got.size() != wanted.size())
    return InvalidInput("{} outputs, expected {}", got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) EVOQ_TRY(Walk(got[i], wanted[i], i, compare));
  return {};
}

}  // namespace

std::vector<std::string> CaseNames(const std::string& root) {
  std::vector<std::string> names;
  for (const char* suite : {"node", "simple", "pytorch-converted", "pytorch-operator"}) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(fs::path(root) / suite, error)) {
      if (fs::exists(entry.path() / "model.onnx"))
        names.push_back(fmt::format("{}/{}", suite, entry.path().filename().string()));
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<Case> ReadCase(const std::string& folder) {
  Case c;
  EVOQ_ASSIGN(c.graph, ImportOnnx(folder + "/model.onnx"));
  for (int k = 0;; ++k) {
    const fs::path data = fs::path(folder) / fmt::format("test_data_set_{}", k);
    if (!fs::exists(data)) break;
    EVOQ_ASSIGN(DataSet set, ReadData(data, c.graph));
    c.data.push_back(std::move(set));
  }
  if (c.data.empty()) return Fail(ErrorCode::kNotFound, "{}: no test data", folder);
  return c;
}

Status CompareOutputs(std::span<const Tensor> got, std::span<const Tensor> wanted) {
  return CompareAll(got, wanted, CompareValues);
}

Status CompareTypes(std::span<const Tensor> got, std::span<const Tensor> wanted) {
  return CompareAll(got, wanted, [](const Tensor&, const Tensor&, size_t) { return Status(); });
}

}  // namespace evoq
