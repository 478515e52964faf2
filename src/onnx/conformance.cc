#include "onnx/conformance.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "base/file.h"
#include "base/text.h"
#include "onnx/onnx.h"

namespace evoq {
namespace fs = std::filesystem;
namespace {

struct Line {
  std::string pattern, exception;
  int number = 0;
  int cases = 0;  // how many it matched
};

Result<std::vector<Line>> ReadList(const std::string& path) {
  EVOQ_ASSIGN(const std::string text, ReadTextFile(path));
  std::vector<Line> lines;
  std::istringstream in(text);
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (line.empty() || line[0] == '#') continue;
    const size_t colon = line.find(": ");
    if (colon == std::string::npos || colon + 2 >= line.size())
      return InvalidInput("{}:{}: expected 'pattern: reason'", path, number);
    const std::string pattern = line.substr(0, colon);
    const size_t but = pattern.find(" !");
    lines.push_back({pattern.substr(0, but), but == std::string::npos ? "" : pattern.substr(but + 2), number});
  }
  return lines;
}

std::vector<std::string> Cases(const fs::path& root) {
  std::vector<std::string> names;
  for (const char* suite : {"node", "simple", "pytorch-converted", "pytorch-operator"}) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(root / suite, error)) {
      if (fs::exists(entry.path() / "model.onnx")) names.push_back(fmt::format("{}/{}", suite, entry.path().filename().string()));
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

// The values of files KIND_0.pb, KIND_1.pb, ..., which belong to these values of the graph.
Result<std::vector<Tensor>> ReadTensors(const fs::path& folder, const char* kind, const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<Tensor> tensors;
  for (size_t i = 0;; ++i) {
    const fs::path path = folder / fmt::format("{}_{}.pb", kind, i);
    if (!fs::exists(path)) return tensors;
    EVOQ_ASSIGN(Tensor t, ReadValueProto(path.string(), i < values.size() ? graph.value(values[i]).type : TensorType()));
    tensors.push_back(std::move(t));
  }
}

bool Near(double got, double wanted) {
  if (std::isnan(wanted) || std::isnan(got)) return std::isnan(wanted) && std::isnan(got);
  return got == wanted || std::fabs(got - wanted) <= 1e-5 + 1e-3 * std::fabs(wanted);
}

Result<std::vector<double>> RealValues(const Tensor& t) {
  if (t.dtype() == DType::kFloat64) return std::vector<double>(t.data<double>(), t.data<double>() + t.elements());
  EVOQ_ASSIGN(const Tensor f, ToFloat32(t));
  return std::vector<double>(f.data<float>(), f.data<float>() + f.elements());
}

Status Compare(const Tensor& got, const Tensor& wanted, size_t output) {
  if (!wanted.type().is_tensor() || !got.type().is_tensor()) {
    if (got.type().kind != wanted.type().kind || got.items().size() != wanted.items().size())
      return InvalidInput("output {} is {} of {}, expected {} of {}", output, got.type().ToString(), got.items().size(),
                          wanted.type().ToString(), wanted.items().size());
    for (size_t i = 0; i < wanted.items().size(); ++i) EVOQ_TRY(Compare(got.items()[i], wanted.items()[i], output));
    return {};
  }
  if (got.dtype() != wanted.dtype() || got.shape() != wanted.shape())
    return InvalidInput("output {} is {}, expected {}", output, got.type().ToString(), wanted.type().ToString());
  if (!IsFloat(wanted.dtype())) {
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
  EVOQ_ASSIGN(const std::vector<double> a, RealValues(got));
  EVOQ_ASSIGN(const std::vector<double> b, RealValues(wanted));
  for (size_t i = 0; i < a.size(); ++i) {
    if (!Near(a[i], b[i])) return InvalidInput("output {}[{}] is {}, expected {}", output, i, a[i], b[i]);
  }
  return {};
}

Status RunDataSet(const Graph& graph, const fs::path& folder, const ConformanceRun& run) {
  EVOQ_ASSIGN(std::vector<Tensor> inputs, ReadTensors(folder, "input", graph, graph.inputs()));
  EVOQ_ASSIGN(const std::vector<Tensor> wanted, ReadTensors(folder, "output", graph, graph.outputs()));
  if (inputs.size() != graph.inputs().size())
    return InvalidInput("{} inputs in the data, the graph has {}", inputs.size(), graph.inputs().size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorType& type = graph.value(graph.inputs()[i]).type;
    if (type.quantized() && type.dtype == inputs[i].dtype())
      inputs[i] = inputs[i].WithType(TensorType(type.dtype, inputs[i].shape(), *type.quant));
  }
  EVOQ_ASSIGN(const std::vector<Tensor> got, run(graph, inputs));
  if (got.size() != wanted.size()) return InvalidInput("{} outputs, expected {}", got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) EVOQ_TRY(Compare(got[i], wanted[i], i));
  return {};
}

Status RunCase(const fs::path& folder, const ConformanceRun& run) {
  EVOQ_ASSIGN(const Graph graph, ImportOnnx((folder / "model.onnx").string()));
  for (int k = 0;; ++k) {
    const fs::path data = folder / fmt::format("test_data_set_{}", k);
    if (!fs::exists(data)) return k > 0 ? Status() : Fail(ErrorCode::kNotFound, "no test data");
    EVOQ_TRY(RunDataSet(graph, data, run));
  }
}

}  // namespace

std::string ConformanceReport::ToString() const {
  return fmt::format("{} cases passed, {} failed as listed, {} problems\n{}", passed, listed, problems.size(),
                     fmt::join(problems, "\n"));
}

Result<ConformanceReport> RunConformance(const std::string& data, const std::string& list, const ConformanceRun& run) {
  EVOQ_ASSIGN(std::vector<Line> lines, ReadList(list));
  const char* selected = std::getenv("EVOQ_CASE");
  const fs::path root = fs::path(data) / "onnx-backend-tests";
  ConformanceReport report;
  for (const std::string& name : Cases(root)) {
    if (selected != nullptr && !GlobMatch(selected, name)) continue;
    std::string listed;
    for (Line& line : lines) {
      if (!GlobMatch(line.pattern, name) || GlobMatch(line.exception, name)) continue;
      listed = fmt::format("{}:{}", BaseName(list), line.number);
      ++line.cases;
    }
    const Status status = RunCase(root / name, run);
    if (selected != nullptr) fmt::print("{}: {}\n", name, status ? "passed" : status.error().message());
    if (status && listed.empty()) ++report.passed;
    if (!status && !listed.empty()) ++report.listed;
    if (!status && listed.empty()) report.problems.push_back(fmt::format("{} fails: {}", name, status.error().message()));
    if (status && !listed.empty()) report.problems.push_back(fmt::format("{} passes, but {} lists it", name, listed));
  }
  for (const Line& line : lines) {
    if (line.cases == 0 && selected == nullptr)
      report.problems.push_back(fmt::format("{}:{}: '{}' matches no case", BaseName(list), line.number, line.pattern));
  }
  return report;
}

}  // namespace evoq
