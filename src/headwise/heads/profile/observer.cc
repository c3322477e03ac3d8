// Hooks into a run. Door: observer.h.
#include "headwise/heads/profile/observer.h"

#include <utility>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/error.h"
#include "headwise/heads/profile/examples.h"
#include "headwise/heads/profile/gates.h"
#include "headwise/heads/profile/semantic.h"
#include "headwise/ops/copy/copy.h"

namespace headwise {
HeadObserver::HeadObserver(Context& context, Profile& profile,
                           ObserverOptions options)
    : context_(context),
      profile_(profile),
      options_(std::move(options)),
      metrics_(options_.prefix, options_.metrics) {
  // The core is rows alone.
  if (options_.metrics == MetricSet::kCore) options_.text = false;
  metrics_.Prepare(profile_);
  if (options_.text && options_.model != nullptr) PrepareSemantic(profile_);
  for (size_t i = 0; i < profile_.heads.size(); ++i) {
    const HeadRef& head = profile_.heads[i];
    first_head_.try_emplace({head.kind, head.layer}, i);
  }
}

HeadObserver::~HeadObserver() = default;

void HeadObserver::Begin(std::span<const SequenceNotes> sequences) {
  sequences_ = sequences;
  notes_.clear();
  results_.reset();
}

HeadObserver::CachedNotes& HeadObserver::CachedOf(const AttentionSite& site,
                                                  const AttentionMask& mask) {
  const SiteSide side = SideOf(site.kind);
  for (CachedNotes& cached : notes_) {
    if (cached.side == side && cached.mask == mask) return cached;
  }
  CachedNotes made{side,
                   mask,
                   std::make_unique<SiteNotes>(
                       MakeSiteNotes(context_, sequences_, side, mask,
                                     options_.min_visible, options_.metrics)),
                   {}};
  made.notes->MoveTo(context_);
  if (options_.text && options_.model != nullptr && side != SiteSide::kCross) {
    const Stack& stack = side == SiteSide::kTarget ? *options_.model->decoder()
                                                   : options_.model->stack();
    made.samples = DrawSemantic(context_, *made.notes, *options_.model, stack);
  }
  notes_.push_back(std::move(made));
  return notes_.back();
}

void HeadObserver::BeforeAttention(const AttentionSite& site,
                                   const AttentionProblem& problem,
                                   AttentionArgs& args) {
  const SiteNotes& notes = *CachedOf(site, problem.mask).notes;
  if (!problem.packed ||
      args.q.shape[1] != static_cast<int64_t>(notes.rows.size())) {
    throw Error(ErrorCode::kInternal,
                {"profile",
                 "a run of the " + std::to_string(notes.rows.size()) +
                     " tokens that were announced",
                 std::to_string(args.q.shape[1]), ""});
  }
  results_ =
      std::make_unique<SiteResults>(context_, notes, problem.heads, args);
}

void HeadObserver::AfterAttention(const AttentionSite& site,
                                  const AttentionProblem& problem,
                                  const AttentionArgs& args) {
  AttentionArgs scores = args;
  scores.observation = nullptr;
  SiteResults& results = *results_;
  results.Finish(context_, problem, scores);
  const size_t first = first_head_.at({site.kind, site.layer});
  context_.pool().ParallelFor(problem.heads, [&](int64_t h, int) {
    metrics_.Add(results, h, first + h);
    if (!options_.text || results.notes().cross) return;
    std::vector<double>& histogram = profile_.histograms[first + h];
    for (size_t b = 0; b < results.notes().sequences.size(); ++b) {
      for (int c = 0; c < kHistogramBuckets; ++c) {
        histogram[c] += results.histogram(static_cast<int64_t>(b), h, c);
      }
    }
  });
  if (options_.text && args.gates) {
    AddGates(context_, args.gates, results.notes(), {&profile_, first});
  }
  if (options_.text && options_.table != nullptr) {
    KeepExamples(context_, {problem, scores}, results, FindBestRows(results),
                 *options_.table, {&profile_, first});
  }
  if (options_.text && options_.model != nullptr && !results.notes().cross) {
    const SemanticSamples& samples = CachedOf(site, problem.mask).samples;
    const Tensor agreement = SemanticAgreement(context_, {problem, scores},
                                               results.entropies(), samples);
    AddSemantic(ToVector<double>(context_, agreement.view()), samples,
                {&profile_, first});
  }
  results_.reset();
}

}  // namespace headwise
