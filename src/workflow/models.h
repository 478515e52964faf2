// Loading models, and data for their inputs.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/inputs.h"
#include "models/models.h"

namespace evoq {

// .npy files with the content of inputs, by name; and what they hold.
using InputFiles = std::map<std::string, std::string>;
using InputContents = std::map<std::string, Tensor>;

// Sizes to plan for are at least 1; with `free`, -1 leaves one free. Errors: kUsage.
Status CheckSizes(const InputShapes& shapes, bool free = false);
// CheckOutputPath, and that none of the inputs, of data perhaps NAME=PATH, is that very file, by
// whatever name: writing it would destroy the input. Errors: also kUsage.
Status CheckOutput(const std::string& output, const std::vector<std::string>& inputs);
// That the file's name does not end as one of another kind than what is written, an .etm or `onnx`.
// Errors: kUsage.
Status CheckEnding(const std::string& output, bool onnx);
// Errors: kUsage for other numbers than 0 to 1024.
Status CheckThreads(int threads);

// The optimized graph of an .onnx, with sizes of its inputs fixed for good (-1: stays free) and
// with these passes chosen. Errors: kUsage for those; the ones of import and passes.
Result<Graph> LoadGraph(const std::string& onnx_path, const InputShapes& fixed,
                        const PassChoice& passes = {});
// What is worth a warning of a graph as it is read, and is not to be seen of it later.
std::vector<std::string> WarningsAsRead(const Graph& graph);
// --kv-cache: a language model's caches become `type` (llm/cache_type.h); "": nothing changes.
Status NarrowCaches(Graph& graph, const std::string& type, const std::string& path);

// Shapes for a batch of `batch` samples: dimension 0 of every input becomes `batch` where the model
// leaves it free, over what `shapes` says. Errors: kUsage when the model fixes it to another size,
// for a shape of another rank, and for sizes that nobody names.
Result<InputShapes> WithBatch(const Graph& graph, InputShapes shapes, int64_t batch);
// Whether WithBatch takes any batch: some input has a free dimension 0, and none a fixed one.
bool HasFreeBatch(const Graph& graph);

// The .npy for the model's input `name` of this type, with its quantization. Its sizes are not
// looked at. Errors: those of reading; kInvalidInput for elements of another type.
Result<Tensor> ReadInputFile(const std::string& name, const std::string& file, TensorType type);
// Errors: those of ReadInputFile and CheckFits; kUsage for a name that no input has.
Result<InputContents> ReadInputs(const Graph& graph, const InputFiles& files);

// "--input z: the model has no input of that name; it has x, y".
tl::unexpected<Error> NoSuchInput(const std::string& name, const Graph& graph);
// What the inputs of a model take.
std::vector<InputSpec> InputsOf(const Graph& graph);

// How a model's data is read: its labels, and the preprocessing that FindPreprocess finds. Errors:
// those of LoadPreprocess.
Result<DatasetOptions> DataOptions(const std::string& model_path, const std::string& preprocess,
                                   const std::string& labels);
// A data set for the model's inputs; `preprocess` and `labels` may be empty. Looks for
// MODEL.preprocess.json beside the model when `preprocess` is empty and the data needs one.
Result<std::unique_ptr<Dataset>> OpenData(const std::vector<std::string>& sources,
                                          const Graph& graph, const std::string& model_path,
                                          const std::string& preprocess, const std::string& labels);
// Adds the data set's warning, where it has one.
void Warn(const Dataset& data, std::vector<std::string>& warnings);
// The preprocess file to use, "" when there is none.
std::string FindPreprocess(const std::string& model_path, const std::string& given);

// Bytes of all float32 weights that the model's constants, those of subgraphs too, stand for:
// elements of float and quantized constants x 4. The bias of a quantized operator (int32) counts as
// float32 too, a tied head (llm/part_weights.h) does not.
int64_t FloatWeightBytes(const Graph& graph);

}  // namespace evoq
