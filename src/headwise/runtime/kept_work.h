// What passes over a text (text_pass.h) have come to, in a file: work that was
// stopped or killed goes on from it, to the very numbers of work that was not.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "headwise/progress.h"

namespace headwise {

// What the work is of. All must be the same for it to go on.
struct KeptKey {
  std::string model;     // its hash
  std::string text;      // a hash of what is read
  std::string settings;  // what the numbers depend on besides, in words

  bool operator==(const KeptKey&) const = default;
};

// A name for bytes: their hash.
std::string KeyOf(std::string_view bytes);

// What one pass has come to.
struct PassState {
  size_t next = 0;  // parts before this one are in `sum`
  std::string sum;
  std::map<size_t, std::string> waiting;  // messages of parts behind it
  // A part that was running, and what it had.
  size_t open_part = 0;
  std::string open;

  bool empty() const { return next == 0 && waiting.empty() && open.empty(); }
};

// Not thread-safe.
class KeptWork {
 public:
  // job: names a file, which is read where the job resumes. where: the work,
  // for messages. Throws Error: kNotFound, kIo; kCorrupt for a file of
  // something else; and kInvalidArgument where it is of another model, text or
  // settings.
  // key: called when the file is read and when it is first written, since the
  // hash of a large model takes its time.
  KeptWork(std::string where, PartialWork job, std::function<KeptKey()> key);

  // A pass begins: what it had come to. Passes of one name are told apart by
  // their order. state: what it has at any time until End.
  PassState Begin(const std::string& name, std::function<PassState()> state);
  void End();

  // Between steps: writes the file when it is time. Never throws: work goes on
  // where nothing can be written.
  void Tick();

  // The work is whole: removes the file, where this run wrote or read it.
  void Finish();

  // Writes the file and throws Error(kCancelled) that says so.
  [[noreturn]] void ThrowInterrupted();

 private:
  void Load();
  bool Save();
  void TakeState();
  bool has_work() const;

  std::string where_;
  PartialWork job_;
  std::function<KeptKey()> key_;
  std::map<std::string, PassState> passes_;
  std::map<std::string, int> begun_;  // passes of a name, in this run
  std::string open_;                  // the name of the pass that is on
  std::function<PassState()> state_;
  bool ours_ = false;    // the file is of this run
  bool failed_ = false;  // it could not be written
  std::chrono::steady_clock::time_point saved_at_ =
      std::chrono::steady_clock::now();
};

}  // namespace headwise
