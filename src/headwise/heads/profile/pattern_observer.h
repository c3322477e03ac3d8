// Users' own detectors (detector.h) in a run: the mass of every head on the
// keys that each query should read, "pattern.NAME", beside what uniform
// attention would put there, "pattern.NAME.chance".
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "headwise/context.h"
#include "headwise/heads/profile/detector.h"
#include "headwise/heads/profile/profile.h"
#include "headwise/heads/profile/site_notes.h"
#include "headwise/nn/hooks.h"
#include "headwise/runtime/windows.h"

namespace headwise {

// Hooks of a run of whole packed sequences; self-attention of the source only.
// Looks at every row again, once for each four detectors, in memory that grows
// with the rows alone. Everything given must outlive it.
class PatternObserver : public RunHooks {
 public:
  // Throws Error(kInvalidArgument) for two detectors of one name.
  PatternObserver(Context& context, Profile& profile,
                  std::span<Detector> detectors, int64_t min_visible);

  // The sequences of the next run, in its order, both kept until the next.
  void Begin(std::span<const TokenWindow> windows,
             std::span<const SequenceNotes> sequences);

  void AfterAttention(const AttentionSite& site,
                      const AttentionProblem& problem,
                      const AttentionArgs& args) override;

 private:
  // Labels of the batch's tokens by one detector.
  struct Labels {
    std::vector<int32_t> queries;
    std::vector<int32_t> keys;
  };
  // What is made once a batch for all layers with one mask: how many targets
  // each row sees, [detectors][rows]; 0: the row does not count.
  struct Seen {
    AttentionMask mask;
    SiteNotes notes;
    std::vector<std::vector<int32_t>> targets;
  };
  const Seen& SeenUnder(const AttentionMask& mask);
  std::vector<int32_t> CountTargets(const SiteNotes& notes,
                                    const Labels& labels) const;
  void AddGroup(const AttentionProblem& problem, const AttentionArgs& args,
                const Seen& seen, std::span<const size_t> group, size_t first);
  void AddHead(const Seen& seen, size_t detector, std::span<const float> mass,
               int64_t stride, size_t head);

  Context& context_;
  Profile& profile_;
  std::span<Detector> detectors_;
  int64_t min_visible_;
  std::span<const SequenceNotes> sequences_;
  std::vector<Labels> labels_;  // one a detector
  std::vector<Seen> seen_;
  std::map<int64_t, size_t> first_head_;  // by layer
};

}  // namespace headwise
