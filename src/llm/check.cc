#include <algorithm>
#include <cmath>

#include "llm/language_model.h"

namespace evoq {

Status CheckSizes(const LanguageModel& m) {
  const struct {
    const char* what;
    int64_t size, most;
  } sizes[] = {{"vocabulary", m.vocabulary, 1 << 24},
               {"width", m.width, 1 << 20},
               {"layers", m.layers, 1024},
               {"heads", m.heads, 1 << 14},
               {"key heads", m.kv_heads, 1 << 14},
               {"head size", m.head_size, 1 << 14},
               {"inner width", m.inner, 1 << 22},
               {"context", m.context, 1 << 24}};
  for (const auto& [what, size, most] : sizes) {
    if (size < 1 || size > most)
      return InvalidInput("{} is {}, expected 1 to {}", what, size, most);
  }
  return {};
}

Status CheckRope(const Rope& rope, int64_t rotated) {
  if (!(rope.theta > 0 && std::isfinite(rope.theta)))
    return InvalidInput("rope theta is {}, expected a positive number", rope.theta);
  if (!(rope.divisor > 0 && std::isfinite(rope.divisor)))
    return InvalidInput("rope factor is {}, expected a positive number", rope.divisor);
  for (const std::vector<double>* slow : {&rope.slow, &rope.long_slow}) {
    if (!slow->empty() && static_cast<int64_t>(slow->size()) != rotated / 2)
      return InvalidInput("{} factors of rope, expected {}", slow->size(), rotated / 2);
    if (std::ranges::any_of(*slow, [](double f) { return !(f > 0 && std::isfinite(f)); }))
      return InvalidInput("a factor of rope is not positive");
  }
  if (!(rope.growth >= 0 && std::isfinite(rope.growth)))
    return InvalidInput("llama_4_scaling_beta is {}, expected 0 or more", rope.growth);
  if ((!rope.long_slow.empty() || rope.growth > 0) && rope.original < 1)
    return InvalidInput("an original context of {} positions, expected 1 or more", rope.original);
  if (!(rope.magnitude > 0 && std::isfinite(rope.magnitude)))
    return InvalidInput("rope attention factor is {}, expected a positive number", rope.magnitude);
  return {};
}

namespace {

Status CheckExperts(const LanguageModel& m) {
  const Experts& e = m.experts;
  constexpr int64_t kMostExperts = 1024, kMostMatrices = 1 << 17;
  if (e.count < 0 || e.count > kMostExperts || e.count * m.layers > kMostMatrices)
    return InvalidInput("{} experts in each of {} layers, expected at most {}, and {} in all",
                        e.count, m.layers, kMostExperts, kMostMatrices);
  constexpr int64_t kMostInner = 1 << 22;
  if (e.shared < 0 || e.shared > kMostInner)
    return InvalidInput("inner width of the shared expert is {}, expected 1 to {}", e.shared,
                        kMostInner);
  if (e.count == 0) return {};
  if (e.used < 1 || e.used > e.count)
    return InvalidInput("{} of {} experts are used, expected 1 to {}", e.used, e.count, e.count);
  if (e.inner < 1 || e.inner > kMostInner)
    return InvalidInput("inner width of experts is {}, expected 1 to {}", e.inner, kMostInner);
  if (!std::isfinite(e.limit) || e.limit < 0 || !std::isfinite(e.gate_alpha))
    return InvalidInput("gates of experts have the limit {} and the factor {}", e.limit,
                        e.gate_alpha);
  if (!std::isfinite(e.scale) || e.scale <= 0)
    return InvalidInput("the scale of experts is {}, expected a positive number", e.scale);
  if (!e.layers.empty() && static_cast<int64_t>(e.layers.size()) != m.layers)
    return InvalidInput("experts of {} layers, expected {}", e.layers.size(), m.layers);
  if (!m.gated) return Unsupported("experts without gates");
  return {};
}

}  // namespace

Status CheckLanguageModel(const LanguageModel& m) {
  EVOQ_TRY(CheckSizes(m));
  if (m.heads % m.kv_heads != 0)
    return InvalidInput("{} heads and {} key heads, expected a multiple", m.heads, m.kv_heads);
  if (m.turns() && (m.rotated < 2 || m.rotated % 2 != 0 || m.rotated > m.head_size))
    return InvalidInput("{} rotated values of heads of {}, expected an even number of them",
                        m.rotated, m.head_size);
  EVOQ_TRY(CheckRope(m.rope, m.rotated));
  if (m.local_rope) EVOQ_TRY(CheckRope(*m.local_rope, m.rotated));
  if (m.first_position < 0 || m.first_position > 64)
    return InvalidInput("the first position is {}, expected 0 to 64", m.first_position);
  if (!(m.epsilon > 0 && m.epsilon < 1))
    return InvalidInput("epsilon of norms is {}, expected a small positive number", m.epsilon);
  for (float x : {m.embedding_scale, m.attention_scale, m.attention_softcap, m.logit_softcap,
                  m.residual_scale, m.logit_scale, m.clip, m.steepness}) {
    if (!std::isfinite(x) || x < 0) return InvalidInput("a scale or cap is {}", x);
  }
  EVOQ_TRY(CheckExperts(m));
  if (!m.unturned.empty() && static_cast<int64_t>(m.unturned.size()) != m.layers)
    return InvalidInput("rotary embeddings of {} layers, expected {}", m.unturned.size(), m.layers);
  if (!m.windowed.empty() && static_cast<int64_t>(m.windowed.size()) != m.layers)
    return InvalidInput("windows of {} layers, expected {}", m.windowed.size(), m.layers);
  if (!m.windowed.empty() && m.window < 1) return InvalidInput("a window of {} tokens", m.window);
  for (const std::vector<int64_t>* ids : {&m.begin, &m.end}) {
    for (int64_t id : *ids) {
      if (id < 0 || id >= m.vocabulary)
        return InvalidInput("token {} of a vocabulary of {}", id, m.vocabulary);
    }
  }
  return {};
}

}  // namespace evoq
