// The observer: hooks that add what every head does in a run to a profile,
// never holding an attention matrix.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "headwise/heads/profile/head_metrics.h"
#include "headwise/heads/profile/notes.h"
#include "headwise/heads/profile/profile.h"
#include "headwise/heads/profile/semantic.h"
#include "headwise/heads/profile/site_notes.h"
#include "headwise/heads/profile/site_results.h"
#include "headwise/model/model.h"

namespace headwise {

struct ObserverOptions {
  std::string prefix;  // of metric names: "", "repeats."
  int64_t min_visible = 8;
  MetricSet metrics = MetricSet::kAll;
  // Distances, histograms, sinks and examples of text; off for probes.
  bool text = true;
  // For examples and the names of sinks; null: neither is kept.
  const TokenTable* table = nullptr;
  // Whose input embeddings semantic similarity is measured by; null: not.
  const Model* model = nullptr;
};

// Runs are whole packed sequences (runtime's Forward). Context and profile
// must outlive it, and the profile stay where it is.
class HeadObserver : public RunHooks {
 public:
  HeadObserver(Context& context, Profile& profile, ObserverOptions options);
  ~HeadObserver() override;

  // The sequences of the next run, in its order; kept until the next Begin.
  void Begin(std::span<const SequenceNotes> sequences);

  void BeforeAttention(const AttentionSite& site,
                       const AttentionProblem& problem,
                       AttentionArgs& args) override;
  void AfterAttention(const AttentionSite& site,
                      const AttentionProblem& problem,
                      const AttentionArgs& args) override;

 private:
  // What is made once a batch for all layers with one mask.
  struct CachedNotes {
    SiteSide side;
    AttentionMask mask;
    std::unique_ptr<SiteNotes> notes;
    SemanticSamples samples;
  };
  CachedNotes& CachedOf(const AttentionSite& site, const AttentionMask& mask);

  Context& context_;
  Profile& profile_;
  ObserverOptions options_;
  HeadMetrics metrics_;
  std::map<std::pair<AttentionKind, int64_t>, size_t> first_head_;
  std::span<const SequenceNotes> sequences_;
  std::vector<CachedNotes> notes_;
  std::unique_ptr<SiteResults> results_;
};

}  // namespace headwise
