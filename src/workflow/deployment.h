// How a model is to be optimized, compiled and run, as the file optimization_config.json of the
// Ascend tool chain says it (docs/ascend.md has each key).
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "passes/choice.h"
#include "program/model.h"
#include "tensor/dtype.h"
#include "workflow/aipp.h"

namespace evoq {

// Sets of input sizes that are prepared for, at most.
inline constexpr size_t kMostShapeSets = 512;

struct Deployment {
  std::string input_model, output_model;  // .onnx; "": not said
  PassChoice passes;
  bool memory_reuse = true;
  bool winograd = true;
  int tile_rows = 0;                  // pixels in a block of a convolution; 0: evoq chooses
  std::vector<std::string> outputs;   // "NODE:INDEX" or names of values, instead of the model's
  bool channels_last_inputs = false;  // images come as N, height, width, channel
  std::optional<DType> output_type;   // of outputs that are floats; nothing: as they are
  // What is compiled to bfloat16, the 16-bit type that evoq has kernels for.
  enum class Narrow { kNothing, kConvolutions, kEverything };
  Narrow narrow = Narrow::kNothing;
  std::optional<bool> merges_batches;  // whether a batch runs at once; nothing: evoq chooses
  bool dynamic = false;                // `shapes` are prepared for
  std::vector<InputShapes> shapes;     // sets of sizes of inputs
  std::vector<Aipp> aipp;              // in front of inputs
  std::string strategy;                // "latency", "throughput", "balanced"; "": not said
  int streams = 0;                     // runs beside each other; 0: not said
  std::vector<int> stream_priorities;  // of each; smaller numbers go first
  bool share_arenas = true;            // between streams that do not run at once
  std::vector<std::string> notes;      // on what is accepted and changes nothing here, or not all
};

// What --output_type and output_type take: "float32", "FP32", ... Nothing for other texts.
std::optional<DType> OutputTypeNamed(std::string_view name);

// A fusion by the name that the guide gives it, and the passes (as --disable takes them) that make
// it.
struct FusionPattern {
  const char* name;
  std::vector<std::string> passes;
};
const std::vector<FusionPattern>& FusionPatterns();

// Whether a JSON file is of this form: one of its first keys is a section's.
bool IsDeployment(const nlohmann::json& file);

// `path` is for messages. Errors: kInvalidInput naming the key, with the nearest that there is for
// one that there is not, and what a value was expected to be.
Result<Deployment> ParseDeployment(const nlohmann::json& file, const std::string& path);

// The forms of inputs and outputs, on an imported graph, before its passes. Errors: kInvalidInput
// where an input cannot be of the sizes or of the form, and for an output that there is not.
Status ShapeInterface(const Deployment& deployment, Graph& graph);

// All that is left for whoever compiles and runs the model, as facts of the graph
// (graph/choices.h).
void Finish(const Deployment& deployment, Graph& graph);

// Does what kPrecisionChoice says, to an optimized graph that is about to be compiled. Errors:
// kInvalidInput for a fact that says something else.
Status NarrowAsChosen(Graph& graph);

// What kShapes says of a graph: sets of sizes. Errors: kInvalidInput for a fact that is none.
Result<std::vector<InputShapes>> ChosenShapes(const Graph& graph);

// What the facts of a graph say of streams; 0 streams and no priorities where they say nothing.
struct StreamChoice {
  int streams = 0;
  std::vector<int> priorities;
  bool share_arenas = true;
};
// Errors: kInvalidInput for facts that say something else.
Result<StreamChoice> ChosenStreams(const Graph& graph);

}  // namespace evoq
