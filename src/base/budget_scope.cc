#include "base/budget_scope.h"

#include <algorithm>
#include <limits>

#include "base/memory.h"

namespace evoq {
namespace {
thread_local BudgetScope* innermost = nullptr;
}

BudgetScope::BudgetScope(const Budget& budget) : budget_(budget), outer_(innermost) {
  innermost = this;
}
BudgetScope::~BudgetScope() { innermost = outer_; }

bool BudgetScope::Active() { return innermost != nullptr; }

Budget BudgetScope::Part(int64_t share) {
  int64_t memory = std::numeric_limits<int64_t>::max(), work = memory;
  for (const BudgetScope* scope = innermost; scope != nullptr; scope = scope->outer_) {
    memory = std::min(memory, scope->budget_.memory_left() / share);
    work = std::min(work, scope->budget_.work_left() / share);
  }
  return Budget(memory, work);
}

bool BudgetScope::HasHalfBeyond(int64_t bytes) {
  for (const BudgetScope* scope = innermost; scope != nullptr; scope = scope->outer_) {
    if (bytes > scope->budget_.memory_left() - scope->budget_.memory_limit() / 2) return false;
  }
  return true;
}

void BudgetScope::GiveMemory(int64_t bytes) {
  for (BudgetScope* scope = innermost; scope != nullptr; scope = scope->outer_)
    scope->budget_.GiveMemory(bytes);
}

void BudgetScope::AddFile(int64_t file_bytes) {
  for (BudgetScope* scope = innermost; scope != nullptr; scope = scope->outer_)
    scope->budget_.AddFile(file_bytes);
}

Status SpendMemory(int64_t bytes, std::string_view what) {
  for (BudgetScope* scope = innermost; scope != nullptr; scope = scope->outer_)
    EVOQ_TRY(scope->budget_.TakeMemory(bytes, what));
  constexpr int64_t kSmall = 1 << 20;
  if (innermost != nullptr || (bytes >= 0 && bytes <= kSmall)) return {};
  return Budget(FreeMemoryBytes() / 8 * 7, 0).TakeMemory(bytes, what);
}

Status SpendWork(int64_t units, std::string_view what) {
  for (BudgetScope* scope = innermost; scope != nullptr; scope = scope->outer_)
    EVOQ_TRY(scope->budget_.TakeWork(units, what));
  return {};
}

Status SpendWork(std::initializer_list<int64_t> factors, std::string_view what) {
  if (std::find(factors.begin(), factors.end(), 0) != factors.end()) return {};
  int64_t product = 1;
  for (int64_t f : factors) {
    if (__builtin_mul_overflow(product, f, &product))
      return SpendWork(int64_t{-1}, what);  // which is too much
  }
  return SpendWork(product, what);
}

}  // namespace evoq
