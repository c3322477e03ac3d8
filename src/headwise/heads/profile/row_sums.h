// All metrics of runs: hooks that sum rows on the context's device and never
// hold an attention matrix. Tallies are copied to the profile once a run is
// over. The host looks for sinks of single heads and for rows that are worth
// keeping; on a device it does so for a layer when the next one attends, by a
// queue of its own, so that the device goes on meanwhile.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "headwise/context.h"
#include "headwise/heads/profile/examples.h"
#include "headwise/heads/profile/profile.h"
#include "headwise/heads/profile/row_inputs.h"
#include "headwise/heads/profile/semantic.h"
#include "headwise/heads/profile/site_notes.h"
#include "headwise/heads/profile/site_results.h"
#include "headwise/heads/profile/slot_tallies.h"
#include "headwise/model/model.h"
#include "headwise/nn/hooks.h"
#include "headwise/tensor/temp.h"

namespace headwise {

struct ObserverOptions {
  std::string prefix = {};  // of metric names: "", "repeats."
  int64_t min_visible = 8;
  // Distances, histograms, sinks and examples of text; off for probes.
  bool text = true;
  // For examples and the names of sinks; null: neither is kept.
  const TokenTable* table = nullptr;
  // Its input embeddings measure semantic similarity; null: not measured.
  const Model* model = nullptr;
};

// Runs are whole packed sequences (runtime's Forward). Context and profile
// must outlive it, and the profile stay where it is.
class RowSums : public RunHooks {
  struct Site;
  // What is left of a layer's call.
  struct Part {
    const Site* site = nullptr;
    size_t first_head = 0;
    int64_t heads = 0;
    Tensor agreement;  // f64 [rows, heads, 2] of the semantic samples, or none
  };
  // A layer's call that the host has not looked into yet.
  struct OpenCall {
    const Site* site = nullptr;
    size_t first_head = 0;
    HeadSource source;
    std::shared_ptr<const void> memory;  // of `source`
    std::unique_ptr<SiteResults> results;
    Temp best;  // i32 [2, B · H · kBestRows]: rows, and scores by their bits
  };

 public:
  // The sequences of a run, and what is made of them before it.
  struct Batch {
    std::vector<SequenceNotes> sequences;
    std::vector<std::unique_ptr<Site>> sites;

    Batch();
    ~Batch();
    Batch(Batch&&) noexcept;
    Batch& operator=(Batch&&) noexcept;
  };

  RowSums(Context& context, Profile& profile, ObserverOptions options);
  ~RowSums() override;

  // By another context of the same device where a run is on meanwhile. The run
  // that it is for begins with it all in place.
  Batch Prepare(Context& beside, std::vector<SequenceNotes> sequences) const;

  // The run that comes next. What an earlier one left is lost unless it was
  // finished.
  void Begin(Batch batch);
  std::span<const SequenceNotes> sequences() const {
    return run_.batch.sequences;
  }
  // Waits for the run and adds its sums to the profile; nothing where there was
  // none since.
  void Finish() { Add(context_, TakeRun()); }

  // The same in two steps: another run may be on when a run is added, by
  // another context of the same device that waits for all that was asked of
  // this one until TakeRun. What that run was given lives until it was added.
  struct Done {
    Batch batch;
    std::vector<Part> parts;
    // The last one. Its heads are looked into by Add alone, and by no thread
    // whose run is on meanwhile.
    std::unique_ptr<OpenCall> open;
    Tensor tallies;     // f64 [all heads, kHeadSlots, kTallyNumbers]
    Tensor histograms;  // f64 [all heads, kHistogramBuckets]
    SinkCounts sinks;   // of all heads
  };
  Done TakeRun();
  void Add(Context& beside, Done done);
  // Gates are added while a run is on, and not with it.
  bool has_gates() const { return has_gates_; }

  void BeforeAttention(const AttentionSite& site,
                       const AttentionProblem& problem,
                       AttentionArgs& args) override;
  void AfterAttention(const AttentionSite& site,
                      const AttentionProblem& problem,
                      const AttentionArgs& args) override;
  void KeepCall(std::shared_ptr<const void> memory) override;

 private:
  std::unique_ptr<Site> MakeSite(Context& beside,
                                 std::span<const SequenceNotes> sequences,
                                 SiteSide side,
                                 const AttentionMask& mask) const;
  Site& SiteOf(const AttentionSite& site, const AttentionMask& mask);
  void Sum(Context& context, Done& run, OpenCall& call,
           const SinkInputs* sinks);
  void LookInto(Context& beside, Done& run);
  // The host adds to the profile's own numbers, sequence by sequence; a run of
  // a device begins at 0.
  bool is_host() const { return context_.device().is_cpu(); }
  void LoadTallies();

  Context& context_;
  Profile& profile_;
  ObserverOptions options_;
  SlotTallies slots_;
  std::map<std::pair<AttentionKind, int64_t>, size_t> first_head_;
  // Sites of the run before, which the next will have too.
  std::vector<std::pair<SiteSide, AttentionMask>> known_;
  Done run_;
  bool has_gates_ = false;
  // Of the call that runs.
  std::unique_ptr<SiteResults> results_;
  // Looks into calls while the device goes on; null on the host.
  std::unique_ptr<Context> host_queue_;
};

}  // namespace headwise
