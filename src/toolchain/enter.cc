#include "toolchain/enter.h"

#include "api/model_session.h"

namespace evoq::toolchain {
inline namespace v1 {

Report ReportOf(const Told& told) {
  return {told.text, told.json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
          told.log};
}

PassChoice ChoiceFrom(const Passes& passes) { return {passes.disable, passes.opt_level}; }

Result<std::vector<std::vector<Tensor>>> Views(const std::vector<std::vector<Array>>& samples) {
  std::vector<std::vector<Tensor>> tensors;
  for (const std::vector<Array>& sample : samples) {
    const std::string where = fmt::format("sample {}", tensors.size());
    std::vector<Tensor>& inputs = tensors.emplace_back();
    for (const Array& array : sample) {
      EVOQ_ASSIGN(const size_t bytes, WithContext(BytesOf(array.type, array.shape), where));
      if (bytes != array.bytes.size())
        return Fail(ErrorCode::kUsage, "{}: {} bytes, expected {}", where, array.bytes.size(),
                    bytes);
      static constexpr std::byte kEmpty{};
      inputs.push_back(Tensor::View(TensorType(static_cast<DType>(array.type), Shape(array.shape)),
                                    bytes > 0 ? array.bytes.data() : &kEmpty, nullptr));
    }
  }
  return tensors;
}

}  // namespace v1
}  // namespace evoq::toolchain
