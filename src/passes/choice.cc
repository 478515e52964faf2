#include "passes/choice.h"

#include <algorithm>

#include "base/json_file.h"
#include "base/nearest.h"
#include "base/text.h"
#include "ops/op.h"
#include "passes/pass.h"

namespace evoq {
namespace {

using nlohmann::json;

constexpr std::string_view kOpMark = "op=";

void AddNames(const Graph& graph, std::vector<std::string_view>& names) {
  for (const NodeId id : graph.order()) {
    names.push_back(graph.node(id).name);
    for (const auto& body : graph.node(id).bodies) AddNames(*body, names);
  }
}

Status CheckPass(const Disabled& disabled, const std::string& text) {
  std::vector<std::string_view> names;
  for (const PassDef* pass : AllPasses()) {
    if (GlobMatch(disabled.pass, pass->name)) return {};
    names.push_back(pass->name);
  }
  return Fail(ErrorCode::kUsage,
              "--disable {}: there is no pass '{}'; the nearest is {} (`evoq list passes`)", text,
              disabled.pass, Nearest(disabled.pass, names));
}

// Passes make operators that the model's file lacks; nodes of its names are there from the start.
Status CheckNode(const Graph& graph, const Disabled& disabled, const std::string& text) {
  if (disabled.everywhere()) return {};
  std::vector<std::string_view> names;
  const bool by_name = disabled.op.empty();
  if (by_name) {
    AddNames(graph, names);
  } else {
    for (const OpDef* op : AllOps()) names.push_back(op->name);
  }
  const std::string& wanted = by_name ? disabled.node : disabled.op;
  for (const std::string_view name : names) {
    if (GlobMatch(wanted, name)) return {};
  }
  return Fail(ErrorCode::kUsage, "--disable {}: {} '{}'; the nearest is '{}'", text,
              by_name ? "the model has no node" : "there is no operator", wanted,
              Nearest(wanted, names));
}

}  // namespace

Disabled ParseDisabled(const std::string& text) {
  const size_t at = text.find('@');
  Disabled disabled{.pass = text.substr(0, at)};
  if (at == std::string::npos) return disabled;
  const std::string where = text.substr(at + 1);
  if (where.starts_with(kOpMark)) {
    disabled.op = where.substr(kOpMark.size());
  } else {
    disabled.node = where;
  }
  return disabled;
}

bool Matches(const Disabled& disabled, const Node& node) {
  return disabled.op.empty() ? GlobMatch(disabled.node, node.name)
                             : GlobMatch(disabled.op, node.op);
}

Status ChoosePasses(Graph& graph, const PassChoice& choice) {
  if (choice.empty()) return {};
  if (choice.opt_level > kMostOptLevel)
    return Fail(ErrorCode::kUsage, "--opt-level {}: expected 0 to {}", choice.opt_level,
                kMostOptLevel);
  EVOQ_ASSIGN(PassChoice all, ChosenPasses(graph));
  for (const std::string& text : choice.disable) {
    const Disabled disabled = ParseDisabled(text);
    EVOQ_TRY(CheckPass(disabled, text));
    EVOQ_TRY(CheckNode(graph, disabled, text));
    if (std::ranges::find(all.disable, text) == all.disable.end()) all.disable.push_back(text);
  }
  if (choice.opt_level >= 0) all.opt_level = choice.opt_level;
  json fact = json::object();
  if (!all.disable.empty()) fact["disable"] = all.disable;
  if (all.opt_level >= 0) fact["opt_level"] = all.opt_level;
  graph.metadata[kPassChoice] = fact.dump(-1, ' ', false, json::error_handler_t::replace);
  return {};
}

Result<PassChoice> ChosenPasses(const Graph& graph) {
  PassChoice choice;
  const std::string_view text = ChoiceOf(graph, kPassChoice);
  if (text.empty()) return choice;
  const std::string where = fmt::format("metadata {}", kPassChoice);
  EVOQ_ASSIGN(const json found, WithContext(ParseJson(text), where));
  const auto fail = [&](const json& what) {
    return InvalidInput(
        "{}: {}, expected an object of disable (a list of texts) and opt_level (0 to {})", where,
        what.dump(-1, ' ', false, json::error_handler_t::replace), kMostOptLevel);
  };
  if (!found.is_object()) return fail(found);
  for (const auto& [key, value] : found.items()) {
    if (key == "disable" && value.is_array() &&
        std::ranges::all_of(value, [](const json& v) { return v.is_string(); })) {
      choice.disable = value.get<std::vector<std::string>>();
    } else if (key == "opt_level" && value.is_number_integer() && value >= 0 &&
               value <= kMostOptLevel) {
      choice.opt_level = value.get<int>();
    } else {
      return fail(found);
    }
  }
  return choice;
}

}  // namespace evoq
