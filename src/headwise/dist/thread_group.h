// Ranks that are threads of one process. Test only.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "headwise/dist/group.h"

namespace headwise::dist {

// What all of them share.
class ThreadMail {
 public:
  using Address = std::pair<int, Channel>;  // to whom

  void Put(Address to, Message message) {
    const std::lock_guard lock(mutex_);
    boxes_[to].push_back(std::move(message));
    arrived_.notify_all();
  }
  // A rank failed: nobody waits for it.
  void Fail(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
    arrived_.notify_all();
  }
  std::exception_ptr error() {
    const std::lock_guard lock(mutex_);
    return error_;
  }
  // from: −1: any.
  std::optional<Message> Get(Address to, int from, double seconds) {
    std::unique_lock lock(mutex_);
    std::optional<Message> found;
    arrived_.wait_for(lock, std::chrono::duration<double>(seconds), [&] {
      std::deque<Message>& box = boxes_[to];
      for (auto at = box.begin(); at != box.end(); ++at) {
        if (from >= 0 && at->from != from) continue;
        found = std::move(*at);
        box.erase(at);
        return true;
      }
      return error_ != nullptr;
    });
    return found;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::exception_ptr error_;  // the first
  std::map<Address, std::deque<Message>> boxes_;
};

class ThreadGroup : public Group {
 public:
  ThreadGroup(int rank, int size, std::shared_ptr<ThreadMail> mail)
      : rank_(rank), size_(size), mail_(std::move(mail)) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void Post(int to, Channel channel, std::string bytes) override {
    mail_->Put({to, channel}, {rank_, std::move(bytes)});
  }
  std::string Take(int from, Channel channel) override {
    constexpr double kMostSeconds = 600;
    return mail_->Get({rank_, channel}, from, kMostSeconds).value().bytes;
  }
  std::optional<Message> Poll(Channel channel, double seconds) override {
    return mail_->Get({rank_, channel}, -1, seconds);
  }
  void Leave() override { Barrier(); }
  void Abort(int) noexcept override {}

 private:
  int rank_, size_;
  std::shared_ptr<ThreadMail> mail_;
};

// Runs `work` on so many ranks and waits; throws what the first of them threw.
inline void RunRanks(int size, const std::function<void(Group&)>& work) {
  const auto mail = std::make_shared<ThreadMail>();
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        ThreadGroup group(rank, size, mail);
        try {
          work(group);
        } catch (...) {
          mail->Fail(std::current_exception());
        }
      });
    }
  }
  if (const auto error = mail->error()) std::rethrow_exception(error);
}

}  // namespace headwise::dist
