#include "serve/model_json.h"

#include "base/file.h"
#include "serve/datatype.h"

namespace evoq::serve {
namespace {

using nlohmann::json;

std::vector<int64_t> SizesOf(const Port& port) {
  std::vector<int64_t> sizes;
  for (const Dim& dim : port.type.shape.dims()) sizes.push_back(dim.value);
  return sizes;
}

json PortsOf(const std::vector<Port>& ports) {
  json all = json::array();
  for (const Port& port : ports)
    all.push_back(
        {{"name", port.name}, {"datatype", DatatypeOf(port.type.dtype)}, {"shape", SizesOf(port)}});
  return all;
}

json ConfigPortsOf(const std::vector<Port>& ports, bool batches) {
  json all = json::array();
  for (const Port& port : ports) {
    std::vector<int64_t> sizes = SizesOf(port);
    if (batches && !sizes.empty()) sizes.erase(sizes.begin());
    const std::string name = DatatypeOf(port.type.dtype);
    all.push_back({{"name", port.name}, {"data_type", "TYPE_" + name}, {"dims", sizes}});
  }
  return all;
}

json ToJson(const Duration& d) { return {{"count", d.count}, {"ns", d.ns}}; }

}  // namespace

json MetadataOf(const ServedModel& model, const Repository& repository) {
  json versions = json::array();
  for (const auto& other : repository.All()) {
    if (other->name() == model.name()) versions.push_back(std::to_string(other->version()));
  }
  return {{"name", model.name()},
          {"versions", std::move(versions)},
          {"platform", "evoq" + LowerExtension(model.path())},
          {"inputs", PortsOf(model.inputs())},
          {"outputs", PortsOf(model.outputs())}};
}

json ConfigOf(const ServedModel& model) {
  ModelSettings settings = model.settings();
  const bool batches = model.max_batch() > 1;
  settings.max_batch = batches ? model.max_batch() : 0;
  json config = ToJson(settings);
  config["name"] = model.name();
  config["platform"] = "evoq" + LowerExtension(model.path());
  config["backend"] = "evoq";
  config["input"] = ConfigPortsOf(model.inputs(), batches);
  config["output"] = ConfigPortsOf(model.outputs(), batches);
  return config;
}

json StatisticsOf(const ServedModel& model) {
  const StatisticsRead read = model.statistics().Read();
  json batches = json::array();
  for (const auto& [size, batch] : read.batches)
    batches.push_back({{"batch_size", size},
                       {"compute_input", ToJson(batch.input)},
                       {"compute_infer", ToJson(batch.infer)},
                       {"compute_output", ToJson(batch.output)}});
  return {{"name", model.name()},
          {"version", std::to_string(model.version())},
          {"last_inference", read.last_inference_ms},
          {"inference_count", read.samples},
          {"execution_count", read.executions},
          {"inference_stats",
           {{"success", ToJson(read.success)},
            {"fail", ToJson(read.failure)},
            {"queue", ToJson(read.queue)},
            {"compute_input", ToJson(read.input)},
            {"compute_infer", ToJson(read.infer)},
            {"compute_output", ToJson(read.output)},
            {"cache_hit", {{"count", 0}, {"ns", 0}}},
            {"cache_miss", {{"count", 0}, {"ns", 0}}}}},
          {"batch_stats", std::move(batches)}};
}

}  // namespace evoq::serve
