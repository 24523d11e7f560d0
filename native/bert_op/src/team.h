// Parallel loops on somebody else's threads (TensorFlow's pool).
#ifndef TFSMITH_BERT_TEAM_H_
#define TFSMITH_BERT_TEAM_H_

#include <cstdint>
#include <functional>
#include <memory>

namespace tfsmith::bert {

// The threads that do the loops of one run. They stay together from the first loop until the team is destroyed, because an
// encoder has a hundred loops of a millisecond or less, and waking a thread takes its share of that.
class Team {
 public:
  using Schedule = std::function<void(std::function<void()>)>;

  // `width` threads work at once: the caller of Run and width - 1 others, which `schedule` hands a function to.
  Team(int width, Schedule schedule);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int width() const { return width_; }

  // Calls body(task, slot) for every task below `tasks`, and returns when all are done. No two calls that run at the same
  // time have the same slot; slots are below width(). The caller works too, so this ends even if no other thread is free.
  // Throws what a body threw, after all have ended. Not to be called by two threads, or by a body.
  void Run(int64_t tasks, const std::function<void(int64_t task, int slot)>& body) const;

 private:
  struct State;

  void CallOthers() const;

  int width_;
  Schedule schedule_;
  std::shared_ptr<State> state_;
};

}  // namespace tfsmith::bert

#endif  // TFSMITH_BERT_TEAM_H_
