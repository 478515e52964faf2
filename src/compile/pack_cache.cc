#include "compile/pack_cache.h"

namespace evoq {

void PackCache::Keep(const Graph& graph) {
  const std::lock_guard lock(mutex_);
  KeepAll(graph);
}

void PackCache::KeepAll(const Graph& graph) {
  for (int i = 0; i < graph.value_count(); ++i) {
    const Tensor& constant = graph.value(ValueId{i}).constant;
    if (constant.defined()) kept_.emplace(constant.raw(), constant);
  }
  for (NodeId id : graph.order()) {
    for (const auto& body : graph.node(id).bodies) KeepAll(*body);
  }
}

Result<Tensor> PackCache::Get(const Tensor& constant, const std::string& kernel, const Attrs& attrs,
                              size_t input, const std::function<Result<Tensor>()>& make) {
  Key key(constant.raw(), kernel, attrs.ToString(), input);
  bool keeps = false;
  {
    const std::lock_guard lock(mutex_);
    // Constants of one content but several types share their memory.
    const auto kept = kept_.find(constant.raw());
    keeps = kept != kept_.end() && kept->second.type() == constant.type() &&
            kept->second.layout() == constant.layout();
    if (const auto form = forms_.find(key); keeps && form != forms_.end()) return form->second;
  }
  EVOQ_ASSIGN(Tensor packed, make());
  if (!keeps) return packed;
  const std::lock_guard lock(mutex_);
  return forms_.emplace(std::move(key), std::move(packed)).first->second;
}

}  // namespace evoq
