// Core metrics of runs on a device: rows are added up where they lie, and what
// comes home are the sums of a run, once it is over. The numbers are those that
// HeadObserver adds row by row, but for rounding.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "headwise/context.h"
#include "headwise/head_ref.h"
#include "headwise/heads/profile/profile.h"
#include "headwise/nn/hooks.h"
#include "headwise/observation.h"
#include "headwise/tensor/temp.h"

namespace headwise {

// Runs are whole packed sequences (runtime's Forward). Context and profile
// must outlive it, and the profile stay where it is.
class CoreSums : public RunHooks {
  // A layer's sums: [sequences, heads, columns] from the first head's on.
  struct Part {
    size_t first_head = 0;
    int64_t heads = 0;
    bool cross = false;
  };

 public:
  CoreSums(Context& context, Profile& profile, int64_t min_visible);

  // Tokens of a run: special [T] 1: one that does not count, of the sources and
  // of an encoder–decoder's targets, end to end.
  struct Tokens {
    int64_t sequences = 0;
    Tensor source, target;  // u8 [T] on the device
  };
  // By another context of the same device where a run is on meanwhile.
  static Tokens Prepare(Context& beside, int64_t sequences,
                        const std::vector<uint8_t>& source,
                        const std::vector<uint8_t>& target);

  // The run that comes next. What an earlier one left is lost unless it was
  // finished.
  void Begin(Tokens tokens);
  // Waits for the run and adds its sums to the profile; nothing where there was
  // none since.
  void Finish() { Add(context_, TakeRun()); }

  // The same in two steps: the next run may be on when a run is added, by
  // another context of the same device that waits for all that was asked of
  // this one until TakeRun.
  struct Done {
    Tokens tokens;
    Tensor sums;  // f64 [all heads · sequences, columns]
    std::vector<Part> parts;
  };
  Done TakeRun() { return std::exchange(run_, {}); }
  void Add(Context& beside, Done done);

  void BeforeAttention(const AttentionSite& site,
                       const AttentionProblem& problem,
                       AttentionArgs& args) override;
  void AfterAttention(const AttentionSite& site,
                      const AttentionProblem& problem,
                      const AttentionArgs& args) override;

 private:
  // Where the sum of a metric and its weight stand among the columns.
  struct Slot {
    std::vector<Tally>* tallies = nullptr;
    int sum = 0, weight = 0;
  };
  void AddSlot(const std::string& name, int sum, int weight);

  Context& context_;
  Profile& profile_;
  int64_t min_visible_;
  std::vector<Slot> slots_;
  std::map<std::pair<AttentionKind, int64_t>, size_t> first_head_;
  const Tensor& SpecialOf(const AttentionSite& site) const {
    return site.kind == AttentionKind::kSelf ? run_.tokens.source
                                             : run_.tokens.target;
  }
  Done run_;
  // Of the call that runs.
  Observation observation_;
  Temp entropy_, max_, argmax_, distance_;
};

}  // namespace headwise
