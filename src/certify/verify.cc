#include <algorithm>

#include "base/file.h"
#include "base/ms_text.h"
#include "certify/certify.h"
#include "certify/speed.h"
#include "certify/twin.h"
#include "models/models.h"
#include "program/etm.h"

namespace evoq {
namespace {

using State = VerifyLine::State;

// One class for each sample, or for each of its rows.
bool AnswersAll(const std::vector<int64_t>& classes, const Samples& samples) {
  const auto count = static_cast<int64_t>(classes.size());
  return count == samples.size() || count == samples.size() * samples.rows;
}

class Verifier {
 public:
  explicit Verifier(const VerifyJob& job) : job_(job) {}

  Result<Verification> Run(const Samples* samples) {
    EVOQ_ASSIGN(const Model model, ReadEtm(job_.path));
    EVOQ_ASSIGN(out_.certificate, CertificateOf(model, job_.path));
    const Certificate& c = out_.certificate;
    const EngineOptions options{job_.threads > 0 ? job_.threads : c.threads, c.shapes};
    EVOQ_ASSIGN(model_, LoadEngine(job_.path, options));
    EVOQ_ASSIGN(float_, FloatModel(options));
    Samples random;
    if (samples == nullptr && c.random_samples > 0) {
      EVOQ_ASSIGN(random, RandomInputs(model_->model().graph, c.shapes, c.random_samples));
      samples = &random;
    }
    EVOQ_TRY(CheckSpeed(samples));
    EVOQ_TRY(CheckAccuracy(samples));
    EVOQ_TRY(CheckMachine(options.threads));
    return std::move(out_);
  }

 private:
  Result<std::unique_ptr<Engine>> FloatModel(const EngineOptions& options) {
    const Certificate& c = out_.certificate;
    if (job_.baseline.empty()) {
      if (c.float_graph.empty())
        return Fail(
            ErrorCode::kUsage,
            "{}: the float model cannot be rebuilt from the certificate: give --baseline {}",
            job_.path, c.float_file);
      EVOQ_ASSIGN(Graph twin, WithContext(BuildTwin(c.float_graph),
                                          job_.path + ": the certificate's float model"));
      return EngineFromGraph(std::move(twin), options);
    }
    EVOQ_ASSIGN(const FileMark file, MarkOf(job_.baseline));
    if (file.bytes != c.float_file_bytes || file.crc != c.float_file_crc)
      return InvalidInput(
          "{} is not the float model of the certificate: found {} bytes, CRC-32C {:08x}, expected "
          "{} bytes, {:08x} ({})",
          job_.baseline, file.bytes, file.crc, c.float_file_bytes, c.float_file_crc, c.float_file);
    return LoadEngine(job_.baseline, options);
  }

  void Add(const char* name, State state, std::string text) {
    out_.lines.push_back({name, state, std::move(text)});
  }

  // Fails when the measured interval, and the ratio of the fastest runs, lie below the guarantee,
  // twice: a measurement may err, and then the second half of the time is for another.
  Status CheckSpeed(const Samples* samples) {
    const Certificate& c = out_.certificate;
    EVOQ_TRY(model_->Settle(c.shapes));
    EVOQ_TRY(float_->Settle(c.shapes));
    if (samples == nullptr && !(model_->in_regions().empty() && float_->in_regions().empty())) {
      Add("speed", State::kUnchecked,
          "not checked: what runs depends on the data: give the samples with --data");
      return {};
    }
    Samples none;
    if (samples == nullptr || !samples->timed.empty()) {
      EVOQ_ASSIGN(none.timed, TimedRuns(model_->model().graph));
    }
    if (!c.prompt_speed || none.timed.size() < 2)
      return CheckClaim("speed", c.speed, out_.speed, samples == nullptr ? none : *samples, 0);
    EVOQ_TRY(CheckClaim("decode", c.speed, out_.speed, none, 0));
    return CheckClaim("prompt", *c.prompt_speed, out_.prompt_speed.emplace(), none, 1);
  }

