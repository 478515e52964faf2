#include "certify/certify.h"
#include "cli/common.h"
#include "cli/verb.h"
#include "program/etm.h"
#include "workflow/perplexity.h"

namespace evoq {
namespace {

using nlohmann::json;

struct Options {
  VerifyJob job;
  std::vector<std::string> data;
  std::string labels, preprocess, text, tokenizer;
};

const char* StateName(VerifyLine::State state) {
  switch (state) {
    case VerifyLine::State::kHolds: return "holds";
    case VerifyLine::State::kFails: return "FAILS";
    case VerifyLine::State::kUnchecked: return "note";
  }
  return "";
}

json ToJson(const Verification& v) {
  json lines = json::array();
  for (const VerifyLine& line : v.lines)
    lines.push_back({{"line", line.name}, {"state", StateName(line.state)}, {"text", line.text}});
  json out = {
      {"holds", v.holds()}, {"lines", lines}, {"guaranteed", v.certificate.speed.guaranteed}};
  if (v.speed.ratio.rounds > 0) {  // it was measured
    const Comparison& r = v.speed.ratio;
    out.update({{"float_p50_ms", r.a_ms},
                {"p50_ms", r.b_ms},
                {"rounds", r.rounds},
                {"disturbance", ToJson(r.disturbance)},
                {"ratio", ToJson(Interval{r.speedup, r.low, r.high})}});
  }
  if (v.prompt_speed) {
    const Comparison& r = v.prompt_speed->ratio;
    out["prompt"] = {{"float_p50_ms", r.a_ms},
                     {"p50_ms", r.b_ms},
                     {"rounds", r.rounds},
                     {"disturbance", ToJson(r.disturbance)},
                     {"ratio", ToJson(Interval{r.speedup, r.low, r.high})}};
  }
  if (v.accuracy) out["drop"] = ToJson(v.accuracy->drop);
  if (v.accuracy) out["sqnr_db"] = ToJson(v.accuracy->sqnr_db);
  if (v.accuracy) out["outputs"] = ToJson(v.accuracy->outputs);
  return out;
}

// Read as the certificate says that its own were.
Result<Samples> SamplesAsCertified(const Options& o) {
  EVOQ_ASSIGN(const Model model, ReadEtm(o.job.path));
  EVOQ_ASSIGN(const Certificate certificate, CertificateOf(model, o.job.path));
  if (!o.text.empty()) {
    if (certificate.window < 1)
      return Fail(ErrorCode::kUsage, "--text: the certificate is of no language model");
    EVOQ_ASSIGN(const TextTokens text, TokensOfText(model.graph, o.job.path, o.text, o.tokenizer));
    return TextWindows(model.graph, text.tokens, certificate.window, certificate.data_limit);
  }
  DatasetOptions options;
  if (!o.preprocess.empty()) {
    EVOQ_ASSIGN(options.preprocess, LoadPreprocess(o.preprocess));
  } else if (!certificate.preprocess.empty()) {
    EVOQ_ASSIGN(options.preprocess, WithContext(ParsePreprocess(certificate.preprocess),
                                                o.job.path + ": the certificate's preprocessing"));
  }
  options.labels = o.labels;
  EVOQ_ASSIGN(const auto data, OpenInputs(o.data, InputsOf(model.graph), options));
  if (const std::string warning = data->warning(); !warning.empty()) Log("warning: {}", warning);
  return LoadSamples(*data, certificate.data_limit);
}

Result<json> Run(Options o, const CommonOptions& common) {
  o.job.threads = common.threads;
  o.job.progress = common.follow.Stage("verifying");
  Samples samples;
  const bool given = !o.data.empty() || !o.text.empty();
  if (given) {
    EVOQ_ASSIGN(samples, SamplesAsCertified(o));
  }
  EVOQ_ASSIGN(const Verification v, Verify(o.job, given ? &samples : nullptr));
  Out("{}: certificate of --scheme {}\n", o.job.path, v.certificate.scheme);
  for (const VerifyLine& line : v.lines)
    Out("  {:5}  {:8}  {}\n", StateName(line.state), line.name, line.text);
  json out = ToJson(v);
  out["model"] = o.job.path;
  if (v.holds()) return out;
  EVOQ_TRY(WriteJson(common.json_path, out));
  std::vector<std::string> failed;
  for (const VerifyLine& line : v.lines) {
    if (line.state == VerifyLine::State::kFails) failed.push_back(line.name);
  }
  return Fail(ErrorCode::kConditionFailed, "{}: the certificate does not hold: {}", o.job.path,
              fmt::join(failed, ", "));
}

VerbRun Declare(const VerbOptions& options, const CommonOptions& common) {
  auto o = std::make_shared<Options>();
  options.Add("model", o->job.path, "MODEL.etm with a certificate").Required();
  const VerbOption data =
      AddDataOption(options, "--data", o->data, "The samples that it was measured on");
  const VerbOption text =
      options.Add("--text", o->text, "Of a language model: the text that it was measured on")
          .Excludes(data);
  options
      .Add("--tokenizer", o->tokenizer,
           "Of --text: a tokenizer's file or folder (default: the one that the model carries)")
      .Needs(text);
  options.Add("--labels", o->labels,
              "A .tsv with the columns file and class_index, an idx label file or a .npy; "
              "`folders`: the folders of --data, sorted by name, are the classes");
  options.Add("--preprocess", o->preprocess,
              "How images become inputs (default: as the certificate's did)");
  options.Add(
      "--baseline", o->job.baseline,
      "The float model's .onnx; needed for other samples than the certificate's, and for those "
      "too where signal to noise is promised (--min-sqnr)");
  options
      .Add("--measure-s", o->job.measure_s,
           "Time to measure speed, waiting for a quiet machine included")
      .Positive()
      .ShowDefault();
  return [o, &common] { return Run(*o, common); };
}

}  // namespace

extern const VerbDef kVerbVerify = {
    .name = "verify",
    .doc =
        "Measures again what a model's certificate guarantees; exit code 1 when it does not hold.",
    .example = "evoq verify mobilenetv2.etm --data images/ --labels labels.tsv",
    .declare = Declare,
};

}  // namespace evoq
