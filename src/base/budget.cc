#include "base/budget.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace evoq {
namespace {

// base + per_byte * bytes, as large as it gets where that does not fit.
int64_t Grown(int64_t base, int64_t per_byte, int64_t bytes) {
  int64_t product = 0, sum = 0;
  if (__builtin_mul_overflow(per_byte, std::max<int64_t>(bytes, 0), &product) ||
      __builtin_add_overflow(base, product, &sum))
    return std::numeric_limits<int64_t>::max();
  return sum;
}

}  // namespace

Budget Budget::ForFile(int64_t file_bytes) {
  return Budget(Grown(kFileMemory, kMemoryPerByte, file_bytes),
                Grown(kFileWork, kWorkPerByte, file_bytes));
}

void Budget::AddFile(int64_t file_bytes) {
  for (auto [account, per_byte] :
       {std::pair(&memory_, kMemoryPerByte), std::pair(&work_, kWorkPerByte)}) {
    account->left = Grown(account->left, per_byte, file_bytes);
    account->limit = Grown(account->limit, per_byte, file_bytes);
  }
}

Status Budget::Exceeded(const Account& account, int64_t amount, std::string_view unit,
                        std::string_view what) {
  const std::string asked = amount < 0 ? "more than 2^63" : std::to_string(amount);
  return Fail(ErrorCode::kTooLarge, "{}: {} {}, expected at most the {} left of {}", what, asked,
              unit, account.left, account.limit);
}

}  // namespace evoq