  // One claim of speed; `timed`: the number of the samples' run that it is about.
  Status CheckClaim(const char* name, const SpeedClaim& claim, SpeedClaim& speed,
                    const Samples& samples, size_t timed) {
    const Certificate& c = out_.certificate;
    EVOQ_ASSIGN(const std::shared_ptr<Runnable> model, RunnerOf(*model_, samples, timed));
    EVOQ_ASSIGN(const std::shared_ptr<Runnable> reference, RunnerOf(*float_, samples, timed));
    const bool same = SameSteps(reference->program(), model->program());
    const double guaranteed = claim.guaranteed;
    bool holds = false;
    for (int half = 0; half < 2 && !holds; ++half) {
      SpeedOptions options;
      options.duration_s = job_.measure_s / (c.prompt_speed ? 4 : 2);
      options.progress = [&](double fraction) -> Status {
        return job_.progress ? job_.progress((half + fraction) / 2) : Status();
      };
      EVOQ_ASSIGN(speed, job_.measure(*reference, *model, options));
      holds = same ? guaranteed <= 1 : std::max(speed.ratio.high, speed.ratio.rested) >= guaranteed;
      if (same) break;
    }
    const std::string disturbed = ToText(speed.ratio.disturbance);
    const std::string note = disturbed.empty() ? "" : fmt::format(" (disturbed: {})", disturbed);
    if (!same && guaranteed <= 0) {
      Add(name, State::kUnchecked,
          fmt::format("{}{}; nothing is guaranteed: {}", ToText(speed), note, claim.not_promised));
      return {};
    }
    Add(name, holds ? State::kHolds : State::kFails,
        same ? fmt::format("{} ms: it is the float model, {:.3f}x guaranteed",
                           MsText(speed.ratio.b_ms), guaranteed)
             : fmt::format("{}, at least {:.3f}x guaranteed{}", ToText(speed), guaranteed, note));
    return {};
  }

  Status CheckAccuracy(const Samples* samples) {
    const Certificate& c = out_.certificate;
    if (samples == nullptr) {
      Add("accuracy", State::kUnchecked,
          c.accuracy.metric == Metric::kPerplexity ? "not checked: give the text with --text"
                                                   : "not checked: give the samples with --data");
      return {};
    }
    const bool same = samples->Crc() == c.samples_crc;
    Answers reference;
    if (!job_.baseline.empty()) {
      EVOQ_ASSIGN(reference, Answer(*float_, *samples));
    } else if (same && c.accuracy.metric == Metric::kPerplexity &&
               static_cast<int64_t>(c.float_nll.size()) == samples->size()) {
      reference.nll = c.float_nll;
    } else if (c.accuracy.metric == Metric::kSqnr || c.limit.also_sqnr) {
      return Fail(ErrorCode::kUsage,
                  "the promise is about the float model's outputs: give --baseline {}",
                  c.float_file);
    } else if (!same || c.accuracy.metric == Metric::kPerplexity ||
               !AnswersAll(c.float_classes, *samples)) {
      return Fail(ErrorCode::kUsage,
                  "these are not the samples of the certificate ({} of them): give --baseline {} "
                  "to measure the float model on them too",
                  c.accuracy.samples, c.float_file);
    } else {
      reference.classes = c.float_classes;
    }
    EVOQ_ASSIGN(const Answers answers,
                Answer(*model_, *samples,
                       {reference.outputs.empty() ? nullptr : &reference, nullptr, nullptr}));
    EVOQ_ASSIGN(out_.accuracy, CompareAnswers(c.accuracy.metric, reference, answers, *samples));
    Add("accuracy",
        out_.accuracy->Keeps(c.limit, /*certain=*/!same) ? State::kHolds : State::kFails,
        fmt::format("{}{}, guaranteed: {}", ToText(*out_.accuracy),
                    same ? "" : " (other samples than the certificate's)",
                    ToText(c.limit, c.accuracy.metric)));
    return {};
  }

  // Says what differs; what that means for speed was measured.
  Status CheckMachine(int threads) {
    const Certificate& c = out_.certificate;
    EVOQ_ASSIGN(const Isa isa, SelectIsa());
    const std::string here = MachineName(isa);
    std::string text = fmt::format("{}, {} thread{}", here, threads, threads == 1 ? "" : "s");
    const bool same = here == c.machine && threads == c.threads;
    if (!same)
      text += fmt::format("; the certificate was made on {}, {} threads", c.machine, c.threads);
    Add("machine", same ? State::kHolds : State::kUnchecked, std::move(text));
    return {};
  }

  const VerifyJob& job_;
  std::unique_ptr<Engine> model_, float_;
  Verification out_;
};

}  // namespace

bool Verification::holds() const {
  return std::none_of(lines.begin(), lines.end(),
                      [](const VerifyLine& line) { return line.state == State::kFails; });
}

Result<Verification> Verify(const VerifyJob& job, const Samples* samples) {
  return Verifier(job).Run(samples);
}

}  // namespace evoq
