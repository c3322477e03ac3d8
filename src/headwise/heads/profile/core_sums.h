// The core metrics of runs: hooks that sum rows on the context's device. The
// sums are copied to the profile once a run is over.
#pragma once

#include <cstdint>
#include <map>
#include <span>
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

  // A sequence's tokens, 1: one that does not count; `target` is empty but for
  // encoder–decoders.
  struct Specials {
    std::vector<uint8_t> source, target;
  };
  // One side of all sequences of a run, end to end, on the device.
  struct Side {
    Tensor special;  // u8 [T]
    Tensor first;  // f32 [1, T, 1]: 1 for a sequence's first; the host's alone
  };
  struct Tokens {
    int64_t sequences = 0;
    Side source, target;
  };
  // By another context of the same device where a run is on meanwhile.
  static Tokens Prepare(Context& beside, std::span<const Specials> sequences);

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
  struct Column {
    std::vector<Tally>* tallies = nullptr;
    int sum = 0, weight = 0;
    bool is_of_self_attention = false;
  };

  Context& context_;
  Profile& profile_;
  int64_t min_visible_;
  std::vector<Column> columns_;
  std::map<std::pair<AttentionKind, int64_t>, size_t> first_head_;
  const Side& QueriesOf(const AttentionSite& site) const {
    return site.kind == AttentionKind::kSelf ? run_.tokens.source
                                             : run_.tokens.target;
  }
  const Side& KeysOf(const AttentionSite& site) const {
    return site.kind == AttentionKind::kDecoder ? run_.tokens.target
                                                : run_.tokens.source;
  }
  Done run_;
  // Of the call that runs.
  Observation observation_;
  Temp entropy_, max_, argmax_, distance_, first_;
};

}  // namespace headwise
