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
#include "headwise/heads/profile/profile.h"
#include "headwise/nn/hooks.h"
#include "headwise/observation.h"
#include "headwise/tensor/temp.h"

namespace headwise {

// Runs are whole packed sequences (runtime's Forward). Context and profile
// must outlive it, and the profile stay where it is.
class CoreSums : public RunHooks {
 public:
  CoreSums(Context& context, Profile& profile, int64_t min_visible);

  // A run of `sequences` sequences comes next; special [T] 1: a token that does
  // not count, of the sources and of an encoder–decoder's targets, end to end.
  // What an earlier run left is lost unless it was finished.
  void Begin(int64_t sequences, std::vector<uint8_t> source,
             std::vector<uint8_t> target);
  // Waits for the run and adds its sums to the profile; nothing where there was
  // none since.
  void Finish();

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
  // A layer's sums: [sequences, heads, columns] from the first head's on.
  struct Part {
    size_t first_head = 0;
    int64_t heads = 0;
    bool cross = false;
  };
  void AddSlot(const std::string& name, int sum, int weight);

  Context& context_;
  Profile& profile_;
  int64_t min_visible_;
  std::vector<Slot> slots_;
  std::map<std::pair<AttentionKind, int64_t>, size_t> first_head_;
  int64_t sequences_ = 0;
  // special [T], on the host and on the device.
  struct Tokens {
    std::vector<uint8_t> here;
    Tensor there;
  };
  const Tokens& TokensOf(const AttentionSite& site) const {
    return site.kind == AttentionKind::kSelf ? source_ : target_;
  }
  Tokens source_, target_;
  Tensor sums_;  // f64 [all heads · sequences, columns]
  std::vector<Part> parts_;
  // Of the call that runs.
  Observation observation_;
  Temp entropy_, max_, argmax_, distance_;
};

}  // namespace headwise
