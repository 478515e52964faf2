#include "base/work_threads.h"

#include "base/thread_pool.h"

namespace evoq {
namespace {

thread_local int work_threads = 1;

}  // namespace

WorkThreads::WorkThreads(int count) : outer_(work_threads) {
  work_threads = count == 0 ? PhysicalCores() : count;
}
WorkThreads::~WorkThreads() { work_threads = outer_; }
int WorkThreads::Get() { return work_threads; }

}  // namespace evoq
