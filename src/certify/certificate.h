// What is guaranteed of a model against the float model that it was made from: docs/certificate.md.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "certify/accuracy.h"
#include "profile/compare.h"

namespace evoq {

struct SpeedClaim {
  Comparison ratio;       // float time over this model's, both times, and how disturbed they were
  double guaranteed = 1;  // what another measurement finds at least; 0: nothing is promised
  std::string not_promised;  // why nothing is
};
// What another measurement of the same length finds at least: the errors of both measurements,
// sqrt(2) times the lower part of the interval (which is wider where the machine was disturbed),
// below the ratio, and no more than `rested`; then `kMeasurementDrift` for what differs between two
// processes.
inline constexpr double kMeasurementDrift = 0.02;
double GuaranteedRatio(const Comparison& ratio);
// Why a measurement allows no promise: the machine was too busy, or there were too few rounds; ""
// where it allows one.
std::string WhyNotPromised(const Comparison& ratio);
// With GuaranteedRatio where the measurement allows it.
SpeedClaim ClaimOf(const Comparison& ratio);

struct Certificate {
  std::string scheme;   // "auto" or a scheme
  std::string machine;  // as MachineName gives it
  int threads = 1;
  InputShapes shapes;
  bool never_slower = false;
  bool is_float = false;                   // nothing paid: this is the float model
  SpeedClaim speed;                        // of a language model in decode
  std::optional<SpeedClaim> prompt_speed;  // of a language model's prompt

  AccuracyLimit limit;
  Accuracy accuracy;
  uint32_t samples_crc = 0;
  int64_t random_samples = 0;          // made by RandomInputs, 0: read
  int64_t data_limit = 0;              // of LoadSamples
  std::string preprocess;              // the text of NAME.preprocess.json; "": none was used
  int64_t window = 0;                  // tokens of a window of a text; 0: of no language model
  std::vector<int64_t> float_classes;  // the float model's answers; of kTop1 and kAgreement
  std::vector<double> float_nll;       // those of kPerplexity

  std::map<std::string, int> layers;  // how many, by scheme
  std::string float_file;             // name, size and CRC-32C of the .onnx
  int64_t float_file_bytes = 0;
  uint32_t float_file_crc = 0;
  std::string float_graph;  // the float model without its weights (certify/twin.h); "": the file is
                            // needed for a re-check
};

nlohmann::json ToJson(const Certificate& certificate);
// Errors: kInvalidInput naming the field.
Result<Certificate> ParseCertificate(std::string_view text);
// Of the model read from `path`. Errors: kInvalidInput also where it carries none.
Result<Certificate> CertificateOf(const Model& model, const std::string& path);
nlohmann::json ToJson(const Interval& interval);
nlohmann::json ToJson(const std::vector<OutputAccuracy>& outputs);

// What it says, a line each: speed, accuracy, conditions.
std::string ToText(const Certificate& certificate);
std::string ToText(const Accuracy& accuracy);
std::string ToText(const AccuracyLimit& limit, Metric metric);  // "at most 0.5 points lost"
std::string ToText(const SpeedClaim& speed);

}  // namespace evoq
