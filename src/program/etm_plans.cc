#include "program/etm_tables.h"

namespace evoq {
namespace {

std::string Text(const flatbuffers::String* s) { return EtmText(s); }

template <typename T>
uint32_t Count(const flatbuffers::Vector<T>* v) {
  return EtmCount(v);
}

std::vector<Decision::Rejected> ReadRejected(
    const flatbuffers::Vector<flatbuffers::Offset<fb::Rejected>>* from) {
  std::vector<Decision::Rejected> rejected;
  for (uint32_t r = 0; r < Count(from); ++r)
    rejected.push_back(
        {Text(from->Get(r)->kernel()), {Text(from->Get(r)->code()), Text(from->Get(r)->why())}});
  return rejected;
}

Tuning ReadTuning(const fb::Tuning& from) {
  Tuning tuning{Text(from.machine()), from.threads(), {}};
  for (uint32_t i = 0; i < Count(from.steps()); ++i) {
    const auto* s = from.steps()->Get(i);
    tuning.steps[Text(s->node())] = {Text(s->variant()), s->threads() == 1 ? 1 : 0,
                                     ReadRejected(s->slower())};
  }
  return tuning;
}

}  // namespace

std::vector<Plan> ReadPlans(const fb::Plans& from) {
  std::vector<Plan> plans;
  for (uint32_t p = 0; p < Count(from.plans()); ++p) {
    const fb::Plan& source = *from.plans()->Get(p);
    Plan plan;
    for (uint32_t i = 0; i < Count(source.shapes()); ++i) {
      const auto* shape = source.shapes()->Get(i);
      auto& sizes = plan.shapes[Text(shape->name())];
      if (shape->sizes()) sizes.assign(shape->sizes()->begin(), shape->sizes()->end());
    }
    for (uint32_t i = 0; i < Count(source.decisions()); ++i) {
      const auto* d = source.decisions()->Get(i);
      Decision& decision = plan.decisions[Text(d->node())];
      decision.kernel = Text(d->kernel());
      // A name that this version does not know is told and counted as none.
      decision.precision = ParsePrecision(Text(d->precision())).value_or(Precision::kAny);
      decision.float_reason = {Text(d->float_code()), Text(d->float_why())};
      decision.rejected = ReadRejected(d->rejected());
    }
    for (uint32_t i = 0; i < Count(source.tunings()); ++i)
      plan.tunings.push_back(ReadTuning(*source.tunings()->Get(i)));
    plans.push_back(std::move(plan));
  }
  return plans;
}

}  // namespace evoq
