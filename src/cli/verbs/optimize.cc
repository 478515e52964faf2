#include "base/file.h"
#include "base/json_file.h"
#include "base/text.h"
#include "cli/common.h"
#include "cli/verb.h"
#include "onnx/onnx.h"

namespace evoq {
namespace {

using nlohmann::json;

struct Options {
  std::string model, output, config;
  std::vector<std::string> disable;
  int stop_after = -1;
  bool log = false;
};

// {"disable": ["fuse-*"], "stop_after": 3}: the options as a file.
Status ReadConfig(Options& o) {
  if (o.config.empty()) return {};
  EVOQ_ASSIGN(const json config, ReadJsonFile(o.config, 1 << 20));
  if (!config.is_object()) return InvalidInput("{}: expected a JSON object", o.config);
  for (const auto& [key, value] : config.items()) {
    if (key == "disable" && value.is_array()) {
      for (const json& name : value) {
        if (!name.is_string())
          return InvalidInput("{}: disable: expected names of passes", o.config);
        o.disable.push_back(name.get<std::string>());
      }
    } else if (key == "stop_after" && value.is_number_integer() && value >= 0 && value <= 1000000) {
      o.stop_after = value.get<int>();
    } else {
      return InvalidInput(
          "{}: field '{}', expected disable (a list of names) or stop_after (a number)", o.config,
          key);
    }
  }
  return {};
}

Result<json> Run(Options o) {
  EVOQ_TRY(ReadConfig(o));
  EVOQ_TRY(CheckOutputPath(o.output));
  EVOQ_ASSIGN(Graph graph, ImportOnnx(o.model));
  const size_t before = graph.order().size();
  json passes = json::array();
  PassOptions options;
  options.disable = o.disable;
  options.stop_after = o.stop_after;
  options.log = [&](const PassDef& pass, int changes, const Graph& now) {
    if (changes == 0) return;
    passes.push_back({{"pass", pass.name}, {"changes", changes}, {"nodes", now.order().size()}});
    if (o.log) Log("{:<24} {:4} changes, {} nodes", pass.name, changes, now.order().size());
  };
  EVOQ_TRY(WithContext(RunPasses(graph, Stage::kOptimize, options), o.model));
  EVOQ_TRY(ExportOnnx(graph, o.output));
  Out("{}: {} nodes -> {} -> {}\n", o.model, before, graph.order().size(), o.output);
  return json{{"nodes_before", before}, {"nodes_after", graph.order().size()}, {"passes", passes}};
}

VerbRun Declare(CLI::App& app, const CommonOptions&) {
  auto o = std::make_shared<Options>();
  app.add_option("model", o->model, "MODEL.onnx")->required();
  app.add_option("-o,--output", o->output, "The ONNX file to write")->required();
  app.add_flag("--log-passes", o->log, "Say on stderr what each pass changed");
  app.add_option("--stop-after", o->stop_after,
                 "Run only the first N passes that change something");
  app.add_option("--disable", o->disable,
                 "Leave out passes of this name (a glob pattern; may be repeated)");
  app.add_option("--config", o->config,
                 "These options as a JSON file: {\"disable\": [...], \"stop_after\": N}");
  return [o] { return Run(*o); };
}

}  // namespace

extern const VerbDef kVerbOptimize = {"optimize", "Runs the graph passes only and writes ONNX.",
                                      "evoq optimize resnet.onnx -o resnet.opt.onnx --log-passes",
                                      Declare};

}  // namespace evoq
