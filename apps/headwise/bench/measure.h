// Times several candidates side by side: warm-up, then rounds in which every
// candidate runs once, so that drift of the machine touches all alike.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace headwise::bench {

// One line of the result: the members of a JSON row, in its order.
struct Row {
  std::string op;
  std::string impl;
  bool peer = false;
  std::string pass;
  std::string type;
  std::string mask;
  int64_t batch = 1;
  int64_t heads = 1;
  int64_t kv_heads = 1;
  int64_t query_len = 0;
  int64_t key_len = 0;
  int64_t head_dim = 0;
  int threads = 1;
  std::string observe = "none";
  double ms = 0;
  double spread = 0;
  double gflops = 0;
  // Memory beyond inputs and outputs; unknown where the system does not tell.
  std::optional<int64_t> extra_bytes;
};

struct Candidate {
  Row row;
  double flops = 0;  // of one call
  // Makes `calls` calls and returns the seconds that they took.
  std::function<double(int calls)> time;
  // Of a call made before, if one was (to look at its result); else 0. Where it
  // is long, no further call is made.
  double first_seconds = 0;
};

// A candidate's `time` for a plain function.
std::function<double(int)> Timed(std::function<void()> call);
// The same by the processor time of the calling thread where it works alone, so
// that neighbours on the machine count little; several threads by the clock.
std::function<double(int)> TimedByWork(int threads, std::function<void()> call);

struct MeasureOptions {
  double budget_seconds = 8;     // for all candidates together, about
  double sample_seconds = 0.02;  // short calls are repeated up to this
  int min_rounds = 5;
  int max_rounds = 41;
  // Pause before each sample: threads of the one before may still be spinning.
  double settle_seconds = 0;
};

// Fills ms, spread and gflops of every row. A candidate of which three runs are
// beyond the budget keeps the time of its only run.
void Measure(const MeasureOptions& options, std::vector<Candidate>& candidates);

// A long call, made again until so many seconds are spent.
struct Repeated {
  int64_t runs = 0;
  double seconds = 0;  // of one, the median
  double spread = 0;   // (longest − shortest) / median
};
// `time` makes one call and returns its seconds; at least `least` calls.
Repeated Repeat(double seconds, int64_t least,
                const std::function<double()>& time);

// How many cores other processes kept busy since the watch was made: figures
// taken beside a busy neighbour are not worth keeping.
class LoadWatch {
 public:
  LoadWatch();
  // Nothing where the system does not tell.
  std::optional<double> OthersCores() const;

 private:
  double wall_ = 0;    // seconds, as all here
  double system_ = 0;  // work of all processes
  double own_ = 0;     // of this one and its children
};

// The note for a result that was measured under `watch`, or "".
std::string LoadNote(const LoadWatch& watch);

// Runs `call` and returns by how much it raised the peak of resident memory,
// where the system tells: /proc/self.
std::optional<int64_t> ResidentGrowth(const std::function<void()>& call);

}  // namespace headwise::bench
