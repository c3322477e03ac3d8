// One pass over a text: parts of fixed bounds, numbered, each run by one rank
// of a group, whose message is added to the sum in the order of parts. So the
// sum is that of one process, bit for bit, however many ranks there are and
// wherever an earlier process was interrupted. The sum, and who needs it, is
// the caller's; order, ranks, what is kept, progress and stop are the pass's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/dist/group.h"
#include "headwise/progress.h"
#include "headwise/runtime/kept_work.h"

namespace headwise {

// What a pass is run with, whatever it does.
struct PassOptions {
  dist::Group* group =
      nullptr;               // ranks that share it; null: this process alone
  KeptWork* kept = nullptr;  // the first rank's; null: nothing is kept
  OnProgress progress = {};
  std::stop_token stop = {};
};

// Who has the sum in the end.
enum class SumOn : uint8_t { kFirst, kAll };

struct PassWork {
  std::string stage;  // as progress and errors call it
  // One a part: how much of the work it is, for progress. May be empty where
  // the caller runs the parts itself.
  std::vector<double> sizes;
  SumOn sum_on = SumOn::kFirst;
  // What the sum is called where it is kept; "": as the stage.
  std::string name = {};
  // Adds the message of the next part to the sum.
  std::function<void(std::string_view message)> add;
  // The sum as bytes, and from bytes.
  std::function<std::string()> pack;
  std::function<void(std::string_view sum)> unpack;
  // What the part that is running has; may be empty: it is then begun anew.
  std::function<std::string()> open = {};
  // Called before the state is kept: waits for what runs beside this thread and
  // gives the parts that are done. May be empty.
  std::function<void()> settle = {};
};

// Not thread-safe. All ranks make the same passes in the same order.
class TextPass {
 public:
  // Takes what was kept of the sum. Borrows what the options and the work name.
  TextPass(const PassOptions& options, PassWork work);
  ~TextPass();
  TextPass(const TextPass&) = delete;
  TextPass& operator=(const TextPass&) = delete;

  // All parts of PassWork::sizes. part: gives its message; begun: what an
  // interrupted process had of it, or nothing. Throws Error(kCancelled) when
  // stopped.
  void Run(const std::function<std::string(size_t part,
                                           std::string_view begun)>& part);

  // ---- The same step by step, for parts that are found while they are read,
  // ---- or whose messages come later.

  // Whether this rank is to run the part.
  bool Owns(size_t part) const;
  // This rank runs the part from now on: what an interrupted process had of it,
  // or nothing.
  std::string Begin(size_t part);
  // A part of this rank is done.
  void Give(size_t part, std::string message);
  // So much of the part that runs is done, 0 to 1. Throws when stopped.
  void Tell(double share);
  // The same of all work, where sizes are not known before; total 0: nor is it.
  void Tell(double done, double total);
  // The last call: waits until the first rank has so many parts, and keeps the
  // whole. Throws when stopped.
  void Finish(size_t parts);

 private:
  bool IsAlone() const {
    return options_.group == nullptr || options_.group->is_single();
  }
  bool IsFirst() const { return IsAlone() || options_.group->is_first(); }
  double SizeOf(size_t part) const {
    return part < work_.sizes.size() ? work_.sizes[part] : 0;
  }
  bool IsKnown(size_t part) const {
    return part < next_ || waiting_.contains(part) || known_.contains(part);
  }
  void TakeKept();
  void ShareWhatIsKnown();
  void Collect(double seconds);
  void AddWaiting();
  void End();
  PassState State();

  PassOptions options_;
  PassWork work_;
  size_t next_ = 0;  // the first part that is not in the sum
  std::map<size_t, std::string> waiting_;  // for those before them
  std::set<size_t> known_;  // by the first rank, which this one is not
  size_t open_part_ = 0;    // of an interrupted process
  std::string open_;
  bool is_running_ = false;
  size_t running_ = 0;
  double done_ = 0, total_ = 0;
};

// Ends of parts of at least one item each: a part ends with the item that
// reaches `most`.
std::vector<size_t> CutByRoom(size_t items, int64_t most,
                              const std::function<int64_t(size_t)>& size);

}  // namespace headwise
