#include "workflow/models.h"

#include <fmt/ranges.h>

#include <filesystem>

#include "base/file.h"
#include "generate/model_tokenizer.h"
#include "graph/float_reason.h"
#include "llm/cache_names.h"
#include "llm/cache_type.h"
#include "llm/encoder_head.h"
#include "llm/part_weights.h"
#include "models/models.h"
#include "ops/driver.h"
#include "reference/reference.h"
#include "workflow/training_mode.h"

namespace evoq {

Status CheckSizes(const InputShapes& shapes, bool free) {
  for (const auto& [name, sizes] : shapes) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] < 1 && !(free && sizes[i] == -1))
        return Fail(ErrorCode::kUsage, "shape of {}: dimension {} has size {}, expected at least 1",
                    name, i, sizes[i]);
    }
  }
  return {};
}

Status CheckThreads(int threads) {
  if (threads >= 0 && threads <= 1024) return {};
  return Fail(ErrorCode::kUsage, "{} threads, expected 0 to 1024", threads);
}

Result<Graph> LoadGraph(const std::string& onnx_path, const InputShapes& fixed,
                        const PassChoice& passes) {
  EVOQ_TRY(CheckSizes(fixed, /*free=*/true));
  EVOQ_ASSIGN(Graph graph, ImportModel(onnx_path));
  EVOQ_TRY(ChoosePasses(graph, passes));
  EVOQ_TRY(FixShapes(graph, fixed));
  EVOQ_TRY(WithContext(RunPasses(graph, Stage::kOptimize), onnx_path));
  return graph;
}

namespace {

// Of products that the file computes on integers of 16 bits.
std::optional<std::string> SixteenBitsSentence(const Graph& graph) {
  std::vector<std::string> names;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (FloatReasonOf(node.attrs).code == kSixteenBits) names.push_back(node.name);
  }
  if (names.empty()) return std::nullopt;
  return fmt::format(
      "{} quantized to 16 bits by the file ({}{}): computed in float32, with values rounded to 16 "
      "bits between them; of the float model --scheme int16x8 or int8 makes integer arithmetic",
      names.size() == 1 ? "1 product is" : fmt::format("{} products are", names.size()), names[0],
      names.size() == 1 ? "" : ", ...");
}

}  // namespace

std::vector<std::string> WarningsAsRead(const Graph& graph) {
  std::vector<std::string> warnings;
  for (const auto sentence :
       {TrainingModeSentence, UnreadTokenizer, LeftOutSentence, SixteenBitsSentence}) {
    if (const auto said = sentence(graph)) warnings.push_back(*said);
  }
  return warnings;
}

Status NarrowCaches(Graph& graph, const std::string& type, const std::string& path) {
  EVOQ_ASSIGN(const DType narrow, WithContext(ParseCacheType(type), "--kv-cache"));
  if (narrow != DType::kUndefined && FindCacheNames(graph) != nullptr)
    return Fail(ErrorCode::kUsage,
                "--kv-cache: the caches of {} grow with each run; give it to generate, bench or "
                "perplexity, where they stay in place",
                path);
  return WithContext(SetCacheType(graph, narrow), path);
}

Result<InputShapes> WithBatch(const Graph& graph, InputShapes shapes, int64_t batch) {
  if (batch <= 0) return shapes;
  for (ValueId id : graph.inputs()) {
    const Value& input = graph.value(id);
    if (!input.type.shape.ranked() || input.type.shape.rank() == 0) continue;
    auto [it, added] = shapes.emplace(input.name, input.type.shape.sizes());
    if (input.type.shape[0].known() && input.type.shape[0].value != batch)
      return Fail(ErrorCode::kUsage, "--batch {}: input {} has the fixed shape {}", batch,
                  input.name, input.type.shape.ToString());
    if (it->second.size() != static_cast<size_t>(input.type.shape.rank()))
      return Fail(ErrorCode::kUsage, "input {}: shape {} has rank {}, the model's is {}",
                  input.name, Shape(it->second).ToString(), it->second.size(),
                  input.type.shape.ToString());
    it->second[0] = batch;
    for (size_t i = 1; i < it->second.size(); ++i) {
      if (it->second[i] < 0)
        return Fail(ErrorCode::kUsage, "input {} is {}: name its sizes with --shape {}=...",
                    input.name, input.type.shape.ToString(), input.name);
    }
  }
  return shapes;
}

bool HasFreeBatch(const Graph& graph) {
  bool free = false;
  for (ValueId id : graph.inputs()) {
    const Shape& shape = graph.value(id).type.shape;
    if (!shape.ranked() || shape.rank() == 0) continue;
    if (shape[0].known()) return false;
    free = true;
  }
  return free;
}

Result<Tensor> ReadInputFile(const std::string& name, const std::string& file, TensorType type) {
  EVOQ_ASSIGN(Tensor tensor, ReadNpy(file));
  if (tensor.dtype() != type.dtype)
    return InvalidInput("{}: elements are {}, expected {} for input {}", file,
                        DTypeName(tensor.dtype()), DTypeName(type.dtype), name);
  type.shape = tensor.shape();
  return tensor.WithType(type);
}

