#include "cli/explain_target.h"

#include "base/file.h"
#include "cli/common.h"
#include "onnx/onnx.h"
#include "report/placement_text.h"

namespace evoq {

using nlohmann::json;

namespace {

Result<const Runtime*> RuntimeNamed(const std::string& name) {
  if (const Runtime* runtime = FindRuntime(name)) return runtime;
  std::string names;
  for (const Runtime* runtime : AllRuntimes()) names += (names.empty() ? "" : ", ") + std::string(runtime->name);
  return Fail(ErrorCode::kUsage, "--target {}: expected {}", name, names);
}

}  // namespace

Result<json> ExplainTarget(const std::string& model, const std::string& target, bool fix, const std::string& output) {
  EVOQ_ASSIGN(const Runtime* runtime, RuntimeNamed(target));
  if (LowerExtension(model) != ".onnx") return Fail(ErrorCode::kUsage, "{}: --target takes an .onnx file", model);
  if (fix != !output.empty()) return Fail(ErrorCode::kUsage, "--fix and -o go together: --fix -o FIXED.onnx");
  if (fix && LowerExtension(output) != ".onnx") return Fail(ErrorCode::kUsage, "-o {}: expected an .onnx file", output);
  if (fix) EVOQ_TRY(CheckOutputPath(output));
  EVOQ_ASSIGN(Graph graph, ImportOnnx(model));
  const Examination before = Examine(graph, *runtime);
  Out("{}", ToText(graph, before));
  json out = ToJson(graph, before);
  out["model"] = model;
  if (!fix) return out;
  EVOQ_ASSIGN(const std::vector<Repair> repairs, RepairPlacement(graph, *runtime));
  const Examination after = Examine(graph, *runtime);
  EVOQ_TRY(ExportOnnx(graph, output));
  Out("\n{}\nafterwards, {}wrote {}\n", ToText(repairs), ToText(graph, after), output);
  out["repairs"] = ToJson(repairs);
  out["fixed"] = ToJson(graph, after);
  out["output"] = output;
  return out;
}

}  // namespace evoq
