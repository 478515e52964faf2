#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>

#include "base/file.h"
#include "base/text.h"
#include "cli/adaptive_options.h"
#include "cli/common.h"
#include "cli/verb.h"
#include "models/models.h"
#include "reference/control.h"
#include "reference/util.h"
#include "workflow/adaptive.h"

namespace evoq {
namespace {

using nlohmann::json;

struct Options {
  std::string model, output_dir, preprocess, labels;
  std::vector<std::string> inputs, states;
  int topk = 0;
  AdaptiveChoice adaptive;
};

// "NAME=F" or, for a model with one input, "F". A path that is there is a path.
Result<std::pair<std::string, std::string>> SplitInput(const std::string& option,
                                                       const Graph& graph) {
  const auto named = SplitNamedFile(option);
  std::error_code code;
  if (graph.inputs().size() == 1 && (!named || std::filesystem::exists(option, code)))
    return std::pair(graph.value(graph.inputs()[0]).name, option);
  if (named) return *named;
  return Fail(ErrorCode::kUsage, "--input {}: expected NAME=FILE, the model has {} inputs", option,
              graph.inputs().size());
}

Result<Tensor> ReadInput(const std::string& name, const std::string& file, const TensorType& type,
                         const std::string& model, const std::string& preprocess) {
  if (LowerExtension(file) == ".npy") return ReadInputFile(name, file, type);
  const std::string config = FindPreprocess(model, preprocess);
  if (config.empty())
    return Fail(ErrorCode::kUsage, "{}: an image needs --preprocess F.json", file);
  EVOQ_ASSIGN(const Preprocess how, LoadPreprocess(config));
  return LoadInput(file, how);
}

Result<std::vector<std::string>> ReadLabelNames(const std::string& path) {
  EVOQ_ASSIGN(const std::string text, ReadTextFile(path, 64 << 20));
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

// Output `from` of a step is input `to` of the next one.
struct State {
  size_t from, to;
};

Result<std::vector<State>> ParseStates(const std::vector<std::string>& options,
                                       const Graph& graph) {
  std::vector<State> states;
  const auto place = [&](const std::vector<ValueId>& values, const std::string& name) {
    return static_cast<size_t>(
        std::find_if(values.begin(), values.end(),
                     [&](ValueId id) { return graph.value(id).name == name; }) -
        values.begin());
  };
  for (const std::string& option : options) {
    size_t equals = option.find('=');
    if (equals == std::string::npos)
      return Fail(ErrorCode::kUsage, "--state {}: expected OUTPUT=INPUT", option);
    State state{};
    bool is_output = false, is_input = false;
    // Names may hold '=' too: split where both sides are names of the model.
    for (; equals != std::string::npos && !is_input; equals = option.find('=', equals + 1)) {
      state = {place(graph.outputs(), option.substr(0, equals)),
               place(graph.inputs(), option.substr(equals + 1))};
      is_output |= state.from < graph.outputs().size();
      is_input = state.from < graph.outputs().size() && state.to < graph.inputs().size();
    }
    if (!is_input)
      return Fail(ErrorCode::kUsage, "--state {}: the model has no {} of that name", option,
                  is_output ? "input" : "output");
    states.push_back(state);
  }
  return states;
}

// What a state begins with where no file says it: zeros.
Result<Tensor> ZerosFor(const Graph& graph, ValueId input) {
  const auto& [name, type] = std::tie(graph.value(input).name, graph.value(input).type);
  if (graph.metadata.count("tflite.initial." + name) > 0)
    return Fail(ErrorCode::kUsage,
                "input {} is missing: it begins with the numbers of the fact tflite.initial.{}",
                name, name);
  if (!type.shape.is_static() || !type.is_tensor() || type.dtype == DType::kString)
    return Fail(ErrorCode::kUsage, "input {} is missing: {} has no size", name, type.ToString());
  if (!type.quantized()) return WithContext(AllocateOutput(type), name);
  EVOQ_ASSIGN(const Tensor real,
              WithContext(AllocateOutput(TensorType(DType::kFloat32, type.shape)), name));
  return QuantizeTensor(real, type);
}

// The shape that an input may have: with `states` perhaps the steps as an axis in front.
Shape WithSteps(Shape shape, const Shape& given, bool states) {
  if (states && shape.ranked() && given.rank() == shape.rank() + 1)
    shape.mutable_dims().insert(shape.mutable_dims().begin(), given[0]);
  return shape;
}

// Whether an input has an axis more than the model's.
bool HasSteps(const Graph& graph, const std::vector<Tensor>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Shape& shape = graph.value(graph.inputs()[i]).type.shape;
    if (shape.ranked() && inputs[i].shape().rank() == shape.rank() + 1) return true;
  }
  return false;
}

// Runs the model once for each row of the inputs that have an axis more than the model's, in front;
// the other inputs are the same in each step, but for the states. Outputs are stacked in front.
Result<std::vector<Tensor>> RunSteps(Engine& engine, std::vector<Tensor> inputs,
                                     const std::vector<State>& states) {
  const Graph& graph = engine.model().graph;
  std::vector<size_t> stepped;
  int64_t steps = -1;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Shape& shape = graph.value(graph.inputs()[i]).type.shape;
    if (!shape.ranked() || inputs[i].shape().rank() != shape.rank() + 1) continue;
    if (steps >= 0 && inputs[i].sizes()[0] != steps)
      return Fail(ErrorCode::kUsage, "inputs of {} and {} steps", steps, inputs[i].sizes()[0]);
    steps = inputs[i].sizes()[0];
    stepped.push_back(i);
  }
  if (steps < 1)
    return Fail(ErrorCode::kUsage,
                "--state: expected an input with the steps as an axis in front of the model's");
  const std::vector<Tensor> given = inputs;
  std::vector<std::vector<Tensor>> rows(graph.outputs().size());
  for (int64_t step = 0; step < steps; ++step) {
    for (size_t i : stepped) {
      EVOQ_ASSIGN(const Tensor row, TakeAlong(given[i], 0, step));
      TensorType type = graph.value(graph.inputs()[i]).type;  // with its scale
      type.shape = row.shape();
      inputs[i] = row.WithType(type);
    }
    EVOQ_ASSIGN(const std::vector<Tensor> outputs, engine.Run(inputs));
    for (size_t i = 0; i < outputs.size(); ++i) rows[i].push_back(outputs[i]);
    for (const State& state : states) inputs[state.to] = outputs[state.from];
  }
  std::vector<Tensor> stacked;
  for (const std::vector<Tensor>& row : rows) {
    EVOQ_ASSIGN(Tensor tensor, Stacked(row, 0, row[0].type()));
    stacked.push_back(std::move(tensor));
  }
  return stacked;
}

// "a/b" -> "a_b": a file's name for an output, another than those in `taken`.
std::string FileFor(const std::string& output, std::set<std::string>& taken) {
  std::string stem = output;
  for (char& c : stem) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-' && c != '_') c = '_';
  }
  if (stem.empty() || stem[0] == '.') stem = "_" + stem;
  std::string file = stem;
  for (int i = 2; !taken.insert(file).second; ++i) file = fmt::format("{}_{}", stem, i);
  return file + ".npy";
}

