// Quantizes with promises, and checks them again.
#pragma once

#include "base/on_progress.h"
#include "certify/certificate.h"
#include "certify/choose.h"
#include "certify/speed.h"
#include "quant/method.h"

namespace evoq {

// What the user asks for.
struct Promise {
  std::optional<double> max_drop;  // points of top-1 or of agreement
  std::optional<double> min_sqnr_db;
  std::optional<double> max_growth;  // percent of a text's perplexity
  bool never_slower = false;         // of a language model neither in decode nor in a prompt
};

struct CertifyJob {
  std::string onnx_path;   // the float model's file
  std::string preprocess;  // how images became the samples, as text, and at most how many were
                           // read: for verify
  int64_t data_limit = 0;
  std::string scheme = "auto";  // or the name of a scheme
  MethodChoice methods;         // of a named scheme, and what they observe
  MethodData data;
  Promise promise;
  double search_s = 60;  // of the search
  double measure_s = 6;  // of the last measurement of speed, waiting for a quiet machine included
  ChooseJob choose;      // graph, ranges, options, threads, progress; its limit and seconds are set
                         // from the promise and search_s
  MeasureSpeedFn measure = MeasureSpeed;
};

struct Certified {
  Model model;  // carries the certificate
  Certificate certificate;
  QuantizeReport report;
  ChosenPlan chosen;      // of "auto"
  std::string why_float;  // of "auto": why the float model was kept; "": it was not
  // Where the time went: search_s and measure_s bound the search and the speed.
  struct {
    double reference_s = 0, search_s = 0, accuracy_s = 0, speed_s = 0;
  } spent;
};

// What a model file is told by: its bytes, or those of a folder's settings and weights.
struct FileMark {
  int64_t bytes = 0;
  uint32_t crc = 0;
};
Result<FileMark> MarkOf(const std::string& path);

// "auto": chooses precisions, and keeps the float model where nothing keeps the promise or pays. A
// scheme: kConditionFailed when it breaks the promise, with what was measured; so is "auto" that
// shall never be slower where the machine was too busy to tell. Errors: also those of
// ChoosePrecisions; kUsage for a promise that the model's outputs do not allow.
Result<Certified> QuantizeCertified(CertifyJob job, const Samples& samples);

struct VerifyJob {
  std::string path;      // .etm
  std::string baseline;  // the float model's .onnx; "": its twin and its answers are taken from the
                         // certificate
  int threads = 0;       // 0: the certificate's
  double measure_s = 6;  // in all
  OnProgress progress;
  MeasureSpeedFn measure = MeasureSpeed;
};

// One line of the certificate, measured again.
struct VerifyLine {
  std::string name;  // "speed", "accuracy", "machine"
  enum class State { kHolds, kFails, kUnchecked } state = State::kHolds;
  std::string text;
};

struct Verification {
  Certificate certificate;
  std::vector<VerifyLine> lines;
  SpeedClaim speed;
  std::optional<SpeedClaim> prompt_speed;  // of a language model
  std::optional<Accuracy> accuracy;

  bool holds() const;
};

// `samples` may be null: accuracy is then checked only where the certificate's samples were random.
// On other samples than the certificate's the accuracy fails when its interval excludes the limit.
// Errors: kInvalidInput for a file without a certificate or another baseline than the
// certificate's; kUsage where a baseline is needed.
Result<Verification> Verify(const VerifyJob& job, const Samples* samples);

}  // namespace evoq
