#include "workflow/atc.h"

#include "cli/common.h"
#include "cli/verb.h"

namespace evoq {
namespace {

VerbRun Declare(const VerbOptions& options, const CommonOptions& common) {
  auto o = std::make_shared<AtcOptions>();
  auto log = std::make_shared<std::string>();
  options.Add("--model", o->model, "The model to compile: .onnx").Required();
  options.Add("--output", o->output, "The file to write, without its ending .om").Required();
  options.Add("--framework", o->framework, "5: ONNX").ShowDefault();
  options
      .Add("--optimization_level", o->optimization_level,
           "Graph passes up to this level, as --opt-level of compile (default: what the model's "
           "file says, else 3)")
      .InRange(0, kMostOptLevel);
  options.Add("--input_shape", o->input_shape,
              "Sizes of inputs, fixed for good; -1 stays free: NAME:1,3,224,224;NAME2:-1,16");
  options.Add("--dynamic_batch_size", o->dynamic_batch_size,
              "Prepare for each of these first sizes, where --input_shape has -1: 1,8,16");
  options.Add("--dynamic_image_size", o->dynamic_image_size,
              "Prepare for each of these pairs of sizes, where --input_shape has two -1: "
              "224,224;448,448");
  options.Add("--dynamic_dims", o->dynamic_dims,
              "Prepare for each of these sets of sizes, in the order of the -1 in --input_shape");
  options.Add("--out_nodes", o->out_nodes,
              "What the compiled model gives, instead of the model's outputs: NODE:0;NODE2:1, or "
              "names of values");
  options.Add("--input_format", o->input_format, "NCHW, or NHWC: images with channels last; ND");
  options.Add("--output_type", o->output_type,
              "The type of outputs that are floats: FP32, FP16, UINT8 or INT8");
  options.Add("--precision_mode", o->precision_mode,
              "force_fp32 or must_keep_origin_dtype; force_fp16, allow_fp32_to_fp16 or "
              "allow_mix_precision: in bfloat16");
  options.Add("--fusion_switch_file", o->fusion_switch_file,
              "Which fusions are on: {\"Switch\": {\"GraphFusion\": {\"PASS\": \"off\"}}}");
  options.Add("--insert_op_conf", o->insert_op_conf,
              "AIPP: preprocessing inside the model, which then takes images of bytes "
              "(docs/ascend.md)");
  options.Add("--soc_version", o->soc_version, "Changes nothing: kernels are chosen at loading");
  options.Add("--log", *log, "debug, info, warning, error or null: accepted, changes nothing")
      .OneOf({"debug", "info", "warning", "error", "null"});
  return [o, log, &common]() -> Result<nlohmann::json> {
    EVOQ_ASSIGN(CompileJob job, AtcJob(*o));
    job.threads = common.threads;
    for (const std::string& note : job.deployment->notes) Log("note: {}", note);
    EVOQ_ASSIGN(const Compiled compiled, Compile(job, common.follow));
    return Print(Tell(compiled));
  };
}

}  // namespace

extern const VerbDef kVerbAtc = {
    .name = "atc",
    .doc = "Compiles a model for deployment by the options of Ascend's compiler of that name.",
    .example =
        "evoq atc --model=resnet50_optimized.onnx --framework=5 --output=resnet50_optimized_om "
        "--soc_version=Ascend310P3 --log=info --optimization_level=2",
    .declare = Declare,
};

}  // namespace evoq