Result<json> Run(const Options& o, int threads) {
  const std::optional<AdaptiveOptions> adaptive = o.adaptive.chosen();
  EVOQ_ASSIGN(std::unique_ptr<Engine> engine,
              LoadEngine(o.model, {.threads = threads, .adaptive = adaptive}));
  const bool may_step = !o.states.empty() || o.adaptive.follows;
  const Graph& graph = engine->model().graph;
  std::vector<Tensor> inputs(graph.inputs().size());
  for (const std::string& option : o.inputs) {
    EVOQ_ASSIGN(const auto named, SplitInput(option, graph));
    size_t index = 0;
    while (index < inputs.size() && graph.value(graph.inputs()[index]).name != named.first) ++index;
    if (index == inputs.size()) return NoSuchInput(named.first, graph);
    const TensorType& type = graph.value(graph.inputs()[index]).type;
    EVOQ_ASSIGN(inputs[index], ReadInput(named.first, named.second, type, o.model, o.preprocess));
    EVOQ_TRY(CheckFits(named.second, inputs[index], named.first,
                       WithSteps(type.shape, inputs[index].shape(), may_step)));
  }
  EVOQ_ASSIGN(const std::vector<State> states, ParseStates(o.states, graph));
  for (const State& state : states) {
    if (inputs[state.to].defined()) continue;
    EVOQ_ASSIGN(inputs[state.to], ZerosFor(graph, graph.inputs()[state.to]));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined())
      return Fail(ErrorCode::kUsage, "input {} is missing: --input {}=F.npy",
                  graph.value(graph.inputs()[i]).name, graph.value(graph.inputs()[i]).name);
  }
  EVOQ_ASSIGN(const std::vector<Tensor> outputs,
              !states.empty() || (may_step && HasSteps(graph, inputs))
                  ? RunSteps(*engine, inputs, states)
                  : engine->Run(inputs));
  if (!o.output_dir.empty()) EVOQ_TRY(MakeDirectories(o.output_dir));
  json out = {{"model", o.model}, {"outputs", json::array()}};
  std::set<std::string> taken;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = graph.value(graph.outputs()[i]).name;
    Out("{}: {}\n", name, outputs[i].type().ToString());
    json entry = {
        {"name", name}, {"dtype", DTypeName(outputs[i].dtype())}, {"shape", outputs[i].sizes()}};
    if (!o.output_dir.empty()) {
      const std::string path = o.output_dir + "/" + FileFor(name, taken);
      EVOQ_TRY(WriteNpy(outputs[i], path));
      entry["file"] = path;
      Out("  -> {}\n", path);
    }
    out["outputs"].push_back(std::move(entry));
  }
  if (adaptive) out["adaptive"] = Print(Tell(*engine->adaptive()));
  if (o.topk > 0 && !outputs.empty()) {
    EVOQ_ASSIGN(const Tensor scores, ToFloat32(outputs[0]));
    std::vector<std::string> names;
    if (!o.labels.empty()) {
      EVOQ_ASSIGN(names, ReadLabelNames(o.labels));
    }
    std::vector<int64_t> order(static_cast<size_t>(scores.elements()));
    std::iota(order.begin(), order.end(), int64_t{0});
    const size_t k = std::min(order.size(), static_cast<size_t>(o.topk));
    const float* s = scores.data<float>();
    std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(k), order.end(),
                      [&](int64_t a, int64_t b) { return s[a] != s[b] ? s[a] > s[b] : a < b; });
    for (size_t i = 0; i < k; ++i) {
      const std::string label = static_cast<size_t>(order[i]) < names.size() ? names[order[i]] : "";
      Out("{:6} {:10.5f} {}\n", order[i], s[order[i]], label);
      out["top"].push_back({{"class", order[i]}, {"score", s[order[i]]}, {"label", label}});
    }
  }
  return out;
}

