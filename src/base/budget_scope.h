// The budget of what a thread is doing, for code far below the reader or compiler that opened it:
// inference, definitions, passes.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "base/budget.h"

namespace evoq {

// While it lives, this thread's SpendMemory and SpendWork draw on its budget, and on those of the
// scopes around it.
class BudgetScope {
 public:
  explicit BudgetScope(const Budget& budget);
  ~BudgetScope();
  BudgetScope(const BudgetScope&) = delete;
  BudgetScope& operator=(const BudgetScope&) = delete;

  static bool Active();  // whether there is one on this thread
  // 1/share of what is left to this thread: for a step that may fail without ending the whole.
  // Unlimited outside of any scope.
  static Budget Part(int64_t share);
  // Whether so many bytes can be drawn with half of every limit still left: for what is nice to
  // have.
  static bool HasHalfBeyond(int64_t bytes);
  // Gives back memory that was drawn and is freed again.
  static void GiveMemory(int64_t bytes);
  // A file joins those that the scopes around were opened for.
  static void AddFile(int64_t file_bytes);

  const Budget& budget() const { return budget_; }

 private:
  friend Status SpendMemory(int64_t bytes, std::string_view what);
  friend Status SpendWork(int64_t units, std::string_view what);
  Budget budget_;
  BudgetScope* outer_;
};

// Draws on the thread's budgets. Outside of any scope work is free, for the user asked for a run,
// and a request of memory is at most 7/8 of what the process can still hope for. Errors: kTooLarge,
// as of Budget.
Status SpendMemory(int64_t bytes, std::string_view what);
Status SpendWork(int64_t units, std::string_view what);
// The product of non-negative factors, which may be too large for a number.
Status SpendWork(std::initializer_list<int64_t> factors, std::string_view what);

}  // namespace evoq
