#include "zoo/zoo.h"

#include <filesystem>

#include "base/file.h"
#include "base/json_file.h"
#include "base/nearest.h"
#include "base/output_file.h"
#include "base/text.h"
#include "cli/common.h"
#include "cli/verb.h"
#include "models/models.h"
#include "nn/layer.h"
#include "onnx/onnx.h"
#include "reference/reference.h"
#include "report/table.h"

namespace evoq {
namespace {

using nlohmann::json;

struct Options {
  std::string name, output;
  ZooOptions zoo;
};

// The network of a .json as ONNX.
Result<json> WriteNetwork(const Options& o) {
  if (o.output.empty()) return Fail(ErrorCode::kUsage, "zoo {}: -o OUT is missing", o.name);
  constexpr size_t kMostBytes = 1 << 24;
  EVOQ_ASSIGN(const json network, ReadJsonFile(o.name, kMostBytes));
  EVOQ_ASSIGN(const Graph graph, WithContext(BuildNetwork(network, o.zoo.seed), o.name));
  EVOQ_TRY(ExportOnnx(graph, o.output));
  const int64_t bytes = WrittenBytes(o.output);
  Out("{} -> {}: {}\n", o.name, o.output, HumanBytes(bytes));
  return json{{"name", o.name}, {"output_bytes", bytes}};
}

VerbRun Declare(const VerbOptions& options, const CommonOptions&) {
  auto o = std::make_shared<Options>();
  options.Add("name", o->name,
              "The architecture, or a network as NAME.json; without it they are listed");
  options.Add("-o,--output", o->output,
              "The ONNX file to write, or the folder of a language model");
  options.AddFlag("--free-sequence", o->zoo.free_sequence,
                  "bert-base takes any number of tokens up to --sequence");
  options.Add("--sequence", o->zoo.sequence, "Tokens of bert-base")
      .InRange(1, 1 << 16)
      .ShowDefault();
  options.Add("--seed", o->zoo.seed, "Seed of the random weights").ShowDefault();
  return [o]() -> Result<json> {
    if (o->name.empty()) {
      TextTable table({"name", "what"});
      json list = json::array();
      for (const ZooModel* model : AllZooModels()) {
        table.Row({model->name, model->doc});
        list.push_back({{"name", model->name}, {"doc", model->doc}});
      }
      Out("{}", Lines{table.ToString()});
      return list;
    }
    if (LowerExtension(o->name) == ".json") return WriteNetwork(*o);
    const ZooModel* model = FindZooModel(o->name);
    if (model == nullptr)
      return Fail(ErrorCode::kUsage, "zoo {}: not one of `evoq zoo`{}", o->name,
                  NearestHint(o->name, AllZooModels()));
    if (o->output.empty()) return Fail(ErrorCode::kUsage, "zoo {}: -o OUT is missing", o->name);
    if (model->write != nullptr) {
      EVOQ_TRY(model->write(o->zoo, o->output));
      EVOQ_ASSIGN(const int64_t bytes, ModelBytes(o->output));
      Out("{} -> {}: {}\n", o->name, o->output, HumanBytes(bytes));
      return json{{"name", o->name}, {"output_bytes", bytes}};
    }
    Graph graph = model->build(o->zoo);
    EVOQ_TRY(InferTypes(graph));
    EVOQ_TRY(ExportOnnx(graph, o->output));
    const int64_t bytes = WrittenBytes(o->output);
    Out("{} -> {}: {}\n", o->name, o->output, HumanBytes(bytes));
    return json{{"name", o->name}, {"output_bytes", bytes}};
  };
}

}  // namespace

extern const VerbDef kVerbZoo = {
    .name = "zoo",
    .doc = "Writes a well-known architecture with seeded random weights, for benchmarks.",
    .example = "evoq zoo resnet50 -o resnet50.onnx",
    .declare = Declare,
};

}  // namespace evoq