tl::unexpected<Error> NoSuchInput(const std::string& name, const Graph& graph) {
  constexpr size_t kShown = 8;
  std::vector<std::string> names;
  for (const ValueId id : graph.inputs()) {
    if (names.size() < kShown) names.push_back(graph.value(id).name);
  }
  const size_t more = graph.inputs().size() - names.size();
  return Fail(ErrorCode::kUsage, "--input {}: the model has no input of that name; it has {}{}",
              name, names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")),
              more > 0 ? fmt::format(" and {} more", more) : "");
}

Result<InputContents> ReadInputs(const Graph& graph, const InputFiles& files) {
  InputContents contents;
  for (const auto& [name, file] : files) {
    const ValueId id = graph.FindValue(name);
    if (!id.valid() || !graph.IsInput(id)) return NoSuchInput(name, graph);
    const TensorType& type = graph.value(id).type;
    EVOQ_ASSIGN(Tensor tensor, ReadInputFile(name, file, type));
    EVOQ_TRY(CheckFits(file, tensor, name, type.shape));
    contents[name] = std::move(tensor);
  }
  return contents;
}

Status CheckEnding(const std::string& output, bool onnx) {
  const std::string ending = LowerExtension(output);
  if (onnx ? ending == ".etm" || ending == ".om" : ending == ".onnx")
    return Fail(ErrorCode::kUsage, "-o {}: what is written is an {} file; {}", output,
                onnx ? ".onnx" : ".etm",
                onnx ? "`evoq compile` writes .etm" : "`evoq optimize` writes .onnx");
  for (const char* read : {".tflite", ".gguf", ".safetensors"}) {
    if (ending == read)
      return Fail(ErrorCode::kUsage, "-o {}: evoq reads {} files and writes .etm and .onnx", output,
                  read);
  }
  return {};
}

Status CheckOutput(const std::string& output, const std::vector<std::string>& inputs) {
  EVOQ_TRY(CheckOutputPath(output));
  for (const std::string& input : inputs) {
    for (const std::string& path : {input, input.substr(input.find('=') + 1)}) {
      std::error_code error;
      if (!std::filesystem::is_regular_file(path, error) ||
          !std::filesystem::equivalent(path, output, error) || error)
        continue;
      return Fail(ErrorCode::kUsage,
                  "-o {}: it is the input {}, which would be lost: expected another file", output,
                  path);
    }
  }
  return {};
}

std::string FindPreprocess(const std::string& model_path, const std::string& given) {
  if (!given.empty()) return given;
  std::filesystem::path beside(model_path);
  beside.replace_extension(".preprocess.json");
  std::error_code code;
  return std::filesystem::exists(beside, code) ? beside.string() : "";
}

std::vector<InputSpec> InputsOf(const Graph& graph) {
  std::vector<InputSpec> inputs;
  for (ValueId id : graph.inputs()) {
    const Value& input = graph.value(id);
    const bool ranked = input.type.shape.ranked();
    inputs.push_back({input.name, ranked ? input.type.shape.sizes() : std::vector<int64_t>(),
                      input.type.dtype, ranked});
  }
  return inputs;
}

Result<DatasetOptions> DataOptions(const std::string& model_path, const std::string& preprocess,
                                   const std::string& labels) {
  DatasetOptions options;
  if (const std::string file = FindPreprocess(model_path, preprocess); !file.empty()) {
    EVOQ_ASSIGN(options.preprocess, LoadPreprocess(file));
  }
  options.labels = labels;
  return options;
}

Result<std::unique_ptr<Dataset>> OpenData(const std::vector<std::string>& sources,
                                          const Graph& graph, const std::string& model_path,
                                          const std::string& preprocess,
                                          const std::string& labels) {
  EVOQ_ASSIGN(const DatasetOptions options, DataOptions(model_path, preprocess, labels));
  return OpenInputs(sources, InputsOf(graph), options);
}

void Warn(const Dataset& data, std::vector<std::string>& warnings) {
  if (std::string warning = data.warning(); !warning.empty())
    warnings.push_back(std::move(warning));
}

int64_t FloatWeightBytes(const Graph& graph) {
  int64_t bytes = 0;
  for (int i = 0; i < graph.value_count(); ++i) {
    const Value& v = graph.value(ValueId{i});
    if (!v.is_constant() || v.users.empty() || IsTiedHead(graph, ValueId{i})) continue;
    const bool bias = v.type.dtype == DType::kInt32 && v.type.shape.rank() == 1;
    if (IsFloat(v.type.dtype) || v.type.quantized() || bias)
      bytes += 4 * v.type.shape.elements().value_or(0);
  }
  for (NodeId id : graph.order()) {
    for (const auto& body : graph.node(id).bodies) bytes += FloatWeightBytes(*body);
  }
  return bytes;
}

}  // namespace evoq
