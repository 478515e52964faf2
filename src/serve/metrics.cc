#include "serve/metrics.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <cmath>

namespace evoq::serve {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

class Page {
 public:
  explicit Page(const Repository& repository) {
    for (const auto& model : repository.All())
      models_.push_back({model, model->statistics().Read(), model->gears()});
  }

  template <typename F>  // double(const StatisticsRead&)
  void PerModel(const char* name, const char* help, F value) {
    MetricFamily family{name, help, MetricType::Counter, {}};
    for (const Model& m : models_) {
      ClientMetric metric{LabelsOf(m)};
      metric.counter.value = value(m.read);
      family.metric.push_back(std::move(metric));
    }
    families_.push_back(std::move(family));
  }
  void Failures() {
    MetricFamily family{
        "nv_inference_request_failure", "Requests that failed, by reason", MetricType::Counter, {}};
    for (const Model& m : models_) {
      for (const auto& [reason, count] : m.read.failures) {
        ClientMetric metric{LabelsOf(m)};
        metric.label.push_back({"reason", reason});
        metric.counter.value = static_cast<double>(count);
        family.metric.push_back(std::move(metric));
      }
    }
    families_.push_back(std::move(family));
  }
  // How the float model of a shadow did beside the model: only of those that ran some requests.
  template <typename F>  // double(const ShadowRead&)
  void Shadow(const char* name, const char* help, F value) {
    MetricFamily family{name, help, MetricType::Gauge, {}};
    for (const Model& m : models_) {
      if (m.model->settings().shadow.empty()) continue;
      const double its = value(m.read.shadow);
      if (!std::isfinite(its)) continue;
      ClientMetric metric{LabelsOf(m)};
      metric.gauge.value = its;
      family.metric.push_back(std::move(metric));
    }
    families_.push_back(std::move(family));
  }
  // What served runs of the sizes that came: of models of tensors.
  template <typename F>  // double(const GearReport&)
  void Gears(const char* name, const char* help, MetricType type, F value) {
    MetricFamily family{name, help, type, {}};
    for (const Model& m : models_) {
      if (!m.gears) continue;
      ClientMetric metric{LabelsOf(m)};
      (type == MetricType::Gauge ? metric.gauge.value : metric.counter.value) = value(*m.gears);
      family.metric.push_back(std::move(metric));
    }
    families_.push_back(std::move(family));
  }
  // Of language models.
  template <typename F>  // uint64_t(const TokensRead&)
  void Tokens(const char* name, const char* help, F value) {
    MetricFamily family{name, help, MetricType::Counter, {}};
    for (const Model& m : models_) {
      if (m.model->text() == nullptr) continue;
      ClientMetric metric{LabelsOf(m)};
      metric.counter.value = static_cast<double>(value(m.read.tokens));
      family.metric.push_back(std::move(metric));
    }
    families_.push_back(std::move(family));
  }
  void Pending() {
    MetricFamily family{
        "nv_inference_pending_request_count", "Requests that wait", MetricType::Gauge, {}};
    for (const Model& m : models_) {
      ClientMetric metric{LabelsOf(m)};
      metric.gauge.value = static_cast<double>(m.model->queued());
      family.metric.push_back(std::move(metric));
    }
    families_.push_back(std::move(family));
  }
  void Latency() {
    MetricFamily family{
        "evoq_request_seconds", "Times of requests that succeeded", MetricType::Histogram, {}};
    for (const Model& m : models_) {
      ClientMetric metric{LabelsOf(m)};
      auto& histogram = metric.histogram;
      uint64_t count = 0;
      for (size_t i = 0; i < kLatencyBounds.size(); ++i) {
        count += m.read.latency[i];
        histogram.bucket.push_back({count, kLatencyBounds[i]});
      }
      histogram.sample_count = count + m.read.latency.back();
      histogram.sample_sum = static_cast<double>(m.read.success.ns) * 1e-9;
      family.metric.push_back(std::move(metric));
    }
    families_.push_back(std::move(family));
  }
  void Gauge(const char* name, const char* help, double value) {
    MetricFamily family{name, help, MetricType::Gauge, {}};
    ClientMetric metric;
    metric.gauge.value = value;
    family.metric.push_back(std::move(metric));
    families_.push_back(std::move(family));
  }
  std::string Text() const { return prometheus::TextSerializer().Serialize(families_); }

