// Hooks that sum every row of every head of a run (atlas_sums.h), with no map
// kept: the operator's own statistics, a band of two diagonals, and what
// follows earlier copies of a token.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "headwise/atlas.h"
#include "headwise/context.h"
#include "headwise/heads/atlas/atlas_sums.h"
#include "headwise/heads/profile/host_result.h"
#include "headwise/model/model.h"
#include "headwise/nn/hooks.h"
#include "headwise/observation.h"
#include "headwise/runtime/windows.h"
#include "headwise/tensor/temp.h"

namespace headwise {

// Runs are whole packed sequences of models without a decoder of their own.
// Everything given must outlive it.
class AtlasObserver : public RunHooks {
 public:
  AtlasObserver(Context& context, const Model& model);

  // The sequences of the next run, in its order.
  void Begin(std::span<const TokenWindow> windows);
  // The run is done. first: the number of its first sequence in the text.
  void Finish(int64_t first, AtlasSums& sums);

  void BeforeAttention(const AttentionSite& site,
                       const AttentionProblem& problem,
                       AttentionArgs& args) override;
  void AfterAttention(const AttentionSite& site,
                      const AttentionProblem& problem,
                      const AttentionArgs& args) override;

 private:
  // Of a head in the run.
  struct HeadRun {
    RowTotals totals;
    std::vector<float> strengths;       // one a sequence
    std::vector<double> queries, keys;  // one a token of tokens_
  };
  struct Results;

  void NoteTokens();
  void NoteRepeats();
  int64_t Sequences() const { return static_cast<int64_t>(starts_.size()) - 1; }
  int64_t SizeOf(int64_t sequence) const {
    return starts_[sequence + 1] - starts_[sequence];
  }
  void AddHead(const Results& results, int64_t head, HeadRun& run) const;

  Context& context_;
  std::map<int64_t, size_t> first_head_;  // by layer
  size_t heads_ = 0;

  // The run's tokens, end to end.
  std::span<const TokenWindow> windows_;
  std::vector<int64_t> starts_;
  std::vector<int32_t> ids_;
  std::vector<int32_t> tokens_;  // the different ones
  std::vector<int32_t> at_;      // of each token, its place in tokens_
  int64_t repeats_ = 0;
  std::vector<RowRef> repeat_rows_;
  std::vector<int64_t> repeat_offsets_;
  std::vector<int32_t> repeat_keys_;
  Tensor features_, query_labels_, key_labels_, first_keys_;
  std::vector<HeadRun> runs_;  // one a head

  // Of the call that runs.
  Observation observation_;
  HostResult sums_, histogram_, labels_, largest_, largest_key_, mass_;
};

}  // namespace headwise
