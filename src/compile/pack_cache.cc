#include "compile/pack_cache.h"

namespace evoq {

void PackCache::Keep(const Graph& graph) {
  for (int i = 0; i < graph.value_count(); ++i) {
    const Tensor& constant = graph.value(ValueId{i}).constant;
    if (constant.defined()) kept_.emplace(constant.raw(), constant);
  }
  for (NodeId id : graph.order()) {
    for (const auto& body : graph.node(id).bodies) Keep(*body);
  }
}

Result<Tensor> PackCache::Get(const Tensor& constant, const std::string& kernel, const Attrs& attrs,
                              size_t input, const std::function<Result<Tensor>()>& make) {
  // Constants of one content but several types share their memory.
  const auto kept = kept_.find(constant.raw());
  if (kept == kept_.end() || kept->second.type() != constant.type() ||
      kept->second.layout() != constant.layout())
    return make();
  Key key(constant.raw(), kernel, attrs.ToString(), input);
  if (const auto form = forms_.find(key); form != forms_.end()) return form->second;
  EVOQ_ASSIGN(Tensor packed, make());
  return forms_.emplace(std::move(key), std::move(packed)).first->second;
}

}  // namespace evoq
