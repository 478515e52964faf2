#include <cmath>
#include <numbers>

#include "train/schedule.h"

namespace evoq {
namespace {

double Constant(double) { return 1; }
double Linear(double done) { return 1 - done; }
// Loshchilov and Hutter, "SGDR" (2017), without restarts.
double Cosine(double done) { return 0.5 * (1 + std::cos(std::numbers::pi * done)); }
// As the residual networks of He et al. (2015) were trained.
double Step(double done) { return done < 0.5 ? 1 : done < 0.75 ? 0.1 : 0.01; }

}  // namespace

extern const ScheduleDef kScheduleConstant, kScheduleCosine, kScheduleLinear, kScheduleStep;
const ScheduleDef kScheduleConstant = {
    .name = "constant", .doc = "The same rate throughout.", .factor = Constant};
const ScheduleDef kScheduleCosine = {
    .name = "cosine", .doc = "Half a cosine from the rate to 0.", .factor = Cosine};
const ScheduleDef kScheduleLinear = {
    .name = "linear", .doc = "A line from the rate to 0.", .factor = Linear};
const ScheduleDef kScheduleStep = {
    .name = "step",
    .doc = "A tenth after half of the steps, again after three quarters.",
    .factor = Step};

}  // namespace evoq
