#include "team.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

namespace tfsmith::bert {
namespace {

// How often a thread looks before it sleeps: some 50 microseconds, the time that waking it would take.
constexpr int kSpins = 1000;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// One loop. Others may come after it has ended: they own it together with the caller, and touch `body` only after they
// have got a task, which holds the caller in its place.
class Loop {
 public:
  Loop(int64_t tasks, const std::function<void(int64_t, int)>* body) : tasks_(tasks), body_(body) {}

  void Work(int slot) {
    for (int64_t task = next_.fetch_add(1); task < tasks_; task = next_.fetch_add(1)) {
      try {
        (*body_)(task, slot);
      } catch (...) {
        std::lock_guard<std::mutex> lock(mutex_);
        if (failure_ == nullptr) failure_ = std::current_exception();
      }
      if (done_.fetch_add(1) + 1 == tasks_) {
        std::lock_guard<std::mutex> lock(mutex_);
        ended_.notify_all();
      }
    }
  }

  void Wait() {
    for (int spin = 0; spin < kSpins && done_.load() < tasks_; ++spin) Pause();
    std::unique_lock<std::mutex> lock(mutex_);
    ended_.wait(lock, [this] { return done_.load() == tasks_; });
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }

 private:
  const int64_t tasks_;
  const std::function<void(int64_t, int)>* const body_;
  std::atomic<int64_t> next_{0};
  std::atomic<int64_t> done_{0};
  std::mutex mutex_;
  std::condition_variable ended_;
  std::exception_ptr failure_;
};

}  // namespace

// What the threads share; it lives until the last of them has seen that the team is gone.
struct Team::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<uint64_t> loops{0};  // begun so far
  std::shared_ptr<Loop> loop;      // the last of them
  bool closed = false;
  bool called = false;  // whether the others have been

  void Begin(std::shared_ptr<Loop> next) {
    {
      std::lock_guard<std::mutex> lock(mutex);
      loop = std::move(next);
      loops.fetch_add(1);
    }
    changed.notify_all();
  }

  void Close() {
    {
      std::lock_guard<std::mutex> lock(mutex);
      closed = true;
      loop.reset();
      loops.fetch_add(1);
    }
    changed.notify_all();
  }

  // What each of the others does.
  void Help(int slot) {
    uint64_t seen = 0;
    while (true) {
      for (int spin = 0; spin < kSpins && loops.load() == seen; ++spin) Pause();
      std::shared_ptr<Loop> next;
      {
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [&] { return loops.load() != seen; });
        if (closed) return;
        seen = loops.load();
        next = loop;
      }
      next->Work(slot);
    }
  }
};

Team::Team(int width, Schedule schedule)
    : width_(std::max(1, width)), schedule_(std::move(schedule)), state_(std::make_shared<State>()) {}

Team::~Team() { state_->Close(); }

void Team::Run(int64_t tasks, const std::function<void(int64_t, int)>& body) const {
  if (width_ == 1 || tasks <= 1) {
    for (int64_t task = 0; task < tasks; ++task) body(task, 0);
    return;
  }
  auto loop = std::make_shared<Loop>(tasks, &body);
  state_->Begin(loop);
  CallOthers();
  loop->Work(0);
  loop->Wait();
}

void Team::CallOthers() const {
  if (state_->called) return;
  state_->called = true;
  try {
    for (int slot = 1; slot < width_; ++slot) {
      schedule_([state = state_, slot, caller = std::this_thread::get_id()] {
        // A pool whose queue is full runs what it is given at once, here; the caller must not wait for itself.
        if (std::this_thread::get_id() != caller) state->Help(slot);
      });
    }
  } catch (const std::bad_alloc&) {
    // Fewer threads then.
  }
}

}  // namespace tfsmith::bert
