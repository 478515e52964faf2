#include "train/checkpoint.h"

#include <algorithm>

#include "base/json_file.h"
#include "data/dataset.h"
#include "data/npz.h"

namespace evoq {
namespace {

constexpr int kVersion = 1;

// The kinds of arrays: how their names begin, the constants that they are of, and where these lie.
struct Kept {
  std::string prefix;
  const std::vector<TrainedConstant>* constants;
  std::span<float> memory;
};

std::vector<Kept> AllKept(Learner& learner, int slots) {
  const TrainingPlan& plan = learner.plan();
  std::vector<Kept> kept = {{"weights/", &plan.parameters, learner.parameters()},
                            {"averages/", &plan.averages, learner.averages()}};
  if (learner.averages_parameters()) kept.push_back({"ema/", &plan.parameters, learner.ema()});
  if (learner.keeps_observed()) kept.push_back({"observed/", &plan.parameters, learner.observed()});
  for (int i = 0; i < slots; ++i)
    kept.push_back({fmt::format("slot{}/", i), &plan.parameters, learner.slot(i)});
  return kept;
}

nlohmann::json ToJson(const TrainingState& state) {
  return {{"version", kVersion},
          {"recipe", state.recipe},
          {"model", state.model},
          {"samples", state.samples},
          {"epoch", state.epoch}};
}

// The state of a checkpoint that goes on with `wanted`.
Result<int64_t> EpochOf(const Tensor& bytes, const TrainingState& wanted) {
  const auto* const text = reinterpret_cast<const char*>(bytes.raw());
  EVOQ_ASSIGN(const nlohmann::json state, ParseJson({text, bytes.bytes()}));
  nlohmann::json expected = ToJson(wanted);
  expected.erase("epoch");
  expected.erase("recipe");
  if (std::string off = DifferenceOf(expected, state); !off.empty()) return InvalidInput("{}", off);
  if (!state.contains("recipe") || !state["recipe"].is_object())
    return InvalidInput("recipe is missing");
  nlohmann::json recipe =
      AddedLater();  // a checkpoint from before they were there has the defaults
  recipe.update(state["recipe"]);
  if (std::string off = DifferenceOf(wanted.recipe, recipe); !off.empty())
    return InvalidInput("{}; a run goes on with the options that it began with", off);
  const double epoch = JsonNumber(state, "epoch", -1);
  if (!(epoch >= 0 && epoch <= JsonNumber(state["recipe"], "epochs")))
    return InvalidInput("epoch is {}", epoch);
  return static_cast<int64_t>(epoch);
}

}  // namespace

Status WriteCheckpoint(Learner& learner, const TrainingState& state, int slots,
                       const std::string& path) {
  std::vector<std::pair<std::string, Tensor>> arrays;
  for (const Kept& kept : AllKept(learner, slots)) {
    for (const TrainedConstant& c : *kept.constants) {
      Tensor tensor = Tensor::Allocate(TensorType(DType::kFloat32, c.shape));
      std::copy_n(kept.memory.data() + c.offset, c.elements, tensor.mutable_data<float>());
      arrays.emplace_back(kept.prefix + c.name, std::move(tensor));
    }
  }
  const std::string text = ToJson(state).dump();
  arrays.emplace_back("state", Tensor::FromValues(std::vector<uint8_t>(text.begin(), text.end())));
  return WriteNpz(arrays, path);
}

Result<int64_t> ReadCheckpoint(Learner& learner, const TrainingState& wanted, int slots,
                               const std::string& path) {
  EVOQ_ASSIGN(const auto arrays, ReadNpz(path));
  const auto state = arrays.find("state");
  if (state == arrays.end() || state->second.dtype() != DType::kUint8)
    return InvalidInput("{}: no array named state, expected a checkpoint of evoq train", path);
  EVOQ_ASSIGN(const int64_t epoch, WithContext(EpochOf(state->second, wanted), path + ": state"));
  const std::vector<Kept> all = AllKept(learner, slots);
  for (const Kept& kept : all) {
    for (const TrainedConstant& c : *kept.constants) {
      const auto found = arrays.find(kept.prefix + c.name);
      const TensorType type(DType::kFloat32, c.shape);
      if (found == arrays.end())
        return InvalidInput("{}: no array named {}{}", path, kept.prefix, c.name);
      if (!(found->second.type() == type))
        return InvalidInput("{}: {} is {}, expected {}", path, found->first,
                            found->second.type().ToString(), type.ToString());
    }
  }
  for (const Kept& kept : all) {  // nothing fails any more
    for (const TrainedConstant& c : *kept.constants)
      std::copy_n(arrays.at(kept.prefix + c.name).data<float>(), c.elements,
                  kept.memory.data() + c.offset);
  }
  return epoch;
}

}  // namespace evoq
