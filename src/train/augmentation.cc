#include "train/augmentation.h"

#include "base/rows.h"

namespace evoq {

#define EVOQ_ROW_TYPE AugmentationDef
#define EVOQ_ROW_FILE "train/augmentations.inc"
#include "base/rows.inl.h"

std::span<const AugmentationDef* const> AllAugmentations() { return kAllRows; }

Result<std::vector<Augmentation>> ParseAugmentations(const std::vector<std::string>& options) {
  std::vector<Augmentation> out;
  for (const std::string& option : options) {
    const size_t equals = option.find('=');
    const AugmentationDef* const row = FindRow(AllAugmentations(), option.substr(0, equals));
    if (row == nullptr) {
      std::string names;
      for (const AugmentationDef* known : kAllRows)
        names += (names.empty() ? "" : ", ") + std::string(known->name);
      return Fail(ErrorCode::kUsage, "--augment {}: expected one of {}", option, names);
    }
    int amount = row->amount;
    if (equals != std::string::npos) {
      const std::string text = option.substr(equals + 1);
      const bool number = !text.empty() && text.size() <= 4 &&
                          text.find_first_not_of("0123456789") == std::string::npos;
      if (!number || std::stoi(text) > 1024)
        return Fail(ErrorCode::kUsage, "--augment {}: expected a number from 0 to 1024", option);
      amount = std::stoi(text);
    }
    out.push_back({row, amount});
  }
  return out;
}

}  // namespace evoq
