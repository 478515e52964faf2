#include "workflow/follow.h"

namespace evoq {

Status Follow::At(const std::string& stage, double fraction) const {
  if (progress) progress(stage, fraction);
  if (cancelled && cancelled())
    return Fail(ErrorCode::kConditionFailed, "cancelled while {}", stage);
  return {};
}

OnProgress Follow::Stage(std::string stage) const {
  return [this, stage = std::move(stage)](double fraction) { return At(stage, fraction); };
}

OnStage Follow::Stages() const {
  return [this](const std::string& stage, double fraction) { return At(stage, fraction); };
}

}  // namespace evoq
