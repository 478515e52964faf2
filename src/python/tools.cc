#include "python/tools.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "base/printable.h"
#include "cli/verb.h"
#include "python/arrays.h"
#include "python/error.h"
#include "python/follow.h"
#include "python/generate_options.h"
#include "workflow/compare.h"
#include "workflow/compile.h"
#include "workflow/config.h"
#include "workflow/enter.h"
#include "workflow/evaluate.h"
#include "workflow/explain.h"
#include "workflow/explain_profile.h"
#include "workflow/explain_target.h"
#include "workflow/generate.h"
#include "workflow/perplexity.h"
#include "workflow/predict.h"

namespace evoq {
namespace nb = nanobind;
using namespace nb::literals;
namespace {

using ArraysOfSamples = std::vector<std::vector<nb::object>>;  // arrays by sample, by input

nb::object Decode(const std::string& text) {
  return nb::bytes(text.data(), text.size()).attr("decode")("utf-8", "replace");
}

// -> (JSON, text, log lines)
nb::tuple ToPython(const nlohmann::json& json, const std::string& text,
                   const std::vector<std::string>& lines) {
  nb::list log;
  for (const std::string& line : lines) log.append(Decode(Printable(line)));
  return nb::make_tuple(Decode(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)),
                        Decode(PrintableLines(text)), log);
}

// Runs `task` (Follow -> Result<Told>) without the GIL, followed by Python.
template <typename Task>
Told Run(nb::object progress, const Task& task) {
  PyFollow python(std::move(progress));
  const Follow follow = python.follow();
  Result<Told> told = [&] {
    const nb::gil_scoped_release release;
    return task(follow);
  }();
  python.Rethrow();
  return Unwrap(std::move(told));
}

// A function of the module: a task by its job.
template <typename Job, typename Function>
void BindTask(nb::module_& m, const char* name, Function function) {
  m.def(
      name,
      [function](const Job& job, nb::object progress) {
        const Told told = Run(std::move(progress), [&](const Follow& follow) {
          return RunToTell([&] { return function(job, follow); });
        });
        return ToPython(told.json, told.text, told.log);
      },
      "job"_a, "progress"_a = nb::none());
}

// Arrays of the caller as tensors that look at them.
std::vector<std::vector<Tensor>> TensorsOf(const ArraysOfSamples& samples, ArrayInputs& arrays) {
  std::vector<std::vector<Tensor>> tensors;
  for (size_t i = 0; i < samples.size(); ++i) {
    std::vector<Tensor>& inputs = tensors.emplace_back();
    for (const nb::object& array : samples[i])
      inputs.push_back(Unwrap(arrays.Take(array, TensorType(), fmt::format("of sample {}", i))));
  }
  return tensors;
}

// The fields of Job::passes.
template <typename Job>
void BindPasses(nb::class_<Job>& job) {
  job.def_prop_rw(
         "disable", [](const Job& j) { return j.passes.disable; },
         [](Job& j, std::vector<std::string> all) { j.passes.disable = std::move(all); })
      .def_prop_rw(
          "opt_level", [](const Job& j) { return j.passes.opt_level; },
          [](Job& j, int level) { j.passes.opt_level = level; });
}

void BindQuantize(nb::module_& m) {
  nb::class_<QuantizeJob> quantize(m, "QuantizeJob");
  BindPasses(quantize);
  quantize.def(nb::init<>())
      .def_rw("model", &QuantizeJob::model)
      .def_rw("output", &QuantizeJob::output)
      .def_rw("scheme", &QuantizeJob::scheme)
      .def_rw("method", &QuantizeJob::method)
      .def_rw("calib", &QuantizeJob::calib)
      .def_rw("calib_random", &QuantizeJob::calib_random)
      .def_rw("calib_limit", &QuantizeJob::calib_limit)
      .def_rw("samples", &QuantizeJob::calib_samples)
      .def_rw("preprocess", &QuantizeJob::preprocess)
      .def_rw("observer", &QuantizeJob::observer)
      .def_rw("percentile", &QuantizeJob::percentile)
      .def_rw("ranges", &QuantizeJob::ranges_in)
      .def_rw("save_ranges", &QuantizeJob::ranges_out)
      .def_rw("encodings", &QuantizeJob::encodings)
      .def_rw("encodings_out", &QuantizeJob::encodings_out)
      .def_rw("encodings_version", &QuantizeJob::encodings_version)
      .def_rw("calib_cache", &QuantizeJob::calib_cache)
      .def_rw("calib_cache_out", &QuantizeJob::calib_cache_out)
      .def_rw("opset", &QuantizeJob::opset)
      .def_rw("scale_sets", &QuantizeJob::scale_sets)
      .def_rw("exclude", &QuantizeJob::exclude)
      .def_rw("shape", &QuantizeJob::shapes)
      .def_rw("fix_shape", &QuantizeJob::fixed)
      .def_rw("kv_cache", &QuantizeJob::kv_cache)
      .def_rw("per_tensor", &QuantizeJob::per_tensor)
      .def_rw("block", &QuantizeJob::block)
      .def_rw("weight_bits", &QuantizeJob::weight_bits)
      .def_rw("activation_bits", &QuantizeJob::activation_bits)
      .def_rw("signed", &QuantizeJob::signed_activations)
      .def_rw("symmetric", &QuantizeJob::symmetric)
      .def_rw("target", &QuantizeJob::target)
      .def_rw("tune", &QuantizeJob::tune)
      .def_rw("threads", &QuantizeJob::threads)
      .def_rw("data", &QuantizeJob::data)
      .def_rw("text", &QuantizeJob::text)
      .def_rw("tokenizer", &QuantizeJob::tokenizer)
      .def_rw("window", &QuantizeJob::window)
      .def_rw("labels", &QuantizeJob::labels)
      .def_rw("data_limit", &QuantizeJob::data_limit)
      .def_rw("search_s", &QuantizeJob::search_s)
      .def_rw("measure_s", &QuantizeJob::measure_s)
      .def_prop_rw(
          "max_drop", [](const QuantizeJob& job) { return job.promise.max_drop; },
          [](QuantizeJob& job, double points) { job.promise.max_drop = points; })
      .def_prop_rw(
          "min_sqnr", [](const QuantizeJob& job) { return job.promise.min_sqnr_db; },
          [](QuantizeJob& job, double db) { job.promise.min_sqnr_db = db; })
      .def_prop_rw(
          "never_slower", [](const QuantizeJob& job) { return job.promise.never_slower; },
          [](QuantizeJob& job, bool promised) { job.promise.never_slower = promised; })
      .def("read_config",
           [](QuantizeJob& job, const std::string& path) { Unwrap(ReadConfig(path, job)); });
  m.def(
      "quantize",
      [](const QuantizeJob& options, const ArraysOfSamples& samples, nb::object progress) {
        ArrayInputs arrays;
        const auto tensors = TensorsOf(samples, arrays);
        QuantizeJob job = options;
        job.samples = tensors;
        const Told told = Run(std::move(progress), [&](const Follow& follow) {
          return RunToTell([&] { return Quantize(job, follow); });
        });
        return ToPython(told.json, told.text, told.log);
      },
      "job"_a, "samples"_a = ArraysOfSamples(), "progress"_a = nb::none());
}

void BindGraphTasks(nb::module_& m) {
  nb::class_<OptimizeJob> optimize(m, "OptimizeJob");
  BindPasses(optimize);
  optimize.def(nb::init<>())
      .def_rw("model", &OptimizeJob::model)
      .def_rw("output", &OptimizeJob::output)
      .def_rw("stop_after", &OptimizeJob::stop_after)
      .def_rw("merge_adapters", &OptimizeJob::merge_adapters)
      .def("read_config",
           [](OptimizeJob& job, const std::string& path) { Unwrap(ReadConfig(path, job)); });
  BindTask<OptimizeJob>(m, "optimize", &Optimize);
  nb::class_<CompileJob> compile(m, "CompileJob");
  BindPasses(compile);
  compile.def(nb::init<>())
      .def_rw("model", &CompileJob::model)
      .def_rw("output", &CompileJob::output)
      .def_rw("shape", &CompileJob::shapes)
      .def_rw("fix_shape", &CompileJob::fixed)
      .def_rw("kv_cache", &CompileJob::kv_cache)
      .def_rw("tune", &CompileJob::tune)
      .def_rw("threads", &CompileJob::threads)
      .def_rw("gears", &CompileJob::gears)
      .def("suggest", [](CompileJob& job, size_t most, const std::string& file, double seconds) {
        job.suggest = {.most = most, .file = file, .seconds = seconds};
      });
  BindTask<CompileJob>(m, "compile", [](const CompileJob& job, const Follow& follow) {
    return Compile(job, follow);
  });
  nb::class_<PredictJob>(m, "PredictJob")
      .def(nb::init<>())
      .def_rw("model", &PredictJob::model)
      .def_rw("scheme", &PredictJob::schemes)
      .def_rw("shape", &PredictJob::shapes)
      .def_rw("input", &PredictJob::inputs)
      .def_rw("batch", &PredictJob::batch)
      .def_rw("limits", &PredictJob::limits)
      .def_rw("ranges", &PredictJob::ranges)
      .def_rw("check", &PredictJob::check)
      .def_rw("threads", &PredictJob::threads);
  BindTask<PredictJob>(m, "predict", [](const PredictJob& job, const Follow& follow) {
    return Predict(job, follow);
  });
}

void BindMeasurements(nb::module_& m) {
  nb::class_<CompareJob>(m, "CompareJob")
      .def(nb::init<>())
      .def_rw("a", &CompareJob::a)
      .def_rw("b", &CompareJob::b)
      .def_rw("report", &CompareJob::report)
      .def_rw("shape", &CompareJob::shapes)
      .def_rw("input", &CompareJob::inputs)
      .def_rw("batch", &CompareJob::batch)
      .def_rw("threads", &CompareJob::threads)
      .def_rw("duration_s", &CompareJob::duration_s)
      .def_rw("warmup_ms", &CompareJob::warmup_ms)
      .def_rw("rounds", &CompareJob::rounds)
      .def_rw("fail_slower", &CompareJob::fail_slower);
  BindTask<CompareJob>(m, "compare",
                       [](const CompareJob& job, const Follow& follow) -> Result<Compared> {
                         EVOQ_ASSIGN(Compared compared, Compare(job, follow));
                         EVOQ_TRY(CheckNotSlower(compared.result, job.fail_slower));
                         return compared;
                       });
  nb::class_<EvalJob>(m, "EvalJob")
      .def(nb::init<>())
      .def_rw("model", &EvalJob::model)
      .def_rw("data", &EvalJob::data)
      .def_rw("labels", &EvalJob::labels)
      .def_rw("targets", &EvalJob::targets)
      .def_rw("preprocess", &EvalJob::preprocess)
      .def_rw("reference", &EvalJob::reference)
      .def_rw("predictions", &EvalJob::predictions)
      .def_rw("limit", &EvalJob::limit)
      .def_rw("part", &EvalJob::part)
      .def_rw("save_part", &EvalJob::save_part)
      .def_rw("merge", &EvalJob::merge)
      .def_rw("threads", &EvalJob::threads);
  BindTask<EvalJob>(m, "eval", &Evaluate);
  nb::class_<PerplexityJob>(m, "PerplexityJob")
      .def(nb::init<>())
      .def_rw("model", &PerplexityJob::model)
      .def_rw("text", &PerplexityJob::text)
      .def_rw("tokenizer", &PerplexityJob::tokenizer)
      .def_rw("kv_cache", &PerplexityJob::kv_cache)
      .def_rw("tokens", &PerplexityJob::tokens)
      .def_rw("window", &PerplexityJob::window)
      .def_rw("limit", &PerplexityJob::limit)
      .def_rw("threads", &PerplexityJob::threads);
  BindTask<PerplexityJob>(m, "perplexity", &EvaluatePerplexity);
}

void BindGenerate(nb::module_& m) {
  nb::class_<GenerateJob> job(m, "GenerateJob");
  job.def(nb::init<>())
      .def_rw("model", &GenerateJob::model)
      .def_rw("tokenizer", &GenerateJob::tokenizer)
      .def_rw("kv_cache", &GenerateJob::kv_cache)
      .def_rw("draft", &GenerateJob::draft)
      .def_rw("prompt", &GenerateJob::prompts)
      .def_rw("prompt_tokens", &GenerateJob::prompt_tokens)
      .def_rw("system", &GenerateJob::system)
      .def_rw("chat", &GenerateJob::chat)
      .def_rw("plain", &GenerateJob::plain)
      .def_rw("context", &GenerateJob::context)
      .def_rw("parallel", &GenerateJob::parallel)
      .def_rw("audio", &GenerateJob::audio)
      .def_prop_rw(
          "language", [](GenerateJob& j) { return j.speech.language; },
          [](GenerateJob& j, const std::string& name) { j.speech.language = name; })
      .def_prop_rw(
          "task", [](GenerateJob& j) { return j.speech.task; },
          [](GenerateJob& j, const std::string& name) { j.speech.task = name; })
      .def_prop_rw(
          "source_language", [](GenerateJob& j) { return j.languages.source; },
          [](GenerateJob& j, const std::string& name) { j.languages.source = name; })
      .def_prop_rw(
          "target_language", [](GenerateJob& j) { return j.languages.target; },
          [](GenerateJob& j, const std::string& name) { j.languages.target = name; })
      .def_rw("prompt_cache", &GenerateJob::cache)
      .def_rw("threads", &GenerateJob::threads);
  BindGenerateOptions(job, [](GenerateJob& j) -> auto& { return j.options; });
  BindTask<GenerateJob>(m, "generate", [](const GenerateJob& j, const Follow& follow) {
    return Generate(j, nullptr, follow);
  });
}

// "torch_trace" of "--torch-trace".
std::string AttributeOf(const ForeignSource& source) {
  std::string name = std::string(source.option).substr(2);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

void BindExplain(nb::module_& m) {
  nb::class_<ExplainJob>(m, "ExplainJob")
      .def(nb::init<>())
      .def_rw("model", &ExplainJob::model)
      .def_rw("baseline", &ExplainJob::baseline)
      .def_rw("shape", &ExplainJob::shapes)
      .def_rw("input", &ExplainJob::inputs)
      .def_rw("batch", &ExplainJob::batch)
      .def_rw("threads", &ExplainJob::threads)
      .def_rw("duration_s", &ExplainJob::duration_s)
      .def_rw("report", &ExplainJob::report)
      .def_rw("eval", &ExplainJob::eval)
      .def_rw("baseline_eval", &ExplainJob::baseline_eval);
  BindTask<ExplainJob>(m, "explain", &Explain);
  nb::class_<TargetJob>(m, "TargetJob")
      .def(nb::init<>())
      .def_rw("model", &TargetJob::model)
      .def_rw("target", &TargetJob::target)
      .def_rw("fix", &TargetJob::fix)
      .def_rw("output", &TargetJob::output)
      .def_rw("accept_changes", &TargetJob::accept_changes)
      .def_rw("data", &TargetJob::data)
      .def_rw("shape", &TargetJob::shapes)
      .def_rw("preprocess", &TargetJob::preprocess);
  BindTask<TargetJob>(m, "explain_target", &ExplainTarget);
  nb::class_<ForeignJob> foreign(m, "ForeignJob");
  foreign.def(nb::init<>()).def_rw("baseline", &ForeignJob::baseline);
  // An attribute for each runtime: setting it says where its files are.
  for (const ForeignSource* source : AllForeignSources()) {
    foreign.def_prop_rw(
        AttributeOf(*source).c_str(),
        [source](const ForeignJob& job) { return job.source == source ? job.path : ""; },
        [source](ForeignJob& job, const std::string& path) {
          if (job.source != nullptr && job.source != source)
            Raise(Error(ErrorCode::kUsage, fmt::format("{} and {} exclude each other",
                                                       job.source->option, source->option)));
          job.source = source;
          job.path = path;
        });
  }
  // What `explain` calls the files of the runtime whose profile it is, and which file of a folder;
  // None for others.
  m.def("profile_at",
        [](const std::string& path) -> std::optional<std::pair<std::string, std::string>> {
          const auto found = FindForeignFile(path);
          if (!found) Raise(found.error());
          if (found->source == nullptr) return std::nullopt;
          return std::pair(AttributeOf(*found->source), found->path);
        });
  BindTask<ForeignJob>(m, "explain_foreign",
                       [](const ForeignJob& job, const Follow&) { return ExplainForeign(job); });
}

nb::tuple Verb(const std::string& name, std::vector<std::string> arguments,
               const ArraysOfSamples& samples, nb::object progress) {
  ArrayInputs arrays;
  const auto tensors = TensorsOf(samples, arrays);
  const Told told = Run(std::move(progress), [&](const Follow& follow) -> Result<Told> {
    CommonOptions common;
    common.samples = tensors;
    common.follow = follow;
    EVOQ_ASSIGN(VerbOutput done, RunVerb(name, std::move(arguments), std::move(common)));
    return Told{std::move(done.json), std::move(done.out), std::move(done.log)};
  });
  return ToPython(told.json, told.text, told.log);
}

int Main(const std::vector<std::string>& arguments) {
  std::vector<const char*> argv = {"evoq"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  const nb::gil_scoped_release release;
  return RunCommandLine(static_cast<int>(argv.size()), argv.data());
}

}  // namespace

void BindTools(nb::module_& m) {
  BindQuantize(m);
  BindGraphTasks(m);
  BindMeasurements(m);
  BindGenerate(m);
  BindExplain(m);
  m.def("verb", &Verb, "name"_a, "arguments"_a, "samples"_a = ArraysOfSamples(),
        "progress"_a = nb::none(),
        nb::sig("def verb(name: str, arguments: list[str], samples: list[list[typing.Any]] = [], "
                "progress: typing.Any = None) -> tuple[str, str, list[str]]"),
        "Runs a verb of the command line in this process: the JSON of --json, the text, the lines "
        "for stderr. `samples` are\n"
        "calibration samples: the arrays of each, by position.");
  m.def("main", &Main, "arguments"_a, nb::sig("def main(arguments: list[str]) -> int"),
        "The command `evoq`; returns its exit code.");
}

}  // namespace evoq
