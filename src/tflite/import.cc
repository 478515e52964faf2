#include "tflite/import.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/budget_scope.h"
#include "base/file.h"
#include "reference/reference.h"
#include "tflite/translator.h"

namespace evoq {
namespace {

// Element types are those that the file declares: else an operator was read wrongly.
Status CheckOutputTypes(const tflite::File& file, const Graph& graph) {
  const auto& outputs = *file.graph().outputs();
  for (unsigned i = 0; i < outputs.size(); ++i) {
    const auto t = static_cast<size_t>(outputs.Get(i));
    EVOQ_ASSIGN(const tflite::TensorFacts facts,
                tflite::FactsOf(file, *file.graph().tensors()->Get(static_cast<unsigned>(t)), t));
    const Value& value = graph.value(graph.outputs()[i]);
    const DType declared = facts.half() ? facts.stored : facts.dtype;
    if (value.type.dtype != declared)
      return InvalidInput("output '{}' is declared as {} but computed as {}", value.name,
                          DTypeName(declared), value.type.ToString());
  }
  return {};
}

// A state is left as it came: what the outputs behind those of the file are.
Status CheckStates(const tflite::File& file, const Graph& graph) {
  for (size_t i = file.graph().outputs()->size(); i < graph.outputs().size(); ++i) {
    const Value& next = graph.value(graph.outputs()[i]);
    const std::string name = next.name.substr(0, next.name.size() - std::size(tflite::kNext) + 1);
    const TensorType& type = graph.value(graph.FindValue(name)).type;
    if (next.type.shape.is_static() && next.type != type)
      return InvalidInput("variable '{}' begins as {} and is left as {}", name, type.ToString(),
                          next.type.ToString());
  }
  return {};
}

// What the file holds beside the graph that is read.
void NoteOtherGraphs(const tflite::File& file, Graph& graph) {
  std::vector<std::string> names;
  for (unsigned g = 0; g < file.model->subgraphs()->size(); ++g) {
    if (std::ranges::find(file.reached, g) == file.reached.end())
      names.push_back(fmt::format("'{}'", tflite::TextOf(file.At(g).graph().name())));
  }
  if (names.empty()) return;
  std::string& notes = graph.metadata[tflite::kNotes];
  if (!notes.empty()) notes += '\n';
  constexpr size_t kMost = 16;
  const size_t count = names.size();
  names.resize(std::min(count, kMost));
  notes += fmt::format(
      "{} not read: subgraph{} {}{}, which the first one does not run, as further signatures are",
      count, count == 1 ? "" : "s", fmt::join(names, ", "), count > kMost ? ", ..." : "");
}

Result<Graph> Import(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  const BudgetScope budget(Budget::ForFile(static_cast<int64_t>(bytes.size())));
  EVOQ_ASSIGN(const tflite::File file, tflite::ReadFile(bytes, std::move(owner)));
  EVOQ_ASSIGN(Graph graph, tflite::Translator(file).Run());
  EVOQ_TRY(graph.Sort());
  graph.RemoveDeadNodes();
  graph = graph.Compacted();
  graph.name = tflite::TextOf(file.graph().name());
  if (const std::string text = tflite::TextOf(file.model->description()); !text.empty())
    graph.metadata["tflite.description"] = text;
  graph.metadata["tflite.subgraphs"] = std::to_string(file.model->subgraphs()->size());
  NoteOtherGraphs(file, graph);
  EVOQ_TRY(InferTypes(graph));
  EVOQ_TRY(CheckOutputTypes(file, graph));
  EVOQ_TRY(CheckStates(file, graph));
  return graph;
}

}  // namespace

bool IsTflitePath(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return false;
  const auto file = MappedFile::Open(path);
  return file && tflite::HasMark((*file)->bytes());
}

bool IsTflite(std::span<const std::byte> bytes) { return tflite::HasMark(bytes); }

Result<Graph> ImportTflite(const std::string& path) {
  EVOQ_ASSIGN(const auto file, MappedFile::Open(path));
  EVOQ_ASSIGN(Graph graph, WithContext(Import(file->bytes(), file), path));
  graph.metadata["source"] = BaseName(path);
  return graph;
}

Result<Graph> ImportTfliteBytes(std::span<const std::byte> bytes, const std::string& label) {
  // Tables are read where they lie, which must be aligned as in a file.
  auto copy =
      std::make_shared<std::vector<std::max_align_t>>(bytes.size() / sizeof(std::max_align_t) + 1);
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::byte*>(copy->data()));
  const std::span<const std::byte> aligned(reinterpret_cast<const std::byte*>(copy->data()),
                                           bytes.size());
  EVOQ_ASSIGN(Graph graph, WithContext(Import(aligned, copy), label));
  graph.metadata["source"] = label;
  return graph;
}

Result<TfliteOperators> ListTfliteOperators(const std::string& path) {
  EVOQ_ASSIGN(const auto mapped, MappedFile::Open(path));
  const BudgetScope budget(Budget::ForFile(static_cast<int64_t>(mapped->bytes().size())));
  EVOQ_ASSIGN(const tflite::File file,
              WithContext(tflite::ReadFile(mapped->bytes(), mapped), path));
  std::map<std::string, TfliteOperators::Count> counts;
  for (const unsigned g : file.reached) {
    const tflite::File at = file.At(g);
    const auto* operators = at.graph().operators();
    for (unsigned i = 0; operators != nullptr && i < operators->size(); ++i) {
      const auto& code = at.CodeOf(*operators->Get(i));
      const std::string name = tflite::OperatorName(code);
      TfliteOperators::Count& count = counts[name];
      count.name = name;
      count.runs = tflite::FindOpRow(code) != nullptr;
      ++count.count;
    }
  }
  TfliteOperators list;
  for (auto& [name, count] : counts) list.operators.push_back(std::move(count));
  return list;
}

}  // namespace evoq
