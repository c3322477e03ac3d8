// What one attention call left for every row of every head, and the sinks that
// single heads have: the material that metrics are added up from.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "headwise/context.h"
#include "headwise/heads/profile/host_result.h"
#include "headwise/heads/profile/profile.h"
#include "headwise/heads/profile/rows/head_rows.h"
#include "headwise/heads/profile/site_notes.h"
#include "headwise/observation.h"

namespace headwise {

// A key of one sequence that is a sink of one head only.
struct HeadSink {
  int64_t sequence = 0;
  int32_t key = 0;
  std::vector<float> mass;  // one a query of the sequence; 0 where unseen
};

// Results [H, T, …] of one call; T queries of the batch.
class SiteResults {
 public:
  // Asks for what all metrics need: sets args.observation.
  // `notes` must outlive this.
  SiteResults(Context& context, const SiteNotes& notes, int64_t heads,
              AttentionArgs& args);

  // After the call: mass by offset and listed pairs; asks for sinks, so that
  // what does without them can be asked for before the host waits for them.
  // `below_ends` is then on the host.
  void Complete(Context& context, const AttentionProblem& problem,
                const AttentionArgs& args);
  // True where a head has sinks of its own: kept_max and kept_argmax then look
  // past them.
  bool TakeSinks(Context& context, const AttentionProblem& problem,
                 const AttentionArgs& args);
  // Views on the device, for HeadRowTallies; sinks and notes are left out.
  void Show(HeadRowsArgs& args) const;
  HeadRowsProblem rows_problem() const {
    return {notes_.cross, notes_.causal, std::max(before_, 0),
            std::max(after_, 0)};
  }
  const std::vector<float>& below_ends() const { return below_end_; }

  const SiteNotes& notes() const { return notes_; }
  int64_t heads() const { return heads_; }
  int64_t queries() const { return queries_; }

  ConstTensorView entropies() const { return entropy_.view(); }

  const std::vector<HeadSink>& sinks(int64_t h) const { return sinks_[h]; }

 private:
  int32_t argmax(int64_t h, int64_t t) const {
    return argmax_.As<int32_t>()[h * queries_ + t];
  }
  int32_t kept_argmax(int64_t h, int64_t t) const {
    return kept_argmax_.As<int32_t>()[h * queries_ + t];
  }
  void Measured(Context& context, const AttentionProblem& problem,
                const AttentionArgs& args);
  void AskForSinks(Context& context, const AttentionArgs& args);
  void TakeCandidates(Context& context);
  void Measure(Context& context, const AttentionProblem& problem,
               const AttentionArgs& args, int32_t head,
               std::vector<HeadSink>& sinks) const;
  void LookPastSinks(Context& context, const AttentionProblem& problem,
                     const AttentionArgs& args, int32_t head);
  void LookBelowEnds(Context& context, const AttentionProblem& problem,
                     const AttentionArgs& args);
  std::vector<RowRef> EndsAmongSeparators(int64_t head) const;

  const SiteNotes& notes_;
  int64_t heads_ = 0;
  int64_t queries_ = 0;
  int before_ = -1, after_ = -1;
  Observation observation_;
  HostResult entropy_, max_, argmax_, distance_, kept_max_, kept_argmax_;
  HostResult features_, labels_, histogram_, band_, pairs_;
  // [H, T], or empty where no row has any: the second largest share, in rows
  // whose largest key is a special end that more than kSeparatorsTold special
  // keys are seen with.
  std::vector<float> below_end_;
  Temp found_;  // i32 [1 + candidates, 3]: how many, then as they come
  std::vector<std::vector<HeadSink>> sinks_;  // by head
};

}  // namespace headwise
