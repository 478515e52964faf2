// Promises about a small net whose measured speed is planted.
#pragma once

#include <algorithm>

#include "certify/certify.h"
#include "certify/test_job.h"
#include "program/etm.h"

namespace evoq {

inline Comparison Measured(double speedup, double low, double high, double rested) {
  Comparison c;
  c.speedup = speedup, c.low = low, c.high = high, c.rested = rested;
  c.a_ms = 10 * speedup, c.b_ms = 10;
  c.rounds = 20;
  return c;
}
inline Comparison Sure(double speedup) { return Measured(speedup, speedup, speedup, speedup); }

class PromiseTest : public ConvNetTest {
 protected:
  PromiseTest() : ConvNetTest(16) {}

  // Measuring speed gives these, one after the other, the last one again and again.
  MeasureSpeedFn Planted(std::vector<Comparison> outcomes) {
    measured_ = 0;
    return [this, outcomes](const Runnable&, const Runnable&,
                            const SpeedOptions& options) -> Result<SpeedClaim> {
      asked_s_ = options.duration_s;
      return ClaimOf(outcomes[std::min(measured_++, outcomes.size() - 1)]);
    };
  }
  CertifyJob Job(const std::string& scheme, const Promise& promise, const Comparison& outcome) {
    CertifyJob job;
    job.onnx_path = At("net.onnx");
    job.scheme = scheme;
    job.promise = promise;
    job.search_s = 20;
    job.measure = Planted({outcome});
    job.choose = Search();
    PlantSpeeds(job.choose);
    return job;
  }

  // A file whose certificate went through `change`.
  std::string File(const std::function<void(Certificate&)>& change) {
    auto certified = QuantizeCertified(Job("int8", {.max_drop = 100}, Sure(3)), samples_);
    EXPECT_TRUE(certified) << certified.error().message();
    change(certified->certificate);
    certified->model.certificate = ToJson(certified->certificate).dump();
    EXPECT_TRUE(WriteEtm(certified->model, At("net.etm")));
    return At("net.etm");
  }
  // The state of a line after verifying with these outcomes.
  VerifyLine Line(const std::string& path, size_t line, std::vector<Comparison> outcomes) {
    VerifyJob job{path, At("net.onnx")};
    job.measure_s = 6;
    job.measure = Planted(std::move(outcomes));
    const auto verified = Verify(job, &samples_);
    EXPECT_TRUE(verified) << verified.error().message();
    return verified ? verified->lines[line] : VerifyLine();
  }
  VerifyLine::State Speed(double guaranteed, std::vector<Comparison> outcomes) {
    return Line(File([&](Certificate& c) { c.speed.guaranteed = guaranteed; }), 0,
                std::move(outcomes))
        .state;
  }

  size_t measured_ = 0;
  double asked_s_ = 0;
};

}  // namespace evoq