 private:
  struct Model {
    std::shared_ptr<ServedModel> model;
    StatisticsRead read;
    std::optional<GearReport> gears;
  };
  static std::vector<ClientMetric::Label> LabelsOf(const Model& m) {
    return {{"model", m.model->name()}, {"version", std::to_string(m.model->version())}};
  }
  std::vector<Model> models_;
  std::vector<MetricFamily> families_;
};

double Us(uint64_t ns) { return static_cast<double>(ns) * 1e-3; }

}  // namespace

std::string MetricsPage(const Repository& repository, const ServerCounts* counts) {
  using Read = StatisticsRead;
  Page page(repository);
  page.PerModel("nv_inference_request_success", "Requests that succeeded",
                [](const Read& r) { return static_cast<double>(r.success.count); });
  page.Failures();
  page.PerModel("nv_inference_count", "Samples that were computed, of requests that succeeded",
                [](const Read& r) { return static_cast<double>(r.samples); });
  page.PerModel("nv_inference_exec_count", "Runs of the model",
                [](const Read& r) { return static_cast<double>(r.executions); });
  page.PerModel("nv_inference_request_duration_us", "Time of requests that succeeded",
                [](const Read& r) { return Us(r.success.ns); });
  page.PerModel("nv_inference_queue_duration_us", "Of it, waiting",
                [](const Read& r) { return Us(r.queue.ns); });
  page.PerModel("nv_inference_compute_input_duration_us", "Of it, joining samples",
                [](const Read& r) { return Us(r.input.ns); });
  page.PerModel("nv_inference_compute_infer_duration_us", "Of it, runs of the model",
                [](const Read& r) { return Us(r.infer.ns); });
  page.PerModel("nv_inference_compute_output_duration_us", "Of it, taking batches apart",
                [](const Read& r) { return Us(r.output.ns); });
  page.Shadow("payoff_speedup", "Time of the float model over that of this one",
              [](const ShadowRead& s) { return s.other_ns / s.own_ns; });
  page.Shadow("payoff_agreement", "Share of rows of outputs that agree with the float model's",
              [](const ShadowRead& s) {
                return static_cast<double>(s.agreed) / static_cast<double>(s.rows);
              });
  page.Shadow("payoff_requests", "Requests that the float model ran too",
              [](const ShadowRead& s) { return static_cast<double>(s.requests); });
  page.Shadow("payoff_skipped", "Requests that it had no room for, or failed",
              [](const ShadowRead& s) { return static_cast<double>(s.skipped); });
  const auto of_gears = [&](const char* name, const char* help, MetricType type, auto field) {
    page.Gears(name, help, type,
               [field](const GearReport& r) { return static_cast<double>(field(r)); });
  };
  of_gears("evoq_gears", "Sizes that the file declares", MetricType::Gauge,
           [](const GearReport& r) { return r.gears; });
  of_gears("evoq_gears_ready", "Of them, prepared", MetricType::Gauge,
           [](const GearReport& r) { return r.ready; });
  of_gears("evoq_gear_hits", "Runs of sizes that were prepared", MetricType::Counter,
           [](const GearReport& r) { return r.hits(); });
  of_gears("evoq_gear_padded", "Runs that a larger gear served", MetricType::Counter,
           [](const GearReport& r) { return r.padded; });
  of_gears("evoq_gear_misses", "Runs that waited until their sizes were prepared",
           MetricType::Counter, [](const GearReport& r) { return r.misses; });
  of_gears("evoq_gear_miss_us", "What those waited", MetricType::Counter,
           [](const GearReport& r) { return 1e3 * r.miss_ms; });
  page.Tokens("evoq_prompt_tokens", "Tokens of prompts",
              [](const TokensRead& t) { return t.prompt; });
  page.Tokens("evoq_prompt_tokens_cached", "Of them, those that were not run again",
              [](const TokensRead& t) { return t.cached; });
  page.Tokens("evoq_text_tokens", "Tokens that were written",
              [](const TokensRead& t) { return t.text; });
  page.Pending();
  page.Latency();
  if (counts != nullptr) {
    page.Gauge("evoq_connections", "Connections that are open",
               static_cast<double>(counts->connections));
    page.Gauge("evoq_connections_refused", "Connections beyond the most that are served",
               static_cast<double>(counts->refused));
    page.Gauge("evoq_requests_under_way", "Requests that are not answered yet",
               static_cast<double>(counts->requests));
    page.Gauge("evoq_body_bytes", "Bytes of requests that are there now",
               static_cast<double>(counts->body_bytes));
  }
  return page.Text();
}

}  // namespace evoq::serve