VerbRun Declare(const VerbOptions& options, const CommonOptions& common) {
  auto o = std::make_shared<Options>();
  options.Add("model", o->model, "MODEL.onnx or MODEL.etm").Required();
  options
      .Add("--input", o->inputs,
           "NAME=F.npy, NAME=F.jpg or NAME=F.png (the name may be left out for one input)")
      .Required();
  options.Add("--state", o->states,
              "OUTPUT=INPUT: a run for each row of the inputs' first axis, each handing its "
              "output to the next one's input, which begins with zeros unless it is given; "
              "outputs are stacked");
  AddAdaptiveOptions(options, o->adaptive);
  options.Add("--output-dir", o->output_dir, "Write each output as NAME.npy into this folder");
  options.Add("--preprocess", o->preprocess,
              "How an image becomes an input (default: MODEL.preprocess.json beside the model)");
  options.Add("--topk", o->topk, "Print the K largest values of the first output");
  options.Add("--labels", o->labels, "Class names for --topk, one per line");
  return [o, &common] { return Run(*o, common.threads); };
}

}  // namespace

extern const VerbDef kVerbRun = {
    .name = "run",
    .doc = "Runs a model once on files and writes its outputs.",
    .example = "evoq run mobilenetv2.etm --input input=cat.jpg --topk 5",
    .declare = Declare,
};

}  // namespace evoq
